//! One execution.

use std::ops::Bound;
use std::sync::Arc;

use shuttle::rand::{Rng, thread_rng};
use thermocline_base::ErrorKind;
use thermocline_base::sync::thread;
use thermocline_engine::{Durability, Snapshot};

use crate::oracle::{Bounds, Oracle, WRITERS, Writes};
use crate::place::{Instant, LONG, Open, Place, Taken};
use crate::reached::Reached;
use crate::seen::{Form, Seen, batch, bytes_of, check_third, own_now};

/// Writes of a writer, at most.
const WRITES: u64 = 4;

/// Snapshots that a reader takes.
const LOOKS: usize = 3;

/// Keys that a reader gets outside of snapshots before each.
const GETS: usize = 8;

/// Steps that a reader lets others go on for behind each where compactions filter: those that run come to their end while it reads.
const STANDS_STILL: usize = 400;

/// What somebody does who has an eye on the store.
const CHORES: usize = 4;

/// Points at which something becomes durable, in about the longest executions.
const POINTS: u64 = 64;

/// An open store and what is known about it, for each thread.
#[derive(Clone)]
struct Store {
    open: Open,
    oracle: Arc<Oracle>,
    reached: Arc<Reached>,
}

/// How a write is acknowledged.
#[derive(Debug, Clone, Copy)]
enum Ack {
    Durable,
    Visible,
    Callback,
}

/// Runs the workload, in an execution of shuttle's. What it does is drawn from the execution's random
/// numbers.
///
/// # Panics
/// If anybody sees what must not be.
pub fn run_workload(reached: &Arc<Reached>) {
    Reached::count(&reached.executions);
    let place = Place::draw(reached);
    let store = Store {
        open: place.open(),
        oracle: Arc::default(),
        reached: reached.clone(),
    };
    let mut rng = thread_rng();
    let mut writes = Writes::default();
    let writers = rng.gen_range(2..=WRITERS);
    writes[..writers].fill_with(|| rng.gen_range(1..=WRITES));
    let crashes = rng.gen_bool(0.75);
    let taken = crashes.then(|| place.take_at(rng.gen_range(1..POINTS), &store.oracle));
    let mut threads: Vec<_> = (0..writers)
        .map(|writer| {
            let place = place.clone();
            store.spawn(move |store| store.write(&place, writer, writes[writer]))
        })
        .collect();
    // One more where compactions filter: who comes while they run sees what would change.
    for _ in 0..1 + usize::from(store.open.filters) {
        threads.push(store.spawn(Store::read));
    }
    threads.push(store.spawn(Store::do_chores));
    for thread in threads {
        thread.join().unwrap();
    }
    store.check_all(writes, "at the end");
    if let Some(instant) = taken.and_then(Taken::get) {
        store.check_after_crash(&place, &instant);
    }
    store.close_and_open(&place, writes);
}

impl Store {
    fn spawn(&self, f: impl FnOnce(&Store) + Send + 'static) -> thread::JoinHandle<()> {
        let store = self.clone();
        thread::spawn(move || f(&store))
    }

    /// What a snapshot shows, by all ways to look.
    fn look_at(&self, snapshot: &Snapshot, who: &str) -> Seen {
        let families = self.open.families;
        let seen = Seen::by_gets(snapshot, families, who);
        let back = thread_rng().gen_bool(0.5);
        let scanned = Seen::by_cursors(snapshot, families, back, who);
        assert_eq!(scanned, seen, "{who}: cursors do not show what gets do");
        seen
    }

    /// Takes a snapshot and looks.
    fn look(&self, who: &str) -> (Snapshot, Seen) {
        let least = self.oracle.visible();
        let snapshot = self.open.engine.snapshot();
        let seen = self.look_at(&snapshot, who);
        let most = self.oracle.started();
        Bounds { least, most }.check(&seen, who);
        (snapshot, seen)
    }

    fn write(&self, place: &Place, writer: usize, writes: u64) {
        let engine = &self.open.engine;
        for n in 1..=writes {
            let long = thread_rng().gen_ratio(place.long_percent, 100);
            let form = Form {
                ranges: place.ranges,
                value_bytes: if long { LONG } else { 0 },
            };
            let batch = batch(self.open.families, writer, n, form);
            let before = self.oracle.visible();
            let mut upto = before;
            upto[writer] = n;
            self.oracle.begins(writer, n);
            let ack = [Ack::Durable, Ack::Durable, Ack::Visible, Ack::Callback];
            match ack[thread_rng().gen_range(0..ack.len())] {
                Ack::Durable => {
                    engine.write(batch.iter(), Durability::Immediate).unwrap();
                    self.oracle.are_durable(upto);
                }
                Ack::Visible => {
                    engine.write(batch.iter(), Durability::Buffered).unwrap();
                }
                Ack::Callback => {
                    self.oracle.owes();
                    let oracle = self.oracle.clone();
                    let done = move |result: thermocline_base::Result<()>| {
                        result.unwrap();
                        oracle.are_durable(upto);
                        oracle.paid();
                    };
                    let committed = engine.write_with_callback(batch.iter(), false, Box::new(done));
                    committed.unwrap();
                }
            }
            match long {
                true if place.has_blobs() => Reached::count(&self.reached.separated),
                true => Reached::count(&self.reached.staged),
                false => {}
            }
            self.oracle.is_visible(writer, n);
            let family = self.open.families[usize::from(thread_rng().gen_bool(0.5))];
            assert_eq!(own_now(engine, family, writer), n, "writer {writer}");
        }
    }

    fn read(&self) {
        let mut held: Option<(Snapshot, Seen, Vec<_>)> = None;
        for _ in 0..LOOKS {
            // Only between the steps of a `get` can a whole batch come and be missed in part.
            for _ in 0..GETS {
                let writer = thread_rng().gen_range(0..WRITERS);
                check_third(&self.open.engine, self.open.families[0], writer);
                let least = self.oracle.visible()[writer];
                let own = own_now(&self.open.engine, self.open.families[1], writer);
                let most = self.oracle.started()[writer];
                let moment = (least..=most).contains(&own);
                assert!(moment, "{own} of writer {writer}, not in {least}..={most}");
            }
            let (snapshot, seen) = self.look("a reader");
            self.oracle.saw(snapshot.seqno().0, &seen);
            let bytes = bytes_of(&snapshot, self.open.families);
            if let Some((older, before, bytes)) = &held {
                assert!(older.seqno() <= snapshot.seqno(), "time goes back");
                let again = self.look_at(older, "a reader who looks again");
                assert_eq!(&again, before, "a snapshot has changed");
                let again = bytes_of(older, self.open.families);
                assert!(again == *bytes, "a snapshot has changed its bytes");
                Reached::count(&self.reached.looked_again);
            }
            if thread_rng().gen_bool(0.7) {
                held = Some((snapshot, seen, bytes));
            }
            if self.open.filters {
                (0..STANDS_STILL).for_each(|_| thread::yield_now());
            }
        }
    }

    fn do_chores(&self) {
        let engine = &self.open.engine;
        for _ in 0..CHORES {
            let chore = match self.open.filters && thread_rng().gen_bool(0.5) {
                true => 5,
                false => thread_rng().gen_range(0..8u8),
            };
            match chore {
                0 => engine.work_ahead().unwrap(),
                1 => engine.cover_idle().unwrap(),
                2 => {
                    engine.reclaim().unwrap();
                }
                3 => self.open.let_time_pass(),
                4 => {
                    engine.compact_once().unwrap();
                }
                5 => {
                    let family = self.open.families[usize::from(thread_rng().gen_bool(0.5))];
                    let all = (Bound::Unbounded, Bound::Unbounded);
                    if let Err(error) = engine.compact(family.id, all) {
                        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                    }
                }
                6 => {
                    // What is in flight is not flushed.
                    if let Err(error) = engine.flush() {
                        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                    }
                }
                _ => {
                    let visible = self.oracle.visible();
                    engine.sync().unwrap();
                    self.oracle.are_durable(visible);
                }
            }
        }
    }

    /// Checks that everything is as it must be when all threads have ended.
    fn check_all(&self, writes: Writes, who: &str) {
        let (_, seen) = self.look(who);
        assert_eq!(seen.writes, writes, "{who}");
    }

    fn check_after_crash(&self, place: &Place, instant: &Instant) {
        let open = place.after(instant).open();
        Reached::count(&self.reached.crashes);
        let oracle = Arc::default();
        let reached = self.reached.clone();
        let after = Store {
            open,
            oracle,
            reached,
        };
        let snapshot = after.open.engine.snapshot();
        let left = after.look_at(&snapshot, "after a crash");
        drop(snapshot);
        instant.bounds.check(&left, "after a crash");
        self.oracle.check_left(&left);
        after.open.engine.close().unwrap();
    }

    fn close_and_open(self, place: &Place, writes: Writes) {
        let Store {
            open,
            oracle,
            reached,
        } = self;
        reached.take_filters(open.engine.metrics().compaction.filters);
        open.engine.close().unwrap();
        drop(open);
        assert_eq!(oracle.owed(), 0, "callbacks that nobody has made");
        let open = place.open();
        let again = Store {
            open,
            oracle,
            reached,
        };
        again.check_all(writes, "after closing");
        again.open.engine.close().unwrap();
    }
}
