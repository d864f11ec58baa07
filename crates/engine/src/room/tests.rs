//! What a writer does that was refused.

use std::path::Path;

use thermocline_base::Error;
use thermocline_base::options::Options;

use crate::Engine;
use crate::tests::Machine;

/// A job has given back, behind the refused attempt and before the writer looked, the DRAM that this lacked: then it is tried again,
/// and once, since what it lacks may be something else.
#[test]
fn dram_that_came_back_before_the_first_look_is_tried() {
    const PM: u64 = 8 << 20;
    let machine = Machine::new(PM);
    let options = Options {
        pm: PM,
        ..Options::default()
    };
    let engine = Engine::open(machine.world(), Path::new("/db"), options).unwrap();
    let admission = &engine.inner.admission;
    let waits = || {
        let mut attempts = admission.begin_attempts();
        let refused = Error::OutOfSpace("one more write".into());
        admission.wait_for_room(&mut attempts, refused, 10, false)
    };
    assert!(waits().is_err());
    admission.common.room.note_lacking(1);
    waits().unwrap();
    assert!(waits().is_err());
    // As much as there will never be.
    admission.common.room.note_lacking(u64::MAX / 2);
    assert!(waits().is_err());
}
