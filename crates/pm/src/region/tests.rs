//! Regions of every kind that this machine has.

use super::*;
use thermocline_base::Steps;
use thermocline_env::OpenMode;

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
        region.write(PmOff(100), b"hello");
        region.persist(PmOff(100), 5, SITE).unwrap();
        region.write_nt(PmOff(4096), &[7; 128]);
        region.store_u64(PmOff(8192), 42, SITE);
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
    region.write(PmOff(0), &[1; 8]);
    region.write_nt(PmOff(64), &[2; 64]);
    region.flush(PmOff(0), 8);
    assert_eq!(sim.crash().pending().len(), 9);
    region.fence(SITE).unwrap();
    assert!(sim.crash().pending().is_empty());
    sim.fail_fence_in(0);
    assert!(region.fence(SITE).is_err());
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
