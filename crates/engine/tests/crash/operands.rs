//! Workloads of merges: operands on values, on deletes, on ranges that were deleted and on nothing, alone and in
//! batches, several groups in flight that finish in any order, staged, over sealed memtables that die, through tables in
//! persistent memory and files, and over lives. After a crash each operand counts once, in its place in the order of writes, or
//! not at all: they are appended, so that a value says which operands it is made of (`oracle`).

use std::ops::Bound::Unbounded;

use thermocline_base::CfId;
use thermocline_engine::{Durability, InFlight};
use thermocline_env::simulated::SeededRandom;
use thermocline_pm::SimPm;

use crate::life::Life;
use crate::oracle::{Op, Step};
use crate::workload::{below, change, key, run, value};

/// The family whose keys have operands.
pub const MERGED: u16 = 1;

/// Makes it.
pub fn family(life: &mut Life, _: &SeededRandom) {
    run(life, &Op::Merging("red".into()));
}

/// Every operand is another one.
fn merge(random: &SeededRandom, len: usize) -> Step {
    Step::Merge {
        cf: MERGED,
        key: key(random).to_vec(),
        operand: value(random, len),
    }
}

fn step(random: &SeededRandom) -> Step {
    match random.below(8) {
        0 => Step::Change(change(random, 2)),
        1 => {
            let (a, b) = (key(random), key(random));
            Step::Clear {
                cf: MERGED,
                from: a.min(b).to_vec(),
                to: (a != b).then(|| a.max(b).to_vec()),
            }
        }
        _ => merge(random, 9),
    }
}

fn steps(random: &SeededRandom) -> Op {
    let len = [1, 1, 2, 7][below(random, 4)];
    Op::Steps((0..len).map(|_| step(random)).collect())
}

/// One key has more operands than a block of its list takes: one, and then all others, which meet it.
fn many(life: &mut Life, random: &SeededRandom) {
    let one = key(random).to_vec();
    for count in [1, 20] {
        let operands = (0..count).map(|_| Step::Merge {
            cf: MERGED,
            key: one.clone(),
            operand: value(random, 3),
        });
        run(life, &Op::Steps(operands.collect()));
    }
}

/// Over seals and flushes, with memtables that die, and over lives.
pub fn operands(life: &mut Life, random: &SeededRandom) {
    for n in 0..16 {
        run(life, &steps(random));
        if n % 5 == 1 {
            many(life, random);
        }
        if n % 2 == 0 {
            run(life, &Op::put(0, key(random), value(random, 500)));
        }
        match random.below(8) {
            0 | 1 => drop(life.engine().reclaim().unwrap()),
            2 => drop(life.engine().flush().unwrap()),
            3 => {
                life.close().unwrap();
                life.open().unwrap();
            }
            _ => {}
        }
    }
}

/// Through tables of all kinds, while somebody reads in between.
pub fn sinking(life: &mut Life, random: &SeededRandom) {
    let mut held = None;
    for round in 0..4 {
        for _ in 0..4 {
            run(life, &steps(random));
        }
        many(life, random);
        run(life, &Op::put(0, key(random), value(random, 900)));
        if round == 1 {
            held = Some((life.engine().snapshot(), life.expected()));
        }
        life.engine().flush().unwrap();
        let all = (Unbounded, Unbounded);
        life.engine().compact(CfId(MERGED), all).unwrap();
        if round == 2 {
            let (snapshot, model) = held.take().expect("one is held");
            let own = model.data.iter().filter(|((cf, _), _)| *cf == MERGED);
            for ((_, key), value) in own {
                let found = snapshot.value(CfId(MERGED), key).unwrap();
                assert_eq!(found.as_deref(), Some(&**value));
            }
        }
        let model = life.visible();
        let found = life.dump(&[model.clone().into()]).unwrap();
        assert!(found == model, "it reads as before");
    }
}

/// Several groups in flight, each overtaken by any other, and buffered ones; and staged batches between them.
pub fn flying(life: &mut Life, random: &SeededRandom) {
    let carry = |life: &Life, (write, durability, writer): (InFlight, Durability, u64)| {
        let _writer = SimPm::as_writer(writer);
        life.carry(write, durability);
    };
    for round in 0..3 {
        let mut flying: Vec<(InFlight, Durability, u64)> = Vec::new();
        for writer in 1..=7 {
            let durability = match random.below(3) {
                0 => Durability::Buffered,
                _ => Durability::Immediate,
            };
            let write = life.begin(&steps(random), durability);
            flying.push((write, durability, writer));
            while flying.len() > below(random, 4) {
                carry(life, flying.swap_remove(below(random, flying.len())));
            }
        }
        while !flying.is_empty() {
            carry(life, flying.swap_remove(below(random, flying.len())));
        }
        let large = (0..9).map(|n| match n % 4 {
            3 => step(random),
            _ => merge(random, 600),
        });
        run(life, &Op::Steps(large.collect()));
        if round == 1 {
            life.close().unwrap();
            life.open().unwrap();
        }
    }
}
