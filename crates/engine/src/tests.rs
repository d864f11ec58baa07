//! The store in simulated worlds.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::merge::{Append, MergeOperator};
use thermocline_base::options::Options;
use thermocline_base::{CfId, CfOptions, Steps, WriteBatch};
use thermocline_env::Env;
use thermocline_env::sim::SimFs;
use thermocline_pm::SimPm;
use thermocline_version::Version;

use super::*;

mod keys;
mod regions;
mod shapes;
mod stopped;
mod tables;
mod versions;

const CF: CfId = CfId::DEFAULT;

pub(crate) fn world() -> World {
    let steps = Steps::new();
    World {
        env: Env {
            storage: Arc::new(SimFs::new(steps.clone())),
            ..Env::real()
        },
        sim: Some(SimPm::new(1 << 20, steps)),
        shadow: None,
        background: false,
    }
}

pub(crate) fn options() -> Options {
    let mut options = Options {
        pm: 1 << 20,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.flush.automatic = false;
    options
}

fn put(engine: &Engine, key: &[u8], value: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.put(CF, key, value).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
}

fn get(engine: &Engine, key: &[u8]) -> Option<Vec<u8>> {
    engine.get(CF, key, <[u8]>::to_vec).unwrap()
}

/// What no change meets.
pub(crate) struct Nothing;

impl Footprint for Nothing {
    fn meets(&self, _: &Changed<'_>) -> bool {
        false
    }

    fn holds_for_all(&self, _: &mut dyn FnMut(u64) -> bool) -> bool {
        false
    }
}

/// A store in which a family was dropped that had a value in a table, and an operand on it in a memtable: of this key.
pub(crate) fn dropped_below_an_operand() -> (Engine, CfId, &'static [u8]) {
    let engine = Engine::open(world(), Path::new("/db"), options()).unwrap();
    let of = CfOptions::default().merge_operator(Append::new("").name());
    let cf = engine.family("list", &of).unwrap().id;
    let key: &[u8] = b"key";
    let mut batch = WriteBatch::new();
    batch.put(cf, key, b"one").unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    engine.flush().unwrap();
    let mut batch = WriteBatch::new();
    batch.merge(cf, key, b"two").unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    let value = engine.get(cf, key, <[u8]>::to_vec).unwrap();
    assert_eq!(value.as_deref(), Some(&b"onetwo"[..]));
    engine.drop_family("list").unwrap();
    (engine, cf, key)
}

#[test]
fn what_was_put_is_there_after_closing_and_opening() {
    let world = world();
    let dir = Path::new("/db");
    for round in 0..5u8 {
        let engine = Engine::open(world.clone(), dir, options()).unwrap();
        for before in 0..round {
            assert_eq!(get(&engine, &[before]), Some(vec![before; 100]));
        }
        put(&engine, &[round], &[round; 100]);
        assert_eq!(get(&engine, &[round]), Some(vec![round; 100]));
        if round % 2 == 0 {
            engine.close().unwrap();
        }
    }
}

#[test]
fn a_cursor_sees_one_moment() {
    let engine = Engine::open(world(), Path::new("/db"), options()).unwrap();
    for k in 0..100u8 {
        put(&engine, &[k], b"old");
    }
    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
    for k in 0..200u8 {
        put(&engine, &[k], b"new");
    }
    let mut batch = WriteBatch::new();
    batch.delete(CF, &[3]).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    let mut n = 0u8;
    let mut more = cursor.seek_to_first().unwrap();
    while more {
        assert_eq!((cursor.key(), cursor.value()), (&[n][..], &b"old"[..]));
        n += 1;
        more = cursor.next().unwrap();
    }
    assert_eq!(n, 100);
    assert_eq!(get(&engine, &[3]), None);
    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
    assert!(cursor.seek_for_prev(&[3]).unwrap());
    assert_eq!((cursor.key(), cursor.value()), (&[2][..], &b"new"[..]));
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.key(), &[4]);
}

/// A simulated machine whose process can be killed.
pub(crate) struct Machine {
    pub fs: SimFs,
    pm: SimPm,
    pm_bytes: u64,
}

impl Machine {
    pub fn new(pm: u64) -> Machine {
        let steps = Steps::new();
        Machine {
            fs: SimFs::new(steps.clone()),
            pm: SimPm::new(pm, steps),
            pm_bytes: pm,
        }
    }

    pub fn world(&self) -> World {
        World {
            env: Env {
                storage: Arc::new(self.fs.clone()),
                ..Env::real()
            },
            sim: Some(self.pm.clone()),
            shadow: None,
            background: false,
        }
    }

    fn open(&self) -> thermocline_base::Result<Engine> {
        Engine::open(self.world(), Path::new("/db"), options())
    }

    /// A bit of the byte there is no longer what it was.
    pub fn rot(&self, at: thermocline_pm::PmOff) {
        self.pm.rot(at.0, 1);
    }

    /// The path of the one table that there is.
    pub fn only_table(&self) -> std::path::PathBuf {
        let names = self.world().env.storage.list(Path::new("/db")).unwrap();
        let mut tables = names.iter().filter(|name| name.ends_with(".sst"));
        let table = Path::new("/db").join(tables.next().expect("there is one"));
        assert!(tables.next().is_none());
        table
    }

    /// The names of all blob files in the folder.
    pub fn blob_files(&self) -> Vec<String> {
        let names = self.world().env.storage.list(Path::new("/db")).unwrap();
        let blobs = names.into_iter().filter(|name| name.ends_with(".blob"));
        blobs.collect()
    }

    /// The file system has no more room than that.
    pub fn limit_disk(&self, bytes: u64) {
        self.fs.limit(bytes);
    }

    /// From now on the region takes its room of the file system, which has so many bytes more than are in use then.
    pub fn lay_region_on_disk(&self, left: u64) {
        self.pm.lie_on(&self.fs);
        self.fs.limit(self.fs.used() + left);
    }

    /// Bytes of a file.
    pub fn file_len(&self, path: &Path) -> usize {
        self.fs.contents(path).unwrap().len()
    }

    /// A bit of the byte there in a file is no longer what it was, for whoever has it open, too.
    pub fn rot_file(&self, path: &Path, at: usize) {
        let byte = self.fs.contents(path).unwrap()[at];
        let mode = thermocline_env::OpenMode::ReadWrite;
        let file = self.world().env.storage.open(path, mode).unwrap();
        file.write_at(&[byte ^ 1], at as u64).unwrap();
    }

    /// A file has lost its end.
    pub fn cut_file(&self, path: &Path, len: usize) {
        let bytes = self.fs.contents(path).unwrap();
        self.fs.install(path, &bytes[..len]);
    }

    /// The machine after its process was killed.
    pub fn killed(&self) -> Machine {
        let steps = Steps::new();
        Machine {
            fs: self.fs.image_killed(steps.clone()),
            pm: self.pm.fork(steps),
            pm_bytes: self.pm_bytes,
        }
    }

    /// The machine after a power cut that has left nothing but what was durable.
    pub fn without_power(&self) -> Machine {
        let steps = Steps::new();
        let image = self.pm.crash();
        Machine {
            fs: self.fs.image_none(steps.clone()),
            pm: image.build(self.pm_bytes, steps, |_, _| 0),
            pm_bytes: self.pm_bytes,
        }
    }
}

#[test]
fn a_memtable_is_sealed_before_its_seqnos_wrap() {
    let mut machine = Machine::new(1 << 20);
    for life in 0..40u8 {
        let engine = machine.open().unwrap();
        if life > 0 {
            assert_eq!(get(&engine, b"k"), Some(vec![life - 1]), "life {life}");
        }
        // Every crash leaves a gap of seqnos that the unsealed space could have held.
        put(&engine, b"k", &[life]);
        assert_eq!(get(&engine, b"k"), Some(vec![life]), "life {life}");
        machine = machine.killed();
    }
    let memtables = machine.open().unwrap().metrics().memtables;
    assert!(memtables.len() > 1, "{memtables:?}");
}

#[test]
fn a_manifest_that_lost_its_last_edit_is_noticed() {
    let machine = Machine::new(1 << 20);
    let engine = machine.open().unwrap();
    put(&engine, b"a", b"1");
    engine.close().unwrap();
    drop(engine);
    // The second life's chain begins in the rest of the first one's zone: it owns no zone.
    let engine = machine.open().unwrap();
    put(&engine, b"b", b"2");
    let dead = machine.killed();
    let manifest = Path::new("/db/MANIFEST-000001");
    let bytes = dead.fs.contents(manifest).unwrap();
    dead.fs.install(manifest, &bytes[..bytes.len() - 3]);
    let error = dead.open().unwrap_err();
    assert_eq!(
        error.kind(),
        thermocline_base::ErrorKind::Corruption,
        "{error}"
    );
    assert!(error.to_string().contains("lost its last edit"), "{error}");
    // Whoever has it verified hears the same.
    let report = verify(&dead.world(), Path::new("/db"), &options()).unwrap();
    let faults = report.faults.iter();
    let what = faults.map(|fault| &*fault.what).collect::<Vec<_>>();
    assert!(
        what.len() == 1 && what[0].contains("lost its last edit"),
        "{what:?}"
    );
    drop(engine);
}

#[test]
fn working_ahead_before_the_first_write_does_no_harm() {
    let machine = Machine::new(1 << 20);
    let engine = machine.open().unwrap();
    // More than half of what a memtable holds, so that the next one is due.
    for k in 0..45u8 {
        put(&engine, &[k], &[k; 1000]);
    }
    engine.close().unwrap();
    drop(engine);
    let engine = machine.open().unwrap();
    assert_eq!(engine.metrics().memtables.len(), 1);
    engine.work_ahead().unwrap();
    put(&engine, b"k", b"v");
    assert_eq!(get(&engine, b"k"), Some(b"v".to_vec()));
    drop(engine);
    let engine = machine.open().unwrap();
    assert_eq!(get(&engine, b"k"), Some(b"v".to_vec()));
    assert_eq!(get(&engine, &[40]), Some(vec![40; 1000]));
}

#[test]
fn the_first_batch_of_a_family_keeps_the_dram_budget() {
    let machine = Machine::new(16 << 20);
    let mut options = Options {
        dram: 1 << 20,
        pm: 16 << 20,
        ..options()
    };
    options.memtable.bytes_max = 16 << 20;
    let engine = Engine::open(machine.world(), Path::new("/db"), options).unwrap();
    let mut batch = WriteBatch::new();
    for n in 0..40_000u32 {
        batch.put(CF, &n.to_le_bytes(), b"").unwrap();
    }
    let error = engine
        .write(batch.iter(), Durability::Immediate)
        .unwrap_err();
    assert_eq!(
        error.kind(),
        thermocline_base::ErrorKind::OutOfSpace,
        "{error}"
    );
    assert!(error.to_string().contains("dram"), "{error}");
    assert_eq!(engine.metrics().visible, 0, "nothing was written");
}

/// One put whose iteration panics once it has been begun `left` times.
#[derive(Clone)]
struct Bomb {
    left: std::rc::Rc<std::cell::Cell<u32>>,
    given: bool,
}

impl Iterator for Bomb {
    type Item = thermocline_base::BatchEntry<'static>;

    fn next(&mut self) -> Option<Self::Item> {
        if std::mem::replace(&mut self.given, true) {
            return None;
        }
        let left = self.left.get();
        assert!(left > 0, "the bomb");
        self.left.set(left - 1);
        let (kind, key, value) = (thermocline_base::Kind::Put, &b"bomb"[..], &b""[..]);
        Some(thermocline_base::BatchEntry {
            kind,
            cf: CF,
            key,
            value,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (1, Some(1))
    }
}

impl ExactSizeIterator for Bomb {}

#[test]
fn a_write_that_dies_between_grant_and_finish_lets_nobody_wait() {
    let mut deaths = 0;
    for left in 0..20 {
        let engine = Machine::new(1 << 20).open().unwrap();
        put(&engine, b"a", b"1");
        let left = std::rc::Rc::new(std::cell::Cell::new(left));
        let bomb = Bomb { left, given: false };
        let write = std::panic::AssertUnwindSafe(|| engine.write(bomb, Durability::Immediate));
        if std::panic::catch_unwind(write).is_ok() {
            break;
        }
        deaths += 1;
        let mut batch = WriteBatch::new();
        batch.put(CF, b"b", b"2").unwrap();
        // Before the grant nothing has happened; after it the store takes no writes.
        if let Err(error) = engine.write(batch.iter(), Durability::Immediate) {
            assert_eq!(
                error.kind(),
                thermocline_base::ErrorKind::Poisoned,
                "{error}"
            );
        }
        assert_eq!(get(&engine, b"a"), Some(b"1".to_vec()));
        // Closing waits for groups in flight: it must not wait for the dead one.
        let _ = engine.close();
    }
    assert!(deaths > 4, "{deaths} deaths");
}

/// The tables and files that readers see.
/// How many keys a cursor finds from `from` on that do not lie behind `until`.
pub(crate) fn count_within(
    engine: &Engine,
    from: std::ops::Bound<&[u8]>,
    until: std::ops::Bound<&[u8]>,
    way: Direction,
) -> u64 {
    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
    let (mut seen, mut more) = (0, cursor.seek_within(from, until, way).unwrap());
    while more {
        seen += 1;
        more = cursor.step_within(until, way).unwrap();
    }
    seen
}

pub(crate) fn version_of(engine: &Engine) -> Arc<Version> {
    let view = engine.inner.common.catalog.view();
    view.tables.version().clone()
}
