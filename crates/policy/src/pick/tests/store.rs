//! A store whose tables have keys.

use std::collections::BTreeMap;

use thermocline_base::{FileId, SeqNo};
use thermocline_testkit::Rng;

use super::super::{Cursors, Held, Job, PickOptions, Reason, State, Table};
pub use deletes::Deletes;
pub use ranges::Flushing;
use thermocline_base::KeyRange;

mod deletes;
mod ranges;

const ENTRY_BYTES: u64 = 10;

#[derive(Debug, Clone)]
pub struct OwnedTable {
    pub file: u64,
    /// By key, then newest first; keys and seqnos.
    entries: Vec<(Vec<u8>, u64)>,
    /// Whether a range tombstone makes it reach further, and to before which key.
    end: Option<Vec<u8>>,
    /// If it was cut: what is left of it may have no entries.
    part: Option<Part>,
    pub has_tombstones: bool,
    /// Whether it lies in persistent memory.
    pub in_pm: bool,
}

/// What a reference that was cut says, whatever entries it has.
#[derive(Debug, Clone)]
struct Part {
    first: Vec<u8>,
    last: Vec<u8>,
    open: bool,
    /// Those of the whole table.
    seqnos: (SeqNo, SeqNo),
}

/// A file, and where what is left of it begins and ends.
pub type Id = (u64, Vec<u8>, Vec<u8>);

impl OwnedTable {
    pub fn meta(&self) -> Table<'_> {
        let seqnos = || self.entries.iter().map(|(_, seqno)| SeqNo(*seqno));
        let (range, (smallest_seqno, largest_seqno)) = match (&self.part, &self.end) {
            (Some(part), _) => {
                let (first, last, open) = (&part.first[..], &part.last[..], part.open);
                (KeyRange { first, last, open }, part.seqnos)
            }
            (None, end) => {
                let last = &self.entries[self.entries.len() - 1].0;
                let (first, last) = (&self.entries[0].0[..], &last[..]);
                let range = match end {
                    Some(end) => KeyRange::until(first, end),
                    None => KeyRange::inclusive(first, last),
                };
                (range, (seqnos().min().unwrap(), seqnos().max().unwrap()))
            }
        };
        Table {
            file: FileId(self.file),
            range,
            bytes: self.entries.len() as u64 * ENTRY_BYTES,
            smallest_seqno,
            largest_seqno,
            entries: self.entries.len() as u64 + u64::from(self.end.is_some()),
            deletes: u64::from(self.has_tombstones) * (1 + self.entries.len() as u64 / 2),
            in_pm: self.in_pm,
        }
    }

    fn first(&self) -> &[u8] {
        self.meta().range.first
    }

    fn id(&self) -> Id {
        let range = self.meta().range;
        (self.file, range.first.to_vec(), range.last.to_vec())
    }

    /// What of it lies before a key, and what from it on. A range tombstone may lie anywhere in it.
    fn cut_at(mut self, key: &[u8]) -> [Option<OwnedTable>; 2] {
        let meta = self.meta();
        if meta.range.first >= key {
            return [None, Some(self)];
        }
        if meta.range.ends_before(key) {
            return [Some(self), None];
        }
        let whole = Part {
            first: meta.range.first.to_vec(),
            last: meta.range.last.to_vec(),
            open: meta.range.open,
            seqnos: (meta.smallest_seqno, meta.largest_seqno),
        };
        let at = self.entries.partition_point(|(k, _)| k[..] < *key);
        let high = OwnedTable {
            entries: self.entries.split_off(at),
            part: Some(Part {
                first: key.to_vec(),
                ..whole.clone()
            }),
            ..self.clone()
        };
        let low = OwnedTable {
            end: self.end.map(|_| key.to_vec()),
            part: Some(Part {
                last: key.to_vec(),
                open: true,
                ..whole
            }),
            ..self
        };
        [Some(low), Some(high)]
    }
}

/// A running job and the tables that it will replace.
#[derive(Debug)]
pub struct Running {
    pub job: Job,
    inputs: Vec<Id>,
    overlapped: Vec<Id>,
}

#[derive(Debug, Default)]
pub struct Store {
    pub levels: Vec<Vec<OwnedTable>>,
    pub running: Vec<Running>,
    /// The range of a flush that takes tables along.
    pub flushing: Option<Flushing>,
    /// Keys at which tables will be cut, and what is held for it: each in one level.
    pub splits: Vec<(Vec<u8>, Vec<Held>)>,
    /// Whether tables have few keys beside each other, and most lie in persistent memory.
    pub narrow: bool,
    pub cursors: Cursors,
    /// Ranges that were deleted, and the readers.
    pub deletes: Deletes,
    pub next_file: u64,
    next_seqno: u64,
    /// Tables that went with range tombstones, where something newer is left.
    pub tombstones_gone: u64,
    /// What must stay: of each key its seqnos, newest first.
    written: BTreeMap<Vec<u8>, Vec<u64>>,
}

impl Store {
    pub fn new(last_level: usize) -> Store {
        Store {
            levels: vec![Vec::new(); last_level + 1],
            ..Store::default()
        }
    }

    pub fn with_state<T>(&self, look: impl FnOnce(&State<'_>) -> T) -> T {
        // Deeper empty levels may be missing.
        let deepest = self.levels.iter().rposition(|tables| !tables.is_empty());
        let levels: Vec<Vec<_>> = self.levels[..deepest.map_or(0, |n| n + 1)]
            .iter()
            .map(|tables| tables.iter().map(OwnedTable::meta).collect())
            .collect();
        let jobs = self.running.iter().map(|r| &r.job.holds);
        let flushing = self.flushing.iter().flat_map(|flushing| &flushing.holds);
        let splits = self.splits.iter().flat_map(|(_, holds)| holds);
        let running: Vec<Held> = jobs.chain(flushing).chain(splits).cloned().collect();
        look(&State {
            levels: &levels,
            running: &running,
        })
    }

    /// A new table in level 0 with random keys of a random part of the space.
    pub fn flush(&mut self, rng: &mut Rng) {
        let (low, len) = (rng.below(200), 1 + rng.below(self.width()));
        let table = self.written_to(rng, low..low + len);
        self.stands_on_top(table);
    }

    fn width(&self) -> usize {
        if self.narrow { 30 } else { 120 }
    }

    /// What is not yet in level 0: random keys of these, the newest seqnos.
    fn written_to(&mut self, rng: &mut Rng, keys: std::ops::Range<usize>) -> OwnedTable {
        let mut entries = BTreeMap::new();
        for _ in 0..1 + rng.below(12) {
            let key = u8::try_from((keys.start + rng.below(keys.len())).min(255)).unwrap();
            self.next_seqno += 1;
            entries.insert(vec![key], self.next_seqno);
        }
        let entries: Vec<_> = entries.into_iter().collect();
        let end = rng.one_in(4).then(|| {
            let last = &entries[entries.len() - 1].0;
            vec![last[0], u8::try_from(rng.below(4)).unwrap()]
        });
        self.next_file += 1;
        OwnedTable {
            file: self.next_file,
            entries,
            has_tombstones: end.is_some() || rng.one_in(3),
            end,
            part: None,
            in_pm: rng.one_in(3) != self.narrow,
        }
    }

    /// From now on this must stay.
    fn note_written(&mut self, table: &OwnedTable) {
        for (key, seqno) in &table.entries {
            let seqnos = self.written.entry(key.clone()).or_default();
            seqnos.insert(0, *seqno);
        }
    }

    fn stands_on_top(&mut self, table: OwnedTable) {
        assert!(self.flushing.is_none(), "one flush at a time");
        self.note_written(&table);
        self.levels[0].insert(0, table);
    }

    fn ids(&self, level: usize, places: &[usize]) -> Vec<Id> {
        places.iter().map(|n| self.levels[level][*n].id()).collect()
    }

    /// Takes these out of a level.
    fn remove(&mut self, level: usize, ids: &[Id]) -> Vec<OwnedTable> {
        let is_taken = |table: &mut OwnedTable| ids.contains(&table.id());
        let taken: Vec<_> = self.levels[level].extract_if(.., is_taken).collect();
        assert_eq!(taken.len(), ids.len(), "a table of {ids:?} has gone");
        taken
    }

    /// Puts these into a level that is not level 0.
    fn stand_by_keys(&mut self, level: usize, tables: Vec<OwnedTable>) {
        let level = &mut self.levels[level];
        level.extend(tables);
        level.sort_by(|a, b| a.first().cmp(b.first()));
    }

    /// What running jobs will replace.
    fn taken_by_jobs(&self) -> impl Iterator<Item = &Id> {
        let jobs = self.running.iter();
        jobs.flat_map(|job| job.inputs.iter().chain(&job.overlapped))
    }

    /// Checks a job against what is there, and begins it.
    pub fn begin(&mut self, job: Job, options: &PickOptions) {
        for other in &self.running {
            assert!(!other.job.holds.collides(&job.holds), "{job:?} {other:?}");
        }
        let flushing = || self.flushing.iter();
        let splits = self.splits.iter().flat_map(|(_, holds)| holds);
        for held in splits.chain(flushing().flat_map(|flushing| &flushing.holds)) {
            assert!(!held.collides(&job.holds), "{job:?} {held:?}");
        }
        let inputs = self.ids(job.from, &job.inputs);
        let overlapped = match job.from == job.to {
            true => Vec::new(),
            false => self.ids(job.to, &job.overlapped),
        };
        for id in self
            .taken_by_jobs()
            .chain(flushing().flat_map(Flushing::takes))
        {
            assert!(!inputs.contains(id) && !overlapped.contains(id), "{job:?}");
        }
        assert!(job.inputs.is_sorted() && !job.inputs.is_empty());
        if job.reason == Reason::Deleted {
            self.check_deleted(&job);
        } else if job.is_drop() {
            let expired = options.expired.unwrap();
            let tables = job.inputs.iter().map(|n| &self.levels[job.from][*n]);
            let seqnos = tables.flat_map(|table| table.entries.iter().map(|(_, s)| SeqNo(*s)));
            let goes = |s: SeqNo| s <= expired.up_to && expired.seen.is_none_or(|seen| s > seen);
            assert!({ seqnos }.all(goes), "{job:?}");
        }
        for table in job.inputs.iter().map(|n| self.levels[job.from][*n].meta()) {
            let below = self.levels.get(job.to + 1).into_iter().flatten();
            let below = below
                .map(OwnedTable::meta)
                .filter(|t| t.range.overlaps(&table.range));
            let heavy = below.map(|t| t.bytes).sum::<u64>() > options.grandparent_bytes_max;
            let drops = table.deletes > 0 && job.to == options.last_level;
            assert!(
                !job.trivial || !heavy && !drops && !table.in_pm && overlapped.is_empty(),
                "{job:?}"
            );
        }
        assert!(job.to <= options.last_level && job.from <= job.to);
        self.cursors.note(&job);
        self.running.push(Running {
            job,
            inputs,
            overlapped,
        });
    }

    /// Ends a job: its tables go, and those of its output come.
    pub fn end(&mut self, n: usize, rng: &mut Rng) {
        let Running {
            job,
            inputs,
            overlapped,
        } = self.running.swap_remove(n);
        let mut taken = self.remove(job.from, &inputs);
        taken.extend(self.remove(job.to, &overlapped));
        if job.is_internal() {
            return self.end_internal(taken, rng);
        }
        if job.reason == Reason::Deleted {
            return self.end_deleted(&taken);
        }
        if job.is_drop() {
            return self.end_drop(&taken);
        }
        if job.is_within_level0() {
            assert!(taken.iter().all(|table| table.in_pm), "{job:?}");
            let outputs = self.merged(taken, rng);
            return self.stand_by_age(outputs);
        }
        let outputs = match job.trivial {
            true => taken,
            false => self.merged(taken, rng),
        };
        self.stand_by_keys(job.to, outputs);
    }

    /// Tables go, and nothing older than what they had may be left in their range.
    fn end_drop(&mut self, taken: &[OwnedTable]) {
        for (key, seqno) in taken.iter().flat_map(|table| &table.entries) {
            let of_key = self.written.get_mut(key).unwrap();
            of_key.retain(|s| s != seqno);
        }
        for table in taken.iter().filter(|table| table.end.is_some()) {
            let range = table.meta().range;
            let within = self.written.iter().filter(|(key, _)| range.contains(key));
            let hidden = within.flat_map(|(_, seqnos)| seqnos);
            self.tombstones_gone += u64::from(hidden.clone().next().is_some());
            let oldest = table.entries.iter().map(|(_, seqno)| *seqno).min();
            assert!({ hidden }.all(|s| Some(*s) > oldest), "{table:?}");
        }
        for (key, seqno) in taken.iter().flat_map(|table| &table.entries) {
            let left = self.written.get(key).into_iter().flatten();
            assert!({ left }.all(|s| s > seqno), "{key:?} {seqno}");
        }
        self.written.retain(|_, seqnos| !seqnos.is_empty());
    }

    /// All of it, or what lies below some key, is merged, and stands where it stood by age.
    fn end_internal(&mut self, mut taken: Vec<OwnedTable>, rng: &mut Rng) {
        let some = rng.below(taken.len());
        let end = taken[some].first().to_vec();
        let mut rest = Vec::new();
        if rng.one_in(2) && taken.iter().all(|table| table.end.is_none()) {
            let pieces: Vec<_> = taken.into_iter().map(|table| table.cut_at(&end)).collect();
            rest.extend(pieces.iter().filter_map(|[_, behind]| behind.clone()));
            taken = pieces.into_iter().filter_map(|[low, _]| low).collect();
        }
        let mut outputs = match taken.is_empty() {
            true => Vec::new(),
            false => self.merged(taken, rng),
        };
        outputs.iter_mut().for_each(|table| table.in_pm = true);
        outputs.extend(rest);
        self.stand_by_age(outputs);
    }

    fn stand_by_age(&mut self, tables: Vec<OwnedTable>) {
        let level0 = &mut self.levels[0];
        level0.extend(tables);
        level0.sort_by_key(|table| std::cmp::Reverse(table.meta().largest_seqno));
    }

    pub fn merged(&mut self, taken: Vec<OwnedTable>, rng: &mut Rng) -> Vec<OwnedTable> {
        let ends: Vec<_> = taken.iter().filter_map(|t| t.end.clone()).collect();
        let mut entries: Vec<_> = taken.into_iter().flat_map(|t| t.entries).collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        if rng.one_in(2) {
            // Nobody reads older versions.
            let mut gone = Vec::new();
            entries.dedup_by(|next, last| {
                let same = next.0 == last.0;
                if same {
                    gone.push(next.clone());
                }
                same
            });
            for (key, seqno) in gone {
                self.written.get_mut(&key).unwrap().retain(|s| *s != seqno);
            }
        }
        let size = 1 + rng.below(15);
        let mut tables: Vec<OwnedTable> = Vec::new();
        for entry in entries {
            let room = tables.last().is_some_and(|t| {
                t.entries.len() < size || t.entries[t.entries.len() - 1].0 == entry.0
            });
            if room {
                tables.last_mut().unwrap().entries.push(entry);
                continue;
            }
            self.next_file += 1;
            tables.push(OwnedTable {
                file: self.next_file,
                entries: vec![entry],
                end: None,
                part: None,
                has_tombstones: rng.one_in(4),
                in_pm: false,
            });
        }
        // The furthest range tombstone goes into the last table, if it reaches behind it.
        let Some(last) = tables.last_mut() else {
            return tables;
        };
        let behind = &last.entries[last.entries.len() - 1].0;
        last.end = ends.into_iter().max().filter(|end| end > behind);
        last.has_tombstones |= last.end.is_some();
        tables
    }

    pub fn check(&self) {
        for tables in &self.levels[1..] {
            for pair in tables.windows(2) {
                let (a, b) = (pair[0].meta().range, pair[1].meta().range);
                assert!(a.ends_before(b.first), "{a:?} overlaps {b:?}");
            }
        }
        let level0: Vec<_> = self.levels[0].iter().map(OwnedTable::meta).collect();
        for (n, newer) in level0.iter().enumerate() {
            for older in &level0[n + 1..] {
                let apart = !newer.range.overlaps(&older.range);
                assert!(apart || newer.smallest_seqno > older.largest_seqno);
            }
        }
        // In read order each key's seqnos descend, and none is missing.
        let mut read: BTreeMap<Vec<u8>, Vec<u64>> = BTreeMap::new();
        for (key, seqno) in self.levels.iter().flatten().flat_map(|t| &t.entries) {
            read.entry(key.clone()).or_default().push(*seqno);
        }
        assert_eq!(
            self.deletes.left_of(read),
            self.deletes.left_of(self.written.clone())
        );
    }
}

impl PartialEq for OwnedTable {
    fn eq(&self, other: &OwnedTable) -> bool {
        self.file == other.file
    }
}
