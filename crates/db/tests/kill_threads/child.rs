//! The process that is killed.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use thermocline::{ColumnFamily, Commit, Db, Snapshot};
use thermocline_testkit::Rng;
use thermocline_testkit::history::Clock;

use crate::board::Notes;
use crate::plan::{self, THREADS, operation};
use crate::{Where, options};

/// The environment variable that tells the child what to do.
pub(crate) const TASK: &str = "THERMOCLINE_KILL_THREADS_CHILD";

/// What the child is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Task {
    pub place: Where,
    pub home: PathBuf,
    pub boards: PathBuf,
    /// From which the options follow.
    pub options_seed: u64,
    pub seed: u64,
    /// The number of each thread's next operation, for each store.
    pub next: Vec<Vec<u32>>,
}

impl Task {
    pub fn text(&self) -> String {
        let next = self.next.iter().map(|store| {
            let numbers: Vec<String> = store.iter().map(u32::to_string).collect();
            numbers.join(" ")
        });
        let next: Vec<String> = next.collect();
        format!(
            "{}\n{}\n{}\n{}\n{}\n{}",
            format_args!("{:?}", self.place),
            self.home.display(),
            self.boards.display(),
            self.options_seed,
            self.seed,
            next.join("\n")
        )
    }

    pub fn parse(text: &str) -> Task {
        let mut lines = text.split('\n');
        let mut line = || lines.next().expect("a task has all lines");
        let (place, home, boards) = (Where::of(line()), line().into(), line().into());
        let (options_seed, seed) = (line().parse().unwrap(), line().parse().unwrap());
        let numbers = |line: &str| line.split(' ').map(|n| n.parse().unwrap()).collect();
        Task {
            place,
            home,
            boards,
            options_seed,
            seed,
            next: lines.map(numbers).collect(),
        }
    }
}

pub(crate) fn dir(home: &Path, store: usize) -> PathBuf {
    home.join(format!("store {store}"))
}

/// Reports on stdout, in one system call. The parent may be gone.
fn report(what: char) {
    let line = format!("@{what}\n");
    if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
        std::process::exit(1);
    }
}

/// Opens the stores and writes until it is killed.
pub(crate) fn run(task: &Task) {
    // A thread that fails ends them all, so that the parent learns.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        hook(info);
        std::process::exit(101);
    }));
    println!();
    report('s');
    let mut rng = Rng::new(task.options_seed);
    let stores: Vec<(Db, Vec<ColumnFamily>)> = (0..task.next.len())
        .map(|store| {
            let db = {
                let options = options(&mut rng);
                task.place.open(&dir(&task.home, store), &options, &mut rng)
            };
            let families = plan::families(&db);
            (db, families)
        })
        .collect();
    report('o');
    let clock = Clock::default();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (stores, clock) = (&stores, &clock);
            scope.spawn(move || {
                let streams = stores.iter().enumerate().map(|(store, (db, families))| {
                    let next = task.next[store][thread];
                    Stream {
                        db,
                        families,
                        notes: Notes::create(&task.boards, store, thread),
                        store,
                        thread,
                        next,
                        first: next,
                        open: None,
                        held: None,
                    }
                });
                let mut streams: Vec<Stream<'_>> = streams.collect();
                // Not all streams equally often, so that stores are at different points.
                let mut rng = Rng::new(task.options_seed ^ thread as u64);
                loop {
                    let at = rng.below(streams.len());
                    streams[at].step(task.seed, clock);
                    if thread == 0 {
                        report('a');
                    }
                }
            });
        }
    });
}

/// What keys had at a moment.
type Shown = HashMap<u32, Option<Vec<u8>>>;

/// A thread's operations in one store.
struct Stream<'s> {
    db: &'s Db,
    families: &'s [ColumnFamily],
    notes: Notes,
    store: usize,
    thread: usize,
    first: u32,
    next: u32,
    /// A commit that goes on.
    open: Option<Commit>,
    /// A moment, with what it showed of some keys.
    held: Option<(Snapshot, Shown)>,
}

impl Stream<'_> {
    fn step(&mut self, seed: u64, clock: &Clock) {
        let operation = operation(seed, self.store, self.thread, self.next);
        let n = u64::from(self.next - self.first);
        self.notes.begins(n, clock.step());
        let (durable, commit) = operation.write(self.db, self.families).unwrap();
        self.notes.is_acknowledged(n, clock.step(), durable);
        if let Some(commit) = commit
            && let Some(before) = self.open.replace(commit)
        {
            before.wait().unwrap();
        }
        self.next += 1;
        if self.next.is_multiple_of(16) {
            self.hold();
        }
    }

    /// What is held still shows what it showed; then another moment is taken.
    fn hold(&mut self) {
        if let Some((snapshot, shown)) = self.held.take() {
            assert_eq!(self.look(&snapshot), shown, "a snapshot changed");
        }
        let snapshot = self.db.snapshot();
        let shown = self.look(&snapshot);
        self.held = Some((snapshot, shown));
    }

    fn look(&self, snapshot: &Snapshot) -> Shown {
        let named = plan::metadata(0);
        let keys = (0..).map(|i| 7 * i).take_while(|&key| key < named);
        let values = keys.map(|key| {
            let there = snapshot.column_family(&self.families[plan::family(key)]);
            let value = there.unwrap().get(plan::name(key)).unwrap();
            (key, value.map(thermocline::Value::into_vec))
        });
        values.collect()
    }
}
