//! Level 0 in persistent memory: reads, what is held, what comes back, and copies.

use std::ops::Bound::Unbounded;
use std::path::Path;

use thermocline_base::options::Options;
use thermocline_base::{CfId, CfOptions, ErrorKind, SeqNo, WriteBatch};
use thermocline_level0::{FoundValue, PmPart};
use thermocline_testkit::explore::{side_by_side, times};
use thermocline_testkit::{Replay, Rng, seeds};

use crate::flush::tests::{Model, check_cursor, delete, files, get, put};
use crate::tests::Machine;
use crate::{Durability, Engine, Family};

mod along;
mod costs;
mod internal;
mod limits;
mod scans;
mod slices;

const PM: u64 = 4 << 20;
const ALL: Family = Family {
    id: CfId::DEFAULT,
    reverse: false,
};

fn options() -> Options {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.compaction.table_bytes = 16 << 10;
    options.set("level0.shape", "pm-tables").unwrap();
    options
}

fn open(machine: &Machine) -> Engine {
    Engine::open(machine.world(), Path::new("/db"), options()).unwrap()
}

/// The number of tables in persistent memory that exist, and of references to them.
fn in_pm(engine: &Engine) -> (usize, usize) {
    let manifest = engine.inner.common.catalog.edits();
    let version = manifest.state().version();
    let references = version.pm_tables().map(|(_, references)| references.len());
    (version.pm_table_count(), references.sum())
}

fn verified(machine: &Machine) -> crate::Report {
    crate::verify(&machine.world(), Path::new("/db"), &options()).unwrap()
}

fn compact_all(engine: &Engine) {
    engine
        .compact(CfId::DEFAULT, (Unbounded, Unbounded))
        .unwrap();
}

#[test]
fn a_flush_writes_no_file_and_what_it_wrote_is_read_in_every_way() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    let other = engine.family("other", &CfOptions::default()).unwrap();
    let mut model = Model::new();
    for round in 0..3u8 {
        for n in 0..200u8 {
            let value = vec![round; 10 + usize::from(n) * 3];
            put(&engine, CfId::DEFAULT, &[n], &value);
            model.insert(vec![n], value);
        }
        delete(&engine, CfId::DEFAULT, &[round]);
        model.remove(&vec![round]);
        put(&engine, other.id, b"other", &[round]);
        let mut batch = WriteBatch::new();
        let range = (vec![100 + round], vec![110 + round]);
        batch
            .delete_range(CfId::DEFAULT, &range.0, Some(&range.1))
            .unwrap();
        engine.write(batch.iter(), Durability::Immediate).unwrap();
        model.retain(|key, _| *key < range.0 || *key >= range.1);
        assert!(engine.flush().unwrap() > 0);
    }
    assert_eq!(files(&machine), 0);
    let (tables, references) = in_pm(&engine);
    assert!(
        tables >= 3 && references >= tables + 3,
        "families share tables"
    );
    let check = |engine: &Engine| {
        for n in 0..=u8::MAX {
            assert_eq!(get(engine, &[n]).as_ref(), model.get(&vec![n]), "{n}");
        }
        check_cursor(engine.cursor(ALL).unwrap(), &model);
        let found = engine.get(other.id, b"other", <[u8]>::to_vec).unwrap();
        assert_eq!(found, Some(vec![2]));
    };
    check(&engine);
    engine.close().unwrap();
    drop(engine);
    let report = verified(&machine);
    assert!(
        report.faults.is_empty() && report.records > 300,
        "{report:?}"
    );
    let engine = open(&machine);
    assert_eq!(in_pm(&engine), (tables, references));
    check(&engine);
    compact_all(&engine);
    assert!(files(&machine) > 0);
    check(&engine);
    // The other family's references keep the tables.
    assert_eq!(in_pm(&engine).1, 3);
    engine.compact(other.id, (Unbounded, Unbounded)).unwrap();
    engine.inner.reclaimer.reclaim().unwrap();
    assert_eq!(in_pm(&engine), (0, 0));
    check(&engine);
}

#[test]
fn who_holds_a_table_keeps_its_zones_and_they_come_back() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    let mut model = Model::new();
    for n in 0..100u8 {
        let value = vec![n; 2000];
        put(&engine, CfId::DEFAULT, &[n], &value);
        model.insert(vec![n], value);
    }
    engine.flush().unwrap();
    let snapshot = engine.snapshot();
    let mut cursor = engine.cursor(ALL).unwrap();
    assert!(cursor.seek(&[40]).unwrap());
    let value = engine.value(CfId::DEFAULT, &[7]).unwrap().unwrap();
    assert!(value.is_pinned());
    for n in 0..100u8 {
        delete(&engine, CfId::DEFAULT, &[n]);
    }
    engine.flush().unwrap();
    compact_all(&engine);
    let (held, references) = in_pm(&engine);
    assert_eq!(references, 0);
    assert!(held > 0, "readers hold them");
    check_cursor(snapshot.cursor(ALL).unwrap(), &model);
    for n in 40..100u8 {
        assert_eq!((cursor.key(), cursor.value()), (&[n][..], &[n; 2000][..]));
        assert_eq!(cursor.next().unwrap(), n < 99);
    }
    drop((snapshot, cursor));
    compact_all(&engine);
    engine.inner.reclaimer.reclaim().unwrap();
    assert!(in_pm(&engine).0 > 0, "the value does");
    assert_eq!(*value, [7; 2000]);
    value.verify().unwrap();
    drop(value);
    engine.inner.reclaimer.reclaim().unwrap();
    assert_eq!(in_pm(&engine), (0, 0));
    let used = engine.metrics().space;
    assert!(used.zones_attached <= 2, "{used:?}");
    assert_eq!(files(&machine), 0);
}

/// A reader who outlives the store keeps what he reads, whatever the next opening does.
#[test]
fn readers_of_an_earlier_opening_read_on() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    let mut model = Model::new();
    for n in 0..100u8 {
        put(&engine, CfId::DEFAULT, &[n], &[n; 1000]);
        model.insert(vec![n], vec![n; 1000]);
    }
    engine.flush().unwrap();
    let snapshot = engine.snapshot();
    compact_all(&engine);
    assert_eq!(in_pm(&engine).1, 0);
    engine.close().unwrap();
    drop(engine);
    let engine = open(&machine);
    let (left, _) = in_pm(&engine);
    for round in 0..4u8 {
        for n in 0..100u8 {
            put(&engine, CfId::DEFAULT, &[n], &[round; 1000]);
        }
        engine.flush().unwrap();
        compact_all(&engine);
    }
    check_cursor(snapshot.cursor(ALL).unwrap(), &model);
    drop(snapshot);
    engine.inner.reclaimer.reclaim().unwrap();
    assert_eq!(in_pm(&engine), (0, 0), "{left} had been left");
}

#[test]
fn copies_have_what_lies_in_persistent_memory_in_files() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    let mut model = Model::new();
    let fill = |engine: &Engine, model: &mut Model, round: u8| {
        for n in 0..50u8 {
            let key = vec![n.wrapping_mul(round + 3) % 120];
            put(engine, CfId::DEFAULT, &key, &[round; 300]);
            model.insert(key, vec![round; 300]);
        }
        engine.flush().unwrap();
    };
    fill(&engine, &mut model, 0);
    compact_all(&engine);
    fill(&engine, &mut model, 1);
    // A table in a file between those in persistent memory.
    let path = Path::new("/outside.sst");
    let mut table = crate::IngestWriter::create(&machine.world().env, path).unwrap();
    table.put(&[3], b"ingested").unwrap();
    table.finish().unwrap();
    engine.ingest(ALL.id, &[path]).unwrap();
    model.insert(vec![3], b"ingested".to_vec());
    fill(&engine, &mut model, 2);
    put(&engine, CfId::DEFAULT, b"last", b"in a memtable");
    model.insert(b"last".to_vec(), b"in a memtable".to_vec());
    assert!(in_pm(&engine).1 > 0);
    check_cursor(engine.cursor(ALL).unwrap(), &model);
    let copy = Path::new("/copy");
    engine.checkpoint(copy).unwrap();
    let copied = Machine::new(PM);
    let world = crate::World {
        sim: copied.world().sim,
        ..machine.world()
    };
    let report = crate::verify(&world, copy, &options()).unwrap();
    assert_eq!(report.faults, vec![]);
    let copy = Engine::open(world, copy, options()).unwrap();
    assert_eq!(in_pm(&copy), (0, 0));
    check_cursor(copy.cursor(ALL).unwrap(), &model);
    check_cursor(engine.cursor(ALL).unwrap(), &model);
}

/// Level 0 keeps to its share, whatever is written, and answers as a model does.
#[test]
fn level_0_keeps_to_its_share() {
    // In a plain run one of them, whose level 0 has so little that half of the writes are more.
    let (some, writes) = match times() {
        None => (2..3, 2_000u32),
        Some(times) => (0..3 * times, 4_000),
    };
    // They come last, and the last one would be alone.
    side_by_side(&seeds(some), |&seed| {
        let _replay = Replay::new("-p thermocline-engine level_0_keeps_to_its_share", seed);
        let mut rng = Rng::new(seed);
        let machine = Machine::new(PM);
        let mut own = options();
        own.level0.pm_percent = 10 + rng.below(50) as u64;
        own.memtable.bytes_max = (16 << 10) + rng.below(100 << 10) as u64;
        // Compaction may be behind by a flush, and then comes another one; a table ends with its zone.
        let zone = 128 << 10;
        let most = own.level0_pm_bytes().unwrap() + 2 * own.memtable_bytes() + zone;
        let open = || Engine::open(machine.world(), Path::new("/db"), own.clone()).unwrap();
        let mut engine = open();
        let mut model = Model::new();
        let mut seen = 0;
        let mut held = Vec::new();
        for n in 0..writes {
            let key = u16::try_from(rng.below(3000))
                .unwrap()
                .to_be_bytes()
                .to_vec();
            let value = vec![n.to_le_bytes()[0]; rng.below(1500)];
            put(&engine, CfId::DEFAULT, &key, &value);
            model.insert(key, value);
            let bytes = engine.inner.common.pm_tables_use().bytes;
            seen = bytes.max(seen);
            assert!(bytes <= most, "{bytes} of {most}");
            let space = engine.inner.common.space.usage();
            assert!(space.region_bytes <= PM);
            // So that they do not hold all there is.
            if space.limit_bytes - space.attached_bytes < PM / 4 {
                held.clear();
            }
            match rng.below(1000) {
                0 => {
                    held.clear();
                    engine.close().unwrap();
                    engine = open();
                }
                // What is compacted and read counts, too.
                1..10 if held.len() < 3 => held.push((engine.snapshot(), model.clone())),
                10..20 if !held.is_empty() => {
                    let (snapshot, then) = held.swap_remove(rng.below(held.len()));
                    check_cursor(snapshot.cursor(ALL).unwrap(), &then);
                }
                _ => {}
            }
        }
        assert!(seen > 0 && files(&machine) > 0, "both tiers were used");
        held.clear();
        check_cursor(engine.cursor(ALL).unwrap(), &model);
        engine.close().unwrap();
        let report = crate::verify(&machine.world(), Path::new("/db"), &own).unwrap();
        assert_eq!(report.faults, vec![]);
    });
}

/// Whoever reads what is damaged hears of it.
#[test]
fn damage_is_an_error_and_a_fault() {
    let machine = Machine::new(PM);
    let engine = open(&machine);
    for n in 0..50u8 {
        put(&engine, CfId::DEFAULT, &[n], &[n; 200]);
    }
    put(&engine, CfId::DEFAULT, b"pinned", &[1; 2000]);
    engine.flush().unwrap();
    let pinned = engine.value(CfId::DEFAULT, b"pinned").unwrap().unwrap();
    pinned.verify().unwrap();
    let inner = &engine.inner;
    let version = inner.common.catalog.view().tables.version().clone();
    let number = version.pm_tables().next().unwrap().0.file;
    let part = PmPart::whole(
        inner.common.catalog.table_files.pm.get(number).unwrap(),
        CfId::DEFAULT,
    );
    let found = part.get(&[20], SeqNo(u64::MAX - 1), true).unwrap().unwrap();
    let FoundValue::Inline(value) = found.value else {
        panic!("it is inline");
    };
    machine.rot(value.at());
    drop((part, value));
    let of_pinned = |seqno| {
        let part = PmPart::whole(
            inner.common.catalog.table_files.pm.get(number).unwrap(),
            CfId::DEFAULT,
        );
        match part.get(b"pinned", seqno, true).unwrap().unwrap().value {
            FoundValue::Inline(value) => value.at(),
            other => panic!("{other:?}"),
        }
    };
    let at = of_pinned(SeqNo(u64::MAX - 1)).plus(1999);
    machine.rot(at);
    let error = pinned.verify().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    machine.rot(at);
    pinned.verify().unwrap();
    drop(pinned);
    let error = engine
        .get(CfId::DEFAULT, &[20], <[u8]>::to_vec)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains("PM table"), "{error}");
    let mut cursor = engine.cursor(ALL).unwrap();
    let error = cursor.seek(&[20]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(get(&engine, &[21]), Some(vec![21; 200]));
    let range = (Unbounded, Unbounded);
    assert!(
        engine.compact(CfId::DEFAULT, range).is_err(),
        "it stays where it is"
    );
    drop(cursor);
    engine.close().unwrap();
    let faults = verified(&machine).faults;
    assert!(
        faults.len() == 1 && faults[0].what.contains("PM table"),
        "{faults:?}"
    );
}
