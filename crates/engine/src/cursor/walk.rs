//! A position in one column family, at one moment of the store.

use std::cmp::Ordering;
use std::ops::Bound;

use thermocline_base::numbers::first_bytes;
use thermocline_base::size::index;
use thermocline_base::{Kind, Result};
use thermocline_memtable::{Direction, decode_blob_ref};
use thermocline_policy::tuning::{READ_DELETES, READ_MEMTABLES, SEEK_ASKS};
use thermocline_sst::Value as Stored;
use thermocline_tables::{TableSource, Tables, place, sources};

use super::covering::Covering;
use super::gaps::passed::Passed;
use super::place::Place;
use super::source::{First, Head, Reader, Source};
use crate::families::table::Family;
use crate::operands;
use crate::store::Moment;
use crate::sync::Arc;

/// The key and value that a cursor lends, copied from where they lie. They stay with the cursor, not in its seat.
#[derive(Debug, Default)]
pub(super) struct Copied {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

/// A position in one column family, at one moment of the store: the part of a cursor that moves.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) at: Place,
    pub(super) family: Family,
    /// One for each memtable of the view, newest first.
    pub(super) sources: Vec<Source>,
    /// One for each run of tables below them, newest first.
    pub(super) runs: Vec<TableSource>,
    /// The tables of the runs.
    pub(super) tables: Option<Arc<Tables>>,
    /// The direction in the bytewise order; see [`Walk::way`].
    pub(super) direction: Direction,
    pub(super) valid: bool,
    /// The entry that it shows, while its sources have not gone behind that: nobody may ask for more.
    shown: Option<First>,
    /// Whether any move since it was placed had a bound. Without one no source waits.
    may_wait: bool,
    /// Whether no value is read or folded: it is empty then.
    pub(super) keys_only: bool,
    pub(super) chunk_max: usize,
    pub(super) verify: bool,
    /// Whether any source of a memtable has gaps, or range tombstones.
    pub(super) has_gaps: bool,
    pub(super) has_covering: bool,
    pub(super) passed: Passed,
    /// Deleted keys that it steps over at most before it gives up.
    steps_max: u64,
}

impl Walk {
    pub(super) fn new(moment: Moment, family: Family) -> Walk {
        let options = &moment.inner().common.options;
        Walk {
            chunk_max: index(options.read.readahead),
            verify: options.read.verify_checksums,
            sources: Vec::new(),
            runs: Vec::new(),
            tables: None,
            at: Place::new(moment),
            family,
            direction: Direction::Forward,
            valid: false,
            shown: None,
            may_wait: false,
            keys_only: false,
            has_gaps: false,
            has_covering: false,
            passed: Passed::default(),
            steps_max: u64::MAX,
        }
    }

    /// Goes from `key` on to the next key with a value, which nobody wants, over at most `most` deleted ones. What it has passed is
    /// noted in any case.
    pub(super) fn explore(
        &mut self,
        copied: &mut Copied,
        key: &[u8],
        way: Direction,
        most: u64,
    ) -> Result<bool> {
        (self.steps_max, self.keys_only) = (most, true);
        let found = self.start(copied, Bound::Included(key), way, Bound::Unbounded);
        self.steps_max = u64::MAX;
        found
    }

    /// Goes to the first key from `from` on in this direction of the family's order, unless that lies behind `until`.
    pub(super) fn seek(
        &mut self,
        copied: &mut Copied,
        from: Bound<&[u8]>,
        until: Bound<&[u8]>,
        order: Direction,
    ) -> Result<bool> {
        self.start(copied, from, self.way(order), until)
    }

    /// The direction in the bytewise order for a direction in the family's order. Where keys descend, the first key
    /// is the one with the largest bytes, and the next one lies before it. Everything below this function knows the
    /// bytewise order only.
    pub(super) fn way(&self, order: Direction) -> Direction {
        match (order, self.family.reverse) {
            (Direction::Forward, false) | (Direction::Reverse, true) => Direction::Forward,
            (Direction::Reverse, false) | (Direction::Forward, true) => Direction::Reverse,
        }
    }

    pub(super) fn step(
        &mut self,
        copied: &mut Copied,
        direction: Direction,
        until: Bound<&[u8]>,
    ) -> Result<bool> {
        if !self.valid {
            return Ok(false);
        }
        let renewed = self.at.renew(self.family.id);
        self.valid = renewed.is_ok();
        if !renewed? && direction == self.direction {
            return self.settle(copied, self.reader(until));
        }
        let key = std::mem::take(&mut copied.key);
        self.start(copied, Bound::Excluded(&key), direction, until)
    }

    pub(super) fn reader<'a>(&self, until: Bound<&'a [u8]>) -> Reader<'a> {
        Reader {
            cf: self.family.id,
            seqno: self.at.seqno(),
            direction: self.direction,
            chunk_max: self.chunk_max,
            verify: self.verify,
            until,
        }
    }

    pub(super) fn start(
        &mut self,
        copied: &mut Copied,
        from: Bound<&[u8]>,
        direction: Direction,
        until: Bound<&[u8]>,
    ) -> Result<bool> {
        (self.valid, self.shown, self.may_wait) = (false, None, false);
        self.direction = direction;
        self.at.renew(self.family.id)?;
        let reader = self.reader(until);
        let memtables = self.at.view.memtables.len();
        if memtables > READ_MEMTABLES {
            // A chunk of each memtable is read, which costs as much as some lookups.
            self.at
                .inner()
                .common
                .asked(SEEK_ASKS * (memtables - READ_MEMTABLES) as u64);
        }
        self.sources.resize_with(memtables, Source::default);
        let view = &self.at.view;
        for (source, memtable) in self.sources.iter_mut().zip(&view.memtables) {
            let Some(first) = view.first_of(memtable, reader.cf) else {
                *source = Source::default();
                continue;
            };
            let cover = memtable.cover(reader.cf, reader.seqno);
            source.covering = cover.map(|cover| Covering::new(cover, first));
            // The cursor's moment is registered by now.
            source.gaps = memtable.gaps(reader.cf);
            source.first = first.into();
            source.collect(memtable, reader, from)?;
        }
        self.look_for_gaps();
        self.has_covering = self.sources.iter().any(|source| source.covering.is_some());
        let tables = &self.at.view.tables;
        if self.tables.as_ref().is_none_or(|t| !Arc::ptr_eq(t, tables)) {
            self.runs = sources(tables, reader.cf);
            self.tables = Some(tables.clone());
        }
        place(&mut self.runs, from, reader.course())?;
        // The first records were asked for before the tables were searched, and have arrived.
        let mut collected = 0;
        for (source, memtable) in self.sources.iter_mut().zip(&self.at.view.memtables) {
            source.find_head(memtable, reader)?;
            collected += std::mem::take(&mut source.collected);
        }
        if collected > 0 {
            self.at.inner().common.scanned(collected);
        }
        if let Bound::Included(key) | Bound::Excluded(key) = from {
            self.at.rates().scan(&self.at.view, reader.cf, key);
        }
        if let Bound::Included(key) | Bound::Excluded(key) = from
            && self.runs.len() > 1
        {
            let passed_over = self.runs.iter().map(TableSource::has_passed_over);
            tables.charge_seek(reader.cf, key, passed_over);
        }
        let found = self.settle(copied, reader)?;
        // What was counted and charged above may be worth a compaction.
        self.at.inner().common.compact_for_reads();
        Ok(found)
    }

    /// Takes the next key that has a value, unless that lies behind what is asked for. First goes past the one that it shows.
    pub(super) fn settle(&mut self, copied: &mut Copied, reader: Reader<'_>) -> Result<bool> {
        self.valid = false;
        self.may_wait |= !matches!(reader.until, Bound::Unbounded);
        if let Some(shown) = self.shown.take() {
            self.advance_past(shown, &copied.key, reader)?;
        }
        if self.may_wait {
            self.resume(reader)?;
        }
        self.passed.begin();
        let mut deletes = 0;
        while self.passed.stepped() < self.steps_max
            && let Some(first) = self.first()?
            && !self.is_over(first, reader)?
        {
            // What a range tombstone hides in its own memtable is passed, too.
            if self.has_gaps && self.pass_gap(copied, first, reader)? {
                continue;
            }
            if self.has_covers() && self.pass_covered(copied, first, reader)? {
                continue;
            }
            if self.take(copied, first, reader)? {
                self.shown = Some(first);
                self.valid = true;
                break;
            }
            self.passed.step(&copied.key);
            if let First::Run(run) = first {
                deletes += 1;
                self.charge_deletes(run, deletes);
            }
            self.advance_past(first, &copied.key, reader)?;
        }
        self.end_of_passed(&copied.key);
        if deletes > 0 {
            // Tables may have been charged for them.
            self.at.inner().common.compact_for_reads();
        }
        Ok(self.valid)
    }

    /// Lets the sources that wait go on, as far as is asked for now.
    #[inline]
    fn resume(&mut self, reader: Reader<'_>) -> Result<()> {
        for (source, memtable) in self.sources.iter_mut().zip(&self.at.view.memtables) {
            source.resume(memtable, reader)?;
        }
        for run in &mut self.runs {
            run.resume(reader.course())?;
        }
        Ok(())
    }

    /// Whether the entry that comes first lies behind what is asked for. Of such an entry nothing but its key is looked at.
    #[inline]
    fn is_over(&self, first: First, reader: Reader<'_>) -> Result<bool> {
        let (Bound::Included(until) | Bound::Excluded(until)) = reader.until else {
            return Ok(false);
        };
        let order = match first {
            First::Memtable(i) => {
                let memtable = &self.at.view.memtables[i];
                let head = self.sources[i].standing();
                head.cmp_key(memtable, first_bytes(until), until)?
            }
            First::Run(i) => self.runs[i].key().unwrap_or_default().cmp(until),
        };
        Ok(match order {
            Ordering::Equal => matches!(reader.until, Bound::Excluded(_)),
            order => !self.is_sooner(order),
        })
    }

    /// Charges the run's table, once in [`READ_DELETES`] deletes. `deletes` were stepped over, the last one in this
    /// run.
    pub(super) fn charge_deletes(&self, run: usize, deletes: u64) {
        if deletes.is_multiple_of(READ_DELETES)
            && let (Some(tables), Some(table)) = (&self.tables, self.runs[run].table())
        {
            tables.charge_deletes(self.family.id, table);
        }
    }

    /// Copies the key of the entry that comes first, and its value if that is asked for. Returns whether it has a value.
    pub(super) fn take(
        &mut self,
        copied: &mut Copied,
        first: First,
        reader: Reader<'_>,
    ) -> Result<bool> {
        let (kind, key, value) = match first {
            First::Memtable(i) => {
                let head = self.sources[i].standing();
                let (key, value) = head.key_and_value(&self.at.view.memtables[i])?;
                let blob = match head.kind {
                    Kind::PutBlob => decode_blob_ref(value),
                    _ => None,
                };
                let value = blob.map_or(Stored::Inline(value), Stored::Blob);
                (head.kind, key, value)
            }
            First::Run(i) => {
                let head = self.runs[i].head()?;
                let head = head.expect("the run stands at a key");
                (head.kind, head.key, head.value)
            }
        };
        let found = matches!(kind, Kind::Put | Kind::PutBlob);
        copied.key.clear();
        copied.key.extend_from_slice(key);
        if self.keys_only {
            copied.value.clear();
            self.at.inner().common.space.region().check_media()?;
            // An operand makes a value of whatever it is on.
            return Ok(found || kind == Kind::Merge);
        }
        if kind == Kind::Merge {
            return self.take_folded(copied);
        }
        let mut blob = None;
        match value {
            Stored::Inline(value) if found => {
                copied.value.clear();
                copied.value.extend_from_slice(value);
            }
            Stored::Blob(at) if found => blob = Some(at),
            _ => {}
        }
        // Checked before a reference is used.
        self.at.inner().common.space.region().check_media()?;
        if let Some(blob) = blob {
            // The old buffer goes first, so that only one long value is in DRAM.
            copied.value = Vec::new();
            let files = &self.at.inner().common.catalog.table_files;
            copied.value = match first {
                First::Memtable(..) => files.read_blob(self.family.id, &copied.key, blob)?,
                First::Run(i) => self.runs[i].read_value(blob, reader.course())?,
            };
        }
        Ok(found)
    }

    /// As [`Walk::take`], for the copied key, whose newest version is an operand.
    #[cold]
    fn take_folded(&self, copied: &mut Copied) -> Result<bool> {
        let place = (self.family.id, &*copied.key);
        let common = &self.at.inner().common;
        let value = operands::folded(common, &self.at.view, place, self.at.seqno())?;
        let found = value.is_some();
        copied.value = value.unwrap_or_default();
        Ok(found)
    }

    /// Moves on all sources that stand at the `key` of `first`, which was copied.
    pub(super) fn advance_past(
        &mut self,
        first: First,
        key: &[u8],
        reader: Reader<'_>,
    ) -> Result<()> {
        let (newest, own_run) = match first {
            First::Memtable(i) => (i, None),
            First::Run(i) => (self.sources.len(), Some(i)),
        };
        let prefix = first_bytes(key);
        let memtables = self.sources.iter_mut().zip(&self.at.view.memtables);
        for (i, (source, memtable)) in memtables.enumerate().skip(newest) {
            let Some(head) = &source.head else { continue };
            if i == newest || head.cmp_key(memtable, prefix, key)?.is_eq() {
                source.advance(memtable, reader)?;
                if source.collected > 0 {
                    let collected = std::mem::take(&mut source.collected);
                    self.at.inner().common.scanned(collected);
                }
            }
        }
        // It has not moved since, and no newer run has its key.
        let runs = self.runs.iter_mut().enumerate();
        for (i, run) in runs.skip(own_run.unwrap_or(0)) {
            let is_own = own_run == Some(i);
            if is_own || run.prefix() == Some(prefix) && run.key() == Some(key) {
                run.advance(reader.course())?;
            }
        }
        Ok(())
    }

    /// Whether a key that compares to the first so far by `order` comes sooner on the cursor's way.
    pub(super) fn is_sooner(&self, order: Ordering) -> bool {
        match self.direction {
            Direction::Forward => order.is_lt(),
            Direction::Reverse => order.is_gt(),
        }
    }

    /// The source whose head comes first. Of equal keys the newest source wins.
    pub(super) fn first(&self) -> Result<Option<First>> {
        if let ([only], []) = (&self.sources[..], &self.runs[..]) {
            return Ok(only.head.as_ref().map(|_| First::Memtable(0)));
        }
        let memtables = &self.at.view.memtables;
        let mut best: Option<(usize, &Head)> = None;
        for (i, source) in self.sources.iter().enumerate() {
            let Some(head) = &source.head else { continue };
            let sooner = match best {
                None => true,
                Some((best, than)) => {
                    self.is_sooner(head.cmp(&memtables[i], than, &memtables[best])?)
                }
            };
            if sooner {
                best = Some((i, head));
            }
        }
        let mut first = best.map(|(i, head)| (head.prefix, First::Memtable(i)));
        for (i, run) in self.runs.iter().enumerate() {
            let Some(prefix) = run.prefix() else { continue };
            let order = match first {
                None => None,
                Some((than, _)) if than != prefix => Some(prefix.cmp(&than)),
                Some((_, First::Memtable(of))) => {
                    let key = run.key().unwrap_or_default();
                    let head = self.sources[of].standing();
                    Some(head.cmp_key(&memtables[of], prefix, key)?.reverse())
                }
                Some((_, First::Run(of))) => Some(run.key().cmp(&self.runs[of].key())),
            };
            if order.is_none_or(|order| self.is_sooner(order)) {
                first = Some((prefix, First::Run(i)));
            }
        }
        Ok(first.map(|(_, first)| first))
    }
}

impl Drop for Walk {
    /// The next cursor goes about as far as this one.
    fn drop(&mut self) {
        let Some(view) = &self.at.view.view else {
            return;
        };
        for (source, memtable) in self.sources.iter().zip(&view.memtables) {
            source.leave(memtable, self.family.id, self.chunk_max);
        }
    }
}
