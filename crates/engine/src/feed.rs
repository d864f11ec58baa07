//! What the store keeps for change feeds, and lets them read. What a feed gives, and why nothing is missing in it:
//! `copies::feed`.
//!
//! # Invariants
//! 1. *Kept.* A feed that is open keeps the memtables from its position on (`Reclaim::kept_from`), at
//!    most `feed.pins_percent_max` of `pm`, and as long as writers find room: who finds none takes the oldest
//!    first (`room`), and so does who finds no room on the disk for a long value (`blobs`): a memtable keeps the blob
//!    files that it refers to, and their values count like its records. What somebody reads is passed over: it stays in
//!    any case. Then the feed is cut off, which it learns when it goes on. It never keeps a writer waiting.
//! 2. *Held.* Between two calls a feed holds no memtable; in a call it finds the memtable's home under the lock
//!    under which memtables are found free (`Reclaim::home_for_feed`). A call that is under way when the store is closed
//!    holds all that was there, as one that reads in a view (`close`).
//!
//! # After reopening
//! Flushed memtables that are kept are named by the manifest, and found again by the next open (`flush`), like
//! those that readers hold. What was kept for a feed goes with the first reclaiming, unless
//! `feed.retain_bytes` keeps it or the feed has been asked for again by then.
//!
//! # Locks
//! To find its way from chain to chain a feed takes the writer's lock and that of `reclaim`, to go on in a zone the
//! latter. Writers do nothing for feeds.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Debug;

use thermocline_base::planted::{Bug, active};
use thermocline_base::{BlobRef, CfId, Error, FileId, Result};
use thermocline_catalog::Pinned;
use thermocline_copies::{Chains, FamilyNames, LongValues, Marks, oldest_position};
use thermocline_memtable::{Home, Trail};
use thermocline_runtime::Task;

use crate::blobs::Hold;
use crate::families::table::Families;
use crate::report::FeedUse;
use crate::store::{Common, Feeds};
use crate::sync::{Arc, Ordering};

impl Chains for Feeds {
    fn check_open(&self) -> Result<()> {
        match self.common.closed.load(Ordering::Acquire) {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }

    fn hold(&self) -> Result<Box<dyn Debug + Send>> {
        // As whoever reads in a view (`close`).
        let view = self.common.catalog.view_to_keep();
        Ok(Box::new(view.pins()?.clone()))
    }

    fn marks(&self) -> Marks {
        Marks {
            durable: self.common.commits.ring.durable(),
            visible: self.common.commits.ring.visible(),
            known_durable: self.known_durable,
        }
    }

    fn keep(&self, from: &mut dyn FnMut(&[&Trail]) -> Result<u64>) -> Result<u64> {
        let held_up = self.memtables.hold_writer_up();
        Chains::check_open(self)?;
        let open = held_up.open_trail();
        self.common.reclaim.open_feed(&open, from)
    }

    fn move_on(&self, feed: u64, to: &mut dyn FnMut(&[&Trail], bool) -> Result<u64>) -> Result<()> {
        let held_up = self.memtables.hold_writer_up();
        let open = held_up.open_trail();
        self.common.reclaim.move_feed(feed, &open, to)
    }

    fn home(&self, feed: u64, memtable: u64) -> Option<Arc<Home>> {
        let view = || self.common.catalog.view_to_keep();
        self.common.reclaim.home_for_feed(feed, memtable, view)
    }

    fn has_read(&self, feed: u64, next: u64, ended: bool) {
        self.common.reclaim.advance_feed(feed, next);
        if ended {
            self.read_by_feed();
        }
    }

    fn forget(&self, feed: u64) {
        self.common.reclaim.close_feed(feed);
        self.read_by_feed();
    }

    fn names(&self) -> Arc<dyn FamilyNames> {
        self.common.families.clone()
    }

    fn hold_long_values(&self, files: BTreeSet<FileId>) -> Box<dyn LongValues> {
        let hold = |file| self.sweeper.blobs.hold(file);
        Box::new(HeldBlobs {
            common: self.common.clone(),
            _pins: self.reads.pins.upgrade(),
            holds: match active(Bug::GroupForgetsBlobs) {
                true => vec![],
                false => files.into_iter().map(hold).collect(),
            },
        })
    }
}

/// The blob files of a group of changes.
#[derive(Debug)]
struct HeldBlobs {
    common: Arc<Common>,
    holds: Vec<Hold>,
    /// What holds the folder.
    _pins: Option<Arc<Pinned>>,
}

impl LongValues for HeldBlobs {
    fn read(&self, cf: CfId, key: &[u8], blob: BlobRef) -> Result<Vec<u8>> {
        self.common.catalog.table_files.read_blob(cf, key, blob)
    }
}

impl Drop for HeldBlobs {
    fn drop(&mut self) {
        self.holds.clear();
        // Nobody reads some blob files any more: they may go.
        self.common.background.request(Task::Ahead);
    }
}

impl FamilyNames for Families {
    fn name_of(&self, cf: CfId) -> Option<String> {
        Families::name_of(self, cf)
    }
}

impl Feeds {
    /// A feed has read a memtable to its end, or is there no more: something may go.
    fn read_by_feed(&self) {
        if !self.common.reclaim.is_nothing_retired() {
            self.common.background.request(Task::Ahead);
        }
    }

    /// What feeds keep.
    pub fn feed_use(&self) -> FeedUse {
        let held_up = self.memtables.hold_writer_up();
        let keeping = self.common.keeping();
        let open = held_up.open_trail();
        let durable = self.common.commits.ring.durable();
        let oldest = |trails: &[&Trail]| oldest_position(trails, durable);
        let (kept, oldest) = self.common.reclaim.kept_and(&keeping, &open, oldest);
        FeedUse {
            open: kept.feeds,
            kept_memtables: kept.memtables,
            kept_bytes: kept.bytes,
            kept_blob_bytes: kept.blob_bytes,
            oldest,
        }
    }
}
