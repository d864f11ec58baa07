//! The same on the operating system's files.

use std::path::Path;
use std::sync::Arc;

use thermocline_env::simulated::SeededRandom;
use thermocline_env::{Env, Storage};
use thermocline_version::Manifest;

use crate::common::{created, next_edit};

#[test]
fn a_manifest_lives_in_a_real_folder() {
    let name = format!("manifest-{}", std::process::id());
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
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
