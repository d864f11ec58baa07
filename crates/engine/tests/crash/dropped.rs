//! Workloads in which range tombstones cover whole tables, which go unread: in files and in persistent memory, of all levels, at once
//! and when a reader has ended, behind tombstones that are durable and such as are not. A crash finds the tables or none of them, and
//! in any case what was deleted exactly as far as the delete survived.

use thermocline_base::CfId;
use thermocline_engine::{CompactionReason, Durability};
use thermocline_env::simulated::SeededRandom;

use crate::life::Life;
use crate::oracle::{Op, Step};
use crate::workload::{run, value};

/// Does what is due, and reads back all of it.
fn settle(life: &Life) {
    while life.engine().compact_once().unwrap() {}
    let model = life.visible();
    let found = life.dump(&[model.clone().into()]).unwrap();
    assert!(found == model, "it reads as before");
}

/// How many times tables have gone because a range tombstone covers them.
fn dropped(life: &Life) -> u64 {
    let reasons = life.engine().metrics().compaction.reasons;
    let of = |wanted| reasons.iter().find(|(reason, _)| *reason == wanted);
    of(CompactionReason::Deleted).map_or(0, |(_, jobs)| *jobs)
}

/// A stretch of keys is written, sinks, and is deleted, again and again.
pub fn dropping(life: &mut Life, random: &SeededRandom) {
    let mut all = 0;
    for round in 0..6u8 {
        for n in 0..6 {
            run(life, &Op::put(0, &[b'd', n, round % 2], value(random, 150)));
        }
        run(life, &Op::put(0, &[b'm', round], value(random, 100)));
        life.engine().flush().unwrap();
        settle(life);
        let held = (round % 3 == 1).then(|| (life.engine().snapshot(), life.expected()));
        let clear = Op::Steps(vec![Step::Clear {
            cf: 0,
            from: b"d".to_vec(),
            to: (round != 4).then(|| b"e".to_vec()),
        }]);
        let durability = match round % 2 {
            0 => Durability::Buffered,
            _ => Durability::Immediate,
        };
        assert!(life.run_as(&clear, durability).unwrap());
        let before = dropped(life);
        settle(life);
        if round % 2 == 0 {
            assert_eq!(dropped(life), before, "it is not durable yet");
            run(life, &Op::put(0, &[b'm', round], value(random, 100)));
            settle(life);
        }
        if let Some((snapshot, model)) = held {
            assert_eq!(dropped(life), before, "somebody reads");
            for ((_, key), value) in &model.data {
                let found = snapshot.value(CfId::DEFAULT, key).unwrap();
                assert_eq!(found.as_deref(), Some(&**value));
            }
            drop(snapshot);
            settle(life);
        }
        all += u64::from(dropped(life) > before);
        if round == 2 {
            life.close().unwrap();
            life.open().unwrap();
        }
    }
    assert_eq!(all, 6);
}
