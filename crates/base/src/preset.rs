//! Named sets of options.

use crate::{Error, Result};

/// The named sets of options. [`Options::preset`](crate::options::Options::preset) has their
/// values; single options override them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Preset {
    /// The default engine.
    #[default]
    Thermocline,
    /// The Global Index of LogFree (§3.3): level 0 is one index over all sealed memtables, into which each
    /// is merged as soon as it is sealed. Its way of committing, a chain for each subtable, is not part of
    /// it: groups are one item here (`memtable`).
    GlobalIndex,
    /// PM-Blade (§III, §IV): level 0 is compressed tables in persistent memory, keys are divided by size, and the
    /// paper's cost models decide in their printed forms. Below are one or more levels on the SSD as in any store. Jobs
    /// read, merge and write as its coroutines do (§V), as in any store (`compaction.scheduler`).
    PmBlade,
    /// FlatLSM (§4.3, §4.4): large memtables in persistent memory, of which several wait before they are flushed; flushes in
    /// parallel, by ranges of keys, into an ordered level 1; one wide level below it; values of 512 bytes and more apart
    /// from their keys. A memtable is a sixth of `pm`, flushes are due when four are sealed, and level 1 has ten thirds of `pm`: the
    /// paper's 2 GiB, 4 of 6, and 40 GB. Its Buffer Log is what a `Buffered` write is here.
    FlatLsm,
    /// The classic baseline: memtables in DRAM, a write-ahead log, overlapping tables in level 0 and
    /// leveled compaction below. Honest and well tuned, since everything is compared with it. It has no
    /// persistent memory: `pm` says nothing here, and `pm_path`, `region` and `emulate` are refused.
    ///
    /// Memtables take at most a quarter of `dram` and are sealed at a quarter of that, 64 MiB at most;
    /// durable writes gather behind one sync (`commit.buckets` 1), buffered ones until there is 1 MiB
    /// of them. Tables are as in any store: filters, blocks of the same size, the same compression.
    Leveled,
    /// TridentKV (§3): as `leveled`, with its tables. They have learned indexes (§3.2, `ssd.index`) and end where partitions
    /// begin (§3.3, `partition.cuts`), keys of level 0 lie in DRAM (§3.3, `level0.key_index`), and reads go to the disk by
    /// polled io_uring (§3.4, `read.async_io`). Partitions are the user's: `partition.by` says what divides keys.
    Trident,
}

impl Preset {
    /// The preset with this name.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a preset whose parts are not built yet,
    /// [`Error::InvalidArgument`] for any other name.
    pub fn parse(name: &str) -> Result<Preset> {
        let missing = match name {
            "thermocline" => return Ok(Preset::Thermocline),
            "global-index" => return Ok(Preset::GlobalIndex),
            "pm-blade" => return Ok(Preset::PmBlade),
            "flat-lsm" => return Ok(Preset::FlatLsm),
            "leveled" => return Ok(Preset::Leveled),
            "trident" => return Ok(Preset::Trident),
            "d-compaction" => "delayed compaction",
            _ => {
                return Err(Error::InvalidArgument(format!(
                    "there is no preset '{name}'; the presets are thermocline, global-index, pm-blade, flat-lsm, \
                     leveled and trident"
                )));
            }
        };
        Err(Error::Unsupported(format!(
            "preset '{name}' needs {missing}, which this version does not have; the presets \
             'thermocline', 'global-index', 'pm-blade', 'flat-lsm', 'leveled' and 'trident' work"
        )))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Thermocline => "thermocline",
            Preset::GlobalIndex => "global-index",
            Preset::PmBlade => "pm-blade",
            Preset::FlatLsm => "flat-lsm",
            Preset::Leveled => "leveled",
            Preset::Trident => "trident",
        }
    }
}
