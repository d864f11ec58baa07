//! What is known not to have happened is an error, and no more: no descriptor, no room, no file where one was to be
//! made. From some call on all of a kind are refused; after the first error that anybody is told they are not any more,
//! and then everything must go on, with exactly what was acknowledged.

use thermocline_engine::IngestWriter;

use super::*;

const TABLE: &str = "/home/table.sst";

struct Story {
    machine: Machine,
    model: Map,
    errors: u64,
    what: String,
}

impl Story {
    fn world(&self) -> World {
        self.machine.world()
    }

    /// Tries what may be refused; then it must work.
    fn twice<T>(&mut self, step: &str, mut call: impl FnMut() -> Result<T>) -> T {
        let error = match call() {
            Ok(done) => return done,
            Err(error) => error,
        };
        self.machine.disk.disarm();
        self.errors += 1;
        assert_ne!(error.kind(), ErrorKind::Poisoned, "{}, {step}", self.what);
        call().unwrap_or_else(|again| panic!("{}, {step}: {again} after {error}", self.what))
    }

    fn check(&mut self, engine: &Engine, step: &str) {
        let found = self.twice(step, || entries(engine));
        let (now, then) = (found.len(), self.model.len());
        assert!(
            found == self.model,
            "{}, {step}: {now}, not {then}",
            self.what
        );
    }

    /// Writes so many keys with values of this length.
    fn write(&mut self, engine: &Engine, step: &str, keys: u32, len: usize) {
        let mut batch = WriteBatch::new();
        let mut after = self.model.clone();
        for key in 0..keys {
            let key = format!("{step} {key:02}").into_bytes();
            batch.put(CfId::DEFAULT, &key, &vec![b'v'; len]).unwrap();
            after.insert(("default".to_string(), key), vec![b'v'; len]);
        }
        self.twice(step, || engine.write(batch.iter(), Durability::Immediate));
        self.model = after;
        self.check(engine, step);
    }

    fn open(&mut self, step: &str) -> Engine {
        let world = self.world();
        let engine = self.twice(step, || Engine::open(world.clone(), dir(), options()));
        self.check(&engine, step);
        engine
    }

    fn tell(&mut self) {
        let engine = self.open("create");
        self.write(&engine, "first", 3, 300);
        self.write(&engine, "batch", 24, 800);
        for n in 0..8 {
            self.write(&engine, &format!("some {n}"), 1, 900);
        }
        self.twice("flush", || engine.flush());
        self.check(&engine, "flush");
        let family = self.twice("family", || engine.family("other", &CfOptions::default()));
        self.write(&engine, "more", 2, 900);
        self.twice("ingest", || {
            engine.ingest(CfId::DEFAULT, &[Path::new(TABLE)])
        });
        let ingested = ("default".to_string(), b"ingested".to_vec());
        self.model.insert(ingested, b"value".to_vec());
        self.check(&engine, "ingest");
        self.write(&engine, "batch again", 24, 800);
        assert!(
            engine
                .find_family("other")
                .is_some_and(|f| f.id == family.id)
        );
        self.twice("drop", || engine.drop_family("other"));
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        self.twice("compact", || engine.compact(CfId::DEFAULT, all));
        self.check(&engine, "compact");
        // A full disk may keep it from cutting its chain.
        let _ = engine.close();
        drop(engine);
        let engine = self.open("open");
        self.write(&engine, "last", 2, 900);
        let _ = engine.close();
    }
}

fn machine() -> Machine {
    let machine = Machine::new();
    let storage: Arc<dyn thermocline_env::Storage> = Arc::new(machine.fs.clone());
    storage.create_dir_all(Path::new("/home")).unwrap();
    let env = Env {
        storage,
        ..Env::real()
    };
    let mut table = IngestWriter::create(&env, Path::new(TABLE)).unwrap();
    table.put(b"ingested", b"value").unwrap();
    table.finish().unwrap();
    machine
}

fn story(machine: Machine, what: String) -> Story {
    Story {
        machine,
        model: Map::new(),
        errors: 0,
        what,
    }
}

/// From every call on that `fault` can befall and that is of kind `op`, or in a plain run from a share of them. Returns how many stories there were, and in how
/// many somebody was told.
fn from_every_call(fault: Fault, op: Op) -> (u64, u64) {
    let mut whole = story(machine(), "nothing fails".into());
    whole.tell();
    let calls = whole.machine.disk.calls_for(fault, Some(op));
    let (mut stories, mut told) = (0, 0);
    for at in (0..calls).step_by(usize::try_from(one_in(ONE_IN)).unwrap()) {
        let what = format!("{fault:?} from {op:?} {at} of {calls} on");
        let mut story = story(machine(), what);
        let repeat = Repeat::Forever;
        story.machine.disk.arm(Plan {
            fault,
            op: Some(op),
            at,
            repeat,
        });
        story.tell();
        stories += 1;
        told += story.errors.min(1);
    }
    (stories, told)
}

fn refused(faults: &[(Fault, &[Op])]) {
    for &(fault, ops) in faults {
        for &op in ops {
            let (stories, told) = from_every_call(fault, op);
            println!("{fault:?} at {op:?}: {stories} stories, {told} with an error");
        }
    }
}

const OPENS: &[Op] = &[Op::Open, Op::Create, Op::List, Op::SyncDir, Op::Lock];
const MAKES: &[Op] = &[Op::Create, Op::Rename, Op::Link];

#[test]
fn nothing_has_happened_and_all_goes_on() {
    refused(&[
        (Fault::NoDescriptor, OPENS),
        (Fault::NoSpace, MAKES),
        (Fault::NoSpace, &[Op::Write, Op::Allocate]),
        (Fault::Quota, &[Op::Create, Op::Write]),
        (Fault::Eio, &[Op::Open, Op::Create, Op::Allocate]),
    ]);
}

#[test]
fn nothing_has_happened_to_long_values_and_all_goes_on() {
    LONG.set(true);
    refused(&[
        (Fault::NoDescriptor, OPENS),
        (Fault::NoSpace, &[Op::Create, Op::Write]),
        (Fault::Eio, &[Op::Create]),
    ]);
}

/// What is granted and cannot be written to its log has begun to happen, so writes are not among these.
#[test]
fn nothing_has_happened_to_logs_and_all_goes_on() {
    LOGGED.set(true);
    refused(&[
        (Fault::NoDescriptor, OPENS),
        (Fault::NoSpace, MAKES),
        (Fault::Eio, &[Op::Open, Op::Create]),
    ]);
}
