//! Filling indexes from the write path.

use thermocline_art::{Leaf, Moments, NewEntry};
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
        self.insert_into(index, entry.key, at, seqno, moments)?;
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
        key: &[u8],
        at: PmOff,
        seqno: SeqNo,
        moments: impl FnOnce() -> M,
    ) -> Result<()> {
        self.insert_into(self.index_or_new(cf), key, at, seqno, moments)
    }

    /// Puts a record into the index of its family, unless that has a newer one of the key.
    pub(crate) fn keep_newest(&self, cf: CfId, key: &[u8], at: PmOff, seqno: SeqNo) -> Result<()> {
        let tree = self.tree_or_new(cf);
        let guard = tree.pin();
        let leaf = Leaf::of(key, at.0);
        tree.update(&guard, key, self.records(), |present| match present {
            None => Ok(Some(NewEntry::from(leaf))),
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
        key: &[u8],
        at: PmOff,
        seqno: SeqNo,
        moments: impl FnOnce() -> M,
    ) -> Result<()> {
        let tree = &index.tree;
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
}
