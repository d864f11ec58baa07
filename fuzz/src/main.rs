//! libFuzzer over one target of `crates/fuzz`: the one that the environment variable
//! `THERMOCLINE_TARGET` names. `fuzz/run` builds and runs it.
//!
//! With `THERMOCLINE_SAMPLES` it writes the target's samples into that folder, from which libFuzzer starts,
//! before it begins.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use thermocline_env::{Env, OpenMode};
use thermocline_fuzz::memory::{Counting, measure};
use thermocline_fuzz::{MEMORY_MAX, Target, target, targets};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static TARGET: OnceLock<&Target> = OnceLock::new();

fn chosen() -> &'static Target {
    let name = std::env::var("THERMOCLINE_TARGET").unwrap_or_default();
    target(&name).unwrap_or_else(|| {
        let names: Vec<&str> = targets::ALL.iter().map(|target| target.name).collect();
        panic!("THERMOCLINE_TARGET is one of {}", names.join(", "))
    })
}

fn write_samples(target: &Target, dir: &Path) {
    let storage = Env::real().storage;
    for (n, sample) in (target.samples)().iter().enumerate() {
        let path = dir.join(format!("sample-{n}"));
        if !storage.exists(&path).expect("the folder can be read") {
            let file = storage.open(&path, OpenMode::CreateNew);
            let written = file.and_then(|file| file.write_at(sample, 0));
            written.expect("a sample can be written");
        }
    }
}

fuzz_target!(
    init: {
        let target = TARGET.get_or_init(chosen);
        if let Ok(dir) = std::env::var("THERMOCLINE_SAMPLES") {
            write_samples(target, Path::new(&dir));
        }
    },
    |input: &[u8]| {
        let target = TARGET.get_or_init(chosen);
        let (_, memory) = measure(|| (target.run)(input));
        assert!(memory < MEMORY_MAX, "it took {memory} bytes of memory");
    }
);
