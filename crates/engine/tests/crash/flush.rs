//! Workloads in which memtables are flushed into tables. A crash at any instant, inside the recovery
//! from another one too, finds the memtables, or the tables, or both, and reads the same from them
//! (`engine::flush`, "What a crash leaves"). A second life flushes again (`check::write_on`).

use thermocline_base::CfId;
use thermocline_base::options::Options;
use thermocline_engine::{Durability, Snapshot};
use thermocline_env::simulated::SeededRandom;

use crate::groups::rare_write_back;
use crate::life::Life;
use crate::oracle::{Change, Model, Op};
use crate::workload::{below, change, run, value};

/// Memtables of some hundred bytes more than these workloads write between two flushes.
pub fn few_memtables(options: &mut Options) {
    rare_write_back(options);
    options.memtable.bytes_max = 2 << 10;
}

fn write(life: &Life, random: &SeededRandom) {
    let families = life.visible().families;
    let of = |n: usize| families[n % families.len()].id;
    let op = match random.below(3) {
        0 => Op::put(of(0), b"ab", value(random, 400)),
        1 => Op::Write(
            (0..3)
                .map(|n| Change {
                    cf: of(n),
                    ..change(random, 1)
                })
                .collect(),
        ),
        _ => Op::Write(vec![Change {
            cf: of(below(random, families.len())),
            ..change(random, 1)
        }]),
    };
    let durability = match random.below(3) {
        0 => Durability::Buffered,
        _ => Durability::Immediate,
    };
    assert!(life.run_as(&op, durability).unwrap(), "there is room");
}

/// What a snapshot was taken of is what it reads.
fn reads_as_then(snapshot: &Snapshot, model: &Model) {
    for family in &model.families {
        let cf = CfId(family.id);
        let mut cursor = snapshot
            .cursor(thermocline_engine::Family {
                id: cf,
                reverse: family.reverse,
            })
            .unwrap();
        let mut more = cursor.seek_to_first().unwrap();
        for ((_, key), value) in model.data.iter().filter(|((of, _), _)| *of == family.id) {
            assert!(more && cursor.key() == key && cursor.value() == &**value);
            let found = snapshot.get(cf, key, <[u8]>::to_vec).unwrap();
            assert_eq!(found.as_deref(), Some(&**value));
            more = cursor.next().unwrap();
        }
        assert!(!more);
    }
}

/// Flushes, and reads back what it can from tables alone.
fn flush(life: &Life) {
    life.engine().flush().unwrap();
    let model = life.visible();
    let found = life.dump(&[model.clone().into()]).unwrap();
    assert!(found == model, "{}", model.difference(&found));
}

/// Writing and flushing in turn, beside a snapshot for which older versions stay, and a value that is
/// pinned in a memtable while younger ones are flushed.
pub fn flushes(life: &mut Life, random: &SeededRandom) {
    let mut held: Option<(Snapshot, Model)> = None;
    let mut pinned = None;
    for n in 0..9 {
        write(life, random);
        match n {
            1 => held = Some((life.engine().snapshot(), life.visible())),
            2 => {
                run(life, &Op::put(0, b"ab", value(random, 1100)));
                let (snapshot, model) = held.take().expect("one is held");
                flush(life);
                reads_as_then(&snapshot, &model);
                run(life, &Op::put(0, b"pinned", value(random, 1100)));
                pinned = life.engine().value(CfId::DEFAULT, b"pinned").unwrap();
                assert!(pinned.as_ref().is_some_and(|value| value.is_pinned()));
            }
            4 => flush(life),
            5 => run(life, &Op::delete(0, b"pinned")),
            6 => {
                flush(life);
                let dropped = life.engine().metrics().memtables_dropped;
                drop(pinned.take());
                life.engine().reclaim().unwrap();
                assert!(life.engine().metrics().memtables_dropped > dropped);
            }
            _ => {}
        }
    }
}

/// As `few_memtables`, and flushed by themselves when some of them have a zone each.
pub fn by_themselves(options: &mut Options) {
    rare_write_back(options);
    options.memtable.bytes_max = 2 << 10;
    options.flush.automatic = true;
    options.flush.pm_percent = 2;
}

/// The store flushes by itself, at the ends of writes that make it due.
pub fn absorbed(life: &mut Life, random: &SeededRandom) {
    for n in 0..6u8 {
        run(life, &Op::put(0, &[n % 5], value(random, 600)));
    }
    write(life, random);
    assert!(life.engine().metrics().flushes > 0);
}

/// A family that is dropped when its records are in memtables and in tables, over lives that close.
pub fn flushed_lives(life: &mut Life, random: &SeededRandom) {
    run(life, &Op::Family("red".into()));
    for _ in 0..3 {
        write(life, random);
    }
    flush(life);
    let red = life.visible().id("red").expect("it was made");
    run(life, &Op::put(red, b"ab", value(random, 30)));
    life.close().unwrap();
    life.open().unwrap();
    run(life, &Op::Drop("red".into()));
    write(life, random);
    flush(life);
    life.close().unwrap();
    life.open().unwrap();
}
