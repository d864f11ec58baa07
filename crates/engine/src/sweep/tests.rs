//! Files that nobody needs any more, on a disk that fails.

use std::path::Path;

use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};

use crate::Engine;
use crate::sync::Arc;
use crate::tests::{Machine, options};

/// A sync that fails behind a removal may have covered a name that an edit is about to rely on. A folder that could not be opened
/// was not synced.
#[test]
fn a_failed_sync_behind_a_removal_stops_the_store() {
    let faults = [
        (Fault::NoAccess, false),
        (Fault::SyncKept, true),
        (Fault::SyncNoSpace, true),
    ];
    for (fault, stops) in faults {
        let machine = Machine::new(1 << 20);
        let disk = FaultStorage::over_sim(machine.fs.clone());
        let mut world = machine.world();
        world.env.storage = Arc::new(disk.clone());
        let engine = Engine::open(world, Path::new("/db"), options()).unwrap();
        let op = Some(Op::SyncDir);
        disk.arm(Plan {
            fault,
            op,
            at: disk.calls_for(fault, op),
            repeat: Repeat::Once,
        });
        let inner = &engine.inner;
        let synced = inner.sweeper.sync_removals();
        assert_eq!(disk.fired(), 1, "{fault:?}");
        assert_eq!(synced.is_err(), stops, "{fault:?}");
        let poisoned = inner.common.poison.check().is_err();
        assert_eq!(poisoned, stops, "{fault:?}");
    }
}
