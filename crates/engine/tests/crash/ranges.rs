//! Workloads of range deletes: alone, in batches that put into what they delete and delete what they put,
//! several groups in flight that finish in any order, buffered, staged, over sealed memtables that die
//! of them, through tables, and over lives. After a crash a range is deleted wholly or not at all, in its place in the order of
//! writes (`oracle`).

use thermocline_base::options::Options;
use thermocline_engine::{Durability, InFlight};
use thermocline_env::simulated::SeededRandom;
use thermocline_pm::SimPm;

use crate::groups::rare_write_back;
use crate::life::Life;
use crate::oracle::{Op, Step};
use crate::staged::small_items;
use crate::workload::{below, change, key, run, value};

/// Some of the few keys, all from one on, or all.
fn clear(random: &SeededRandom, families: u16) -> Step {
    let (a, b) = (key(random), key(random));
    let cf = u16::try_from(below(random, usize::from(families))).unwrap();
    Step::Clear {
        cf,
        from: a.min(b).to_vec(),
        to: (a != b && random.below(5) > 0).then(|| a.max(b).to_vec()),
    }
}

fn step(random: &SeededRandom, families: u16) -> Step {
    match random.below(3) {
        0 => clear(random, families),
        _ => Step::Change(change(random, families)),
    }
}

fn steps(random: &SeededRandom, families: u16) -> Op {
    let len = [1, 1, 2, 6][below(random, 4)];
    Op::Steps((0..len).map(|_| step(random, families)).collect())
}

/// Over seals, with memtables that die of what newer ones delete.
pub fn ranges(life: &mut Life, random: &SeededRandom) {
    for n in 0..14 {
        run(life, &steps(random, 2));
        if n % 2 == 0 {
            run(life, &Op::put(0, key(random), value(random, 500)));
        }
        match random.below(6) {
            0 | 1 => drop(life.engine().reclaim().unwrap()),
            2 => drop(life.engine().flush().unwrap()),
            _ => {}
        }
    }
    // Everything goes, and what held it.
    for cf in [0, 1] {
        let all = Step::Clear {
            cf,
            from: Vec::new(),
            to: None,
        };
        run(life, &Op::Steps(vec![all]));
    }
    run(life, &Op::put(0, b"filler", value(random, 2500)));
    run(life, &Op::put(0, b"filler", value(random, 2500)));
    life.engine().reclaim().unwrap();
    let metrics = life.engine().metrics();
    assert!(metrics.memtables_dropped >= 2, "{metrics:?}");
}

/// Several groups in flight, each overtaken by any other, and buffered ones.
pub fn flying(life: &mut Life, random: &SeededRandom) {
    let mut flying: Vec<(InFlight, Durability, u64)> = Vec::new();
    let carry = |life: &Life, (write, durability, writer): (InFlight, Durability, u64)| {
        let _writer = SimPm::as_writer(writer);
        life.carry(write, durability);
    };
    for writer in 1..=18 {
        let durability = match random.below(3) {
            0 => Durability::Buffered,
            _ => Durability::Immediate,
        };
        let write = life.begin(&steps(random, 2), durability);
        flying.push((write, durability, writer));
        while flying.len() > below(random, 4) {
            carry(life, flying.swap_remove(below(random, flying.len())));
        }
    }
    while !flying.is_empty() {
        carry(life, flying.swap_remove(below(random, flying.len())));
    }
}

pub fn staged_and_buffered(options: &mut Options) {
    small_items(options);
    rare_write_back(options);
}

/// Staged batches with range deletes among their records, between others, through closes.
pub fn staged(life: &mut Life, random: &SeededRandom) {
    for n in 0..3 {
        run(life, &steps(random, 2));
        let large = (0..9).map(|n| match n % 3 {
            0 => clear(random, 2),
            _ => {
                let mut change = change(random, 2);
                change.value = Some(value(random, 700).into());
                Step::Change(change)
            }
        });
        run(life, &Op::Steps(large.collect()));
        assert!(
            life.run_as(&steps(random, 2), Durability::Buffered)
                .unwrap()
        );
        if n == 1 {
            life.close().unwrap();
            life.open().unwrap();
        }
    }
}
