//! Internal compaction by hand: tables IV and V, and figure 7(b).
//!
//! Level 0 is filled with runs that lie over each other, each of them written, sealed and flushed by itself, and nothing
//! is compacted before that is asked for. Then it is merged, in persistent memory by
//! [`Db::compact_level0`](thermocline::Db::compact_level0), or, where it lies on the SSD, into the level below by
//! [`Db::compact`](thermocline::Db::compact): the paper's PMBlade and PMBlade-SSD. One thread does it, and blocks are not
//! compressed on either side, so that both merge the same bytes.

mod duration;
mod reading;
mod released;

use thermocline::Db;
use thermocline_base::{Error, Result};

use super::systems::{PMBLADE_PM, PMBLADE_SSD};
use crate::Setting;
use crate::trial::{KEY_BYTES, Size, System, Trial, Writer};

pub(crate) use duration::duration;
pub(crate) use reading::reading;
pub(crate) use released::released;

/// Beside those of a system: nothing is compacted but by hand.
const BY_HAND: [(&str, &str); 7] = [
    ("level0.pm_percent", "80"),
    ("compaction.level0_tables", "1024"),
    ("compaction.base_bytes", "1024GiB"),
    ("compaction.read_sample", "0"),
    ("compaction.compression_level0", "none"),
    ("compaction.compression", "none"),
    ("compaction.compression_last", "none"),
];

/// Where level 0 lies, and is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Pm,
    Ssd,
}

impl Side {
    const BOTH: [Side; 2] = [Side::Pm, Side::Ssd];

    fn name(self) -> &'static str {
        match self {
            Side::Pm => "in persistent memory",
            Side::Ssd => "on the SSD",
        }
    }

    fn system(self) -> &'static System {
        match self {
            Side::Pm => &PMBLADE_PM,
            Side::Ssd => &PMBLADE_SSD,
        }
    }

    /// Merges level 0.
    fn compact(self, db: &Db) -> Result<()> {
        match self {
            Side::Pm => db.compact_level0(),
            Side::Ssd => db.compact::<&[u8]>(..),
        }
    }
}

/// How level 0 is filled.
#[derive(Debug, Clone, Copy)]
struct Filling {
    mib: u64,
    runs: u64,
    value_bytes: usize,
}

impl Filling {
    /// Entries that are written.
    fn entries(&self) -> u64 {
        let entry = (KEY_BYTES + self.value_bytes) as u64;
        ((self.mib << 20) / entry).next_multiple_of(self.runs)
    }

    fn user_bytes(&self) -> u64 {
        self.entries() * (KEY_BYTES + self.value_bytes) as u64
    }

    /// Four times as much persistent memory, as in the paper's 80 GB for 20, so that all of it stays in level 0's share
    /// beside what it becomes: tables that are as wide as all keys go when the last part of them is merged. DRAM is half of
    /// what is written.
    fn size(&self, keys: u64) -> Size {
        Size {
            pm: self.mib << 22,
            dram: (self.mib << 19).max(32 << 20),
            keys,
            value_bytes: self.value_bytes,
        }
    }

    /// A store whose level 0 has that many runs; `index` gives the keys.
    fn fill(
        &self,
        trial: &Trial,
        setting: &Setting,
        side: Side,
        mut index: impl FnMut(u64) -> u64,
    ) -> Result<Db> {
        let db = trial.open(setting)?;
        let mut writer = Writer::new(&trial.size);
        let each = self.entries() / self.runs;
        for run in 0..self.runs {
            let entries = run * each..(run + 1) * each;
            writer.put_run(&db, entries.map(&mut index))?;
        }
        check(&db, side, self.runs)?;
        Ok(db)
    }
}

/// Whether level 0 has so many runs, all of them on one side: or else what is measured would be something else.
fn check(db: &Db, side: Side, runs: u64) -> Result<()> {
    let found = db.metrics().levels.first().map_or(0, |level| level.runs);
    let tables = db.map().into_iter().flat_map(|family| family.tables);
    let mut level0 = tables.filter(|table| table.level == 0);
    if found != runs || !level0.all(|table| table.in_pm == (side == Side::Pm)) {
        return Err(Error::OutOfSpace(format!(
            "level 0 has {found} runs and not {runs}, or not all of them {}",
            side.name()
        )));
    }
    Ok(())
}
