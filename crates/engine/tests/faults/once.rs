//! What one run leaves, another has often left as well: a call that fails once ends as one that fails for ever, and of many
//! reads in a row it does not matter which one fails. The same state, of which the same is expected, is checked once, by the
//! test that comes to it first: a full disk leaves much of what an I/O error does.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;

use super::*;

/// After what a state is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Left {
    /// A killed process: what readers see is what caches have.
    Killed,
    /// A power cut: nothing is undecided any more.
    WithoutPower,
}

/// What was checked, or is being checked.
static CHECKED: Mutex<BTreeSet<[u64; 3]>> = Mutex::new(BTreeSet::new());

/// Whether this state was not checked yet: what a process reads there, what it opens it with, and what it must find.
pub(super) fn is_new(left: Left, fs: &SimFs, pm: &SimPm, run: &Run) -> bool {
    let mut expected = DefaultHasher::new();
    (left, LOGGED.get(), LONG.get()).hash(&mut expected);
    (&run.acknowledged, &run.in_flight).hash(&mut expected);
    (&run.families, &run.dropped).hash(&mut expected);
    // Of a killed process' files all is readable, whether or not it is durable.
    let files = fs.image_all(Steps::new()).digest();
    let state = [files, pm.digest(), expected.finish()];
    CHECKED.lock().unwrap().insert(state)
}

/// Were two states taken for one, the second would go unchecked.
#[test]
fn what_differs_in_anything_is_new() {
    let machine = Machine::new();
    // No other test has such a family: what is asked about here nobody else has checked.
    let mut run = Run {
        families: vec!["of this test alone".into()],
        ..Run::default()
    };
    let asked = |left, run: &Run| is_new(left, &machine.fs, &machine.pm, run);
    assert!(asked(Left::Killed, &run));
    assert!(!asked(Left::Killed, &run), "nothing differs");
    assert!(asked(Left::WithoutPower, &run));
    let key = ("default".to_string(), b"key".to_vec());
    run.acknowledged.insert(key, b"value".to_vec());
    assert!(asked(Left::Killed, &run), "something was acknowledged");
    run.in_flight = Some(run.acknowledged.clone());
    assert!(asked(Left::Killed, &run), "something is in flight");
    run.families.push("family".into());
    assert!(asked(Left::Killed, &run), "there is a family");
    run.dropped.append(&mut run.families);
    assert!(asked(Left::Killed, &run), "it was dropped");
    LONG.set(true);
    assert!(asked(Left::Killed, &run), "it is opened otherwise");
    LONG.set(false);
    machine.fs.install(Path::new("/file"), b"bytes");
    assert!(asked(Left::Killed, &run), "there is a file");
    machine.fs.install(Path::new("/file"), b"others");
    assert!(asked(Left::Killed, &run), "it has other bytes");
    assert!(!asked(Left::Killed, &run), "nothing differs");
    let engine = Engine::open(machine.world(), dir(), options()).unwrap();
    assert!(asked(Left::Killed, &run), "there is a store");
    let mut batch = WriteBatch::new();
    batch.put(CfId::DEFAULT, b"key", b"value").unwrap();
    // Only memory has it.
    engine.write(batch.iter(), Durability::Buffered).unwrap();
    assert!(asked(Left::Killed, &run), "memory has other bytes");
}
