//! A store whose tables have keys.

use std::collections::BTreeMap;

use thermocline_base::{FileId, SeqNo};
use thermocline_testkit::Rng;

use super::super::{Cursors, Held, Job, PickOptions, State, Table};
use crate::KeyRange;

const ENTRY_BYTES: u64 = 10;

#[derive(Debug, Clone)]
pub struct OwnedTable {
    pub file: u64,
    /// By key, then newest first; keys and seqnos.
    entries: Vec<(Vec<u8>, u64)>,
    /// Whether a range tombstone makes it reach further, and to before which key.
    end: Option<Vec<u8>>,
    pub has_tombstones: bool,
    /// Whether it lies in persistent memory.
    pub in_pm: bool,
}

impl OwnedTable {
    pub fn meta(&self) -> Table<'_> {
        let seqnos = self.entries.iter().map(|(_, seqno)| SeqNo(*seqno));
        let (first, last) = (&self.entries[0].0, &self.entries[self.entries.len() - 1].0);
        Table {
            file: FileId(self.file),
            range: match &self.end {
                Some(end) => KeyRange::until(first, end),
                None => KeyRange::inclusive(first, last),
            },
            bytes: self.entries.len() as u64 * ENTRY_BYTES,
            smallest_seqno: seqnos.clone().min().unwrap(),
            largest_seqno: seqnos.max().unwrap(),
            has_tombstones: self.has_tombstones,
            in_pm: self.in_pm,
        }
    }
}

/// A running job and the files that it will replace.
#[derive(Debug)]
pub struct Running {
    pub job: Job,
    inputs: Vec<u64>,
    overlapped: Vec<u64>,
}

#[derive(Debug, Default)]
pub struct Store {
    pub levels: Vec<Vec<OwnedTable>>,
    pub running: Vec<Running>,
    pub cursors: Cursors,
    pub next_file: u64,
    next_seqno: u64,
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
        let running: Vec<Held> = self.running.iter().map(|r| r.job.holds.clone()).collect();
        look(&State {
            levels: &levels,
            running: &running,
        })
    }

    /// A new table in level 0 with random keys of a random part of the space.
    pub fn flush(&mut self, rng: &mut Rng) {
        let (low, len) = (rng.below(200), 1 + rng.below(120));
        let mut entries = BTreeMap::new();
        for _ in 0..1 + rng.below(12) {
            let key = u8::try_from((low + rng.below(len)).min(255)).unwrap();
            self.next_seqno += 1;
            entries.insert(vec![key], self.next_seqno);
        }
        for (key, seqno) in &entries {
            self.written
                .entry(key.clone())
                .or_default()
                .insert(0, *seqno);
        }
        let entries: Vec<_> = entries.into_iter().collect();
        let end = rng.one_in(4).then(|| {
            let last = &entries[entries.len() - 1].0;
            vec![last[0], u8::try_from(rng.below(4)).unwrap()]
        });
        self.next_file += 1;
        let table = OwnedTable {
            file: self.next_file,
            entries,
            has_tombstones: end.is_some() || rng.one_in(3),
            end,
            in_pm: rng.one_in(3),
        };
        self.levels[0].insert(0, table);
    }

    /// Checks a job against what is there, and begins it.
    pub fn begin(&mut self, job: Job, options: &PickOptions) {
        for other in &self.running {
            assert!(!other.job.holds.collides(&job.holds), "{job:?} {other:?}");
        }
        let files = |level: usize, places: &[usize]| -> Vec<u64> {
            places.iter().map(|n| self.levels[level][*n].file).collect()
        };
        let inputs = files(job.from, &job.inputs);
        let overlapped = match job.from == job.to {
            true => Vec::new(),
            false => files(job.to, &job.overlapped),
        };
        for other in &self.running {
            let theirs = || other.inputs.iter().chain(&other.overlapped);
            assert!(
                inputs
                    .iter()
                    .chain(&overlapped)
                    .all(|f| theirs().all(|g| f != g)),
                "{job:?}"
            );
        }
        assert!(job.inputs.is_sorted() && !job.inputs.is_empty());
        for table in job.inputs.iter().map(|n| self.levels[job.from][*n].meta()) {
            let below = self.levels.get(job.to + 1).into_iter().flatten();
            let below = below
                .map(OwnedTable::meta)
                .filter(|t| t.range.overlaps(&table.range));
            let heavy = below.map(|t| t.bytes).sum::<u64>() > options.grandparent_bytes_max;
            let drops = table.has_tombstones && job.to == options.last_level;
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
        let mut taken = Vec::new();
        for (level, files) in [(job.from, &inputs), (job.to, &overlapped)] {
            let tables = &mut self.levels[level];
            let before = taken.len();
            for n in (0..tables.len()).rev() {
                if files.contains(&tables[n].file) {
                    taken.push(tables.remove(n));
                }
            }
            assert_eq!(
                taken.len() - before,
                files.len(),
                "a table of {job:?} has gone"
            );
        }
        if job.is_internal() {
            return self.end_internal(taken, rng);
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
        let to = &mut self.levels[job.to];
        to.extend(outputs);
        to.sort_by(|a, b| a.entries[0].0.cmp(&b.entries[0].0));
    }

    /// All of it, or what lies below some key, is merged, and stands where it stood by age.
    fn end_internal(&mut self, mut taken: Vec<OwnedTable>, rng: &mut Rng) {
        let some = rng.below(taken.len());
        let end = taken[some].entries[0].0.clone();
        let mut rest = Vec::new();
        if rng.one_in(2) && taken.iter().all(|table| table.end.is_none()) {
            for table in &mut taken {
                let at = table.entries.partition_point(|(key, _)| *key < end);
                let entries = table.entries.split_off(at);
                if !entries.is_empty() {
                    rest.push(OwnedTable {
                        entries,
                        ..table.clone()
                    });
                }
            }
            taken.retain(|table| !table.entries.is_empty());
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
                has_tombstones: rng.one_in(4),
                in_pm: false,
            });
        }
        // The furthest range tombstone goes into the last table, if it reaches behind it.
        let last = tables.last_mut().expect("a job has entries");
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
        assert_eq!(read, self.written);
    }
}

impl PartialEq for OwnedTable {
    fn eq(&self, other: &OwnedTable) -> bool {
        self.file == other.file
    }
}
