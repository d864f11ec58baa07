//! The sizes of levels and the indexes of tables, for who wants to know how a store is doing.

use thermocline_base::Result;
use thermocline_sst::IndexUse;
use thermocline_version::{Level, TableRef};

use super::{Run, Tables, runs};

/// The tables of one level, of all families.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LevelState {
    /// Its number; 0 is the newest.
    pub level: u8,
    /// Tables in it, or parts of tables.
    pub tables: u64,
    /// Lists of tables that do not overlap: how many tables of it a read may have to look into, of the
    /// family that has most.
    pub runs: u64,
    /// Bytes of the tables; estimated for parts.
    pub bytes: u64,
    /// Entries: values, deletes and range deletes, older versions included.
    pub entries: u64,
    /// Of those, deletes.
    pub deletes: u64,
}

impl LevelState {
    /// One more table. What a manifest says of the tables of one family fits a number; of all of them it may not.
    fn add(&mut self, table: &TableRef) {
        self.tables += 1;
        self.bytes = self.bytes.saturating_add(table.bytes);
        self.entries = self.entries.saturating_add(table.entries);
        self.deletes = self.deletes.saturating_add(table.deletes);
    }
}

/// How many tables in files have which index (TridentKV §3.2, option `ssd.index`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TableIndexes {
    /// A binary index, as was wanted when they were written: by the option, or by a flush beside many writers.
    pub binary: u64,
    /// A learned index.
    pub learned: u64,
    /// A binary index, since a learned one was wanted and did not fit.
    pub fell_back: u64,
}

impl Tables {
    /// Which indexes the tables in files have. Reads the end of each table that is not open, and keeps none open.
    ///
    /// # Errors
    /// Those of reading.
    pub fn indexes(&self) -> Result<TableIndexes> {
        let mut indexes = TableIndexes::default();
        for handle in self.held.handles() {
            *match handle.index(&self.files)? {
                IndexUse::Binary => &mut indexes.binary,
                IndexUse::Learned => &mut indexes.learned,
                IndexUse::FellBack => &mut indexes.fell_back,
            } += 1;
        }
        Ok(indexes)
    }

    /// The levels from 0 to the deepest one that has tables, over all families: what lies in files. Runs are those
    /// that a reader asks, wherever they lie.
    pub fn levels(&self) -> Vec<LevelState> {
        let version = self.held.version();
        let mut levels: Vec<LevelState> = Vec::new();
        for cf in version.families() {
            let mut of_family: Vec<u64> = Vec::new();
            let family = version.family(cf).into_iter();
            for (level, tables) in family.flat_map(|family| family.levels()) {
                let at = usize::from(level.0);
                levels.resize(levels.len().max(at + 1), LevelState::default());
                of_family.resize(at + 1, 0);
                let sum = &mut levels[at];
                let in_pm = |table: &TableRef| version.pm_table(table.file).is_some();
                for table in tables.iter().filter(|table| !in_pm(table)) {
                    sum.add(table);
                }
                of_family[at] = runs_in(level, tables);
            }
            for (sum, runs) in levels.iter_mut().zip(of_family) {
                sum.runs = sum.runs.max(runs);
            }
        }
        for (level, sum) in (0..=Level::MAX.0).zip(&mut levels) {
            sum.level = level;
        }
        levels
    }
}

fn runs_in(level: Level, tables: &thermocline_version::LevelTables) -> u64 {
    let mut all: Vec<Run> = Vec::new();
    runs::runs_of_level(level, tables, &mut all);
    all.len() as u64
}

#[cfg(test)]
mod tests {
    use thermocline_base::{FileId, KeyRange, SeqNo};

    use super::*;

    #[test]
    fn sums_are_no_more_than_fit_the_number() {
        let table = TableRef {
            file: FileId(1),
            file_bytes: u64::MAX,
            bytes: u64::MAX,
            entries: u64::MAX,
            deletes: u64::MAX,
            range: KeyRange::inclusive("a", "b").owned(),
            limited_below: false,
            limited_above: false,
            smallest_seqno: SeqNo(1),
            largest_seqno: SeqNo(2),
            blobs: vec![],
        };
        let mut level = LevelState::default();
        (0..2).for_each(|_| level.add(&table));
        let sums = [level.bytes, level.entries, level.deletes];
        assert_eq!((level.tables, sums), (2, [u64::MAX; 3]));
    }
}
