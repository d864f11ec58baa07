//! What partitions cost: `cargo run --release -p thermocline-engine --features examples --example partitions -- [RECORDS]`.
//!
//! The same records, of 16-byte keys in ten thousand prefixes and 100-byte values, in random order, go into stores
//! whose keys are divided by nothing, by prefix, and by size. Told are the writes of each tenth of the records, so
//! that one sees whether they slow down, then how long it takes to open the store again, to be told the sizes
//! of all partitions, and what `explain` asks for. Last, a store with 65,535 partitions by keys is made and opened.

use std::path::Path;

use thermocline_base::options::Options;
use thermocline_base::{CfId, Result, WriteBatch};
use thermocline_engine::{Durability, Engine, World};
use thermocline_testkit::Rng;

const PREFIXES: u64 = 10_000;
const BATCH: usize = 64;

fn options(by: &str) -> Result<Options> {
    let mut options = Options {
        pm: 64 << 20,
        dram: 128 << 20,
        ..Options::default()
    };
    options.set("partition.by", by)?;
    options.partition.prefix_len = 4;
    options.compaction.table_bytes = 1 << 20;
    options.partition.bytes = 4 << 20;
    if by == "keys" {
        options.partition_keys = (1..65_535u32).map(|n| n.to_be_bytes().to_vec()).collect();
    }
    Ok(options)
}

/// What `work` gives, and how many nanoseconds it took.
fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, u64)> {
    let clock = World::real().env.clock;
    let begun = clock.now_ns();
    let done = work()?;
    Ok((done, clock.now_ns() - begun))
}

fn write(engine: &Engine, rng: &mut Rng, records: u64) -> Result<()> {
    let value = [7; 100];
    let mut left = records;
    while left > 0 {
        let mut batch = WriteBatch::new();
        for _ in 0..left.min(BATCH as u64) {
            let n = rng.next_u64();
            let prefix = u32::try_from(n % PREFIXES)
                .expect("it is small")
                .to_be_bytes();
            let key = [&prefix[..], &n.to_le_bytes(), &prefix[..]].concat();
            batch.put(CfId::DEFAULT, &key, &value)?;
        }
        engine.write(batch.iter(), Durability::Buffered)?;
        left = left.saturating_sub(BATCH as u64);
    }
    Ok(())
}

fn reopened(dir: &Path, by: &str) -> Result<()> {
    let ms = |ns: u64| ns as f64 / 1e6;
    let (engine, opening) = timed(|| Engine::open(World::real(), dir, options(by)?))?;
    let (partitions, sizes) = timed(|| Ok(engine.partitions(CfId::DEFAULT)))?;
    let (plan, planning) = timed(|| Ok(engine.plan()))?;
    println!(
        "  opened in {:.1} ms; {} partitions; sizes in {:.1} ms, a plan in {:.1} ms",
        ms(opening),
        partitions.len(),
        ms(sizes),
        ms(planning)
    );
    let usage = engine.metrics().partitions;
    println!("  {usage:?}, {} families planned", plan.families.len());
    engine.close()
}

fn main() -> Result<()> {
    let asked = std::env::args().nth(1);
    let records: u64 = asked.and_then(|n| n.parse().ok()).unwrap_or(2_000_000);
    for by in ["none", "prefix", "size"] {
        let home = tempfile::tempdir_in("/dev/shm").expect("a temporary folder");
        let dir = home.path().join("db");
        println!("partition.by={by}, {records} records");
        let engine = Engine::open(World::real(), &dir, options(by)?)?;
        let mut rng = Rng::new(1);
        let mut rates = Vec::new();
        for _ in 0..10 {
            let ((), ns) = timed(|| write(&engine, &mut rng, records / 10))?;
            rates.push(format!("{:.0}", (records / 10) as f64 * 1e6 / ns as f64));
        }
        println!("  writes, in thousands a second: {}", rates.join(" "));
        let ((), ns) = timed(|| engine.drain())?;
        println!("  drained in {:.1} s", ns as f64 / 1e9);
        engine.close()?;
        reopened(&dir, by)?;
    }
    let home = tempfile::tempdir_in("/dev/shm").expect("a temporary folder");
    let dir = home.path().join("db");
    println!("partition.by=keys");
    let (engine, ns) = timed(|| Engine::open(World::real(), &dir, options("keys")?))?;
    println!("  made in {:.1} ms", ns as f64 / 1e6);
    let ((), ns) = timed(|| write(&engine, &mut Rng::new(2), records / 10))?;
    println!(
        "  writes, in thousands a second: {:.0}",
        (records / 10) as f64 * 1e6 / ns as f64
    );
    engine.close()?;
    reopened(&dir, "keys")
}
