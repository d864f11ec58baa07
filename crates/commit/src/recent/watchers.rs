//! Watchers and their moments: in parts, so that threads that begin to watch and end do not meet.

use thermocline_base::counter::thread_number;
use thermocline_base::{Line, SeqNo};

use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, lock};

const PARTS: usize = 16;

/// That somebody watches from a moment on. Given back by [`super::Recent::leave`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "changes are noted for it until it is given back"]
pub struct Watching {
    /// The moment.
    pub floor: SeqNo,
    part: usize,
    place: usize,
}

#[derive(Debug, Default)]
struct Part {
    /// The moments of those who watch; `None` where nobody has the place.
    floors: Vec<Option<u64>>,
    free: Vec<usize>,
    /// Whether somebody has begun since this was asked last.
    begun: bool,
}

impl Part {
    fn is_empty(&self) -> bool {
        self.floors.len() == self.free.len()
    }
}

/// The watchers of a store.
#[derive(Debug)]
pub(super) struct Watchers {
    parts: Box<[Line<Mutex<Part>>]>,
    /// The first moment that the last look found. Relaxed, as `sooner`: an end that misses it is found at the next
    /// look.
    held: AtomicU64,
    /// Whether a watcher from that moment, or an earlier one, has ended since.
    sooner: AtomicBool,
}

impl Default for Watchers {
    fn default() -> Watchers {
        Watchers {
            parts: (0..PARTS).map(|_| Line::default()).collect(),
            held: AtomicU64::new(0),
            sooner: AtomicBool::new(false),
        }
    }
}

impl Watchers {
    /// One more watches, from the moment that `floor` gives under the part's lock, if it gives one.
    pub fn begin(&self, floor: impl FnOnce() -> Option<u64>) -> Option<Watching> {
        let part = thread_number() % PARTS;
        let mut own = lock(&self.parts[part]);
        let floor = floor()?;
        own.begun = true;
        let place = own.free.pop().unwrap_or(own.floors.len());
        match own.floors.get_mut(place) {
            Some(free) => *free = Some(floor),
            None => own.floors.push(Some(floor)),
        }
        Some(Watching {
            floor: SeqNo(floor),
            part,
            place,
        })
    }

    /// It watches no longer.
    pub fn end(&self, watching: &Watching) {
        let mut own = lock(&self.parts[watching.part]);
        own.floors[watching.place] = None;
        own.free.push(watching.place);
        if own.is_empty() {
            // The memory of many is not kept.
            own.floors.clear();
            own.free.clear();
            own.floors.shrink_to(PARTS);
            own.free.shrink_to(PARTS);
        }
        drop(own);
        if watching.floor.0 <= self.held.load(Ordering::Relaxed) {
            self.sooner.store(true, Ordering::Relaxed);
        }
    }

    /// Whether [`Watchers::first`] may find a later moment than it found.
    pub fn may_have_moved(&self) -> bool {
        self.sooner.load(Ordering::Relaxed)
    }

    /// The first moment that somebody watches from; `none` if there is none. Watchers that are about to begin do not
    /// count.
    pub fn first(&self, none: u64) -> u64 {
        self.sooner.store(false, Ordering::Relaxed);
        let first = |part: &Line<Mutex<Part>>| lock(part).floors.iter().flatten().min().copied();
        let first = self.parts.iter().filter_map(first).min().unwrap_or(none);
        self.held.store(first, Ordering::Relaxed);
        first
    }

    /// Calls `stop` if nobody watches, and nobody has begun to since this was asked last. Nobody begins meanwhile.
    pub fn stop_if_idle(&self, stop: impl FnOnce()) -> bool {
        let mut all: Vec<MutexGuard<'_, Part>> = self.parts.iter().map(|part| lock(part)).collect();
        let idle = all.iter().all(|part| part.is_empty() && !part.begun);
        all.iter_mut().for_each(|part| part.begun = false);
        if idle {
            stop();
        }
        idle
    }
}
