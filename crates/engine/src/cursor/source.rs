//! A cursor's source of records: one memtable.

use std::cmp::Ordering;
use std::ops::Bound;

use thermocline_base::numbers::first_bytes;
use thermocline_base::{CfId, Kind, Result, SeqNo};
use thermocline_catalog::view::not_before;
use thermocline_memtable::{Direction, GapList, Memtable, RecordRef, ScanEntry};
use thermocline_pm::PmOff;
use thermocline_policy::readahead;
use thermocline_policy::tuning::{HEADERS_AHEAD, HEADERS_AT_ONCE, RECORDS_AHEAD};
use thermocline_tables::Course;

use super::covering::Covering;
use crate::sync::Arc;

// Each header was asked for when its whole record is.
const _: () = assert!(HEADERS_AHEAD >= HEADERS_AT_ONCE + RECORDS_AHEAD);

/// The records of one memtable from the cursor's position on.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) chunk: Vec<ScanEntry>,
    pub(super) at: usize,
    /// Whether there may be records behind the chunk.
    pub(super) more: bool,
    pub(super) chunk_len: usize,
    /// Entries that it showed since it was placed, and how many those were in the mean of the last times.
    pub(super) used: usize,
    used_mean: Option<usize>,
    pub(super) head: Option<Head>,
    /// Bytes of key and value of the record that it has read last: those that come are taken for as long.
    len: usize,
    /// The record at which it stopped, verified: it does not show, and lies behind what was asked for. There is no head
    /// then.
    pub(super) waits: Option<PmOff>,
    /// Entries that were collected and are not counted yet.
    pub(super) collected: u64,
    /// The range tombstones of its memtable.
    pub(super) covering: Option<Covering>,
    /// The gaps of its memtable.
    pub(super) gaps: Option<Arc<GapList>>,
    /// The first key of this source. Keys before it were evacuated into tables (`flush::evacuate`).
    pub(super) first: Box<[u8]>,
}

/// The next record of a source.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) at: PmOff,
    /// The first bytes of its key ([`first_bytes`]): most comparisons end here, without touching the record.
    pub(super) prefix: u64,
    /// What it says of the key.
    pub(super) kind: Kind,
    /// How long its key is, and its value.
    key_len: usize,
    value_len: usize,
}

impl Head {
    pub(super) fn of(record: &RecordRef<'_>) -> Head {
        Head {
            at: record.at,
            prefix: first_bytes(record.key),
            kind: record.kind,
            key_len: record.key.len(),
            value_len: record.value.len(),
        }
    }

    /// The key of the record, which was read before: it is not verified, and its header not decoded again.
    pub(super) fn key<'m>(&self, memtable: &'m Memtable) -> Result<&'m [u8]> {
        memtable.key_at(self.at, self.key_len)
    }

    /// As [`Head::key`], and the value that lies behind it.
    pub(super) fn key_and_value<'m>(&self, memtable: &'m Memtable) -> Result<(&'m [u8], &'m [u8])> {
        memtable.key_and_value_at(self.at, (self.key_len, self.value_len))
    }

    pub(super) fn cmp(
        &self,
        memtable: &Memtable,
        other: &Head,
        others: &Memtable,
    ) -> Result<Ordering> {
        match self.prefix.cmp(&other.prefix) {
            Ordering::Equal => Ok(self.key(memtable)?.cmp(other.key(others)?)),
            order => Ok(order),
        }
    }

    /// As [`Head::cmp`], with a key at hand.
    pub(super) fn cmp_key(&self, memtable: &Memtable, prefix: u64, key: &[u8]) -> Result<Ordering> {
        match self.prefix.cmp(&prefix) {
            Ordering::Equal => Ok(self.key(memtable)?.cmp(key)),
            order => Ok(order),
        }
    }
}

/// The source with the entry that comes first. The entry itself stays there: to copy what it says from place to place, with each step,
/// takes longer than to look.
#[derive(Debug, Clone, Copy)]
pub(super) enum First {
    /// The source of a memtable.
    Memtable(usize),
    /// The source of a run.
    Run(usize),
}

/// What a source needs to know of its cursor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) cf: CfId,
    pub(super) seqno: SeqNo,
    pub(super) direction: Direction,
    pub(super) chunk_max: usize,
    pub(super) verify: bool,
    /// Keys behind this bound, as the cursor goes, are not asked for.
    pub(super) until: Bound<&'a [u8]>,
}

impl<'a> Reader<'a> {
    /// What a source of tables needs to know.
    pub(super) fn course(self) -> Course<'a> {
        Course {
            direction: self.direction,
            seqno: self.seqno,
            until: self.until,
        }
    }
}

impl Source {
    /// The record at which it stands. Only who was told that it comes first ([`First`]) asks, and before the source moves on: a source
    /// without a record never comes first.
    #[inline]
    pub(super) fn standing(&self) -> &Head {
        self.head.as_ref().expect("the source stands at a record")
    }

    /// Goes to the end, where there is no record.
    pub(super) fn end(&mut self) {
        self.chunk.clear();
        (self.at, self.more) = (0, false);
        (self.head, self.waits) = (None, None);
    }

    /// Goes to the first record from the bound on.
    pub(super) fn restart(
        &mut self,
        memtable: &Memtable,
        reader: Reader<'_>,
        from: Bound<&[u8]>,
    ) -> Result<()> {
        self.collect(memtable, reader, from)?;
        self.find_head(memtable, reader)
    }

    /// Collects records from the bound on, and asks for the first of them, which [`Source::find_head`] then reads. Whoever does other work
    /// between the two does not wait for them. Until then it stands nowhere.
    pub(super) fn collect(
        &mut self,
        memtable: &Memtable,
        reader: Reader<'_>,
        from: Bound<&[u8]>,
    ) -> Result<()> {
        // Mostly empty.
        let first = self.first.clone();
        let from = match reader.direction {
            Direction::Forward => not_before(from, &first),
            Direction::Reverse => from,
        };
        (self.head, self.waits) = (None, None);
        self.chunk_len = self.first_chunk(memtable, reader);
        self.fill(memtable, reader, from)
    }

    /// How many entries are collected at first. A cursor that is placed again and again mostly goes on as far as before, and
    /// a new one as far as others; and a source that has few of the keys on its way shows few: what it does not show was collected
    /// in vain.
    pub(super) fn first_chunk(&mut self, memtable: &Memtable, reader: Reader<'_>) -> usize {
        let most = reader.chunk_max;
        // A long scan among short ones is soon forgotten.
        let used = std::mem::take(&mut self.used).min(most);
        if used > 0 {
            let mean = self.used_mean.unwrap_or(used);
            self.used_mean = Some((mean + used).div_ceil(2));
            memtable.note_used_by_scan(reader.cf, used);
        }
        let mean = self.used_mean;
        let mean = mean.or_else(|| memtable.used_by_scans(reader.cf));
        readahead::first_chunk(mean, most)
    }

    /// The cursor goes.
    pub(super) fn leave(&self, memtable: &Memtable, cf: CfId, chunk_max: usize) {
        memtable.note_used_by_scan(cf, self.used.min(chunk_max));
    }

    pub(super) fn fill(
        &mut self,
        memtable: &Memtable,
        reader: Reader<'_>,
        from: Bound<&[u8]>,
    ) -> Result<()> {
        self.chunk.clear();
        self.at = 0;
        let Reader {
            cf,
            seqno,
            direction,
            ..
        } = reader;
        let chunk = &mut self.chunk;
        self.more =
            memtable.scan_to_read_later(cf, from, direction, seqno, self.chunk_len, chunk)?;
        self.collected += self.chunk.len() as u64;
        Ok(())
    }

    /// Asks for what is read next, piece by piece. Asked for at once, when the chunk is filled, it would be waited for then, and
    /// in vain where the scan ends before. Headers are asked for some at a time: mostly each is the first of its page, and the processor
    /// waits for the translation of its address, but for that of several beside each other.
    #[inline]
    fn ask_ahead(&self, memtable: &Memtable) {
        if self.at.is_multiple_of(HEADERS_AT_ONCE) {
            // Up to here they were asked for before, the first ones when the chunk was filled.
            let asked = self.at + HEADERS_AHEAD - HEADERS_AT_ONCE;
            let some = self.chunk.iter().skip(asked).take(HEADERS_AT_ONCE);
            some.for_each(|entry| memtable.prefetch_pages(entry.at, self.len));
        }
        if let Some(ahead) = self.chunk.get(self.at + RECORDS_AHEAD) {
            memtable.prefetch(ahead.at);
        }
    }

    pub(super) fn advance(&mut self, memtable: &Memtable, reader: Reader<'_>) -> Result<()> {
        self.at += 1;
        self.find_head(memtable, reader)
    }

    /// If it waits before what is asked for now, goes on.
    #[inline]
    pub(super) fn resume(&mut self, memtable: &Memtable, reader: Reader<'_>) -> Result<()> {
        match self.waits {
            Some(at) if !reader.course().is_over(memtable.record(at, false)?.key) => {
                self.find_head(memtable, reader)
            }
            _ => Ok(()),
        }
    }

    /// Finds the next record that the reader may see, from the present position on. Those that it may not see are passed only
    /// as far as is asked for: there may be very many of them behind.
    pub(super) fn find_head(&mut self, memtable: &Memtable, reader: Reader<'_>) -> Result<()> {
        (self.head, self.waits) = (None, None);
        loop {
            self.ask_ahead(memtable);
            if let Some(entry) = self.chunk.get(self.at) {
                // Verified before it is used: its seqno decides whether it shows, its key where.
                let record = memtable.record_asked_for(entry.at, reader.verify)?;
                self.len = record.key.len() + record.value.len();
                if !self.first.is_empty() && *record.key < *self.first {
                    // The cursor moves backwards and has left the source's keys.
                    self.end();
                    return Ok(());
                }
                if record.seqno <= reader.seqno {
                    self.used += 1;
                    self.head = Some(Head::of(&record));
                    return Ok(());
                }
                if reader.course().is_over(record.key) {
                    self.waits = Some(record.at);
                    return Ok(());
                }
                self.at += 1;
                continue;
            }
            let Some(last) = self.chunk.last().filter(|_| self.more) else {
                return Ok(());
            };
            let last = memtable.record(last.at, false)?;
            self.chunk_len = readahead::next_chunk(self.chunk_len, reader.chunk_max);
            self.fill(memtable, reader, Bound::Excluded(last.key))?;
        }
    }
}
