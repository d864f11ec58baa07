//! Delay that the store's own work puts on writers: what workers do ahead of need, and a write had to
//! do or wait for.

use std::sync::Arc;
use std::time::Duration;

use thermocline_base::sync::{AtomicU64, Ordering};

use thermocline_env::Clock;

use crate::cause::StallCause;
use crate::event::Event;
use crate::events::Events;

/// The delay by one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StallUse {
    /// Writes that were held up.
    pub count: u64,
    /// In all, in nanoseconds.
    pub nanos: u64,
    /// The longest since the opening, or since [`Stalls::forget_longest`], in nanoseconds. Of sleeps it has what was asked for.
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
        self.add(cause, nanos, nanos);
        self.events.emit(Event::WriteStalled {
            cause,
            took: Duration::from_nanos(nanos),
        });
    }

    /// A write slept for so long, and was `asked` to for so long. A sleep ends late, by as much as the system lets others run
    /// meanwhile. That is part of the sum, and not of the longest delay: it says nothing of the engine. Nobody is told: so short a
    /// time is one of many.
    pub fn slept(&self, cause: StallCause, nanos: u64, asked: u64) {
        self.add(cause, nanos, nanos.min(asked));
    }

    fn add(&self, cause: StallCause, nanos: u64, longest: u64) {
        let stall = &self.causes[cause as usize];
        stall.count.fetch_add(1, Ordering::Relaxed);
        stall.nanos.fetch_add(nanos, Ordering::Relaxed);
        stall.nanos_max.fetch_max(longest, Ordering::Relaxed);
    }

    /// From now on the longest is one that comes later: the longest of a part of a run cannot be told from two readings. Number and
    /// sum go on.
    pub fn forget_longest(&self) {
        for stall in &self.causes {
            stall.nanos_max.store(0, Ordering::Relaxed);
        }
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use thermocline_env::simulated::SimClock;

    use super::*;
    use crate::events::{Call, Courier};

    /// Nobody listens, so that nothing is to be told.
    struct Nobody;

    impl Courier for Nobody {
        fn run(&self, _: Call) {
            panic!("an event that nobody is told");
        }
    }

    /// A load with a long delay, and then what is measured. Whoever keeps the longest of all tells that of the load for it.
    #[test]
    fn the_longest_delay_of_a_load_is_forgotten_and_its_sum_goes_on() {
        let events = Events::new(Path::new("/db"), None, Arc::new(Nobody));
        let stalls = Stalls::new(Arc::new(SimClock::new()), Arc::new(events));
        let of = |count, nanos, nanos_max| StallUse {
            count,
            nanos,
            nanos_max,
        };
        stalls.slept(StallCause::PmFill, 900, 900);
        stalls.slept(StallCause::Growth, 50, 50);
        assert_eq!(stalls.get(StallCause::PmFill), of(1, 900, 900));
        stalls.forget_longest();
        assert_eq!(stalls.get(StallCause::PmFill), of(1, 900, 0));
        assert_eq!(stalls.get(StallCause::Growth), of(1, 50, 0));
        stalls.slept(StallCause::PmFill, 7, 7);
        stalls.slept(StallCause::PmFill, 3, 3);
        assert_eq!(stalls.get(StallCause::PmFill), of(3, 910, 7));
        // One that ends late, and one that is ended early, as where a store is closed.
        stalls.slept(StallCause::PmFill, 40, 10);
        stalls.slept(StallCause::PmFill, 5, 100);
        assert_eq!(stalls.get(StallCause::PmFill), of(5, 955, 10));
    }
}
