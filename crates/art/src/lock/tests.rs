use crate::lock::VersionLock;

#[test]
fn a_writer_invalidates_readers_and_other_upgrades() {
    let lock = VersionLock::new();
    let version = lock.read().unwrap();
    let guard = lock.upgrade(version).unwrap();
    assert!(!lock.validate(version) && lock.upgrade(version).is_none());
    drop(guard);
    assert!(!lock.validate(version) && lock.upgrade(version).is_none());
    assert!(lock.validate(lock.read().unwrap()));
}

#[test]
fn an_obsolete_node_takes_no_lock_but_can_be_read() {
    let lock = VersionLock::new();
    lock.upgrade(lock.read().unwrap()).unwrap().obsolete();
    assert!(lock.read().is_none());
    let version = lock.read_any();
    assert!(lock.validate(version) && lock.upgrade(version).is_none());
}
