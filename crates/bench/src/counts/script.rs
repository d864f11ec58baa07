//! What is done.

use thermocline::options::Preset;
use thermocline::{Error, Options, Result};

use crate::distribution::Distribution;
use crate::workload::Workload;

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 16;

/// Persistent memory of each store, in bytes: so little that a short script passes by every decision.
const PM: u64 = 8 << 20;

/// Options that follow from so little persistent memory, or keep a store from starting threads of its own.
const SIZES: [(&str, &str); 6] = [
    ("pm.part_bytes_first", "256KiB"),
    ("compaction.table_bytes", "512KiB"),
    ("dram", "2MiB"),
    ("level0.evacuation_threads", "1"),
    ("memtable.replay_threads", "1"),
    ("read.readahead", "4"),
];

/// Operations that are counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// What it is called by.
    pub name: &'static str,
    /// What it does, for people.
    pub what: &'static str,
    pub(super) workload: Workload,
    pub(super) keys: u64,
    pub(super) value_bytes: usize,
    /// Operations; fills write each key once.
    pub(super) ops: u64,
    /// Writes that are one commit.
    pub(super) batch: u64,
    pub(super) distribution: Distribution,
}

impl Script {
    /// With the workload's own distribution.
    fn new(name: &'static str, what: &'static str, workload: Workload, keys: u64) -> Script {
        Script {
            name,
            what,
            workload,
            keys,
            value_bytes: 1024,
            ops: 8_000,
            batch: 1,
            distribution: workload.distribution(),
        }
    }

    /// Operations that are counted.
    pub(super) fn operations(&self) -> u64 {
        match self.workload.loads_first() {
            true => self.ops,
            false => self.keys,
        }
    }

    /// As a user gets them with the default preset, but for sizes.
    pub(super) fn options() -> Result<Options> {
        let mut options = Options::preset(Preset::Thermocline);
        options.pm = PM;
        for (name, value) in SIZES {
            options.set(name, value)?;
        }
        Ok(options)
    }
}

/// Keys with 1 KiB of value that take a quarter of persistent memory, and 2.5 and 5 times as much as it has.
const QUARTER: u64 = PM / 4 / 1040;
const LARGE: u64 = PM / 2 * 5 / 1040;
const LARGER: u64 = PM * 5 / 1040;

/// All scripts: those of the suite that can be counted, at the size of this store.
pub fn scripts() -> Vec<Script> {
    use Workload::{FillRandom, ReadRandom, SeekRandom, YcsbA, YcsbB, YcsbC, YcsbD, YcsbE, YcsbF};
    let ycsb = |name, what, workload| Script::new(name, what, workload, LARGE);
    vec![
        Script {
            value_bytes: 100,
            ..Script::new(
                "put-100",
                "puts of 100 bytes into persistent memory",
                FillRandom,
                8_000,
            )
        },
        Script::new(
            "put-1k",
            "puts of 1 KiB into persistent memory",
            FillRandom,
            QUARTER,
        ),
        Script {
            value_bytes: 100,
            batch: 32,
            ..Script::new(
                "batch-32",
                "puts of 100 bytes, 32 in a commit",
                FillRandom,
                8_000,
            )
        },
        Script::new(
            "load-5x",
            "each key once, 5 times persistent memory",
            FillRandom,
            LARGER,
        ),
        Script::new(
            "get-pm",
            "point reads, all in persistent memory",
            ReadRandom,
            QUARTER,
        ),
        Script {
            ops: 1_000,
            ..Script::new(
                "scan-pm",
                "scans of 50, all in persistent memory",
                SeekRandom,
                QUARTER,
            )
        },
        ycsb("ycsb-a", "YCSB A at 2.5 times persistent memory", YcsbA),
        ycsb("ycsb-b", "YCSB B at 2.5 times persistent memory", YcsbB),
        ycsb("ycsb-c", "YCSB C at 2.5 times persistent memory", YcsbC),
        ycsb("ycsb-d", "YCSB D at 2.5 times persistent memory", YcsbD),
        Script {
            ops: 1_000,
            ..ycsb("ycsb-e", "YCSB E at 2.5 times persistent memory", YcsbE)
        },
        ycsb("ycsb-f", "YCSB F at 2.5 times persistent memory", YcsbF),
    ]
}

/// Those that are named, in their order; all where no name is given.
///
/// # Errors
/// [`Error::InvalidArgument`] for a name that no script has.
pub fn choose_scripts(names: &[String]) -> Result<Vec<Script>> {
    let mut all = scripts();
    let unknown = |name: &&String| all.iter().all(|script| script.name != **name);
    if let Some(unknown) = names.iter().find(unknown) {
        let known: Vec<&str> = all.iter().map(|script| script.name).collect();
        return Err(Error::InvalidArgument(format!(
            "there is no cell '{unknown}' that is counted; there are {}",
            known.join(", ")
        )));
    }
    all.retain(|script| names.is_empty() || names.iter().any(|name| name == script.name));
    Ok(all)
}
