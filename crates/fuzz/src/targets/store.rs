//! A whole store whose files and region are damaged: opened to read, checked, opened to write, read.
//!
//! An input is a list of damages. Checksums are as they were: what lies behind them is the other targets'.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::OnceLock;

use thermocline_base::options::Options;
use thermocline_base::size::index;
use thermocline_base::{Error, ErrorKind, Result, Steps, WriteBatch};
use thermocline_engine::{Durability, Engine, verify};
use thermocline_env::Storage;
use thermocline_env::sim::SimFs;
use thermocline_pm::{PmOff, Region, SimPm};

use super::items::region_spec;
use super::world::{PM, contents, digest, dir, fresh, options, world};
use crate::target::{Answer, Target};

pub(super) const TARGET: Target = Target {
    name: "store",
    run,
    samples,
    beginnings: None,
    runs: 10_000,
};

/// Bytes of a damage in an input: where (one byte: which file, or the region; three: the offset), what
/// (one), and eight that it takes.
const DAMAGE: usize = 13;

/// A store that was closed, and all that it held after one write or another.
struct Sample {
    files: Vec<(PathBuf, Vec<u8>)>,
    pm: SimPm,
    pm_bytes: Vec<u8>,
    answers: BTreeSet<u64>,
}

fn sample() -> &'static Sample {
    static SAMPLE: OnceLock<Sample> = OnceLock::new();
    SAMPLE.get_or_init(|| made().expect("a sample can be made"))
}

fn made() -> Result<Sample> {
    let (fs, pm) = fresh();
    let engine = Engine::open(world(&fs, &pm), dir(), small())?;
    let mut answers = BTreeSet::from([digest(&contents(&engine)?)]);
    let family = engine.family(
        "second",
        &thermocline_base::CfOptions::default().reverse(true),
    )?;
    for n in 0..60u16 {
        let mut batch = WriteBatch::new();
        batch.put(family.id, &(n % 7).to_be_bytes(), b"of the second")?;
        let key = format!("key{:02}", n % 45);
        batch.put(
            thermocline_base::CfId::DEFAULT,
            key.as_bytes(),
            &n.to_le_bytes().repeat(20),
        )?;
        if n % 5 == 4 {
            batch.delete(
                thermocline_base::CfId::DEFAULT,
                format!("key{:02}", n / 2).as_bytes(),
            )?;
        }
        engine.write(batch.iter(), Durability::Immediate)?;
        answers.insert(digest(&contents(&engine)?));
        if n % 20 == 13 {
            let mut batch = WriteBatch::new();
            let (from, to) = (format!("key{:02}", n / 3), format!("key{:02}", n / 3 + 4));
            batch.delete_range(family.id, &3u16.to_be_bytes(), None)?;
            batch.delete_range(
                thermocline_base::CfId::DEFAULT,
                from.as_bytes(),
                Some(to.as_bytes()),
            )?;
            engine.write(batch.iter(), Durability::Immediate)?;
            answers.insert(digest(&contents(&engine)?));
        }
        match n {
            15 | 30 => drop(engine.flush()?),
            22 => engine.compact(family.id, (Bound::Unbounded, Bound::Unbounded))?,
            38 => engine.compact(
                thermocline_base::CfId::DEFAULT,
                (Bound::Unbounded, Bound::Excluded(b"key2")),
            )?,
            _ => {}
        }
    }
    engine.close()?;
    drop(engine);
    let names = fs.list(dir())?;
    let files = names.iter().map(|name| {
        let path = dir().join(name);
        let bytes = fs.contents(&path).expect("it is listed");
        (path, bytes)
    });
    let files = files.collect();
    let region = Region::open(&region_spec(&pm, PM))?;
    let pm_bytes = region.bytes(PmOff(0), index(region.len()))?.to_vec();
    Ok(Sample {
        files,
        pm,
        pm_bytes,
        answers,
    })
}

/// With several memtables.
fn small() -> Options {
    let mut options = options();
    options.memtable.bytes_max = 2048;
    options
}

fn samples() -> Vec<Vec<u8>> {
    let mut rng = thermocline_testkit::Rng::new(5);
    let files = sample().files.len();
    let used = sample().pm_bytes.iter().rposition(|&b| b != 0).unwrap_or(0);
    let mut all = vec![vec![0]];
    for n in 0..24 {
        // Every file, and the region as often as all of them.
        let which = u8::try_from(n % (2 * files)).expect("a few");
        let len = sample()
            .files
            .get(n % (2 * files))
            .map_or(used, |file| file.1.len());
        let at = u32::try_from(rng.below(len.max(1)))
            .expect("it is small")
            .to_le_bytes();
        let [_, _, _, what, ..] = rng.next_u64().to_le_bytes();
        let mut damage = vec![0, which, at[0], at[1], at[2], what];
        damage.extend_from_slice(&rng.next_u64().to_le_bytes());
        all.push(damage);
    }
    all
}

fn run(input: &[u8]) -> Answer {
    let sample = sample();
    let pm = sample.pm.fork(Steps::new());
    let mut files = sample.files.clone();
    let mut harmless = true;
    for damage in input
        .get(1..)
        .unwrap_or_default()
        .chunks_exact(DAMAGE)
        .take(8)
    {
        let at = index(u64::from(u32::from_le_bytes([
            damage[1], damage[2], damage[3], 0,
        ])));
        let (what, bytes) = (damage[4], &damage[5..]);
        harmless = false;
        match files.get_mut(usize::from(damage[0])) {
            Some((_, file)) => damage_file(file, at, what, bytes),
            None => damage_region(sample, &pm, at, what, bytes),
        }
    }
    let fs = SimFs::new(Steps::new());
    fs.create_dir_all(dir()).expect("a folder can be made");
    for (path, bytes) in files {
        // One that is gone altogether.
        if !bytes.is_empty() || path.ends_with("LOCK") {
            fs.install(&path, &bytes);
        }
    }
    let checked = verify(&world(&fs, &pm), dir(), &small());
    let read_only = Options {
        read_only: true,
        ..small()
    };
    let looked = read(&fs, &pm, read_only);
    let written = read(&fs, &pm, small());
    for error in [
        looked.as_ref().err(),
        written.as_ref().err(),
        checked.as_ref().err(),
    ] {
        let kinds = [
            ErrorKind::Corruption,
            ErrorKind::Unsupported,
            ErrorKind::InvalidArgument,
        ];
        let told = |error: &Error| kinds.contains(&error.kind()) && !error.to_string().is_empty();
        assert!(error.is_none_or(told), "{error:?}");
    }
    match (looked, written) {
        (Ok(looked), Ok(written)) => {
            assert_eq!(looked, written, "opened to write it holds something else");
            assert!(
                sample.answers.contains(&written),
                "damaged, it holds something else"
            );
            assert!(!harmless || checked.is_ok_and(|report| report.faults.is_empty()));
            Answer::Read(written)
        }
        // What is repaired by writing, or first read then, is not asked.
        _ => Answer::Refused,
    }
}

fn read(fs: &SimFs, pm: &SimPm, options: Options) -> Result<u64> {
    let engine = Engine::open(world(fs, pm), dir(), options)?;
    let found = contents(&engine).map(|found| digest(&found));
    engine.close()?;
    found
}

fn damage_file(file: &mut Vec<u8>, at: usize, what: u8, bytes: &[u8]) {
    let at = at % file.len().max(1);
    match what % 8 {
        0 => file.truncate(at),
        1 => file.extend_from_slice(bytes),
        2 => file.clear(),
        3..6 => {
            if let Some(byte) = file.get_mut(at) {
                *byte ^= bytes[0];
            }
        }
        _ => file
            .iter_mut()
            .skip(at)
            .zip(bytes)
            .for_each(|(to, from)| *to = *from),
    }
}

fn damage_region(sample: &Sample, pm: &SimPm, at: usize, what: u8, bytes: &[u8]) {
    let len = sample.pm_bytes.len();
    let at = at % len;
    let before = |at: usize| sample.pm_bytes[at % len];
    match what % 4 {
        // A line of zeros, or of what lies elsewhere.
        0 | 1 => {
            let line = at / 64 * 64;
            let from = usize::from(u16::from_le_bytes([bytes[0], bytes[1]])) * 64;
            for n in 0..64 {
                let new = if what.is_multiple_of(4) {
                    0
                } else {
                    before(from + n)
                };
                pm.rot((line + n) as u64, before(line + n) ^ new);
            }
        }
        2 => pm.rot(at as u64, bytes[0]),
        _ => {
            for (n, byte) in bytes.iter().enumerate().filter(|(n, _)| at + n < len) {
                pm.rot((at + n) as u64, *byte ^ before(at + n));
            }
        }
    }
}
