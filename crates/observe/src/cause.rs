//! Why writes are held up.

use thermocline_policy::pressure::Cause;

/// Why a write was held up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StallCause {
    /// The region grew.
    Growth,
    /// The manifest had to name the next memtable.
    Memtable,
    /// There was no room: something had to be flushed.
    Flush,
    /// Held back, since persistent memory fills faster than it is flushed.
    PmFill,
    /// Held back, since level 0 has too many tables.
    Level0Tables,
    /// Held back, since too many bytes wait for compaction.
    PendingBytes,
    /// Held back, since the disk fills.
    DiskRoom,
    /// Held back, since blob files have nearly as much garbage as is allowed, or more.
    Garbage,
    /// Too many commits waited for their callbacks.
    Callbacks,
}

impl StallCause {
    /// Every cause.
    pub const ALL: [StallCause; 9] = [
        StallCause::Growth,
        StallCause::Memtable,
        StallCause::Flush,
        StallCause::PmFill,
        StallCause::Level0Tables,
        StallCause::PendingBytes,
        StallCause::DiskRoom,
        StallCause::Garbage,
        StallCause::Callbacks,
    ];

    /// Its name, as `stat` spells it.
    pub fn name(self) -> &'static str {
        match self {
            StallCause::Growth => "growth",
            StallCause::Memtable => "memtable",
            StallCause::Flush => "flush",
            StallCause::PmFill => Cause::PmFill.name(),
            StallCause::Level0Tables => Cause::Level0Tables.name(),
            StallCause::PendingBytes => Cause::PendingBytes.name(),
            StallCause::DiskRoom => Cause::DiskRoom.name(),
            StallCause::Garbage => Cause::Garbage.name(),
            StallCause::Callbacks => "callbacks",
        }
    }

    /// That of writers who are held back by what fills up.
    pub fn of_pressure(cause: Cause) -> StallCause {
        match cause {
            Cause::Level0Tables => StallCause::Level0Tables,
            Cause::PendingBytes => StallCause::PendingBytes,
            Cause::DiskRoom => StallCause::DiskRoom,
            Cause::Garbage => StallCause::Garbage,
            _ => StallCause::PmFill,
        }
    }
}
