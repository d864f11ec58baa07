//! The process that kills, and looks at what is left.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use thermocline::{Db, Options};
use thermocline_testkit::Rng;
use thermocline_testkit::history::commits::{Client, History, Stamp, check};

use crate::child::{TASK, Task, dir};
use crate::plan::{self, KEYS, THREADS, operation};
use crate::{Where, board, options};

/// What a kill loop has seen.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    kills: u64,
    /// Stores that had to be recovered.
    recovered: u64,
    /// Operations of the killed, and those of them that were acknowledged, and durable then.
    operations: u64,
    acknowledged: u64,
    durable: u64,
    /// Threads of which acknowledged batches, Buffered ones, were lost.
    lost_the_end: u64,
}

impl Counts {
    pub fn add(&mut self, other: Counts) {
        self.kills += other.kills;
        self.recovered += other.recovered;
        self.operations += other.operations;
        self.acknowledged += other.acknowledged;
        self.durable += other.durable;
        self.lost_the_end += other.lost_the_end;
    }

    /// That something was tested at all.
    pub fn check(&self) {
        assert!(self.kills == 0 || self.recovered > 0);
        assert!(self.kills < 8 || self.durable > 0 && self.acknowledged > self.durable);
    }
}

/// One store as the parent knows it.
struct Store {
    dir: PathBuf,
    /// What it holds.
    state: HashMap<u32, Stamp>,
    /// The number of each thread's next operation.
    next: Vec<u32>,
}

pub(crate) struct Parent {
    rng: Rng,
    seed: u64,
    place: Where,
    home: PathBuf,
    boards: PathBuf,
    stores: Vec<Store>,
    pub counts: Counts,
}

impl Parent {
    pub fn new(seed: u64, place: Where, home: &Path, boards: &Path, stores: usize) -> Parent {
        let store = |store| Store {
            dir: dir(home, store),
            state: HashMap::new(),
            next: vec![1; THREADS],
        };
        Parent {
            rng: Rng::new(seed),
            seed,
            place,
            home: home.to_path_buf(),
            boards: boards.to_path_buf(),
            stores: (0..stores).map(store).collect(),
            counts: Counts::default(),
        }
    }

    /// Lets a child write, kills it, and looks at all stores.
    pub fn round(&mut self) {
        let reports = match self.rng.below(4) {
            // While it opens the stores, and so recovers from the kill before.
            0 => 1,
            1 => 2 + self.rng.below(10),
            _ => 2 + self.rng.below(600),
        };
        let linger_us = match reports {
            1 => self.rng.below(20_000),
            _ => self.rng.below(2000),
        };
        self.kill_a_child(reports, linger_us as u64);
        self.counts.kills += 1;
        for store in 0..self.stores.len() {
            self.look(store);
        }
    }

    fn kill_a_child(&mut self, reports: usize, linger_us: u64) {
        let task = Task {
            place: self.place,
            home: self.home.clone(),
            boards: self.boards.clone(),
            options_seed: self.rng.next_u64(),
            seed: self.seed,
            next: self.stores.iter().map(|store| store.next.clone()).collect(),
        };
        let text = task.text();
        assert_eq!(Task::parse(&text), task);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(TASK, text)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut seen = 0;
        while seen < reports {
            assert!(next_report(&mut lines, &mut child), "the child ended");
            seen += 1;
        }
        // Only moves the kill to some point between two reports; the verdict holds for every point.
        std::thread::sleep(Duration::from_micros(linger_us));
        assert!(child.try_wait().unwrap().is_none(), "the child ended");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Opens a store and compares it with what the killed threads had noted.
    fn look(&mut self, s: usize) {
        let noted: Vec<_> = (0..THREADS)
            .map(|thread| board::take(&self.boards, s, thread))
            .collect();
        if !self.stores[s].dir.join("CURRENT").exists() {
            assert!(noted.iter().all(Vec::is_empty), "store {s} is gone");
            return;
        }
        let mut options = options(&mut self.rng);
        self.verify(s, &options);
        if self.rng.one_in(4) {
            options.read_only = true;
            self.read(s, &options);
            options.read_only = false;
        }
        let (db, found) = self.read(s, &options);
        self.counts.recovered += u64::from(db.metrics().recovery.after_crash);
        self.judge(s, &noted, &found);
        let store = &mut self.stores[s];
        store.state = found;
        for (next, noted) in store.next.iter_mut().zip(&noted) {
            *next += u32::try_from(noted.len()).expect("a life is short");
        }
        if self.rng.one_in(2) {
            self.write(s, &db);
        }
        drop(db);
        self.verify(s, &options);
        let (db, found) = self.read(s, &options);
        assert!(!db.metrics().recovery.after_crash);
        assert!(found == self.stores[s].state, "closing changed the store");
    }

    /// Opens a store and takes all that it holds.
    fn read(&mut self, s: usize, options: &Options) -> (Db, HashMap<u32, Stamp>) {
        let dir = &self.stores[s].dir;
        let db = self.place.open(dir, options, &mut self.rng);
        let found = read(&db);
        (db, found)
    }

    fn verify(&self, s: usize, options: &Options) {
        let report = Db::verify(&self.stores[s].dir, options.clone()).unwrap();
        assert_eq!(report.faults, [], "store {s}");
    }

    /// What was found is explained by what was noted.
    fn judge(&mut self, s: usize, noted: &[Vec<board::Noted>], found: &HashMap<u32, Stamp>) {
        let store = &self.stores[s];
        let mut history = History {
            initial: store.state.clone(),
            ..History::default()
        };
        let mut at_least = Vec::new();
        for (thread, noted) in noted.iter().enumerate() {
            let (next, writer) = (store.next[thread], u16::try_from(thread));
            let mut client = Client::new(writer.expect("threads are few"), next - 1);
            let (mut durable, mut ticked) = (next - 1, 0);
            for (number, noted) in (next..).zip(noted) {
                let operation = operation(self.seed, s, thread, number);
                let acknowledged = noted.outcome.acknowledged().is_some();
                if acknowledged && operation.ticks() {
                    ticked = number;
                }
                client.commit(noted.began, operation.writes);
                client.end(noted.outcome);
                if noted.durable {
                    durable = number;
                }
            }
            let tick = found.get(&u32::try_from(thread).expect("threads are few"));
            let lost = tick.map_or(0, |stamp| stamp.number) < ticked;
            self.counts.lost_the_end += u64::from(lost);
            at_least.push(durable);
            history.clients.push(client);
            self.counts.operations += noted.len() as u64;
            let acknowledged = noted.iter().filter(|n| n.outcome.acknowledged().is_some());
            self.counts.acknowledged += acknowledged.count() as u64;
            self.counts.durable += noted.iter().filter(|n| n.durable).count() as u64;
        }
        let mut reader = Client::new(u16::try_from(THREADS).expect("threads are few"), 0);
        let read = reader.recovered(at_least);
        for key in 0..u32::try_from(KEYS).expect("keys are few") {
            reader.saw(read, key, found.get(&key).copied());
        }
        history.clients.push(reader);
        check(&history).assert_sound();
    }

    /// The parent writes, too, one thing after the other.
    fn write(&mut self, s: usize, db: &Db) {
        let families = plan::families(db);
        for _ in 0..1 + self.rng.below(20) {
            let thread = self.rng.below(THREADS);
            let store = &mut self.stores[s];
            let operation = operation(self.seed, s, thread, store.next[thread]);
            store.next[thread] += 1;
            let (_, commit) = operation.write(db, &families).unwrap();
            if let Some(commit) = commit {
                commit.wait().unwrap();
            }
            for write in &operation.writes {
                match write.put {
                    true => store.state.insert(write.key, operation.stamp),
                    false => store.state.remove(&write.key),
                };
            }
        }
    }
}

/// Waits for a report; false at the end of the output.
fn next_report(lines: &mut BufReader<ChildStdout>, child: &mut Child) -> bool {
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).unwrap() == 0 {
            return false;
        }
        if line.starts_with('@') {
            return true;
        }
        // The rest is the test harness's.
        assert!(!line.contains("panicked"), "child {}: {line}", child.id());
    }
}

/// All that the store holds, both ways.
fn read(db: &Db) -> HashMap<u32, Stamp> {
    let mut found = HashMap::new();
    for (of, family) in plan::families_found(db).into_iter().enumerate() {
        let Some(family) = family else { continue };
        let mut names = Vec::new();
        for entry in family.iter() {
            let (name, value) = entry.unwrap();
            let key = plan::key(&name);
            assert_eq!(plan::family(key), of);
            assert_eq!(found.insert(key, plan::stamp(&value)), None);
            assert_eq!(family.get(&name).unwrap(), Some(value));
            names.push(name);
        }
        if let Some(blob) = family.metadata().unwrap() {
            found.insert(plan::metadata(of), plan::stamp(&blob));
        }
        let back: Vec<_> = family.iter().rev().map(|entry| entry.unwrap().0).collect();
        assert!(back.iter().rev().eq(&names), "both ways");
    }
    found
}
