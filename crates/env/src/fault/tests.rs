use super::*;
use thermocline_base::{ErrorKind, Steps};

const SITE: Site = Site("test: durable");

fn disk() -> FaultStorage {
    FaultStorage::over_sim(SimFs::new(Steps::new()))
}

fn os_error(error: Error) -> i32 {
    match error {
        Error::Io { source, .. } => source.raw_os_error().unwrap(),
        other => panic!("{other}"),
    }
}

/// Makes every kind of call at least once.
fn work(disk: &FaultStorage) -> Result<Vec<u8>> {
    let (dir, a, b) = (Path::new("/d"), Path::new("/d/a"), Path::new("/d/b"));
    disk.create_dir_all(dir)?;
    let guard = disk.lock(Path::new("/d/LOCK"))?;
    disk.fs_kind(dir)?;
    let file = disk.open(a, OpenMode::CreateNew)?;
    file.allocate(0, 64)?;
    file.write_at(b"0123456789", 0)?;
    file.set_len(10)?;
    file.sync(SITE)?;
    disk.rename(a, b)?;
    disk.sync_dir(dir, SITE)?;
    disk.list(dir)?;
    let file = disk.open(b, OpenMode::Read)?;
    let mut bytes = vec![0; usize::try_from(file.len()?).unwrap()];
    file.read_exact_at(&mut bytes, 0)?;
    disk.create_dir_all(Path::new("/e"))?;
    disk.link(b, Path::new("/e/b"))?;
    disk.remove(b)?;
    drop(guard);
    Ok(bytes)
}

#[test]
fn an_error_can_be_put_at_every_call_of_every_kind() {
    let counted = disk();
    assert_eq!(work(&counted).unwrap(), b"0123456789");
    assert_eq!(counted.fired(), 0);
    let mut places = 0;
    for op in Op::ALL {
        let calls = counted.calls_for(Fault::Eio, Some(op));
        assert!(calls > 0, "{op:?} is never called");
        assert_eq!(calls, counted.calls_of(op));
        for at in 0..calls {
            let disk = disk();
            disk.arm(Plan {
                fault: Fault::Eio,
                op: Some(op),
                at,
                repeat: Repeat::Once,
            });
            assert_eq!(os_error(work(&disk).unwrap_err()), libc::EIO, "{op:?} {at}");
            assert_eq!(disk.fired(), 1);
            places += 1;
        }
    }
    assert_eq!(places, counted.calls());
}

#[test]
fn a_fault_happens_once_or_forever_from_its_call_on() {
    for (repeat, expected) in [(Repeat::Once, 1), (Repeat::Forever, 4)] {
        let disk = disk();
        let file = disk.open(Path::new("/a"), OpenMode::CreateNew).unwrap();
        disk.arm(Plan {
            fault: Fault::NoSpace,
            op: Some(Op::Write),
            at: 2,
            repeat,
        });
        let failed = (0..6).filter(|i| file.write_at(b"x", *i).is_err()).count();
        assert_eq!(failed, expected);
        disk.disarm();
        file.write_at(b"x", 0).unwrap();
    }
}

#[test]
fn each_fault_of_a_transfer_does_what_it_says() {
    type Check = fn(Result<()>, Vec<u8>);
    let writes: [(Fault, Check); 3] = [
        (Fault::ShortWrite(3), |answer, left| {
            assert_eq!(os_error(answer.unwrap_err()), libc::EIO);
            assert_eq!(left, b"abc");
        }),
        (Fault::LostWrite, |answer, left| {
            answer.unwrap();
            assert_eq!(left, b"");
        }),
        (Fault::Misdirected(2), |answer, left| {
            answer.unwrap();
            assert_eq!(left, b"\0\0abcdef");
        }),
    ];
    for (fault, check) in writes {
        let sim = SimFs::new(Steps::new());
        let disk = FaultStorage::over_sim(sim.clone());
        let file = disk.open(Path::new("/a"), OpenMode::CreateNew).unwrap();
        disk.arm(Plan {
            fault,
            op: None,
            at: 0,
            repeat: Repeat::Once,
        });
        let answer = file.write_at(b"abcdef", 0);
        check(answer, sim.contents(Path::new("/a")).unwrap());
    }
    let reads: [(Fault, &[u8]); 2] = [(Fault::ShortRead(2), b"ab"), (Fault::FlipBit(9), b"a`c")];
    for (fault, expected) in reads {
        let sim = SimFs::new(Steps::new());
        sim.install(Path::new("/a"), b"abc");
        let disk = FaultStorage::over_sim(sim);
        let file = disk.open(Path::new("/a"), OpenMode::Read).unwrap();
        disk.arm(Plan {
            fault,
            op: None,
            at: 0,
            repeat: Repeat::Once,
        });
        let mut buf = [0; 3];
        let n = file.read_at(&mut buf, 0).unwrap();
        assert_eq!(&buf[..n], expected);
        // Only what was read was wrong.
        file.read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"abc");
    }
}

#[test]
fn failed_syncs_reach_the_simulator() {
    for (fault, seen) in [(Fault::SyncKept, b"new"), (Fault::SyncDropped, b"old")] {
        let sim = SimFs::new(Steps::new());
        sim.install(Path::new("/a"), b"old");
        let disk = FaultStorage::over_sim(sim.clone());
        let file = disk.open(Path::new("/a"), OpenMode::ReadWrite).unwrap();
        file.write_at(b"new", 0).unwrap();
        disk.arm(Plan {
            fault,
            op: None,
            at: 0,
            repeat: Repeat::Once,
        });
        assert_eq!(file.sync(SITE).unwrap_err().kind(), ErrorKind::Io);
        file.sync(SITE).unwrap();
        assert_eq!(sim.contents(Path::new("/a")).unwrap(), seen);
        let durable = sim.image_none(Steps::new());
        assert_eq!(durable.contents(Path::new("/a")).unwrap(), b"old");
    }
}

#[test]
fn space_ends_at_the_byte_and_what_was_allocated_can_be_written() {
    let disk = disk();
    let (a, b) = (Path::new("/a"), Path::new("/b"));
    let first = disk.open(a, OpenMode::CreateNew).unwrap();
    let second = disk.open(b, OpenMode::CreateNew).unwrap();
    disk.limit_space(100);
    first.allocate(0, 60).unwrap();
    second.write_at(&[1; 30], 0).unwrap();
    let error = second.write_at(&[2; 30], 30).unwrap_err();
    assert_eq!(os_error(error), libc::ENOSPC);
    assert_eq!(second.len().unwrap(), 40, "what fits is written");
    first.write_at(&[3; 60], 0).unwrap();
    let error = first.allocate(60, 1).unwrap_err();
    assert_eq!(os_error(error), libc::ENOSPC);
    disk.disarm();
    second.write_at(&[2; 30], 30).unwrap();
}

/// Who is refused keeps nothing, so that others find as much as before.
#[test]
fn what_is_reserved_is_all_or_nothing() {
    let disk = disk();
    let file = disk.open(Path::new("/a"), OpenMode::CreateNew).unwrap();
    disk.limit_space(100);
    let refused = [file.allocate(0, 101), file.reserve_behind(0, 101)];
    for refused in refused {
        assert_eq!(os_error(refused.unwrap_err()), libc::ENOSPC);
    }
    assert_eq!((file.len().unwrap(), disk.fired()), (0, 2));
    file.allocate(0, 60).unwrap();
    file.reserve_behind(60, 40).unwrap();
    file.write_at(&[1; 100], 0).unwrap();
    let error = file.write_at(&[1], 100).unwrap_err();
    assert_eq!(os_error(error), libc::ENOSPC);
}

/// As on file systems that write nothing in place.
#[test]
fn a_removal_may_find_no_room() {
    for (fault, code) in [(Fault::NoSpace, libc::ENOSPC), (Fault::Quota, libc::EDQUOT)] {
        let disk = disk();
        let file = Path::new("/a");
        disk.open(file, OpenMode::CreateNew).unwrap();
        disk.arm(Plan {
            fault,
            op: Some(Op::Remove),
            at: 0,
            repeat: Repeat::Once,
        });
        assert_eq!(os_error(disk.remove(file).unwrap_err()), code);
        assert!(disk.exists(file).unwrap());
        disk.remove(file).unwrap();
        assert!(!disk.exists(file).unwrap());
    }
}

/// As every storage promises: who gives descriptors back, and tries again, finds the file under its first name.
#[test]
fn no_name_is_changed_where_its_folder_cannot_be_opened() {
    let sim = SimFs::new(Steps::new());
    let disk = FaultStorage::over_sim(sim.clone());
    let [dir, temp, live] = ["/", "/temp", "/live"].map(Path::new);
    let file = disk.open(temp, OpenMode::CreateNew).unwrap();
    sim.limit_descriptors(1);
    let refused = disk.rename_and_sync(temp, live, dir, SITE).unwrap_err();
    assert_eq!(os_error(refused), libc::EMFILE);
    drop(file);
    assert_eq!(disk.list(dir).unwrap(), ["temp"]);
    disk.rename_and_sync(temp, live, dir, SITE).unwrap();
    let durable = sim.image_none(Steps::new());
    assert_eq!(durable.list(dir).unwrap(), ["live"]);
}
