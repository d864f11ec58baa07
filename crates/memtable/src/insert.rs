//! Filling indexes from the write path.

use thermocline_art::{Leaf, Moments, NewEntry, Version};
use thermocline_base::planted::{Bug, active};
use thermocline_base::{BatchEntry, CfId, Kind, Result, SeqNo};
use thermocline_pm::PmOff;

use crate::indexes::Index;
use crate::table::Memtable;
use thermocline_base::blob_ref::decode_blob_ref;

impl Memtable {
    /// Puts a stored record into the index of its family: [`Memtable::insert`], or
    /// [`Memtable::insert_range`].
    ///
    /// # Errors
    /// As those.
    #[inline]
    pub fn insert_entry<M: Moments>(
        &self,
        entry: BatchEntry<'_>,
        at: PmOff,
        seqno: SeqNo,
        moments: impl FnOnce() -> M,
    ) -> Result<()> {
        if entry.kind == Kind::RangeDelete {
            return self.insert_range(entry.cf, entry.key, entry.value, seqno, moments);
        }
        self.refer(entry);
        let index = self.index_or_new(entry.cf);
        let leaf = leaf_of(entry.kind, entry.key, at);
        self.insert_into(index, (entry.key, leaf), seqno, moments)?;
        if let Some(gaps) = index.gaps()
            && entry.kind != Kind::Delete
        {
            gaps.put(entry.key);
        }
        Ok(())
    }

    /// Notes the blob file that a record refers to, if it refers to one. This is of one memtable.
    #[inline]
    pub(crate) fn refer(&self, entry: BatchEntry<'_>) {
        if entry.kind == Kind::PutBlob
            && let Some(blob) = decode_blob_ref(entry.value)
        {
            self.homes()[0].blobs().refer(blob);
        }
    }

    /// Adds a range tombstone, whose record is stored: from `start` up to `end`, or without an end where
    /// that is empty. Memory for it was promised ([`Memtable::promise_tombstones`]). `moments` as for
    /// [`Memtable::insert`], under the lock of the family's range tombstones.
    ///
    /// # Errors
    /// None, once the store is open.
    pub fn insert_range<M: Moments>(
        &self,
        cf: CfId,
        start: &[u8],
        end: &[u8],
        seqno: SeqNo,
        moments: impl FnOnce() -> M,
    ) -> Result<()> {
        let end = (!end.is_empty()).then_some(end);
        self.tombstones_or_new(cf)
            .insert(start, end, seqno, moments)
    }

    /// As [`Memtable::insert_range`], where the past is read at `moments` alone and nothing was promised.
    pub(crate) fn cover_at(
        &self,
        cf: CfId,
        (start, end): (&[u8], &[u8]),
        seqno: SeqNo,
        moments: &[SeqNo],
    ) -> Result<()> {
        let key_bytes = (start.len() + end.len()) as u64;
        let promised = self.tombstones_bound(1, key_bytes, moments.len());
        self.promise_tombstones(promised)?;
        let inserted = self.insert_range(cf, start, end, seqno, || moments);
        self.tombstones_added(promised);
        inserted
    }

    /// Puts a stored record into the index of its family. Where the key is there already, `moments`
    /// is asked, under the lock of the key's place, for those at which somebody may still read:
    /// `visible` among them, and all that `visible` may become before a later insert.
    ///
    /// # Errors
    /// Corruption of another record whose key had to be read.
    pub fn insert<M: Moments>(
        &self,
        cf: CfId,
        (kind, key): (Kind, &[u8]),
        at: PmOff,
        seqno: SeqNo,
        moments: impl FnOnce() -> M,
    ) -> Result<()> {
        let leaf = leaf_of(kind, key, at);
        self.insert_into(self.index_or_new(cf), (key, leaf), seqno, moments)
    }

    /// Puts a record into the index of its family, unless that has a newer one of the key that hides it. Of a key
    /// without operands the newest record stays, and no other.
    pub(crate) fn keep_newest(
        &self,
        cf: CfId,
        (kind, key): (Kind, &[u8]),
        at: PmOff,
        seqno: SeqNo,
    ) -> Result<()> {
        let index = self.index_or_new(cf);
        let tree = &index.tree;
        let guard = tree.pin();
        let leaf = leaf_of(kind, key, at);
        if leaf.is_operand() {
            index.note_operand();
        }
        index.note_key(key);
        tree.update(&guard, key, self.records(), |present| match present {
            None => Ok(Some(NewEntry::from(leaf))),
            Some(entry)
                if leaf.is_operand() || entry.leaf().is_operand() || entry.list().is_some() =>
            {
                let present = || self.seqno_of(entry.leaf());
                let nobody: &[SeqNo] = &[];
                entry.with_version(seqno, leaf, present, nobody).map(Some)
            }
            Some(entry) => {
                let there = PmOff(entry.leaf().offset());
                let newer = self.records().read(there, false)?.seqno > seqno;
                Ok((!newer).then(|| NewEntry::from(leaf)))
            }
        })?;
        Ok(())
    }

    fn insert_into<M: Moments>(
        &self,
        index: &Index,
        (key, leaf): (&[u8], Leaf),
        seqno: SeqNo,
        moments: impl FnOnce() -> M,
    ) -> Result<()> {
        let tree = &index.tree;
        let guard = tree.pin();
        if leaf.is_operand() {
            index.note_operand();
        }
        index.note_key(key);
        tree.update(&guard, key, self.records(), |present| {
            let Some(entry) = present else {
                return Ok(Some(NewEntry::from(leaf)));
            };
            let moments = moments();
            let present = || self.seqno_of(entry.leaf());
            entry.with_version(seqno, leaf, present, &moments).map(Some)
        })?;
        Ok(())
    }

    /// Puts stored operands of one key, newest first, into the index of its family, with one update. `moments` as for
    /// [`Memtable::insert`].
    pub(crate) fn insert_operands<M: Moments>(
        &self,
        cf: CfId,
        key: &[u8],
        operands: &[Version],
        moments: impl FnOnce() -> M,
    ) -> Result<()> {
        let index = self.index_or_new(cf);
        if let [one] = operands {
            self.insert_into(index, (key, one.leaf), one.seqno, moments)?;
        } else {
            if operands.iter().any(|version| version.leaf.is_operand()) {
                index.note_operand();
            }
            index.note_key(key);
            let tree = &index.tree;
            let guard = tree.pin();
            tree.update(&guard, key, self.records(), |present| {
                let Some(entry) = present else {
                    return tree.entry_with(operands).map(Some);
                };
                let moments = moments();
                let present = || self.seqno_of(entry.leaf());
                entry.with_versions(operands, present, &moments).map(Some)
            })?;
        }
        if let Some(gaps) = index.gaps() {
            gaps.put(key);
        }
        Ok(())
    }

    /// The seqno of a leaf's record.
    ///
    /// Verified: it decides which versions stay. A record that has rotted is no reason to
    /// refuse its successor, which is stored already: it counts as old as can be, so that
    /// whoever may need it finds it, and the error.
    fn seqno_of(&self, leaf: Leaf) -> Result<SeqNo> {
        let record = self.records().read(PmOff(leaf.offset()), true);
        Ok(record.map_or(self.base(), |record| record.seqno))
    }
}

/// The leaf of a record.
pub(crate) fn leaf_of(kind: Kind, key: &[u8], at: PmOff) -> Leaf {
    let leaf = Leaf::of(key, at.0);
    match kind {
        Kind::Merge if !active(Bug::OperandHides) => leaf.as_operand(),
        _ => leaf,
    }
}
