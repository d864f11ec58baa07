//! What a memtable knows of a key.

use thermocline_art::Entry;
use thermocline_base::planted::{Bug, active};
use thermocline_base::sync::{AtomicU64, Ordering};
use thermocline_base::{CfId, Kind, Result, SeqNo};

use crate::home::Records;
use crate::indexes::Index;
use crate::record::RecordRef;
use crate::table::Memtable;
use crate::tombstones::Tombstones;

/// What a memtable knows of a key.
#[derive(Debug, Clone, Copy)]
pub enum Lookup<'a> {
    /// Nothing that the reader may see: ask older data.
    Absent,
    /// A put or a delete: the answer. Or an operand: the newest of those that [`Memtable::stack`] has.
    Record(RecordRef<'a>),
    /// A range tombstone that is newer than any version here: the key has no value.
    Covered,
}

impl<'a> Lookup<'a> {
    /// What it is under the newest range tombstone over the key.
    fn under(self, newest: Option<SeqNo>) -> Lookup<'a> {
        match (&self, newest) {
            (_, None) => self,
            (Lookup::Record(record), Some(newest)) if record.seqno > newest => self,
            _ => Lookup::Covered,
        }
    }

    /// Whether what decided it is no newer than `before`: the record, or the `newest` range tombstone that
    /// covers the key.
    #[inline]
    fn is_of(&self, before: SeqNo, newest: Option<SeqNo>) -> bool {
        let decided = match self {
            Lookup::Absent => None,
            Lookup::Record(record) => Some(record.seqno),
            Lookup::Covered => newest,
        };
        decided.is_none_or(|decided| decided <= before) || active(Bug::HalfSeen)
    }
}

impl Memtable {
    /// What a reader at `seqno` sees of `key`: the newest record, or that a range tombstone is newer.
    ///
    /// # Errors
    /// [`Error::Corruption`](thermocline_base::Error::Corruption) if the record, or the one that may be the key's, is damaged.
    pub fn get(&self, cf: CfId, key: &[u8], seqno: SeqNo, verify: bool) -> Result<Lookup<'_>> {
        let Some(index) = self.index(cf) else {
            return Ok(Lookup::Absent);
        };
        let guard = index.tree.pin();
        let found = match index.tree.get(&guard, key, self.records())? {
            Some(entry) => self.resolve(index, entry, seqno, verify)?,
            None => Lookup::Absent,
        };
        Ok(match index.tombstones() {
            None => found,
            Some(tombstones) => found.under(tombstones.newest_over(&tombstones.list(), key, seqno)),
        })
    }

    /// As [`Memtable::get`], for a reader that takes whatever is visible and is not registered.
    ///
    /// It asks what is visible before and after it reads the key's entry. After: see
    /// [`Memtable::resolve_latest`]. Before: all that was visible then is in the entry, so an answer from
    /// there is the one that the key had at that moment. What became visible since may be in the entry in
    /// part: the first of two writes that a batch has for the key, and not the second. So whoever finds
    /// such a version reads again; that is once for each time that the key itself was written meanwhile.
    /// An entry that has nothing to be seen had nothing at that moment either.
    ///
    /// # Errors
    /// As [`Memtable::get`].
    pub fn get_latest(
        &self,
        cf: CfId,
        key: &[u8],
        visible: &AtomicU64,
        verify: bool,
    ) -> Result<Lookup<'_>> {
        let Some(index) = self.index(cf) else {
            return Ok(Lookup::Absent);
        };
        loop {
            let before = SeqNo(visible.load(Ordering::Acquire));
            let found = {
                let guard = index.tree.pin();
                match index.tree.get(&guard, key, self.records())? {
                    Some(entry) => self.resolve_latest(index, entry, visible, verify)?.0,
                    None => Lookup::Absent,
                }
            };
            // Behind `visible`: see `tombstones`, invariant 3.
            if let Some(tombstones) = index.tombstones() {
                return self.latest_under(index, tombstones, key, visible, verify);
            }
            if found.is_of(before, None) {
                return Ok(found);
            }
        }
    }

    /// As [`Memtable::get_latest`], in a family that has range tombstones here.
    #[cold]
    fn latest_under(
        &self,
        index: &Index,
        tombstones: &Tombstones,
        key: &[u8],
        visible: &AtomicU64,
        verify: bool,
    ) -> Result<Lookup<'_>> {
        loop {
            let before = SeqNo(visible.load(Ordering::Acquire));
            let list = tombstones.list();
            let guard = index.tree.pin();
            let (found, seqno) = match index.tree.get(&guard, key, self.records())? {
                Some(entry) => self.resolve_latest(index, entry, visible, verify)?,
                None => (Lookup::Absent, SeqNo(visible.load(Ordering::Acquire))),
            };
            let newest = tombstones.newest_over(&list, key, seqno);
            let found = found.under(newest);
            if found.is_of(before, newest) {
                return Ok(found);
            }
        }
    }

    /// As [`Memtable::resolve`] at what is visible, and what that is.
    #[inline]
    fn resolve_latest(
        &self,
        index: &Index,
        entry: Entry<'_>,
        visible: &AtomicU64,
        verify: bool,
    ) -> Result<(Lookup<'_>, SeqNo)> {
        // After the entry was read, not before. Writers keep, of each key, what is visible when
        // they write and what registered readers see; we are not registered, so by a `visible` that
        // is older than the entry we could get what was kept for an iterator, long outdated.
        // Partner: the release store after the last index insert of a group.
        let seqno = SeqNo(visible.load(Ordering::Acquire));
        Ok((self.resolve(index, entry, seqno, verify)?, seqno))
    }

    fn resolve(
        &self,
        index: &Index,
        entry: Entry<'_>,
        seqno: SeqNo,
        verify: bool,
    ) -> Result<Lookup<'_>> {
        let Some(leaf) = entry.at(index.stored(seqno)) else {
            return Ok(Lookup::Absent);
        };
        let record = self.records().read(Records::at(leaf), verify)?;
        Ok(if record.seqno <= seqno {
            Lookup::Record(record)
        } else {
            Lookup::Absent
        })
    }

    /// Appends to `operands`, newest first, what a registered reader at `seqno` sees of `key` here, up to the first
    /// record that is no operand. Returns that one, or that a range tombstone is newer than it;
    /// [`Lookup::Absent`] says that older data are to be asked.
    ///
    /// # Errors
    /// As [`Memtable::get`].
    pub fn stack<'a>(
        &'a self,
        cf: CfId,
        key: &[u8],
        seqno: SeqNo,
        verify: bool,
        operands: &mut Vec<RecordRef<'a>>,
    ) -> Result<Lookup<'a>> {
        let Some(index) = self.index(cf) else {
            return Ok(Lookup::Absent);
        };
        let newest = index.tombstones();
        let newest = newest.and_then(|set| set.newest_over(&set.list(), key, seqno));
        let end = match newest {
            Some(_) => Lookup::Covered,
            None => Lookup::Absent,
        };
        let guard = index.tree.pin();
        let Some(entry) = index.tree.get(&guard, key, self.records())? else {
            return Ok(end);
        };
        for leaf in entry.stack(index.stored(seqno)) {
            let record = self.records().read(Records::at(leaf), verify)?;
            if record.seqno > seqno {
                continue;
            }
            match Lookup::Record(record).under(newest) {
                Lookup::Record(record) if record.kind == Kind::Merge => operands.push(record),
                found => return Ok(found),
            }
        }
        Ok(end)
    }

    /// The oldest range tombstone over a key in this memtable that is newer than `seqno`.
    pub(crate) fn oldest_over(&self, cf: CfId, key: &[u8], seqno: SeqNo) -> Option<SeqNo> {
        self.index(cf)?.tombstones()?.oldest_over(key, seqno)
    }

    /// The seqno of the oldest version of a key in this memtable that is no operand: which hides what is older.
    pub(crate) fn oldest_base(&self, cf: CfId, key: &[u8]) -> Result<Option<SeqNo>> {
        let Some(index) = self.index(cf) else {
            return Ok(None);
        };
        let guard = index.tree.pin();
        let Some(entry) = index.tree.get(&guard, key, self.records())? else {
            return Ok(None);
        };
        if entry.list().is_some() {
            let bases = entry.versions().filter(|v| !v.leaf.is_operand());
            return Ok(bases.last().map(|version| index.real(version)));
        }
        match entry.leaf().is_operand() {
            true => Ok(None),
            false => Ok(Some(self.leaf_record(entry.leaf())?.seqno)),
        }
    }
}
