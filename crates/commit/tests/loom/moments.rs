//! Reading the past: the version that a registered reader sees is kept, whoever writes meanwhile.
//!
//! Seen to fail on: no second look at `visible` after a slot was taken; groups in flight, or what is
//! visible, not asked; slots beyond `used`; a moment taken before `entered` is raised; the registry not
//! asked; of registrations that are held up, the flag not looked at, or looked at before the slot is taken, and the new shown
//! before who is registered is known. Not caught: a slot left without a release, since what is read here has a lock of its own.

use thermocline_art::Moments as _;
use thermocline_base::SeqNo;

use crate::check_sc;
use crate::readers::{Moments, Readers, Registration};
use crate::ring::Ring;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock, thread};

/// An index of one key, which every write changes: version `n` has seqno `n`, and is what a reader at
/// seqno `n` must find.
struct Store {
    ring: Ring,
    readers: Readers,
    /// Newest first, and under the lock of the key's place.
    versions: Mutex<Vec<u64>>,
}

impl Store {
    fn new() -> Arc<Store> {
        Arc::new(Store {
            ring: Ring::new(1, 4),
            readers: Readers::default(),
            versions: Mutex::new(vec![1]),
        })
    }

    /// Puts a version into the index, and trims the others as version lists are.
    fn insert(&self, seqno: u64) {
        let mut versions = lock(&self.versions);
        let moments = Moments::now(&self.ring, &self.readers);
        let newer = versions.iter().position(|&version| version < seqno);
        let at = newer.unwrap_or(versions.len());
        versions.insert(at, seqno);
        let mut above = None;
        versions.retain(|&version| {
            let next = above.replace(version);
            let wanted = |next| moments.any_in(SeqNo(version), SeqNo(next));
            version == seqno || next.is_none_or(wanted)
        });
    }

    fn write(&self, seqno: u64) {
        let ticket = self.ring.grant(seqno, 1);
        self.insert(seqno);
        self.ring.finish(ticket, None);
    }

    fn register(&self) -> Registration {
        self.readers.register(self.ring.visible_mark(), 0)
    }

    fn finds_its_version(&self, reader: &Registration) {
        let seqno = reader.seqno.0;
        let versions = lock(&self.versions);
        let seen = versions.iter().find(|&&version| version <= seqno);
        assert_eq!(seen, Some(&seqno), "of {versions:?}");
    }

    /// Reads twice at one moment.
    fn read(&self) -> u64 {
        let reader = self.register();
        self.finds_its_version(&reader);
        self.finds_its_version(&reader);
        self.readers.leave(&reader);
        reader.seqno.0
    }
}

fn spawn(store: &Arc<Store>, f: impl FnOnce(&Store) + 'static) -> thread::JoinHandle<()> {
    let store = Arc::clone(store);
    thread::spawn(move || f(&store))
}

#[test]
fn a_reader_beside_a_writer() {
    check_sc("readers, one beside a writer", 3, || {
        let store = Store::new();
        let reader = spawn(&store, |store| {
            store.read();
        });
        store.write(2);
        store.write(3);
        reader.join().unwrap();
        // And perhaps what the reader saw: it goes with the next write.
        assert!(lock(&store.versions).starts_with(&[3, 2]));
    });
}

#[test]
fn a_reader_beside_two_groups_in_flight() {
    check_sc("readers, one beside two groups", 2, || {
        let store = Store::new();
        let (second, third) = (store.ring.grant(2, 1), store.ring.grant(3, 1));
        let writer = spawn(&store, move |store| {
            store.insert(3);
            store.ring.finish(third, None);
        });
        let reader = spawn(&store, |store| {
            store.read();
        });
        store.insert(2);
        store.ring.finish(second, None);
        writer.join().unwrap();
        reader.join().unwrap();
        assert_eq!(store.read(), 3);
    });
}

#[test]
fn readers_beyond_the_slots() {
    check_sc("readers, one in the registry", 2, || {
        let store = Store::new();
        let mut inside = Vec::new();
        loop {
            let reader = store.register();
            let registered = reader.slot.is_none();
            inside.push(reader);
            if registered {
                break;
            }
        }
        store.readers.leave(&inside.pop().unwrap());
        // Away from the moment of those in the slots, and so far that `visible` does not keep it either.
        store.write(2);
        let reader = spawn(&store, |store| {
            store.read();
        });
        store.write(3);
        store.write(4);
        reader.join().unwrap();
        inside
            .iter()
            .for_each(|reader| store.finds_its_version(reader));
    });
}

#[test]
fn a_slot_serves_one_reader_after_another() {
    check_sc("readers, two beside a writer", 2, || {
        let store = Store::new();
        let readers = [(); 2].map(|()| {
            spawn(&store, |store| {
                store.read();
            })
        });
        store.write(2);
        store.write(3);
        readers
            .into_iter()
            .for_each(|reader| reader.join().unwrap());
    });
}

/// What a reader finds is replaced if nobody has found it; whoever is registered finds the same twice.
#[test]
fn a_change_that_no_reader_notices() {
    check_sc("readers, one beside a change", 3, || {
        let store = Store::new();
        let shown = Arc::new(AtomicU64::new(0));
        let reader = {
            let shown = Arc::clone(&shown);
            spawn(&store, move |store| {
                let reader = store.register();
                let [one, other] = [(); 2].map(|()| shown.load(Ordering::SeqCst));
                assert_eq!(one, other, "what a reader finds has changed");
                store.readers.leave(&reader);
            })
        };
        let held_up = store.readers.hold_up();
        let is_read = held_up.reads_any_from(SeqNo(1));
        shown.store(u64::from(!is_read), Ordering::SeqCst);
        drop(held_up);
        reader.join().unwrap();
        let held_up = store.readers.hold_up();
        assert!(!held_up.reads_any_from(SeqNo(0)));
    });
}
