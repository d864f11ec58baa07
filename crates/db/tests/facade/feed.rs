//! Change feeds beside writers: a follower sees every batch once, whole and in order, and a replica becomes
//! what the database is.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use thermocline::{
    Backups, CfOptions, ChangeFeed, ChangeOp, Db, Durability, Error, ErrorKind, IngestWriter,
    Options,
};

const WRITERS: u64 = 4;
const ROUNDS: u64 = 1500;

/// Small enough that memtables are sealed, flushed and dropped all the time.
fn options() -> Options {
    let mut options = Options {
        pm: 8 << 20,
        ..Options::default()
    };
    options.memtable.bytes_max = 128 << 10;
    options.flush.pm_percent = 10;
    options.pm_region.part_bytes_first = 1 << 20;
    options
}

/// Batches of several keys, each with the writer's round.
fn write(db: &Db, writer: u64) {
    for round in 0..ROUNDS {
        let mut batch = db.batch();
        for part in 0..1 + round % 3 {
            let value = [&round.to_be_bytes()[..], &[7; 200]].concat();
            batch.put([writer.to_be_bytes(), part.to_be_bytes()].concat(), value);
        }
        let durability = match round % 2 {
            0 => Durability::Immediate,
            _ => Durability::Buffered,
        };
        batch.commit(durability).unwrap();
    }
}

/// What a follower has seen of each writer: its round, and how many keys of that.
#[derive(Default)]
struct Seen {
    of: BTreeMap<u64, (u64, u64)>,
    position: u64,
    groups: u64,
}

impl Seen {
    /// Whether something was given.
    fn follow(&mut self, feed: &mut ChangeFeed) -> Result<bool, Error> {
        let Some(group) = feed.next() else {
            return Ok(false);
        };
        let group = group?;
        assert_eq!(group.first(), self.position + 1, "without a gap, and once");
        for change in group.changes() {
            let change = change?;
            assert_eq!(change.seqno, self.position + 1);
            self.position = change.seqno;
            let ChangeOp::Put { key, value } = change.op else {
                panic!("{change:?}");
            };
            let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
            let (writer, part, round) = (number(&key[..8]), number(&key[8..]), number(&value[..8]));
            let before = self.of.insert(writer, (round, part));
            // Behind the last key of a batch comes the first one of the next.
            let next = match before {
                None => (0, 0),
                Some((round, part)) if part == round % 3 => (round + 1, 0),
                Some((round, part)) => (round, part + 1),
            };
            assert_eq!((round, part), next, "writer {writer}");
        }
        assert_eq!(group.last(), self.position);
        let whole = |(round, part): &(u64, u64)| *part == round % 3;
        assert!(self.of.values().all(whole), "no batch is torn");
        self.groups += 1;
        Ok(true)
    }
}

#[test]
fn a_follower_beside_writers_sees_every_batch_once_whole_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(folder.path().join("db"), options()).unwrap();
    let mut feed = db.changes_since(0).unwrap();
    let (running, written) = (AtomicU64::new(WRITERS), AtomicBool::new(false));
    let seen = thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (db, running) = (&db, &running);
            scope.spawn(move || {
                write(db, writer);
                running.fetch_sub(1, Ordering::SeqCst);
            });
        }
        let reader = scope.spawn(|| {
            let mut seen = Seen::default();
            loop {
                let done = written.load(Ordering::SeqCst);
                if seen.follow(&mut feed).unwrap() {
                    // Asked again by number, as after a pause; the memtable may be flushed by then.
                    if seen.groups.is_multiple_of(500) {
                        let resumed = db.changes_since(seen.position).unwrap();
                        feed = resumed;
                    }
                } else if done {
                    return seen;
                } else {
                    thread::yield_now();
                }
            }
        });
        while running.load(Ordering::SeqCst) > 0 {
            thread::yield_now();
        }
        db.sync().unwrap();
        written.store(true, Ordering::SeqCst);
        reader.join().unwrap()
    });
    assert_eq!(seen.of.len() as u64, WRITERS);
    assert!(seen.of.values().all(|(round, _)| *round == ROUNDS - 1));
    assert_eq!(seen.position, db.metrics().seqno_durable);
    assert!(
        db.metrics().memtables_dropped > 0,
        "some have gone behind it"
    );
    drop(feed);
    assert_eq!(db.metrics().feed.open, 0);
}

/// A family: its name, entries, and metadata.
type Contents = (String, Vec<(Vec<u8>, Vec<u8>)>, Option<Vec<u8>>);

/// Everything in a database.
fn contents(db: &Db) -> Vec<Contents> {
    let mut all = Vec::new();
    for name in db.column_families() {
        let cf = db.find_column_family(&name).unwrap();
        let entries = cf.iter().map(|entry| entry.map(|(k, v)| (k, v.to_vec())));
        let metadata = cf.metadata().unwrap().map(|value| value.to_vec());
        all.push((name, entries.collect::<Result<_, _>>().unwrap(), metadata));
    }
    all
}

#[test]
fn a_replica_begins_with_a_copy_and_becomes_what_the_database_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let db = Db::open(path("db"), options()).unwrap();
    let down = CfOptions::default().reverse(true);
    let log = db.column_family("log", down).unwrap();
    for n in 0..100u32 {
        db.put(n.to_be_bytes(), [1; 50]).unwrap();
        log.put(n.to_be_bytes(), [2; 50]).unwrap();
    }
    db.flush().unwrap();
    let error = loop {
        match db.changes_since(0) {
            Err(error) => break error,
            // Who looks for dead memtables in the background may hold what was flushed.
            Ok(_) => db.put("more", [3; 50]).and_then(|()| db.flush()).unwrap(),
        }
    };
    assert_eq!(error.kind(), ErrorKind::ChangesGone, "{error}");
    // The feed first: it keeps what comes while the copy is made.
    let snapshot = db.snapshot();
    let mut feed = db.changes_since(snapshot.seqno()).unwrap();
    db.checkpoint(path("replica")).unwrap();
    let replica = Db::open(path("replica"), options()).unwrap();
    let copied = replica.find_column_family("log").unwrap();
    db.delete_range([3].as_slice()..[9].as_slice()).unwrap();
    log.delete_range(50u32.to_be_bytes()..20u32.to_be_bytes())
        .unwrap();
    log.delete(7u32.to_be_bytes()).unwrap();
    db.put("", "the empty key").unwrap();
    let mut batch = db.batch();
    batch.put_cf(&log, "k", "v").set_metadata_cf(&log, "source");
    batch.commit(Durability::Immediate).unwrap();
    db.flush().unwrap();
    for group in feed.by_ref() {
        let group = group.unwrap();
        let mut batch = replica.batch();
        for change in group.changes() {
            let change = change.unwrap();
            let default = replica.find_column_family("default").unwrap();
            batch.apply(
                if &*change.family == "log" {
                    &copied
                } else {
                    &default
                },
                &change,
            );
        }
        batch.commit(Durability::Immediate).unwrap();
    }
    assert_eq!(contents(&replica), contents(&db));
    assert_eq!(feed.position(), db.metrics().seqno_durable);
    // A change is of no use to a family of another database.
    let mut table = IngestWriter::create(path("t.sst")).unwrap();
    table.put("z", "").unwrap();
    table.finish().unwrap();
    db.ingest(&[path("t.sst")]).unwrap();
    db.put("after", "it").unwrap();
    let error = feed.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ChangesGone, "{error}");
    assert!(feed.next().is_none());
}

/// A copy that is made beside a writer. From any number but that of the copy on, keys come twice, or are missing.
#[test]
fn a_follower_that_begins_with_a_checkpoint_has_each_change_once() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("copy");
    let options = Options {
        pm: 64 << 20,
        ..options()
    };
    let db = Db::open(folder.path().join("db"), options.clone()).unwrap();
    // It keeps what comes while the copy is made.
    let keeps = db.changes_since(0).unwrap();
    let copied = AtomicBool::new(false);
    let (since, written) = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut written = 0u64;
            while written < 100 || !copied.load(Ordering::SeqCst) {
                db.put(written.to_be_bytes(), "").unwrap();
                written += 1;
            }
            written
        });
        let since = db.checkpoint(&place).unwrap();
        copied.store(true, Ordering::SeqCst);
        (since, writer.join().unwrap())
    });
    let feed = db.changes_since(since).unwrap();
    drop(keeps);
    let rest: usize = feed.map(|group| group.unwrap().changes().count()).sum();
    let copy = Db::open(&place, options).unwrap();
    assert_eq!((copy.iter().count() + rest) as u64, written);
}

/// A restored database gives out the numbers of its original again. If it had its id, too, a follower of the original could not
/// tell that what it has there is another's.
#[test]
fn a_follower_of_another_database_is_told_by_the_id() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let db = Db::open(path("db"), options()).unwrap();
    db.put("a", "of both").unwrap();
    let backups = Backups::new(path("backups"));
    let info = backups.create(&db).unwrap();
    db.put("b", "of the original").unwrap();
    let mut feed = db.changes_since(info.seqno).unwrap();
    assert_eq!(feed.by_ref().count(), 1);
    let position = feed.position();
    drop(feed);
    backups.restore(Some(info.id), path("restored")).unwrap();
    let restored = Db::open(path("restored"), options()).unwrap();
    // Who has come no farther than the backup goes on.
    let mut feed = restored.changes_since(info.seqno).unwrap();
    let error = restored.changes_since(position).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    restored.put("c", "of the restored one").unwrap();
    let group = feed.next().unwrap().unwrap();
    assert_eq!(group.changes().count(), 1);
    // The number is one of both by now, and each has something else there.
    assert_eq!((group.first(), group.last()), (position, position));
    assert!(restored.changes_since(position).is_ok());
    assert_ne!(restored.id(), db.id());
    assert_eq!(info.db_id, db.id());
    let id = db.id();
    db.close().unwrap();
    assert_eq!(Db::open(path("db"), options()).unwrap().id(), id);
}

/// Nothing is left of the last changes but their numbers. Were they given out again, who follows the copy would miss what has them.
#[test]
fn a_copy_goes_on_behind_deletes_of_which_it_has_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let db = Db::open(path("db"), options()).unwrap();
    db.put("a", "1").unwrap();
    db.delete("a").unwrap();
    db.delete("b").unwrap();
    let since = db.checkpoint(path("copied")).unwrap();
    let backups = Backups::new(path("backups"));
    assert_eq!(backups.create(&db).unwrap().seqno, since);
    backups.restore(None, path("restored")).unwrap();
    for name in ["copied", "restored"] {
        let copy = Db::open(path(name), options()).unwrap();
        let mut feed = copy.changes_since(since).unwrap();
        assert!(feed.next().is_none(), "{name}");
        copy.put("c", "of the copy").unwrap();
        let group = feed.next().unwrap().unwrap();
        assert_eq!((group.first(), group.last()), (since + 1, since + 1));
    }
}
