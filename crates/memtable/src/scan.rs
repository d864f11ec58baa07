//! Reading in key order, some records at a time.
//!
//! An iterator outlives any single call, but an epoch guard must not: so a scan hands out chunks
//! and goes on behind the last key. Records do not move, hence what a chunk names can be read for
//! as long as the memtable lives.

use std::ops::{Bound, ControlFlow};

pub use thermocline_art::Direction;
use thermocline_art::{KeySource, Leaf};
use thermocline_base::{CfId, Result, SeqNo};
use thermocline_pm::PmOff;
use thermocline_policy::tuning::{HEADERS_AHEAD, RECORDS_AHEAD, SCAN_RESERVED};

use crate::home::AskedLater;
use crate::record::RecordRef;
use crate::table::Memtable;
use crate::walk::{ItemRef, each_record};

/// A record that a scan met, tombstones included.
#[derive(Debug, Clone, Copy)]
pub struct ScanEntry {
    /// Where the record lies. It may be newer than the reader: then the reader sees no such key here.
    pub at: PmOff,
}

impl Memtable {
    /// Appends the records of up to `limit` keys of family `cf` to `out`, of each key the newest that a reader
    /// at `seqno` may see (but see [`ScanEntry::at`]), in the order of `direction` from the bound
    /// on. Returns whether there may be more.
    ///
    /// Records are prefetched, not read: whoever uses them compares their seqno and verifies their
    /// checksum, when they have arrived.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] with region and offset.
    pub fn scan(
        &self,
        cf: CfId,
        from: Bound<&[u8]>,
        direction: Direction,
        seqno: SeqNo,
        limit: usize,
        out: &mut Vec<ScanEntry>,
    ) -> Result<bool> {
        let keys = (self.records(), 0);
        self.scan_in(cf, (from, direction), seqno, limit, keys, out)
    }

    /// As [`Memtable::scan`], but asks only for the headers of the first [`HEADERS_AHEAD`] records, and for the first [`RECORDS_AHEAD`]
    /// records as a whole, when their headers have arrived: they come while the others are collected. Whoever reads more asks for the
    /// other headers, and for the other records, a few before each ([`Memtable::prefetch_pages`], [`Memtable::prefetch`]).
    ///
    /// # Errors
    /// As [`Memtable::scan`].
    pub fn scan_to_read_later(
        &self,
        cf: CfId,
        from: Bound<&[u8]>,
        direction: Direction,
        seqno: SeqNo,
        limit: usize,
        out: &mut Vec<ScanEntry>,
    ) -> Result<bool> {
        let begin = out.len();
        let keys = (&AskedLater(self.records()), HEADERS_AHEAD);
        let more = self.scan_in(cf, (from, direction), seqno, limit, keys, out)?;
        // Those with so many behind them were asked for on the way.
        let asked = (out.len() - begin).saturating_sub(HEADERS_AHEAD);
        let others = out[begin..].iter().take(RECORDS_AHEAD).skip(asked);
        others.for_each(|entry| self.prefetch(entry.at));
        Ok(more)
    }

    /// As [`Memtable::scan`], with keys of this source. Asks for so many headers, and if that is not none, so many entries later for each
    /// of the first [`RECORDS_AHEAD`] records.
    fn scan_in<K: KeySource>(
        &self,
        cf: CfId,
        (from, direction): (Bound<&[u8]>, Direction),
        seqno: SeqNo,
        limit: usize,
        (keys, headers): (&K, usize),
        out: &mut Vec<ScanEntry>,
    ) -> Result<bool> {
        let Some(index) = self.index(cf) else {
            return Ok(false);
        };
        let (tree, seqno) = (&index.tree, index.stored(seqno));
        let guard = tree.pin();
        let (begin, full) = (out.len(), out.len() + limit);
        let records = RECORDS_AHEAD.min(headers);
        out.reserve(limit.min(SCAN_RESERVED));
        tree.scan(&guard, from, direction, keys, |entry| {
            // A key that the reader does not see counts, too. There may be very many such keys, behind all that is asked for.
            let leaf = entry.at(seqno).unwrap_or_else(|| entry.leaf());
            let at = PmOff(leaf.offset());
            match (out.len() - begin).checked_sub(headers) {
                None => self.prefetch_header(at),
                Some(n) if n < records => self.prefetch(out[begin + n].at),
                Some(_) => {}
            }
            out.push(ScanEntry { at });
            Ok(if out.len() < full {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            })
        })?;
        Ok(out.len() == full)
    }

    /// How many entries of family `cf` cursors use behind a seek, in the mean of the last ones; `None` if that is not known.
    pub fn used_by_scans(&self, cf: CfId) -> Option<usize> {
        self.index(cf)?.habit()?.mean()
    }

    /// A cursor has used so many entries of family `cf` since it was placed. None at all say nothing.
    pub fn note_used_by_scan(&self, cf: CfId, used: usize) {
        if let Some(index) = self.index(cf).filter(|_| used > 0) {
            index.habit_or_new().note(used);
        }
    }
}

impl Memtable {
    /// The families of which it has records, ascending.
    pub fn families(&self) -> impl Iterator<Item = CfId> {
        self.indexes_from(CfId(0)).map(|(cf, _)| cf)
    }

    /// Appends the records of up to `limit` keys of family `cf` to `out`, in ascending order of keys from
    /// the bound on, of each key all versions that its index keeps, newest first; or, `as_of` a seqno, those that a
    /// registered reader there needs: the newest, and if that is an operand, what it is on (but see [`ScanEntry::at`]).
    /// Each key gives one at least, so that whoever goes on finds the last key there. Returns whether there
    /// may be more. Prefetched as by [`Memtable::scan`].
    ///
    /// # Errors
    /// As [`Memtable::scan`].
    pub(crate) fn scan_versions(
        &self,
        cf: CfId,
        from: Bound<&[u8]>,
        as_of: Option<SeqNo>,
        limit: usize,
        out: &mut Vec<ScanEntry>,
    ) -> Result<bool> {
        let Some(index) = self.index(cf) else {
            return Ok(false);
        };
        let tree = &index.tree;
        let as_of = as_of.map(|seqno| index.stored(seqno));
        let guard = tree.pin();
        let mut left = limit;
        tree.scan(&guard, from, Direction::Forward, self.records(), |entry| {
            let mut push = |leaf: Leaf| {
                out.push(ScanEntry {
                    at: PmOff(leaf.offset()),
                });
            };
            match (as_of, entry.list()) {
                // The reader sees none of them.
                (Some(seqno), Some(_)) if entry.at(seqno).is_none() => push(entry.leaf()),
                (Some(seqno), _) => entry.stack(seqno).for_each(push),
                (None, None) => push(entry.leaf()),
                (None, Some(_)) => entry.versions().for_each(|version| push(version.leaf)),
            }
            left = left.saturating_sub(1);
            Ok(match left {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
        })?;
        Ok(left == 0)
    }

    /// The offsets of the records of a valid item.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] if the item does not lie in the region.
    pub fn record_offsets(&self, item: &ItemRef) -> Result<Vec<PmOff>> {
        let mut offsets = Vec::new();
        each_record(self.region(), item, |at, _, _| {
            offsets.push(at);
            Ok(())
        })?;
        Ok(offsets)
    }
}

/// The records of one family, in the order of keys, of each key newest first: all versions that its index keeps, for whoever
/// moves a sealed memtable elsewhere; or what a registered reader needs, while writers go on. Each record is verified,
/// whatever readers do: what is written anew gets a checksum that is right.
pub struct Versions<'a> {
    memtable: &'a Memtable,
    cf: CfId,
    /// Where the reader reads.
    as_of: Option<SeqNo>,
    /// Of which keys: from this one on, and below the other.
    from: &'a [u8],
    to: Option<&'a [u8]>,
    /// Keys that are collected under one epoch guard.
    limit: usize,
    chunk: Vec<ScanEntry>,
    at: usize,
    /// Whether there may be more behind the chunk.
    more: bool,
    head: Option<RecordRef<'a>>,
}

impl<'a> Versions<'a> {
    /// Those of family `cf`, of which up to `limit` keys are collected at once. It stands nowhere yet: seek.
    pub fn new(memtable: &'a Memtable, cf: CfId, limit: usize) -> Versions<'a> {
        Versions {
            memtable,
            cf,
            as_of: None,
            from: &[],
            to: None,
            limit,
            chunk: Vec::new(),
            at: 0,
            more: false,
            head: None,
        }
    }

    /// Only what a reader who is registered at `seqno` needs.
    pub fn as_of(self, seqno: SeqNo) -> Versions<'a> {
        let as_of = Some(seqno);
        Versions { as_of, ..self }
    }

    /// Only those of keys from `from` on and before `to`.
    pub fn within(self, from: &'a [u8], to: Option<&'a [u8]>) -> Versions<'a> {
        Versions { from, to, ..self }
    }

    /// The record at which it stands; `None` behind the last one.
    pub fn head(&self) -> Option<&RecordRef<'a>> {
        self.head.as_ref()
    }

    /// Moves, forwards or back, to the first record from the bound on.
    ///
    /// # Errors
    /// As [`Memtable::scan`]. It is then sought before it is used again.
    pub fn seek(&mut self, from: Bound<&[u8]>) -> Result<()> {
        self.chunk.clear();
        (self.at, self.more) = (0, true);
        let first = Bound::Included(self.from);
        self.find(match from {
            Bound::Included(key) | Bound::Excluded(key) if key >= self.from => from,
            _ => first,
        })
    }

    /// Moves on to the next record. Called only where there is one.
    ///
    /// # Errors
    /// As [`Versions::seek`].
    pub fn advance(&mut self) -> Result<()> {
        let last = self.head.take().map(|record| record.key);
        self.at += 1;
        self.find(last.map_or(Bound::Unbounded, Bound::Excluded))
    }

    /// Reads the record at hand; where the chunk has ended, of the next one, which begins at `from`.
    fn find<'k>(&mut self, mut from: Bound<&'k [u8]>) -> Result<()>
    where
        'a: 'k,
    {
        self.head = None;
        loop {
            if self.at == self.chunk.len() && self.more {
                self.chunk.clear();
                self.at = 0;
                self.more = self.scan(from)?;
                let first = self.chunk.iter().take(RECORDS_AHEAD);
                first.for_each(|entry| self.memtable.prefetch(entry.at));
            }
            let Some(entry) = self.chunk.get(self.at) else {
                return Ok(());
            };
            if let Some(ahead) = self.chunk.get(self.at + RECORDS_AHEAD) {
                self.memtable.prefetch(ahead.at);
            }
            let record = self.memtable.record_asked_for(entry.at, true)?;
            if self.to.is_some_and(|to| record.key >= to) {
                self.chunk.clear();
                (self.at, self.more) = (0, false);
                return Ok(());
            }
            if self.as_of.is_none_or(|seqno| record.seqno <= seqno) {
                self.head = Some(record);
                return Ok(());
            }
            from = Bound::Excluded(record.key);
            self.at += 1;
        }
    }

    /// Fills the chunk. Returns whether there may be more.
    fn scan(&mut self, from: Bound<&[u8]>) -> Result<bool> {
        let (limit, chunk) = (self.limit, &mut self.chunk);
        self.memtable
            .scan_versions(self.cf, from, self.as_of, limit, chunk)
    }
}

#[cfg(test)]
mod tests;
