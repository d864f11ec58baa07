//! A disk that is not full, and has too little room for a long value.

use super::*;

fn put_long(engine: &Engine, bytes: u64) -> Result<()> {
    let value = vec![7; usize::try_from(bytes).unwrap()];
    let mut batch = WriteBatch::new();
    batch.put(CfId::DEFAULT, b"long", &value).unwrap();
    engine.write(batch.iter(), Durability::Immediate)
}

/// What a snapshot kept lies with its tombstones in the last level, where nothing sinks any more. A store that writes such tables anew
/// only where the disk is full refuses the value for ever, though the room for it could be made.
#[test]
fn what_a_snapshot_kept_makes_room_for_a_long_value() {
    let (fs, engine) = on_disk_of(Shape::GlobalIndex, false);
    let keys = 4000;
    for key in 0..keys {
        put(&engine, key, 1).unwrap();
    }
    let held = engine.snapshot();
    delete_scattered(&engine, keys);
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    engine.compact(CfId::DEFAULT, all).unwrap();
    engine.drain().unwrap();
    let disk = engine.inner.pressure.disk().unwrap();
    // Half of the values are two million bytes.
    let bytes = disk.beyond_reserve() + (1 << 20);
    for _ in 0..3 {
        let error = put_long(&engine, bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
        assert!(!engine.inner.pressure.is_disk_full());
    }
    drop(held);
    // It is not looked at readers at each attempt.
    let clock = &engine.inner.common.world.env.clock;
    clock.sleep_ms(11_000);
    let tries = (0..10).find(|_| put_long(&engine, bytes).is_ok());
    assert!(tries.is_some(), "no room for a long value");
    assert_eq!(fs.refusals(), 0, "nothing ever met a full disk");
    let has = |key: u32| engine.get(CfId::DEFAULT, &key.to_be_bytes(), |_| ());
    assert!((0..keys).all(|key| has(key).unwrap().is_some() == (key % 2 == 1)));
    engine.close().unwrap();
}
