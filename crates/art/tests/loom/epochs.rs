//! Epochs: a block is released only when nobody can look at it any more.
//!
//! A block is one atomic, so that loom sees who looked at it when. Releasing it is an access that
//! loom lets happen only after all others, in the memory model's order; afterwards it holds poison.
//!
//! Seen to fail without the fence of `pin` or that of `collect`; with a slot's clearing or its reading
//! relaxed; with a relaxed raising of the epoch; when a collection does not look at slots, or takes
//! the reader's own epoch for a later one; when slot blocks are linked by a plain store, or linked or
//! read relaxed. (The load of the epoch in `pin` may be relaxed: the fence after it acquires.)

use std::ptr::NonNull;
use std::sync::Arc;

use crate::check;
use crate::epoch::{Domain, Guard, SLOTS};
use crate::memory::NodeMemory;
use crate::slab::Slab;
use crate::sync::{AtomicPtr, AtomicU64, Ordering, thread};

/// The size of a block: that of the smallest node, whose words the memory checks.
const BYTES: usize = crate::node::BYTES[0];

type Block = [AtomicU64; BYTES / size_of::<AtomicU64>()];

/// One place that holds a block; who replaces it retires what was there.
struct Place {
    domain: Domain,
    memory: Slab,
    block: AtomicPtr<Block>,
}

impl Place {
    fn new() -> Place {
        let place = Place {
            domain: Domain::new(),
            memory: Slab::new(),
            block: AtomicPtr::new(std::ptr::null_mut()),
        };
        let first = place.fresh(1);
        place.block.store(first.as_ptr(), Ordering::Release);
        place
    }

    fn fresh(&self, value: u64) -> NonNull<Block> {
        let block = self.memory.allocate(BYTES).unwrap().cast();
        // SAFETY: the block is ours and of this size.
        unsafe { block.write(std::array::from_fn(|_| AtomicU64::new(value))) };
        block
    }

    /// What the block holds that is there now.
    fn look(&self, _guard: &Guard<'_>) -> u64 {
        let block = self.block.load(Ordering::Acquire);
        // SAFETY: what the model is about; the memory notices if it is not so.
        unsafe { (*block)[0].load(Ordering::Relaxed) }
    }

    /// Puts a new block there and retires the old one.
    fn replace(&self, value: u64) {
        let _guard = self.domain.pin();
        self.swap(value);
    }

    /// As `replace`, where nobody else does, and collects.
    fn replace_unpinned(&self, value: u64) {
        self.swap(value);
        self.collect();
    }

    fn swap(&self, value: u64) {
        let new = self.fresh(value);
        let old = self.block.swap(new.as_ptr(), Ordering::AcqRel);
        let old = NonNull::new(old).unwrap();
        // SAFETY: E3: this thread took it out.
        unsafe { self.domain.retire(old.cast(), BYTES, &self.memory) };
    }

    fn collect(&self) {
        self.domain.collect(&self.memory);
    }
}

fn spawn(place: &Arc<Place>, f: impl FnOnce(&Place) + 'static) -> thread::JoinHandle<()> {
    let place = Arc::clone(place);
    thread::spawn(move || f(&place))
}

#[test]
fn nothing_is_released_under_a_guard() {
    check("epochs, a writer and two readers", 3, || {
        let place = Arc::new(Place::new());
        let writer = spawn(&place, |place| {
            place.replace(2);
            place.collect();
        });
        let reader = spawn(&place, |place| {
            let guard = place.domain.pin();
            assert!((1..=2).contains(&place.look(&guard)));
        });
        for _ in 0..2 {
            let guard = place.domain.pin();
            let first = place.look(&guard);
            assert!((first..=2).contains(&place.look(&guard)));
        }
        writer.join().unwrap();
        reader.join().unwrap();
        place.collect();
        assert_eq!(place.memory.given_out(), 1);
    });
}

#[test]
fn two_writers_retire_and_collect() {
    check("epochs, two writers and a reader", 3, || {
        let place = Arc::new(Place::new());
        let writers = [1, 2].map(|number| {
            spawn(&place, move |place| {
                place.replace(1 + number as u64);
                place.collect();
            })
        });
        let guard = place.domain.pin();
        assert!((1..=3).contains(&place.look(&guard)));
        drop(guard);
        writers
            .into_iter()
            .for_each(|writer| writer.join().unwrap());
        place.collect();
        assert_eq!(place.memory.given_out(), 1);
    });
}

#[test]
fn guards_beyond_the_slots_protect_too() {
    check("epochs, more guards than slots", 3, || {
        let place = Arc::new(Place::new());
        let taken: Vec<_> = (0..SLOTS).map(|_| place.domain.pin()).collect();
        let reader = spawn(&place, |place| {
            let beyond = place.domain.pin();
            assert!((1..=2).contains(&place.look(&beyond)));
        });
        drop(taken);
        place.replace_unpinned(2);
        reader.join().unwrap();
        place.collect();
        assert_eq!(place.memory.given_out(), 1);
    });
}

/// Two readers where `free` slots are left until others give theirs back, beside one who replaces what they
/// read.
fn two_readers_where_slots_are_few(free: usize) {
    let place = Arc::new(Place::new());
    let taken: Vec<_> = (free..SLOTS).map(|_| place.domain.pin()).collect();
    let readers = [(); 2].map(|()| {
        spawn(&place, |place| {
            let guard = place.domain.pin();
            assert!((1..=2).contains(&place.look(&guard)));
        })
    });
    drop(taken);
    place.replace_unpinned(2);
    readers
        .into_iter()
        .for_each(|reader| reader.join().unwrap());
    assert!(place.domain.all().count() <= 2 * SLOTS);
    assert_eq!(place.domain.oldest(), u64::MAX);
}

#[test]
fn two_threads_want_the_last_slot() {
    check("epochs, one slot for two", 3, || {
        two_readers_where_slots_are_few(1);
    });
}

#[test]
fn two_threads_add_slots_at_once() {
    check("epochs, two add slots", 3, || {
        two_readers_where_slots_are_few(0);
    });
}
