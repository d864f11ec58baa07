//! Values derived from options: those that `auto` and 0 stand for, and those that several options give together.

use crate::limits::MEMTABLES_MAX;
use crate::options::all::Options;
use crate::options::flat;
use crate::options::shape::Shape;
use crate::preset::Preset;

/// Smallest `dram`: one index node slab per memtable and the write buffers.
pub const DRAM_MIN: u64 = 1 << 20;
/// Largest `dram`: processes have no more addresses, and with presets `leveled` and `trident` as many are reserved.
pub const DRAM_MAX: u64 = 1 << 47;
/// Smallest `pm`: one part of the smallest size.
pub const PM_MIN: u64 = 256 << 10;
/// Largest `pm`: as many addresses are reserved, too.
pub const PM_MAX: u64 = 1 << 47;

impl Options {
    /// Sets what the preset leaves no choice about: presets `leveled` and `trident` have their level 0 on the SSD.
    pub fn settled(mut self) -> Options {
        if self.in_dram() {
            self.level0.shape = Some(Shape::Ssd);
        }
        self
    }

    /// Sets the shape of level 0 that `auto` stands for, on persistent memory or on a file that stands in for it.
    ///
    /// ```
    /// # use thermocline_base as thermocline;
    /// use thermocline::options::{Options, Shape};
    /// let options = Options::default();
    /// assert_eq!(options.clone().on_region(true).level0.shape(), Shape::Tiered);
    /// assert_eq!(options.on_region(false).level0.shape(), Shape::GlobalIndex);
    /// ```
    pub fn on_region(mut self, in_memory: bool) -> Options {
        let shape = match in_memory {
            true => Shape::Tiered,
            false => Shape::GlobalIndex,
        };
        self.level0.shape.get_or_insert(shape);
        self
    }

    /// Whether records are kept in DRAM, and made durable by a log.
    pub fn in_dram(&self) -> bool {
        match self.preset {
            Preset::Thermocline | Preset::GlobalIndex | Preset::PmBlade | Preset::FlatLsm => false,
            Preset::Leveled | Preset::Trident => true,
        }
    }

    /// Most bytes of memtables: `pm`, or a quarter of `dram` if memtables lie there; the rest is for indexes and
    /// caches.
    pub fn region_bytes_max(&self) -> u64 {
        match self.in_dram() {
            false => self.pm,
            true => (self.dram / 4).max(PM_MIN),
        }
    }

    /// The size at which a memtable is sealed, in bytes of its records as they lie. If memtables are flushed, it is at most
    /// a quarter of what they all may have: the rest takes writes meanwhile. That is half of `pm` if most of it is for tables
    /// (shape `tiered`).
    pub fn memtable_bytes(&self) -> u64 {
        self.memtable_bytes_of(8)
    }

    /// The size at which a memtable is sealed while there are `tables` beside memtables in persistent memory, in
    /// bytes. With shape `tiered` it is half as much, unless `memtable.bytes_max` is set. The room that tables leave
    /// is shared by memtables that wait, that are being flushed and that take writes, and each of these counts in
    /// whole memtables.
    pub fn memtable_bytes_beside(&self, tables: bool) -> u64 {
        let tiered = self.level0.shape() == Shape::Tiered;
        self.memtable_bytes_of(if tables && tiered { 16 } else { 8 })
    }

    /// One part in so many of the room for memtables, if options do not set the size.
    fn memtable_bytes_of(&self, parts: u64) -> u64 {
        let tiered = self.level0.shape() == Shape::Tiered && !self.in_dram();
        let room = self.region_bytes_max() / if tiered { 2 } else { 1 };
        let bytes = match (self.memtable.bytes_max, self.in_dram()) {
            (0, false) if self.preset == Preset::FlatLsm => {
                (room / flat::MEMTABLES).clamp(64 << 10, 64 << 30)
            }
            (0, false) => {
                // A region has places for so many, and all of it is to be of use.
                let place = self.region_bytes_max() / u64::from(MEMTABLES_MAX);
                (room / parts).clamp(64 << 10, place.clamp(256 << 20, 64 << 30))
            }
            // One that takes writes, and others that are being flushed.
            (0, true) => (room / 4).clamp(32 << 10, 64 << 20),
            (bytes, _) => bytes,
        };
        match self.flush.automatic {
            false => bytes,
            true => bytes.min(room / 4),
        }
    }

    /// The size at which a table is ended, in bytes.
    pub fn table_bytes(&self) -> u64 {
        match self.compaction.table_bytes {
            0 => {
                let memtable = self.memtable_bytes_beside(true);
                let least = match self.level0.shape() {
                    // A table in persistent memory takes whole zones: a small one wastes half of them.
                    Shape::Tiered => memtable.min(16 << 20),
                    _ => 0,
                };
                // To make a file takes as long as to write some MiB.
                let least = least.max((self.region_bytes_max() / 16).min(4 << 20));
                (memtable / 4).max(least).clamp(2 << 20, 64 << 20)
            }
            bytes => bytes,
        }
    }

    /// Most bytes that tables of level 0 may take in persistent memory, if any are to lie there. These are all
    /// flushed tables, or with other shapes those of rewriting flushes
    /// ([`FlushOptions::rewrite_ratio`](crate::options::FlushOptions::rewrite_ratio)).
    pub fn level0_pm_bytes(&self) -> Option<u64> {
        match self.level0.shape() {
            _ if self.in_dram() => None,
            Shape::PmTables | Shape::Tiered => Some(self.pm / 100 * self.level0.pm_percent),
            Shape::Immutables | Shape::GlobalIndex => self.rewritten_bytes_max(),
            Shape::Ssd => None,
        }
    }

    /// The most that two flushes may rewrite and that both are merged into, unless that would be more than a third of
    /// what sealed memtables leave.
    fn rewritten_bytes_max(&self) -> Option<u64> {
        let sealed = self.pm / 100 * self.flush.pm_percent;
        match self.flush.rewrite_ratio {
            0 => None,
            ratio => Some((3 * (sealed / ratio)).min((self.pm - sealed) / 3)),
        }
    }

    /// Percent of persistent memory that sealed memtables may take before they are flushed; 0 if they are flushed as
    /// soon as they are sealed. With shape `tiered` it is what a flush takes, and what they may have at least. There
    /// must be room for the tables that exist, for those that the memtables become, for the memtables until all of
    /// these are named, and for writes meanwhile.
    pub fn sealed_percent(&self) -> u64 {
        match self.level0.shape() {
            Shape::Ssd | Shape::PmTables => 0,
            Shape::Immutables | Shape::GlobalIndex => self.flush.pm_percent,
            Shape::Tiered => {
                let left = 100 - self.level0.pm_percent;
                self.flush.pm_percent.min(left / 4)
            }
        }
    }

    /// Most bytes of persistent memory that a flush may write into tables there beyond what level 0 may have:
    /// about what it takes.
    pub fn flush_pm_bytes(&self) -> u64 {
        let sealed = self.pm / 100 * self.sealed_percent();
        sealed.max(2 * self.memtable_bytes_beside(true))
    }

    /// With level 0 in persistent memory: the size of the level into which it is compacted. About the share of level
    /// 0 leaves at once, with shape `tiered` half of it; it may be gathered in files first.
    fn pm_base_bytes(&self) -> u64 {
        let share = self.level0_pm_bytes().unwrap_or(0);
        let leaves = match self.level0.shape() {
            Shape::Tiered => share / 2,
            _ => share,
        };
        let level0 = leaves.saturating_mul(self.compaction.level0_tables);
        level0.max(4 * self.table_bytes())
    }

    /// The size of level 0, and of the level into which it is compacted, in bytes.
    pub fn base_bytes(&self) -> u64 {
        match self.compaction.base_bytes {
            0 if self.preset == Preset::FlatLsm => {
                let level1 = (self.pm / 3).saturating_mul(flat::LEVEL1_THIRDS);
                level1.max(4 * self.table_bytes())
            }
            0 => {
                // A flush takes all sealed memtables together.
                let flush = match self.flush.automatic {
                    false => self.memtable_bytes(),
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
