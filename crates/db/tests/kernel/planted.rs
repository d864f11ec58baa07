//! The layer itself: the device behaves as it is said to, and what a store forgets is noticed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use thermocline_base::planted::Bug;
use thermocline_testkit::Rng;

use crate::device::Device;
use crate::plan::{CACHE_IS_TRUSTED, CALLS, Errno, Fault, GROWTH_FAILS, Gap, Life, directed};
use crate::run::{Run, child, home};
use crate::stories::count;
use crate::work::Shape;

/// A fault of a call, from its `index`-th on.
fn fault(call: &str, index: u64, error: Errno, for_ever: bool) -> Life {
    let call = CALLS.iter().position(|name| *name == call).unwrap();
    let fault = Fault {
        call,
        index,
        error: Some(error),
        for_ever,
        ends_after: None,
        whole: false,
    };
    Life {
        fault: Some(fault),
        ops: 30,
        closes: false,
        gap: Gap::Cut,
    }
}

/// Not a test of its own: uses files above the shim, where the second sync of a file fails.
#[test]
fn uses_files() {
    let Some(root) = std::env::var_os("KERNEL_ROOT").map(PathBuf::from) else {
        return;
    };
    let options = || {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        options
    };
    let sync_names = || File::open(&root).unwrap().sync_all().unwrap();
    let path = root.join("synced");
    let (file, other) = (
        options().open(&path).unwrap(),
        options().open(&path).unwrap(),
    );
    sync_names();
    file.write_all_at(&[1; 8192], 0).unwrap();
    file.sync_data().unwrap();
    file.write_all_at(&[2; 4096], 0).unwrap();
    let error = file.sync_data().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::Eio as i32));
    // The page is clean, and each open file is told once.
    file.sync_data().unwrap();
    assert!(other.sync_data().is_err());
    other.sync_data().unwrap();
    options().open(&path).unwrap().sync_data().unwrap();
    let mut page = [0; 4096];
    file.read_exact_at(&mut page, 0).unwrap();
    assert_eq!(page, [2; 4096], "memory has it");
    file.write_all_at(&[3; 512], 4096).unwrap();
    file.sync_data().unwrap();
    // Neither of these is on the disk for sure.
    file.write_all_at(&[4; 4096], 8192).unwrap();
    std::fs::rename(&path, root.join("renamed")).unwrap();
}

#[test]
fn the_device_has_what_was_synced_and_maybe_more() {
    let (mut renamed, mut grown) = ([0, 0], [0, 0]);
    for seed in 0..40 {
        let Some(home) = home() else { return };
        let mut device = Device::new(home.path());
        let life = fault("sync", 1, Errno::Eio, false);
        let done = child(&device, "planted::uses_files", &life)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{said}");
        device.cut(&mut Rng::new(seed));
        let names = ["synced", "renamed"].map(|name| device.root.join(name));
        let name = usize::from(names[1].exists());
        assert!(names[name].exists() && !names[1 - name].exists());
        renamed[name] += 1;
        let content = std::fs::read(&names[name]).unwrap();
        assert_eq!(content[..4096], [1; 4096], "what a failed sync covered");
        assert_eq!(content[4096..4608], [3; 512], "what was synced after it");
        assert_eq!(content[4608..8192], [1; 3584]);
        grown[usize::from(content.len() > 8192)] += 1;
    }
    assert!(
        renamed.iter().chain(&grown).all(|n| *n > 2),
        "{renamed:?} {grown:?}"
    );
}

/// A sync that does nothing is a sync that the store has forgotten. Each kind must be missed.
#[test]
fn a_forgotten_sync_is_noticed() {
    let cases = [
        (Shape::Tiered, "msync"),
        (Shape::Ssd, "sync"),
        (Shape::Leveled, "sync"),
        (Shape::GlobalIndex, "sync folder"),
    ];
    for (shape, call) in cases {
        let mut noticed = 0;
        for seed in 0..12 {
            let Some(home) = home() else { return };
            let life = fault(call, 5, Errno::Lie, true);
            let mut run = Run::new(shape, true, seed, home.path());
            let told = run.tell(&[life], &mut Rng::new(seed));
            noticed += u32::from(told.is_err());
        }
        println!(
            "{call} forgotten by {}: noticed {noticed} of 12 times",
            shape.name()
        );
        assert!(noticed > 0, "{call} of {}", shape.name());
    }
}

/// An engine that believes the page cache after a failed sync, and one that takes a sync without room for no room: each
/// is noticed in the stories that are told for it.
#[test]
fn an_engine_that_gets_failed_syncs_wrong_is_noticed() {
    if home().is_none() {
        return;
    }
    let cases = [
        (Bug::TrustCacheAfterFailedSync, CACHE_IS_TRUSTED),
        (Bug::CleanAfterEnospc, GROWTH_FAILS),
    ];
    let shapes = [Shape::Tiered, Shape::PmTables, Shape::GlobalIndex];
    for (bug, story) in cases {
        let calls = shapes.map(|shape| count(shape, true));
        // About one of twenty does harm.
        let noticed = (0..400).find(|n| {
            let which = usize::try_from(n % 3).unwrap();
            let seed = 10 * n + story;
            let mut rng = Rng::new(seed);
            let lives = directed(seed, &calls[which], &mut rng);
            let home = home().unwrap();
            let mut run = Run::new(shapes[which], true, seed, home.path());
            run.bug = Some(bug);
            lives.is_some_and(|lives| run.tell(&lives, &mut rng).is_err())
        });
        println!("{bug:?}: noticed in story {noticed:?}");
        assert!(noticed.is_some(), "{bug:?}");
    }
}
