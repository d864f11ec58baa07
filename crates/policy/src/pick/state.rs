//! What pickers are given and what they return: levels, what running jobs hold, and jobs.

use std::ops::{Range, RangeInclusive};

use thermocline_base::{KeyRange, SeqNo};

use super::levels::{Level, Table, Tables};
use crate::tuning::{
    BASE_BYTES, GRANDPARENT_BYTES, JOB_BYTES, LEVEL_MULTIPLIER, LEVEL0_PM_RUNS, LEVEL0_RUNS,
};

/// How levels are shaped and jobs are limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PickOptions {
    /// The deepest level, 1 or more.
    pub last_level: usize,
    /// Tables of level 0 in files that a read may have to ask ([`depth`](super::depth)) from which on they are compacted.
    pub level0_tables: usize,
    /// Bytes of those from which on they are compacted.
    pub level0_bytes: u64,
    /// As `level0_tables`, of tables in persistent memory.
    pub level0_pm_tables: usize,
    /// As `level0_bytes`, of tables in persistent memory.
    pub level0_pm_bytes: u64,
    /// Bytes that the base level may have.
    pub base_bytes: u64,
    /// How much larger each level may be than the one above it, 2 or more.
    pub multiplier: u64,
    /// Whether the last level's size decides about those of the others: each a `multiplier`th of
    /// the next one, and those unused that would be smaller than the base. So space amplification
    /// stays near `1 + 1 / multiplier` however full the store is. Otherwise level 1 is the base
    /// level.
    pub dynamic: bool,
    /// Bytes of inputs beyond which a job takes no table that it need not take.
    pub job_bytes_max: u64,
    /// Jobs of more bytes are passed over, but for those that only move tables; `None` if all others are.
    pub bytes_max: Option<u64>,
    /// Bytes of grandparents that a trivially moved table may overlap.
    pub grandparent_bytes_max: u64,
    /// Whether the family has a compaction filter: a range that is compacted by hand then has each of its tables
    /// written anew.
    pub is_filtered: bool,
    /// What of the family has expired, if it has a TTL and something has.
    pub expired: Option<Expired>,
}

/// What of a family has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired {
    /// Everything that has this seqno or a smaller one.
    pub up_to: SeqNo,
    /// Up to here somebody sees what there is, so that it stays.
    pub seen: Option<SeqNo>,
}

impl Expired {
    /// Whether something of a table may have expired.
    pub fn has_some(&self, table: &Table<'_>) -> bool {
        table.smallest_seqno <= self.up_to
    }

    /// Whether all of a table has expired, and nobody sees anything of it.
    pub fn has_all(&self, table: &Table<'_>) -> bool {
        let is_seen = self.seen.is_some_and(|seen| table.smallest_seqno <= seen);
        table.largest_seqno <= self.up_to && !is_seen
    }
}

impl Default for PickOptions {
    /// Level 0 of 4 runs or 256 MiB, a base of 256 MiB, levels ten times as large as the one
    /// above, sized by the last one, jobs of 1.6 GiB: RocksDB's defaults.
    fn default() -> PickOptions {
        PickOptions {
            last_level: 6,
            level0_tables: LEVEL0_RUNS,
            level0_bytes: BASE_BYTES,
            level0_pm_tables: LEVEL0_PM_RUNS,
            level0_pm_bytes: u64::MAX,
            base_bytes: BASE_BYTES,
            multiplier: LEVEL_MULTIPLIER,
            dynamic: true,
            job_bytes_max: JOB_BYTES,
            bytes_max: Some(u64::MAX),
            grandparent_bytes_max: GRANDPARENT_BYTES,
            is_filtered: false,
            expired: None,
        }
    }
}

/// What a running job holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The levels, from that of its inputs to that of its output.
    pub levels: RangeInclusive<usize>,
    /// The keys.
    pub range: KeyRange,
    /// The seqnos of what it takes of level 0; [`Held::ANY_AGE`] if it minds all that lies there.
    pub seqnos: RangeInclusive<SeqNo>,
    /// Whether what lies in persistent memory stays there.
    pub stays: bool,
    /// Whether no job runs there: a table is left alone.
    pub rests: bool,
}

impl Held {
    /// A table of this level that no job takes, and that stays as it is.
    pub fn resting(level: usize, table: &Table<'_>) -> Held {
        Held {
            levels: level..=level,
            range: table.range.owned(),
            seqnos: table.smallest_seqno..=table.largest_seqno,
            stays: false,
            rests: true,
        }
    }

    /// Of whatever is in level 0, or comes there.
    pub const ANY_AGE: RangeInclusive<SeqNo> = SeqNo(0)..=SeqNo::MAX;

    /// Whether it holds a key of `range` in one of `levels`.
    pub fn meets(
        &self,
        levels: &RangeInclusive<usize>,
        range: &KeyRange<impl AsRef<[u8]>>,
    ) -> bool {
        self.is_in(levels) && self.range.overlaps(range)
    }

    /// Whether it holds something in one of `levels`.
    fn is_in(&self, levels: &RangeInclusive<usize>) -> bool {
        levels.start() <= self.levels.end() && self.levels.start() <= levels.end()
    }

    /// Whether it may take a table of level 0. It takes no table whose entries are all newer than those of its inputs:
    /// such a table has come since it was picked. A job within level 0 takes no table that is older than all its
    /// inputs: it stays above those.
    pub fn may_take(&self, table: &Table<'_>) -> bool {
        let above = self.is_within_level0() && table.largest_seqno < *self.seqnos.start();
        self.levels.contains(&0)
            && table.smallest_seqno <= *self.seqnos.end()
            && !above
            && self.range.overlaps(&table.range)
    }

    pub(super) fn is_within_level0(&self) -> bool {
        self.levels == (0..=0)
    }

    /// Whether two jobs cannot run at the same time.
    pub fn collides(&self, other: &Held) -> bool {
        self.meets(&other.levels, &other.range) && !self.is_above(other) && !other.is_above(self)
    }

    /// Whether it changes nothing but what lies in level 0 above all that the other takes there.
    fn is_above(&self, other: &Held) -> bool {
        self.is_within_level0() && self.seqnos.start() > other.seqnos.end()
    }
}

/// The levels of one partition as of now, and the jobs that run there.
#[derive(Debug, Clone, Copy)]
pub struct State<'a> {
    /// The tables by level: of level 0 newest first, of others in key order. At most
    /// [`PickOptions::last_level`] and one more.
    pub levels: &'a dyn Tables,
    /// What running jobs hold, in any order.
    pub running: &'a [Held],
}

impl<'a> State<'a> {
    /// A level; one that is not there has no tables.
    pub fn level(&self, level: usize) -> Level<'a> {
        Level::new(self.levels, level)
    }

    /// The tables of level 0.
    pub fn level0(&self) -> &'a [Table<'a>] {
        self.levels.level0()
    }

    /// The levels from this one on.
    pub(crate) fn levels_from(&self, first: usize) -> impl Iterator<Item = Level<'a>> {
        let levels = self.levels;
        (first..levels.level_count()).map(move |level| Level::new(levels, level))
    }

    pub(super) fn bytes(&self, level: usize) -> u64 {
        self.level(level).bytes()
    }

    /// Of a level from 1 on, of the tables that no running job takes.
    pub(super) fn free_bytes(&self, level: usize) -> u64 {
        let tables = self.level(level);
        let held = self.held_places(level, &(level..=level));
        tables.bytes() - tables.bytes_at(held.into_iter().flatten())
    }

    /// The places in a level from 1 on of the tables that overlap what running jobs hold in one of `levels`: ranges that
    /// ascend and do not overlap.
    pub(super) fn held_places(
        &self,
        level: usize,
        levels: &RangeInclusive<usize>,
    ) -> Vec<Range<usize>> {
        let running = self.running.iter().filter(|held| held.is_in(levels));
        let places = running.map(|held| self.level(level).overlapped(&held.range.borrowed()));
        let mut places: Vec<Range<usize>> = places.collect();
        places.sort_unstable_by_key(|range| range.start);
        let mut behind = 0;
        for range in &mut places {
            range.start = range.start.max(behind);
            behind = behind.max(range.end);
        }
        places.retain(|range| !range.is_empty());
        places
    }

    /// Of level 0, of the tables that no running job takes: what lies in persistent memory, or in files.
    pub(super) fn level0_bytes(&self, in_pm: bool) -> u64 {
        let free = self.free_of_level0(in_pm);
        free.iter().map(|table| table.bytes).sum()
    }

    /// The tables of level 0 that no running job takes, and that lie in persistent memory, or in files.
    pub(super) fn free_of_level0(&self, in_pm: bool) -> Vec<Table<'a>> {
        let tables = self.level0().iter();
        let free = tables.filter(|table| table.in_pm == in_pm && !self.is_held(0, table));
        free.copied().collect()
    }

    /// Whether a running job may take this table of a level.
    pub(super) fn is_held(&self, level: usize, table: &Table<'_>) -> bool {
        self.running.iter().any(|held| match level {
            0 => held.may_take(table),
            _ => held.meets(&(level..=level), &table.range),
        })
    }
}

/// Of each level the key where the last job's inputs ended: the next one begins behind it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursors(Vec<Cursor>);

/// Where a job's inputs ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) key: Vec<u8>,
    /// Whether the key itself was not among them.
    pub(super) open: bool,
}

impl Cursor {
    /// Whether a table that begins at `first` is behind it.
    pub(super) fn has_passed(&self, first: &[u8]) -> bool {
        match self.open {
            true => first < &self.key[..],
            false => first <= &self.key[..],
        }
    }
}

impl Cursors {
    /// Notes that a job has been begun. Those that no level's size asked for leave the rounds alone.
    pub fn note(&mut self, job: &Job) {
        if !matches!(
            job.reason,
            Reason::Level0 | Reason::LevelSize | Reason::Spill
        ) {
            return;
        }
        if self.0.len() <= job.from {
            self.0.resize(job.from + 1, Cursor::default());
        }
        self.0[job.from].clone_from(&job.ends);
    }

    pub(super) fn of(&self, level: usize) -> Cursor {
        self.0.get(level).cloned().unwrap_or_default()
    }
}

/// Why a job was picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Level 0 is too deep or has too many bytes.
    Level0,
    /// The level is larger than its target.
    LevelSize,
    /// Somebody wants this range compacted.
    Manual,
    /// The table is often read in vain.
    Reads,
    /// The disk is full, and the tables have tombstones.
    Room,
    /// Level 0 is merged inside persistent memory.
    Internal,
    /// Tables of level 0 leave persistent memory for files of level 0.
    Spill,
    /// All that the tables have is deleted: they go unread.
    Deleted,
    /// Values move out of blob files that have much garbage, or are small and many.
    Garbage,
    /// All that the tables have has expired: they go unread.
    Expired,
    /// The tables have many deletes, beside what lies below.
    Tombstones,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 11] = [
        Reason::Level0,
        Reason::LevelSize,
        Reason::Manual,
        Reason::Reads,
        Reason::Room,
        Reason::Internal,
        Reason::Spill,
        Reason::Deleted,
        Reason::Garbage,
        Reason::Expired,
        Reason::Tombstones,
    ];

    /// Its name, as `explain` spells it.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Level0 => "level0",
            Reason::LevelSize => "level_size",
            Reason::Manual => "manual",
            Reason::Reads => "reads",
            Reason::Room => "room",
            Reason::Internal => "internal",
            Reason::Spill => "spill",
            Reason::Deleted => "deleted",
            Reason::Garbage => "garbage",
            Reason::Expired => "expired",
            Reason::Tombstones => "tombstones",
        }
    }
}

/// A job, ready to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Why.
    pub reason: Reason,
    /// The level of the inputs.
    pub from: usize,
    /// The level of the output. The same as `from` only for a rewrite, see [`pick_range`](super::pick_range), [`pick_read`](super::pick_read)
    /// and [`pick_room`](super::pick_room), for a merge inside level 0, see [`pick_internal`](super::pick_internal) and
    /// [`pick_spill`](super::pick_spill), for what moves out of blob files, see [`pick_garbage`](super::pick_garbage), and for what
    /// goes, see [`Expired::pick`] and [`DeletedRanges::pick`](super::DeletedRanges::pick).
    pub to: usize,
    /// The inputs, as places in level `from`, ascending: of level 0 the newest first.
    pub inputs: Vec<usize>,
    /// The tables that they overlap, as places in level `to`, ascending.
    pub overlapped: Vec<usize>,
    /// Bytes of all of them.
    pub bytes: u64,
    /// What it holds while it runs.
    pub holds: Held,
    /// Whether the inputs need only be moved.
    pub trivial: bool,
    /// Where the inputs end, for [`Cursors::note`].
    pub(super) ends: Cursor,
}

impl Job {
    /// Whether it merges inside persistent memory.
    pub fn is_internal(&self) -> bool {
        self.reason == Reason::Internal
    }

    /// Whether its inputs go unread, and nothing takes their place.
    pub fn is_drop(&self) -> bool {
        matches!(self.reason, Reason::Deleted | Reason::Expired)
    }

    /// Whether its outputs stand in level 0, where its inputs stood.
    pub fn is_within_level0(&self) -> bool {
        (self.from, self.to) == (0, 0)
    }
}
