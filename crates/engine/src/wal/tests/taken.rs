//! Files of somebody that have the names of logs.

use std::sync::Arc;

use thermocline_env::fault::{FaultStorage, Op};

use super::*;

const PRECIOUS: &[u8] =
    b"somebody's, and longer than the header that the log of a chain begins with";

fn log(n: u64) -> PathBuf {
    Path::new(DB).join(format!("{n:06}.log"))
}

/// A store that takes such a file for a log that it has begun itself removes it when it gives that up. Here it is refused by
/// name, the store goes on, and does what was asked for as soon as the file has gone.
#[test]
fn a_file_that_has_the_name_of_the_next_log_stays() {
    let fs = SimFs::new(Steps::new());
    let engine = open(&fs, &options()).unwrap();
    put(&engine, 1);
    let taken: Vec<PathBuf> = (1..6).map(log).collect();
    let taken: Vec<PathBuf> = taken
        .into_iter()
        .filter(|path| fs.contents(path).is_none())
        .collect();
    assert_eq!(taken.len(), 4, "one chain has a log");
    for path in &taken {
        fs.install(path, PRECIOUS);
    }
    let is_whole = |fs: &SimFs| {
        for path in &taken {
            assert_eq!(fs.contents(path).as_deref(), Some(PRECIOUS), "{path:?}");
        }
    };
    for round in 2..4 {
        let error = engine.flush().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().contains("000002.log"), "{error}");
        put(&engine, round);
        is_whole(&fs);
    }
    let killed = fs.image_killed(Steps::new());
    let error = open(&killed, &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    is_whole(&killed);
    for path in &taken {
        fs.remove(path).unwrap();
    }
    engine.flush().unwrap();
    put(&engine, 4);
    drop(engine);
    let engine = open(&fs.image_killed(Steps::new()), &options()).unwrap();
    assert!((1..=4).all(|n| has(&engine, n)));
}

/// Whose a log is that this opening has begun needs no look into it. Of all others it does.
#[test]
fn a_log_that_was_begun_here_goes_unread_and_a_file_with_such_a_name_stays() {
    let fs = SimFs::new(Steps::new());
    let disk = FaultStorage::over_sim(fs.clone());
    let mut world = world(&fs);
    world.env.storage = Arc::new(disk.clone());
    let engine = Engine::open(world, Path::new(DB), options()).unwrap();
    put(&engine, 1);
    let wal = engine.inner.memtables.wal.as_ref().unwrap();
    drop(wal.begin(77, 7).unwrap());
    fs.install(&log(78), PRECIOUS);
    let looks = || disk.calls_of(Op::Open) + disk.calls_of(Op::Read);
    let before = looks();
    wal.retire(&[77]);
    assert_eq!(looks(), before);
    assert!(fs.contents(&log(77)).is_some(), "it is used again");
    wal.retire(&[78]);
    assert_eq!(looks(), before + 2);
    assert_eq!(fs.contents(&log(78)).as_deref(), Some(PRECIOUS));
}
