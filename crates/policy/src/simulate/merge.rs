//! Tables by the number of records that each cell has.

use thermocline_base::{FileId, KeyRange, SeqNo};

use crate::pick;

/// A table, or what of one a range has.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    pub file: u64,
    /// Its first cell.
    pub first: usize,
    /// Records of each of its cells.
    pub records: Vec<f64>,
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
    /// The first cell behind it.
    pub fn end(&self) -> usize {
        self.first + self.records.len()
    }

    pub fn entries(&self) -> f64 {
        self.records.iter().sum()
    }

    /// What of it lies in these cells.
    pub fn part(&self, from: usize, to: usize) -> Option<Table> {
        let (from, to) = (from.max(self.first), to.min(self.end()));
        (from < to).then(|| Table {
            first: from,
            records: self.records[from - self.first..to - self.first].to_vec(),
            ..*self
        })
    }

    /// As the picker sees it.
    pub fn seen<'k>(&self, keys: &'k [[u8; 4]], record_bytes: u64) -> pick::Table<'k> {
        pick::Table {
            file: FileId(self.file),
            range: KeyRange::until(&keys[self.first], &keys[self.end()]),
            bytes: whole(self.entries() * record_bytes as f64).max(1),
            smallest_seqno: SeqNo(self.oldest),
            largest_seqno: SeqNo(self.newest),
            has_tombstones: false,
            in_pm: self.in_pm,
        }
    }
}

/// Records of each cell from the first one on, up to the last one of these, each key once.
pub(super) fn union(tables: &[Table], keys_in_cell: f64) -> Option<Table> {
    let first = tables.iter().map(|table| table.first).min()?;
    let end = tables.iter().map(Table::end).max()?;
    let mut missing = vec![1.0; end - first];
    for table in tables {
        for (n, records) in table.records.iter().enumerate() {
            missing[table.first - first + n] *= 1.0 - (records / keys_in_cell).min(1.0);
        }
    }
    Some(Table {
        file: 0,
        first,
        records: missing.iter().map(|m| keys_in_cell * (1.0 - m)).collect(),
        in_pm: false,
        oldest: tables.iter().map(|table| table.oldest).min()?,
        newest: tables.iter().map(|table| table.newest).max()?,
    })
}

/// It, cut into tables of about so many records, without cells at the ends that have none.
pub(super) fn cut(table: &Table, records_max: f64) -> Vec<Table> {
    let mut all = Vec::new();
    let (mut from, mut gathered) = (table.first, 0.0);
    for (n, records) in table.records.iter().enumerate() {
        gathered += records;
        let next = table.first + n + 1;
        if gathered >= records_max || next == table.end() {
            all.extend(table.part(from, next).filter(|part| part.entries() >= 1.0));
            (from, gathered) = (next, 0.0);
        }
    }
    all
}
