//! In which order events are delivered.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use thermocline_policy::tuning::EVENTS_WAITING_MAX;
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber, span};

use super::*;

/// Keeps the calls until somebody makes them. When it is asked for the first of them, another thread comes by: it emits, and asks
/// for its own before that is noted.
#[derive(Default)]
struct Late {
    asked: AtomicUsize,
    events: OnceLock<std::sync::Weak<Events>>,
    calls: Mutex<Vec<Call>>,
}

impl Courier for Late {
    fn run(&self, call: Call) {
        if self.asked.fetch_add(1, Ordering::Relaxed) == 0 {
            let events = self.events.get().and_then(std::sync::Weak::upgrade);
            events.expect("it is set").emit(Event::WritesResumed);
        }
        lock(&self.calls).push(call);
    }
}

type Notes = Arc<Mutex<Vec<Event>>>;

/// Events of which this courier tells a listener, and what that was told.
fn noted(late: &Arc<Late>) -> (Arc<Events>, Notes) {
    let notes = Notes::default();
    let told = notes.clone();
    let listener = Arc::new(move |event: &Event| lock(&told).push(event.clone()));
    let events = Events::new(Path::new("/db"), Some(listener), late.clone());
    (Arc::new(events), notes)
}

/// Makes the calls that it has kept.
fn make_calls(late: &Late) {
    let calls = std::mem::take(&mut *lock(&late.calls));
    calls.into_iter().for_each(|call| call());
}

/// Had each call its own event, the second one would be told first: that writes go on, and then that they are refused.
#[test]
fn events_are_told_in_the_order_in_which_they_were_emitted() {
    let late = Arc::new(Late::default());
    let (events, notes) = noted(&late);
    late.events.set(Arc::downgrade(&events)).unwrap();
    let cause = || "full".to_string();
    events.emit(Event::WritesRefused { cause: cause() });
    assert_eq!(events.usage(), (2, 0));
    make_calls(&late);
    let told = lock(&notes).clone();
    assert_eq!(
        told,
        [
            Event::WritesRefused { cause: cause() },
            Event::WritesResumed
        ]
    );
    assert_eq!(events.usage(), (0, 0));
}

/// One is told for each call, and what was dropped where it is missing.
#[test]
fn what_was_dropped_is_told_in_its_place() {
    let late = Arc::new(Late::default());
    late.asked.store(1, Ordering::Relaxed);
    let (events, notes) = noted(&late);
    for _ in 0..EVENTS_WAITING_MAX + 3 {
        events.emit(Event::WritesResumed);
    }
    events.emit(Event::Closed { error: None });
    events.emit(Event::WritesResumed);
    assert_eq!(events.usage(), (EVENTS_WAITING_MAX + 1, 4));
    make_calls(&late);
    let told = lock(&notes).clone();
    let lost = |events| Event::EventsLost { events };
    let end = [lost(3), Event::Closed { error: None }, lost(1)];
    assert_eq!(told[told.len() - end.len()..], end);
    assert_eq!(told.len() as u64, EVENTS_WAITING_MAX + 3);
    assert_eq!(events.usage(), (0, 4));
}

/// Behind the end of a store there is no further event with which it could be told.
#[test]
fn what_was_dropped_is_told_to_a_listener_that_panics() {
    let late = Arc::new(Late::default());
    late.asked.store(1, Ordering::Relaxed);
    let notes = Notes::default();
    let told = notes.clone();
    let listener = Arc::new(move |event: &Event| {
        lock(&told).push(event.clone());
        assert!(!matches!(event, Event::Closed { .. }), "planned");
    });
    let events = Events::new(Path::new("/db"), Some(listener), late.clone());
    for _ in 0..EVENTS_WAITING_MAX {
        events.emit(Event::WritesResumed);
    }
    events.emit(Event::Closed { error: None });
    events.emit(Event::WritesResumed);
    let calls = std::mem::take(&mut *lock(&late.calls));
    let panics = calls
        .into_iter()
        .filter_map(|call| catch_unwind(AssertUnwindSafe(call)).err());
    assert_eq!(panics.count(), 1);
    let told = lock(&notes).last().cloned();
    assert_eq!(told, Some(Event::EventsLost { events: 1 }));
}

/// Is told nothing, and does this whenever it is asked whether it wants something.
struct Asked<F>(F);

impl<F: Fn() + Send + Sync + 'static> Subscriber for Asked<F> {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        (self.0)();
        false
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// While a thread finds out who listens, another one comes by, whose write is taken. Had the refusal been noted before that, the
/// last that is told would be that writes are refused.
#[test]
fn the_last_that_is_told_of_refusals_is_what_holds() {
    let late = Arc::new(Late::default());
    late.asked.store(1, Ordering::Relaxed);
    let (events, notes) = noted(&late);
    let came = Arc::new(AtomicBool::new(false));
    let other = {
        let (events, came) = (events.clone(), came.clone());
        move || {
            if !came.swap(true, Ordering::Relaxed) {
                events.accepted(10);
            }
        }
    };
    // Of a subscriber that is the only one `tracing` may ask the thread of another test whether it is there.
    let _second = Dispatch::new(Asked(|| ()));
    dispatcher::with_default(&Dispatch::new(Asked(other)), || {
        events.refused(10, &Error::OutOfSpace("full".to_string()));
    });
    assert!(came.load(Ordering::Relaxed));
    events.accepted(10);
    make_calls(&late);
    let told = lock(&notes).clone();
    let cause = "full".to_string();
    assert_eq!(told, [Event::WritesRefused { cause }, Event::WritesResumed]);
}
