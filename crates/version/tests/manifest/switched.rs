//! A manifest that is read while somebody who writes goes on to another one.

use std::sync::{Arc, Mutex};

use thermocline_base::{ErrorKind, Result};
use thermocline_env::File;
use thermocline_env::hooks::{Hooked, Hooks};
use thermocline_env::sim::SimFs;
use thermocline_env::simulated::SeededRandom;
use thermocline_version::{Manifest, State, format};

use crate::common::{created, dir, fresh, next_edit, storage};

/// Who writes goes on to another manifest behind each look at `CURRENT`, so many times.
#[derive(Debug)]
struct Switches(Mutex<(Manifest, u32)>);

impl Hooks for Switches {
    fn read_at(&self, file: &dyn File, buf: &mut [u8], offset: u64) -> Result<usize> {
        let read = file.read_at(buf, offset)?;
        if file.path() == dir().join(format::CURRENT) {
            let (manifest, left) = &mut *self.0.lock().unwrap();
            if *left > 0 {
                *left -= 1;
                switch(manifest);
            }
        }
        Ok(read)
    }
}

fn switch(manifest: &mut Manifest) {
    let random = SeededRandom::new(manifest.len());
    let before = manifest.path().to_path_buf();
    while manifest.path() == before {
        manifest
            .append(&next_edit(manifest.state(), &random))
            .unwrap();
    }
}

/// What is read while that happens so many times, and what was written.
fn read_beside(switches: u32) -> (Result<State>, State) {
    let fs: SimFs = fresh();
    let mut manifest = Manifest::create(storage(&fs), dir(), &created()).unwrap();
    manifest.set_bytes_max(700);
    let hooks = Arc::new(Switches(Mutex::new((manifest, switches))));
    let disk = Hooked::new(Arc::new(fs), hooks.clone());
    let read = Manifest::open(disk, dir(), true).map(|(_, state)| state);
    let written = hooks.0.lock().unwrap().0.state().clone();
    (read, written)
}

#[test]
fn who_reads_beside_a_switch_reads_what_the_later_manifest_says() {
    for switches in [0, 1, 3] {
        let (read, written) = read_beside(switches);
        assert_eq!(read.unwrap(), written, "{switches}");
    }
    // It ends even where that happens each time.
    let (read, _) = read_beside(u32::MAX);
    let error = read.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.to_string().contains("is missing"), "{error}");
}
