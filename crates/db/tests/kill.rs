//! A child process writes; the parent kills it with SIGKILL, opens the database and compares it with
//! what the child had reported, over and over in one database.
//!
//! The child's threads run streams of numbered operations that follow from a seed, each on keys of
//! its own. After each operation that returned the child reports its number. So of each stream the
//! database must hold exactly the effects of the reported operations, in order, and possibly those
//! of one more, which was in flight: nothing acknowledged is lost, no batch is there by half (all
//! its keys carry the same number), and there is no gap. Some batches are transactions, and some of those are prepared first.
//!
//! The child is this test binary itself, told by an environment variable to run [`child`].
#![expect(
    clippy::disallowed_methods,
    reason = "tests look at files from outside"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use thermocline::options::RegionDemand;
use thermocline::{CfOptions, ColumnFamily, Db, Durability, Isolation, Options, TxnOptions};
use thermocline_testkit::{Replay, Rng, seeds};

const CHILD: &str = "THERMOCLINE_KILL_CHILD";
const KEYS: usize = 60;

/// Key and value of each family.
type Model = [BTreeMap<Vec<u8>, Vec<u8>>; 2];

/// One operation: what it sets (`Some`) or removes, and in which family.
type Op = Vec<(usize, Vec<u8>, Option<Vec<u8>>)>;

/// The `number`-th operation of a stream.
fn operation(seed: u64, stream: u64, number: u64) -> Op {
    let mut rng = Rng::new(seed ^ (stream << 56) ^ number.wrapping_mul(0x1000_0001));
    rng.next_u64();
    let key = |rng: &mut Rng| format!("{stream}/{:04}", rng.below(KEYS)).into_bytes();
    let value = |rng: &mut Rng| {
        let len = match rng.below(20) {
            0 => 0,
            1 => rng.below(20_000),
            _ => rng.below(600),
        };
        let mut value = format!("{number} ").into_bytes();
        value.resize(value.len() + len, b"abcdefgh"[rng.below(8)]);
        value
    };
    match rng.below(10) {
        0..5 => vec![(rng.below(2), key(&mut rng), Some(value(&mut rng)))],
        5..7 => vec![(rng.below(2), key(&mut rng), None)],
        _ => {
            let mut op = Op::new();
            for i in 0..2 + rng.below(8) {
                let deletes = rng.one_in(5);
                let value = (!deletes).then(|| value(&mut rng));
                op.push((i % 2, key(&mut rng), value));
            }
            op
        }
    }
}

fn apply(model: &mut Model, op: Op) {
    for (family, key, value) in op {
        match value {
            Some(value) => model[family].insert(key, value),
            None => model[family].remove(&key),
        };
    }
}

fn write(db: &Db, families: &[ColumnFamily; 2], op: &Op) -> thermocline::Result<()> {
    if let [(family, key, value)] = &op[..] {
        return match value {
            Some(value) => families[*family].put(key, value),
            None => families[*family].delete(key),
        };
    }
    // Some as transactions: of either kind, and then as one over both families.
    let kinds = [TxnOptions::pessimistic(), TxnOptions::optimistic()];
    if let Some(kind) = kinds.get(op.len() % 4) {
        let mut txn = db.transaction(kind.isolation(Isolation::Serializable))?;
        for (family, key, value) in op {
            let family = &families[*family];
            // Nobody else writes these keys.
            txn.get_cf(family, key)?;
            match value {
                Some(value) => txn.put_cf(family, key, value)?,
                None => txn.delete_cf(family, key)?,
            }
        }
        // Of the long ones the kill may leave one between the two halves.
        if op.len() < 8 {
            return txn.commit();
        }
        let stream = op[0].1.split(|&byte| byte == b'/').next().unwrap();
        return txn.prepare(stream)?.commit();
    }
    let mut batch = db.batch();
    for (family, key, value) in op {
        match value {
            Some(value) => batch.put_cf(&families[*family], key, value),
            None => batch.delete_cf(&families[*family], key),
        };
    }
    batch.commit(Durability::Immediate)
}

fn families(db: &Db) -> [ColumnFamily; 2] {
    ["default", "other"].map(|name| db.column_family(name, CfOptions::default()).unwrap())
}

/// Small sizes, so that memtables, parts of the region and manifests change all the time.
fn options(rng: &mut Rng, pm_path: Option<PathBuf>) -> Options {
    let mut options = Options {
        pm: 256 << 20,
        dram: 256 << 20,
        pm_path,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = *rng.pick(&[64 << 10, 150_000, 1 << 20]);
    options.memtable.idle_ms = *rng.pick(&[0, 1, 20]);
    options.memtable.replay_threads = *rng.pick(&[0, 1, 3]);
    options.manifest.bytes_max = *rng.pick(&[512, 4096, 1 << 20]);
    options.blob.inline_bytes_max = *rng.pick(&[300, 1 << 20, 1 << 20]);
    // A folder of this name is for logs: then records lie in DRAM.
    if let Some(logs) = options.pm_path.take_if(|path| path.ends_with(LOGS)) {
        options.set("preset", "leveled").unwrap();
        options.wal_path = Some(logs);
    }
    options
}

/// The folder for logs.
const LOGS: &str = "logs";

/// What the child is told.
struct Task {
    /// `write`, `reopen` (write one operation, close, open, and so on) or `create`.
    what: &'static str,
    dir: PathBuf,
    pm_path: Option<PathBuf>,
    /// From which the options follow.
    options_seed: u64,
    seed: u64,
    /// The next number of each stream.
    next: Vec<u64>,
}

impl Task {
    fn start(&self) -> Reports {
        let pm_path = self.pm_path.as_deref().unwrap_or(Path::new(""));
        let next: Vec<String> = self.next.iter().map(u64::to_string).collect();
        let text = format!(
            "{}\n{}\n{}\n{}\n{}\n{}",
            self.what,
            self.dir.display(),
            pm_path.display(),
            self.options_seed,
            self.seed,
            next.join(" ")
        );
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(CHILD, text)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Reports {
            child,
            lines,
            seen: 0,
        }
    }
}

/// A running child and what it reports.
struct Reports {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    seen: usize,
}

impl Reports {
    /// The next report; `None` at the end of the last one.
    fn next(&mut self) -> Option<(char, u64, u64)> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // A line without its end was cut by the kill; the rest is the test harness's.
            let Some(rest) = line.strip_prefix('@').and_then(|l| l.strip_suffix('\n')) else {
                assert!(!line.contains("panicked"), "{line}");
                continue;
            };
            self.seen += 1;
            let mut words = rest.split(' ');
            let kind = words.next().unwrap().chars().next().unwrap();
            let mut number = || words.next().unwrap().parse().unwrap();
            return Some((kind, number(), number()));
        }
    }

    /// Kills the child; it must have been alive.
    fn kill(&mut self) {
        assert!(
            self.child.try_wait().unwrap().is_none(),
            "the child ended by itself"
        );
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Not a test of its own: what the child does when a parent has started it.
#[test]
fn child() {
    let Ok(task) = std::env::var(CHILD) else {
        return;
    };
    let lines: Vec<&str> = task.split('\n').collect();
    let [what, dir, pm_path, options_seed, seed, next] = lines[..] else {
        panic!("a bad task: {task}");
    };
    let seed: u64 = seed.parse().unwrap();
    let next: Vec<u64> = next.split(' ').map(|n| n.parse().unwrap()).collect();
    let pm_path = (!pm_path.is_empty()).then(|| PathBuf::from(pm_path));
    let mut rng = Rng::new(options_seed.parse().unwrap());
    println!();
    report('o', 0, 0);
    if what == "write" {
        let db = Db::open(dir, options(&mut rng, pm_path.clone())).unwrap();
        write_for_ever(&db, seed, &next);
    }
    let mut number = next[0];
    loop {
        let db = Db::open(dir, options(&mut rng, pm_path.clone())).unwrap();
        report('o', 0, 0);
        if what == "reopen" {
            let families = families(&db);
            write(&db, &families, &operation(seed, 0, number)).unwrap();
            report('a', 0, number);
            number += 1;
        }
        drop(db);
        report('c', 0, 0);
        if what == "create" {
            std::process::exit(0);
        }
    }
}

fn report(kind: char, stream: u64, number: u64) {
    let line = format!("@{kind} {stream} {number}\n");
    // One system call, so that a report is there or not. The parent may be gone.
    if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
        std::process::exit(1);
    }
}

fn write_for_ever(db: &Db, seed: u64, next: &[u64]) {
    let families = families(db);
    std::thread::scope(|scope| {
        for (stream, &next) in (0..).zip(next) {
            let families = families.clone();
            scope.spawn(move || {
                for number in next.. {
                    write(db, &families, &operation(seed, stream, number)).unwrap();
                    report('a', stream, number);
                }
            });
        }
    });
}

/// What the parent knows.
struct Parent {
    rng: Rng,
    seed: u64,
    dir: PathBuf,
    pm_path: Option<PathBuf>,
    demand: RegionDemand,
    models: Vec<Model>,
    /// The last number of each stream whose effects are in the model.
    last: Vec<u64>,
    in_flight_kept: u64,
    /// Transactions that were prepared when a child was killed.
    between: u64,
    recovered_after_crash: u64,
}

impl Parent {
    /// With records in DRAM, and logs in a folder of their own.
    fn logged(seed: u64, home: &Path) -> Parent {
        Parent {
            pm_path: Some(home.join(LOGS)),
            ..Parent::new(seed, home, RegionDemand::Any)
        }
    }

    fn new(seed: u64, home: &Path, demand: RegionDemand) -> Parent {
        let mut rng = Rng::new(seed);
        let streams = 1 + rng.below(3);
        // The region in the database's folder, in a folder of its own, or a file of its own.
        let pm_path = match rng.below(3) {
            0 => None,
            1 => {
                let folder = home.join("pm");
                std::fs::create_dir(&folder).unwrap();
                Some(folder)
            }
            _ => Some(home.join("region")),
        };
        Parent {
            rng,
            seed,
            dir: home.join("db"),
            pm_path,
            demand,
            models: vec![Model::default(); streams],
            last: vec![0; streams],
            in_flight_kept: 0,
            between: 0,
            recovered_after_crash: 0,
        }
    }

    fn task(&mut self, what: &'static str) -> Task {
        Task {
            what,
            dir: self.dir.clone(),
            pm_path: self.pm_path.clone(),
            options_seed: self.rng.next_u64(),
            seed: self.seed,
            next: self.last.iter().map(|n| n + 1).collect(),
        }
    }

    /// Lets a child run until it has reported `reports` times and a little longer, kills it, and
    /// takes note of everything that it reported.
    fn run(&mut self, what: &'static str, reports: usize, linger_us: u64) {
        let mut child = self.task(what).start();
        let mut acknowledged = self.last.clone();
        let mut note = |(kind, stream, number): (char, u64, u64)| {
            if kind == 'a' {
                let stream = usize::try_from(stream).unwrap();
                assert_eq!(number, acknowledged[stream] + 1, "stream {stream}");
                acknowledged[stream] = number;
            }
        };
        while child.seen < reports {
            note(child.next().expect("the child goes on until it is killed"));
        }
        // Only moves the kill to some point between two reports; the verdict holds for every point.
        std::thread::sleep(Duration::from_micros(linger_us));
        child.kill();
        while let Some(report) = child.next() {
            note(report);
        }
        for (stream, to) in acknowledged.into_iter().enumerate() {
            for number in self.last[stream] + 1..=to {
                apply(
                    &mut self.models[stream],
                    operation(self.seed, stream as u64, number),
                );
            }
            self.last[stream] = to;
        }
    }

    /// Opens the database and compares it with the models; what was in flight may be there.
    fn check(&mut self) {
        let mut seed = Rng::new(self.rng.next_u64());
        let mut options = options(&mut seed, self.pm_path.clone());
        options.region = self.demand;
        let report = Db::verify(&self.dir, options.clone()).unwrap();
        assert_eq!(report.faults, [], "verify after the kill");
        if self.rng.one_in(4) {
            options.read_only = true;
            self.compare(&options);
            options.read_only = false;
        }
        let db = self.compare(&options);
        self.recovered_after_crash += u64::from(db.metrics().recovery.after_crash);
        if self.rng.one_in(2) {
            // The parent writes too, and sometimes leaves closing to the drop.
            let families = families(&db);
            for stream in 0..self.last.len() {
                let number = self.last[stream] + 1;
                let op = operation(self.seed, stream as u64, number);
                write(&db, &families, &op).unwrap();
                apply(&mut self.models[stream], op);
                self.last[stream] = number;
            }
        }
        drop(db);
        let report = Db::verify(&self.dir, options).unwrap();
        assert_eq!(report.faults, [], "verify after closing");
    }

    fn compare(&mut self, options: &Options) -> Db {
        let db = Db::open(&self.dir, options.clone()).unwrap();
        // What is between the two halves of its commit was in flight: it may be there or not, and is known by its stream.
        for prepared in db.prepared().unwrap() {
            let stream: usize = str::from_utf8(&prepared.name).unwrap().parse().unwrap();
            assert!(stream < self.models.len(), "{prepared:?}");
            match (options.read_only, self.rng.one_in(2)) {
                (true, _) => {}
                (_, true) => db.commit_prepared(&prepared.name).unwrap(),
                (_, false) => db.roll_back_prepared(&prepared.name).unwrap(),
            }
            self.between += 1;
        }
        let found = ["default", "other"].map(|name| match db.find_column_family(name) {
            None => BTreeMap::new(),
            Some(family) => {
                let entries = family.iter().map(|entry| entry.unwrap());
                let found: BTreeMap<Vec<u8>, Vec<u8>> = entries
                    .map(|(key, value)| (key, value.into_vec()))
                    .collect();
                let reverse: Vec<_> = family.iter().rev().map(|e| e.unwrap().0).collect();
                assert!(reverse.iter().rev().eq(found.keys()), "both ways");
                found
            }
        });
        for stream in 0..self.models.len() {
            let prefix = format!("{stream}/").into_bytes();
            let own: Model = found.clone().map(|mut entries| {
                entries.retain(|key, _| key.starts_with(&prefix));
                entries
            });
            if own == self.models[stream] {
                continue;
            }
            let number = self.last[stream] + 1;
            let mut next = self.models[stream].clone();
            apply(&mut next, operation(self.seed, stream as u64, number));
            assert!(
                own == next,
                "stream {stream} after {} reported operations: {}",
                self.last[stream],
                difference(&own, &self.models[stream])
            );
            self.models[stream] = next;
            self.last[stream] = number;
            self.in_flight_kept += 1;
        }
        let known: usize = self.models.iter().flatten().map(BTreeMap::len).sum();
        assert_eq!(found.iter().map(BTreeMap::len).sum::<usize>(), known);
        db
    }
}

/// Where the found and the expected differ first.
fn difference(found: &Model, expected: &Model) -> String {
    let head = |value: Option<&Vec<u8>>| {
        value.map(|v| String::from_utf8_lossy(&v[..v.len().min(20)]).into_owned())
    };
    for family in 0..2 {
        for key in found[family].keys().chain(expected[family].keys()) {
            let pair = [found, expected].map(|model| model[family].get(key));
            if pair[0] != pair[1] {
                let key = String::from_utf8_lossy(key);
                let [found, expected] = pair.map(head);
                return format!("family {family} key {key}: found {found:?}, not {expected:?}");
            }
        }
    }
    "no difference".into()
}

/// A folder on a file system of this kind; `None` if the machine has none.
fn home(demand: RegionDemand) -> Option<tempfile::TempDir> {
    match demand {
        RegionDemand::Shm => {
            let shm = Path::new("/dev/shm");
            shm.is_dir()
                .then(|| tempfile::tempdir_in(shm).ok())
                .flatten()
        }
        _ => Some(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()),
    }
}

/// Kills in `rounds` databases, `kills` times in each.
fn kill_loop(demand: RegionDemand, usual: std::ops::Range<u64>, kills: usize) {
    kill_stores(demand, usual, kills, |seed, home| {
        Parent::new(seed, home, demand)
    });
}

fn kill_stores(
    demand: RegionDemand,
    usual: std::ops::Range<u64>,
    kills: usize,
    parent: impl Fn(u64, &Path) -> Parent,
) {
    let (mut kept, mut recovered, mut between) = (0, 0, 0);
    for seed in seeds(usual) {
        let _replay = Replay::new("-p thermocline --test kill", seed);
        let Some(home) = home(demand) else {
            eprintln!("no place for a region of kind {demand:?} here: not tested");
            return;
        };
        let mut parent = parent(seed, home.path());
        // The first child makes the database, and may be killed at that.
        let wait = parent.rng.below(3000) as u64;
        parent.run("write", 1, wait);
        for _ in 0..kills {
            if exists(&parent.dir) {
                parent.check();
            }
            let reports = 1 + parent.rng.below(400);
            let linger_us = parent.rng.below(1000) as u64;
            match parent.rng.below(4) {
                0 => parent.run("reopen", 1 + reports % 20, 5 * linger_us),
                // Killed while it recovers from the kill before.
                1 => parent.run("write", 1, 5 * linger_us),
                _ => parent.run("write", reports, linger_us),
            }
        }
        parent.check();
        kept += parent.in_flight_kept;
        recovered += parent.recovered_after_crash;
        between += parent.between;
    }
    println!(
        "{demand:?}: {recovered} opens after a crash, {kept} writes in flight were kept, {between} transactions were \
         found prepared"
    );
    assert!(recovered > 0 || std::env::var("THERMOCLINE_SEED").is_ok());
}

fn exists(dir: &Path) -> bool {
    dir.join("CURRENT").exists()
}

#[test]
fn a_writer_on_an_ordinary_file_is_killed() {
    kill_loop(RegionDemand::File, 100..103, 12);
}

#[test]
fn a_writer_on_shared_memory_is_killed() {
    kill_loop(RegionDemand::Shm, 200..206, 12);
}

/// What a killed process has written lies in the page cache or on the disk: recovery must sync it.
#[test]
fn a_writer_of_logs_is_killed() {
    kill_stores(RegionDemand::File, 300..301, 10, Parent::logged);
    kill_stores(RegionDemand::Shm, 310..312, 10, Parent::logged);
}

#[test]
fn a_creator_is_killed() {
    let mut rng = Rng::new(3);
    let mut unborn = 0;
    for n in 0..24 {
        let home = home(RegionDemand::Any).unwrap();
        let mut parent = Parent::new(rng.next_u64(), home.path(), RegionDemand::Any);
        let mut child = parent.task("create").start();
        child.next().unwrap();
        let linger_us = rng.below(6_000) << (n % 5);
        std::thread::sleep(Duration::from_micros(linger_us as u64));
        let _ = child.child.kill();
        child.child.wait().unwrap();
        unborn += u32::from(!exists(&parent.dir));
        if n % 2 == 0 && !exists(&parent.dir) {
            let options = Options {
                create_if_missing: false,
                pm_path: parent.pm_path.clone(),
                ..Options::default()
            };
            let error = Db::open(&parent.dir, options).unwrap_err().to_string();
            assert!(error.contains("no database"), "{error}");
        }
        // What the child left is opened, or made anew.
        let db = parent.compare(&options(&mut rng.clone(), parent.pm_path.clone()));
        let families = families(&db);
        families[1].put("k", "v").unwrap();
        db.close().unwrap();
        let db = Db::open(&parent.dir, options(&mut rng, parent.pm_path.clone())).unwrap();
        let other = db.find_column_family("other").unwrap();
        assert_eq!(other.get("k").unwrap().as_deref(), Some(&b"v"[..]));
    }
    println!("{unborn} of 24 were killed before the database existed");
}
