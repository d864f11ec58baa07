//! What deletes leave behind.
//!
//! `cargo run --release -p thermocline-engine --features examples --example deletes -- space [MIB] [DIR]`: how long until the disk has its room back after a
//! range tombstone over half of the keys, by itself and by a compaction.
//!
//! `… --example deletes -- sparse [MIB] [DIR]`: the same where keys are deleted one by one, all but every hundredth, and what a scan of ten keys
//! takes before, then, and when the store has come to rest.
//!
//! `… --example deletes -- churn [MIB] [DIR]`: what is written to the disk, and how fast, where keys are put and deleted at random, each as often.
//!
//! `… --example deletes -- scans [KEYS] [DIR]`: how long a scan of ten keys takes before and after the keys in front of them
//! were deleted, by one range tombstone and one by one, with keys and deletes in memtables, in tables of persistent memory, and
//! on the disk; and how many deleted keys it stepped over.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use thermocline_base::options::Options;
use thermocline_base::{CfId, Result, WriteBatch};
use thermocline_engine::{Durability, Engine, World};
use thermocline_env::Clock;
use thermocline_testkit::Rng;

const BATCH: u64 = 256;
const ENTRIES: usize = 10;

/// Nanoseconds by one clock.
fn now_ns() -> u64 {
    static CLOCK: LazyLock<Arc<dyn Clock>> = LazyLock::new(|| World::real().env.clock);
    CLOCK.now_ns()
}

fn key(n: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    key[..8].copy_from_slice(&n.to_be_bytes());
    key
}

/// Writes these keys in batches: puts with values of so many bytes, or deletes.
fn write(engine: &Engine, keys: impl Iterator<Item = u64>, value: Option<usize>) -> Result<()> {
    let mut rng = Rng::new(7);
    let mut keys = keys.peekable();
    while keys.peek().is_some() {
        let mut batch = WriteBatch::new();
        for n in keys.by_ref().take(usize::try_from(BATCH).expect("small")) {
            match value {
                Some(len) => {
                    let value: Vec<u8> = (0..len / 8)
                        .flat_map(|_| rng.next_u64().to_le_bytes())
                        .collect();
                    batch.put(CfId::DEFAULT, &key(n), &value)?;
                }
                None => batch.delete(CfId::DEFAULT, &key(n))?,
            }
        }
        engine.write(batch.iter(), Durability::Buffered)?;
    }
    Ok(())
}

fn delete_range(engine: &Engine, from: u64, to: u64) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.delete_range(CfId::DEFAULT, &key(from), Some(&key(to)))?;
    engine.write(batch.iter(), Durability::Immediate)
}

/// Bytes of tables on the disk, and of those in persistent memory.
fn table_bytes(engine: &Engine) -> (u64, u64) {
    let metrics = engine.metrics();
    (
        metrics.levels.iter().map(|level| level.bytes).sum(),
        metrics.pm_tier.table_bytes,
    )
}

/// Where a store lies: its tables, and its region.
struct Home {
    disk: tempfile::TempDir,
    memory: tempfile::TempDir,
}

impl Home {
    fn open(&self, pm: u64) -> Result<Engine> {
        let options = Options {
            pm,
            dram: 1 << 30,
            pm_path: Some(self.memory.path().join("region")),
            ..Options::default()
        };
        Engine::open(World::real(), &self.disk.path().join("db"), options)
    }
}

fn space(home: &Home, mib: u64) -> Result<()> {
    let keys = mib << 10;
    let engine = home.open(128 << 20)?;
    write(&engine, (0..keys).map(|n| n * 7919 % keys), Some(1024))?;
    engine.drain()?;
    let before = table_bytes(&engine);
    println!(
        "{mib} MiB; tables have {} MiB on the disk, {} MiB in persistent memory",
        before.0 >> 20,
        before.1 >> 20
    );
    let begun = now_ns();
    delete_range(&engine, 0, keys / 2)?;
    println!(
        "delete_range took {:.3} ms",
        (now_ns() - begun) as f64 / 1e6
    );
    let is_back = || table_bytes(&engine).0 <= before.0 * 60 / 100;
    let waited = loop {
        let waited = now_ns() - begun;
        if is_back() || waited > 30_000_000_000 {
            break waited;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    let (ssd, pm) = table_bytes(&engine);
    println!(
        "after {:.1} ms by itself: {} MiB on the disk, {} MiB in persistent memory{}",
        waited as f64 / 1e6,
        ssd >> 20,
        pm >> 20,
        if is_back() { "" } else { ": not back" }
    );
    let read = engine.metrics().ssd;
    let begun = now_ns();
    engine.compact(
        CfId::DEFAULT,
        (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded),
    )?;
    let now = engine.metrics().ssd;
    println!(
        "a compaction took {:.1} ms, read {} MiB and wrote {} MiB; now {:?} MiB",
        (now_ns() - begun) as f64 / 1e6,
        (now.tables_read - read.tables_read) >> 20,
        (now.tables_written - read.tables_written) >> 20,
        table_bytes(&engine).0 >> 20
    );
    engine.close()
}

fn sparse(home: &Home, mib: u64) -> Result<()> {
    let keys = mib << 10;
    let engine = home.open(256 << 20)?;
    write(&engine, (0..keys).map(|n| n * 7919 % keys), Some(1024))?;
    engine.drain()?;
    let tell = |when: &str| -> Result<()> {
        let (ssd, pm) = table_bytes(&engine);
        println!(
            "{when}: {} MiB on the disk, {} MiB in persistent memory; a scan of ten keys: {}",
            ssd >> 20,
            pm >> 20,
            told(&scans(&engine, 51)?)
        );
        Ok(())
    };
    tell("before")?;
    let written = engine.metrics().ssd.tables_written;
    let deleted = (0..keys).map(|n| n * 7919 % keys).filter(|n| n % 100 != 0);
    write(&engine, deleted, None)?;
    tell("deleted")?;
    let begun = now_ns();
    engine.flush()?;
    tell("flushed")?;
    let mut last = table_bytes(&engine);
    loop {
        std::thread::sleep(std::time::Duration::from_secs(3));
        let now = table_bytes(&engine);
        if now == last {
            break;
        }
        last = now;
    }
    let seconds = (now_ns() - begun) as f64 / 1e9 - 3.0;
    tell(&format!("{seconds:.1} s later, at rest"))?;
    let now = engine.metrics();
    println!(
        "{} MiB of tables were written; jobs: {:?}",
        (now.ssd.tables_written - written) >> 20,
        now.compaction.reasons
    );
    engine.close()
}

fn churn(home: &Home, mib: u64) -> Result<()> {
    let keys = usize::try_from(mib << 10).expect("fits memory");
    let engine = home.open(128 << 20)?;
    write(&engine, 0..mib << 10, Some(1024))?;
    engine.drain()?;
    let (written, begun) = (engine.metrics().ssd.tables_written, now_ns());
    let mut rng = Rng::new(11);
    for _ in 0..2 * keys / 256 {
        let drawn = [(); 128].map(|()| rng.below(keys) as u64);
        write(&engine, drawn.into_iter(), Some(1024))?;
        let drawn = [(); 128].map(|()| rng.below(keys) as u64);
        write(&engine, drawn.into_iter(), None)?;
    }
    let took = (now_ns() - begun) as f64 / 1e9;
    engine.drain()?;
    let drained = (now_ns() - begun) as f64 / 1e9;
    let now = engine.metrics();
    println!(
        "{} puts and as many deletes in {took:.1} s, {drained:.1} s with what was left to do; {:.2} bytes were written to tables for each \
         that was put; {} MiB are there; jobs: {:?}",
        keys,
        (now.ssd.tables_written - written) as f64 / (keys * 1040) as f64,
        table_bytes(&engine).0 >> 20,
        now.compaction.reasons
    );
    engine.close()
}

/// Microseconds that scans of ten keys from the first one took, one after the other, and what they stepped over.
fn scans(engine: &Engine, count: usize) -> Result<Vec<(f64, u64)>> {
    let family = engine.find_family("default").expect("every store has it");
    let mut all = Vec::new();
    for _ in 0..count {
        let stepped = engine.metrics().stepped_over;
        let begun = now_ns();
        let mut cursor = engine.cursor(family)?;
        let mut found = 0;
        let mut valid = cursor.seek(&key(0))?;
        while valid && found < ENTRIES {
            found += 1;
            valid = cursor.next()?;
        }
        let took = (now_ns() - begun) as f64 / 1e3;
        assert_eq!(found, ENTRIES);
        drop(cursor);
        all.push((took, engine.metrics().stepped_over - stepped));
    }
    Ok(all)
}

fn median(mut all: Vec<(f64, u64)>) -> f64 {
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all[all.len() / 2].0
}

fn told(all: &[(f64, u64)]) -> String {
    let (first, second) = (all[0], all[1]);
    format!(
        "first {:.0} µs (stepped over {}), second {:.0} µs ({}), median {:.1} µs",
        first.0,
        first.1,
        second.0,
        second.1,
        median(all.to_vec())
    )
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Tier {
    Memtables,
    PmTables,
    Disk,
}

fn settle(engine: &Engine, tier: Tier) -> Result<()> {
    match tier {
        Tier::Memtables => {}
        Tier::PmTables => drop(engine.flush()?),
        Tier::Disk => engine.compact(
            CfId::DEFAULT,
            (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded),
        )?,
    }
    Ok(())
}

fn scan_case(
    home: &Home,
    keys: u64,
    keys_in: Tier,
    deletes_in: Tier,
    by_range: bool,
) -> Result<()> {
    let engine = home.open(4 << 30)?;
    write(
        &engine,
        (0..keys + 1000).map(|n| n * 7919 % (keys + 1000)),
        Some(96),
    )?;
    settle(&engine, keys_in)?;
    let before = median(scans(&engine, 51)?);
    match by_range {
        true => delete_range(&engine, 0, keys)?,
        false => write(&engine, 0..keys, None)?,
    }
    if deletes_in == Tier::PmTables {
        engine.flush()?;
    }
    let first = scans(&engine, 51)?;
    println!(
        "keys in {keys_in:?}, {} in {deletes_in:?}: before {before:.1} µs; then {}",
        if by_range {
            "a range tombstone"
        } else {
            "deletes"
        },
        told(&first)
    );
    std::thread::sleep(std::time::Duration::from_secs(3));
    println!("    3 s later: {}", told(&scans(&engine, 51)?));
    engine.close()
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_default();
    let size: Option<u64> = args.next().and_then(|n| n.parse().ok());
    let parent = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = |parent: &Path| tempfile::tempdir_in(parent).expect("a temporary folder");
    let home = || Home {
        disk: folder(&parent),
        memory: folder(Path::new("/dev/shm")),
    };
    match &*what {
        "space" => space(&home(), size.unwrap_or(1024)),
        "sparse" => sparse(&home(), size.unwrap_or(1024)),
        "churn" => churn(&home(), size.unwrap_or(1024)),
        "scans" => {
            let keys = size.unwrap_or(1_000_000);
            for by_range in [true, false] {
                for keys_in in [Tier::Memtables, Tier::PmTables, Tier::Disk] {
                    for deletes_in in [Tier::Memtables, Tier::PmTables] {
                        scan_case(&home(), keys, keys_in, deletes_in, by_range)?;
                    }
                }
            }
            Ok(())
        }
        _ => {
            eprintln!("say `space`, `sparse`, `churn` or `scans`");
            std::process::exit(2);
        }
    }
}
