//! Lists that are only appended to. A thread locks the keys that it appends to against other threads
//! (not in the store), reads their lists, and writes them back longer, as one batch over several
//! families. Lists do not grow for ever: a full one is left alone, and its place has a new key.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard};
use std::thread;

use thermocline::{Batch, ColumnFamily, Snapshot};
use thermocline_testkit::Rng;
use thermocline_testkit::history::Clock;
use thermocline_testkit::history::lists::{Client, Outcome, TxnId, check};

use crate::{Committer, Counts, FAMILIES, Round, Store};

const OPERATIONS: usize = 6_000;
const PLACES: usize = 12;
const ELEMENTS_MAX: usize = 40;

/// Where a list lies: its lock, and which key it has now.
#[derive(Default)]
struct Place {
    lock: Mutex<()>,
    /// Changed under the lock.
    key: AtomicU32,
}

struct Places(Vec<Place>);

impl Places {
    fn new() -> Places {
        Places((0..PLACES).map(|_| Place::default()).collect())
    }

    /// The number of the key that the list at `place` has now.
    fn key(&self, place: usize) -> u32 {
        let place = u32::try_from(place).expect("places are few");
        let generation = self.0[place as usize].key.load(Ordering::Acquire);
        generation * u32::try_from(PLACES).expect("places are few") + place
    }
}

fn name(key: u32) -> Vec<u8> {
    let places = u32::try_from(PLACES).expect("places are few");
    format!("list/{}/{}", key % places, key / places).into_bytes()
}

fn decode(value: &[u8]) -> Vec<u64> {
    let chunks = value.chunks(8);
    let elements = chunks.map(|chunk| {
        let bytes = chunk.try_into().expect("a list has whole elements");
        u64::from_be_bytes(bytes)
    });
    elements.collect()
}

struct Thread<'r> {
    store: &'r Store,
    places: &'r Places,
    clock: &'r Clock,
    index: usize,
    rng: Rng,
    client: Client,
    committer: Committer,
    batch: Batch,
    elements: u64,
    held: Option<(TxnId, Snapshot)>,
}

pub(crate) fn round(seed: u64) -> Round {
    let mut rng = Rng::new(seed);
    let mut store = Store::new(&mut rng);
    let threads = 4 + rng.below(5);
    let (places, clock, start) = (Places::new(), Clock::default(), Barrier::new(threads));
    let done: Vec<(Client, Counts)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|index| {
                let rng = Rng::new(rng.next_u64());
                let (store, places, clock, start) = (&store, &places, &clock, &start);
                scope.spawn(move || {
                    let mut thread = Thread::new((store, places, clock), seed, index, rng);
                    start.wait();
                    for _ in 0..OPERATIONS {
                        thread.operate();
                    }
                    (thread.client, thread.committer.finish())
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    let mut counts = Counts::default();
    let mut clients = Vec::new();
    for (client, count) in done {
        clients.push(client);
        counts.add(count);
    }
    let metrics = store.db.metrics();
    counts.memtables = metrics.memtables.len() as u64;
    counts.dropped = metrics.memtables_dropped;
    store.reopen();
    let mut last = Thread::new((&store, &places, &clock), seed, threads, rng);
    last.read_all();
    clients.push(last.client);
    Round {
        report: check(&clients),
        counts,
    }
}

impl<'r> Thread<'r> {
    fn new(
        (store, places, clock): (&'r Store, &'r Places, &'r Clock),
        seed: u64,
        index: usize,
        rng: Rng,
    ) -> Thread<'r> {
        Thread {
            store,
            places,
            clock,
            index,
            rng,
            client: Client::default(),
            committer: Committer::new(seed),
            batch: store.db.batch(),
            elements: 0,
            held: None,
        }
    }

    fn family(&self, key: u32) -> &'r ColumnFamily {
        &self.store.families[key as usize % FAMILIES.len()]
    }

    fn operate(&mut self) {
        match self.rng.below(20) {
            0..9 => self.append(),
            9..12 => self.get(),
            12..14 => self.multi_get(),
            14..19 => self.snapshot(),
            _ => thread::yield_now(),
        }
    }

    fn append(&mut self) {
        let mut chosen: Vec<usize> = (0..1 + self.rng.below(3))
            .map(|_| self.rng.below(PLACES))
            .collect();
        chosen.sort_unstable();
        chosen.dedup();
        let places = self.places;
        // In one order, so that nobody waits in a circle.
        let locked: Vec<MutexGuard<'_, ()>> = chosen
            .iter()
            .map(|&place| places.0[place].lock.lock().unwrap())
            .collect();
        let txn = self.client.begin(self.clock.step());
        let moment = self.rng.one_in(2).then(|| self.store.db.snapshot());
        for &place in &chosen {
            let mut key = places.key(place);
            let mut list = self.list(moment.as_ref(), key);
            self.client.read(txn, key, &list);
            if list.len() >= ELEMENTS_MAX {
                places.0[place].key.fetch_add(1, Ordering::Release);
                key = places.key(place);
                list = self.list(moment.as_ref(), key);
                self.client.read(txn, key, &list);
            }
            // Now and then two, of which the first is never seen alone.
            for _ in 0..1 + usize::from(self.rng.one_in(4)) {
                self.elements += 1;
                let element = (self.index as u64) << 40 | self.elements;
                self.client.append(txn, key, element);
                list.push(element);
                let value: Vec<u8> = list.iter().flat_map(|e| e.to_be_bytes()).collect();
                self.batch.put_cf(self.family(key), name(key), value);
            }
        }
        drop(moment);
        self.committer.commit(&mut self.batch, &mut self.rng);
        self.client
            .end(txn, Outcome::Acknowledged(self.clock.step()));
        drop(locked);
    }

    fn list(&self, moment: Option<&Snapshot>, key: u32) -> Vec<u64> {
        let (family, name) = (self.family(key), name(key));
        let value = match moment {
            Some(moment) => moment.column_family(family).unwrap().get(name),
            None => family.get(name),
        };
        value.unwrap().as_deref().map(decode).unwrap_or_default()
    }

    fn get(&mut self) {
        let key = self.places.key(self.rng.below(PLACES));
        let txn = self.client.begin(self.clock.step());
        let list = self.list(None, key);
        self.client
            .end(txn, Outcome::Acknowledged(self.clock.step()));
        self.client.read(txn, key, &list);
    }

    fn multi_get(&mut self) {
        let of = self.rng.below(FAMILIES.len());
        let keys: Vec<u32> = (0..PLACES)
            .map(|place| self.places.key(place))
            .filter(|&key| key as usize % FAMILIES.len() == of)
            .collect();
        let txn = self.client.begin(self.clock.step());
        let names = keys.iter().map(|&key| name(key));
        let found = self.store.families[of].multi_get(names).unwrap();
        self.client
            .end(txn, Outcome::Acknowledged(self.clock.step()));
        for (key, value) in keys.into_iter().zip(found) {
            let list = value.as_deref().map(decode).unwrap_or_default();
            self.client.read(txn, key, &list);
        }
    }

    fn snapshot(&mut self) {
        let txn = self.client.begin(self.clock.step());
        let snapshot = self.store.db.snapshot();
        self.client
            .end(txn, Outcome::Acknowledged(self.clock.step()));
        self.look(txn, &snapshot);
        if self.rng.one_in(4)
            && let Some((txn, snapshot)) = self.held.replace((txn, snapshot))
        {
            self.look(txn, &snapshot);
        }
    }

    /// Looks at some or all lists at a moment.
    fn look(&mut self, txn: TxnId, snapshot: &Snapshot) {
        let every = 1 + self.rng.below(3);
        for place in 0..PLACES {
            if self.rng.one_in(every) {
                let key = self.places.key(place);
                let list = self.list(Some(snapshot), key);
                self.client.read(txn, key, &list);
            }
        }
    }

    /// Looks at every list that ever was, at one moment.
    fn read_all(&mut self) {
        let txn = self.client.begin(self.clock.step());
        let snapshot = self.store.db.snapshot();
        self.client
            .end(txn, Outcome::Acknowledged(self.clock.step()));
        for place in 0..PLACES {
            let mut key = self.places.key(place);
            loop {
                let list = self.list(Some(&snapshot), key);
                self.client.read(txn, key, &list);
                match key.checked_sub(u32::try_from(PLACES).expect("places are few")) {
                    Some(before) => key = before,
                    None => break,
                }
            }
        }
    }
}
