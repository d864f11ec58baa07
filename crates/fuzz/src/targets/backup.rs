//! Lists of backups, beside the files of one: listed, checked, restored.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use thermocline_base::{CfId, CfOptions, Result, Steps, WriteBatch};
use thermocline_engine::{Backups, Durability, Engine};
use thermocline_env::sim::SimFs;
use thermocline_env::{Env, Storage};

use super::digest::Digest;
use super::refusal::refused;
use super::world::{dir, fresh, options, world};
use crate::seal::backup as seal;
use crate::target::{Answer, SEAL, Target};

pub(super) const TARGET: Target = Target {
    name: "backup",
    run,
    samples,
    beginnings: Some(|_| Vec::new()),
    runs: 40_000,
};

const LIST: &str = "BACKUP-000001";

fn folder() -> &'static Path {
    Path::new("/backups")
}

/// The files of a folder with one backup.
fn sample() -> &'static [(PathBuf, Vec<u8>)] {
    static SAMPLE: OnceLock<Vec<(PathBuf, Vec<u8>)>> = OnceLock::new();
    SAMPLE.get_or_init(|| made().expect("a sample can be made"))
}

fn made() -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let (fs, pm) = fresh();
    let world = world(&fs, &pm);
    let engine = Engine::open(world.clone(), dir(), options())?;
    let family = engine.family("second", &CfOptions::default().reverse(true))?;
    for n in 0..10u8 {
        let mut batch = WriteBatch::new();
        batch.put(CfId::DEFAULT, &[n], &[n; 30])?;
        batch.put(family.id, &[n], b"of the second")?;
        batch.delete_range(CfId::DEFAULT, &[n / 2], Some(&[n / 2 + 1]))?;
        engine.write(batch.iter(), Durability::Immediate)?;
        if n == 5 {
            engine.flush()?;
        }
    }
    Backups::new(world.env, folder()).create(&engine)?;
    let names = fs.list(folder())?;
    let files = names.iter().map(|name| {
        let path = folder().join(name);
        let bytes = fs.contents(&path).expect("it is listed");
        (path, bytes)
    });
    Ok(files.collect())
}

fn samples() -> Vec<Vec<u8>> {
    let lists = sample().iter().filter(|(path, _)| path.ends_with(LIST));
    lists.map(|(_, bytes)| [&[0][..], bytes].concat()).collect()
}

fn run(input: &[u8]) -> Answer {
    let Some((flags, bytes)) = input.split_first() else {
        return Answer::Refused;
    };
    let mut list = bytes.to_vec();
    if flags & SEAL != 0 {
        seal::seal(&mut list);
    }
    let fs = SimFs::new(Steps::new());
    fs.create_dir_all(folder()).expect("a folder can be made");
    for (path, bytes) in sample().iter().filter(|(path, _)| !path.ends_with(LIST)) {
        fs.install(path, bytes);
    }
    fs.install(&folder().join(LIST), &list);
    let backups = Backups::new(Env::simulated(fs.clone(), 1), folder());
    let info = match backups.list() {
        Ok(mut all) => all.pop().expect("there is one"),
        Err(error) => return refused(&error, list.len()),
    };
    assert_eq!(info.id, 1);
    let report = backups.verify().expect("damage is in the report");
    let copy = Path::new("/copy");
    match backups.restore(None, copy) {
        Ok(restored) => {
            assert_eq!(restored, info);
            assert!(report.faults.is_empty(), "{:?}", report.faults);
            assert!(fs.exists(&copy.join("CURRENT")).expect("it can be asked"));
        }
        // Of a file that the list names, of whatever length it says.
        Err(error) => {
            refused(&error, usize::MAX);
            assert!(!report.faults.is_empty(), "{error}");
            assert!(!fs.exists(&copy.join("CURRENT")).expect("it can be asked"));
        }
    }
    let mut digest = Digest::default();
    digest.add(&info.db_id);
    for number in [info.seqno, info.files, info.bytes] {
        digest.number(number);
    }
    Answer::Read(digest.0)
}
