//! Faults of stores with preset `leveled`: logs, flushes that come by themselves, compactions and range deletes, all in
//! one workload. What fails in the background of writing leaves everything as it was, unless the store is
//! poisoned; then writes end, and reads go on.

use super::*;

/// A level 0 of one run, so that every flush has something compacted.
fn options_of(memtable_bytes: u64) -> Options {
    let mut options = options();
    options.preset = Preset::Leveled;
    options.set("level0.shape", "ssd").unwrap();
    options.dram = 4 * CAPACITY;
    options.flush.automatic = true;
    options.memtable.bytes_max = memtable_bytes;
    options.compaction.level0_tables = 1;
    options.compaction.table_bytes = 1000;
    options
}

/// One write of the workload: puts, deletes, and of keys from one up to another.
fn change(rng: &mut Rng, after: &mut Map) -> Result<WriteBatch> {
    let mut batch = WriteBatch::new();
    let key = |rng: &mut Rng| format!("{:02}", rng.below(16)).into_bytes();
    for _ in 0..1 + rng.below(3) {
        let first = key(rng);
        match rng.below(6) {
            0 => {
                let end = key(rng);
                if first < end {
                    batch.delete_range(CfId::DEFAULT, &first, Some(&end))?;
                    after.retain(|(_, key), _| *key < first || *key >= end);
                }
            }
            1 => {
                batch.delete(CfId::DEFAULT, &first)?;
                after.remove(&("default".to_string(), first));
            }
            _ => {
                let value = vec![b'v'; rng.below(900)];
                batch.put(CfId::DEFAULT, &first, &value)?;
                after.insert(("default".to_string(), first), value);
            }
        }
    }
    if batch.is_empty() {
        batch.put(CfId::DEFAULT, b"some", b"thing")?;
        after.insert(("default".to_string(), b"some".to_vec()), b"thing".to_vec());
    }
    Ok(batch)
}

/// Writes over several openings, with a flush and compactions between. Goes on after one that failed, unless
/// that has ended writing.
fn work(world: &World, run: &mut Run) -> Result<()> {
    let mut rng = Rng::new(23);
    let mut first = None;
    for session in 0..2 {
        let engine = Engine::open(world.clone(), dir(), options_of(1500))?;
        assert!(entries(&engine)? == run.acknowledged, "session {session}");
        let mut held = None;
        for n in 0..6 {
            let mut after = run.acknowledged.clone();
            let batch = change(&mut rng, &mut after)?;
            if let Err(error) = engine.write(batch.iter(), Durability::Immediate) {
                run.in_flight = Some(after);
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
            let moved = match n % 3 {
                1 => engine.flush().map(drop),
                2 => engine.compact_once().map(drop),
                _ => Ok(()),
            };
            if let Err(error) = moved {
                assert!(entries(&engine)? == run.acknowledged, "after {error}");
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
fn the_leveled_workload_flushes_and_compacts() {
    LOGGED.set(true);
    let machine = Machine::new();
    let mut run = Run::default();
    work(&machine.world(), &mut run).unwrap();
    let engine = Engine::open(machine.world(), dir(), options_of(1500)).unwrap();
    let deeper = engine
        .metrics()
        .levels
        .iter()
        .skip(1)
        .any(|level| level.tables > 0);
    assert!(deeper, "nothing has sunk");
}

#[test]
fn faults_of_writes_with_leveled() {
    LOGGED.set(true);
    for (fault, least) in [
        (Fault::Eio, 300),
        (Fault::NoSpace, 100),
        (Fault::SyncKept, 100),
        (Fault::SyncDropped, 100),
        (Fault::SyncNoSpace, 100),
        (Fault::ShortWrite(13), 100),
    ] {
        let (runs, failed) = at_every_call(work, fault);
        assert!(
            runs > least && failed > runs / 4,
            "{fault:?}: {runs} {failed}"
        );
    }
}

#[test]
fn faults_of_reads_with_leveled() {
    LOGGED.set(true);
    for fault in [Fault::ShortRead(0), Fault::ShortRead(7), Fault::FlipBit(3)] {
        at_every_call(work, fault);
    }
}

/// A disk of so many bytes fills up while the store writes: writes are refused for want of space, nothing that was
/// acknowledged is lost, and after deletes, or when there is room again, it goes on.
#[test]
fn a_disk_that_fills_up_byte_by_byte() {
    LOGGED.set(true);
    let (mut refusals, mut went_on) = (0, 0);
    for room in (20_000..120_000).step_by(5_000) {
        let machine = Machine::new();
        let mut run = Run::default();
        let engine = Engine::open(machine.world(), dir(), options_of(4000)).unwrap();
        machine.disk.limit_space(room);
        let mut poisoned = false;
        for n in 0..200u32 {
            let key = (n % 90).to_be_bytes().to_vec();
            let value = vec![b'v'; 1200];
            let mut batch = WriteBatch::new();
            batch.put(CfId::DEFAULT, &key, &value).unwrap();
            let mut after = run.acknowledged.clone();
            after.insert(("default".to_string(), key), value);
            match engine.write(batch.iter(), Durability::Immediate) {
                Ok(_) => {
                    run.acknowledged = after;
                    went_on += u32::from(refusals > 0);
                }
                Err(error) => {
                    let kind = error.kind();
                    let kinds = [ErrorKind::OutOfSpace, ErrorKind::Io, ErrorKind::Poisoned];
                    assert!(kinds.contains(&kind), "room {room}, write {n}: {error}");
                    refusals += 1;
                    if kind != ErrorKind::OutOfSpace {
                        // A log that could not be written, or a manifest: what is durable is unknown.
                        run.in_flight = Some(after);
                        poisoned = true;
                        break;
                    }
                }
            }
            // Whatever it can.
            let _ = engine.compact_once();
        }
        let found = entries(&engine).unwrap();
        let in_flight = run.in_flight.as_ref();
        assert!(
            found == run.acknowledged || Some(&found) == in_flight,
            "room {room}: {} entries of {}",
            found.len(),
            run.acknowledged.len()
        );
        machine.disk.disarm();
        if !poisoned {
            let mut batch = WriteBatch::new();
            batch.put(CfId::DEFAULT, b"room", b"again").unwrap();
            engine.write(batch.iter(), Durability::Immediate).unwrap();
            run.acknowledged
                .insert(("default".to_string(), b"room".to_vec()), b"again".to_vec());
            engine.drain().unwrap();
            assert!(entries(&engine).unwrap() == run.acknowledged, "room {room}");
        }
        drop(engine);
        check_all(
            &machine,
            &run,
            &format!("a disk with room for {room} bytes"),
        );
    }
    println!("{refusals} refusals, {went_on} writes after one");
    assert!(refusals > 10);
}

/// Logs are brought to another place, and the names that they get there are not durable when the process ends.
/// The next one finds them there, and forgets the place that they were brought from.
#[test]
fn logs_whose_new_names_no_sync_made_durable_are_brought_again() {
    LOGGED.set(true);
    let options = |place: &str| Options {
        wal_path: Some(place.into()),
        ..options_of(1 << 20)
    };
    let put = |engine: &Engine, key: &[u8]| {
        let mut batch = WriteBatch::new();
        batch.put(CfId::DEFAULT, key, b"value").unwrap();
        engine.write(batch.iter(), Durability::Immediate).unwrap();
    };
    let mut failed = 0;
    for at in 0.. {
        let machine = Machine::new();
        let open = |place| Engine::open(machine.world(), dir(), options(place));
        let engine = open("/first").unwrap();
        put(&engine, b"one");
        engine.close().unwrap();
        drop(engine);
        let before = machine.disk.calls_for(Fault::SyncKept, None);
        machine.disk.arm(Plan {
            fault: Fault::SyncKept,
            op: None,
            at: before + at,
            repeat: Repeat::Once,
        });
        let opened = open("/second");
        failed += u64::from(opened.is_err());
        let fired = machine.disk.fired() > 0;
        machine.disk.disarm();
        drop(opened);
        let engine = open("/second").unwrap();
        put(&engine, b"two");
        let fs = machine.fs.image_none(Steps::new());
        let world = world(Arc::new(fs), SimPm::new(CAPACITY, Steps::new()));
        let after = Engine::open(world, dir(), options("/second"))
            .unwrap_or_else(|error| panic!("sync {at} failed, then the power: {error}"));
        assert_eq!(entries(&after).unwrap().len(), 2, "sync {at}");
        if !fired {
            break;
        }
    }
    assert!(failed > 3, "{failed}");
}
