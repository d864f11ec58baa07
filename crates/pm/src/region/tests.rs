//! Regions of every kind that this machine has.

use super::*;
use crate::shadow::Shadow;
use thermocline_base::Steps;
use thermocline_base::budget::Budget;
use thermocline_base::options::RegionDemand;
use thermocline_env::OpenMode;

fn write(region: &Region, at: PmOff, bytes: &[u8]) {
    // SAFETY: no test here holds a slice while it stores.
    unsafe { region.write(at, bytes) }
}

fn write_nt(region: &Region, at: PmOff, bytes: &[u8]) {
    // SAFETY: as above.
    unsafe { region.write_nt(at, bytes) }
}

fn store_u64(region: &Region, at: PmOff, value: u64, site: Site) {
    // SAFETY: as above.
    unsafe { region.store_u64(at, value, site) }
}

const SITE: Site = Site("test");

fn spec(path: &Path, capacity: u64) -> RegionSpec {
    RegionSpec {
        env: Env::real(),
        place: Place::Path(path.to_path_buf()),
        demand: RegionDemand::Any,
        capacity,
        emulation: Emulation::None,
        read_only: false,
    }
}

/// A folder on an ordinary file system and one on tmpfs.
fn folders() -> Vec<tempfile::TempDir> {
    let mut all = vec![tempfile::tempdir().unwrap()];
    if Path::new("/dev/shm").is_dir() {
        all.push(tempfile::tempdir_in("/dev/shm").unwrap());
    }
    all
}

#[test]
fn what_is_persisted_is_there_after_reopening_and_growing() {
    for dir in folders() {
        let path = dir.path().join("r");
        let region = Region::create(&spec(&path, 4 << 20), 1 << 20).unwrap();
        write(&region, PmOff(100), b"hello");
        region.persist(PmOff(100), 5, SITE).unwrap();
        write_nt(&region, PmOff(4096), &[7; 128]);
        store_u64(&region, PmOff(8192), 42, SITE);
        region.persist(PmOff(8192), 8, SITE).unwrap();
        region.grow(1 << 20, 3 << 20).unwrap();
        assert_eq!(region.bytes(PmOff(2 << 20), 8).unwrap(), [0; 8]);
        let counters = region.counters();
        assert_eq!(counters.bytes_stored, 5 + 128 + 8);
        assert_eq!(counters.lines_written_back, 1 + 2 + 1);
        assert_eq!(counters.fences, 2);
        drop(region);
        let region = Region::open(&spec(&path, 4 << 20)).unwrap();
        assert_eq!(region.len(), 3 << 20);
        assert_eq!(region.bytes(PmOff(100), 5).unwrap(), b"hello");
        assert_eq!(region.bytes(PmOff(4096), 128).unwrap(), [7; 128]);
        assert_eq!(region.load_u64(PmOff(8192)).unwrap(), 42);
    }
}

fn in_dram(capacity: u64) -> RegionSpec {
    in_dram_of(&Account::new(Budget::new(u64::MAX), u64::MAX), capacity)
}

fn in_dram_of(account: &Arc<Account>, capacity: u64) -> RegionSpec {
    RegionSpec {
        place: Place::Dram(account.clone()),
        ..spec(Path::new("unused"), capacity)
    }
}

#[test]
fn plain_memory_grows_persists_nothing_and_is_empty_when_it_is_opened_again() {
    let region = Region::create(&in_dram(4 << 20), 1 << 20).unwrap();
    assert_eq!(
        (region.kind(), region.capacity()),
        (RegionKind::Dram, 4 << 20)
    );
    write(&region, PmOff(100), b"hello");
    write_nt(&region, PmOff(4096), &[7; 128]);
    store_u64(&region, PmOff(8192), 42, SITE);
    region.persist(PmOff(100), 8192, SITE).unwrap();
    region.populate(PmOff(0), 1 << 20, true);
    region.grow(1 << 20, 3 << 20).unwrap();
    assert_eq!(region.bytes(PmOff(2 << 20), 8).unwrap(), [0; 8]);
    assert_eq!(region.bytes(PmOff(100), 5).unwrap(), b"hello");
    assert_eq!(region.bytes(PmOff(4096), 128).unwrap(), [7; 128]);
    assert_eq!(region.load_u64(PmOff(8192)).unwrap(), 42);
    region.check_media().unwrap();
    assert_eq!(region.counters(), PmCounters::default());
    // Beyond what there is yet, though the addresses are reserved.
    assert!(region.bytes(PmOff(3 << 20), 1).is_err());
    drop(region);
    assert!(Region::open(&in_dram(4 << 20)).unwrap().is_empty());
}

/// Near 2^64 the pages of so many bytes come to none.
#[test]
fn addresses_that_no_process_has_are_refused() {
    for capacity in [u64::MAX, u64::MAX - 4095, u64::MAX - (2 << 20), 1 << 62] {
        let error = Region::open(&in_dram(capacity)).unwrap_err();
        assert_eq!(error.kind(), thermocline_base::ErrorKind::Io, "{error}");
        assert!(error.to_string().contains("as much as dram"), "{error}");
    }
    assert_eq!(Region::open(&in_dram(4097)).unwrap().capacity(), 8192);
}

#[test]
fn plain_memory_is_charged_for_as_long_as_somebody_has_it() {
    let budget = Budget::new(6 << 20);
    let account = Account::new(budget.clone(), 2 << 20);
    let region = Region::create(&in_dram_of(&account, 4 << 20), 1 << 20).unwrap();
    assert_eq!((account.charged(), budget.charged()), (1 << 20, 1 << 20));
    let error = region.grow(1 << 20, 3 << 20).unwrap_err();
    assert_eq!(error.kind(), thermocline_base::ErrorKind::OutOfSpace);
    assert_eq!((account.charged(), region.len()), (1 << 20, 1 << 20));
    region.grow(1 << 20, 2 << 20).unwrap();
    // Of another store, whose own limit has room: half of the budget is for the rest.
    let second = Account::new(budget.clone(), 6 << 20);
    let region_2 = Region::create(&in_dram_of(&second, 4 << 20), 1 << 20).unwrap();
    assert!(region_2.grow(1 << 20, (1 << 20) + 4096).is_err());
    drop(region_2);
    let other = region.clone();
    drop(region);
    assert_eq!((account.charged(), budget.charged()), (2 << 20, 2 << 20));
    drop(other);
    assert_eq!((account.charged(), budget.charged()), (0, 0));
    assert_eq!(account.over(), 0);
}

#[test]
fn plain_memory_is_not_taken_for_something_that_was_demanded() {
    for refused in [
        RegionSpec {
            demand: RegionDemand::File,
            ..in_dram(1 << 20)
        },
        RegionSpec {
            emulation: Emulation::Optane,
            ..in_dram(1 << 20)
        },
        RegionSpec {
            read_only: true,
            ..in_dram(1 << 20)
        },
    ] {
        let error = Region::open(&refused).unwrap_err();
        assert_eq!(error.kind(), thermocline_base::ErrorKind::InvalidArgument);
    }
}

#[test]
fn an_offset_from_damaged_bytes_is_an_error() {
    let sim = SimPm::new(1 << 20, Steps::new());
    let mut spec = spec(Path::new("x"), 1 << 20);
    spec.place = Place::Sim(sim);
    let region = Region::create(&spec, 1 << 16).unwrap();
    for (off, len) in [(1 << 16, 1), (u64::MAX, 8), (65_530, 8)] {
        let error = region.bytes(PmOff(off), len).unwrap_err();
        assert_eq!(error.kind(), thermocline_base::ErrorKind::Corruption);
    }
    assert!(region.load_u64(PmOff(4)).is_err(), "unaligned");
}

#[test]
fn a_file_cut_short_under_the_mapping_is_an_error_not_a_death() {
    for dir in folders() {
        let path = dir.path().join("r");
        let region = Region::create(&spec(&path, 1 << 20), 1 << 20).unwrap();
        region.check_media().unwrap();
        Env::real()
            .storage
            .open(&path, OpenMode::ReadWrite)
            .unwrap()
            .set_len(4096)
            .unwrap();
        let bytes = region.bytes(PmOff(512 << 10), 8).unwrap().to_vec();
        assert_eq!(bytes, [0; 8]);
        let error = region.check_media().unwrap_err().to_string();
        assert!(error.contains("524288"), "{error}");
        assert!(region.fence(SITE).is_err(), "a writer learns it too");
    }
}

/// Invariant S2 of `sigbus`, seen from another thread while the handler is at work.
#[test]
fn who_sees_what_stands_in_for_a_lost_page_knows_that_it_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    let region = Region::create(&spec(&path, 1 << 20), 1 << 20).unwrap();
    let at = PmOff(512 << 10);
    write(&region, at, &[7; 64]);
    region.persist(at, 64, SITE).unwrap();
    let file = Env::real().storage.open(&path, OpenMode::ReadWrite);
    file.unwrap().set_len(4096).unwrap();
    let page = region.bytes(at, 1).unwrap().as_ptr().addr();
    crate::sigbus::pause::at(page);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| region.bytes(at, 64).unwrap().to_vec());
        crate::sigbus::pause::wait();
        let second = region.bytes(at, 64).unwrap().to_vec();
        let known = region.check_media().is_err();
        crate::sigbus::pause::end();
        assert_eq!(second, [0; 64]);
        assert!(
            known,
            "zeros were read in place of a page, and nobody knows"
        );
        assert_eq!(first.join().unwrap(), [0; 64]);
    });
    assert!(region.check_media().is_err());
}

#[test]
fn a_demanded_kind_that_is_not_there_is_refused_politely() {
    for dir in folders() {
        let mut spec = spec(&dir.path().join("r"), 1 << 20);
        spec.demand = RegionDemand::Dax;
        let error = Region::create(&spec, 1 << 20).unwrap_err();
        assert_eq!(error.kind(), thermocline_base::ErrorKind::Unsupported);
        assert!(error.to_string().contains("'dax' was demanded"), "{error}");
    }
}

#[test]
fn several_flushes_of_one_thread_become_durable_with_one_fence() {
    let sim = SimPm::new(1 << 16, Steps::new());
    let mut spec = spec(Path::new("x"), 1 << 16);
    spec.place = Place::Sim(sim.clone());
    let region = Region::create(&spec, 1 << 16).unwrap();
    write(&region, PmOff(0), &[1; 8]);
    write_nt(&region, PmOff(64), &[2; 64]);
    region.flush(PmOff(0), 8);
    assert_eq!(sim.crash().pending().len(), 9);
    region.fence(SITE).unwrap();
    assert!(sim.crash().pending().is_empty());
    sim.fail_fence_in(0);
    assert!(region.fence(SITE).is_err());
}

/// An open that fails may have flushed a million ranges. Later fences of its thread would go through all of them.
#[test]
fn a_region_that_is_gone_leaves_nothing_to_sync() {
    for dir in folders() {
        let region = Region::create(&spec(&dir.path().join("r"), 1 << 20), 1 << 20).unwrap();
        let (kind, number) = (region.kind(), region.inner.number);
        write(&region, PmOff(64), &[1; 64]);
        region.flush(PmOff(64), 64);
        drop(region);
        assert!(unsynced::take(number).is_empty(), "{kind:?}");
    }
}

#[test]
fn a_region_is_written_by_one_and_read_by_many() {
    for dir in folders() {
        let path = dir.path().join("r");
        let writer = spec(&path, 1 << 20);
        let reader = RegionSpec {
            read_only: true,
            ..writer.clone()
        };
        let region = Region::create(&writer, 1 << 20).unwrap();
        for other in [&writer, &reader] {
            let error = Region::open(other).unwrap_err();
            assert_eq!(error.kind(), thermocline_base::ErrorKind::Busy, "{error}");
        }
        region.unlock();
        let one = Region::open(&reader).unwrap();
        let two = Region::open(&reader).unwrap();
        assert!(Region::open(&writer).is_err());
        drop((one, two));
        Region::open(&writer).unwrap();
    }
}

fn shadowed(path: &Path, evictions_per_ms: u32) -> RegionSpec {
    RegionSpec {
        place: Place::Shadow {
            path: path.to_path_buf(),
            shadow: Shadow {
                seed: 1,
                evictions_per_ms,
            },
        },
        ..spec(path, 1 << 30)
    }
}

#[test]
fn a_shadowed_region_keeps_what_was_persisted_and_forgets_the_rest() {
    for dir in folders() {
        let path = dir.path().join("r");
        let spec = shadowed(&path, 0);
        let region = Region::create(&spec, 1 << 20).unwrap();
        assert_eq!(region.kind().name(), "shadow");
        drop(region);
        for life in 0..4u64 {
            let region = Region::open(&spec).unwrap();
            assert_eq!(region.load_u64(PmOff(0)).unwrap(), life);
            store_u64(&region, PmOff(0), life + 1, SITE);
            write(&region, PmOff(5000), &[1; 100]);
            {
                let _another = SimPm::as_writer(1);
                region.flush(PmOff(5000), 100);
                write_nt(&region, PmOff(8192), &[1; 128]);
            }
            store_u64(&region, PmOff(9000), 1, SITE);
            region.persist(PmOff(0), 8, SITE).unwrap();
            // The process sees it all.
            assert_eq!(region.bytes(PmOff(5000), 100).unwrap(), [1; 100]);
            assert_eq!(region.bytes(PmOff(8192), 128).unwrap(), [1; 128]);
            assert_eq!(region.load_u64(PmOff(9000)).unwrap(), 1);
            let counters = region.counters();
            assert_eq!(counters.bytes_stored, 8 + 100 + 128 + 8);
            assert_eq!(counters.lines_written_back, 1 + 2 + 2);
            assert_eq!(counters.fences, 1);
            let len = region.len();
            region.grow(len, len + (1 << 20)).unwrap();
            write(&region, PmOff(len), b"kept");
            region.persist(PmOff(len), 4, SITE).unwrap();
            write(&region, PmOff(len + 100), b"lost");
            for other in [&spec, &self::spec(&path, 1 << 30)] {
                let error = Region::open(other).unwrap_err();
                assert_eq!(error.kind(), thermocline_base::ErrorKind::Busy, "{error}");
            }
            drop(region);
            let read_only = RegionSpec {
                read_only: true,
                ..spec.clone()
            };
            for other in [&read_only, &self::spec(&path, 1 << 30)] {
                let region = Region::open(other).unwrap();
                assert_eq!(region.len(), len + (1 << 20));
                assert_eq!(region.load_u64(PmOff(0)).unwrap(), life + 1);
                assert_eq!(region.bytes(PmOff(64), 16_320).unwrap(), [0; 16_320]);
                assert_eq!(region.bytes(PmOff(len), 4).unwrap(), b"kept");
                assert_eq!(region.bytes(PmOff(len + 100), 4).unwrap(), [0; 4]);
            }
        }
    }
}

#[test]
fn what_was_stored_where_a_shadowed_region_grows_again_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let region = Region::create(&shadowed(&dir.path().join("r"), 0), 1 << 20).unwrap();
    write(&region, PmOff(600 << 10), &[1; 64]);
    region.flush(PmOff(600 << 10), 64);
    write(&region, PmOff(0), &[2; 64]);
    region.flush(PmOff(0), 64);
    region.grow(512 << 10, 2 << 20).unwrap();
    region.fence(SITE).unwrap();
    for (at, byte) in [(0, 2), (600 << 10, 0), (3 << 19, 0)] {
        assert_eq!(region.bytes(PmOff(at), 64).unwrap(), [byte; 64]);
    }
    drop(region);
    let region = Region::open(&spec(&dir.path().join("r"), 2 << 20)).unwrap();
    assert_eq!(region.bytes(PmOff(0), 64).unwrap(), [2; 64]);
    assert_eq!(region.bytes(PmOff(600 << 10), 64).unwrap(), [0; 64]);
}

#[test]
fn evictions_end_when_a_shadowed_region_is_unlocked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    let region = Region::create(&shadowed(&path, 1000), 1 << 20).unwrap();
    let file = Env::real().storage.open(&path, OpenMode::Read).unwrap();
    let image = || {
        let mut bytes = vec![0; 1 << 20];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    };
    write(&region, PmOff(0), &vec![1; 1 << 18]);
    while image().iter().all(|&b| b == 0) {
        std::thread::yield_now();
    }
    region.unlock();
    let left = image();
    write(&region, PmOff(1 << 19), &vec![1; 1 << 18]);
    drop(region);
    assert_eq!(image(), left);
}

#[test]
fn a_large_shadowed_region_takes_no_more_than_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    let capacity = 64u64 << 30;
    let spec = RegionSpec {
        capacity,
        ..shadowed(&path, 10)
    };
    let storage = Env::real().storage;
    let file = storage.open(&path, OpenMode::CreateNew).unwrap();
    // A file with one hole: what opening copied would show in time and memory.
    file.set_len(capacity).unwrap();
    let region = Region::open(&spec).unwrap();
    for at in [0, capacity / 2, capacity - 64] {
        write(&region, PmOff(at), &[1; 64]);
        region.persist(PmOff(at), 64, SITE).unwrap();
    }
    drop(region);
    let region = Region::open(&spec).unwrap();
    assert_eq!(region.bytes(PmOff(capacity - 64), 64).unwrap(), [1; 64]);
}

#[test]
fn a_shadowed_file_cut_short_is_an_error_not_a_death() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r");
    let region = Region::create(&shadowed(&path, 0), 1 << 20).unwrap();
    write(&region, PmOff(512 << 10), &[1; 64]);
    let storage = Env::real().storage;
    let file = storage.open(&path, OpenMode::ReadWrite).unwrap();
    file.set_len(4096).unwrap();
    let error = region.persist(PmOff(512 << 10), 64, SITE).unwrap_err();
    assert!(error.to_string().contains("524288"), "{error}");
}

#[test]
fn a_shadowed_region_is_no_other_kind() {
    let dir = tempfile::tempdir().unwrap();
    for demand in [RegionDemand::Dax, RegionDemand::File, RegionDemand::Shm] {
        let spec = RegionSpec {
            demand,
            ..shadowed(&dir.path().join("r"), 0)
        };
        let error = Region::create(&spec, 1 << 20).unwrap_err();
        assert_eq!(error.kind(), thermocline_base::ErrorKind::Unsupported);
        assert!(error.to_string().contains("kind 'shadow'"), "{error}");
    }
}

/// One thread stores, another persists.
#[test]
fn a_persist_covers_what_other_threads_stored() {
    for dir in folders() {
        let path = dir.path().join("r");
        let region = Region::create(&spec(&path, 1 << 20), 1 << 20).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write(&region, PmOff(8192), &[1; 100]));
            writer.join().unwrap();
        });
        let before = region.counters();
        region.persist(PmOff(8192), 100, SITE).unwrap();
        let after = region.counters();
        let lines = after.lines_written_back - before.lines_written_back;
        assert_eq!((lines, after.fences - before.fences), (2, 1));
        if region.kind() == RegionKind::File {
            assert_eq!(after.device_bytes - before.device_bytes, 4096);
        }
    }
}

/// Its end goes back to the device, and what comes in its place is zero.
#[test]
fn a_region_that_shrinks_gives_its_file_s_end_back() {
    for dir in folders() {
        let path = dir.path().join("r");
        let region = Region::create(&spec(&path, 4 << 20), 3 << 20).unwrap();
        assert!(region.can_shrink());
        let last = PmOff((2 << 20) + 100);
        for at in [PmOff(100), last] {
            write(&region, at, b"hello");
            region.persist(at, 5, SITE).unwrap();
        }
        // SAFETY: nobody holds a slice.
        unsafe { region.shrink(1 << 20) }.unwrap();
        let file_len = || {
            let file = Env::real().storage.open(&path, OpenMode::Read).unwrap();
            file.len().unwrap()
        };
        assert_eq!((region.len(), file_len()), (1 << 20, 1 << 20));
        region.bytes(last, 5).unwrap_err();
        region.prefetch(last);
        region.populate(last, 4096, true);
        assert_eq!(region.bytes(PmOff(100), 5).unwrap(), b"hello");
        region.grow_keeping(1 << 20, 3 << 20, 1 << 20).unwrap();
        assert_eq!(file_len(), 3 << 20, "what was to be left is left");
        assert_eq!(region.bytes(last, 5).unwrap(), [0; 5]);
        write(&region, last, b"again");
        region.persist(last, 5, SITE).unwrap();
        drop(region);
        let region = Region::open(&spec(&path, 4 << 20)).unwrap();
        assert_eq!(region.bytes(PmOff(100), 5).unwrap(), b"hello");
        assert_eq!(region.bytes(last, 5).unwrap(), b"again");
    }
}

/// Whoever does not want it any more is asked in between, and leaves nothing behind.
#[test]
fn a_growth_that_nobody_wants_any_more_ends() {
    for dir in folders() {
        let path = dir.path().join("r");
        let region = Region::create(&spec(&path, 32 << 20), 1 << 20).unwrap();
        write(&region, PmOff(100), b"hello");
        region.persist(PmOff(100), 5, SITE).unwrap();
        let looks = std::cell::Cell::new(0);
        let goes_on = || {
            looks.set(looks.get() + 1);
            looks.get() < 2
        };
        let grown = region.grow_while(1 << 20..17 << 20, 4096, &goes_on);
        if region.kind() == RegionKind::Shm {
            // No zeros are written there.
            grown.unwrap();
            assert_eq!(looks.get(), 0);
            continue;
        }
        assert!(matches!(grown, Err(Error::Closed)), "{grown:?}");
        assert_eq!(looks.get(), 2);
        let file = Env::real().storage.open(&path, OpenMode::Read).unwrap();
        assert_eq!((region.len(), file.len().unwrap()), (1 << 20, 1 << 20));
        region.grow(1 << 20, 17 << 20).unwrap();
        assert_eq!(region.bytes(PmOff(100), 5).unwrap(), b"hello");
        assert_eq!(region.bytes(PmOff(16 << 20), 5).unwrap(), [0; 5]);
        write(&region, PmOff(16 << 20), b"there");
        region.persist(PmOff(16 << 20), 5, SITE).unwrap();
    }
}

/// A device that has no more, or refuses, leaves the region as it was, and that is no failure of what it has. A sync that
/// fails is one, even if it says that there is no room.
#[test]
fn a_growth_that_is_refused_is_no_more_than_that() {
    use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
    use thermocline_env::real::RealStorage;

    let faults = [
        (Fault::NoSpace, Op::Allocate, true),
        (Fault::Quota, Op::Write, true),
        (Fault::Eio, Op::Allocate, true),
        (Fault::Eio, Op::Write, true),
        (Fault::Eio, Op::Sync, false),
    ];
    for (fault, op, no_more) in faults {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        let disk = FaultStorage::new(Arc::new(RealStorage::new()));
        let mut spec = spec(&path, 4 << 20);
        spec.env.storage = Arc::new(disk.clone());
        let region = Region::create(&spec, 1 << 20).unwrap();
        disk.arm(Plan {
            fault,
            op: Some(op),
            at: disk.calls_for(fault, Some(op)),
            repeat: Repeat::Once,
        });
        let error = region.grow_keeping(1 << 20, 2 << 20, 4096).unwrap_err();
        assert!(disk.fired() > 0, "{fault:?} {op:?}");
        assert_eq!(region.len(), 1 << 20);
        let is_full = matches!(error, Error::OutOfSpace(_));
        assert_eq!(is_full, no_more, "{fault:?} {op:?}: {error}");
        // What is said of the device is true.
        let says_full = error.to_string().contains("is full");
        assert_eq!(says_full, fault != Fault::Eio, "{error}");
        if no_more {
            region.grow_keeping(1 << 20, 2 << 20, 4096).unwrap();
            write(&region, PmOff(3 << 19), b"hello");
            region.persist(PmOff(3 << 19), 5, SITE).unwrap();
        }
    }
}

#[test]
fn a_growth_whose_sync_finds_no_room_is_a_failed_sync_and_one_refused_before_is_not() {
    use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
    for folder in folders() {
        let mut spec = spec(&folder.path().join("region"), 1 << 20);
        let disk = FaultStorage::new(spec.env.storage.clone());
        spec.env.storage = Arc::new(disk.clone());
        let region = Region::create(&spec, 64 << 10).unwrap();
        let grow = |fault, op| {
            disk.arm(Plan {
                fault,
                op: Some(op),
                at: disk.calls_for(fault, Some(op)),
                repeat: Repeat::Once,
            });
            region.grow(64 << 10, 128 << 10).unwrap_err()
        };
        for op in [Op::Allocate, Op::Write] {
            if op == Op::Write && region.kind() != RegionKind::File {
                // Zeros are not written there.
                continue;
            }
            let refused = grow(Fault::NoSpace, op);
            assert!(matches!(refused, Error::OutOfSpace(_)), "{refused}");
            write(&region, PmOff(0), &[1; 64]);
            region.persist(PmOff(0), 64, SITE).unwrap();
        }
        let failed = grow(Fault::SyncNoSpace, Op::Sync);
        assert!(matches!(failed, Error::Io { .. }), "{failed}");
        assert_eq!(region.len(), 64 << 10);
        write(&region, PmOff(0), &[2; 64]);
        let persisted = region.persist(PmOff(0), 64, SITE);
        match region.kind() {
            // It may have covered what others stored.
            RegionKind::File => assert!(matches!(persisted, Err(Error::Poisoned(_)))),
            _ => persisted.unwrap(),
        }
        drop(region);
        // The next one stores again what it relies upon.
        let region = Region::open(&spec).unwrap();
        // SAFETY: nobody holds a slice.
        unsafe { region.flush_again(PmOff(0), 64 << 10) };
        region.fence(SITE).unwrap();
        assert_eq!(region.bytes(PmOff(0), 64).unwrap(), [2; 64]);
    }
}

/// However many huge pages the system gives, it says how many, and none lies outside.
#[test]
fn a_region_says_how_much_of_it_has_huge_pages() {
    for dir in folders() {
        let path = dir.path().join("r");
        for spec in [spec(&path, 8 << 20), in_dram(8 << 20)] {
            let region = Region::create(&spec, 1 << 20).unwrap();
            region.grow(1 << 20, 7 << 20).unwrap();
            write(&region, PmOff(5 << 20), b"stays");
            let huge = region.huge_bytes().unwrap();
            assert!(huge <= 6 << 20 && huge.is_multiple_of(2 << 20), "{huge}");
            assert_eq!(region.bytes(PmOff(5 << 20), 5).unwrap(), b"stays");
        }
    }
}

/// Its memory is the reader's own. What pages that has says nothing of the region to which somebody writes.
#[test]
fn a_copy_does_not_say_how_much_of_its_region_has_huge_pages() {
    for dir in folders() {
        let spec = spec(&dir.path().join("r"), 4 << 20);
        let region = Region::create(&spec, 1 << 20).unwrap();
        assert!(region.huge_bytes().is_some());
        let copy = Copying::begin(&spec).unwrap();
        assert_eq!(copy.region().len(), region.len());
        assert_eq!(copy.region().huge_bytes(), None);
    }
}
