//! A manifest, and a region that is of another time than it.

use thermocline_base::ErrorKind;

use super::*;

/// The files of one machine, and the persistent memory of another one.
fn mixed(files: Machine, region: Machine) -> Machine {
    Machine {
        fs: files.fs,
        pm: region.pm,
        pm_bytes: region.pm_bytes,
    }
}

/// Somebody has put an older copy of the region in its place, and the process was killed: no chain of its has an end that
/// the manifest knows, and the memtables of which the copy knows nothing look as if they had never been used.
#[test]
fn an_older_copy_of_the_region_is_noticed() {
    let machine = Machine::new(1 << 20);
    let engine = machine.open().unwrap();
    put(&engine, b"a", b"value");
    let older = machine.killed();
    for key in [b"b", b"c"] {
        engine.inner.memtables.seal_active().unwrap();
        put(&engine, key, b"value");
    }
    let both = mixed(machine.killed(), older);
    let error = both.open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains("an older copy"), "{error}");
    let report = verify(&both.world(), Path::new("/db"), &options()).unwrap();
    assert!(!report.faults.is_empty(), "{report:?}");
    // What belongs together opens.
    let engine = machine.killed().open().unwrap();
    for key in [b"a", b"b", b"c"] {
        assert_eq!(get(&engine, key), Some(b"value".to_vec()));
    }
}

/// A copy from before the first write knows no chain at all, and what was written since is all that there is.
#[test]
fn a_copy_of_the_region_that_knows_no_chain_is_noticed() {
    let machine = Machine::new(1 << 20);
    let engine = machine.open().unwrap();
    assert_eq!(engine.inner.common.space.witness().unwrap(), None);
    let older = machine.killed();
    put(&engine, b"a", b"value");
    let first = machine.killed();
    engine.inner.memtables.seal_active().unwrap();
    put(&engine, b"b", b"value");
    let error = mixed(machine.killed(), older).open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains("an older copy"), "{error}");
    // What belongs together opens.
    for (machine, b) in [(first, None), (machine.killed(), Some(b"value".to_vec()))] {
        let engine = machine.open().unwrap();
        assert_eq!(get(&engine, b"a"), Some(b"value".to_vec()));
        assert_eq!(get(&engine, b"b"), b);
    }
}

/// Nothing but what was staged is behind the copy, with the memtable that was named together with it.
#[test]
fn a_copy_of_the_region_that_does_not_know_a_staged_batch_is_noticed() {
    let mut own = options();
    own.memtable.item_bytes_max = 4 << 10;
    let open = |machine: &Machine| Engine::open(machine.world(), Path::new("/db"), own.clone());
    let machine = Machine::new(1 << 20);
    let engine = open(&machine).unwrap();
    put(&engine, b"a", b"value");
    engine.inner.memtables.seal_active().unwrap();
    let older = machine.killed();
    let mut batch = WriteBatch::new();
    for key in 0..10u8 {
        batch.put(CF, &[key], &[key; 1000]).unwrap();
    }
    let bytes = thermocline_memtable::item_bytes(batch.iter());
    assert!(engine.inner.stager.is_oversized(batch.len(), bytes));
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    let error = open(&mixed(machine.killed(), older)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains("an older copy"), "{error}");
    // What belongs together opens.
    let engine = open(&machine.killed()).unwrap();
    assert_eq!(get(&engine, b"a"), Some(b"value".to_vec()));
    assert_eq!(get(&engine, &[3]), Some(vec![3; 1000]));
}

/// The first opens of a store may be killed, too, when each has named its chain and before the region knows that.
#[test]
fn a_region_that_knows_no_chain_of_opens_that_were_killed_at_the_first_writes_is_the_right_one() {
    let machine = Machine::new(1 << 20);
    let engine = machine.open().unwrap();
    let before = machine.killed();
    assert_eq!(engine.inner.common.space.witness().unwrap(), None);
    // Names its chain.
    put(&engine, b"a", b"value");
    let mut left = mixed(machine.killed(), before);
    for _ in 0..3 {
        let next = left.killed();
        let _opened = next.open().unwrap();
        left = mixed(next.killed(), left);
    }
    let engine = left.open().unwrap();
    // The region that has it is another one.
    assert_eq!(get(&engine, b"a"), None);
    put(&engine, b"b", b"value");
    assert_eq!(get(&engine, b"b"), Some(b"value".to_vec()));
}

/// Opens may be killed, one after the other, when each has named its chain and before the region knows that.
#[test]
fn a_region_that_knows_no_chain_of_opens_that_were_killed_is_the_right_one() {
    let machine = Machine::new(1 << 20);
    let engine = machine.open().unwrap();
    put(&engine, b"a", b"value");
    let mut left = machine.killed();
    for _ in 0..4 {
        let next = left.killed();
        let _opened = next.open().unwrap();
        left = mixed(next.killed(), left);
    }
    let engine = left.open().unwrap();
    assert_eq!(get(&engine, b"a"), Some(b"value".to_vec()));
}
