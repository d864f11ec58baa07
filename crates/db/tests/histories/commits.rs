//! Blind writes that carry their stamps. Every writer has a key that each of its batches sets (its
//! *tick*), keys of its own, and all share some. Keys are numbered; the family of a key follows from
//! its number. The metadata of a family is a key, too: one that all share, has no name and is never
//! deleted.

use std::sync::Barrier;
use std::thread;

use thermocline::{Batch, Scan, Snapshot, Value};
use thermocline_testkit::Rng;
use thermocline_testkit::history::Clock;
use thermocline_testkit::history::commits::{
    Client, History, Outcome, ReadId, Stamp, Write, check,
};

use crate::{Committer, Counts, FAMILIES, Round, Store, descends};

const OPERATIONS: usize = 8_000;
const OWN: usize = 10;
/// Snapshots and iterators that a thread holds at most.
const HELD: usize = 4;

/// The keys of a round.
struct Keys {
    writers: usize,
    /// Keys that all write, and how many in eight writes of a batch go to one of them.
    shared: usize,
    sharing: usize,
    names: Vec<Vec<u8>>,
    /// The keys of each family, in its order.
    sorted: Vec<Vec<(Vec<u8>, u32)>>,
}

impl Keys {
    fn new(writers: usize, rng: &mut Rng) -> Keys {
        let shared = *rng.pick(&[1, 3, 8]);
        let count = writers * (1 + OWN) + shared;
        let names: Vec<Vec<u8>> = (0..count).map(name).collect();
        let mut sorted = vec![Vec::new(); FAMILIES.len()];
        for (key, name) in (0..).zip(&names) {
            sorted[family(key)].push((name.clone(), key));
        }
        for (family, keys) in sorted.iter_mut().enumerate() {
            keys.sort();
            if descends(family) {
                keys.reverse();
            }
        }
        Keys {
            writers,
            shared,
            sharing: *rng.pick(&[1, 2, 6]),
            names,
            sorted,
        }
    }

    fn tick(&self, writer: usize) -> u32 {
        small(writer)
    }

    fn own(&self, writer: usize, rng: &mut Rng) -> u32 {
        small(self.writers + writer * OWN + rng.below(OWN))
    }

    fn shared(&self, rng: &mut Rng) -> u32 {
        small(self.writers * (1 + OWN) + rng.below(self.shared))
    }

    /// A key to look at: the more often a shared one, the more is written there.
    fn any(&self, rng: &mut Rng) -> u32 {
        if rng.below(8) < self.sharing {
            return self.shared(rng);
        }
        small(rng.below(self.names.len()))
    }

    fn name(&self, key: u32) -> &[u8] {
        &self.names[key as usize]
    }

    /// The metadata of a family, as a key.
    fn metadata(&self, family: usize) -> u32 {
        let first = self.names.len().next_multiple_of(FAMILIES.len());
        small(first + family)
    }
}

fn small(n: usize) -> u32 {
    u32::try_from(n).expect("keys are few")
}

fn family(key: u32) -> usize {
    key as usize % FAMILIES.len()
}

/// Keys of several shapes; some are prefixes of others.
fn name(key: usize) -> Vec<u8> {
    match key % 5 {
        0 => (key as u64).to_be_bytes().to_vec(),
        1 => format!("key/{key:04}").into_bytes(),
        2 => format!("key/{:04}/more", key - 1).into_bytes(),
        3 => format!("{key}").into_bytes(),
        _ => [&b"a long beginning, "[..], format!("{key:05}").as_bytes()].concat(),
    }
}

fn value(stamp: Stamp, rng: &mut Rng) -> Vec<u8> {
    let mut value = stamp.to_bytes().to_vec();
    let len = match rng.below(30) {
        0 => rng.below(3000),
        n => 10 * n % 90,
    };
    value.resize(value.len() + len, value[7]);
    value
}

fn stamp(value: &[u8]) -> Stamp {
    let stamp = Stamp::from_bytes(value).expect("a value begins with a stamp");
    assert!(value[8..].iter().all(|&b| b == value[7]), "a torn value");
    stamp
}

/// A thread with what it holds.
struct Thread<'r> {
    store: &'r Store,
    keys: &'r Keys,
    clock: &'r Clock,
    index: usize,
    rng: Rng,
    client: Client,
    committer: Committer,
    batch: Batch,
    snapshots: Vec<(ReadId, Snapshot)>,
    scans: Vec<(ReadId, usize, Scan)>,
    values: Vec<(Value, Stamp)>,
}

pub(crate) fn round(seed: u64) -> Round {
    let mut rng = Rng::new(seed);
    let mut store = Store::new(&mut rng);
    let writers = 3 + rng.below(4);
    let readers = 1 + rng.below(2);
    let keys = Keys::new(writers, &mut rng);
    let (clock, start) = (Clock::default(), Barrier::new(writers + readers));
    let done: Vec<(Client, Counts)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..writers + readers)
            .map(|index| {
                let rng = Rng::new(rng.next_u64());
                let (store, keys, clock, start) = (&store, &keys, &clock, &start);
                scope.spawn(move || {
                    let mut thread = Thread::new((store, keys, clock), seed, index, rng);
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
    let mut history = History::default();
    for (client, count) in done {
        history.clients.push(client);
        counts.add(count);
    }
    let metrics = store.db.metrics();
    counts.memtables = metrics.memtables.len() as u64;
    counts.dropped = metrics.memtables_dropped;
    for reopens in [false, true] {
        if reopens {
            store.reopen();
        }
        let last = writers + readers + usize::from(reopens);
        let mut thread = Thread::new((&store, &keys, &clock), seed, last, Rng::new(seed));
        thread.read_all();
        history.clients.push(thread.client);
    }
    Round {
        report: check(&history),
        counts,
    }
}

impl<'r> Thread<'r> {
    fn new(
        (store, keys, clock): (&'r Store, &'r Keys, &'r Clock),
        seed: u64,
        index: usize,
        rng: Rng,
    ) -> Thread<'r> {
        Thread {
            store,
            keys,
            clock,
            index,
            rng,
            client: Client::new(u16::try_from(index).expect("threads are few"), 0),
            committer: Committer::new(seed),
            batch: store.db.batch(),
            snapshots: Vec::new(),
            scans: Vec::new(),
            values: Vec::new(),
        }
    }

    fn operate(&mut self) {
        let writes = self.index < self.keys.writers && self.rng.one_in(2);
        match self.rng.below(20) {
            0..12 if writes => self.write_batch(),
            _ if writes => self.write_one(),
            0..8 => self.get(),
            8 => self.get_metadata(),
            9..12 => self.multi_get(),
            12..15 => self.snapshot(),
            15..17 => self.scan(),
            17 => self.cursor(),
            18 => self.look_again(),
            _ => thread::yield_now(),
        }
    }

    fn write_one(&mut self) {
        let key = self.keys.own(self.index, &mut self.rng);
        let put = !self.rng.one_in(4);
        let durability = self.committer.durability(&mut self.rng);
        let stamp = self.client.next_stamp();
        let value = value(stamp, &mut self.rng);
        let family = &self.store.families[family(key)];
        let name = self.keys.name(key);
        self.client.commit(self.clock.step(), [Write { key, put }]);
        let result = match put {
            true => family.put_with(name, value, durability),
            false => family.delete_with(name, durability),
        };
        result.unwrap();
        self.client.end(Outcome::Acknowledged(self.clock.step()));
    }

    fn write_batch(&mut self) {
        let mut writes = vec![Write {
            key: self.keys.tick(self.index),
            put: true,
        }];
        for _ in 0..self.rng.below(5) {
            let (key, deletes) = if self.rng.below(8) < self.keys.sharing {
                (self.keys.shared(&mut self.rng), 8)
            } else {
                (self.keys.own(self.index, &mut self.rng), 4)
            };
            let put = !self.rng.one_in(deletes);
            writes.push(Write { key, put });
        }
        // The tick is not always the first.
        let last = writes.len() - 1;
        let at = self.rng.below(last + 1);
        writes.swap(0, at);
        let stamp = self.client.next_stamp();
        for write in &writes {
            let cf = &self.store.families[family(write.key)];
            let name = self.keys.name(write.key);
            match write.put {
                true => self.batch.put_cf(cf, name, value(stamp, &mut self.rng)),
                false => self.batch.delete_cf(cf, name),
            };
        }
        if self.rng.one_in(8) {
            let of = self.rng.below(FAMILIES.len());
            let key = self.keys.metadata(of);
            let blob = value(stamp, &mut self.rng);
            self.batch.set_metadata_cf(&self.store.families[of], blob);
            writes.push(Write { key, put: true });
        }
        self.client.commit(self.clock.step(), writes);
        self.committer.commit(&mut self.batch, &mut self.rng);
        self.client.end(Outcome::Acknowledged(self.clock.step()));
        if self.rng.one_in(200) {
            self.store.db.sync().unwrap();
        }
    }

    fn get(&mut self) {
        let key = self.keys.any(&mut self.rng);
        let family = &self.store.families[family(key)];
        let read = self.client.read(self.clock.step());
        let found = family.get(self.keys.name(key)).unwrap();
        self.client.moment(read, self.clock.step());
        self.client.saw(read, key, found.as_deref().map(stamp));
        if let Some(value) = found.filter(|value| value.len() >= 1024) {
            self.keep(value);
        }
    }

    /// Keeps a large value, which lies where it was read, for some time.
    fn keep(&mut self, value: Value) {
        let stamp = stamp(&value);
        self.values.push((value, stamp));
        if self.values.len() > HELD {
            let at = self.rng.below(self.values.len());
            let (value, expected) = self.values.swap_remove(at);
            assert_eq!(self::stamp(&value), expected, "a value changed");
        }
    }

    fn get_metadata(&mut self) {
        let of = self.rng.below(FAMILIES.len());
        let read = self.client.read(self.clock.step());
        let found = self.store.families[of].metadata().unwrap();
        self.client.moment(read, self.clock.step());
        let key = self.keys.metadata(of);
        self.client.saw(read, key, found.as_deref().map(stamp));
    }

    fn multi_get(&mut self) {
        let of = self.rng.below(FAMILIES.len() + 1);
        let count = 1 + self.rng.below(8);
        let (db, families, keys) = (&self.store.db, &self.store.families, self.keys);
        let wanted: Vec<u32> = (0..count)
            .map(|_| match keys.sorted.get(of) {
                Some(sorted) => self.rng.pick(sorted).1,
                None => keys.any(&mut self.rng),
            })
            .collect();
        let names = wanted.iter().map(|&key| keys.name(key));
        let read = self.client.read(self.clock.step());
        let found = match of {
            0 => db.multi_get(names),
            _ if of < FAMILIES.len() => families[of].multi_get(names),
            _ => {
                let of_key = wanted.iter().map(|&key| &families[family(key)]);
                db.multi_get_cf(of_key.zip(names))
            }
        };
        let found = found.unwrap();
        self.client.moment(read, self.clock.step());
        for (key, value) in wanted.into_iter().zip(found) {
            self.client.saw(read, key, value.as_deref().map(stamp));
        }
    }

    fn snapshot(&mut self) {
        let read = self.client.read(self.clock.step());
        let snapshot = self.store.db.snapshot();
        self.client.moment(read, self.clock.step());
        self.look(read, &snapshot);
        if self.rng.one_in(3) && self.snapshots.len() < HELD {
            self.snapshots.push((read, snapshot));
        }
    }

    /// Looks at some keys at a moment, or at a whole family.
    fn look(&mut self, read: ReadId, snapshot: &Snapshot) {
        let of = self.rng.below(FAMILIES.len());
        let there = snapshot.column_family(&self.store.families[of]).unwrap();
        if self.rng.one_in(4) {
            self.saw_metadata(read, of, &there);
        }
        if self.rng.one_in(3) {
            return self.take(read, of, there.iter());
        }
        for _ in 0..1 + self.rng.below(6) {
            let key = self.keys.any(&mut self.rng);
            let of = &self.store.families[family(key)];
            let there = snapshot.column_family(of).unwrap();
            let found = there.get(self.keys.name(key)).unwrap();
            self.client.saw(read, key, found.as_deref().map(stamp));
        }
    }

    /// Looks once more at what is held, and perhaps lets it go.
    fn look_again(&mut self) {
        if !self.scans.is_empty() && self.rng.one_in(2) {
            let at = self.rng.below(self.scans.len());
            let (read, of, scan) = self.scans.swap_remove(at);
            return self.take(read, of, scan);
        }
        if self.snapshots.is_empty() {
            return;
        }
        let at = self.rng.below(self.snapshots.len());
        let (read, snapshot) = self.snapshots.swap_remove(at);
        self.look(read, &snapshot);
        if !self.rng.one_in(3) {
            self.snapshots.push((read, snapshot));
        }
    }

    fn scan(&mut self) {
        let of = self.rng.below(FAMILIES.len());
        let cf = &self.store.families[of];
        let read = self.client.read(self.clock.step());
        let scan = cf.iter();
        self.client.moment(read, self.clock.step());
        if self.rng.one_in(4) && self.scans.len() < HELD {
            self.scans.push((read, of, scan));
        } else {
            self.take(read, of, scan);
        }
    }

    /// Takes all entries of an iterator over a family, from either end or both.
    fn take(&mut self, read: ReadId, of: usize, mut scan: Scan) {
        let (mut front, mut back) = (Vec::new(), Vec::new());
        let backwards = self.rng.below(3);
        loop {
            let at_back = self.rng.below(2) < backwards;
            let entry = if at_back {
                scan.next_back()
            } else {
                scan.next()
            };
            let Some(entry) = entry else { break };
            let (name, value) = entry.unwrap();
            let end = if at_back { &mut back } else { &mut front };
            end.push((name, stamp(&value)));
        }
        back.reverse();
        front.extend(back);
        self.saw_entries(read, of, 0, front);
    }

    fn cursor(&mut self) {
        let of = self.rng.below(FAMILIES.len());
        let mut read = self.client.read(self.clock.step());
        let mut cursor = self.store.families[of].cursor().unwrap();
        self.client.moment(read, self.clock.step());
        if self.rng.one_in(3) {
            read = self.client.read(self.clock.step());
            cursor.refresh().unwrap();
            self.client.moment(read, self.clock.step());
        }
        let from = self.rng.below(self.keys.sorted[of].len());
        let mut found = Vec::new();
        let mut more = cursor.seek(&self.keys.sorted[of][from].0).unwrap();
        while more {
            found.push((cursor.key().to_vec(), stamp(cursor.value())));
            more = cursor.next().unwrap();
        }
        self.saw_entries(read, of, from, found);
    }

    /// Notes the entries found from the `from`-th key of a family on, in order, and what is missing
    /// among them.
    fn saw_entries(&mut self, read: ReadId, of: usize, from: usize, found: Vec<(Vec<u8>, Stamp)>) {
        let mut found = found.into_iter().peekable();
        for (name, key) in &self.keys.sorted[of][from..] {
            let entry = found.next_if(|(there, _)| there == name);
            self.client.saw(read, *key, entry.map(|(_, stamp)| stamp));
        }
        assert_eq!(found.next(), None, "entries are in order, each once");
    }

    /// Looks at every key at one moment.
    fn read_all(&mut self) {
        let read = self.client.read(self.clock.step());
        let snapshot = self.store.db.snapshot();
        self.client.moment(read, self.clock.step());
        for of in 0..FAMILIES.len() {
            let there = snapshot.column_family(&self.store.families[of]).unwrap();
            self.take(read, of, there.iter());
            self.saw_metadata(read, of, &there);
        }
    }

    fn saw_metadata(&mut self, read: ReadId, of: usize, there: &Snapshot) {
        let found = there.metadata().unwrap();
        let key = self.keys.metadata(of);
        self.client.saw(read, key, found.as_deref().map(stamp));
    }
}
