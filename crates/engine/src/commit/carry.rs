//! A group between grant and acknowledgement: copied, persisted and indexed by its own thread.
//!
//! Nothing here may fail but a persist: room, memory for the index and a slot in the ring were taken
//! before the grant. What fails all the same poisons the store, because what the next open will find
//! is no longer what this process would answer.

use std::cell::Cell;
use std::time::Duration;

use arc_swap::Guard;
use thermocline_base::planted::{Bug, active};
use thermocline_base::{BatchEntry, Error, Kind, Result, SeqNo};
use thermocline_memtable::{Grant, ItemBuilder, Persist, decode_blob_ref};
use thermocline_observe::count::Count;
use thermocline_pm::{PmOff, RegionKind};
use thermocline_runtime::Task;

use crate::commit::ring::Range;
use crate::readers::Moments;
use crate::store::Inner;
use crate::sync::{Arc, lock};
use crate::view::View;

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// When it survives a crash, together with everything before it.
    #[default]
    Immediate,
    /// When readers see it. A crash may take the last of such writes, at most about a second's worth,
    /// and never one without all that came after it.
    Buffered,
}

/// A group between grant and finish.
pub(crate) struct Group {
    pub room: Grant,
    /// The view at the grant, whose first generation is the group's.
    pub view: Guard<Arc<View>>,
    pub ticket: u64,
    pub first: SeqNo,
    pub last: SeqNo,
    /// DRAM in bytes that its range tombstones were promised.
    pub tombstones: u64,
}

/// A group that has not finished yet. Dropped like that, by an error or by a panic, it never can,
/// and nothing behind it can: those who wait must learn, not hang.
pub(crate) struct Flying<'a>(pub &'a Inner);

impl Drop for Flying<'_> {
    fn drop(&mut self) {
        self.0.poison.poison(Error::Poisoned(
            "a write ended between its grant and its finish".into(),
        ));
        self.0.ring.fail();
    }
}

thread_local! {
    /// Where this thread builds its items. Taken out while it does, and put back.
    static BUILDER: Cell<ItemBuilder> = Cell::default();
}

/// Whether a persist in such a region takes so long that many writes should share it.
pub(crate) fn is_slow(kind: RegionKind) -> bool {
    matches!(kind, RegionKind::File | RegionKind::Dram)
}

impl Inner {
    /// Stores, persists unless that is deferred, and indexes a group, beside others, and finishes it.
    pub fn carry<'a>(
        &self,
        group: &Group,
        entries: impl Iterator<Item = BatchEntry<'a>> + Clone,
        durability: Durability,
    ) -> Result<()> {
        let flying = Flying(self);
        let published = active(Bug::PublishBeforePersist);
        if published {
            self.ring.finish(group.ticket, None);
        }
        // A thread that ends may write when its own memory is gone already.
        let mut builder = BUILDER.try_with(Cell::take).unwrap_or_default();
        let deferred = durability == Durability::Buffered || self.is_logged();
        let persist = match deferred {
            false => Persist::Now,
            true => Persist::Deferred,
        };
        let stored = builder.store(
            self.space.region(),
            &group.room,
            entries.clone(),
            group.first.0,
            self.ring.durable(),
            persist,
        );
        // From here on the write may be durable; what fails now leaves an index that lacks it.
        let indexed = stored.and_then(|offsets| self.index(group, entries.clone(), offsets));
        builder.trim();
        let _ = BUILDER.try_with(|kept| kept.set(builder));
        // An error poisons the store with its cause first; then `flying` tells whoever waits.
        indexed.map_err(|error| self.poison.poison(error))?;
        self.count_entries(entries);
        std::mem::forget(flying);
        let range = Range {
            at: group.room.at().0,
            bytes: group.room.bytes(),
        };
        let deferred = deferred.then_some(range);
        if !published {
            self.ring.finish(group.ticket, deferred);
        }
        Ok(())
    }

    fn index<'a>(
        &self,
        group: &Group,
        entries: impl Iterator<Item = BatchEntry<'a>>,
        offsets: &[PmOff],
    ) -> Result<()> {
        let memtable = &group.view.memtables[0];
        for ((entry, &at), seqno) in entries.zip(offsets).zip(group.first.0..) {
            let moments = || Moments::now(&self.ring, &self.readers);
            memtable.insert_entry(entry, at, SeqNo(seqno), moments)?;
        }
        if group.tombstones > 0 {
            memtable.tombstones_added(group.tombstones);
        }
        Ok(())
    }

    /// Waits until a group may be acknowledged.
    pub fn acknowledge(&self, last: SeqNo, durability: Durability) -> Result<()> {
        if !self.ring.wait_visible(last.0) {
            self.poison.check()?;
        }
        match durability {
            Durability::Immediate if active(Bug::AckAtVisible) => Ok(()),
            Durability::Immediate => self.sync_up_to(last),
            Durability::Buffered if self.ring.deferred_bytes() >= self.buffered_bytes() => {
                self.sync_up_to(last)
            }
            Durability::Buffered => {
                let most = Duration::from_millis(self.options.commit.buffered_ms);
                self.background.request_after(Task::Sync, most);
                Ok(())
            }
        }
    }

    /// Makes everything up to `last`, which is visible, durable.
    ///
    /// # Errors
    /// A failed persist, which poisons the store.
    pub fn sync_up_to(&self, last: SeqNo) -> Result<()> {
        if self.ring.durable() >= last.0 {
            return Ok(());
        }
        // One at a time: whoever waits here finds its bytes on the next list, or done.
        let _turn = lock(&self.syncing);
        if self.ring.durable() >= last.0 {
            return Ok(());
        }
        self.poison.check()?;
        let (ranges, up_to) = self.ring.take_deferred();
        if !ranges.is_empty() {
            self.persist_ranges(&ranges).map_err(|error| {
                let error = self.poison.poison(error);
                self.ring.fail();
                error
            })?;
        }
        self.ring.persisted(up_to);
        Ok(())
    }

    /// Waits until nothing is in flight, and makes it durable. The caller holds the writer's lock, so
    /// nothing is granted meanwhile.
    pub fn drain(&self) -> Result<()> {
        if !self.ring.wait_empty() {
            self.poison.check()?;
        }
        self.sync_up_to(SeqNo(self.ring.visible()))
    }

    /// Deferred bytes at which they are written back.
    pub fn buffered_bytes(&self) -> u64 {
        match self.options.commit.buffered_bytes {
            0 if self.is_persisting_slow() => 1 << 20,
            0 => 256,
            bytes => bytes,
        }
    }

    fn is_persisting_slow(&self) -> bool {
        is_slow(self.space.region().kind())
    }

    pub fn count_entries<'a>(&self, entries: impl Iterator<Item = BatchEntry<'a>>) {
        let (mut puts, mut deletes, mut ranges, mut user) = (0, 0, 0, 0);
        for entry in entries {
            match entry.kind {
                Kind::Delete => deletes += 1,
                Kind::RangeDelete => ranges += 1,
                _ => puts += 1,
            }
            let value = match entry.kind {
                Kind::PutBlob => decode_blob_ref(entry.value).map_or(0, |blob| blob.len.into()),
                _ => entry.value.len() as u64,
            };
            user += entry.key.len() as u64 + value;
        }
        self.counted.add(Count::Puts, puts);
        if deletes > 0 {
            self.counted.add(Count::Deletes, deletes);
        }
        if ranges > 0 {
            self.counted.add(Count::RangeDeletes, ranges);
        }
        self.counted.add(Count::UserBytes, user);
    }
}
