//! A store in a simulated world: what `api` and `store` share.

use std::collections::BTreeMap;
use std::path::Path;

use thermocline_base::options::Options;
use thermocline_base::{Result, Steps};
use thermocline_engine::{Cursor, Engine, World};
use thermocline_env::Env;
use thermocline_env::sim::SimFs;
use thermocline_pm::SimPm;

use super::digest::Digest;

pub(super) const PM: u64 = 512 << 10;

pub(super) fn dir() -> &'static Path {
    Path::new("/db")
}

/// The smallest region there is: zones of 16 KiB.
pub(super) fn options() -> Options {
    let mut options = Options {
        pm: PM,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options
}

/// Files and persistent memory, and no thread but the caller's.
pub(super) fn world(fs: &SimFs, pm: &SimPm) -> World {
    World {
        env: Env::simulated(fs.clone(), 1),
        sim: Some(pm.clone()),
        background: false,
        ..World::real()
    }
}

pub(super) fn fresh() -> (SimFs, SimPm) {
    let steps = Steps::new();
    (SimFs::new(steps.clone()), SimPm::new(PM, steps))
}

/// What a store holds, by family.
pub(super) type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

pub(super) fn digest(contents: &Contents) -> u64 {
    let mut digest = Digest::default();
    for (name, rows) in contents {
        digest.add(name.as_bytes());
        digest.number(rows.len() as u64);
        for (key, value) in rows {
            digest.add(key);
            digest.add(value);
        }
    }
    digest.0
}

/// Everything that a store holds, read in every way.
pub(super) fn contents(engine: &Engine) -> Result<Contents> {
    let mut all = Contents::new();
    for name in engine.families() {
        let family = engine.find_family(&name).expect("it is listed");
        let forward = rows_of(engine.cursor(family)?, true)?;
        let mut backward = rows_of(engine.cursor(family)?, false)?;
        backward.reverse();
        assert_eq!(forward, backward, "forward and back differ");
        let ordered = |a: &Row, b: &Row| (a.0 < b.0) != family.reverse && a.0 != b.0;
        assert!(forward.is_sorted_by(ordered), "a scan is not in order");
        for (key, value) in &forward {
            let got = engine.get(family.id, key, <[u8]>::to_vec)?;
            assert_eq!(got.as_ref(), Some(value), "a scan has what a get has not");
        }
        all.insert(name, forward.into_iter().collect());
    }
    Ok(all)
}

pub(super) type Row = (Vec<u8>, Vec<u8>);

/// All that a cursor comes to, from its first or its last entry on.
pub(super) fn rows_of(mut cursor: Cursor, forward: bool) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut more = match forward {
        true => cursor.seek_to_first()?,
        false => cursor.seek_to_last()?,
    };
    while more {
        rows.push((cursor.key().to_vec(), cursor.value().to_vec()));
        more = match forward {
            true => cursor.next()?,
            false => cursor.prev()?,
        };
    }
    Ok(rows)
}
