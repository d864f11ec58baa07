//! A manifest: opened to read and to write, written on.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::checksum::hash64;
use thermocline_base::{Result, Steps};
use thermocline_env::Storage;
use thermocline_env::sim::SimFs;
use thermocline_testkit::golden;
use thermocline_version::{Change, Manifest, State, format};

use super::refusal::refused;
use crate::seal::{DB_ID, manifest as seal};
use crate::target::{Answer, SEAL, Target};

pub(super) const TARGET: Target = Target {
    name: "manifest",
    run,
    samples,
    beginnings: Some(beginnings),
    runs: 200_000,
};

const DIR: &str = "/db";

fn samples() -> Vec<Vec<u8>> {
    let goldens = super::edit::MANIFESTS.map(golden::listed);
    goldens.map(|bytes| [&[0][..], &bytes].concat()).to_vec()
}

/// A torn append is cut: what is left ends with any record.
fn beginnings(sample: &[u8]) -> Vec<Vec<u8>> {
    let ends = seal::ends(&sample[1..]);
    ends.into_iter()
        .map(|end| sample[..=end].to_vec())
        .collect()
}

fn run(input: &[u8]) -> Answer {
    let Some((flags, bytes)) = input.split_first() else {
        return Answer::Refused;
    };
    let mut bytes = bytes.to_vec();
    if flags & SEAL != 0 {
        seal::seal(&mut bytes);
    }
    let fs = SimFs::new(Steps::new());
    let dir = Path::new(DIR);
    fs.create_dir_all(dir).expect("a folder can be made");
    fs.install(&dir.join(format::manifest_name(1)), &bytes);
    fs.install(
        &dir.join(format::CURRENT),
        &format::encode_current(1, &DB_ID),
    );
    let storage: Arc<dyn Storage> = Arc::new(fs.clone());
    match Manifest::open(storage.clone(), dir, true) {
        Err(error) => {
            let again = Manifest::open(storage, dir, false).map(|_| ());
            assert_eq!(again.unwrap_err().to_string(), error.to_string());
            refused(&error, bytes.len())
        }
        Ok((_, state)) => {
            goes_on(&storage, &state).expect("what was read can be written on");
            Answer::Read(hash64(format!("{state:?}").as_bytes()))
        }
    }
}

/// A state that was accepted is accepted again, to write too, as a snapshot too, and with one edit more.
fn goes_on(storage: &Arc<dyn Storage>, state: &State) -> Result<()> {
    let dir = Path::new(DIR);
    let mut copy = State::default();
    for edit in state.snapshot() {
        copy.apply(&edit)?;
    }
    assert_eq!(&copy, state, "the snapshot is another state");
    let (mut manifest, again) = Manifest::open(storage.clone(), dir, false)?;
    assert_eq!(&again, state, "opened to write it is another state");
    // Behind its snapshot the next edit makes it switch.
    manifest.set_bytes_max(0);
    let change = Change::Options(vec![("pm".into(), "4 GiB".into())]);
    manifest.append(&change.into())?;
    let expected = manifest.state().clone();
    drop(manifest);
    let (_, again) = Manifest::open(storage.clone(), dir, true)?;
    assert_eq!(again, expected, "one edit later it is another state");
    Ok(())
}
