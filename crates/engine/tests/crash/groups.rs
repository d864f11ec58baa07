//! Workloads with several groups in flight: each is granted, stored, persisted and finished as if by a
//! thread of its own, whose fences cover nobody else's write-backs; between any two steps the world
//! may crash. And buffered writes, of which a crash may take the last ones and nothing else.

use thermocline_base::options::Options;
use thermocline_engine::{Durability, InFlight};
use thermocline_env::simulated::SeededRandom;
use thermocline_pm::SimPm;

use crate::life::Life;
use crate::oracle::Op;
use crate::workload::{batch, below, change, key, run, value};

/// Groups in flight at most.
const FLYING: usize = 4;

/// Everything is written back when something durable comes behind it, or when asked for.
pub fn rare_write_back(options: &mut Options) {
    options.commit.buffered_bytes = 1 << 20;
    options.memtable.bytes_max = 4 << 10;
}

pub fn families(life: &mut Life, _: &SeededRandom) {
    run(life, &Op::Family("red".into()));
}

fn durability(random: &SeededRandom) -> Durability {
    match random.below(2) {
        0 => Durability::Immediate,
        _ => Durability::Buffered,
    }
}

/// A write of one family or of both.
fn write(random: &SeededRandom) -> Op {
    match random.below(3) {
        0 => batch(random, 2),
        1 => Op::put(0, key(random), value(random, 700)),
        _ => Op::Write(vec![change(random, 2)]),
    }
}

struct Flying {
    write: InFlight,
    durability: Durability,
    writer: u64,
}

impl Flying {
    fn carry(self, life: &Life) {
        let _writer = SimPm::as_writer(self.writer);
        life.carry(self.write, self.durability);
    }
}

/// Several writers; each is overtaken by any of the others.
pub fn groups(life: &mut Life, random: &SeededRandom) {
    let mut flying: Vec<Flying> = Vec::new();
    for writer in 1..=24 {
        let durability = durability(random);
        flying.push(Flying {
            write: life.begin(&write(random), durability),
            durability,
            writer,
        });
        while flying.len() > below(random, FLYING) {
            flying.swap_remove(below(random, flying.len())).carry(life);
            if random.below(6) == 0 {
                life.engine().sync().unwrap();
            }
        }
    }
    while !flying.is_empty() {
        flying.swap_remove(below(random, flying.len())).carry(life);
    }
}

fn write_as(life: &Life, op: &Op, durability: Durability) {
    assert!(life.run_as(op, durability).unwrap(), "there is room");
}

/// Buffered writes among durable ones, over the seals of memtables, closing and opening.
pub fn buffered(life: &mut Life, random: &SeededRandom) {
    for n in 0..15 {
        write_as(life, &write(random), durability(random));
        match random.below(12) {
            0 => life.engine().sync().unwrap(),
            1 => life.engine().cover_idle().unwrap(),
            2 => life.engine().work_ahead().unwrap(),
            3 if n % 3 == 0 => {
                life.close().unwrap();
                life.open().unwrap();
            }
            4 => run(life, &Op::Family(format!("family {n}"))),
            5 => life.commit_nothing(),
            _ => {}
        }
    }
}

/// Long stretches of buffered writes: much that a crash may take.
pub fn mixed(life: &mut Life, random: &SeededRandom) {
    for _ in 0..6 {
        for _ in 0..1 + below(random, 5) {
            write_as(life, &write(random), Durability::Buffered);
        }
        match random.below(3) {
            0 => life.engine().sync().unwrap(),
            _ => write_as(life, &write(random), Durability::Immediate),
        }
    }
}
