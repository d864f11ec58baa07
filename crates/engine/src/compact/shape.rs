//! The levels of a version as the picker sees them, and how they should be.

use std::ops::Range;
use std::sync::OnceLock;

use thermocline_base::chunked::{CHUNK_LEN_MAX, Numbered};
use thermocline_base::options::{CompactionOptions, Options};
use thermocline_base::size::index;
use thermocline_base::{CfId, Codec, FileId, IndexKind, KeyRange, SeqNo};
use thermocline_compaction::output::{Cutter, Grandparent, OutputOptions};
use thermocline_policy::geometry::{Geometry, Has};
use thermocline_policy::pick::{
    Held, PickOptions, Scores, State, Stretch, Table, Tables, base_and_above, depth, level0_cuts,
    level0_gaps, runs,
};
use thermocline_policy::split::table_piece_bytes;
use thermocline_policy::tuning::ZSTD_LEVEL;
use thermocline_sst::{Compression, Creation, WriteOptions};
use thermocline_version::{Level, LevelTables, Place, TableRef, Version};

use super::share::Share;
use super::sums::{LevelSums, Stretches};
use crate::sync::Arc;

/// How the levels of a store should be.
#[derive(Debug)]
pub(crate) struct Shape {
    options: CompactionOptions,
    geometry: Geometry,
    /// What level 0 may have of persistent memory.
    pub share: Share,
    write_bytes: usize,
    /// Which index tables have.
    index: IndexKind,
}

/// The levels of a family.
#[derive(Debug)]
pub(crate) struct Levels<'v> {
    /// Of level 0, newest first.
    refs: Vec<&'v Arc<TableRef>>,
    /// The same as pickers see them.
    tables: Vec<Table<'v>>,
    /// The levels from 1 on, to the deepest one that has tables.
    deeper: Vec<Deeper<'v>>,
    /// How many levels there are, with level 0.
    count: usize,
    /// Persistent memory of tables to which any family refers.
    pm_bytes: u64,
    pub version: &'v Version,
    cf: CfId,
}

/// A level from 1 on. It may have very many tables, and mostly nobody asks for more than their sums.
#[derive(Debug)]
struct Deeper<'v> {
    tables: &'v Arc<LevelTables>,
    /// They, by their places in key order, once somebody has asked for one.
    numbered: OnceLock<Numbered<'v, Arc<TableRef>>>,
    /// Bytes of the tables before each place, if somebody asks for many ranges.
    before: OnceLock<Arc<[u64]>>,
    /// What is known of their chunks, if somebody looks for some of all.
    stretches: OnceLock<Arc<Stretches>>,
}

impl<'v> Deeper<'v> {
    fn numbered(&self) -> &Numbered<'v, Arc<TableRef>> {
        let tables = self.tables;
        self.numbered.get_or_init(|| tables.list().numbered())
    }
}

/// Persistent memory of tables to which any family refers.
pub(super) fn pm_bytes(version: &Version) -> u64 {
    let in_pm = version.pm_totals();
    in_pm.bytes - in_pm.retired_bytes
}

/// A reference as pickers see it.
pub(super) fn seen(table: &TableRef, in_pm: bool) -> Table<'_> {
    Table {
        file: table.file,
        range: table.range.borrowed(),
        bytes: table.bytes,
        smallest_seqno: table.smallest_seqno,
        largest_seqno: table.largest_seqno,
        entries: table.entries,
        deletes: table.deletes,
        in_pm,
    }
}

impl Tables for Levels<'_> {
    fn level_count(&self) -> usize {
        self.count
    }

    fn level0(&self) -> &[Table<'_>] {
        &self.tables
    }

    fn len_of(&self, level: usize) -> usize {
        match level {
            0 => self.tables.len(),
            _ => self.deeper(level).map_or(0, |of| of.tables.len()),
        }
    }

    fn table(&self, level: usize, place: usize) -> Table<'_> {
        match level {
            0 => self.tables[place],
            // Only tables of level 0 lie in persistent memory.
            _ => seen(self.reference(level, place), false),
        }
    }

    fn bytes_in(&self, level: usize, places: Range<usize>) -> u64 {
        match self.deeper(level).and_then(|of| of.before.get()) {
            Some(before) => before[places.end] - before[places.start],
            None => places.map(|n| self.table(level, n).bytes).sum(),
        }
    }

    fn bytes_of(&self, level: usize) -> u64 {
        match level {
            0 => self.tables.iter().map(|table| table.bytes).sum(),
            _ => self.deeper(level).map_or(0, |of| of.tables.bytes()),
        }
    }

    fn deletes_of(&self, level: usize) -> u64 {
        match level {
            0 => self.tables.iter().map(|table| table.deletes).sum(),
            _ => self.deeper(level).map_or(0, |of| of.tables.deletes()),
        }
    }

    fn stretches(&self, level: usize) -> &[Stretch] {
        let known = self.deeper(level).and_then(|of| of.stretches.get());
        known.map_or(&[][..], |stretches| stretches.all())
    }
}

impl<'v> Levels<'v> {
    /// Those of a version; if `then` is given, without the newest tables of level 0 that have come since the next
    /// file had that number, and have nothing that was visible at that seqno. (A merge inside level 0 makes new tables
    /// of old data.)
    pub fn of(version: &'v Version, cf: CfId, then: Option<(FileId, SeqNo)>) -> Levels<'v> {
        let levels = version.family(cf).into_iter().flat_map(|f| f.levels());
        let mut levels = levels.map(|(_, tables)| tables);
        let too_new = |table: &&Arc<TableRef>| {
            let since = |(file, seqno)| table.file >= file && table.smallest_seqno > seqno;
            then.is_some_and(since)
        };
        let level0 = levels.next();
        let refs = level0.into_iter().flat_map(|tables| tables.iter());
        let refs: Vec<&Arc<TableRef>> = refs.skip_while(too_new).collect();
        let table = |table: &&'v Arc<TableRef>| seen(table, version.pm_table(table.file).is_some());
        let deeper = levels.map(|tables| Deeper {
            tables,
            numbered: OnceLock::new(),
            before: OnceLock::new(),
            stretches: OnceLock::new(),
        });
        let deeper: Vec<Deeper<'v>> = deeper.collect();
        Levels {
            tables: refs.iter().map(table).collect(),
            refs,
            count: usize::from(level0.is_some()) + deeper.len(),
            deeper,
            pm_bytes: pm_bytes(version),
            version,
            cf,
        }
    }

    /// Them, beside jobs that hold this.
    pub fn state<'s>(&'s self, running: &'s [Held]) -> State<'s> {
        State {
            levels: self,
            running,
        }
    }

    /// How many there are, from level 0 to the deepest one that has tables.
    pub fn count(&self) -> usize {
        self.count
    }

    fn deeper(&self, level: usize) -> Option<&Deeper<'v>> {
        self.deeper.get(level.checked_sub(1)?)
    }

    /// The references of level 0, newest first.
    pub fn newest_first(&self) -> &[&'v Arc<TableRef>] {
        &self.refs
    }

    /// The reference at a place of a level: of level 0 newest first, of others in key order.
    ///
    /// # Panics
    /// If there is none.
    pub fn reference(&self, level: usize, place: usize) -> &'v Arc<TableRef> {
        match level {
            0 => self.refs[place],
            _ => self.deeper[level - 1].numbered().at(place),
        }
    }

    /// The references of a level from 1 on that overlap a range.
    pub fn overlapped(
        &self,
        level: usize,
        range: &KeyRange<&[u8]>,
    ) -> impl Iterator<Item = &'v Arc<TableRef>> {
        let places = self.state(&[]).level(level).overlapped(range);
        places.map(move |place| self.reference(level, place))
    }

    /// From now on the bytes of a range of a deeper level are found at once, if something lies in persistent memory: only then
    /// somebody asks for many.
    pub(super) fn with_sums(&self, sums: &LevelSums) {
        if !self.tables.iter().any(|table| table.in_pm) {
            return;
        }
        let numbered = self.deeper.iter().zip(1..);
        for (of, level) in numbered.filter(|(of, _)| !of.tables.is_empty()) {
            of.before
                .get_or_init(|| sums.before((self.cf, level), of.tables));
        }
    }

    /// From now on it is known of chunks of deeper levels what they have, if somebody looks there for tables with deletes, or for
    /// such as have `expired`. Where they have few tables a look at each costs no more.
    pub(super) fn with_stretches(&self, sums: &LevelSums, expired: bool) {
        if !expired && self.deeper.iter().all(|of| of.tables.deletes() == 0) {
            return;
        }
        let numbered = self.deeper.iter().zip(1..);
        for (of, level) in numbered.filter(|(of, _)| of.tables.len() > CHUNK_LEN_MAX) {
            of.stretches
                .get_or_init(|| sums.stretches((self.cf, level), of.tables));
        }
    }

    /// The level of the reference to a file that begins at `first`, and its place there.
    pub fn find(&self, file: FileId, first: &[u8]) -> Option<(usize, usize)> {
        let mut found = self.version.references(file).iter();
        let is =
            |place: &Place, table: &TableRef| place.cf == self.cf && *table.range.first == *first;
        let (place, _) = found.find(|(place, table)| is(place, table))?;
        let level = usize::from(place.level.0);
        let place = match level {
            0 => self
                .refs
                .iter()
                .position(|table| table.file == file && *table.range.first == *first)?,
            _ => {
                let of = self.deeper(level)?;
                let tables = of.tables.list();
                let position = tables.position(|table| *table.range.first < *first);
                of.numbered().number_of(position)
            }
        };
        Some((level, place))
    }

    /// How many tables of level 0 a read may have to ask: of those in files, and of those in persistent memory.
    pub fn depths(&self) -> (usize, usize) {
        let of = |in_pm: bool| {
            let some = self.tables.iter().filter(|table| table.in_pm == in_pm);
            depth(&some.copied().collect::<Vec<_>>())
        };
        (of(false), of(true))
    }

    /// The keys from `from` on and before `end`; without an end up to the last one of all tables, behind which no job holds
    /// anything.
    pub fn range_of<'k>(&self, from: &'k [u8], end: Option<&'k [u8]>) -> KeyRange<&'k [u8]>
    where
        'v: 'k,
    {
        let levels = self.version.family(self.cf).into_iter();
        let ends = levels
            .flat_map(|family| family.levels())
            .flat_map(|(level, tables)| {
                // From level 1 on the last table ends last.
                let asked = match level {
                    Level::ZERO => tables.len(),
                    _ => 1,
                };
                tables.iter().rev().take(asked)
            });
        let largest = || ends.map(|table| &*table.range.last).max();
        match end {
            Some(end) => KeyRange::until(from, end),
            None => KeyRange::inclusive(from, largest().unwrap_or(from).max(from)),
        }
    }

    /// What the family has.
    pub fn has(&self) -> Has {
        let own = self.tables.iter().filter(|table| table.in_pm);
        Has {
            deepest: self.count.saturating_sub(1),
            level0_pm_bytes: own.map(|table| table.bytes).sum(),
            pm_bytes: self.pm_bytes,
        }
    }

    /// Of these places in level 0, newest first, the runs.
    pub fn runs(&self, places: &[usize]) -> Vec<Vec<Arc<TableRef>>> {
        let tables: Vec<Table<'_>> = places.iter().map(|n| self.tables[*n]).collect();
        let all = |run: Range<usize>| run.map(|n| self.refs[places[n]].clone());
        runs(&tables)
            .into_iter()
            .map(|run| all(run).collect())
            .collect()
    }
}

impl Shape {
    pub fn new(options: &Options) -> Shape {
        let geometry = Geometry::of(options);
        Shape {
            geometry,
            share: Share::new(geometry.pm_bytes_max),
            options: options.compaction.clone(),
            // Whole pages.
            write_bytes: index(table_piece_bytes(options.dram)) & !4095,
            index: options.ssd.index,
        }
    }

    /// How levels should be now.
    pub fn geometry(&self) -> Geometry {
        Geometry {
            pm_bytes_max: self.share.most(),
            ..self.geometry
        }
    }

    /// For a family with these levels.
    pub fn pick_options(&self, levels: &Levels<'_>) -> PickOptions {
        self.geometry().pick_options(&levels.has())
    }

    /// Whether tables in persistent memory take more than the share of level 0.
    pub fn is_past_share(&self, levels: &Levels<'_>) -> bool {
        self.geometry().is_past_share(levels.pm_bytes)
    }

    pub fn output_options(&self) -> OutputOptions {
        OutputOptions {
            target_bytes: self.geometry.table_bytes,
            grandparent_bytes_max: self.geometry.grandparent_bytes_max(),
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
        let is_empty = levels.refs.is_empty();
        let bytes_min = self.geometry.flush_table_min(is_empty, small);
        let cutter = self.cutter_in_level0(cuts, bytes_min, starts, vec![]);
        if !self.geometry.level0_ends_at_partitions() || is_empty {
            return cutter;
        }
        let gaps = level0_gaps(&levels.state(&[]), &self.pick_options(levels));
        cutter
            .preferring(gaps.ends, bytes_min)
            .preferring(gaps.within, self.geometry.table_min())
    }

    /// For what is merged inside level 0: nothing else will lie where its tables do, so they end as those of a first
    /// flush would.
    pub fn internal_cutter(&self, levels: &Levels<'_>, starts: Vec<Vec<u8>>) -> Cutter<'static> {
        let mut below = levels.deeper.iter().map(|of| of.tables);
        let below = below.find(|tables| !tables.is_empty()).into_iter();
        let begins = below.flat_map(|tables| tables.iter());
        let begins = begins.map(|table| &*table.range.first);
        let cuts = begins.map(<[u8]>::to_vec).collect();
        // The two sides of an evacuation's front have different seqnos: what comes behind the front is newer than all
        // tables there now, and older than some tables before the front.
        let front = levels.version.front(levels.cf);
        let bounds = front.into_iter().map(<[u8]>::to_vec).collect();
        self.cutter_in_level0(cuts, self.geometry.first_table_min(), starts, bounds)
    }

    /// Tables end at `starts` of partitions, too, where those of level 0 do, if they are not too small then.
    fn cutter_in_level0(
        &self,
        mut cuts: Vec<Vec<u8>>,
        mut bytes_min: u64,
        starts: Vec<Vec<u8>>,
        bounds: Vec<Vec<u8>>,
    ) -> Cutter<'static> {
        let at_starts = self.geometry.partition_table_min(bytes_min);
        if let Some(bytes) = at_starts.filter(|_| !starts.is_empty()) {
            cuts.extend(starts);
            bytes_min = bytes;
        }
        let cutter = Cutter::new(self.output_options(), bounds, vec![]);
        cutter
            .preferring(cuts, bytes_min)
            // In persistent memory tables take whole zones.
            .with_rests(self.geometry.cuts && !self.geometry.in_pm)
    }

    /// For what goes down to level `to`, within `range`: tables end at `bounds`, and at `starts` of partitions, where they are
    /// not too small then.
    pub fn sinking_cutter<'v>(
        &self,
        levels: &Levels<'v>,
        to: usize,
        range: &KeyRange<&[u8]>,
        bounds: Vec<Vec<u8>>,
        starts: Vec<Vec<u8>>,
    ) -> Cutter<'v> {
        let grandparents = levels.overlapped(to + 1, range);
        let grandparents = grandparents.map(|table| Grandparent {
            range: table.range.borrowed(),
            bytes: table.bytes,
        });
        let cutter = Cutter::new(self.output_options(), bounds, grandparents.collect());
        cutter
            .preferring(starts, self.geometry.sinking_table_min())
            .with_rests(self.geometry.cuts)
    }

    /// The level into which level 0 is compacted.
    pub fn base_level(&self, levels: &Levels<'_>) -> usize {
        Scores::new(&levels.state(&[]), &self.pick_options(levels)).base_level()
    }

    /// Bytes of that and of level 0.
    pub fn base_and_above(&self, levels: &Levels<'_>) -> u64 {
        base_and_above(&levels.state(&[]), &self.pick_options(levels))
    }

    /// Where its tables begin.
    pub fn base_begins(&self, levels: &Levels<'_>) -> Vec<Vec<u8>> {
        let base = levels.deeper(self.base_level(levels)).into_iter();
        let tables = base.flat_map(|of| of.tables.iter());
        tables.map(|table| table.range.first.to_vec()).collect()
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
        let block_bytes = usize::try_from(self.options.block_bytes).expect("at most 1 MiB");
        WriteOptions {
            block_bytes,
            compression: compression(codec),
            creation: why,
            write_bytes: self.write_bytes,
            index: self.index,
            ..WriteOptions::default()
        }
    }
}

/// How what an option says is done.
pub(super) fn compression(codec: Codec) -> Compression {
    match codec {
        Codec::None => Compression::None,
        Codec::Lz4 => Compression::Lz4,
        Codec::Zstd => Compression::Zstd(ZSTD_LEVEL),
    }
}
