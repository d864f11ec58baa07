//! Faults while long values are written, read, flushed, compacted and removed. A write whose blob file cannot be
//! made has not happened, and unless the store is poisoned it goes on; no file stays for it.

use std::ops::Bound::Unbounded;

use super::*;

/// Writes long and short values over several openings, flushes and compacts. Goes on after what failed without
/// ending writing.
fn work(world: &World, run: &mut Run) -> Result<()> {
    let mut rng = Rng::new(9);
    let mut first = None;
    for session in 0..2u8 {
        let engine = Engine::open(world.clone(), dir(), options())?;
        assert!(entries(&engine)? == run.acknowledged, "session {session}");
        for n in 0..6u8 {
            let mut after = run.acknowledged.clone();
            let mut batch = WriteBatch::new();
            for m in 0..2 {
                let key = format!("{:02}", rng.below(6)).into_bytes();
                let id = ("default".to_string(), key.clone());
                let len = if m == n % 2 { 150 } else { 20 };
                let value = vec![session ^ n; len + rng.below(100)];
                batch.put(CfId::DEFAULT, &key, &value)?;
                after.insert(id, value);
            }
            let failed = match engine.write(batch.iter(), Durability::Immediate) {
                Ok(()) => {
                    run.acknowledged = after;
                    None
                }
                Err(error) => {
                    run.in_flight = Some(after);
                    // Whether it is poisoned.
                    engine.reclaim()?;
                    run.in_flight = None;
                    Some(error)
                }
            };
            let failed = failed.or(match n {
                2 => engine.flush().err(),
                4 => engine.compact(CfId::DEFAULT, (Unbounded, Unbounded)).err(),
                _ => None,
            });
            if let Some(error) = failed {
                engine.reclaim()?;
                assert!(entries(&engine)? == run.acknowledged, "after {error}");
                first.get_or_insert(error);
            }
        }
        if session == 0 {
            engine.close()?;
        }
    }
    first.map_or(Ok(()), Err)
}

#[test]
fn an_io_error_of_long_values() {
    LONG.set(true);
    let (runs, failed) = at_every_call(work, Fault::Eio);
    assert!(runs > 300 && is_enough(failed, runs), "{runs} {failed}");
}

#[test]
fn a_full_disk_of_long_values() {
    LONG.set(true);
    let (runs, failed) = at_every_call(work, Fault::NoSpace);
    assert!(runs > 50 && is_enough(failed, runs), "{runs} {failed}");
}

#[test]
fn a_failed_sync_of_long_values() {
    LONG.set(true);
    for fault in [Fault::SyncKept, Fault::SyncDropped, Fault::SyncNoSpace] {
        let (runs, failed) = at_every_call(work, fault);
        assert!(runs > 50 && is_enough(failed, runs), "{runs} {failed}");
    }
}

#[test]
fn a_short_transfer_of_long_values() {
    LONG.set(true);
    for fault in [Fault::ShortRead(7), Fault::ShortWrite(13)] {
        at_every_call(work, fault);
    }
}

/// What a blob file says wrongly is an error, never data.
#[test]
fn a_flipped_bit_of_long_values() {
    LONG.set(true);
    for bit in [3, 1001] {
        at_every_call(work, Fault::FlipBit(bit));
    }
}

/// A write that finds no room on the disk leaves nothing there, and those after it go on.
#[test]
fn a_long_value_that_found_no_room_leaves_nothing() {
    LONG.set(true);
    let machine = Machine::new();
    let engine = Engine::open(machine.world(), dir(), options()).unwrap();
    let put = |key: &[u8], len: usize| {
        let mut batch = WriteBatch::new();
        batch.put(CfId::DEFAULT, key, &vec![7; len]).unwrap();
        engine.write(batch.iter(), Durability::Immediate)
    };
    put(b"a", 500).unwrap();
    let files = || {
        let names = thermocline_env::Storage::list(&machine.fs, dir()).unwrap();
        names.iter().filter(|name| name.ends_with(".blob")).count()
    };
    machine.disk.arm(Plan {
        fault: Fault::NoSpace,
        op: Some(Op::Write),
        at: machine.disk.calls_for(Fault::NoSpace, Some(Op::Write)),
        repeat: Repeat::Once,
    });
    let error = put(b"b", 500).unwrap_err();
    for part in [".blob", "No space left"] {
        assert!(error.to_string().contains(part), "no '{part}' in: {error}");
    }
    assert_eq!((files(), engine.metrics().blobs.files), (1, 1));
    put(b"c", 20).unwrap();
    put(b"d", 500).unwrap();
    assert_eq!(entries(&engine).unwrap().len(), 3);
    assert_eq!((files(), engine.metrics().blobs.files), (2, 2));
}
