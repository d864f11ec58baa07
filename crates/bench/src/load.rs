//! Writing keys: the load before a reading workload, and the writing workloads.

use thermocline::{Db, Durability, Result};

use crate::distribution::Draw;
use crate::keys::{KeyMaker, Permutation};
use crate::plan::{Plan, Workload};
use crate::threads::{Pace, Share, spread};
use crate::values::Values;
use crate::watch::Watch;

/// Bytes of keys and values that the load commits together, about.
const LOAD_BATCH_BYTES: usize = 256 << 10;

/// Which key a write goes to.
enum Pick {
    InOrder,
    Shuffled(Permutation),
    Drawn(Box<Draw>),
}

/// One writing thread.
pub(crate) struct Writer {
    share: Share,
    pick: Pick,
    keys: KeyMaker,
    values: Values,
    batch: usize,
    durability: Durability,
}

impl Writer {
    /// The writer of `plan`'s own workload for thread `thread`.
    pub fn of_workload(plan: &Plan, thread: u64) -> Writer {
        let threads = plan.threads as u64;
        let mut share = Share::of(plan.num, thread, threads);
        let pick = match plan.workload {
            Workload::FillSeq => Pick::InOrder,
            Workload::FillRandom => Pick::Shuffled(Permutation::new(plan.num, plan.seed)),
            _ => {
                let what = plan.effective_distribution();
                let draw = Draw::new(what, plan.num, plan.seed, thread, share.from);
                if plan.duration.is_some() {
                    share.until = u64::MAX;
                }
                Pick::Drawn(Box::new(draw))
            }
        };
        Writer {
            share,
            pick,
            keys: KeyMaker::new(plan.key_size),
            values: Values::new(plan.value_size, plan.compressible, plan.seed + thread),
            batch: plan.batch,
            durability: plan.durability,
        }
    }

    fn of_load(plan: &Plan, thread: u64) -> Writer {
        let entry_bytes = (plan.key_size + plan.value_size).max(1);
        Writer {
            share: Share::of(plan.num, thread, plan.threads as u64),
            pick: Pick::Shuffled(Permutation::new(plan.num, plan.seed)),
            keys: KeyMaker::new(plan.key_size),
            values: Values::new(plan.value_size, plan.compressible, plan.seed + thread),
            batch: match plan.batch {
                1 => (LOAD_BATCH_BYTES / entry_bytes).clamp(1, 1000),
                several => several,
            },
            durability: plan.durability,
        }
    }

    /// Writes the share.
    pub fn write(mut self, db: &Db, pace: &mut Pace<'_>) -> Result<()> {
        let Share { from, until, .. } = self.share;
        if self.batch == 1 && self.durability == Durability::Immediate {
            for i in from..until {
                let index = self.pick.index(i);
                db.put(self.keys.key(index), self.values.next_value())?;
                if !pace.lap(1, 1) {
                    break;
                }
            }
            return Ok(());
        }
        let mut batch = db.batch();
        let mut i = from;
        while i < until {
            let end = until.min(i.saturating_add(self.batch as u64));
            for i in i..end {
                let index = self.pick.index(i);
                batch.put(self.keys.key(index), self.values.next_value());
            }
            batch.commit(self.durability)?;
            if !pace.lap(end - i, 1) {
                break;
            }
            i = end;
        }
        Ok(())
    }
}

impl Pick {
    #[inline]
    fn index(&mut self, i: u64) -> u64 {
        match self {
            Pick::InOrder => i,
            Pick::Shuffled(order) => order.at(i),
            Pick::Drawn(draw) => draw.index(),
        }
    }
}

/// Writes `num` distinct keys in random order, in batches.
pub(crate) fn load(db: &Db, plan: &Plan, watch: &Watch) -> Result<()> {
    watch.begin("loading", plan.num);
    let writers = (0..plan.threads as u64)
        .map(|thread| Writer::of_load(plan, thread))
        .collect();
    spread(writers, None, watch, |writer: Writer, pace| {
        writer.write(db, pace)
    })?;
    Ok(())
}
