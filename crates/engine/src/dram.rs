//! Memory of the index, promised before a write is granted: after the grant nothing may fail.
//!
//! How much that is only the tree can say, and only as a bound that looks at all its nodes. So the promise
//! is made for many writes ahead where there is room enough (`policy::promise`), and they use it up one by one.
//!
//! # Why the promise is enough (B3 of `thermocline_base::budget`)
//! All of this happens under the writer's lock, so no group is granted meanwhile. Groups in flight are
//! counted first and memory in use after: a group that is in the count is in the bound; one that is not
//! had finished, so its memory is among what is in use. The bound is for the families of this write and
//! of those of the promises before that groups in flight may be in: a write into a family that the last
//! promise was not for comes here. With each family it is known up to which seqno writes into it were
//! granted. When `visible`, loaded before memory in use is looked at, has reached that, they have finished, and the
//! family is forgotten. So a promise is for as many families as writes in flight are in, and not for all
//! there ever were. (If room for the write is made by sealing the memtable, it goes into
//! trees that are empty. No node of theirs was there before, so what it takes depends on the number of its
//! records alone, in whichever trees that is counted.) Batches that are staged beside grow their indexes outside the lock:
//! what was promised to them counts until they are committed, whether it is in use by then or not.
//!
//! # Many families
//! All trees of a memtable have one memory, and records in flight are counted once, in whichever of the
//! families they are (`thermocline_art::Reckoning`). So a write into many families needs little more than one into one.
//!
//! # Many readers
//! Lists of versions have one for each reader at most; but with many readers that is seldom reached. Where
//! nobody has operands, one group makes a list longer by one at most: readers register at what is visible,
//! which ends where a group does, so that nobody reads between two records of one group, and of a key's
//! records in it the next one makes the one before superfluous. So a list is longer than the longest there was by
//! one for each group in flight, this one, and those that a promise ahead is for. Lists of groups that had finished are
//! among those that there are, for the same reason as their memory.

pub(crate) mod asked;
pub(crate) mod credit;

use thermocline_base::budget::{Full, Spare};
use thermocline_base::size::index;
use thermocline_base::{BatchEntry, Error, Kind, Result};
use thermocline_memtable::{Memtable, Reckoning};
use thermocline_policy::tuning::CREDIT_GROUPS;
use thermocline_policy::{promise, seal};

use crate::store::Memtables;
use crate::sync::{AtomicU64, Ordering};
use crate::write::writer::Writer;
use asked::Asked;
use credit::Credit;

/// What is in flight, and what is in use beside it.
struct Flying {
    records: u64,
    /// Groups, and some more, which may be in flight when the promise is used.
    groups: u64,
    /// Moments that are read at, at most.
    readers: usize,
    /// Groups up to this seqno have finished.
    visible: u64,
    /// DRAM in use, or promised to who grows an index without the writer's lock.
    used: u64,
}

/// What is `promised` to whoever grows an index without the writer's lock, and then what is `used`. His promise is taken off
/// behind what he has taken: so that may count twice, and counts once at least.
fn used_or_promised(promised: &AtomicU64, used: impl FnOnce() -> u64) -> u64 {
    // Acquire: whoever has taken his promise off has released what he uses.
    let promised = promised.load(Ordering::Acquire);
    promised + used()
}

impl Memtables {
    /// First what is in flight, then what is in use. `visible`, the next group, and every group that may
    /// become visible meanwhile are read at, beside those who have `registered`.
    fn flying(&self, registered: usize) -> Flying {
        let ring = &self.common.commits.ring;
        let records = ring.records();
        let groups = ring.groups() + CREDIT_GROUPS;
        let visible = ring.visible();
        let used = self.used_or_promised();
        Flying {
            records,
            groups,
            readers: registered + 2 + index(groups) + self.common.operands_a_list(),
            visible,
            used,
        }
    }

    /// DRAM in use, or promised to who grows an index without the writer's lock.
    pub fn used_or_promised(&self) -> u64 {
        used_or_promised(&self.staging, || self.common.account.used())
    }

    /// What records in flight take, and `ahead` more, in whichever families.
    fn reckoning(&self, flying: &Flying, ahead: u64) -> Reckoning {
        let reckoning = Reckoning::new(flying.records + ahead, Some(flying.readers));
        match self.common.operands_a_list() {
            // Each of those ahead may be a group.
            0 => reckoning.in_groups(index(flying.groups + 1 + ahead)),
            _ => reckoning,
        }
    }

    /// Whether DRAM is short, and the index of this memtable takes so much of it that it should be sealed.
    pub fn is_heavy(&self, active: &Memtable) -> bool {
        self.common.flushes()
            && self.common.is_dram_short()
            && seal::is_heavy(active.index_bytes(), self.common.dram_limit())
    }

    /// Sees to it that the index entries of a write fit the DRAM budgets, before anything is written.
    /// The last sixteenth is left to deletes. Returns how much of that is for range tombstones: their
    /// memtable takes it before the grant, so that what is in flight counts as in use.
    pub fn reserve_dram<'a>(
        &self,
        writer: &mut Writer,
        entries: impl Iterator<Item = BatchEntry<'a>> + Clone,
        records: u64,
        deletes_only: bool,
    ) -> Result<u64> {
        let granted = writer.next_seqno() - 1;
        let credit = &mut writer.credit;
        let registered = self.common.commits.readers.moments();
        let credited = credit.writes >= records
            && registered <= credit.readers
            && self.common.commits.ring.at_most(credit.groups);
        if credited
            && entries
                .clone()
                .all(|entry| entry.kind != Kind::RangeDelete && credit.is_for(entry.cf))
        {
            credit.writes -= records;
            return Ok(0);
        }
        writer.heavy = self.is_heavy(&writer.active);
        let spare = match deletes_only {
            true => Spare::Use,
            false => Spare::Keep,
        };
        let asked = Asked::of(entries);
        let flying = self.flying(registered);
        let beside = credit.beside(&asked.updates, (flying.visible, granted));
        let ahead = promise::writes_ahead(asked.updates.len() + beside.len(), credit.without);
        let tombstones =
            writer
                .active
                .tombstones_bound(asked.ranges, asked.range_bytes, flying.readers);
        let need = |ahead: u64| -> u64 {
            let writes = asked.updates.iter().map(|(cf, records)| (*cf, *records));
            let writes = writes.chain(beside.keys().map(|cf| (*cf, 0)));
            let reckoning = self.reckoning(&flying, ahead);
            flying.used + tombstones + writer.active.reckoned(reckoning, writes)
        };
        let account = &self.common.account;
        let lends =
            |bytes: u64| account.has_ample_room_for(bytes) && account.promise(bytes, spare).is_ok();
        let ahead = ahead.filter(|writes| !deletes_only && lends(need(*writes)));
        if let Some(writes) = ahead {
            credit.writes = writes;
        } else {
            credit.writes = 0;
            credit.without += records;
            let needed = need(0);
            if let Err(limit) = account.promise(needed, spare) {
                let error = self.lacking(limit, "one more write", (needed, flying.used), spare);
                // What this store cannot use others may.
                self.give_up_credit(writer);
                return Err(error);
            }
        }
        credit.promised_for(asked.updates.into_keys(), granted + records, beside);
        (credit.readers, credit.groups) = (registered, flying.groups);
        Ok(tombstones)
    }

    /// Promises `bytes` for the index of a batch that is staged, beside what groups in flight need.
    /// Returns what is to be taken off `staging` when that memory is in use, or given back. Whoever `waits` for what
    /// there is not says how much that is.
    pub fn reserve_staged_dram(&self, writer: &mut Writer, bytes: u64, waits: bool) -> Result<u64> {
        // What was promised ahead is reckoned anew by the next write.
        writer.credit.spend();
        let flying = self.flying(self.common.commits.readers.moments());
        let families = writer.credit.families().map(|cf| (cf, 0));
        let reckoning = self.reckoning(&flying, 0);
        let need = flying.used + bytes + writer.active.reckoned(reckoning, families);
        let promised = self.common.account.promise(need, Spare::Keep);
        promised.map_err(|limit| match waits {
            true => self.lacking(limit, "this batch", (need, flying.used), Spare::Keep),
            false => self.common.account.full(limit, "this index"),
        })?;
        // Under the writer's lock, as every promise is.
        self.staging.fetch_add(bytes, Ordering::Relaxed);
        Ok(bytes)
    }

    /// The error for `what`, which needs so much DRAM in all, of which so much is used.
    fn lacking(&self, limit: Full, what: &str, (needed, used): (u64, u64), spare: Spare) -> Error {
        // What has no room beside nothing else is not waited for.
        if self.common.account.could_hold(needed, spare) {
            self.common.room.note_lacking(needed - used);
        }
        self.common.account.full(limit, what)
    }

    /// Gives up the credit of a store in which no write is in flight.
    pub fn give_up_credit(&self, writer: &mut Writer) {
        if self.common.commits.ring.groups() == 0 && self.staging.load(Ordering::Acquire) == 0 {
            writer.credit = Credit::default();
            self.common.account.settle();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A merge of indexes ends a step without the writer's lock, so that may be between any two looks of who promises.
    #[test]
    fn what_a_step_has_taken_counts_though_its_promise_ends_meanwhile() {
        let (used, promised) = (AtomicU64::new(100), AtomicU64::new(50));
        let counted = used_or_promised(&promised, || {
            let seen = used.load(Ordering::Relaxed);
            used.fetch_add(40, Ordering::Relaxed);
            promised.fetch_sub(50, Ordering::Release);
            seen
        });
        assert!(counted >= used.load(Ordering::Relaxed), "{counted}");
    }
}
