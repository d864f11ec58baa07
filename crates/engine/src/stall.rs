//! Delay that the store's own work puts on writers: what workers do ahead of need, and a write had to
//! do or wait for.

use std::time::Duration;

use thermocline_base::sync::{AtomicU64, Ordering};

use thermocline_policy::pressure::Cause;

use crate::events::Event;
use crate::store::Inner;

/// Why a write was held up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StallCause {
    /// The region grew.
    Growth,
    /// The manifest had to name the next memtable generation.
    Generation,
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
    /// Too many commits waited for their callbacks.
    Callbacks,
}

impl StallCause {
    /// Every cause.
    pub const ALL: [StallCause; 8] = [
        StallCause::Growth,
        StallCause::Generation,
        StallCause::Flush,
        StallCause::PmFill,
        StallCause::Level0Tables,
        StallCause::PendingBytes,
        StallCause::DiskRoom,
        StallCause::Callbacks,
    ];

    /// Its name, as `stat` spells it.
    pub fn name(self) -> &'static str {
        match self {
            StallCause::Growth => "growth",
            StallCause::Generation => "generation",
            StallCause::Flush => "flush",
            StallCause::PmFill => Cause::PmFill.name(),
            StallCause::Level0Tables => Cause::Level0Tables.name(),
            StallCause::PendingBytes => Cause::PendingBytes.name(),
            StallCause::DiskRoom => Cause::DiskRoom.name(),
            StallCause::Callbacks => "callbacks",
        }
    }

    /// That of writers who are held back by what fills up.
    pub(crate) fn of_pressure(cause: Cause) -> StallCause {
        match cause {
            Cause::Level0Tables => StallCause::Level0Tables,
            Cause::PendingBytes => StallCause::PendingBytes,
            Cause::DiskRoom => StallCause::DiskRoom,
            _ => StallCause::PmFill,
        }
    }
}

/// The delay by one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StallUse {
    /// Writes that were held up.
    pub count: u64,
    /// In all, in nanoseconds.
    pub nanos: u64,
    /// The longest, in nanoseconds.
    pub nanos_max: u64,
}

/// The delay by each cause. Relaxed: numbers to be read.
#[derive(Debug, Default)]
pub(crate) struct Stalls([Stall; StallCause::ALL.len()]);

#[derive(Debug, Default)]
struct Stall {
    count: AtomicU64,
    nanos: AtomicU64,
    nanos_max: AtomicU64,
}

impl Stalls {
    /// A write was held up for so long.
    pub fn note(&self, cause: StallCause, nanos: u64) {
        let stall = &self.0[cause as usize];
        stall.count.fetch_add(1, Ordering::Relaxed);
        stall.nanos.fetch_add(nanos, Ordering::Relaxed);
        stall.nanos_max.fetch_max(nanos, Ordering::Relaxed);
    }

    pub fn get(&self, cause: StallCause) -> StallUse {
        let stall = &self.0[cause as usize];
        StallUse {
            count: stall.count.load(Ordering::Relaxed),
            nanos: stall.nanos.load(Ordering::Relaxed),
            nanos_max: stall.nanos_max.load(Ordering::Relaxed),
        }
    }
}

impl Inner {
    /// Nanoseconds by the clock, for [`Inner::stalled`].
    pub fn now_ns(&self) -> u64 {
        self.world.env.clock.now_ns()
    }

    /// A write was held up since `begun`.
    pub fn stalled(&self, cause: StallCause, begun: u64) {
        let nanos = self.now_ns().saturating_sub(begun);
        self.stalls.note(cause, nanos);
        self.events.emit(Event::WriteStalled {
            cause,
            took: Duration::from_nanos(nanos),
        });
    }

    /// Tells if the region has grown since this was asked last.
    pub fn note_growth(&self) -> bool {
        let to_bytes = self.space.region_bytes();
        let from_bytes = self.region_seen.fetch_max(to_bytes, Ordering::Relaxed);
        let grown = to_bytes > from_bytes;
        if grown {
            self.events.emit(Event::RegionGrown {
                from_bytes,
                to_bytes,
            });
        }
        grown
    }
}
