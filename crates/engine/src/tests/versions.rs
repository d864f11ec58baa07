//! Who waits for an edit to become durable, and who must not.

use std::sync::mpsc::channel;
use std::time::Duration;

use super::*;

fn current(engine: &Engine) -> Arc<Version> {
    engine.inner.common.catalog.version()
}

/// A writer that takes another zone asks for the current version, and must not wait for somebody's edit.
#[test]
fn the_version_is_read_while_an_edit_is_made_durable() {
    let machine = Machine::new(1 << 20);
    let engine = machine.open().unwrap();
    put(&engine, b"a", b"value");
    let before = current(&engine);
    let edit = machine.stop_before("manifest: edit durable");
    std::thread::scope(|threads| {
        let engine = &engine;
        let edits_made = threads.spawn(|| engine.flush().unwrap());
        edit.wait();
        let (found, version) = channel();
        threads.spawn(move || found.send(current(engine)).unwrap());
        let version = version.recv_timeout(Duration::from_secs(60));
        edit.let_go();
        edits_made.join().unwrap();
        assert!(Arc::ptr_eq(&version.expect("nobody waits"), &before));
    });
    assert!(!Arc::ptr_eq(&current(&engine), &before));
}
