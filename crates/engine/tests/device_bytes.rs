//! What a store counts as written to and read from its device is what the operating system accounts to
//! this process. Alone in its process, so that nothing else is in the account.

use std::path::Path;

use thermocline_base::options::Options;
use thermocline_base::{CfId, WriteBatch};
use thermocline_engine::{Durability, Engine, Family, World};
use thermocline_env::{Env, FsKind, OpenMode, Storage};

const PAGE: u64 = 4096;

/// How often the store is read at most, until the system accounts nothing beside it.
const READS: usize = 5;

/// Bytes that the kernel has read and written for this process; `None` where it does not say.
fn account(storage: &dyn Storage) -> Option<(u64, u64)> {
    let file = storage.open(Path::new("/proc/self/io"), OpenMode::Read);
    let mut text = vec![0; 1000];
    let n = file.ok()?.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..n]).ok()?.to_string();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line?.trim().parse::<u64>().ok()
    };
    Some((value("read_bytes:")?, value("write_bytes:")?))
}

/// Why this cannot be tested here, if so.
fn impossible(storage: &dyn Storage, disk: &Path, memory: &Path) -> Option<&'static str> {
    if storage.fs_kind(disk).ok()? == FsKind::Tmpfs {
        return Some("the folder for tests lies in memory");
    }
    if !storage.is_dir(memory).ok()? {
        return Some("there is no folder in memory for the region");
    }
    match account(storage) {
        None => Some("the operating system keeps no account"),
        Some(_) => None,
    }
}

fn fill(engine: &Engine, round: u32) {
    for n in 0..2_000u32 {
        let mut batch = WriteBatch::new();
        let key = (n * 7 + round).to_be_bytes();
        batch
            .put(CfId::DEFAULT, &key, &[n.to_le_bytes()[0]; 700])
            .unwrap();
        let buffered = Durability::Buffered;
        engine.write(batch.iter(), buffered).unwrap();
    }
}

/// Reads keys of all tables, and some in their order.
fn read_some(engine: &Engine) {
    let mut found = 0;
    for n in (0..14_000u32).step_by(31) {
        let value = engine.get(CfId::DEFAULT, &n.to_be_bytes(), <[u8]>::len);
        found += value.unwrap().unwrap_or(0);
    }
    assert!(found > 100 * 700, "{found}");
    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
    let mut more = cursor.seek(&5_000u32.to_be_bytes()).unwrap();
    for _ in 0..1_000 {
        assert!(more);
        more = cursor.next().unwrap();
    }
}

#[test]
fn counted_bytes_are_those_of_the_operating_system() {
    let env = Env::real();
    let storage = &*env.storage;
    let (disk, memory) = (
        Path::new(env!("CARGO_TARGET_TMPDIR")),
        Path::new("/dev/shm"),
    );
    if let Some(why) = impossible(storage, disk, memory) {
        println!("skipped: {why}");
        return;
    }
    for direct in [true, false] {
        let dir = tempfile::tempdir_in(disk).unwrap();
        let region = tempfile::tempdir_in(memory).unwrap();
        let mut options = Options {
            pm: 64 << 20,
            pm_path: Some(region.path().to_path_buf()),
            ..Options::default()
        };
        options.ssd.direct = direct;
        // What is counted lies in files.
        options.set("level0.shape", "global-index").unwrap();
        let world = World {
            background: false,
            ..World::real()
        };
        let db = dir.path().join("db");
        let mut engine = Engine::open(world.clone(), &db, options.clone()).unwrap();
        // What a file system writes of its own, when it is asked for the first time.
        fill(&engine, 0);
        engine.flush().unwrap();

        let mut beside = Vec::new();
        for round in 1..6 {
            let before = (account(storage).unwrap().1, engine.metrics().ssd);
            fill(&engine, round);
            assert_eq!(engine.flush().unwrap(), 1);
            let after = (account(storage).unwrap().1, engine.metrics().ssd);
            assert!(after.1.tables_written - before.1.tables_written > 2_000 * 700);
            assert!(after.1.manifest_written - before.1.manifest_written >= 2 * PAGE);
            let counted = after.1.written() - before.1.written();
            let accounted = after.0 - before.0;
            assert!(
                accounted >= counted,
                "{accounted} and {before:?}, {after:?}"
            );
            beside.push(accounted - counted);
        }
        // What the file system writes of its own, names and maps of blocks, may be accounted to us, if it
        // has been a while that it did so last. That is not always so, and never much.
        println!("direct: {direct}, beside what was counted: {beside:?}");
        assert!(beside.iter().all(|n| *n <= 16 * PAGE), "{beside:?}");
        assert!(beside.iter().any(|n| *n <= PAGE), "{beside:?}");

        // The system accounts to us what it reads of this program, too, where it has dropped pages of it for want of memory.
        // That is only ever more: then another opening, which has cached nothing yet, reads the same again.
        let mut tries = 0;
        let (accounted, counted) = loop {
            let before = (account(storage).unwrap().0, engine.metrics().ssd);
            read_some(&engine);
            let after = (account(storage).unwrap().0, engine.metrics().ssd);
            let (accounted, counted) = (after.0 - before.0, after.1.read() - before.1.read());
            tries += 1;
            if accounted <= counted || tries == READS {
                break (accounted, counted);
            }
            engine.close().unwrap();
            engine = Engine::open(world.clone(), &db, options.clone()).unwrap();
        };
        assert!(counted > 0);
        match direct {
            true => assert_eq!(accounted, counted),
            // It was written just now, and lies in the page cache.
            false => assert!(accounted <= counted),
        }
        engine.close().unwrap();
    }
}
