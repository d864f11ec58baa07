//! How long a close takes in the midst of flushes and compactions: durable writes at full speed, five times as much as
//! persistent memory has, and then a close, again and again in the same store; for values of 100 bytes, 1 KiB and 16 KiB.
//! `cargo run --release -p thermocline --features examples --example closing -- thermocline /some/folder` (a preset, and where tables lie)
#![expect(
    clippy::disallowed_methods,
    reason = "an example measures by the real clock, and removes its folders"
)]

use std::path::Path;
use std::time::Instant;

use thermocline::options::Preset;
use thermocline::{Db, Durability, Options, Result};
use thermocline_testkit::Rng;

const PM: u64 = 64 << 20;
const ROUNDS: usize = 10;
const KEYS: usize = 1 << 20;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let preset = args.next().unwrap_or_else(|| "thermocline".into());
    let preset = Preset::parse(&preset)?;
    let folder = args.next().unwrap_or_else(|| ".".into());
    for value_bytes in [100, 1 << 10, 16 << 10] {
        let times = closes(preset, Path::new(&folder), value_bytes)?;
        println!(
            "{}, values of {value_bytes} bytes, {ROUNDS} closes: median {:.1} ms, longest {:.1} ms",
            preset.name(),
            times[ROUNDS / 2],
            times[ROUNDS - 1]
        );
    }
    Ok(())
}

/// Milliseconds that closes took, the shortest first.
fn closes(preset: Preset, folder: &Path, value_bytes: usize) -> Result<Vec<f64>> {
    let memory = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let disk = tempfile::tempdir_in(folder).expect("a folder on the disk");
    let mut options = Options::preset(preset);
    (options.pm, options.dram) = (PM, 2 * PM);
    match options.in_dram() {
        true => options.wal_path = Some(memory.path().join("logs")),
        false => options.pm_path = Some(memory.path().join("region")),
    }
    let writes = 5 * PM / value_bytes as u64;
    let mut rng = Rng::new(1);
    let mut value = vec![0; value_bytes];
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let db = Db::open(disk.path().join("db"), options.clone())?;
        for _ in 0..writes {
            for part in value.chunks_mut(8) {
                let bytes = rng.next_u64().to_le_bytes();
                part.copy_from_slice(&bytes[..part.len()]);
            }
            let key = rng.below(KEYS).to_be_bytes();
            db.put_with(key, &value, Durability::Immediate)?;
        }
        let begun = Instant::now();
        db.close()?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}
