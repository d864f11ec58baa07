//! Reading: point lookups, and a cursor that merges the generations of a view.
//!
//! A cursor sees one moment of the store for as long as it lives. While it stands still its view
//! may be taken from it (`seat`, `holds`); then, and where what the view has was retired, it seeks
//! its key anew in the newest one when it moves. Each generation is scanned in chunks (no epoch
//! guard outlives a call); of equal keys the newest generation's record wins, and a tombstone hides
//! the key, or a range of them (`hidden`). Stretches of deleted keys are stepped through once, and then
//! passed (`gaps`). Checksums are verified before a record is believed, whatever it then leads to.
//!
//! All moves are in the order of the cursor's family. Indexes always ascend; for a family whose keys
//! descend the cursor goes through them the other way, and nothing else differs.

use std::cmp::Ordering;
use std::ops::Bound;

use thermocline_base::size::index;
use thermocline_base::{CfId, Kind, Result, SeqNo};
use thermocline_catalog::view::not_before;
use thermocline_memtable::{Direction, GapList, Memtable, RecordRef, ScanEntry};
use thermocline_pm::PmOff;
use thermocline_policy::tuning::READ_DELETES;
use thermocline_sst::Value as Stored;
use thermocline_tables::{TableSource, Tables, place, sources};

use crate::families::Family;
use crate::holds::Moment;
use crate::store::Engine;
use crate::sync::{Arc, Ordering as Atomic};
use crate::value::Value;
use gaps::Passed;
use hidden::Covering;
use place::Place;
pub use seat::Cursor;

mod gaps;
mod hidden;
mod place;
mod seat;

/// Entries of a cursor's first chunk from each generation; later ones double up to the option.
const FIRST_CHUNK: usize = 16;

/// What seeking in a generation costs, in keys that it might be asked for.
const CHUNK_ASKS: u64 = 4;

impl Engine {
    /// Calls `found` with the value of `key`, where it lies; `None` if there is none.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] naming region and offset;
    /// [`thermocline_base::Error::InvalidArgument`] for a family that was dropped.
    pub fn get<T>(
        &self,
        cf: CfId,
        key: &[u8],
        found: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        let inner = &*self.inner;
        let verify = inner.options.read.verify_checksums != 0;
        // A generation that comes after this holds only what was not visible when we began.
        let view = inner.catalog.view();
        view.pins()?;
        // Behind the view: what was dropped by now may be missing from it, or from a part of it.
        inner.families.check(cf, inner.families.moment())?;
        let visible = inner.commits.ring.visible_mark();
        inner.find(
            &view,
            (cf, key),
            |memtable| memtable.get_latest(cf, key, visible, verify),
            // What was ingested may be there and not visible yet (`ingest`).
            |tables| tables.get(cf, key, SeqNo(visible.load(Atomic::SeqCst))),
            |hit| found(hit.bytes()),
        )
    }

    /// As [`Engine::get`], with the value copied or pinned.
    ///
    /// # Errors
    /// As [`Engine::get`].
    pub fn value(&self, cf: CfId, key: &[u8]) -> Result<Option<Value>> {
        let inner = &*self.inner;
        let verify = inner.options.read.verify_checksums != 0;
        let view = inner.catalog.view();
        let pins = view.pins()?;
        // As above.
        inner.families.check(cf, inner.families.moment())?;
        let visible = inner.commits.ring.visible_mark();
        inner.find(
            &view,
            (cf, key),
            |memtable| memtable.get_latest(cf, key, visible, verify),
            |tables| tables.get(cf, key, SeqNo(visible.load(Atomic::SeqCst))),
            |hit| inner.value(pins, hit),
        )
    }

    /// A cursor over `family` at what is visible now, not yet at any key.
    ///
    /// # Errors
    /// [`thermocline_base::Error::InvalidArgument`] for a family that was dropped.
    pub fn cursor(&self, family: Family) -> Result<Cursor> {
        let moment = Moment::now(&self.inner);
        moment.check(family.id)?;
        Ok(Cursor::new(moment, family))
    }
}

/// A position in one column family, at one moment of the store: what of a cursor is used while it moves.
#[derive(Debug)]
struct Walk {
    at: Place,
    family: Family,
    /// One for each generation of the view, newest first.
    sources: Vec<Source>,
    /// One for each run of tables below them, newest first.
    runs: Vec<TableSource>,
    /// The tables that the runs are of.
    tables: Option<Arc<Tables>>,
    /// The way it goes through the bytes; see [`Walk::way`].
    direction: Direction,
    valid: bool,
    key: Vec<u8>,
    value: Vec<u8>,
    chunk_max: usize,
    verify: bool,
    /// Whether any source has gaps.
    has_gaps: bool,
    passed: Passed,
}

/// The records of one generation from the cursor's position on.
#[derive(Debug, Default)]
struct Source {
    chunk: Vec<ScanEntry>,
    at: usize,
    /// Whether there may be records behind the chunk.
    more: bool,
    chunk_len: usize,
    head: Option<Head>,
    /// The range tombstones of its generation.
    covering: Option<Covering>,
    /// The gaps of its generation.
    gaps: Option<Arc<GapList>>,
    /// Keys below this one are none of its own: those are in tables (`evacuate`).
    first: Box<[u8]>,
}

/// The record of a source that is next.
#[derive(Debug, Clone, Copy)]
struct Head {
    at: PmOff,
    /// The first eight bytes of its key, as a number that orders like them (shorter keys padded
    /// with zeros): most comparisons end here, without touching the record.
    prefix: u64,
}

impl Head {
    fn of(record: &RecordRef<'_>) -> Head {
        Head {
            at: record.at,
            prefix: prefix(record.key),
        }
    }

    fn cmp(&self, memtable: &Memtable, other: &Head, others: &Memtable) -> Result<Ordering> {
        match self.prefix.cmp(&other.prefix) {
            Ordering::Equal => {
                let mine = memtable.record(self.at, false)?;
                Ok(mine.key.cmp(others.record(other.at, false)?.key))
            }
            order => Ok(order),
        }
    }

    /// As [`Head::cmp`], with a key at hand.
    fn cmp_key(&self, memtable: &Memtable, prefix: u64, key: &[u8]) -> Result<Ordering> {
        match self.prefix.cmp(&prefix) {
            Ordering::Equal => Ok(memtable.record(self.at, false)?.key.cmp(key)),
            order => Ok(order),
        }
    }
}

/// The first eight bytes of a key, as a number.
fn prefix(key: &[u8]) -> u64 {
    let mut prefix = [0; 8];
    let n = key.len().min(8);
    prefix[..n].copy_from_slice(&key[..n]);
    u64::from_be_bytes(prefix)
}

/// Which source has what comes first.
#[derive(Debug, Clone, Copy)]
enum First {
    /// That of a generation.
    Memtable(usize, Head),
    /// That of a run.
    Run(usize),
}

/// What a source needs to know of its cursor.
#[derive(Debug, Clone, Copy)]
struct Reader {
    cf: CfId,
    seqno: SeqNo,
    direction: Direction,
    chunk_max: usize,
    verify: bool,
}

impl Source {
    /// Goes to where there is nothing.
    fn end(&mut self) {
        self.chunk.clear();
        (self.at, self.more, self.head) = (0, false, None);
    }

    fn restart(&mut self, memtable: &Memtable, reader: Reader, from: Bound<&[u8]>) -> Result<()> {
        // Mostly empty.
        let first = self.first.clone();
        let from = match reader.direction {
            Direction::Forward => not_before(from, &first),
            Direction::Reverse => from,
        };
        self.chunk_len = FIRST_CHUNK.min(reader.chunk_max);
        self.fill(memtable, reader, from)?;
        self.find_head(memtable, reader)
    }

    fn fill(&mut self, memtable: &Memtable, reader: Reader, from: Bound<&[u8]>) -> Result<()> {
        self.chunk.clear();
        self.at = 0;
        let Reader {
            cf,
            seqno,
            direction,
            ..
        } = reader;
        self.more = memtable.scan(cf, from, direction, seqno, self.chunk_len, &mut self.chunk)?;
        Ok(())
    }

    fn advance(&mut self, memtable: &Memtable, reader: Reader) -> Result<()> {
        self.at += 1;
        self.find_head(memtable, reader)
    }

    /// Finds the next record that the reader may see, from the present position on.
    fn find_head(&mut self, memtable: &Memtable, reader: Reader) -> Result<()> {
        self.head = None;
        loop {
            if let Some(entry) = self.chunk.get(self.at) {
                // Verified before it is believed: its seqno decides whether it shows, its key where.
                let record = memtable.record(entry.at, reader.verify)?;
                if *record.key < *self.first {
                    // It is on its way back.
                    self.end();
                    return Ok(());
                }
                if record.seqno <= reader.seqno {
                    self.head = Some(Head::of(&record));
                    return Ok(());
                }
                self.at += 1;
                continue;
            }
            let Some(last) = self.chunk.last().filter(|_| self.more) else {
                return Ok(());
            };
            let last = memtable.record(last.at, false)?;
            self.chunk_len = (self.chunk_len * 2).min(reader.chunk_max);
            self.fill(memtable, reader, Bound::Excluded(last.key))?;
        }
    }
}

impl Walk {
    fn new(moment: Moment, family: Family) -> Walk {
        let options = &moment.inner().options;
        Walk {
            chunk_max: index(options.read.readahead),
            verify: options.read.verify_checksums != 0,
            sources: Vec::new(),
            runs: Vec::new(),
            tables: None,
            at: Place::new(moment),
            family,
            direction: Direction::Forward,
            valid: false,
            key: Vec::new(),
            value: Vec::new(),
            has_gaps: false,
            passed: Passed::default(),
        }
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.start(Bound::Included(key), self.way(Direction::Forward))
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool> {
        self.start(Bound::Included(key), self.way(Direction::Reverse))
    }

    fn seek_past(&mut self, key: &[u8], direction: Direction) -> Result<bool> {
        self.start(Bound::Excluded(key), self.way(direction))
    }

    fn seek_to_first(&mut self) -> Result<bool> {
        self.start(Bound::Unbounded, self.way(Direction::Forward))
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        self.start(Bound::Unbounded, self.way(Direction::Reverse))
    }

    /// The way through the bytes for a way through the family's order: where keys descend, the first key
    /// is the one with the largest bytes, and the next one lies before. All below this turn knows bytes
    /// only.
    fn way(&self, order: Direction) -> Direction {
        match (order, self.family.reverse) {
            (Direction::Forward, false) | (Direction::Reverse, true) => Direction::Forward,
            (Direction::Reverse, false) | (Direction::Forward, true) => Direction::Reverse,
        }
    }

    fn step(&mut self, direction: Direction) -> Result<bool> {
        if !self.valid {
            return Ok(false);
        }
        let renewed = self.at.renew(self.family.id);
        self.valid = renewed.is_ok();
        if !renewed? && direction == self.direction {
            return self.settle();
        }
        let key = std::mem::take(&mut self.key);
        self.start(Bound::Excluded(&key), direction)
    }

    fn reader(&self) -> Reader {
        Reader {
            cf: self.family.id,
            seqno: self.at.seqno(),
            direction: self.direction,
            chunk_max: self.chunk_max,
            verify: self.verify,
        }
    }

    fn start(&mut self, from: Bound<&[u8]>, direction: Direction) -> Result<bool> {
        self.valid = false;
        self.direction = direction;
        self.at.renew(self.family.id)?;
        let reader = self.reader();
        let generations = self.at.view.memtables.len();
        if generations > 2 {
            // Of each a chunk is read, which costs as much as asking for some keys.
            self.at.inner().asked(CHUNK_ASKS * (generations as u64 - 2));
        }
        self.sources.resize_with(generations, Source::default);
        let view = &self.at.view;
        for (source, memtable) in self.sources.iter_mut().zip(&view.memtables) {
            let Some(first) = view.first_of(memtable, reader.cf) else {
                *source = Source::default();
                continue;
            };
            let cover = memtable.cover(reader.cf, reader.seqno);
            source.covering = cover.map(|cover| Covering::new(cover, first));
            // It is known by now at which moment this reads.
            source.gaps = memtable.gaps(reader.cf);
            source.first = first.into();
            source.restart(memtable, reader, from)?;
        }
        self.look_for_gaps();
        let tables = &self.at.view.tables;
        if self.tables.as_ref().is_none_or(|t| !Arc::ptr_eq(t, tables)) {
            self.runs = sources(tables, reader.cf);
            self.tables = Some(tables.clone());
        }
        place(&mut self.runs, from, direction, reader.seqno)?;
        if let Bound::Included(key) | Bound::Excluded(key) = from {
            self.at.rates().read(&self.at.view, reader.cf, key);
        }
        if let Bound::Included(key) | Bound::Excluded(key) = from
            && self.runs.len() > 1
        {
            tables.charge_seek(reader.cf, key);
        }
        self.settle()
    }

    /// Takes the next key that has a value.
    fn settle(&mut self) -> Result<bool> {
        self.valid = false;
        self.passed.begin();
        let mut deletes = 0;
        while let Some(first) = self.first()? {
            if self.has_covers() && self.pass_covered(first)? {
                continue;
            }
            if self.has_gaps && self.pass_gap(first)? {
                continue;
            }
            let found = self.take(first)?;
            if !found {
                self.passed.step(&self.key);
            }
            if let First::Run(run) = first
                && !found
            {
                deletes += 1;
                self.charge_deletes(run, deletes);
            }
            self.advance_past(first)?;
            if found {
                self.valid = true;
                break;
            }
        }
        self.end_of_passed();
        self.at.inner().compact_for_reads();
        Ok(self.valid)
    }

    /// `deletes` deletes were stepped over, the last of them in a run.
    fn charge_deletes(&self, run: usize, deletes: u64) {
        if deletes.is_multiple_of(READ_DELETES)
            && let (Some(tables), Some(table)) = (&self.tables, self.runs[run].table())
        {
            tables.charge_deletes(self.family.id, table);
        }
    }

    /// Copies the key of what comes first, and its value. Returns whether it has one.
    fn take(&mut self, first: First) -> Result<bool> {
        let (kind, key, value) = match first {
            First::Memtable(i, head) => {
                let record = self.at.view.memtables[i].record(head.at, false)?;
                let blob = record.blob().map(Stored::Blob);
                let value = blob.unwrap_or(Stored::Inline(record.value));
                (record.kind, record.key, value)
            }
            First::Run(i) => {
                let head = self.runs[i].head()?;
                let head = head.expect("the run stands at a key");
                (head.kind, head.key, head.value)
            }
        };
        let found = matches!(kind, Kind::Put | Kind::PutBlob);
        self.key.clear();
        self.key.extend_from_slice(key);
        let mut blob = None;
        match value {
            Stored::Inline(value) if found => {
                self.value.clear();
                self.value.extend_from_slice(value);
            }
            Stored::Blob(at) if found => blob = Some(at),
            _ => {}
        }
        // Before a reference is believed.
        self.at.inner().space.region().check_media()?;
        if let Some(blob) = blob {
            // Both at a time would be one too many.
            self.value = Vec::new();
            self.value =
                self.at
                    .inner()
                    .catalog
                    .table_files
                    .read_blob(self.family.id, &self.key, blob)?;
        }
        Ok(found)
    }

    /// Moves all sources on that stand at the key of `first`, which was copied.
    fn advance_past(&mut self, first: First) -> Result<()> {
        let reader = self.reader();
        let newest = match first {
            First::Memtable(i, _) => i,
            First::Run(_) => self.sources.len(),
        };
        let prefix = prefix(&self.key);
        let generations = self.sources.iter_mut().zip(&self.at.view.memtables);
        for (i, (source, memtable)) in generations.enumerate().skip(newest) {
            let Some(head) = source.head else { continue };
            if i == newest || head.cmp_key(memtable, prefix, &self.key)?.is_eq() {
                source.advance(memtable, reader)?;
            }
        }
        for run in &mut self.runs {
            if run.key() == Some(self.key.as_slice()) {
                run.advance(reader.direction, reader.seqno)?;
            }
        }
        Ok(())
    }

    /// Whether what compares like this to the first so far comes sooner.
    fn is_sooner(&self, order: Ordering) -> bool {
        match self.direction {
            Direction::Forward => order.is_lt(),
            Direction::Reverse => order.is_gt(),
        }
    }

    /// Which source's head comes first; of equal keys the newest.
    fn first(&self) -> Result<Option<First>> {
        let memtables = &self.at.view.memtables;
        let mut best: Option<(usize, Head)> = None;
        for (i, source) in self.sources.iter().enumerate() {
            let Some(head) = source.head else { continue };
            let sooner = match &best {
                None => true,
                Some((best, than)) => {
                    self.is_sooner(head.cmp(&memtables[i], than, &memtables[*best])?)
                }
            };
            if sooner {
                best = Some((i, head));
            }
        }
        let mut first = best.map(|(i, head)| First::Memtable(i, head));
        for (i, run) in self.runs.iter().enumerate() {
            let Some(key) = run.key() else { continue };
            let sooner = match first {
                None => true,
                Some(First::Memtable(of, head)) => {
                    let order = head.cmp_key(&memtables[of], prefix(key), key)?;
                    self.is_sooner(order.reverse())
                }
                Some(First::Run(of)) => self.is_sooner(Some(key).cmp(&self.runs[of].key())),
            };
            if sooner {
                first = Some(First::Run(i));
            }
        }
        Ok(first)
    }
}

impl Engine {
    /// Whether both are handles of one open store.
    pub fn is_same(&self, other: &Engine) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The last seqno that survives a crash, together with all before it.
    pub fn durable(&self) -> SeqNo {
        SeqNo(self.inner.commits.ring.durable())
    }

    /// The last seqno that readers see.
    pub fn visible(&self) -> SeqNo {
        SeqNo(self.inner.commits.ring.visible())
    }
}

#[cfg(test)]
mod tests;
