//! Checks that rows and indexes agree.

use std::ops::Bound;

use thermocline_base::Result;
use thermocline_base::shown::shown;

use crate::format::stored::{State, StoredIndex};
use crate::format::{INDEX_FIRST, ROWS, SCHEMA_KEY};
use crate::layout::Layout;
use crate::store::Reader;
use crate::table::Table;

/// Most faults that a report names.
pub const FAULTS_MAX: usize = 100;

/// The result of [`Table::verify`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableReport {
    /// Rows that were read.
    pub rows: u64,
    /// Entries of all indexes that were read.
    pub entries: u64,
    /// The faults, each naming the row or entry; at most [`FAULTS_MAX`].
    pub faults: Vec<String>,
    /// Number of faults that are not among `faults`.
    pub more_faults: u64,
}

impl TableReport {
    /// Number of all faults.
    ///
    /// ```
    /// # use thermocline_records::TableReport;
    /// let faults = vec!["table 'parts': key 'k' is of no index".to_string()];
    /// let report = TableReport { faults, more_faults: 3, ..TableReport::default() };
    /// assert_eq!(report.fault_count(), 4);
    /// ```
    pub fn fault_count(&self) -> u64 {
        self.faults.len() as u64 + self.more_faults
    }

    fn fault(&mut self, what: String) {
        match self.faults.len() < FAULTS_MAX {
            true => self.faults.push(what),
            false => self.more_faults += 1,
        }
    }
}

impl<F> Table<F> {
    /// Reads the whole table at one moment, and compares: each row decodes and has its entry in each index, and each entry
    /// leads to a row that has it. Beside these there is the schema, and nothing else.
    ///
    /// # Errors
    /// Those of reading. Faults of the table are no errors: they are in the report.
    pub fn verify<R: Reader<Family = F>>(&self, reader: &R) -> Result<TableReport> {
        let layout = self.read_layout(reader)?;
        let mut report = TableReport::default();
        // Before the rows there is the schema, and nothing else.
        let first = (Bound::Unbounded, Bound::Excluded(vec![ROWS]));
        for entry in reader.scan(self.family(), first) {
            let (key, _) = entry?;
            if key != SCHEMA_KEY {
                report.fault(self.stray(&key, "no row and no index"));
            }
        }
        let rows = (Bound::Included(vec![ROWS]), Bound::Excluded(vec![ROWS + 1]));
        for entry in reader.scan(self.family(), rows) {
            let (key, value) = entry?;
            report.rows += 1;
            self.verify_row(reader, &layout, (&key, &value), &mut report)?;
        }
        let entries = (Bound::Included(vec![INDEX_FIRST]), Bound::Unbounded);
        for entry in reader.scan(self.family(), entries) {
            let (key, value) = entry?;
            report.entries += 1;
            let index = layout.stored.indexes.iter();
            match index.into_iter().find(|index| index.space == key[0]) {
                Some(index) if index.state == State::Dropping => {}
                Some(index) => {
                    if let Some(fault) = self.entry_fault(reader, &layout, index, (&key, &value))? {
                        report.fault(fault);
                    }
                }
                None => report.fault(self.stray(&key, "no index")),
            }
        }
        Ok(report)
    }

    /// A key that is none of the table's.
    fn stray(&self, key: &[u8], of: &str) -> String {
        format!("table '{}': key '{}' is of {of}", self.name(), shown(key))
    }

    fn verify_row<R: Reader<Family = F>>(
        &self,
        reader: &R,
        layout: &Layout,
        (key, value): (&[u8], &[u8]),
        report: &mut TableReport,
    ) -> Result<()> {
        let row = match layout.row(key, value) {
            Ok(row) => row,
            Err(error) => {
                report.fault(error.to_string());
                return Ok(());
            }
        };
        let ready = layout.maintained().filter(|i| i.state == State::Ready);
        for index in ready {
            let entry = match layout.entry(index, &row, key) {
                Ok(entry) => entry,
                // Its values are too long for the index, so no write through a table made it.
                Err(error) => {
                    report.fault(format!("{}: {error}", layout.place(key)));
                    continue;
                }
            };
            let there = reader.get(self.family(), &entry.key)?;
            if there.is_none_or(|there| *there != entry.value[..]) {
                report.fault(format!(
                    "{}: index '{}' does not lead from {} to the row",
                    layout.place(key),
                    index.name,
                    layout.indexed(index, &row)
                ));
            }
        }
        Ok(())
    }

    fn entry_fault<R: Reader<Family = F>>(
        &self,
        reader: &R,
        layout: &Layout,
        index: &StoredIndex,
        (key, value): (&[u8], &[u8]),
    ) -> Result<Option<String>> {
        let row_key = match layout.row_of(index, key, value) {
            Ok(row_key) => row_key,
            Err(error) => return Ok(Some(error.to_string())),
        };
        let place = layout.place(&row_key);
        let Some(row) = reader.get(self.family(), &row_key)? else {
            let what = format!(
                "{place}: index '{}' leads to the row, which is not there",
                index.name
            );
            return Ok(Some(what));
        };
        // A row that does not decode is reported with the rows.
        let Ok(row) = layout.row(&row_key, &row) else {
            return Ok(None);
        };
        // A row whose values are too long for the index has no entry there.
        let entry = layout.entry(index, &row, &row_key);
        let is_its = entry.is_ok_and(|entry| entry.key == key && entry.value == value);
        Ok((!is_its).then(|| {
            format!(
                "{place}: index '{}' leads to the row from other values than {}",
                index.name,
                layout.indexed(index, &row)
            )
        }))
    }
}
