//! The levels of a version as the picker sees them, and how they should be.

use thermocline_base::KeyRange;
use thermocline_base::options::{CompactionOptions, Options};
use thermocline_base::size::index;
use thermocline_base::{CfId, FileId, SeqNo};
use thermocline_compaction::output::{Cutter, Grandparent, OutputOptions};
use thermocline_policy::pick::{
    Held, PickOptions, State, Table, depth, level0_cuts, level0_gaps, pending_bytes, runs,
};
use thermocline_sst::{Compression, Creation, WriteOptions};
use thermocline_version::{Level, TableRef, Version};

use crate::sync::Arc;

/// A job takes no table that it need not take beyond so many of the largest.
const JOB_TABLES: u64 = 25;

/// A table overlaps at most so many of the largest two levels below, where it can be cut.
const GRANDPARENT_TABLES: u64 = 10;

/// Tables in persistent memory that a read may have to ask before they are compacted; if as many in files may
/// be more, so many.
const PM_TABLES: u64 = 64;

/// What lies apart in level 0 stays apart from one part in so many of a table on.
const SLICE_PARTS: u64 = 8;

/// An internal compaction writes no more than one part in so many of level 0's share at a time.
const INTERNAL_PARTS: u64 = 8;

/// The level of Zstandard: the fastest.
const ZSTD_LEVEL: i32 = 1;

/// How the levels of a store should be.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    options: CompactionOptions,
    table_bytes: u64,
    base_bytes: u64,
    write_bytes: usize,
    /// Most bytes of persistent memory that tables there may take, if some of level 0 is to lie there.
    pm_bytes_max: Option<u64>,
    /// Whether all that is flushed is to lie there.
    in_pm: bool,
    memtable_bytes: u64,
}

/// The levels of a family.
pub(crate) struct Levels<'v> {
    /// By level: of level 0 newest first, of others in key order.
    pub refs: Vec<Vec<&'v Arc<TableRef>>>,
    tables: Vec<Vec<Table<'v>>>,
    /// Persistent memory of tables to which any family refers.
    pm_bytes: u64,
    pub version: &'v Version,
    cf: CfId,
}

impl<'v> Levels<'v> {
    /// Those of a version; if `then` is given, without the newest tables of level 0 that have come since the next
    /// file had that number, and have nothing that was visible at that seqno. (A merge inside level 0 makes new tables
    /// of old data.)
    pub fn of(version: &'v Version, cf: CfId, then: Option<(FileId, SeqNo)>) -> Levels<'v> {
        let levels = version.family(cf).into_iter().flat_map(|f| f.levels());
        let refs = levels.map(|(level, tables)| {
            let too_new = |table: &&Arc<TableRef>| {
                let since = |(file, seqno)| table.file >= file && table.smallest_seqno > seqno;
                level == Level::ZERO && then.is_some_and(since)
            };
            tables.iter().skip_while(too_new).collect()
        });
        let refs: Vec<Vec<&Arc<TableRef>>> = refs.collect();
        let table = |table: &&'v Arc<TableRef>| Table {
            file: table.file,
            range: range_of(table),
            bytes: table.bytes,
            smallest_seqno: table.smallest_seqno,
            largest_seqno: table.largest_seqno,
            has_tombstones: table.deletes > 0,
            in_pm: version.pm_table(table.file).is_some(),
        };
        let tables = refs.iter().map(|level| level.iter().map(table).collect());
        let referred = version.pm_tables().filter(|(_, r)| !r.is_empty());
        Levels {
            tables: tables.collect(),
            pm_bytes: referred.map(|(table, _)| table.meta.zone_bytes).sum(),
            version,
            cf,
            refs,
        }
    }

    /// Them, beside jobs that hold this.
    pub fn state<'s>(&'s self, running: &'s [Held]) -> State<'s> {
        State {
            levels: &self.tables,
            running,
        }
    }

    /// The level of the reference to a file that begins at `first`, and its place there.
    pub fn find(&self, file: FileId, first: &[u8]) -> Option<(usize, usize)> {
        let is = |table: &Table<'_>| table.file == file && table.range.first == first;
        let place = |tables: &Vec<Table<'_>>| tables.iter().position(is);
        let mut levels = self.tables.iter().enumerate();
        levels.find_map(|(level, tables)| Some((level, place(tables)?)))
    }

    /// How many tables of level 0 a read may have to ask: of those in files, and of those in persistent memory.
    pub fn depths(&self) -> (usize, usize) {
        let level0 = self.tables.first().map_or(&[][..], |tables| &tables[..]);
        let of = |in_pm: bool| {
            let some = level0.iter().filter(|table| table.in_pm == in_pm);
            depth(&some.copied().collect::<Vec<_>>())
        };
        (of(false), of(true))
    }

    /// The deepest one that has tables.
    fn deepest(&self) -> usize {
        self.refs.len().saturating_sub(1)
    }

    /// Of these places in level 0, newest first, the runs.
    pub fn runs(&self, places: &[usize]) -> Vec<Vec<Arc<TableRef>>> {
        let tables: Vec<Table<'_>> = places.iter().map(|n| self.tables[0][*n]).collect();
        let all = |run: std::ops::Range<usize>| run.map(|n| self.refs[0][places[n]].clone());
        runs(&tables)
            .into_iter()
            .map(|run| all(run).collect())
            .collect()
    }
}

impl Shape {
    pub fn new(options: &Options) -> Shape {
        Shape {
            options: options.compaction.clone(),
            table_bytes: options.table_bytes(),
            base_bytes: options.base_bytes(),
            // Devices like large pieces; each table that is being written holds one.
            write_bytes: index(options.dram / 64).clamp(256 << 10, 1 << 20) & !4095,
            pm_bytes_max: options.level0_pm_bytes(),
            in_pm: options.level0.shape().keeps_tables_in_pm(),
            memtable_bytes: options.memtable_bytes(),
        }
    }

    /// For a family with these levels.
    pub fn pick_options(&self, levels: &Levels<'_>) -> PickOptions {
        let own = usize::try_from(self.options.levels).expect("at most 7");
        PickOptions {
            last_level: own.max(levels.deepest()),
            level0_tables: usize::try_from(self.options.level0_tables).unwrap_or(usize::MAX),
            level0_bytes: self.base_bytes,
            level0_pm_tables: self.pm_tables_max(),
            level0_pm_bytes: self.pm_bytes_due(levels),
            base_bytes: self.base_bytes,
            multiplier: self.options.multiplier,
            dynamic: self.options.dynamic != 0,
            job_bytes_max: self.job_bytes_max(),
            grandparent_bytes_max: self.table_bytes.saturating_mul(GRANDPARENT_TABLES),
        }
    }

    fn pm_tables_max(&self) -> usize {
        let tables = self.options.level0_tables.max(PM_TABLES);
        usize::try_from(tables).unwrap_or(usize::MAX)
    }

    /// Bytes in persistent memory that level 0 of a family may have, beside what jobs take already: whatever
    /// it has, as long as all families together have no more than their share of it; and from then on so
    /// much less as is too much. A table goes when the last of its families has left it, so it is all of
    /// them that must give way, one after the other. A store whose level 0 is not to lie there any more
    /// brings down what does.
    fn pm_bytes_due(&self, levels: &Levels<'_>) -> u64 {
        let share = self.pm_bytes_max.unwrap_or(0);
        let level0 = levels.tables.first().into_iter().flatten();
        let own: u64 = level0.filter(|t| t.in_pm).map(|t| t.bytes).sum();
        let room = share.saturating_add(1).saturating_add(own);
        room.saturating_sub(levels.pm_bytes).max(1)
    }

    /// Whether tables in persistent memory take more than the share of level 0.
    pub fn is_past_share(&self, levels: &Levels<'_>) -> bool {
        levels.pm_bytes > self.pm_bytes_max.unwrap_or(0)
    }

    /// Most bytes of persistent memory that all tables there may have while some are merged: the share, and a
    /// memtable. A flush may have one more.
    pub fn internal_limit(&self) -> Option<u64> {
        let share = self.pm_bytes_max?;
        Some(share.saturating_add(self.memtable_bytes))
    }

    /// Persistent memory after which an internal compaction ends with a table, and goes on with another job.
    pub fn internal_part_bytes(&self) -> u64 {
        (self.pm_bytes_max.unwrap_or(0) / INTERNAL_PARTS).max(self.table_bytes)
    }

    /// The size at which a table is ended.
    pub fn table_bytes(&self) -> u64 {
        self.table_bytes
    }

    /// Most bytes that a job takes beyond what it must.
    pub fn job_bytes_max(&self) -> u64 {
        self.table_bytes.saturating_mul(JOB_TABLES)
    }

    pub fn output_options(&self) -> OutputOptions {
        OutputOptions {
            target_bytes: self.table_bytes,
            grandparent_bytes_max: self.table_bytes.saturating_mul(GRANDPARENT_TABLES),
        }
    }

    /// For a flush beside these levels: it ends its tables where level 0 has slices already, or else where
    /// tables of the next level begin, and is then not too far from full. Where jobs have to be `small` it ends them
    /// at all of these places, so that none holds two slices together.
    pub fn level0_cutter(
        &self,
        levels: &Levels<'_>,
        small: bool,
        starts: Vec<Vec<u8>>,
    ) -> Cutter<'static> {
        let cuts = self.level0_cuts(levels);
        let bytes_min = match levels.refs.first() {
            _ if small => 0,
            // Slices that are merged, or leave, one by one, are of other sizes than what is flushed: where its tables
            // reach over their ends, all slices would become one.
            Some(level0) if !level0.is_empty() && self.in_pm => self.table_bytes / SLICE_PARTS,
            Some(level0) if !level0.is_empty() => self.table_bytes / 2,
            _ => self.table_bytes / 4 * 3,
        };
        let cutter = self.cutter_in_level0(cuts, bytes_min, starts, vec![]);
        let is_empty = levels.refs.first().is_none_or(Vec::is_empty);
        if !self.in_pm || is_empty {
            return cutter;
        }
        let gaps = level0_gaps(&levels.state(&[]), &self.pick_options(levels));
        cutter
            .preferring(gaps.ends, bytes_min)
            .preferring(gaps.within, self.table_bytes / 2)
    }

    /// For what is merged inside level 0: nothing else will lie where its tables do, so they end as those of a first
    /// flush would.
    pub fn internal_cutter(&self, levels: &Levels<'_>, starts: Vec<Vec<u8>>) -> Cutter<'static> {
        let below = levels.refs.iter().skip(1).find(|level| !level.is_empty());
        let begins = below.into_iter().flatten().map(|t| t.range.smallest());
        let cuts = begins.map(<[u8]>::to_vec).collect();
        // On both sides of an evacuation's front are other seqnos: what comes behind it is newer than what lies there
        // now, and older than some of what lies before.
        let front = levels.version.front(levels.cf);
        let bounds = front.into_iter().map(<[u8]>::to_vec).collect();
        self.cutter_in_level0(cuts, self.table_bytes / 4 * 3, starts, bounds)
    }

    /// In persistent memory tables end at `starts` of partitions, too, if they are not too small then: so what is
    /// decided of a slice is decided of few partitions (PM-Blade §IV).
    fn cutter_in_level0(
        &self,
        mut cuts: Vec<Vec<u8>>,
        mut bytes_min: u64,
        starts: Vec<Vec<u8>>,
        bounds: Vec<Vec<u8>>,
    ) -> Cutter<'static> {
        if self.in_pm && !starts.is_empty() && bytes_min > 0 {
            cuts.extend(starts);
            bytes_min = self.table_bytes / 4;
        }
        Cutter::new(self.output_options(), bounds, vec![]).preferring(cuts, bytes_min)
    }

    /// For what goes down to level `to`, within `range`: tables end at `bounds`, and at `starts` of partitions, where they are
    /// not too small then.
    pub fn sinking_cutter<'v>(
        &self,
        levels: &Levels<'v>,
        to: usize,
        range: &KeyRange<'_>,
        bounds: Vec<Vec<u8>>,
        starts: Vec<Vec<u8>>,
    ) -> Cutter<'v> {
        let next = levels.refs.get(to + 1);
        let grandparents = next.into_iter().flatten().map(|table| Grandparent {
            range: range_of(table),
            bytes: table.bytes,
        });
        let grandparents = grandparents.filter(|g| g.range.overlaps(range)).collect();
        let sizes = self.output_options();
        Cutter::new(sizes, bounds, grandparents).preferring(starts, sizes.target_bytes / 2)
    }

    /// Keys before which tables of level 0 end.
    pub fn level0_cuts(&self, levels: &Levels<'_>) -> Vec<Vec<u8>> {
        level0_cuts(&levels.state(&[]), &self.pick_options(levels))
    }

    /// For tables of this level.
    pub fn write_options(&self, level: usize, last_level: usize, why: Creation) -> WriteOptions {
        let codec = match level {
            0 => self.options.compression_level0,
            _ if level >= last_level => self.options.compression_last,
            _ => self.options.compression,
        };
        let compression = match codec {
            0 => Compression::None,
            1 => Compression::Lz4,
            _ => Compression::Zstd(ZSTD_LEVEL),
        };
        let block_bytes = usize::try_from(self.options.block_bytes).expect("at most 1 MiB");
        WriteOptions {
            block_bytes,
            compression,
            creation: why,
            write_bytes: self.write_bytes,
            ..WriteOptions::default()
        }
    }

    /// How many tables of level 0 a read may have to ask, in the family where that are most, without those
    /// in persistent memory that may be there; and about how many bytes wait to be read and written, in all
    /// families.
    pub fn debt(&self, version: &Version) -> (u64, u64) {
        let mut debt = (0, 0);
        for cf in version.families() {
            let levels = Levels::of(version, cf, None);
            let state = levels.state(&[]);
            let (files, pm) = levels.depths();
            debt.0 = (files + pm.saturating_sub(self.pm_tables_max())).max(debt.0);
            debt.1 += pending_bytes(&state, &self.pick_options(&levels));
        }
        (debt.0 as u64, debt.1)
    }
}

/// Where the keys of a table lie.
pub(crate) fn range_of(table: &TableRef) -> KeyRange<'_> {
    KeyRange {
        first: table.range.smallest(),
        last: table.range.largest(),
        open: table.range.is_open(),
    }
}
