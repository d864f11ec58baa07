//! Options: one declarative table per group.
//!
//! A row of a table makes the field, its documentation, default, range, parser (`--set
//! group.option=value`), printer and the random value for tests. A new option touches one place.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::size::{format_size, parse_size};

pub use crate::preset::Preset;
pub use row::{CODECS, COSTS, DIVISIONS, OptionRow, SHAPES, Unit};

/// Declares a group of options from its table.
macro_rules! option_group {
    (
        $(#[$meta:meta])* $group:ident, $prefix:literal {
            $($(#[doc = $doc:literal])+
              $field:ident: $unit:ident = $default:expr, $min:expr => $max:expr;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $group { $($(#[doc = $doc])+ pub $field: u64,)* }

        impl Default for $group {
            fn default() -> Self { $group { $($field: $default,)* } }
        }

        impl $group {
            /// The table of this group.
            pub const ROWS: &'static [OptionRow] = &[$(OptionRow {
                name: concat!($prefix, ".", stringify!($field)),
                doc: concat!($($doc,)+).trim_ascii(),
                unit: Unit::$unit,
                default: $default,
                min: $min,
                max: $max,
            },)*];

            pub(in crate::options) fn values(&self) -> Vec<u64> { vec![$(self.$field,)*] }

            pub(in crate::options) fn field_mut(&mut self, name: &str) -> Option<&mut u64> {
                match name {
                    $(concat!($prefix, ".", stringify!($field)) => Some(&mut self.$field),)*
                    _ => None,
                }
            }
        }
    };
}

mod partition;
mod row;
mod shape;

pub use partition::{Division, PartitionBy, PartitionOptions};

option_group! {
    /// Options of the write path.
    MemtableOptions, "memtable" {
        /// A memtable generation is sealed when its records and headers fill this much
        /// persistent memory. 0 derives it from `pm`: an eighth, at least one zone and at
        /// most 256 MiB. It is a quarter of `pm` at most where generations are flushed. With preset
        /// `leveled` the same goes for DRAM: a quarter of what memtables may have, at most 64 MiB.
        bytes_max: Bytes = 0, 0 => 64 << 30;
        /// A batch of several records that take more persistent memory than this is staged: written
        /// beside all other writers, and committed as a generation of its own instead of one item.
        /// That takes some syncs of the manifest. There are at most 64 generations at a time.
        item_bytes_max: Bytes = (64 << 20) - 4096, 4 << 10 => (64 << 20) - 4096;
        /// An idle store appends an empty item after this time, so that its last
        /// acknowledged write is covered by a later `published` (design §14). 0 switches
        /// it off.
        idle_ms: Millis = 1000, 0 => 3_600_000;
        /// Threads that rebuild the index at open. 0 takes one for each core, at most 8.
        replay_threads: Count = 0, 0 => 256;
    }
}

option_group! {
    /// Options of committing (design §5; LogFree §3.2).
    CommitOptions, "commit" {
        /// Places where durable writes meet to become one group with one persist. Threads are
        /// spread over them. 0 derives it from the region: one where a persist is slow (kind
        /// `file`), 16 elsewhere.
        buckets: Count = 0, 0 => 1024;
        /// A leader takes followers along as long as their changes fit this size.
        group_bytes_max: Bytes = 1 << 20, 0 => 32 << 20;
        /// How long a leader waits for followers before it begins, in microseconds. 0 takes
        /// along only those who came while the group before was written.
        group_wait_us: Count = 0, 0 => 1_000_000;
        /// Groups that can be in flight between grant and finish.
        ring_slots: Count = 64, 1 => 65_536;
        /// Buffered writes are written back when this many bytes of them have gathered. 0
        /// derives it from the region: 256 bytes, the media unit of persistent memory, or 1 MiB
        /// on kind `file`.
        buffered_bytes: Bytes = 0, 0 => 1 << 30;
        /// Buffered writes are written back after this time at the latest.
        buffered_ms: Millis = 1000, 1 => 3_600_000;
    }
}

option_group! {
    /// Options of reading.
    ReadOptions, "read" {
        /// Check the checksum of every record that is returned.
        verify_checksums: Flag = 1, 0 => 1;
        /// Values from this size on are not copied by a get but pinned: they are read where they
        /// lie, which their generation keeps for as long as they are held.
        pin_bytes_min: Bytes = 1 << 10, 1 => 1 << 30;
        /// While pinned values take more than this share of the region, in percent, all are copied.
        pins_percent_max: Count = 5, 0 => 100;
        /// How many records an iterator looks up ahead, at most.
        readahead: Count = 64, 1 => 4096;
        /// Most bytes of DRAM that blocks of tables are kept in, of all stores in a runtime: the first one
        /// that opens a table decides. It grows as blocks come, and makes room for indexes. 0 derives it
        /// from `dram`: a quarter.
        cache_bytes: Bytes = 0, 0 => 1 << 46;
        /// Most tables that stay open. Each takes a file descriptor and, for its index and filter, some
        /// DRAM, of which they take an eighth at most.
        open_tables: Count = 512, 1 => 1 << 20;
        /// Most bytes that a cursor reads at a time of a table that it goes through in order. How much it
        /// reads at first depends on how far cursors went lately. 0 switches reading ahead off.
        ahead_bytes: Bytes = 256 << 10, 0 => 256 << 10;
    }
}

option_group! {
    /// Options of the files on SSD.
    SsdOptions, "ssd" {
        /// Tables are read and written past the page cache of the operating system, where the file
        /// system allows.
        direct: Flag = 1, 0 => 1;
    }
}

option_group! {
    /// Options of blob files, in which long values lie apart from their keys.
    BlobOptions, "blob" {
        /// A longer value goes into a blob file, before its write is granted: one file for each batch, made
        /// durable with three syncs.
        inline_bytes_max: Bytes = 1 << 20, 64 => 1 << 20;
        /// A memtable generation is sealed when it refers to so many bytes in blob files, and sealed ones are
        /// flushed when together they do: a reference is short, so values that were overwritten would
        /// take room on the SSD until as many others were written as fill persistent memory.
        generation_bytes: Bytes = 1 << 30, 64 => 1 << 50;
    }
}

option_group! {
    /// Options of the region of persistent memory.
    PmOptions, "pm" {
        /// Size of the first part of a new region; later parts double up to 64 MiB.
        part_bytes_first: Bytes = 1 << 20, 256 << 10 => 64 << 20;
        /// The region grows ahead of need while fewer than this many zones are free.
        zones_ahead: Count = 4, 1 => 1024;
    }
}

option_group! {
    /// Options of level 0: what becomes of sealed memtable generations (design §7).
    Level0Options, "level0" {
        /// `global-index` keeps sealed generations in persistent memory until they are flushed, and merges
        /// their indexes, so that reads ask few; records stay where they are (LogFree §3.3). With
        /// `immutables` each keeps its own index (FlatLSM §4.3). `ssd` flushes each as soon as it is
        /// sealed: level 0 is on the SSD then, in runs that overlap. So does `pm-tables`, into compressed
        /// tables that stay in persistent memory (PM-Blade §IV), as many as `level0.pm_percent` allows.
        /// `tiered` is both: sealed generations get one index, and when together they are large they become
        /// such tables. `auto` is `tiered` where there is persistent memory, and `global-index` where a file of
        /// kind `file` stands in for it: tables there would lie on the SSD as others do.
        shape: Shape = 5, 0 => 5;
        /// With `pm-tables` and `tiered` the share of `pm`, in percent, that tables may take there; what is
        /// more is compacted into tables on the SSD.
        pm_percent: Count = 50, 1 => 80;
        /// When tables there that lie over each other are merged inside persistent memory. `off`: only
        /// by hand, and all of level 0 leaves when it is full. `corrected` and `printed`: when that pays, by the equations of PM-Blade (§IV.C), corrected or
        /// as they are printed.
        internal: Costs = 1, 0 => 2;
        /// Indexes are merged when reads have asked so many of them, beyond those that cannot be spared,
        /// as a merge has keys to move: this share of it, in percent. 0 merges them at once, whether
        /// they are read or not.
        merge_percent: Count = 100, 0 => 100_000;
        /// Threads that write ranges of keys at once, where sealed generations become tables in persistent memory by
        /// ranges (`tiered`). 0 takes one for each core, at most 4, if the store has threads of its own.
        evacuation_threads: Count = 0, 0 => 64;
    }
}

/// What becomes of sealed memtable generations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// They stay in persistent memory until they are flushed, each with its own index.
    Immutables,
    /// They stay there, and get one index in common.
    GlobalIndex,
    /// They are flushed as soon as they are sealed.
    Ssd,
    /// They are flushed as soon as they are sealed, into tables in persistent memory.
    PmTables,
    /// They stay there, and get one index in common, until they are flushed into tables in persistent memory.
    Tiered,
}

/// The place of `auto`, behind those of the shapes.
const SHAPE_AUTO: u64 = 5;

/// When level 0 is merged inside persistent memory by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Costs {
    /// Never.
    Off,
    /// When it pays.
    Corrected,
    /// By the equations as PM-Blade prints them.
    Printed,
}

impl Level0Options {
    /// When tables are merged inside persistent memory.
    pub fn costs(&self) -> Costs {
        match self.internal {
            0 => Costs::Off,
            1 => Costs::Corrected,
            _ => Costs::Printed,
        }
    }

    /// The shape of level 0; where it is `auto` that on persistent memory.
    pub fn shape(&self) -> Shape {
        match self.shape {
            0 => Shape::Immutables,
            1 => Shape::GlobalIndex,
            2 => Shape::Ssd,
            3 => Shape::PmTables,
            _ => Shape::Tiered,
        }
    }
}

option_group! {
    /// Options of the manifest.
    ManifestOptions, "manifest" {
        /// The manifest is rewritten as a snapshot in a new file when its log exceeds this.
        bytes_max: Bytes = 1 << 20, 512 => 1 << 30;
    }
}

option_group! {
    /// Options of the levels on SSD, and of moving data down them (design §9).
    CompactionOptions, "compaction" {
        /// Runs in level 0 from which on it is compacted, in each slice of keys by itself: tables that
        /// were flushed one after the other and do not overlap are one run.
        level0_tables: Count = 4, 1 => 1024;
        /// Bytes that the level into which level 0 is compacted may have, and bytes in level 0 from
        /// which on that is compacted. 0 derives it: what `level0_tables` flushes write, at least four
        /// tables.
        base_bytes: Bytes = 0, 0 => 1 << 50;
        /// How much larger each level may be than the one above it.
        multiplier: Count = 10, 2 => 100;
        /// The deepest level. A store that has deeper ones already keeps them.
        levels: Count = 6, 1 => 7;
        /// Whether the size of the last level decides about those of the others, so that about one
        /// part in `multiplier` of what is stored is stale, beside level 0. A level that would be smaller
        /// than `base_bytes` is not used. Otherwise level 1 has `base_bytes`.
        dynamic: Flag = 1, 0 => 1;
        /// A table is ended at the first new key at which it has this size; one that a flush writes
        /// between half of it and half as much again, where tables of older flushes end. 0 derives it: a
        /// quarter of a generation, from 2 to 64 MiB; with shape `tiered` a generation, up to 16 MiB, if that is more.
        table_bytes: Bytes = 0, 0 => 1 << 30;
        /// What a data block takes on the device, at most, unless it holds one larger record.
        block_bytes: Bytes = 4 << 10, 256 => 1 << 20;
        /// How blocks of level 0 are compressed. They are read and written once more soon.
        compression_level0: Codec = 0, 0 => 2;
        /// How blocks between level 0 and the last level are compressed.
        compression: Codec = 1, 0 => 2;
        /// How blocks of the last level are compressed.
        compression_last: Codec = 1, 0 => 2;
        /// Bytes that compactions read and write in a second, together. 0 is no limit. Flushes are
        /// not held back.
        rate_bytes: Bytes = 0, 0 => 1 << 40;
        /// One read of tables in so many, chosen at random, is looked at for tables that are asked in vain:
        /// those are compacted when that costs less than reading on like this. 0 looks at none.
        read_sample: Count = 64, 0 => 1 << 32;
    }
}

option_group! {
    /// Options of moving data from persistent memory to SSD (design §7, §9).
    FlushOptions, "flush" {
        /// Sealed memtable generations are flushed into tables when one of the shares below is reached,
        /// and when a write finds no room. Otherwise they are only when asked for, and what finds no
        /// room is refused.
        automatic: Flag = 1, 0 => 1;
        /// Share of `pm`, in percent, that sealed generations may take. Below it data stays in
        /// persistent memory, and what is overwritten there never reaches the SSD. With shape `tiered` it is
        /// at most three tenths of what `level0.pm_percent` leaves, so that tables find room beside them.
        pm_percent: Count = 50, 1 => 95;
        /// Share of `dram`, in percent, that indexes may take while there are sealed generations.
        dram_percent: Count = 60, 1 => 90;
        /// Sealed generations from which on they are flushed, whatever they take; 0: only what they take
        /// counts. FlatLSM's `flush_immutable_num`, which is 4 there (§4.3).
        generations: Count = 0, 0 => 10_000;
        /// With shapes `global-index` and `immutables`: if sealed generations that are to be flushed take more than
        /// so many times what lives in them, that is written into tables in persistent memory and not on the SSD, where
        /// those find room. FlatLSM's ratio of log to live bytes, which is 8 there (§4.2.2). 0 never does so.
        rewrite_ratio: Count = 8, 0 => 10_000;
    }
}

option_group! {
    /// Options of change feeds (design §16). What is kept for them counts in `pm`, and makes way for writes that
    /// find no room.
    FeedOptions, "feed" {
        /// Persistent memory that generations which are flushed, or of which nothing is alive, may keep, so
        /// that their changes can be asked for again, though nobody follows them now. Values in blob files that
        /// they refer to count, too: those stay on the SSD.
        retain_bytes: Bytes = 0, 0 => 1 << 46;
        /// As much as this share of `pm`, in percent, such generations may keep for feeds that are open and have not
        /// read them, values in blob files included. Past it the feeds that are farthest behind are cut off. A flush takes
        /// `flush.pm_percent` at once, so with less than that a feed must have read what is flushed.
        pins_percent_max: Count = 60, 0 => 90;
    }
}

option_group! {
    /// Options of what a store measures of itself.
    MetricsOptions, "metrics" {
        /// One operation in so many is timed, chosen at random; 1 times all, 0 none.
        latency_every: Count = 32, 0 => 1 << 32;
    }
}

/// What kind of region a user demands (design §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RegionDemand {
    /// Whatever the place of the region turns out to be.
    #[default]
    Any,
    /// A DAX mapping: real persistent memory.
    Dax,
    /// An ordinary file, made durable by the operating system.
    File,
    /// A file on tmpfs: survives the process, not the machine.
    Shm,
}

impl RegionDemand {
    /// The demand with this name.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an unknown name.
    pub fn parse(name: &str) -> Result<RegionDemand> {
        match name {
            "any" => Ok(RegionDemand::Any),
            "dax" => Ok(RegionDemand::Dax),
            "file" => Ok(RegionDemand::File),
            "shm" => Ok(RegionDemand::Shm),
            _ => Err(Error::InvalidArgument(format!(
                "there is no region kind '{name}'; the kinds are any, dax, file and shm"
            ))),
        }
    }
}

/// How a region on DRAM is slowed down to behave like other media, for experiments only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Emulation {
    /// As fast as the memory is.
    #[default]
    None,
    /// Like Optane DCPMM.
    Optane,
    /// Like memory behind CXL.
    Cxl,
}

impl Emulation {
    /// The profile with this name.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an unknown name.
    pub fn parse(name: &str) -> Result<Emulation> {
        match name {
            "none" => Ok(Emulation::None),
            "optane" => Ok(Emulation::Optane),
            "cxl" => Ok(Emulation::Cxl),
            _ => Err(Error::InvalidArgument(format!(
                "there is no emulation profile '{name}'; the profiles are none, optane and cxl"
            ))),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Emulation::None => "none",
            Emulation::Optane => "optane",
            Emulation::Cxl => "cxl",
        }
    }
}

/// What most users set: two budgets. Everything else derives from them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Most DRAM the store uses for indexes and caches, in bytes. A limit, not a reservation. With
    /// preset `leveled` a quarter of it is for the records of memtables.
    pub dram: u64,
    /// Most persistent memory the store uses, in bytes. A limit, not a reservation; it may change
    /// at every open.
    pub pm: u64,
    /// Where the region lies: a file, or a folder to make it in. `None` is the database's folder
    /// for a new database; an existing one remembers where its region was last.
    pub pm_path: Option<PathBuf>,
    /// Where a store that keeps its records in DRAM (preset `leveled`) makes its logs: a folder, on
    /// persistent memory's file system, say. `None` is the database's folder for a new database; an
    /// existing one remembers where it made them last, and finds older ones there.
    pub wal_path: Option<PathBuf>,
    /// Refuse any other kind of region than this.
    pub region: RegionDemand,
    /// Slow the region down for an experiment.
    pub emulate: Emulation,
    /// Make the database if there is none.
    pub create_if_missing: bool,
    /// Write nothing at all; see the facade's `Db::open`.
    pub read_only: bool,
    /// The named set that the other options start from.
    pub preset: Preset,
    /// The write path.
    pub memtable: MemtableOptions,
    /// Committing.
    pub commit: CommitOptions,
    /// Reading.
    pub read: ReadOptions,
    /// Files on SSD.
    pub ssd: SsdOptions,
    /// Blob files.
    pub blob: BlobOptions,
    /// The region.
    pub pm_region: PmOptions,
    /// Level 0.
    pub level0: Level0Options,
    /// The manifest.
    pub manifest: ManifestOptions,
    /// The levels on SSD.
    pub compaction: CompactionOptions,
    /// Partitions.
    pub partition: PartitionOptions,
    /// Where each column family is divided, ascending, if that is by keys: `partition.keys`.
    pub partition_keys: Vec<Vec<u8>>,
    /// Moving data to SSD.
    pub flush: FlushOptions,
    /// Change feeds.
    pub feed: FeedOptions,
    /// What the store measures of itself.
    pub metrics: MetricsOptions,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            dram: 1 << 30,
            pm: 4 << 30,
            pm_path: None,
            wal_path: None,
            region: RegionDemand::Any,
            emulate: Emulation::None,
            create_if_missing: true,
            read_only: false,
            preset: Preset::Thermocline,
            memtable: MemtableOptions::default(),
            commit: CommitOptions::default(),
            read: ReadOptions::default(),
            ssd: SsdOptions::default(),
            blob: BlobOptions::default(),
            pm_region: PmOptions::default(),
            level0: Level0Options::default(),
            manifest: ManifestOptions::default(),
            compaction: CompactionOptions::default(),
            partition: PartitionOptions::default(),
            partition_keys: Vec::new(),
            flush: FlushOptions::default(),
            feed: FeedOptions::default(),
            metrics: MetricsOptions::default(),
        }
    }
}

/// Smallest `dram`: one index node slab per generation and the write buffers.
pub const DRAM_MIN: u64 = 1 << 20;
/// Smallest `pm`: one part of the smallest size.
pub const PM_MIN: u64 = 256 << 10;

impl Options {
    /// Sets one option from text, as `--set group.option=value` does.
    ///
    /// ```
    /// use thermocline_base::options::Options;
    /// let mut options = Options::default();
    /// options.set("memtable.bytes_max", "64MiB").unwrap();
    /// assert_eq!(options.memtable.bytes_max, 64 << 20);
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no such option, or the value is not one of its unit
    /// or lies outside its range.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "dram" => self.dram = parse_size(value)?,
            "pm" => self.pm = parse_size(value)?,
            "pm_path" if value.is_empty() => {
                return Err(Error::InvalidArgument(
                    "pm_path is a file or a folder; an empty path was given".to_string(),
                ));
            }
            "pm_path" => self.pm_path = Some(value.into()),
            "wal_path" if value.is_empty() => {
                return Err(Error::InvalidArgument(
                    "wal_path is a folder; an empty path was given".to_string(),
                ));
            }
            "wal_path" => self.wal_path = Some(value.into()),
            "partition.keys" => self.partition_keys = partition::parse_keys(value)?,
            "region" => self.region = RegionDemand::parse(value)?,
            "emulate" => self.emulate = Emulation::parse(value)?,
            "preset" => self.choose(Preset::parse(value)?),
            _ => {
                let row = Self::rows().find(|row| row.name == name).ok_or_else(|| {
                    Error::InvalidArgument(format!(
                        "there is no option '{name}'; the options are dram, pm, pm_path, wal_path, region, \
                         emulate, preset, partition.keys, {}",
                        Self::rows()
                            .map(|row| row.name)
                            .collect::<Vec<_>>()
                            .join(", ")
                    ))
                })?;
                let parsed = row.parse(value)?;
                if let Some(field) = self.field_mut(name) {
                    *field = parsed;
                }
            }
        }
        Ok(())
    }

    /// The tables of all groups, row by row.
    pub fn rows() -> impl Iterator<Item = &'static OptionRow> {
        MemtableOptions::ROWS
            .iter()
            .chain(CommitOptions::ROWS)
            .chain(ReadOptions::ROWS)
            .chain(SsdOptions::ROWS)
            .chain(BlobOptions::ROWS)
            .chain(PmOptions::ROWS)
            .chain(Level0Options::ROWS)
            .chain(ManifestOptions::ROWS)
            .chain(CompactionOptions::ROWS)
            .chain(PartitionOptions::ROWS)
            .chain(FlushOptions::ROWS)
            .chain(FeedOptions::ROWS)
            .chain(MetricsOptions::ROWS)
    }

    fn field_mut(&mut self, name: &str) -> Option<&mut u64> {
        self.memtable
            .field_mut(name)
            .or_else(|| self.commit.field_mut(name))
            .or_else(|| self.read.field_mut(name))
            .or_else(|| self.ssd.field_mut(name))
            .or_else(|| self.blob.field_mut(name))
            .or_else(|| self.pm_region.field_mut(name))
            .or_else(|| self.level0.field_mut(name))
            .or_else(|| self.manifest.field_mut(name))
            .or_else(|| self.compaction.field_mut(name))
            .or_else(|| self.partition.field_mut(name))
            .or_else(|| self.flush.field_mut(name))
            .or_else(|| self.feed.field_mut(name))
            .or_else(|| self.metrics.field_mut(name))
    }

    /// Every option and its effective value as text that [`Options::set`] reads back: what a
    /// database remembers. What holds for one opening only (`emulate`, `region`, `read_only`,
    /// `create_if_missing`) is not among them, nor a `pm_path` or `wal_path` that is no UTF-8.
    pub fn effective(&self) -> Vec<(&'static str, String)> {
        let mut all = vec![
            ("dram", format_exact(self.dram)),
            ("pm", format_exact(self.pm)),
            ("preset", self.preset.name().to_string()),
        ];
        let values = [
            self.memtable.values(),
            self.commit.values(),
            self.read.values(),
            self.ssd.values(),
            self.blob.values(),
            self.pm_region.values(),
            self.level0.values(),
            self.manifest.values(),
            self.compaction.values(),
            self.partition.values(),
            self.flush.values(),
            self.feed.values(),
            self.metrics.values(),
        ]
        .concat();
        all.extend(
            Self::rows()
                .zip(values)
                .map(|(row, value)| (row.name, row.print(value))),
        );
        if !self.partition_keys.is_empty() {
            all.push((
                "partition.keys",
                partition::print_keys(&self.partition_keys),
            ));
        }
        for (name, path) in [("pm_path", &self.pm_path), ("wal_path", &self.wal_path)] {
            let path = path.as_deref().and_then(Path::to_str);
            all.extend(path.map(|path| (name, path.to_string())));
        }
        all
    }

    /// The options of a preset, over the defaults.
    ///
    /// ```
    /// use thermocline_base::options::{Options, Preset};
    /// let options = Options::preset(Preset::GlobalIndex);
    /// assert_eq!(options.level0.merge_percent, 0);
    /// ```
    pub fn preset(preset: Preset) -> Options {
        let mut options = Options::default();
        options.choose(preset);
        options
    }

    /// Takes a preset, and with it the options in which it differs from others; what is set after that
    /// overrides them.
    fn choose(&mut self, preset: Preset) {
        if preset == self.preset {
            return;
        }
        self.preset = preset;
        for (name, value) in preset.values() {
            if let Some(field) = self.field_mut(name) {
                *field = value;
            }
        }
    }

    /// With what the preset leaves no choice about: preset `leveled` has its level 0 on the SSD.
    pub fn settled(mut self) -> Options {
        if self.in_dram() {
            self.level0.shape = Shape::Ssd as u64;
        }
        self
    }

    /// With the shape of level 0 that `auto` stands for, on persistent memory or on a file that stands in for it.
    ///
    /// ```
    /// use thermocline_base::options::{Options, Shape};
    /// let options = Options::default();
    /// assert_eq!(options.clone().on_region(true).level0.shape(), Shape::Tiered);
    /// assert_eq!(options.on_region(false).level0.shape(), Shape::GlobalIndex);
    /// ```
    pub fn on_region(mut self, in_memory: bool) -> Options {
        if self.level0.shape == SHAPE_AUTO {
            let shape = match in_memory {
                true => Shape::Tiered,
                false => Shape::GlobalIndex,
            };
            self.level0.shape = shape as u64;
        }
        self
    }

    /// Checks every value and how they fit together.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] naming the option, its value and the limit it breaks.
    pub fn validate(&self) -> Result<()> {
        if self.dram < DRAM_MIN {
            return Err(Error::InvalidArgument(format!(
                "dram is at least {}; {} was given",
                format_size(DRAM_MIN),
                format_size(self.dram)
            )));
        }
        if self.pm < PM_MIN || self.pm > 1 << 47 {
            return Err(Error::InvalidArgument(format!(
                "pm lies between {} and 128 TiB; {} was given",
                format_size(PM_MIN),
                format_size(self.pm)
            )));
        }
        for (row, (_, value)) in Self::rows().zip(self.effective().into_iter().skip(3)) {
            row.parse(&value)?;
        }
        let part = self.pm_region.part_bytes_first;
        if !part.is_power_of_two() || part > self.pm {
            return Err(Error::InvalidArgument(format!(
                "pm.part_bytes_first must be a power of two not above pm ({}); {} was given",
                format_size(self.pm),
                format_size(part)
            )));
        }
        self.validate_partitions()?;
        self.validate_places()
    }

    fn validate_places(&self) -> Result<()> {
        let refused = match self.in_dram() {
            false if self.wal_path.is_some() => "wal_path is for preset 'leveled'",
            true if self.pm_path.is_some() => {
                "preset 'leveled' has no persistent memory, and pm_path says where that lies; \
                 wal_path says where logs lie"
            }
            true if self.region != RegionDemand::Any || self.emulate != Emulation::None => {
                "preset 'leveled' has no persistent memory: a kind of region or an emulation profile \
                 cannot be asked for"
            }
            true if ![Shape::Ssd as u64, SHAPE_AUTO].contains(&self.level0.shape) => {
                "preset 'leveled' has its level 0 on the SSD: level0.shape is ssd there"
            }
            _ => return Ok(()),
        };
        Err(Error::InvalidArgument(refused.to_string()))
    }

    /// Whether records are kept in DRAM, and made durable by a log.
    pub fn in_dram(&self) -> bool {
        match self.preset {
            Preset::Thermocline | Preset::GlobalIndex | Preset::PmBlade => false,
            Preset::Leveled => true,
        }
    }

    /// Most bytes of memtables: `pm`, or where they lie in DRAM a quarter of `dram`; the rest is for
    /// indexes and caches.
    pub fn region_bytes_max(&self) -> u64 {
        match self.in_dram() {
            false => self.pm,
            true => (self.dram / 4).max(PM_MIN),
        }
    }

    /// The size at which a memtable generation is sealed, in bytes of its records as they lie. Where
    /// generations are flushed, a quarter of what they all may have at most: the rest takes writes
    /// meanwhile. Half as much where most of `pm` is for tables.
    pub fn memtable_bytes(&self) -> u64 {
        let tiered = self.level0.shape() == Shape::Tiered && !self.in_dram();
        let room = self.region_bytes_max() / if tiered { 2 } else { 1 };
        let bytes = match (self.memtable.bytes_max, self.in_dram()) {
            (0, false) => (room / 8).clamp(64 << 10, 256 << 20),
            // One that takes writes, and others that are being flushed.
            (0, true) => (room / 4).clamp(32 << 10, 64 << 20),
            (bytes, _) => bytes,
        };
        match self.flush.automatic {
            0 => bytes,
            _ => bytes.min(room / 4),
        }
    }
}

impl Options {
    /// The size at which a table is ended, in bytes.
    pub fn table_bytes(&self) -> u64 {
        match self.compaction.table_bytes {
            0 => {
                let memtable = self.memtable_bytes();
                let least = match self.level0.shape() {
                    // A table in persistent memory takes whole zones: one that is small wastes half of them.
                    Shape::Tiered => memtable.min(16 << 20),
                    _ => 0,
                };
                (memtable / 4).max(least).clamp(2 << 20, 64 << 20)
            }
            bytes => bytes,
        }
    }

    /// Most bytes of persistent memory that tables of level 0 may take there, if any are to lie there: all that are
    /// flushed, or with other shapes those of flushes that rewrite ([`FlushOptions::rewrite_ratio`]).
    pub fn level0_pm_bytes(&self) -> Option<u64> {
        match self.level0.shape() {
            _ if self.in_dram() => None,
            Shape::PmTables | Shape::Tiered => Some(self.pm / 100 * self.level0.pm_percent),
            Shape::Immutables | Shape::GlobalIndex => self.rewritten_bytes_max(),
            Shape::Ssd => None,
        }
    }

    /// What two flushes may rewrite at most and what both are merged into, unless that would be more than a third
    /// of what sealed generations leave.
    fn rewritten_bytes_max(&self) -> Option<u64> {
        let sealed = self.pm / 100 * self.flush.pm_percent;
        match self.flush.rewrite_ratio {
            0 => None,
            ratio => Some((3 * (sealed / ratio)).min((self.pm - sealed) / 3)),
        }
    }

    /// Most percent of persistent memory that sealed generations may take before they are flushed; 0 where they
    /// are as soon as they are sealed. With shape `tiered` there must be room for the tables that they have, for
    /// those that they become, for themselves until all of those are named, and for what is written meanwhile.
    pub fn sealed_percent(&self) -> u64 {
        match self.level0.shape() {
            Shape::Ssd | Shape::PmTables => 0,
            Shape::Immutables | Shape::GlobalIndex => self.flush.pm_percent,
            Shape::Tiered => {
                let left = 100 - self.level0.pm_percent;
                self.flush.pm_percent.min(left * 3 / 10)
            }
        }
    }

    /// Most bytes of persistent memory that a flush may write into tables there beyond what level 0 may have:
    /// about what it takes.
    pub fn flush_pm_bytes(&self) -> u64 {
        let sealed = self.pm / 100 * self.sealed_percent();
        sealed.max(2 * self.memtable_bytes())
    }

    /// With level 0 in persistent memory: the size of the level into which it is compacted. What leaves at once is
    /// about the share of level 0, and may be gathered in files first.
    fn pm_base_bytes(&self) -> u64 {
        let level0 = self.level0_pm_bytes().unwrap_or(0);
        let level0 = level0.saturating_mul(self.compaction.level0_tables);
        level0.max(4 * self.table_bytes())
    }

    /// The size of level 0, and of the level into which it is compacted, in bytes.
    pub fn base_bytes(&self) -> u64 {
        match self.compaction.base_bytes {
            0 => {
                // A flush takes all sealed generations together.
                let flush = match self.flush.automatic {
                    0 => self.memtable_bytes(),
                    _ if self.level0.shape() == Shape::Ssd => self.memtable_bytes(),
                    _ if self.level0.shape().keeps_tables_in_pm() => {
                        return self.pm_base_bytes();
                    }
                    _ => (self.pm / 100 * self.flush.pm_percent).max(self.memtable_bytes()),
                };
                let level0 = flush.saturating_mul(self.compaction.level0_tables);
                level0.max(4 * self.table_bytes())
            }
            bytes => bytes,
        }
    }
}

fn format_exact(bytes: u64) -> String {
    OptionRow {
        name: "",
        doc: "",
        unit: Unit::Bytes,
        default: 0,
        min: 0,
        max: 0,
    }
    .print(bytes)
}

#[cfg(test)]
mod tests;
