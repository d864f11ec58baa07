//! The workloads whose threads draw what to do next: those of YCSB, and two of db_bench.
//!
//! New keys are `num`, `num + 1`, … (YCSB's `insertorder=ordered`); in a database that was there before, those behind its last
//! one. Zipfian and uniform draws go to the loaded keys alone, where YCSB has them of the new ones, too, if they are zipfian.
//! Several threads insert at once, and a key may be asked for once it and all inserted before it are there, as in YCSB: so
//! every read hits.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use thermocline::{Db, Durability, Result};

use crate::distribution::Draw;
use crate::keys::KeyMaker;
use crate::load::Pen;
use crate::plan::Plan;
use crate::reading::scan;
use crate::rng::Rng;
use crate::threads::{Pace, Share};
use crate::values::Values;
use crate::workload::Operation;

/// Keys that the threads of a run add.
#[derive(Debug, Default)]
pub(crate) struct Inserts {
    begun: AtomicU64,
    /// The first so many are there.
    there: AtomicU64,
    /// Those that are there while an earlier one is not.
    ahead: Mutex<BTreeSet<u64>>,
}

impl Inserts {
    /// Those of a run: where it uses what is there they go on behind what earlier runs have added.
    pub fn of(plan: &Plan, db: &Db) -> Result<Inserts> {
        let mut mix = plan.workload.mix().iter();
        let inserts = mix.any(|(operation, _)| *operation == Operation::Insert);
        if !inserts || !plan.use_existing {
            return Ok(Inserts::default());
        }
        let mut cursor = db.cursor()?;
        let is_any = cursor.seek_to_last()?;
        let index = KeyMaker::new(plan.key_size).index_of(cursor.key());
        // A key that is none of a run's has no index, or one so large that no run comes to it.
        let last = index.filter(|index| is_any && *index < u64::MAX >> 1);
        let before = last.map_or(0, |last| (last + 1).saturating_sub(plan.num));
        Ok(Inserts {
            begun: AtomicU64::new(before),
            there: AtomicU64::new(before),
            ahead: Mutex::default(),
        })
    }

    /// The number of the next new key, from 0.
    fn begin(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes that a key is there.
    fn end(&self, number: u64) {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        ahead.insert(number);
        let mut there = self.there.load(Ordering::Relaxed);
        while ahead.remove(&there) {
            there += 1;
        }
        // Partner: the acquire load in `there`. Whoever sees the number finds the keys.
        self.there.store(there, Ordering::Release);
    }

    /// How many keys are there without a gap.
    fn there(&self) -> u64 {
        self.there.load(Ordering::Acquire)
    }
}

/// One thread.
pub(crate) struct Mixed {
    mix: &'static [(Operation, u64)],
    share: Share,
    rng: Rng,
    draw: Draw,
    keys: KeyMaker,
    values: Values,
    num: u64,
    inserts: Arc<Inserts>,
    scan_length: u64,
    durability: Durability,
}

impl Mixed {
    /// Thread `thread` of `plan`'s workload.
    pub fn new(plan: &Plan, thread: u64, inserts: Arc<Inserts>) -> Mixed {
        let share = Share::of_operations(plan, thread);
        let first = Share::of(plan.num, thread, plan.threads as u64).from;
        let what = plan.effective_distribution();
        Mixed {
            mix: plan.workload.mix(),
            share,
            rng: Rng::of_part(plan.seed, (1 << 32) + thread),
            draw: Draw::new(what, plan.num, plan.seed, thread, first),
            keys: KeyMaker::new(plan.key_size),
            values: plan.values(thread),
            num: plan.num,
            inserts,
            scan_length: plan.effective_scan_length(),
            durability: plan.durability,
        }
    }

    /// Does the share.
    pub fn work(mut self, db: &Db, pace: &mut Pace<'_>) -> Result<()> {
        let mut pen = Pen::new(db, self.durability);
        for _ in self.share.from..self.share.until {
            let operation = self.next();
            self.act(operation, db, &mut pen, pace)?;
            if !pace.lap(operation, 1, 1) {
                break;
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Operation {
        let mut place = self.rng.below(100);
        for &(operation, percent) in self.mix {
            if place < percent {
                return operation;
            }
            place -= percent;
        }
        self.mix[0].0
    }

    fn act(
        &mut self,
        operation: Operation,
        db: &Db,
        pen: &mut Pen<'_>,
        pace: &mut Pace<'_>,
    ) -> Result<()> {
        if operation == Operation::Insert {
            let number = self.inserts.begin();
            pen.put(self.keys.key(self.num + number), self.values.next_value())?;
            self.inserts.end(number);
            return Ok(());
        }
        let key = self.keys.key(self.draw.index(self.inserts.there()));
        match operation {
            Operation::Scan => {
                let entries = 1 + self.rng.below(self.scan_length);
                scan(&mut db.cursor()?, key, entries, &mut pace.tally)?;
            }
            _ => {
                if operation.finds()
                    && let Some(value) = db.get(key)?
                {
                    black_box(value.len());
                    pace.tally.found += 1;
                }
                if operation != Operation::Read {
                    pen.put(key, self.values.next_value())?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_shows_when_all_before_it_are_there() {
        let inserts = Inserts::default();
        let numbers: Vec<u64> = (0..4).map(|_| inserts.begin()).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        for (ended, there) in [(1, 0), (3, 0), (0, 2), (2, 4)] {
            inserts.end(ended);
            assert_eq!(inserts.there(), there, "after {ended}");
        }
    }
}
