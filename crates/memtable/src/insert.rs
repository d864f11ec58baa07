//! Filling indexes: from the write path, and from the items that a walk found.

use std::sync::atomic::{AtomicUsize, Ordering};

use thermocline_art::{Leaf, Moments, NewEntry};
use thermocline_base::sync::{Mutex, lock};
use thermocline_base::{CfId, Result, SeqNo};
use thermocline_pm::{LINE, PmOff};

use crate::format::RECORD_HEADER;
use crate::table::Memtable;
use crate::walk::{ItemRef, each_record};

impl Memtable {
    /// Puts a stored record into the index of its family. Where the key is there already, `moments`
    /// is asked, under the lock of the key's place, for those at which somebody may still read:
    /// `visible` among them, and all that `visible` may become before a later insert.
    ///
    /// # Errors
    /// Corruption of another record whose key had to be read.
    pub fn insert<M: Moments>(
        &self,
        cf: CfId,
        key: &[u8],
        at: PmOff,
        seqno: SeqNo,
        moments: impl FnOnce() -> M,
    ) -> Result<()> {
        let tree = self.tree_or_new(cf);
        let guard = tree.pin();
        let leaf = Leaf::of(key, at.0);
        tree.update(&guard, key, self.records(), |present| {
            let Some(entry) = present else {
                return Ok(Some(NewEntry::from(leaf)));
            };
            let moments = moments();
            // Verified: its seqno decides which versions stay. A record that has rotted is no reason to
            // refuse its successor, which is stored already: it counts as old as can be, so that
            // whoever may need it finds it, and the error.
            let present = || {
                let record = self.records().read(PmOff(entry.leaf().offset()), true);
                Ok(record.map_or(self.base(), |record| record.seqno))
            };
            entry.with_version(seqno, leaf, present, &moments).map(Some)
        })?;
        Ok(())
    }

    /// Puts the records of valid items into the indexes, by `threads` threads: those that `admit`,
    /// given the place, family and key of each, takes. Of each key the newest record stays, in
    /// whatever order they come: nobody reads the past of a store that is being opened.
    ///
    /// # Errors
    /// Corruption of a record whose key had to be read; those of `admit`.
    pub fn replay(
        &self,
        items: &[ItemRef],
        threads: usize,
        admit: impl Fn(PmOff, CfId, &[u8]) -> Result<bool> + Sync,
    ) -> Result<()> {
        const STEP: usize = 256;
        let next = AtomicUsize::new(0);
        let work = || -> Result<()> {
            loop {
                let from = next.fetch_add(STEP, Ordering::Relaxed);
                if from >= items.len() {
                    return Ok(());
                }
                let to = (from + STEP).min(items.len());
                for (i, item) in items[from..to].iter().enumerate() {
                    if let Some(ahead) = items.get(from + i + 4) {
                        self.records().region.prefetch(ahead.at);
                        self.records().region.prefetch(ahead.at.plus(LINE));
                    }
                    self.replay_item(item, &admit)?;
                }
            }
        };
        if threads <= 1 || items.len() <= STEP {
            return work();
        }
        let failed = Mutex::new(Ok(()));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    if let Err(error) = work() {
                        *lock(&failed) = Err(error);
                        // The others stop at their next step.
                        next.store(items.len(), Ordering::Relaxed);
                    }
                });
            }
        });
        std::mem::replace(&mut *lock(&failed), Ok(()))
    }

    fn replay_item(
        &self,
        item: &ItemRef,
        admit: impl Fn(PmOff, CfId, &[u8]) -> Result<bool>,
    ) -> Result<()> {
        let region = &self.records().region;
        self.count_item_beside(u64::from(item.bytes), u64::from(item.count));
        each_record(region, item, |at, head, seqno| {
            let key = &region.bytes(at, head.head_len())?[RECORD_HEADER..];
            if !admit(at, CfId(head.cf), key)? {
                return Ok(());
            }
            let tree = self.tree_or_new(CfId(head.cf));
            let guard = tree.pin();
            let leaf = Leaf::of(key, at.0);
            tree.update(&guard, key, self.records(), |present| match present {
                None => Ok(Some(NewEntry::from(leaf))),
                Some(entry) => {
                    let there = PmOff(entry.leaf().offset());
                    let newer = self.records().read(there, false)?.seqno > SeqNo(seqno);
                    Ok((!newer).then(|| NewEntry::from(leaf)))
                }
            })?;
            Ok(())
        })
    }
}
