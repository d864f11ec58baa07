//! A full disk on which values lie apart from their tables.

use super::*;

fn options_apart() -> Options {
    let mut options = options_of(Shape::GlobalIndex);
    options.blob.value_bytes_min = 100;
    options.blob.file_bytes = 64 << 10;
    options.blob.compression = Codec::None;
    options
}

fn jobs_for_garbage(engine: &Engine) -> u64 {
    let reasons = engine.metrics().compaction.reasons;
    let of = reasons
        .iter()
        .find(|(reason, _)| *reason == Reason::Garbage);
    of.map_or(0, |(_, jobs)| *jobs)
}

/// Each blob file is half dead then, and none goes by itself: what is alive moves, as far as there is room for it.
#[test]
fn deletes_all_over_blob_files_make_room_without_more_room_than_there_is() {
    let steps = Steps::new();
    let (fs, sim) = (SimFs::new(steps.clone()), SimPm::new(1 << 20, steps));
    let engine = open_with(options_apart(), &fs, &sim, false);
    fs.limit(DISK);
    let mut keys = 0;
    for _ in 0..4 {
        keys = until_full(&engine, keys);
        engine.flush().unwrap();
        engine.drain().unwrap();
    }
    let bytes = engine.metrics().blobs.table_bytes;
    assert!(bytes > DISK / 4, "{bytes}");
    // Others take most of what is left, so that it is full whatever lies in persistent memory.
    fs.limit(fs.used() + (450 << 10));
    let before = jobs_for_garbage(&engine);
    delete_scattered(&engine, keys);
    let all = until_room(&engine, keys);
    assert!(all > keys + keys / 4, "{keys}, then {all}");
    assert!(jobs_for_garbage(&engine) > before);
    assert_eq!(fs.refusals(), 0, "nothing ever met a full disk");
    let has = |key: u32| engine.get(CfId::DEFAULT, &key.to_be_bytes(), |_| ());
    assert!((0..keys).all(|key| has(key).unwrap().is_some() == (key % 2 == 1)));
    engine.close().unwrap();
}

/// Where the manifest has no room for its edit, a collection is tried, given up and put off, and goes on when there is some.
#[test]
fn a_collection_without_room_for_its_edit_is_given_up() {
    let steps = Steps::new();
    let (fs, sim) = (SimFs::new(steps.clone()), SimPm::new(1 << 20, steps));
    let engine = open_with(options_apart(), &fs, &sim, false);
    fs.limit(DISK);
    let keys = until_full(&engine, 0);
    engine.flush().unwrap();
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    delete_scattered(&engine, keys);
    engine.flush().unwrap();
    // Somebody else takes what is left, and what the manifest has put by is used up by others.
    fs.limit(fs.used());
    let family = |n: u32| engine.family(&format!("{n:0200}"), &CfOptions::default());
    let error = (0..1000).find_map(|n| family(n).err()).unwrap();
    assert!(error.is_no_room(), "{error}");
    let mut jobs = 0;
    while let Ok(true) = engine.compact_once() {
        jobs += 1;
        assert!(jobs < 100, "it goes on and on");
    }
    engine.inner.common.poison.check().unwrap();
    fs.limit(DISK);
    engine.compact(CfId::DEFAULT, all).unwrap();
    while engine.compact_once().unwrap() {}
    engine.reclaim().unwrap();
    let blobs = engine.metrics().blobs;
    let named: u64 = {
        let version = engine.inner.common.catalog.version();
        version
            .blob_files()
            .filter_map(|(_, blob)| blob.value_bytes)
            .sum()
    };
    assert!(named * 100 <= blobs.table_bytes * 130, "{named}, {blobs:?}");
    let has = |key: u32| engine.get(CfId::DEFAULT, &key.to_be_bytes(), |_| ());
    assert!((0..keys).all(|key| has(key).unwrap().is_some() == (key % 2 == 1)));
    engine.close().unwrap();
}
