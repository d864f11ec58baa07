//! Tables and levels, as pickers look at them.
//!
//! # Why a level is no list
//! A level may have 100,000 tables, and most decisions ask for no more than their bytes. So who has the tables says what they
//! come to, and shows one when somebody asks for its place; what a range meets is found by halving. Who looks for some of all
//! tables passes over those of which a [`Stretch`] says that they are not meant. Level 0 has few tables, and most questions are
//! about all of them: it is a list.

use std::fmt;
use std::ops::Range;

use thermocline_base::{FileId, KeyRange, SeqNo};

/// What the picker knows of a table reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table<'a> {
    /// The number of its file. Later files have larger ones.
    pub file: FileId,
    /// Where its keys lie.
    pub range: KeyRange<&'a [u8]>,
    /// Its bytes.
    pub bytes: u64,
    /// No entry is older.
    pub smallest_seqno: SeqNo,
    /// No entry is newer.
    pub largest_seqno: SeqNo,
    /// Its entries, range tombstones among them; of a part of a table about so many.
    pub entries: u64,
    /// Of those, deletes and range tombstones; 0 only if there are none.
    pub deletes: u64,
    /// Whether it lies in persistent memory. Only tables of level 0 do.
    pub in_pm: bool,
}

/// Tables that follow each other in a level from 1 on, and what is known without a look at each of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// Where they stand.
    pub places: Range<usize>,
    /// None has more deletes and range tombstones.
    pub deletes_max: u64,
    /// None has fewer entries.
    pub entries_min: u64,
    /// The newest entry of none is older.
    pub newest_min: SeqNo,
}

/// The tables of a family, by level and place: of level 0 newest first, of others in key order.
pub trait Tables: fmt::Debug {
    /// How many levels there are, with level 0. Deeper ones have no tables.
    fn level_count(&self) -> usize;

    /// The tables of level 0.
    fn level0(&self) -> &[Table<'_>];

    /// How many tables a level has.
    fn len_of(&self, level: usize) -> usize;

    /// The table at a place of a level.
    ///
    /// # Panics
    /// If there is none.
    fn table(&self, level: usize, place: usize) -> Table<'_>;

    /// Bytes of a level's tables at places that follow each other.
    fn bytes_in(&self, level: usize, places: Range<usize>) -> u64 {
        places.map(|place| self.table(level, place).bytes).sum()
    }

    /// Bytes of a level's tables.
    fn bytes_of(&self, level: usize) -> u64 {
        self.bytes_in(level, 0..self.len_of(level))
    }

    /// Deletes and range tombstones of a level's tables.
    fn deletes_of(&self, level: usize) -> u64 {
        let places = 0..self.len_of(level);
        places.map(|place| self.table(level, place).deletes).sum()
    }

    /// A level from 1 on as stretches, in the order of its places, all of which lie in one of them; or none, if nothing is
    /// known without a look at each table.
    fn stretches(&self, _level: usize) -> &[Stretch] {
        &[]
    }
}

impl Tables for Vec<Vec<Table<'_>>> {
    fn level_count(&self) -> usize {
        self.len()
    }

    fn level0(&self) -> &[Table<'_>] {
        self.first().map_or(&[][..], |tables| &tables[..])
    }

    fn len_of(&self, level: usize) -> usize {
        self.get(level).map_or(0, Vec::len)
    }

    fn table(&self, level: usize, place: usize) -> Table<'_> {
        self[level][place]
    }
}

impl<const N: usize> Tables for [Vec<Table<'_>>; N] {
    fn level_count(&self) -> usize {
        N
    }

    fn level0(&self) -> &[Table<'_>] {
        self.first().map_or(&[][..], |tables| &tables[..])
    }

    fn len_of(&self, level: usize) -> usize {
        self.get(level).map_or(0, Vec::len)
    }

    fn table(&self, level: usize, place: usize) -> Table<'_> {
        self[level][place]
    }
}

/// The tables of one level.
#[derive(Debug, Clone, Copy)]
pub struct Level<'a> {
    tables: &'a dyn Tables,
    level: usize,
}

impl<'a> Level<'a> {
    pub(super) fn new(tables: &'a dyn Tables, level: usize) -> Level<'a> {
        Level { tables, level }
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.tables.len_of(self.level)
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Bytes of all.
    pub fn bytes(self) -> u64 {
        self.tables.bytes_of(self.level)
    }

    /// Deletes and range tombstones of all.
    pub(super) fn deletes(self) -> u64 {
        self.tables.deletes_of(self.level)
    }

    /// The one at a place.
    ///
    /// # Panics
    /// If there is none.
    pub fn table(self, place: usize) -> Table<'a> {
        self.tables.table(self.level, place)
    }

    /// All of them, in the level's order.
    pub fn iter(self) -> impl Iterator<Item = Table<'a>> {
        (0..self.len()).map(move |place| self.table(place))
    }

    /// The places of all tables, but for those in stretches that `may` not have what is looked for.
    pub(super) fn places(self, may: impl Fn(&Stretch) -> bool) -> impl Iterator<Item = usize> {
        let stretches = self.tables.stretches(self.level);
        let unknown = match stretches.is_empty() {
            true => 0..self.len(),
            false => 0..0,
        };
        let some = stretches.iter().filter(move |stretch| may(stretch));
        unknown.chain(some.flat_map(|stretch| stretch.places.clone()))
    }

    /// No table at these places of a level from 1 on has fewer entries; `None` of no places.
    pub(super) fn entries_min(self, places: Range<usize>) -> Option<u64> {
        if places.is_empty() {
            return None;
        }
        let stretches = self.tables.stretches(self.level);
        let first = stretches.partition_point(|stretch| stretch.places.end <= places.start);
        let met = stretches[first..].iter();
        let met = met.take_while(|stretch| stretch.places.start < places.end);
        Some(met.map(|stretch| stretch.entries_min).min().unwrap_or(0))
    }

    /// Of a level from 1 on the place behind all tables for which `before` holds, from one place on: those are the first ones there.
    pub(crate) fn position(self, from: usize, before: impl Fn(&Table<'a>) -> bool) -> usize {
        let (mut low, mut high) = (from, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match before(&self.table(middle)) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// The places in a level from 1 on of the tables that overlap `range`.
    pub fn overlapped(self, range: &KeyRange<&[u8]>) -> Range<usize> {
        let first = self.position(0, |table| table.range.ends_before(range.first));
        let end = self.position(first, |table| !range.ends_before(table.range.first));
        first..end
    }

    /// Bytes of those at places that follow each other, for who asks for many of them.
    pub(crate) fn bytes_in(self, places: Range<usize>) -> u64 {
        self.tables.bytes_in(self.level, places)
    }

    pub(super) fn bytes_at(self, places: impl IntoIterator<Item = usize>) -> u64 {
        let places = places.into_iter();
        places.map(|place| self.table(place).bytes).sum()
    }

    pub(super) fn hull_of(self, places: &[usize]) -> Option<KeyRange<&'a [u8]>> {
        let ranges = places.iter().map(|place| self.table(*place).range);
        ranges.reduce(KeyRange::hull)
    }
}
