//! Ranges that are deleted in the model store, and the readers of what was there.

use std::collections::BTreeMap;

use thermocline_base::SeqNo;
use thermocline_testkit::Rng;

use super::super::super::{Deleted, DeletedRanges, Job};
use super::{OwnedTable, Store};

/// Ranges that were deleted, in key order, none over another; and the moments of readers.
#[derive(Debug, Default)]
pub struct Deletes {
    ranges: Vec<Deleted>,
    /// All that were deleted, whole.
    ever: Vec<Deleted>,
    /// Whether the ranges were emptied key by key, so that tables may have what hides the values below them.
    pub by_key: bool,
    moments: Vec<SeqNo>,
}

impl Deletes {
    pub fn ranges(&self) -> DeletedRanges<'_> {
        let none: &[Deleted] = &[];
        let (covered, empty) = match self.by_key {
            false => (&self.ranges[..], none),
            true => (none, &self.ranges[..]),
        };
        DeletedRanges {
            covered,
            empty,
            moments: &self.moments,
        }
    }

    /// Whether a reader of now, or a registered one, finds this version of a key.
    fn is_found(&self, key: &[u8], seqno: u64) -> bool {
        let deletes = |range: &&Deleted| {
            let end = range.end.as_ref();
            let has_key = *range.start <= *key && end.is_none_or(|end| *key < **end);
            has_key && range.older_than > SeqNo(seqno)
        };
        let deleted: Vec<SeqNo> = self
            .ever
            .iter()
            .filter(deletes)
            .map(|r| r.unread_from)
            .collect();
        let mut readers = self.moments.iter().chain([&SeqNo::MAX]);
        readers.any(|at| *at >= SeqNo(seqno) && !deleted.iter().any(|from| from <= at))
    }

    /// The versions that somebody may find.
    pub fn left_of(&self, mut all: BTreeMap<Vec<u8>, Vec<u64>>) -> BTreeMap<Vec<u8>, Vec<u64>> {
        for (key, seqnos) in &mut all {
            seqnos.retain(|seqno| self.is_found(key, *seqno));
        }
        all.retain(|_, seqnos| !seqnos.is_empty());
        all
    }
}

impl Store {
    /// Deletes a random range. Of those that it meets what lies outside stays.
    pub fn delete_range(&mut self, rng: &mut Rng) {
        self.next_seqno += 1;
        let key = |rng: &mut Rng| vec![u8::try_from(rng.below(256)).unwrap()];
        let (a, b) = (key(rng), key(rng));
        let new = Deleted {
            start: a.clone().min(b.clone()),
            end: (a != b && !rng.one_in(5)).then(|| a.max(b)),
            older_than: SeqNo(self.next_seqno),
            unread_from: SeqNo(self.next_seqno),
        };
        self.deletes.ever.push(new.clone());
        let mut all = vec![new.clone()];
        for old in std::mem::take(&mut self.deletes.ranges) {
            let behind = new.end.as_ref().map(|end| Deleted {
                start: end.clone().max(old.start.clone()),
                ..old.clone()
            });
            let end = match &old.end {
                Some(end) => end.clone().min(new.start.clone()),
                None => new.start.clone(),
            };
            let before = Deleted {
                end: Some(end),
                ..old
            };
            let both = [Some(before), behind].into_iter().flatten();
            all.extend(both.filter(|part| part.end.as_ref().is_none_or(|end| part.start < *end)));
        }
        all.sort_by(|a, b| a.start.cmp(&b.start));
        self.deletes.ranges = all;
    }

    /// A reader begins to read what there is, or all readers have ended.
    pub fn read_or_leave(&mut self, rng: &mut Rng) {
        match rng.one_in(3) {
            true => self.deletes.moments.clear(),
            false => self.deletes.moments.push(SeqNo(self.next_seqno)),
        }
    }

    /// Deletes every key, and nobody reads.
    pub fn delete_all(&mut self) {
        self.next_seqno += 1;
        self.deletes.moments.clear();
        let all = Deleted {
            start: Vec::new(),
            end: None,
            older_than: SeqNo(self.next_seqno),
            unread_from: SeqNo(self.next_seqno),
        };
        self.deletes.ever.push(all.clone());
        self.deletes.ranges = vec![all];
    }

    /// Nobody may find anything of what a job takes away.
    pub fn check_deleted(&self, job: &Job) {
        assert!(job.overlapped.is_empty() && job.from == job.to && !job.trivial);
        let tables = job.inputs.iter().map(|n| &self.levels[job.from][*n]);
        self.check_nobody_finds(tables);
        for table in job.inputs.iter().map(|n| &self.levels[job.from][*n]) {
            self.check_hides_nothing(table, job);
        }
    }

    /// Where keys were deleted one by one, nothing lies below a table that goes.
    fn check_hides_nothing(&self, table: &OwnedTable, job: &Job) {
        let range = table.meta().range;
        let deeper = self.levels[job.from + 1..].iter().flatten();
        let beside = self.levels[0].iter().enumerate();
        let beside = beside.filter(|(n, _)| job.from == 0 && !job.inputs.contains(n));
        let beside = beside.map(|(_, other)| other);
        let older = |other: &&OwnedTable| {
            let meta = other.meta();
            meta.range.overlaps(&range) && meta.smallest_seqno < table.meta().largest_seqno
        };
        let below = deeper.chain(beside).find(older);
        assert!(!self.deletes.by_key || below.is_none(), "{job:?} {below:?}");
    }

    fn check_nobody_finds<'t>(&self, tables: impl Iterator<Item = &'t OwnedTable>) {
        for (key, seqno) in tables.flat_map(|table| &table.entries) {
            assert!(!self.deletes.is_found(key, *seqno), "{key:?} {seqno}");
        }
    }

    /// Tables go, which hid nothing that is not deleted, too.
    pub fn end_deleted(&mut self, taken: &[OwnedTable]) {
        self.check_nobody_finds(taken.iter());
        for (key, seqno) in taken.iter().flat_map(|table| &table.entries) {
            let of_key = self.written.get_mut(key).unwrap();
            of_key.retain(|s| s != seqno);
        }
        self.written.retain(|_, seqnos| !seqnos.is_empty());
    }
}
