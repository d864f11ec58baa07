//! Reads of futures against a plain vector: in every way, on a disk, in memory and in the simulator; with faults, in
//! every order, and with futures that go.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;

use thermocline_base::{AsyncIo, Error, Result, Steps};
use thermocline_env::direct::DeviceBytes;
use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::real::RealStorage;
use thermocline_env::sim::SimFs;
use thermocline_env::simulated::SeededRandom;
use thermocline_env::{File, OpenMode, Random, Storage};
use thermocline_exec::{AsyncReader, BufPool, RangeBuf, Reading};
use thermocline_testkit::block_on;

/// Asks once, with nobody to wake.
fn ask(read: &mut Reading) -> Poll<Result<RangeBuf>> {
    Pin::new(read).poll(&mut Context::from_waker(Waker::noop()))
}

fn bytes_of(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    SeededRandom::new(seed).fill(&mut bytes).unwrap();
    bytes
}

fn pick(random: &SeededRandom, bound: usize) -> usize {
    usize::try_from(random.below(bound as u64)).unwrap()
}

/// A file with these bytes, to be read in this way.
fn file_in(storage: &dyn Storage, dir: &Path, bytes: &[u8], direct: bool) -> Arc<dyn File> {
    let path = dir.join(format!("{direct}"));
    let made = storage.open(&path, OpenMode::CreateNew).unwrap();
    made.write_at(bytes, 0).unwrap();
    made.sync(thermocline_base::Site("test: durable")).unwrap();
    match direct {
        true => storage.open_direct(&path, OpenMode::Read, &Arc::new(DeviceBytes::default())),
        false => storage.open(&path, OpenMode::Read),
    }
    .unwrap()
}

#[test]
fn every_way_reads_what_the_file_has() {
    let model = bytes_of(1, 300_000);
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let memory = tempfile::tempdir().unwrap();
    let real = RealStorage::new();
    let sim = SimFs::new(Steps::new());
    let mut files = vec![file_in(&sim, Path::new("/"), &model, true)];
    for dir in [disk.path(), memory.path()] {
        for direct in [true, false] {
            files.push(file_in(&real, dir, &model, direct));
        }
    }
    for way in AsyncIo::ALL {
        let pool = BufPool::new(1 << 20);
        let reader = AsyncReader::new(pool.clone());
        assert_eq!(reader.usage().way, None);
        let random = SeededRandom::new(way as u64);
        // More than are under way at once.
        let reads: Vec<_> = (0..1000)
            .map(|n| {
                let (at, len) = (pick(&random, model.len() + 10), pick(&random, 20_000));
                let file = files[n % files.len()].clone();
                (at, len, reader.read(way, file, at as u64, len))
            })
            .collect();
        for (at, len, read) in reads {
            match block_on(read) {
                Ok(bytes) => assert_eq!(&*bytes, &model[at..at + len], "{way:?}: {len} at {at}"),
                Err(Error::Io { offset, source, .. }) => {
                    assert!(at + len > model.len(), "{way:?}: {len} at {at}: {source}");
                    assert_eq!(offset, Some(at as u64));
                    assert_eq!(source.kind(), std::io::ErrorKind::UnexpectedEof);
                }
                Err(error) => panic!("{way:?}: {error}"),
            }
        }
        let used = reader.usage().way.unwrap();
        let falls_back = [way, AsyncIo::Interrupt, AsyncIo::Threads];
        assert!(falls_back.contains(&used), "{way:?}: {used:?}");
        assert!(pool.idle_bytes() <= 1 << 20);
    }
}

#[test]
fn a_future_that_goes_leaves_nothing_behind() {
    let model = bytes_of(2, 1 << 20);
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = file_in(&RealStorage::new(), disk.path(), &model, true);
    for way in AsyncIo::ALL {
        let pool = BufPool::new(1 << 30);
        let reader = AsyncReader::new(pool.clone());
        let random = SeededRandom::new(way as u64);
        let mut kept = Vec::new();
        for n in 0..2000 {
            let at = pick(&random, model.len() - 5000);
            let mut read = reader.read(way, file.clone(), at as u64, 5000);
            if n % 3 == 0 {
                kept.push((at, read));
            } else if n % 3 == 1 {
                let _ = ask(&mut read);
            }
        }
        for (at, read) in kept {
            assert_eq!(&*block_on(read).unwrap(), &model[at..at + 5000]);
        }
        drop(reader);
        // Whatever was under way ends, and gives file and buffers back.
        while Arc::strong_count(&file) > 1 {
            thread::yield_now();
        }
        let other = pool.take(1 << 20);
        other.iter().for_each(|byte| assert_eq!(*byte, 0));
    }
}

#[test]
fn answers_come_to_whoever_asked_in_any_order() {
    let model = bytes_of(3, 100_000);
    for seed in 0..100 {
        let random = SeededRandom::new(seed);
        let sim = SimFs::new(Steps::new());
        let file = file_in(&sim, Path::new("/"), &model, seed % 2 == 0);
        let reader = AsyncReader::scripted(BufPool::new(1 << 20));
        let mut reads: Vec<Option<(usize, Reading)>> = (0..40)
            .map(|_| {
                let at = pick(&random, model.len() - 100);
                Some((
                    at,
                    reader.read(AsyncIo::Interrupt, file.clone(), at as u64, 100),
                ))
            })
            .collect();
        let mut left = reads.len();
        while left > 0 {
            let some = pick(&random, reads.len());
            if pick(&random, 4) == 0 && reads[some].take().is_some() {
                // Gone, at any time.
                left -= 1;
            }
            let stepped = reader.step(|waiting| pick(&random, waiting));
            for read in &mut reads {
                let Some((at, reading)) = read else { continue };
                match ask(reading) {
                    Poll::Ready(bytes) => {
                        assert_eq!(&*bytes.unwrap(), &model[*at..*at + 100], "seed {seed}");
                        *read = None;
                        left -= 1;
                    }
                    Poll::Pending => assert!(stepped, "seed {seed}: nothing waits, and no answer"),
                }
            }
        }
        while reader.step(|_| 0) {}
        assert_eq!(Arc::strong_count(&file), 1, "seed {seed}");
    }
}

#[test]
fn an_error_is_the_answer_of_the_read_that_failed_alone() {
    let sim = SimFs::new(Steps::new());
    let path = PathBuf::from("/false");
    let model = bytes_of(4, 50_000);
    drop(file_in(&sim, Path::new("/"), &model, false));
    for fails in 1..=10 {
        let faulty = FaultStorage::over_sim(sim.clone());
        faulty.arm(Plan {
            fault: Fault::Eio,
            op: Some(Op::Read),
            at: fails - 1,
            repeat: Repeat::Once,
        });
        let file = faulty.open(&path, OpenMode::Read).unwrap();
        let reader = AsyncReader::scripted(BufPool::new(1 << 20));
        let reads = (0..10).map(|n| reader.read(AsyncIo::Threads, file.clone(), n * 5000, 100));
        let reads: Vec<_> = reads.collect();
        // The last one is made first.
        while reader.step(|waiting| waiting - 1) {}
        for (n, read) in reads.into_iter().enumerate() {
            let Err(error) = block_on(read) else {
                assert_ne!(10 - n as u64, fails);
                continue;
            };
            assert_eq!(10 - n as u64, fails, "{error}");
            let text = error.to_string();
            assert!(text.contains("/false"), "{text}");
        }
    }
}

#[test]
fn work_that_panics_is_answered_and_ends_alone() {
    let reader = AsyncReader::new(BufPool::new(0));
    let running: Vec<_> = (0..50)
        .map(|n| {
            reader.run(move || {
                assert_ne!(n, 7, "on purpose");
                n
            })
        })
        .collect();
    for (n, running) in running.into_iter().enumerate() {
        assert_eq!(block_on(running), (n != 7).then_some(n));
    }
}

#[test]
fn what_nobody_wants_any_more_is_not_done() {
    let reader = AsyncReader::scripted(BufPool::new(0));
    let wanted = reader.run(|| 1);
    let done = Arc::new(AtomicBool::new(false));
    let unwanted = done.clone();
    drop(reader.run(move || unwanted.store(true, Ordering::Relaxed)));
    while reader.step(|_| 0) {}
    assert_eq!(block_on(wanted), Some(1));
    assert!(!done.load(Ordering::Relaxed));
}
