//! All options of a store, and their values as text.

use std::path::{Path, PathBuf};

use crate::async_io::AsyncIo;
use crate::error::{Error, Result};
use crate::index_kind::IndexKind;
use crate::options::costs::Costs;
use crate::options::flat;
use crate::options::groups::{
    BlobOptions, CommitOptions, CompactionOptions, FeedOptions, FlushOptions, Level0Options,
    ManifestOptions, MemtableOptions, MetricsOptions, PartitionOptions, PmOptions, ReadOptions,
    SsdOptions,
};
use crate::options::keys;
use crate::options::partition_by::PartitionBy;
use crate::options::region::{Emulation, RegionDemand};
use crate::options::row::{OptionRow, format_exact};
use crate::options::shape::Shape;
use crate::options::ungrouped::UNGROUPED;
use crate::preset::Preset;
use crate::size::parse_size;

/// Options that databases remember only where they are not as usual: they are younger than others, and what a database that does not set
/// them has written is as it was before there were any.
const YOUNG: [&str; 2] = ["compaction.rate_adapts", "ssd.train_writers"];

/// What most users set: two budgets. Everything else derives from them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Most DRAM the store uses for indexes and caches, in bytes: 1 GiB unless set, from 1 MiB to 128 TiB. A limit, not a
    /// reservation. With presets `leveled` and `trident` a quarter of it is for the records of memtables, and so much of
    /// the process's addresses as it says is reserved.
    pub dram: u64,
    /// Most persistent memory the store uses, in bytes: 4 GiB unless set, from 256 KiB to 128 TiB, and not less than
    /// `pm.part_bytes_first` (1 MiB unless set). A limit, not a reservation; it may change at every open. So much of the
    /// process's addresses is reserved.
    pub pm: u64,
    /// Where the region lies: a file, or a folder to make it in. `None` is the database's folder
    /// for a new database; an existing one remembers where its region was last. The path must be UTF-8, unless the database
    /// is opened for reading only.
    pub pm_path: Option<PathBuf>,
    /// Where a store that keeps its records in DRAM (presets `leveled` and `trident`) makes its logs: a folder, on
    /// persistent memory's file system, say, which is made if there is none. `None` is the database's folder for a new
    /// database; an existing one remembers where it made them last, and finds older ones there. The path must be UTF-8, as
    /// `pm_path`.
    pub wal_path: Option<PathBuf>,
    /// Refuse any other kind of region than this.
    pub region: RegionDemand,
    /// Slow the region down for an experiment.
    pub emulate: Emulation,
    /// Make the database if there is none. True unless set.
    pub create_if_missing: bool,
    /// Open the database for reading: nothing at all is written, and what a crash has left is recovered in DRAM. Others may
    /// read it at the same time, and nobody may begin to write. Beside one who writes already it is read as it is when it is
    /// opened, from a copy in memory of what lies in persistent memory.
    pub read_only: bool,
    /// The named set that the other options start from. To set this field alone changes none of the others, so that the store
    /// is neither one nor the other; [`Options::preset`] changes them, and [`Options::set`].
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

/// Refuses an empty path for `pm_path` or `wal_path`.
pub(super) fn check_place(name: &str, place: &Path) -> Result<()> {
    if !place.as_os_str().is_empty() {
        return Ok(());
    }
    let what = match name {
        "pm_path" => "a file or a folder",
        _ => "a folder",
    };
    Err(Error::InvalidArgument(format!(
        "{name} is {what}; an empty path was given"
    )))
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

impl Options {
    /// Sets one option from text, as `--set group.option=value` does.
    ///
    /// ```
    /// # use thermocline_base as thermocline;
    /// use thermocline::options::Options;
    /// let mut options = Options::default();
    /// options.set("memtable.bytes_max", "64MiB").unwrap();
    /// assert_eq!(options.memtable.bytes_max, 64 << 20);
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no such option, or the value is not one of its unit
    /// or lies outside its range. [`Error::Unsupported`] for a preset whose parts are not built yet.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "dram" => self.dram = budget(name, value)?,
            "pm" => self.pm = budget(name, value)?,
            "pm_path" | "wal_path" => {
                let place = Path::new(value);
                check_place(name, place)?;
                let option = match name {
                    "pm_path" => &mut self.pm_path,
                    _ => &mut self.wal_path,
                };
                *option = Some(place.to_path_buf());
            }
            "partition.keys" => self.partition_keys = keys::parse(value)?,
            "region" => self.region = RegionDemand::parse(value)?,
            "emulate" => self.emulate = Emulation::parse(value)?,
            "preset" => self.choose(Preset::parse(value)?),
            _ => {
                let row = Self::rows().find(|row| row.name == name);
                let row = row.ok_or_else(|| unknown(name))?;
                let parsed = row.parse(value)?;
                self.set_place(name, parsed);
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

    /// The group that has the option takes the value in this place.
    fn set_place(&mut self, name: &str, place: u64) {
        let _ = self.memtable.set_place(name, place)
            || self.commit.set_place(name, place)
            || self.read.set_place(name, place)
            || self.ssd.set_place(name, place)
            || self.blob.set_place(name, place)
            || self.pm_region.set_place(name, place)
            || self.level0.set_place(name, place)
            || self.manifest.set_place(name, place)
            || self.compaction.set_place(name, place)
            || self.partition.set_place(name, place)
            || self.flush.set_place(name, place)
            || self.feed.set_place(name, place)
            || self.metrics.set_place(name, place);
    }

    /// Every option and its effective value as text that [`Options::set`] reads back. What holds for one opening only (`emulate`, `region`, `read_only`,
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
            all.push(("partition.keys", keys::print(&self.partition_keys)));
        }
        for (name, path) in [("pm_path", &self.pm_path), ("wal_path", &self.wal_path)] {
            let path = path.as_deref().and_then(Path::to_str);
            all.extend(path.map(|path| (name, path.to_string())));
        }
        all
    }

    /// What a database remembers: every option, but for those that are younger than others and as usual.
    ///
    /// ```
    /// # use thermocline_base as thermocline;
    /// use thermocline::options::Options;
    /// let mut options = Options::default();
    /// let remembers = |options: &Options| {
    ///     let mut all = options.remembered().into_iter();
    ///     all.any(|(name, _)| name == "compaction.rate_adapts")
    /// };
    /// assert!(!remembers(&options));
    /// options.compaction.rate_adapts = true;
    /// assert!(remembers(&options));
    /// ```
    pub fn remembered(&self) -> Vec<(&'static str, String)> {
        let is_usual = |name: &str, value: &str| {
            let row = Self::rows().find(|row| row.name == name);
            row.is_some_and(|row| row.print(row.default) == value)
        };
        let mut all = self.effective();
        all.retain(|(name, value)| !YOUNG.contains(name) || !is_usual(name, value));
        all
    }

    /// The options of a preset, over the defaults.
    ///
    /// ```
    /// # use thermocline_base as thermocline;
    /// use thermocline::options::{Options, Preset};
    /// let options = Options {
    ///     pm: 8 << 30,
    ///     ..Options::preset(Preset::GlobalIndex)
    /// };
    /// assert_eq!(options.level0.merge_percent, 0);
    /// let alone = Options {
    ///     preset: Preset::GlobalIndex,
    ///     ..Options::default()
    /// };
    /// assert_eq!(alone.level0.merge_percent, 100);
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
        let (level0, blade) = (&mut self.level0, preset == Preset::PmBlade);
        (level0.shape, level0.merge_percent) = match preset {
            Preset::Thermocline => (None, 100),
            Preset::GlobalIndex => (Some(Shape::GlobalIndex), 0),
            Preset::PmBlade => (Some(Shape::PmTables), 100),
            Preset::FlatLsm => (Some(Shape::Immutables), 100),
            Preset::Leveled | Preset::Trident => (Some(Shape::Ssd), 100),
        };
        (level0.pm_percent, level0.internal, self.partition.by) = match blade {
            true => (80, Costs::Printed, PartitionBy::Size),
            false => (65, Costs::Corrected, PartitionBy::None),
        };
        // FlatLSM has values of 512 bytes or more apart; the other papers and a classic store have none.
        self.blob.value_bytes_min = match preset {
            Preset::Thermocline => BlobOptions::default().value_bytes_min,
            Preset::FlatLsm => flat::VALUE_BYTES_MIN,
            Preset::GlobalIndex | Preset::PmBlade | Preset::Leveled | Preset::Trident => 0,
        };
        // Its tree has two levels below persistent memory, of which the first is as wide as it says.
        let usual = CompactionOptions::default();
        (self.compaction.levels, self.compaction.dynamic) = match preset {
            Preset::FlatLsm => (flat::LEVELS, false),
            _ => (usual.levels, usual.dynamic),
        };
        // Its memtables are flushed by their number.
        let usual = FlushOptions::default();
        (self.flush.generations, self.flush.pm_percent) = match preset {
            Preset::FlatLsm => (flat::MEMTABLES_FLUSHED, flat::SEALED_PERCENT),
            _ => (usual.generations, usual.pm_percent),
        };
        // What TridentKV has in tables, and how it reads them.
        let trident = preset == Preset::Trident;
        (level0.key_index, self.partition.cuts) = (trident, trident);
        (self.ssd.index, self.read.async_io) = match trident {
            true => (IndexKind::Learned, AsyncIo::Iopoll),
            false => (SsdOptions::default().index, ReadOptions::default().async_io),
        };
        // LogFree compacts what it freezes into L1, however much of it lives.
        self.flush.rewrite_ratio = match preset {
            Preset::GlobalIndex => 0,
            _ => 8,
        };
    }
}

/// A size that a budget is set to. The error names the budget: several options may be set at once.
fn budget(name: &str, value: &str) -> Result<u64> {
    parse_size(value).map_err(|error| match error {
        Error::InvalidArgument(why) => Error::InvalidArgument(format!("{name}: {why}")),
        other => other,
    })
}

/// What is said of a name that no option has: the options of its group, if there is such a group, else all.
fn unknown(name: &str) -> Error {
    let ungrouped = UNGROUPED.iter().map(|one| one.name);
    let all: Vec<&str> = ungrouped
        .chain(Options::rows().map(|row| row.name))
        .collect();
    let group = name.split_once('.').map(|(group, _)| group);
    let is_near = |one: &&str| one.split_once('.').is_some_and(|(of, _)| group == Some(of));
    let near: Vec<&str> = all.iter().copied().filter(is_near).collect();
    let (which, names) = match near.is_empty() {
        true => ("the options", all),
        false => ("the options of its group", near),
    };
    Error::InvalidArgument(format!(
        "there is no option '{name}'; {which} are {}",
        names.join(", ")
    ))
}
