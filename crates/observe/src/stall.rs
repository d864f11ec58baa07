//! Delay that the store's own work puts on writers: what workers do ahead of need, and a write had to
//! do or wait for.

use std::sync::Arc;
use std::time::Duration;

use thermocline_base::sync::{AtomicU64, Ordering};

use thermocline_env::Clock;
use thermocline_policy::pressure::Cause;

use crate::event::Event;
use crate::events::Events;

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
    pub fn of_pressure(cause: Cause) -> StallCause {
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

/// The delay of a store's writers, by cause, and who is told. Relaxed: numbers to be read.
pub struct Stalls {
    clock: Arc<dyn Clock>,
    events: Arc<Events>,
    causes: [Stall; StallCause::ALL.len()],
}

#[derive(Debug, Default)]
struct Stall {
    count: AtomicU64,
    nanos: AtomicU64,
    nanos_max: AtomicU64,
}

impl Stalls {
    /// No delay yet. It is measured by `clock`, and `events` are told.
    pub fn new(clock: Arc<dyn Clock>, events: Arc<Events>) -> Stalls {
        Stalls {
            clock,
            events,
            causes: Default::default(),
        }
    }

    /// A write was held up since `begun`, in nanoseconds by the clock.
    pub fn held_up(&self, cause: StallCause, begun: u64) {
        let nanos = self.clock.now_ns().saturating_sub(begun);
        self.note(cause, nanos);
        self.events.emit(Event::WriteStalled {
            cause,
            took: Duration::from_nanos(nanos),
        });
    }

    /// A write was held up for so long. Nobody is told: so short a time is one of many.
    pub fn note(&self, cause: StallCause, nanos: u64) {
        let stall = &self.causes[cause as usize];
        stall.count.fetch_add(1, Ordering::Relaxed);
        stall.nanos.fetch_add(nanos, Ordering::Relaxed);
        stall.nanos_max.fetch_max(nanos, Ordering::Relaxed);
    }

    /// The delay by this cause so far.
    pub fn get(&self, cause: StallCause) -> StallUse {
        let stall = &self.causes[cause as usize];
        StallUse {
            count: stall.count.load(Ordering::Relaxed),
            nanos: stall.nanos.load(Ordering::Relaxed),
            nanos_max: stall.nanos_max.load(Ordering::Relaxed),
        }
    }
}

impl std::fmt::Debug for Stalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.causes.fmt(f)
    }
}
