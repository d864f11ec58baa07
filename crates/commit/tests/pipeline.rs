//! Committing without a database: a store that is nothing but a list of what was applied, and of what was persisted.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use thermocline_base::{BatchEntry, CfId, Error, ErrorKind, Result, SeqNo, WriteBatch};
use thermocline_commit::ring::Range;
use thermocline_commit::{
    Callback, CommitEnv, Commits, Durability, Entries, Group, Limits, Persists, Reserved,
    WriteOptions,
};

/// The most that one item may have.
const ROOM: u64 = 10_000;

#[derive(Default)]
struct Fake {
    commits: Option<Commits>,
    writer: Mutex<u64>,
    /// Keys in the order in which they were applied, with their seqnos.
    applied: Mutex<Vec<(u64, Vec<u8>)>>,
    /// Seqnos that a crash would leave.
    persisted: Mutex<BTreeSet<u64>>,
    /// The first and last seqno of what begins there.
    places: Mutex<Vec<(u64, u64)>>,
    write_backs: AtomicU64,
    /// Keys that find no room.
    refused: Mutex<BTreeSet<Vec<u8>>>,
    /// Whether those that ask together are not admitted.
    full_for_several: AtomicBool,
    /// Bytes for which writes were held back.
    owed: AtomicU64,
    /// The keys of each write that was told to be refused.
    told: Mutex<Vec<Vec<Vec<u8>>>>,
    fails: AtomicBool,
    /// Whether a thread that writes back dies of it.
    kills: AtomicBool,
    /// Whether the next one that asks for a place for several does.
    kills_leader: AtomicBool,
    poison: Mutex<Option<String>>,
    calls: AtomicU64,
    in_call: AtomicBool,
}

impl Fake {
    fn new(buckets: usize) -> Arc<Fake> {
        Fake::gathering(buckets, ROOM, Duration::ZERO)
    }

    /// One whose leaders wait so long for followers with so many bytes together.
    fn gathering(buckets: usize, group_bytes: u64, group_wait: Duration) -> Arc<Fake> {
        let limits = Limits {
            buckets,
            ring_slots: 8,
            group_bytes,
            group_wait,
            buffered_bytes: 100,
            buffered_time: Duration::from_secs(1),
            alone_bytes: 100,
        };
        Arc::new(Fake {
            commits: Some(Commits::new(limits, 0)),
            ..Fake::default()
        })
    }

    fn commits(&self) -> &Commits {
        self.commits.as_ref().unwrap()
    }

    fn write(&self, keys: &[&[u8]], mode: impl Into<WriteOptions>) -> Result<()> {
        let batch = batch(keys);
        let bytes = self.item_bytes(batch.iter());
        self.commits().write(self, batch.iter(), bytes, mode.into())
    }

    /// Makes the calls that somebody has asked for.
    fn make_calls(&self) {
        while self.calls.swap(0, Ordering::SeqCst) > 0 {
            self.in_call.store(true, Ordering::SeqCst);
            self.commits().call_back(self);
            self.in_call.store(false, Ordering::SeqCst);
        }
    }

    fn is_persisted(&self, key: &[u8]) -> bool {
        let applied = self.applied.lock().unwrap();
        let persisted = self.persisted.lock().unwrap();
        applied
            .iter()
            .any(|(seqno, applied)| applied == key && persisted.contains(seqno))
    }

    fn hold_back<'a>(&self, entries: impl Entries<'a>, bytes: u64) -> Result<()> {
        if entries.len() > 1 && self.full_for_several.load(Ordering::SeqCst) {
            return Err(Error::OutOfSpace("the disk is full".into()));
        }
        self.owed.fetch_add(bytes, Ordering::SeqCst);
        Ok(())
    }

    /// It is told that these were refused.
    fn tell<'a>(&self, entries: impl Entries<'a>) {
        let keys = entries.map(|entry| entry.key.to_vec()).collect();
        self.told.lock().unwrap().push(keys);
    }

    fn find_place<'a>(&self, mut entries: impl Entries<'a>) -> Result<Reserved<()>> {
        let records = entries.len() as u64;
        let mut writer = self.writer.lock().unwrap();
        self.check()?;
        let refused = self.refused.lock().unwrap();
        if entries.any(|entry| refused.contains(entry.key)) {
            return Err(Error::OutOfSpace("no room".into()));
        }
        drop(refused);
        let ring = &self.commits().ring;
        if !ring.has_room() && !ring.wait_for_room() {
            self.check_poison()?;
        }
        let (first, last) = (*writer + 1, *writer + records);
        *writer = last;
        let mut places = self.places.lock().unwrap();
        // Not one behind the other: each range is written back by itself.
        let at = 2 * places.len() as u64;
        places.push((first, last));
        Ok(Reserved {
            group: Group {
                place: (),
                range: Range { at, bytes: 1 },
                ticket: ring.grant(last, records),
                first: SeqNo(first),
                last: SeqNo(last),
            },
            due: false,
        })
    }

    fn persist(&self, first: u64, last: u64) -> Result<()> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(Error::Poisoned("the device is gone".into()));
        }
        self.persisted.lock().unwrap().extend(first..=last);
        Ok(())
    }
}

fn batch(keys: &[&[u8]]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for key in keys {
        batch.put(CfId::DEFAULT, key, b"").unwrap();
    }
    batch
}

impl Persists for Fake {
    fn check_poison(&self) -> Result<()> {
        match &*self.poison.lock().unwrap() {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned(cause.clone())),
        }
    }

    fn write_back(&self, ranges: &[Range]) -> Result<()> {
        self.write_backs.fetch_add(1, Ordering::SeqCst);
        assert!(!self.kills.load(Ordering::SeqCst), "planned");
        ranges.iter().try_for_each(|range| {
            let place = usize::try_from(range.at / 2).unwrap();
            let (first, last) = self.places.lock().unwrap()[place];
            self.persist(first, last)
        })
    }

    fn poison(&self, cause: Error) -> Error {
        self.poison.lock().unwrap().get_or_insert(cause.to_string());
        cause
    }
}

impl CommitEnv for Fake {
    type Place = ();

    fn item_bytes<'a>(&self, entries: impl Iterator<Item = BatchEntry<'a>>) -> u64 {
        entries.map(|entry| entry.key.len() as u64).sum()
    }

    fn check(&self) -> Result<()> {
        self.check_poison()
    }

    fn admit<'a>(&self, entries: impl Entries<'a>, bytes: u64, _: bool) -> Result<()> {
        let admitted = self.hold_back(entries.clone(), bytes);
        admitted.inspect_err(|_| self.tell(entries))
    }

    fn admit_together<'a>(&self, entries: impl Entries<'a>, bytes: u64) -> Result<()> {
        self.hold_back(entries, bytes)
    }

    fn reserve<'a>(
        &self,
        entries: impl Entries<'a>,
        _: u64,
        _: WriteOptions,
    ) -> Result<Reserved<()>> {
        let place = self.find_place(entries.clone());
        place.inspect_err(|_| self.tell(entries))
    }

    fn reserve_together<'a>(&self, entries: impl Entries<'a>, _: u64) -> Result<Reserved<()>> {
        assert!(!self.kills_leader.swap(false, Ordering::SeqCst), "planned");
        self.find_place(entries)
    }

    fn apply<'a>(
        &self,
        group: &Group<()>,
        entries: impl Entries<'a>,
        deferred: bool,
    ) -> Result<()> {
        let keyed = (group.first.0..).zip(entries.map(|entry| entry.key.to_vec()));
        self.applied.lock().unwrap().extend(keyed);
        match deferred {
            true => Ok(()),
            false => self.persist(group.first.0, group.last.0),
        }
    }

    fn defers_all(&self) -> bool {
        false
    }

    fn sync_later(&self, _: Duration) {}

    fn wrote(&self, _: bool) {}

    fn call_later(&self) {
        self.calls.fetch_add(1, Ordering::SeqCst);
    }

    fn settle(&self) {
        self.make_calls();
    }

    fn count_panic(&self) {}

    fn now_ns(&self) -> u64 {
        0
    }

    fn waited_for_callbacks(&self, _: u64) {}

    fn is_in_call(&self) -> bool {
        self.in_call.load(Ordering::SeqCst)
    }
}

#[test]
fn what_is_acknowledged_is_persisted_whoever_leads() {
    for buckets in [1, 4] {
        let fake = Fake::new(buckets);
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let fake = &fake;
                scope.spawn(move || {
                    for n in 0..500u16 {
                        let key = [&[thread][..], &n.to_be_bytes()].concat();
                        fake.write(&[&key], Durability::Immediate).unwrap();
                        assert!(fake.is_persisted(&key));
                    }
                });
            }
        });
        let applied = fake.applied.lock().unwrap();
        assert_eq!(applied.len(), 2000);
        assert_eq!(fake.commits().ring.durable(), 2000);
    }
}

#[test]
fn a_buffered_write_is_persisted_by_whatever_durable_comes_behind() {
    let fake = Fake::new(1);
    fake.write(&[b"a"], Durability::Buffered).unwrap();
    fake.write(&[b"b"], Durability::Buffered).unwrap();
    assert!(!fake.is_persisted(b"a"));
    assert_eq!(fake.commits().ring.visible(), 2);
    fake.write(&[b"c"], Durability::Immediate).unwrap();
    assert!(fake.is_persisted(b"a") && fake.is_persisted(b"b") && fake.is_persisted(b"c"));
    assert_eq!(fake.commits().ring.durable(), 3);
    // Enough of them are written back by themselves, all at once.
    let before = fake.write_backs.load(Ordering::SeqCst);
    for n in 0..100u8 {
        fake.write(&[&[n]], Durability::Buffered).unwrap();
    }
    assert_eq!(fake.write_backs.load(Ordering::SeqCst), before + 1);
    assert!(fake.is_persisted(&[99]));
}

/// Deferred, it would be written back at once, and one thread at a time.
#[test]
fn a_large_buffered_write_is_persisted_by_its_own_thread() {
    let fake = Fake::new(1);
    let (first, second, short) = ([0u8; 100], [1u8; 100], [2u8; 99]);
    fake.write(&[&first], Durability::Buffered).unwrap();
    assert!(fake.is_persisted(&first));
    assert_eq!(fake.write_backs.load(Ordering::SeqCst), 0);
    assert_eq!(fake.commits().ring.durable(), 1);
    // One byte less is not enough.
    fake.write(&[&short], Durability::Buffered).unwrap();
    assert!(!fake.is_persisted(&short));
    assert_eq!(fake.commits().ring.durable(), 1);
    // As behind any durable write, what was deferred before it is durable.
    fake.write(&[&second], Durability::Buffered).unwrap();
    assert!(fake.is_persisted(&short) && fake.is_persisted(&second));
    assert_eq!(fake.write_backs.load(Ordering::SeqCst), 1);
    assert_eq!(fake.commits().ring.durable(), 3);
}

#[test]
fn who_finds_no_room_in_a_group_fails_alone() {
    let fake = Fake::new(1);
    fake.refused.lock().unwrap().insert(b"large".to_vec());
    let begin = Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let (fake, begin) = (&fake, &begin);
            scope.spawn(move || {
                begin.wait();
                for n in 0..200u8 {
                    let fits = fake.write(&[&[thread, n]], Durability::Immediate);
                    fits.unwrap();
                    let refused = fake.write(&[b"large"], Durability::Immediate);
                    assert_eq!(refused.unwrap_err().kind(), ErrorKind::OutOfSpace);
                }
            });
        }
    });
    assert_eq!(fake.commits().ring.durable(), 800);
    assert!(!fake.is_persisted(b"large"));
}

/// Of two that have met one fits. Nobody brought both, and each is held back once.
#[test]
fn that_a_group_finds_no_room_is_told_to_nobody() {
    // The leader waits until the other one has come.
    let fake = Fake::gathering(1, 10, Duration::from_secs(60));
    fake.refused.lock().unwrap().insert(b"large".to_vec());
    let fake = &*fake;
    std::thread::scope(|scope| {
        let write = |key: &'static [u8]| {
            scope.spawn(move || fake.write(&[key], Durability::Immediate).is_ok())
        };
        let written = [write(b"small"), write(b"large")].map(|write| write.join().unwrap());
        assert_eq!(written, [true, false]);
    });
    assert_eq!(*fake.told.lock().unwrap(), [[b"large".to_vec()]]);
    assert_eq!(fake.owed.load(Ordering::SeqCst), 10);
}

/// The disk is full when both ask together, and has room again when each asks for itself: nobody's write was refused.
#[test]
fn that_a_group_is_not_admitted_is_told_to_nobody() {
    // The leader waits until the other one has come.
    let fake = Fake::gathering(1, 10, Duration::from_secs(60));
    fake.full_for_several.store(true, Ordering::SeqCst);
    let fake = &*fake;
    std::thread::scope(|scope| {
        let write = |key: &'static [u8]| {
            scope.spawn(move || fake.write(&[key], Durability::Immediate).is_ok())
        };
        let written = [write(b"first"), write(b"other")].map(|write| write.join().unwrap());
        assert_eq!(written, [true, true]);
    });
    assert!(fake.told.lock().unwrap().is_empty());
    assert_eq!(fake.owed.load(Ordering::SeqCst), 10);
}

/// Nothing was granted, and nothing is wrong with the store: who waited for it writes without it.
#[test]
fn who_waits_for_a_leader_that_dies_before_its_grant_is_written() {
    // Each leader waits until another one has come.
    let fake = Fake::gathering(1, 10, Duration::from_secs(60));
    fake.kills_leader.store(true, Ordering::SeqCst);
    let fake = &*fake;
    std::thread::scope(|scope| {
        let write = |key: &'static [u8]| {
            let write = move || fake.write(&[key], Durability::Immediate);
            scope.spawn(move || catch_unwind(AssertUnwindSafe(write)).ok())
        };
        let writes = [write(b"first"), write(b"other")];
        while fake.kills_leader.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        fake.write(&[b"third"], Durability::Immediate).unwrap();
        let mut ends = writes.map(|write| write.join().unwrap());
        ends.sort_by_key(Option::is_some);
        assert!(matches!(ends, [None, Some(Ok(()))]), "{ends:?}");
    });
    assert!(fake.check_poison().is_ok());
    assert_eq!(fake.commits().ring.durable(), 2);
}

#[test]
fn a_failed_persist_ends_all_writes_and_nobody_waits_for_ever() {
    for failing in [Durability::Immediate, Durability::Buffered] {
        let fake = Fake::new(2);
        fake.write(&[b"a"], Durability::Immediate).unwrap();
        fake.write(&[b"b"], Durability::Buffered).unwrap();
        fake.fails.store(true, Ordering::SeqCst);
        let first = match failing {
            Durability::Immediate => fake.write(&[b"c"], failing),
            Durability::Buffered => fake.commits().sync_up_to(&*fake, SeqNo(2)),
        };
        assert!(first.is_err());
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let fake = &fake;
                scope.spawn(move || {
                    let write = fake.write(&[&[thread]], Durability::Immediate);
                    assert_eq!(write.unwrap_err().kind(), ErrorKind::Poisoned);
                });
            }
        });
        assert_eq!(fake.commits().ring.durable(), 1);
    }
}

/// It has taken what was to be written back: who comes next finds nothing of it on the list.
#[test]
fn what_a_thread_had_in_hand_that_died_is_not_taken_for_durable() {
    let fake = Fake::new(1);
    fake.write(&[b"a"], Durability::Buffered).unwrap();
    fake.kills.store(true, Ordering::SeqCst);
    let sync = || fake.commits().sync_up_to(&*fake, SeqNo(1));
    assert!(catch_unwind(AssertUnwindSafe(sync)).is_err());
    fake.kills.store(false, Ordering::SeqCst);
    assert_eq!(sync().unwrap_err().kind(), ErrorKind::Poisoned);
    let write = fake.write(&[b"b"], Durability::Immediate);
    assert_eq!(write.unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(fake.commits().ring.durable(), 0);
}

#[test]
fn callbacks_are_called_in_order_and_learn_of_a_failure() {
    let fake = Fake::new(1);
    let told: Arc<Mutex<Vec<(u8, bool)>>> = Arc::default();
    let write = |n: u8| {
        let told = told.clone();
        let done: Callback = Box::new(move |result| {
            told.lock().unwrap().push((n, result.is_ok()));
        });
        let batch = batch(&[&[n]]);
        let place = fake.commits().take_place(&*fake, false, done).unwrap();
        let size = (1, false);
        fake.commits()
            .write_told(&*fake, batch.iter(), size, &mut Some(place))
            .unwrap();
    };
    (0..3).for_each(write);
    assert_eq!(fake.commits().places(), 3);
    fake.commits().tell(&*fake);
    fake.make_calls();
    assert!(told.lock().unwrap().is_empty(), "nothing is durable yet");
    fake.commits().sync_up_to(&*fake, SeqNo(2)).unwrap();
    fake.commits().tell(&*fake);
    fake.make_calls();
    assert_eq!(*told.lock().unwrap(), [(0, true), (1, true), (2, true)]);
    assert_eq!(fake.commits().places(), 0);
    write(3);
    fake.fails.store(true, Ordering::SeqCst);
    assert!(fake.commits().sync_up_to(&*fake, SeqNo(4)).is_err());
    fake.commits().tell(&*fake);
    fake.make_calls();
    assert_eq!(told.lock().unwrap().last(), Some(&(3, false)));
}

/// It returns when it is seen. What was deferred before it is left to whoever writes back next.
#[test]
fn a_large_commit_with_a_callback_is_persisted_by_its_own_thread_alone() {
    let fake = Fake::new(1);
    let told: Arc<Mutex<Vec<u8>>> = Arc::default();
    let commit = |n: u8, bytes: usize| {
        let told = told.clone();
        let done: Callback = Box::new(move |_| told.lock().unwrap().push(n));
        let place = fake.commits().take_place(&*fake, false, done).unwrap();
        let key = vec![n; bytes];
        let (batch, size) = (batch(&[&key]), (bytes as u64, false));
        let mut place = Some(place);
        fake.commits()
            .write_told(&*fake, batch.iter(), size, &mut place)
    };
    assert!(commit(0, 100).unwrap(), "it is durable");
    assert!(fake.is_persisted(&[0; 100]));
    // One byte less is not enough.
    assert!(!commit(1, 99).unwrap());
    assert!(!commit(2, 100).unwrap());
    assert!(fake.is_persisted(&[2; 100]) && !fake.is_persisted(&[1; 99]));
    assert_eq!(fake.write_backs.load(Ordering::SeqCst), 0);
    fake.commits().tell(&*fake);
    fake.make_calls();
    assert_eq!(*told.lock().unwrap(), [0]);
    fake.commits().sync_up_to(&*fake, SeqNo(3)).unwrap();
    assert_eq!(fake.write_backs.load(Ordering::SeqCst), 1);
    fake.commits().tell(&*fake);
    fake.make_calls();
    assert_eq!(*told.lock().unwrap(), [0, 1, 2]);
    // It is the caller who hears that it failed.
    fake.fails.store(true, Ordering::SeqCst);
    assert_eq!(commit(3, 100).unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(fake.commits().places(), 0);
}

/// It is its caller who hears of it, or its callback.
#[test]
fn a_group_that_fails_behind_its_grant_is_told_of_once() {
    let fake = Fake::new(1);
    let told: Arc<Mutex<Vec<bool>>> = Arc::default();
    let grant = |last: u64| {
        let told = told.clone();
        let done: Callback = Box::new(move |result| told.lock().unwrap().push(result.is_ok()));
        let place = fake.commits().take_place(&*fake, false, done).unwrap();
        place.granted(SeqNo(last));
    };
    let untold = |last: u64| {
        let error = Error::Poisoned("the device is gone".into());
        fake.commits().untold(SeqNo(last), error)
    };
    grant(1);
    assert!(untold(1).is_err());
    assert_eq!(fake.commits().places(), 0);
    grant(2);
    fake.poison(Error::Poisoned("the device is gone".into()));
    fake.commits().tell(&*fake);
    fake.make_calls();
    assert!(untold(2).is_ok());
    assert_eq!(*told.lock().unwrap(), [false]);
}

#[test]
fn a_group_that_never_finishes_stops_the_store_and_hangs_nobody() {
    let fake = Fake::new(1);
    let keys = batch(&[b"a"]);
    let reserved = fake
        .reserve(keys.iter(), 1, WriteOptions::default())
        .unwrap();
    let flying = fake.commits().flying(&*fake);
    assert_eq!(reserved.group.last, SeqNo(1));
    // Somebody waits behind it, who was let in before anything was wrong.
    let (behind, (tell, told)) = (fake.clone(), std::sync::mpsc::channel());
    std::thread::spawn(move || {
        let write = behind.write(&[b"b"], Durability::Buffered);
        tell.send(write.unwrap_err().kind()).unwrap();
    });
    while fake.applied.lock().unwrap().is_empty() {
        std::thread::yield_now();
    }
    drop(flying);
    // Whoever is told nothing would wait for ever.
    let kind = told.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(kind, ErrorKind::Poisoned);
    let write = fake.write(&[b"c"], Durability::Immediate);
    assert_eq!(write.unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(fake.commits().ring.visible(), 0);
}
