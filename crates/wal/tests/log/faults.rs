//! Every call to the file system failing, once and for ever.

use std::path::Path;

use thermocline_base::{Error, ErrorKind, Result, Steps};
use thermocline_env::Storage;
use thermocline_env::fault::{Fault, FaultStorage, Plan, Repeat};
use thermocline_testkit::Rng;
use thermocline_wal::{HEADER_BYTES, LogReader, SITE_LOG_NAMED};

use crate::common::*;

/// Appends all, with a sync behind each; how many were acknowledged before it failed.
fn write(disk: &FaultStorage, payloads: &[Vec<u8>]) -> (usize, Result<()>) {
    let mut done = 0;
    let mut work = || {
        let mut log = create(disk, 7)?;
        disk.sync_dir(Path::new("/db"), SITE_LOG_NAMED)?;
        for payload in payloads {
            log.append(payload)?;
            if let Err(error) = log.sync() {
                // Whatever is tried then, nothing more is written.
                log.append(b"more")?;
                let again = log.sync().unwrap_err();
                assert_eq!(again.kind(), ErrorKind::Poisoned, "{again}");
                return Err(error);
            }
            done += 1;
        }
        Ok(())
    };
    let result = work();
    (done, result)
}

#[test]
fn a_failed_call_is_an_error_that_names_the_file_and_loses_nothing_acknowledged() {
    let payloads = payloads(&mut Rng::new(1), 8);
    let (mut runs, mut spared) = (0, 0);
    for fault in [
        Fault::Eio,
        Fault::NoSpace,
        Fault::ShortWrite(0),
        Fault::ShortWrite(4096),
        Fault::SyncKept,
        Fault::SyncDropped,
    ] {
        let counted = FaultStorage::over_sim(fresh());
        write(&counted, &payloads).1.unwrap();
        for at in 0..counted.calls_for(fault, None) {
            for repeat in [Repeat::Once, Repeat::Forever] {
                let what = format!("{fault:?} at call {at} {repeat:?}");
                let fs = fresh();
                let disk = FaultStorage::over_sim(fs.clone());
                disk.arm(Plan {
                    fault,
                    op: None,
                    at,
                    repeat,
                });
                let (done, result) = write(&disk, &payloads);
                match result {
                    // It was room for later that there was none for.
                    Ok(()) if fault == Fault::NoSpace => spared += 1,
                    Err(Error::Io { path: named, .. }) => {
                        assert!(named == path(7) || named == Path::new("/db"), "{what}");
                    }
                    other => panic!("{what}: {other:?}"),
                }
                if done > 0 {
                    check(&frames(&fs, 7).unwrap(), &payloads, done, &what);
                }
                runs += 1;
            }
        }
    }
    println!("{runs} runs, in {spared} of them a log could not be grown ahead");
    assert!(runs > 100 && spared > 0);
}

/// A device that has what is needed, and less than would be written for later, is not full: a write that came up short has taken
/// its last room for the log, and frames may lie there.
#[test]
fn the_last_room_of_a_device_is_the_logs() {
    for room in [4096, 8192, 12_288] {
        let disk = FaultStorage::over_sim(fresh());
        let mut log = create(&disk, 7).unwrap();
        disk.limit_space(room);
        let end = log.reserved() + room;
        log.reserve(end).unwrap();
        assert_eq!(log.reserved(), end);
        let error = log.reserve(end + 1).unwrap_err();
        assert!(error.is_no_room(), "{error}");
        assert_eq!(log.reserved(), end);
        log.append(&[7; 100]).unwrap();
        log.sync().unwrap();
        assert_eq!(frames(&disk, 7).unwrap().len(), 1);
    }
}

/// What a sync that failed has left in the page cache is kept by the next process, and a power cut takes none of
/// it away: pages pass for written that are not.
pub fn keep_after_a_failed_sync() {
    let payloads = payloads(&mut Rng::new(1), 8);
    for fault in [Fault::SyncKept, Fault::SyncNoSpace] {
        let counted = FaultStorage::over_sim(fresh());
        write(&counted, &payloads).1.unwrap();
        // The first two are of the header and of the name, without which there is no log.
        for at in 2..counted.calls_for(fault, None) {
            let fs = fresh();
            let disk = FaultStorage::over_sim(fs.clone());
            let (op, repeat) = (None, Repeat::Once);
            disk.arm(Plan {
                fault,
                op,
                at,
                repeat,
            });
            write(&disk, &payloads).1.unwrap_err();
            let next = fs.image_killed(Steps::new());
            let found = frames(&next, 7).unwrap();
            let end = places(&payloads)[found.len()];
            LogReader::keep(&next, &path(7), &id(7), HEADER_BYTES, end).unwrap();
            for choices in next.pending().explore(16, 4, 5) {
                let image = next.image(&choices, Steps::new());
                let kept = frames(&image, 7).unwrap();
                check(&kept, &payloads, found.len(), &format!("{fault:?} {at}"));
            }
        }
    }
}

#[test]
fn what_is_kept_after_a_failed_sync_stays() {
    keep_after_a_failed_sync();
}

#[test]
fn a_read_that_fails_is_an_error_and_not_the_end_of_the_log() {
    let payloads = payloads(&mut Rng::new(1), 8);
    for fault in [Fault::Eio, Fault::ShortRead(7)] {
        let fs = fresh();
        write(&FaultStorage::over_sim(fs.clone()), &payloads)
            .1
            .unwrap();
        let counted = FaultStorage::over_sim(fs.clone());
        frames(&counted, 7).unwrap();
        let calls = counted.calls_for(fault, None);
        assert!(calls > 1, "{fault:?}");
        for at in 0..calls {
            let disk = FaultStorage::over_sim(fs.clone());
            let (op, repeat) = (None, Repeat::Once);
            disk.arm(Plan {
                fault,
                op,
                at,
                repeat,
            });
            frames(&disk, 7).unwrap_err();
        }
    }
}
