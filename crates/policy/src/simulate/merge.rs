//! Tables by the number of records that each cell has, class by class.

use thermocline_base::{FileId, KeyRange, SeqNo};

use super::keys::Keys;
use crate::pick;

/// A table, or what of one a range has.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    pub file: u64,
    /// Its first cell, and the first one behind it.
    pub first: usize,
    pub end: usize,
    /// Records of each class of each of its cells.
    pub records: Vec<f64>,
    /// All of them.
    pub entries: f64,
    pub in_pm: bool,
    pub oldest: u64,
    pub newest: u64,
}

/// A number of records, or bytes, as a whole number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "means of numbers that are not negative, and far below the largest"
)]
pub(super) fn whole(number: f64) -> u64 {
    number as u64
}

impl Table {
    /// Of these records, from a cell on.
    pub fn of(keys: &Keys, first: usize, records: Vec<f64>, seqnos: (u64, u64)) -> Table {
        Table {
            file: 0,
            first,
            end: first + records.len() / keys.classes(),
            entries: records.iter().sum(),
            records,
            in_pm: false,
            oldest: seqnos.0,
            newest: seqnos.1,
        }
    }

    /// What of it lies in these cells.
    pub fn part(&self, from: usize, to: usize) -> Option<Table> {
        let (from, to) = (from.max(self.first), to.min(self.end));
        if from >= to {
            return None;
        }
        let classes = self.records.len() / (self.end - self.first);
        let at = |cell: usize| (cell - self.first) * classes;
        let records = self.records[at(from)..at(to)].to_vec();
        Some(Table {
            first: from,
            end: to,
            entries: records.iter().sum(),
            records,
            ..*self
        })
    }

    /// As the picker sees it.
    pub fn seen<'k>(&self, keys: &'k Keys, bytes: f64) -> pick::Table<'k> {
        pick::Table {
            file: FileId(self.file),
            range: KeyRange::until(&keys.bounds[self.first], &keys.bounds[self.end]),
            bytes: whole(bytes).max(1),
            smallest_seqno: SeqNo(self.oldest),
            largest_seqno: SeqNo(self.newest),
            entries: 1,
            deletes: 0,
            in_pm: self.in_pm,
        }
    }
}

/// Records of each cell from the first one on, up to the last one of these, each key once.
pub(super) fn union(tables: &[Table], keys: &Keys) -> Option<Table> {
    union_of(&tables.iter().collect::<Vec<_>>(), keys)
}

/// The same of tables that stay where they are.
pub(super) fn union_of(tables: &[&Table], keys: &Keys) -> Option<Table> {
    let first = tables.iter().map(|table| table.first).min()?;
    let end = tables.iter().map(|table| table.end).max()?;
    let classes = keys.classes();
    let mut missing = vec![1.0; (end - first) * classes];
    for table in tables {
        let places = &mut missing[(table.first - first) * classes..];
        let of_class = keys.of_class.iter().cycle();
        for ((missing, records), n) in places.iter_mut().zip(&table.records).zip(of_class) {
            *missing *= 1.0 - (records / n).min(1.0);
        }
    }
    let of_class = keys.of_class.iter().cycle();
    let records = missing.iter().zip(of_class).map(|(m, n)| n * (1.0 - m));
    let oldest = tables.iter().map(|table| table.oldest).min()?;
    let newest = tables.iter().map(|table| table.newest).max()?;
    Some(Table::of(keys, first, records.collect(), (oldest, newest)))
}

/// Where tables may end before they are full, or later: a cell, and the records from which on.
pub(super) type Cuts = Vec<(usize, f64)>;

/// It, cut into tables of about so many records, without cells at the ends that have none. While there are cuts ahead none ends
/// before it is half as large again.
pub(super) fn split(table: &Table, records_max: f64, cuts: &Cuts) -> Vec<Table> {
    let mut all = Vec::new();
    let classes = table.records.len() / (table.end - table.first).max(1);
    let (mut from, mut gathered) = (table.first, 0.0);
    let last = cuts.iter().map(|(cell, _)| *cell).max().unwrap_or(0);
    for (n, of_cell) in table.records.chunks(classes.max(1)).enumerate() {
        let more = of_cell.iter().sum::<f64>();
        gathered += more;
        let next = table.first + n + 1;
        let wanted = cuts
            .iter()
            .any(|(cell, least)| *cell == next && gathered >= *least);
        let most = match next < last {
            true => records_max * 1.5,
            false => records_max,
        };
        // Cells are not cut: it ends at the boundary that is next to where it would be full.
        if wanted || gathered + more * 0.5 >= most || next == table.end {
            all.extend(table.part(from, next).filter(|part| part.entries >= 1.0));
            (from, gathered) = (next, 0.0);
        }
    }
    all
}
