//! A level 0 that is filled with runs, and the side on which it lies.

use thermocline::Db;
use thermocline_base::{Error, Result};

use crate::pm_blade::systems::{PMBLADE_PM, PMBLADE_SSD};
use crate::setting::Setting;
use crate::trial::{KEY_BYTES, Size, System, Trial, Writer};

/// Beside those of a system: nothing is compacted but by hand.
pub(super) const BY_HAND: [(&str, &str); 7] = [
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
pub(super) enum Side {
    Pm,
    Ssd,
}

impl Side {
    pub(super) const BOTH: [Side; 2] = [Side::Pm, Side::Ssd];

    pub(super) fn name(self) -> &'static str {
        match self {
            Side::Pm => "in persistent memory",
            Side::Ssd => "on the SSD",
        }
    }

    pub(super) fn system(self) -> &'static System {
        match self {
            Side::Pm => &PMBLADE_PM,
            Side::Ssd => &PMBLADE_SSD,
        }
    }

    /// Merges level 0.
    pub(super) fn compact(self, db: &Db) -> Result<()> {
        match self {
            Side::Pm => db.compact_level0(),
            Side::Ssd => db.compact::<&[u8]>(..),
        }
    }
}

/// How level 0 is filled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Filling {
    pub(super) mib: u64,
    pub(super) runs: u64,
    pub(super) value_bytes: usize,
}

impl Filling {
    /// Entries that are written.
    pub(super) fn entries(&self) -> u64 {
        let entry = (KEY_BYTES + self.value_bytes) as u64;
        ((self.mib << 20) / entry).next_multiple_of(self.runs)
    }

    pub(super) fn user_bytes(&self) -> u64 {
        self.entries() * (KEY_BYTES + self.value_bytes) as u64
    }

    /// Four times as much persistent memory, as in the paper's 80 GB for 20, so that all of it stays in level 0's share
    /// beside what it becomes: tables that are as wide as all keys go when the last part of them is merged. DRAM is half of
    /// what is written.
    pub(super) fn size(&self, keys: u64) -> Size {
        Size {
            pm: self.mib << 22,
            dram: (self.mib << 19).max(32 << 20),
            keys,
            value_bytes: self.value_bytes,
        }
    }

    /// A store whose level 0 has that many runs; `index` gives the keys.
    pub(super) fn fill(
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
            setting.goes_on()?;
            let entries = run * each..(run + 1) * each;
            writer.put_run(&db, entries.map(&mut index))?;
        }
        check(&db, side, self.runs)?;
        Ok(db)
    }
}

/// Whether level 0 has so many runs, all of them on one side: or else what is measured would be something else.
pub(super) fn check(db: &Db, side: Side, runs: u64) -> Result<()> {
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
