//! The same on the operating system's files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_env::simulated::SeededRandom;
use thermocline_env::{Env, OpenMode, Storage};
use thermocline_version::Manifest;

use crate::common::{created, next_edit};

/// Where a folder of this test may be made, and none is.
fn no_folder(name: &str) -> PathBuf {
    let name = format!("{name}-{}", std::process::id());
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // One that was killed had the same number, and left its own.
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

#[test]
fn a_manifest_lives_in_a_real_folder() {
    let dir = no_folder("manifest");
    let storage: Arc<dyn Storage> = Env::real().storage;
    storage.create_dir_all(&dir).unwrap();
    let mut manifest = Manifest::create(storage.clone(), &dir, &created()).unwrap();
    let random = SeededRandom::new(1);
    for n in 0..60 {
        manifest.set_bytes_max(2000);
        let edit = next_edit(manifest.state(), &random);
        manifest.append(&edit).unwrap();
        if n % 20 == 19 {
            let before = manifest.state().clone();
            drop(manifest);
            let opened = Manifest::open(storage.clone(), &dir, false).unwrap();
            assert_eq!(opened.1, before);
            manifest = opened.0;
        }
    }
    assert!(!manifest.path().ends_with("MANIFEST-000001"), "it switched");
    assert_eq!(storage.list(&dir).unwrap().len(), 2);
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A folder, and a file that cannot be read as a manifest, with names of manifests, keep nobody out, and stay.
#[test]
fn what_only_has_a_manifests_name_does_no_harm() {
    let dir = no_folder("manifest-strange");
    let storage: Arc<dyn Storage> = Env::real().storage;
    storage.create_dir_all(&dir).unwrap();
    let mut manifest = Manifest::create(storage.clone(), &dir, &created()).unwrap();
    let random = SeededRandom::new(1);
    manifest
        .append(&next_edit(manifest.state(), &random))
        .unwrap();
    let state = manifest.state().clone();
    drop(manifest);
    let strange = ["MANIFEST-000077", "MANIFEST-000078"].map(|name| dir.join(name));
    storage.create_dir_all(&strange[0]).unwrap();
    let file = storage.open(&strange[1], OpenMode::CreateNew).unwrap();
    file.write_at(b"no manifest", 0).unwrap();
    for read_only in [false, true, false] {
        let opened = Manifest::open(storage.clone(), &dir, read_only).unwrap();
        assert_eq!(opened.1, state);
    }
    assert!(strange.iter().all(|path| path.exists()));
    std::fs::remove_dir_all(&dir).unwrap();
}
