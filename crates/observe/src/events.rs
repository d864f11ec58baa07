//! What happens to a store, told to whoever listens.
//!
//! An event is emitted where it happens, under whatever locks, and delivered later, as a call of the
//! store ([`Courier`]): in the order in which events were emitted, one at a time, and under
//! no lock, so that a listener may use the store, be slow, and block. A store without threads delivers at the
//! end of the call in which they happened, and closing delivers what is left before it returns.
//!
//! The order is that of the queue, under one lock with the number of those that wait: a call delivers the oldest, whoever asked for
//! that call. Two threads that emit at once may ask for their calls the other way about.
//!
//! # What waits is bounded
//! While 4,096 events wait, further ones are dropped and counted, and the next that is taken, or
//! the end of those that wait, is preceded by [`Event::EventsLost`]: the gap is told where it is. That a
//! store was poisoned, or closed, is never dropped: each happens once. The newest are dropped, not the
//! oldest: whoever emits has no time, and may be under a lock, where nothing of a subscriber's may be dropped.
//!
//! The same events go to `tracing`, with the target `thermocline` and the store's folder as the field
//! `db`. Whether somebody listens is asked when an event is emitted, and it is delivered to whom the
//! emitting thread's events go, on whatever thread. Without a listener and a subscriber an event costs
//! what it takes to ask that.

mod trace;
mod waiting;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;

use thermocline_base::Error;
use thermocline_base::sync::{AtomicU64, Mutex, Ordering, lock};
use thermocline_policy::tuning::EVENTS_KEPT;
use tracing::{Dispatch, dispatcher};

use self::waiting::Waiting;
use crate::event::{Event, EventListener};

/// Something that is owed to the user.
pub type Call = Box<dyn FnOnce() + Send>;

/// Who makes the calls of a store.
pub trait Courier: Send + Sync {
    /// Makes `call` later, once, behind all calls before it. May be asked for under any lock.
    fn run(&self, call: Call);
}

/// The events of one store.
pub struct Events {
    db: Arc<Path>,
    listener: Option<Arc<dyn EventListener>>,
    courier: Arc<dyn Courier>,
    queue: Arc<Mutex<Queue>>,
    /// Bytes of the smallest write that was refused and not told to be taken again; `u64::MAX` if
    /// there is none. If somebody listens it changes under the lock of the queue, so that what is told comes in the order of
    /// its changes. Relaxed: it guards nothing.
    refused_bytes: AtomicU64,
}

impl Events {
    /// Those of the store in the folder `db`, which `listener` is told by `courier`.
    pub fn new(
        db: &Path,
        listener: Option<Arc<dyn EventListener>>,
        courier: Arc<dyn Courier>,
    ) -> Events {
        Events {
            db: db.into(),
            listener,
            courier,
            queue: Arc::default(),
            refused_bytes: AtomicU64::new(u64::MAX),
        }
    }

    /// Has `event` delivered. May be called under any lock.
    pub fn emit(&self, event: Event) {
        self.emit_if(event, || true);
    }

    /// As [`Events::emit`], if `happens` says so. That is called once; if somebody listens, under the lock under which the
    /// event gets its place among the others.
    fn emit_if(&self, event: Event, happens: impl FnOnce() -> bool) {
        let dispatch = event
            .is_traced()
            .then(|| dispatcher::get_default(Dispatch::clone));
        if dispatch.is_none() && self.listener.is_none() {
            happens();
            return;
        }
        let listens = Listens {
            db: self.db.clone(),
            listener: self.listener.clone(),
            dispatch,
        };
        // Not under the lock of the queue: a courier may make the call at once.
        let added = {
            let mut queue = lock(&self.queue);
            match happens() {
                true => queue.add(event, listens),
                false => 0,
            }
        };
        for _ in 0..added {
            let queue = self.queue.clone();
            self.courier.run(Box::new(move || deliver_oldest(&queue)));
        }
    }

    /// Events that wait, and those that were dropped.
    pub fn usage(&self) -> (u64, u64) {
        let queue = lock(&self.queue);
        (queue.waiting.events, queue.waiting.lost_ever)
    }

    /// A write of `bytes` bytes was not let through.
    #[cold]
    pub fn refused(&self, bytes: u64, error: &Error) {
        if let Error::OutOfSpace(cause) = error {
            let cause = cause.clone();
            self.emit_if(Event::WritesRefused { cause }, || {
                self.refused_bytes.fetch_min(bytes, Ordering::Relaxed) == u64::MAX
            });
        }
    }

    /// A write of `bytes` bytes that does not only delete was let through.
    #[inline]
    pub fn accepted(&self, bytes: u64) {
        if bytes >= self.refused_bytes.load(Ordering::Relaxed) {
            self.resumed();
        }
    }

    #[cold]
    fn resumed(&self) {
        self.emit_if(Event::WritesResumed, || {
            self.refused_bytes.swap(u64::MAX, Ordering::Relaxed) != u64::MAX
        });
    }
}

/// What waits to be delivered, oldest first. For each there is a call that was asked for, or is about to be.
#[derive(Default)]
struct Queue {
    waiting: Waiting,
    told: VecDeque<(Event, Listens)>,
}

impl Queue {
    /// Puts an event at the end, unless too many wait, and before it how many were dropped, if some were. Returns how many calls that
    /// takes.
    fn add(&mut self, event: Event, listens: Listens) -> usize {
        let Some(lost_before) = self.waiting.take(&event) else {
            return 0;
        };
        let before = self.told.len();
        if lost_before > 0 {
            let lost = Event::EventsLost {
                events: lost_before,
            };
            self.told.push_back((lost, listens.clone()));
        }
        self.told.push_back((event, listens));
        self.told.len() - before
    }

    /// Takes the oldest.
    fn take_oldest(&mut self) -> Option<(Event, Listens)> {
        let (event, listens) = self.told.pop_front()?;
        // That some were dropped is no event that waits.
        if !matches!(event, Event::EventsLost { .. }) {
            self.waiting.leave();
        }
        if self.told.is_empty() {
            self.told.shrink_to(EVENTS_KEPT);
        }
        Some((event, listens))
    }
}

/// A call of the store: delivers the oldest event that waits, and behind the last one how many were dropped since. A listener that
/// panics at the last one is told that first: perhaps there is no further event.
fn deliver_oldest(queue: &Mutex<Queue>) {
    let Some((event, listens)) = lock(queue).take_oldest() else {
        return;
    };
    let told = catch_unwind(AssertUnwindSafe(|| listens.tell(&event)));
    let events = lock(queue).waiting.lost_at_end();
    if events > 0 {
        listens.tell(&Event::EventsLost { events });
    }
    if let Err(panic) = told {
        resume_unwind(panic);
    }
}

/// Who is told an event.
#[derive(Clone)]
struct Listens {
    db: Arc<Path>,
    listener: Option<Arc<dyn EventListener>>,
    dispatch: Option<Dispatch>,
}

impl Listens {
    fn tell(&self, event: &Event) {
        if let Some(dispatch) = &self.dispatch {
            dispatcher::with_default(dispatch, || event.trace(&self.db));
        }
        if let Some(listener) = &self.listener {
            listener.event(event);
        }
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events")
            .field("db", &self.db)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
