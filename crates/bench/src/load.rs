//! Writing keys: the load before a reading workload, and the writing workloads.

use std::sync::Arc;

use thermocline::{Db, Durability, Result};

use crate::distribution::Draw;
use crate::keys::{KeyMaker, Permutation};
use crate::plan::Plan;
use crate::threads::{Limits, Pace, Share, spread};
use crate::values::Values;
use crate::watch::Watch;
use crate::workload::{Operation, Workload};

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
    /// Writes or deletes.
    what: Operation,
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
        let shuffled = || Pick::Shuffled(Permutation::new(plan.num, plan.seed));
        let pick = match plan.workload {
            Workload::FillSeq => Pick::InOrder,
            Workload::FillRandom | Workload::YcsbLoad => shuffled(),
            _ => {
                let what = plan.effective_distribution();
                let draw = Draw::new(what, plan.num, plan.seed, thread, share.from);
                share = Share::of_operations(plan, thread);
                Pick::Drawn(Box::new(draw))
            }
        };
        Writer {
            share,
            pick,
            what: match plan.workload {
                Workload::DeleteRandom => Operation::Delete,
                _ => Operation::Write,
            },
            keys: KeyMaker::new(plan.key_size),
            values: plan.values(thread),
            batch: plan.batch,
            durability: plan.durability,
        }
    }

    fn of_load(plan: &Plan, thread: u64) -> Writer {
        let entry_bytes = (plan.key_size + plan.value_size).max(1);
        Writer {
            share: Share::of(plan.num, thread, plan.threads as u64),
            pick: Pick::Shuffled(Permutation::new(plan.num, plan.seed)),
            what: Operation::Write,
            keys: KeyMaker::new(plan.key_size),
            values: plan.values(thread),
            // A batch of reads says nothing about how the keys came to be.
            batch: match plan.batch {
                several if several > 1 && plan.workload != Workload::MultiReadRandom => several,
                _ => (LOAD_BATCH_BYTES / entry_bytes).clamp(1, 1000),
            },
            durability: plan.durability,
        }
    }

    /// Writes the share.
    pub fn write(mut self, db: &Db, pace: &mut Pace<'_>) -> Result<()> {
        let Share { from, until, .. } = self.share;
        if self.batch == 1 {
            for i in from..until {
                let index = self.pick.index(i);
                let key = self.keys.key(index);
                match self.what {
                    Operation::Delete => db.delete_with(key, self.durability)?,
                    _ => db.put_with(key, self.values.next_value(), self.durability)?,
                }
                if !pace.lap(self.what, 1, 1) {
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
                let key = self.keys.key(index);
                match self.what {
                    Operation::Delete => batch.delete(key),
                    _ => batch.put(key, self.values.next_value()),
                };
            }
            batch.commit(self.durability)?;
            if !pace.lap(self.what, end - i, 1) {
                break;
            }
            i = end;
        }
        Ok(())
    }
}

/// A thread that overwrites keys for as long as others hold the token.
pub(crate) struct Beside {
    draw: Draw,
    keys: KeyMaker,
    values: Values,
    durability: Durability,
    token: Arc<()>,
}

impl Beside {
    /// The one beside `plan`'s threads, which hold clones of `token`.
    pub fn new(plan: &Plan, token: Arc<()>) -> Beside {
        let thread = plan.threads as u64;
        let what = plan.effective_distribution();
        Beside {
            draw: Draw::new(what, plan.num, plan.seed, thread, 0),
            keys: KeyMaker::new(plan.key_size),
            values: plan.values(thread),
            durability: plan.durability,
            token,
        }
    }

    /// Writes until the others are done.
    pub fn write(mut self, db: &Db, pace: &mut Pace<'_>) -> Result<()> {
        let mut pen = Pen::new(db, self.durability);
        pace.beside();
        loop {
            let key = self.keys.key(self.draw.index(0));
            pen.put(key, self.values.next_value())?;
            let go_on = pace.lap(Operation::Write, 1, 1);
            if !go_on || Arc::strong_count(&self.token) == 1 {
                return Ok(());
            }
        }
    }
}

/// Writes one key at a time, as durably as the plan says.
pub(crate) struct Pen<'a> {
    db: &'a Db,
    durability: Durability,
}

impl<'a> Pen<'a> {
    pub fn new(db: &'a Db, durability: Durability) -> Pen<'a> {
        Pen { db, durability }
    }

    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.put_with(key, value, self.durability)
    }
}

impl Pick {
    #[inline]
    fn index(&mut self, i: u64) -> u64 {
        match self {
            Pick::InOrder => i,
            Pick::Shuffled(order) => order.at(i),
            Pick::Drawn(draw) => draw.index(0),
        }
    }
}

/// Writes `num` distinct keys in random order, in batches.
pub(crate) fn load(db: &Db, plan: &Plan, watch: &Watch) -> Result<()> {
    watch.begin("loading", plan.num);
    let writers = (0..plan.threads as u64)
        .map(|thread| Writer::of_load(plan, thread))
        .collect();
    let what = [Operation::Write];
    spread(
        writers,
        &what,
        Limits::default(),
        watch,
        |writer: Writer, pace| writer.write(db, pace),
    )?;
    Ok(())
}
