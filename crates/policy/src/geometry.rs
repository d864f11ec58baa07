//! How levels should be: the sizes that pickers and cutters are given, derived from what users set.

use thermocline_base::options::Options;
use thermocline_base::size::index;

use crate::pick::PickOptions;
use crate::tuning::{
    GRANDPARENT_TABLES, INTERNAL_PARTS, JOB_TABLES, LEVEL0_PM_RUNS, TABLE_MIN_PARTS,
    TABLE_MIN_PARTS_PARTITION, TABLE_MIN_PARTS_PM, TABLE_MIN_QUARTERS,
};

/// What the levels of a store follow from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// The deepest level that options ask for.
    pub levels: usize,
    /// Tables of level 0 in files that a read may have to ask.
    pub level0_tables: usize,
    /// How much larger each level may be than the one above it.
    pub multiplier: u64,
    /// Whether the last level's size decides about those of the others.
    pub dynamic: bool,
    /// The size at which a table is ended.
    pub table_bytes: u64,
    /// Bytes of the base level, and of level 0 in files.
    pub base_bytes: u64,
    /// A memtable's bytes, beside tables.
    pub memtable_bytes: u64,
    /// Most bytes of persistent memory that tables there may take, if some of level 0 is to lie there.
    pub pm_bytes_max: Option<u64>,
    /// Whether all that is flushed is to lie there.
    pub in_pm: bool,
    /// Whether tables in files end where partitions begin, in level 0, too, and at prefixes.
    pub cuts: bool,
}

impl Geometry {
    /// That of a store with these options.
    pub fn of(options: &Options) -> Geometry {
        let of = &options.compaction;
        Geometry {
            // At most 7.
            levels: index(of.levels),
            level0_tables: index(of.level0_tables),
            multiplier: of.multiplier,
            dynamic: of.dynamic,
            table_bytes: options.table_bytes(),
            base_bytes: options.base_bytes(),
            memtable_bytes: options.memtable_bytes_beside(true),
            pm_bytes_max: options.level0_pm_bytes(),
            in_pm: options.level0.shape().keeps_tables_in_pm(),
            cuts: options.partition.cuts,
        }
    }
}

/// What a family has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Has {
    /// The deepest level that has tables.
    pub deepest: usize,
    /// Its bytes of level 0 in persistent memory.
    pub level0_pm_bytes: u64,
    /// Persistent memory of tables to which any family refers.
    pub pm_bytes: u64,
}

impl Geometry {
    /// What its picker is given.
    pub fn pick_options(&self, has: &Has) -> PickOptions {
        PickOptions {
            last_level: self.levels.max(has.deepest),
            level0_tables: self.level0_tables,
            level0_bytes: self.base_bytes,
            level0_pm_tables: self.pm_tables_max(),
            level0_pm_bytes: self.pm_bytes_due(has),
            base_bytes: self.base_bytes,
            multiplier: self.multiplier,
            dynamic: self.dynamic,
            job_bytes_max: self.job_bytes_max(),
            bytes_max: Some(u64::MAX),
            grandparent_bytes_max: self.grandparent_bytes_max(),
            is_filtered: false,
            expired: None,
        }
    }

    /// Tables in persistent memory that a read may have to ask before they are compacted; if as many in files may be more, so
    /// many.
    pub fn pm_tables_max(&self) -> usize {
        self.level0_tables.max(LEVEL0_PM_RUNS)
    }

    /// Bytes in persistent memory that level 0 of a family may have, beside what jobs take already: whatever
    /// it has, as long as all families together have no more than their share of it; and from then on so
    /// much less as is too much. A table goes when the last of its families has left it, so it is all of
    /// them that must give way, one after the other. A store whose level 0 is not to lie there any more
    /// brings down what does.
    fn pm_bytes_due(&self, has: &Has) -> u64 {
        let share = self.pm_bytes_max.unwrap_or(0);
        let room = share.saturating_add(1).saturating_add(has.level0_pm_bytes);
        room.saturating_sub(has.pm_bytes).max(1)
    }

    /// Whether tables in persistent memory take more than the share of level 0.
    pub fn is_past_share(&self, pm_bytes: u64) -> bool {
        pm_bytes > self.pm_bytes_max.unwrap_or(0)
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

    /// Most bytes that a job takes beyond what it must.
    pub fn job_bytes_max(&self) -> u64 {
        self.table_bytes.saturating_mul(JOB_TABLES)
    }

    /// Bytes of the largest two levels below that a table overlaps, where it can be cut.
    pub fn grandparent_bytes_max(&self) -> u64 {
        self.table_bytes.saturating_mul(GRANDPARENT_TABLES)
    }

    /// From how many bytes on a table of a flush ends where level 0 has slices, or else where tables of the next level begin: not
    /// too far from full. Where jobs have to be `small` it ends at all of these places, so that none holds two slices together.
    pub fn flush_table_min(&self, level0_is_empty: bool, small: bool) -> u64 {
        match level0_is_empty {
            _ if small => 0,
            // Slices that are merged, or leave, one by one, are of other sizes than what is flushed: where its tables
            // reach over their ends, all slices would become one.
            false if self.level0_ends_at_partitions() => self.table_bytes / TABLE_MIN_PARTS_PM,
            false => self.table_bytes / TABLE_MIN_PARTS,
            true => self.first_table_min(),
        }
    }

    /// Likewise where nothing else will lie where its tables do: as those of a first flush.
    pub fn first_table_min(&self) -> u64 {
        self.table_bytes / 4 * TABLE_MIN_QUARTERS
    }

    /// Likewise, within a gap of level 0.
    pub fn table_min(&self) -> u64 {
        self.table_bytes / TABLE_MIN_PARTS
    }

    /// Whether tables of level 0 end where partitions begin, and where slices do. In persistent memory: so what is decided of a
    /// slice is decided of few partitions (PM-Blade §IV). In files where [`Geometry::cuts`] says so: so what a dropped
    /// partition had lies in tables of its own (TridentKV §3.3).
    pub fn level0_ends_at_partitions(&self) -> bool {
        self.in_pm || self.cuts
    }

    /// Likewise, in level 0, where partitions begin, and tables elsewhere end from `bytes_min` on. `None` if they do not.
    pub fn partition_table_min(&self, bytes_min: u64) -> Option<u64> {
        let ends = self.level0_ends_at_partitions() && bytes_min > 0;
        ends.then_some(self.table_bytes / TABLE_MIN_PARTS_PARTITION)
    }

    /// Likewise, below level 0.
    pub fn sinking_table_min(&self) -> u64 {
        match self.cuts {
            true => self.table_bytes / TABLE_MIN_PARTS_PARTITION,
            false => self.table_min(),
        }
    }

    /// No table that a flush writes has fewer bytes, about, but for the last one of a range. (A rest is a table of its own where
    /// [`Geometry::cuts`] says so, but there are no more of them than of full ones: each two count as two of half as many bytes.)
    /// Where jobs have to be small tables may have as few as there are.
    pub fn table_bytes_min(&self) -> u64 {
        let parts = match (self.in_pm, self.cuts) {
            (true, _) => TABLE_MIN_PARTS_PM,
            (false, true) => 2 * TABLE_MIN_PARTS_PM,
            (false, false) => TABLE_MIN_PARTS,
        };
        (self.table_bytes / parts).max(1)
    }

    /// Runs that a read may have to ask of level 0, for delay: in files, and what is too much in persistent memory.
    pub fn runs_for_delay(&self, files: usize, pm: usize) -> usize {
        files + pm.saturating_sub(self.pm_tables_max())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn geometry() -> impl Strategy<Value = Geometry> {
        let sizes = (1u64..1 << 30, 1u64..1 << 40, 1u64..1 << 30);
        let counts = (1usize..8, 1usize..100, 2u64..20);
        let shape = (
            any::<bool>(),
            proptest::option::of(0u64..1 << 40),
            any::<bool>(),
            any::<bool>(),
        );
        (sizes, counts, shape).prop_map(|(sizes, counts, shape)| Geometry {
            levels: counts.0,
            level0_tables: counts.1,
            multiplier: counts.2,
            dynamic: shape.0,
            table_bytes: sizes.0,
            base_bytes: sizes.1,
            memtable_bytes: sizes.2,
            pm_bytes_max: shape.1,
            in_pm: shape.2,
            cuts: shape.3,
        })
    }

    proptest! {
        #[test]
        fn level_0_is_due_when_all_families_have_too_much(geometry in geometry(), own in 0u64..1 << 40, others in 0u64..1 << 40) {
            let has = Has { deepest: 3, level0_pm_bytes: own, pm_bytes: own + others };
            let due = geometry.pick_options(&has).level0_pm_bytes;
            let past = geometry.is_past_share(has.pm_bytes);
            prop_assert_eq!(own >= due && own > 0, past && own > 0);
            prop_assert!(geometry.pick_options(&has).last_level >= 3);
        }

        #[test]
        fn tables_end_no_later_than_when_they_are_full(geometry in geometry(), empty in any::<bool>()) {
            let min = geometry.flush_table_min(empty, false);
            prop_assert!(min <= geometry.table_bytes);
            prop_assert!(geometry.table_bytes_min() <= min.max(1));
            prop_assert!(geometry.partition_table_min(min).is_none_or(|bytes| geometry.table_bytes_min() <= bytes.max(1)));
            prop_assert!(geometry.table_bytes_min() <= geometry.sinking_table_min().max(1));
            prop_assert!(geometry.partition_table_min(min).is_none_or(|bytes| bytes <= geometry.table_bytes));
            prop_assert!(geometry.sinking_table_min() <= geometry.table_min());
            prop_assert!(geometry.level0_ends_at_partitions() || geometry.partition_table_min(min).is_none());
            prop_assert_eq!(geometry.flush_table_min(empty, true), 0);
        }
    }
}
