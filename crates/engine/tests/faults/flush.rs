//! Faults while memtables are flushed, and while tables are read. A flush that fails leaves everything
//! as it was, unless the store is poisoned; then it can be asked for again.

use super::*;

/// What must hold after a flush that failed with `cause`.
fn is_as_before(engine: &Engine, run: &Run, cause: &Error) -> Result<()> {
    assert!(entries(engine)? == run.acknowledged, "after {cause}");
    Ok(())
}

/// Writes and flushes over several openings. Goes on after a flush that failed, unless that has ended
/// writing.
fn work(world: &World, run: &mut Run) -> Result<()> {
    let mut rng = Rng::new(5);
    let mut first = None;
    for session in 0..3u8 {
        let engine = Engine::open(world.clone(), dir(), options())?;
        assert!(entries(&engine)? == run.acknowledged, "session {session}");
        let mut held = None;
        for n in 0..6 {
            let mut after = run.acknowledged.clone();
            let mut batch = WriteBatch::new();
            for _ in 0..1 + rng.below(3) {
                let key = format!("{:02}", rng.below(12)).into_bytes();
                let id = ("default".to_string(), key.clone());
                if rng.one_in(4) {
                    batch.delete(CfId::DEFAULT, &key)?;
                    after.remove(&id);
                } else {
                    let value = vec![session; rng.below(900)];
                    batch.put(CfId::DEFAULT, &key, &value)?;
                    after.insert(id, value);
                }
            }
            if let Err(error) = engine.write(batch.iter(), Durability::Immediate) {
                run.in_flight = Some(after);
                // Reading may fail, too, and writing is refused for another reason than this.
                if let Ok(found) = entries(&engine) {
                    let in_flight = run.in_flight.as_ref();
                    assert!(found == run.acknowledged || Some(&found) == in_flight);
                }
                return Err(error);
            }
            run.acknowledged = after;
            if n == 1 {
                held = Some((engine.snapshot(), run.acknowledged.clone()));
            }
            if n % 2 == 1
                && let Err(error) = engine.flush()
            {
                is_as_before(&engine, run, &error)?;
                first.get_or_insert(error);
            }
        }
        if let Some((snapshot, then)) = held {
            for ((_, key), value) in &then {
                let found = snapshot.get(CfId::DEFAULT, key, <[u8]>::to_vec)?;
                assert_eq!(found.as_ref(), Some(value));
            }
        }
        if session % 2 == 0 {
            engine.close()?;
        }
    }
    first.map_or(Ok(()), Err)
}

#[test]
fn an_io_error_in_a_flush() {
    let (runs, failed) = at_every_call(work, Fault::Eio);
    assert!(runs > 300 && is_enough(failed, runs), "{runs} {failed}");
}

#[test]
fn a_full_disk_in_a_flush() {
    let (runs, failed) = at_every_call(work, Fault::NoSpace);
    assert!(runs > 50 && is_enough(failed, runs), "{runs} {failed}");
}

#[test]
fn a_failed_sync_in_a_flush() {
    for fault in [Fault::SyncKept, Fault::SyncDropped, Fault::SyncNoSpace] {
        let (runs, failed) = at_every_call(work, fault);
        assert!(runs > 50 && is_enough(failed, runs), "{runs} {failed}");
    }
}

#[test]
fn a_short_transfer_in_a_flush() {
    for fault in [Fault::ShortRead(7), Fault::ShortWrite(13)] {
        at_every_call(work, fault);
    }
}

/// What a table says wrongly is an error, never data.
#[test]
fn a_flipped_bit_of_a_table() {
    for bit in [3, 70_001] {
        at_every_call(work, Fault::FlipBit(bit));
    }
}

/// A flush that failed for want of space is done when there is some, and writing has gone on.
#[test]
fn a_flush_that_found_no_room_is_made_later() {
    let machine = Machine::new();
    let engine = Engine::open(machine.world(), dir(), options()).unwrap();
    let put = |key: &[u8]| {
        let mut batch = WriteBatch::new();
        batch.put(CfId::DEFAULT, key, &[7; 100]).unwrap();
        engine.write(batch.iter(), Durability::Immediate)
    };
    put(b"a").unwrap();
    machine.disk.arm(Plan {
        fault: Fault::NoSpace,
        op: Some(Op::Create),
        at: machine.disk.calls_for(Fault::NoSpace, Some(Op::Create)),
        repeat: Repeat::Forever,
    });
    for _ in 0..3 {
        let error = engine.flush().unwrap_err();
        for part in [".part", "No space left"] {
            assert!(error.to_string().contains(part), "no '{part}' in: {error}");
        }
    }
    put(b"b").unwrap();
    assert_eq!(entries(&engine).unwrap().len(), 2);
    machine.disk.disarm();
    assert_eq!(engine.flush().unwrap(), 2);
    assert_eq!(entries(&engine).unwrap().len(), 2);
}
