//! Transfers of any bytes against a plain vector, on a disk, in memory, and in the simulator, whole
//! and with faults.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_base::{Error, Result, Site, Steps};
use thermocline_env::direct::DeviceBytes;
use thermocline_env::fault::{Choppy, Fault, FaultStorage, Op, Plan, Repeat};
use thermocline_env::real::RealStorage;
use thermocline_env::sim::SimFs;
use thermocline_env::simulated::SeededRandom;
use thermocline_env::{OpenMode, Storage};
use thermocline_exec::{
    AlignedBuf, BatchRead, BatchReader, BufPool, DirectStorage, PAGE_BYTES, PIECE_BYTES,
    read_range, write_range,
};

const SITE: Site = Site("test: durable");

struct Place {
    name: &'static str,
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    _held: Option<tempfile::TempDir>,
}

fn places() -> Vec<Place> {
    let on = |name, storage: RealStorage, folder: &str| {
        let held = tempfile::tempdir_in(folder).unwrap();
        Place {
            name,
            storage: Arc::new(storage),
            dir: held.path().to_path_buf(),
            _held: Some(held),
        }
    };
    let simulated = |name, refuse| {
        let sim = SimFs::new(Steps::new());
        sim.refuse_direct(refuse);
        Place {
            name,
            storage: Arc::new(sim),
            dir: PathBuf::from("/"),
            _held: None,
        }
    };
    let disk = env!("CARGO_TARGET_TMPDIR");
    let choppy = || RealStorage::with_syscalls(Arc::new(Choppy::new(PAGE_BYTES + 512)));
    let mut places = vec![
        on("disk", RealStorage::new(), disk),
        on("disk, short and interrupted", choppy(), disk),
        simulated("simulated", false),
        simulated("simulated, refused", true),
    ];
    if Path::new("/dev/shm").is_dir() {
        places.push(on("memory", RealStorage::new(), "/dev/shm"));
    }
    places
}

fn bytes_of(seed: u64, len: usize) -> Vec<u8> {
    use thermocline_env::Random;
    let mut bytes = vec![0; len];
    SeededRandom::new(seed).fill(&mut bytes).unwrap();
    bytes
}

#[test]
fn files_written_in_pieces_are_read_at_any_place() {
    for place in places() {
        for seed in 0..6 {
            let random = SeededRandom::new(seed);
            let pick = |bound: usize| usize::try_from(random.below(bound as u64)).unwrap();
            let counter = Arc::new(DeviceBytes::default());
            let pool = BufPool::new(1 << 20);
            let path = place.dir.join(format!("{seed}"));
            let open = |mode| place.storage.open_direct(&path, mode, &counter).unwrap();
            let file = open(OpenMode::CreateNew);
            let direct = file.direct_unit().is_some();
            let model = bytes_of(seed, pick(900_000));
            let (mut done, piece) = (0, PAGE_BYTES * (1 + pick(150)));
            for piece in model.chunks(piece) {
                // Some from aligned memory, which is not copied.
                let mut aligned = AlignedBuf::new();
                aligned.extend_from_slice(piece);
                let piece = if pick(2) == 0 { &*aligned } else { piece };
                write_range(&*file, &pool, piece, done).unwrap();
                done += piece.len() as u64;
            }
            file.sync(SITE).unwrap();
            let len = model.len() as u64;
            assert_eq!(file.len().unwrap(), len, "{}, seed {seed}", place.name);
            if direct && !place.name.contains("short") {
                let whole = len - len % PAGE_BYTES as u64;
                assert_eq!(counter.direct_written(), whole);
            }
            let file = open(OpenMode::Read);
            for _ in 0..100 {
                let (at, want) = (pick(model.len() + 10), pick(pick(70_000) + 1));
                let context = format!("{}, seed {seed}: {want} bytes at {at}", place.name);
                let got = read_range(&*file, &pool, at as u64, want);
                if at + want <= model.len() {
                    assert!(*got.unwrap() == model[at..at + want], "{context}");
                } else if want > 0 {
                    let text = got.unwrap_err().to_string();
                    let place = format!("cannot read {} at offset {at}: ", path.display());
                    assert!(text.starts_with(&place), "{context}: {text}");
                }
            }
            assert!(pool.idle_bytes() <= 1 << 20);
        }
    }
}

#[test]
fn a_storage_for_those_who_know_nothing_of_it_keeps_the_promises_of_files() {
    for place in places() {
        let counter = Arc::new(DeviceBytes::default());
        let pool = BufPool::new(1 << 20);
        let files = DirectStorage::new(Arc::clone(&place.storage), pool, Arc::clone(&counter));
        let path = place.dir.join("a");
        let file = files.open(&path, OpenMode::CreateNew).unwrap();
        assert_eq!(file.direct_unit(), None, "it asks for nothing");
        let mut model = bytes_of(1, 2 * PIECE_BYTES + 5000);
        for (index, piece) in model.chunks(PIECE_BYTES).enumerate() {
            file.write_at(piece, (index * PIECE_BYTES) as u64).unwrap();
        }
        file.sync(SITE).unwrap();
        // It goes on after its last piece, as a file that is synced in between does.
        for len in [3, 70_000] {
            let more = bytes_of(2, len);
            file.write_at(&more, model.len() as u64).unwrap();
            model.extend_from_slice(&more);
        }
        file.sync(SITE).unwrap();
        assert_eq!(file.len().unwrap(), model.len() as u64);
        let reader = files.open(&path, OpenMode::Read).unwrap();
        let random = SeededRandom::new(3);
        let pick = |bound: usize| usize::try_from(random.below(bound as u64)).unwrap();
        for _ in 0..100 {
            let (at, want) = (pick(model.len() + 5000), pick(pick(700_000) + 1));
            let mut got = vec![0; want];
            let n = reader.read_at(&mut got, at as u64).unwrap();
            let expected = &model[at.min(model.len())..(at + want).min(model.len())];
            assert!(got[..n] == *expected, "{}: {want} at {at}", place.name);
        }
        assert_eq!(reader.read_at(&mut [0; 9], u64::MAX).unwrap_or(0), 0);
        file.set_len(77).unwrap();
        let mut got = vec![0; 100];
        assert_eq!(reader.read_at(&mut got, 0).unwrap(), 77);
        assert!(files.exists(&path).unwrap() && counter.read() > 0);
    }
}

#[test]
fn a_read_that_no_file_can_answer_is_an_error_and_takes_no_memory() {
    let sim = SimFs::new(Steps::new());
    sim.install(Path::new("/a"), b"abc");
    let counter = Arc::new(DeviceBytes::default());
    let pool = BufPool::new(1 << 20);
    let file = sim.open_direct(Path::new("/a"), OpenMode::Read, &counter);
    let file = file.unwrap();
    for (offset, len) in [
        (u64::MAX, 1),
        (i64::MAX as u64, 1),
        (1, usize::MAX),
        (0, usize::MAX),
    ] {
        match read_range(&*file, &pool, offset, len).unwrap_err() {
            Error::Io {
                offset: at, source, ..
            } => {
                assert_eq!(at, Some(offset));
                assert_eq!(source.kind(), std::io::ErrorKind::InvalidInput);
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(&*read_range(&*file, &pool, 1, 2).unwrap(), b"bc");
    assert!(
        read_range(&*file, &pool, 9000, 0).is_err(),
        "it lies behind the end"
    );
}

#[test]
fn a_write_at_no_multiple_of_the_unit_is_refused_while_the_file_is_direct() {
    let sim = SimFs::new(Steps::new());
    let counter = Arc::new(DeviceBytes::default());
    let files = DirectStorage::new(Arc::new(sim.clone()), BufPool::new(0), counter);
    let path = Path::new("/a");
    let file = files.open(path, OpenMode::CreateNew).unwrap();
    for len in [5, 2 * PAGE_BYTES] {
        let text = file.write_at(&vec![1; len], 7).unwrap_err().to_string();
        assert!(text.starts_with("cannot write /a at offset 7: "), "{text}");
    }
    assert_eq!(sim.contents(path).unwrap(), b"");
}

/// A file of three pieces and a tail, read back as a whole and in part.
fn work(disk: &FaultStorage, model: &[u8]) -> Result<Vec<u8>> {
    let counter = Arc::new(DeviceBytes::default());
    let pool = BufPool::new(1 << 20);
    let files = DirectStorage::new(Arc::new(disk.clone()), pool.clone(), counter.clone());
    let file = files.open(Path::new("/a"), OpenMode::CreateNew)?;
    file.write_at(model, 0)?;
    file.sync(SITE)?;
    // Buffers that hold other bytes.
    pool.take(PAGE_BYTES).fill(0xee);
    let raw = disk.open_direct(Path::new("/a"), OpenMode::Read, &counter)?;
    let mut bytes = read_range(&*raw, &pool, 0, 3000)?.to_vec();
    let file = files.open(Path::new("/a"), OpenMode::Read)?;
    let mut rest = vec![0; model.len() - 3000];
    file.read_exact_at(&mut rest, 3000)?;
    bytes.extend_from_slice(&rest);
    Ok(bytes)
}

#[test]
fn every_fault_at_every_call_is_an_error_or_the_device_s_own_lie() {
    let model = bytes_of(9, 2 * PIECE_BYTES + PAGE_BYTES + 700);
    let fresh = || FaultStorage::over_sim(SimFs::new(Steps::new()));
    let counted = fresh();
    assert!(work(&counted, &model).unwrap() == model);
    assert_eq!(
        (counted.calls_of(Op::Write), counted.calls_of(Op::Read)),
        (4, 4)
    );
    let mut runs = 0;
    for fault in [
        Fault::Eio,
        Fault::NoSpace,
        Fault::ShortWrite(5000),
        Fault::ShortRead(0),
        Fault::ShortRead(601),
        Fault::SyncKept,
        Fault::SyncDropped,
        Fault::FlipBit(7),
        Fault::LostWrite,
        Fault::Misdirected(PAGE_BYTES as u64),
    ] {
        for at in 0..counted.calls_for(fault, None) {
            for repeat in [Repeat::Once, Repeat::Forever] {
                let disk = fresh();
                disk.arm(Plan {
                    fault,
                    op: None,
                    at,
                    repeat,
                });
                let answer = work(&disk, &model);
                let context = format!("{fault:?} at call {at}, {repeat:?}");
                assert!(disk.fired() > 0, "{context}");
                let lie = matches!(
                    fault,
                    Fault::FlipBit(_) | Fault::LostWrite | Fault::Misdirected(_)
                );
                match answer {
                    // Checksums are for those above.
                    Ok(bytes) => assert!(lie && bytes.len() == model.len(), "{context}"),
                    Err(error) => {
                        let text = error.to_string();
                        assert!(text.contains("/a"), "{context}: {text}");
                        assert!(!text.contains("multiples of"), "{context}: {text}");
                    }
                }
                runs += 1;
            }
        }
    }
    assert!(runs > 60, "{runs}");
}

#[test]
fn a_batch_answers_as_each_read_alone() {
    for place in places() {
        let counter = Arc::new(DeviceBytes::default());
        let pool = BufPool::new(1 << 20);
        let tables = DirectStorage::new(place.storage.clone(), pool.clone(), counter.clone());
        let file = |n: u64, len: usize| {
            let path = place.dir.join(format!("batch {n}"));
            let model = bytes_of(n, len);
            let file = tables.open(&path, OpenMode::CreateNew).unwrap();
            file.write_at(&model, 0).unwrap();
            file.sync(SITE).unwrap();
            (model, tables.open(&path, OpenMode::Read).unwrap())
        };
        let files = [file(0, 300_000), file(1, 4096), file(2, 0), file(3, 77_777)];
        let readers = [
            BatchReader::new(pool.clone()),
            BatchReader::one_by_one(pool),
        ];
        let check = |seed: u64| {
            let random = SeededRandom::new(seed);
            let pick = |bound: usize| usize::try_from(random.below(bound as u64)).unwrap();
            // More than go at once, too.
            let count = [1, 2, 5, 90][pick(4)];
            let wanted: Vec<_> = (0..count)
                .map(|_| (pick(4), pick(310_000), pick(70_000)))
                .collect();
            for reader in &readers {
                let read = |(n, offset, len): &(usize, usize, usize)| BatchRead {
                    file: &*files[*n].1,
                    offset: *offset as u64,
                    len: *len,
                };
                let reads: Vec<_> = wanted.iter().map(read).collect();
                let answers = reader.read(&reads);
                assert_eq!(answers.len(), wanted.len());
                for ((n, offset, len), answer) in wanted.iter().zip(answers) {
                    let model = &files[*n].0;
                    let at = |at: usize| at.min(model.len());
                    let expected = &model[at(*offset)..at(offset + len)];
                    assert!(
                        *answer.unwrap() == *expected,
                        "{} {seed} {offset}",
                        place.name
                    );
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| (0..40).for_each(check));
            scope.spawn(|| (40..80).for_each(check));
        });
        // As much is counted in either way, if all of it lies within the file.
        let (_, large) = &files[0];
        let all: Vec<_> = (0..20)
            .map(|n| BatchRead {
                file: &**large,
                offset: n * 10_001,
                len: 9_000,
            })
            .collect();
        let count = |reader: &BatchReader| {
            let before = counter.read();
            for answer in reader.read(&all) {
                assert_eq!(answer.unwrap().len(), 9_000);
            }
            counter.read() - before
        };
        if !place.name.contains("short") {
            assert_eq!(count(&readers[0]), count(&readers[1]), "{}", place.name);
        }
    }
}

#[test]
fn a_read_of_a_batch_that_fails_says_so_and_the_others_do_not() {
    // Over real files, too: a fault below must not be passed by.
    let held = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = held.path().join("a");
    let disk = FaultStorage::new(Arc::new(RealStorage::new()));
    let file = disk.open(&path, OpenMode::CreateNew).unwrap();
    file.write_at(&[7; 10_000], 0).unwrap();
    let reader = BatchReader::new(BufPool::new(1 << 20));
    let read = |offset| BatchRead {
        file: &*file,
        offset,
        len: 100,
    };
    disk.arm(Plan {
        fault: Fault::Eio,
        op: Some(Op::Read),
        at: disk.calls_of(Op::Read) + 1,
        repeat: Repeat::Once,
    });
    let answers = reader.read(&[read(0), read(5000), read(9900)]);
    let good: Vec<_> = answers.iter().map(|answer| answer.is_ok()).collect();
    assert_eq!(good, [true, false, true]);
    let error = answers[1].as_ref().unwrap_err().to_string();
    assert!(error.contains(&path.display().to_string()), "{error}");
    let far = reader.read(&[read(u64::MAX - 10), read(0)]);
    assert!(far[0].is_err() && *far[1].as_ref().unwrap().to_vec() == [7; 100]);
}
