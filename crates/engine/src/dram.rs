//! Memory of the index, promised before a write is granted: after the grant nothing may fail.
//!
//! How much that is only the tree can say, and only as a bound that looks at all its nodes. So the promise
//! is made for many writes ahead where there is room enough (`CREDIT`), and they use it up one by one.
//!
//! # Why the promise is enough (B3 of `thermocline_base::budget`)
//! All of this happens under the writer's lock, so no group is granted meanwhile. Groups in flight are
//! counted first and memory in use after: a group that is in the count is in the bound; one that is not
//! had finished, so its memory is among what is in use. The bound is for the families of this write and
//! of the promise before, which are all that groups in flight may be in: a write into a family that a
//! promise was not for comes here. Batches that are staged beside grow their indexes outside the lock:
//! what was promised to them counts until they are committed, whether it is in use by then or not.

pub(crate) mod credit;

use thermocline_base::budget::{Full, Spare};
use thermocline_base::size::index;
use thermocline_base::{BatchEntry, CfId, Error, Kind, Result};
use thermocline_policy::seal;

use crate::store::Memtables;
use crate::sync::Ordering;
use crate::write::writer::Writer;
use credit::{CREDIT, CREDIT_AFTER, CREDIT_FAMILIES, Credit};

/// The families of a write, and how many range tombstones it has, of how many bytes.
fn named<'a>(entries: impl Iterator<Item = BatchEntry<'a>>) -> (Vec<CfId>, u64, u64) {
    let mut families: Vec<CfId> = Vec::new();
    let (mut ranges, mut range_bytes) = (0, 0);
    for entry in entries {
        if entry.kind == Kind::RangeDelete {
            ranges += 1;
            range_bytes += (entry.key.len() + entry.value.len()) as u64;
        }
        if families.last() != Some(&entry.cf) && !families.contains(&entry.cf) {
            families.push(entry.cf);
        }
    }
    (families, ranges, range_bytes)
}

impl Memtables {
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
        let credit = &mut writer.credit;
        let registered = self.common.commits.readers.moments();
        let credited = credit.writes >= records
            && registered <= credit.readers
            && self.common.commits.ring.at_most(credit.groups);
        if credited
            && entries
                .clone()
                .all(|entry| entry.kind != Kind::RangeDelete && credit.families.contains(&entry.cf))
        {
            credit.writes -= records;
            return Ok(0);
        }
        writer.heavy = self.common.flushes()
            && self.common.is_dram_short()
            && seal::is_heavy(writer.active.index_bytes(), self.common.dram_limit());
        let spare = match deletes_only {
            true => Spare::Use,
            false => Spare::Keep,
        };
        let (mut families, ranges, range_bytes) = named(entries);
        // First what is in flight, then what is in use. `visible`, this group, and every group that may
        // become visible meanwhile are read at.
        let flying = self.common.commits.ring.records();
        // Some more may be in flight when the promise is used.
        let groups = self.common.commits.ring.groups() + 8;
        let readers = registered + 2 + index(groups) + self.common.operands_a_list();
        let used = self.common.account.used() + self.staging.load(Ordering::Relaxed);
        let other = |cf: &&CfId| !families.contains(cf);
        let before: Vec<CfId> = credit.families.iter().filter(other).copied().collect();
        if flying > 0 || families.len() + before.len() <= CREDIT_FAMILIES {
            families.extend(before);
        }
        let tombstones = writer.active.tombstones_bound(ranges, range_bytes, readers);
        let need = |updates: u64| -> u64 {
            let bound = |&cf: &CfId| {
                writer
                    .active
                    .reserve_bound(cf, updates + flying, Some(readers))
            };
            used + tombstones + families.iter().map(bound).sum::<u64>()
        };
        let ahead = need(records + CREDIT);
        let ample = !deletes_only
            && credit.without >= CREDIT_AFTER
            && families.len() <= CREDIT_FAMILIES
            && self.common.account.has_ample_room_for(ahead);
        if ample && self.common.account.promise(ahead, spare).is_ok() {
            credit.writes = CREDIT;
        } else {
            credit.writes = 0;
            credit.without += records;
            if let Err(limit) = self.common.account.promise(need(records), spare) {
                let error = self.lacking(limit, "one more write", (need(records), used), spare);
                // What this store cannot use others may.
                self.give_up_credit(writer);
                return Err(error);
            }
        }
        credit.families = families;
        (credit.readers, credit.groups) = (registered, groups);
        Ok(tombstones)
    }

    /// Promises `bytes` for the index of a batch that is staged, beside what groups in flight need.
    /// Returns what is to be taken off `staging` when that memory is in use, or given back. Whoever `waits` for what
    /// there is not says how much that is.
    pub fn reserve_staged_dram(&self, writer: &mut Writer, bytes: u64, waits: bool) -> Result<u64> {
        let credit = &mut writer.credit;
        // What was promised ahead is reckoned anew by the next write.
        credit.writes = 0;
        let flying = self.common.commits.ring.records();
        let readers = self.common.commits.readers.moments()
            + 2
            + index(self.common.commits.ring.groups() + 8)
            + self.common.operands_a_list();
        let used = self.common.account.used() + self.staging.load(Ordering::Relaxed);
        let bound = |&cf: &CfId| writer.active.reserve_bound(cf, flying, Some(readers));
        let need = used + bytes + credit.families.iter().map(bound).sum::<u64>();
        let promised = self.common.account.promise(need, Spare::Keep);
        promised.map_err(|limit| match waits {
            true => self.lacking(limit, "this batch", (need, used), Spare::Keep),
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
        if self.common.commits.ring.groups() == 0 && self.staging.load(Ordering::Relaxed) == 0 {
            writer.credit = Credit::default();
            self.common.account.settle();
        }
    }
}
