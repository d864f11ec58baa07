//! A check of a database, where something cannot be read.

use super::*;

/// One table cannot be read at some place, and a later one is damaged. Who repairs what he is told of must not find more afterwards.
#[test]
fn what_cannot_be_read_of_a_table_does_not_hide_what_is_wrong_with_another() {
    let machine = Machine::new();
    let engine = Engine::open(machine.world(), dir(), options()).unwrap();
    for key in 0..2u8 {
        let mut batch = WriteBatch::new();
        batch.put(CfId::DEFAULT, &[key], &[7; 100]).unwrap();
        engine.write(batch.iter(), Durability::Immediate).unwrap();
        engine.flush().unwrap();
    }
    engine.close().unwrap();
    drop(engine);
    let mut tables = thermocline_env::Storage::list(&machine.fs, dir()).unwrap();
    tables.retain(|name| name.ends_with(".sst"));
    tables.sort_by_key(|name| (name.len(), name.clone()));
    let (unread, damaged) = (&tables[0], &tables[tables.len() - 1]);
    assert_ne!(unread, damaged);
    let path = dir().join(damaged);
    let mut bytes = machine.fs.contents(&path).unwrap();
    bytes[20] ^= 1;
    machine.fs.install(&path, &bytes);
    let (disk, op) = (&machine.disk, Some(Op::Read));
    let check = || {
        let before = disk.calls_for(Fault::Eio, op);
        let report = thermocline_engine::verify(&machine.world(), dir(), &options());
        (report, disk.calls_for(Fault::Eio, op) - before)
    };
    let (report, calls) = check();
    let faults = report.unwrap().faults;
    assert!(!faults.is_empty() && faults.iter().all(|fault| fault.place.contains(damaged)));
    let mut met = 0;
    for at in 0..calls {
        disk.arm(Plan {
            fault: Fault::Eio,
            op,
            at: disk.calls_for(Fault::Eio, op) + at,
            repeat: Repeat::Once,
        });
        let (report, _) = check();
        disk.disarm();
        let faults = match report {
            Ok(report) => report.faults,
            // It was something that is read before all tables.
            Err(error) => {
                assert!(!error.to_string().contains(unread), "{error}");
                continue;
            }
        };
        let is_told = |name: &str| {
            let mut faults = faults.iter();
            faults.any(|fault| fault.place.contains(name) || fault.what.contains(name))
        };
        if is_told(unread) {
            met += 1;
            assert!(is_told(damaged), "{faults:?}");
        }
    }
    assert!(met > 1, "{met} of {calls}");
}

/// What has long values is read several times, and each of these reads counts: at last to see whether values lie where records say.
#[test]
fn no_read_of_long_values_fails_in_silence() {
    LONG.set(true);
    let machine = Machine::new();
    let engine = Engine::open(machine.world(), dir(), options()).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(CfId::DEFAULT, b"long", &[7; 500]).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    engine.close().unwrap();
    drop(engine);
    let (disk, op) = (&machine.disk, Some(Op::Read));
    let check = || thermocline_engine::verify(&machine.world(), dir(), &options());
    let before = disk.calls_for(Fault::Eio, op);
    assert_eq!(check().unwrap().faults, []);
    let calls = disk.calls_for(Fault::Eio, op) - before;
    let mut told = Vec::new();
    for at in 0..calls {
        disk.arm(Plan {
            fault: Fault::Eio,
            op,
            at: disk.calls_for(Fault::Eio, op) + at,
            repeat: Repeat::Once,
        });
        let report = check();
        disk.disarm();
        told.push(matches!(&report, Err(error) if error.to_string().contains(".blob")));
    }
    // Nothing else is read behind the first of them.
    let of_values: Vec<bool> = told.into_iter().skip_while(|told| !told).collect();
    assert!(of_values.len() > 5, "{of_values:?}");
    assert!(of_values.iter().all(|told| *told), "{of_values:?}");
}

/// A part of a table cannot be read, and what lies far behind it is damaged.
#[test]
fn what_cannot_be_read_of_a_table_does_not_hide_what_is_wrong_behind_it() {
    let machine = Machine::new();
    let mut options = options();
    options.memtable.bytes_max = 128 << 10;
    let engine = Engine::open(machine.world(), dir(), options.clone()).unwrap();
    let mut rng = Rng::new(7);
    // Blocks have 4 KiB, so there are more than 40.
    for key in 0..200u8 {
        let value: Vec<u8> = (0..1000).map(|_| rng.next_u64().to_le_bytes()[0]).collect();
        let mut batch = WriteBatch::new();
        batch.put(CfId::DEFAULT, &[key], &value).unwrap();
        engine.write(batch.iter(), Durability::Immediate).unwrap();
    }
    engine.flush().unwrap();
    engine.close().unwrap();
    drop(engine);
    let mut tables = thermocline_env::Storage::list(&machine.fs, dir()).unwrap();
    tables.retain(|name| name.ends_with(".sst"));
    let bytes_of = |name: &str| machine.fs.contents(&dir().join(name)).unwrap();
    let table = tables.iter().max_by_key(|name| bytes_of(name).len());
    let table = table.unwrap();
    let mut bytes = bytes_of(table);
    assert!(bytes.len() > 90_000, "{}", bytes.len());
    let at = bytes.len() / 4 * 3;
    bytes[at] ^= 1;
    machine.fs.install(&dir().join(table), &bytes);
    let (disk, op) = (&machine.disk, Some(Op::Read));
    let check = || thermocline_engine::verify(&machine.world(), dir(), &options);
    let before = disk.calls_for(Fault::Eio, op);
    let faults = check().unwrap().faults;
    assert!(!faults.is_empty() && faults.iter().all(|fault| fault.place.contains(table)));
    let calls = disk.calls_for(Fault::Eio, op) - before;
    let mut met = 0;
    for at in 0..calls {
        disk.arm(Plan {
            fault: Fault::Eio,
            op,
            at: disk.calls_for(Fault::Eio, op) + at,
            repeat: Repeat::Once,
        });
        let report = check();
        disk.disarm();
        let faults = report.map_or(Vec::new(), |report| report.faults);
        let is_damaged = faults.iter().any(|fault| fault.place.contains(table));
        let is_unread = faults.iter().any(|fault| fault.what.contains(table));
        met += u32::from(is_damaged && is_unread);
    }
    // No more than a third of these lie behind what is damaged.
    assert!(met > 32, "{met} of {calls}");
}
