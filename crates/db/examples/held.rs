//! What readers that stand still cost writers and readers beside them. Two stores with the same load take turns
//! of ten seconds; in one of them a snapshot, a cursor and an iterator are held from the first turn to the last:
//! `cargo run --release -p thermocline --features examples --example held -- 600`
#![expect(
    clippy::disallowed_methods,
    reason = "an example measures by the real clock"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use thermocline::{Db, Durability, Metrics, Options, Result};
use thermocline_testkit::Rng;

/// Keys that are written and read, at random: several times what persistent memory has room for.
const KEYS: u64 = 400_000;
const VALUE: usize = 1000;
const TURN: Duration = Duration::from_secs(10);

/// What one store did in its turns.
#[derive(Default)]
struct Side {
    puts: Vec<f64>,
    gets: Vec<f64>,
    pm_bytes_max: u64,
    dram_bytes_max: u64,
}

impl Side {
    fn turn(&mut self, db: &Db, random: &mut Rng) -> Result<()> {
        let value = [7; VALUE];
        self.puts.push(rate(TURN * 3 / 4, || {
            db.put_with(key(random), value, Durability::Buffered)
        })?);
        self.gets.push(rate(TURN / 4, || {
            db.get(key(random)).map(|found| assert!(found.is_some()))
        })?);
        let now = db.metrics();
        self.pm_bytes_max = self.pm_bytes_max.max(now.pm_attached_bytes);
        self.dram_bytes_max = self.dram_bytes_max.max(dram(&now));
        Ok(())
    }

    fn tell(&self, what: &str) {
        println!(
            "{what}: {:.0} puts/s, {:.0} gets/s (medians of {} turns); at most {} MiB of persistent memory, {} MiB \
             of DRAM",
            median(&self.puts),
            median(&self.gets),
            self.puts.len(),
            self.pm_bytes_max >> 20,
            self.dram_bytes_max >> 20
        );
    }
}

fn key(random: &mut Rng) -> [u8; 8] {
    (random.next_u64() % KEYS).to_be_bytes()
}

fn dram(now: &Metrics) -> u64 {
    now.dram_index_bytes + now.dram_tables_bytes + now.dram_blocks_bytes
}

/// Calls a second.
fn rate(time: Duration, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    let begun = Instant::now();
    let mut calls = 0;
    while begun.elapsed() < time {
        for _ in 0..100 {
            call()?;
        }
        calls += 100;
    }
    Ok(f64::from(calls) / begun.elapsed().as_secs_f64())
}

fn median(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

fn loaded(folder: &Path, name: &str) -> Result<Db> {
    let options = Options {
        pm: 64 << 20,
        dram: 64 << 20,
        ..Options::default()
    };
    let db = Db::open(folder.join(name), options)?;
    for key in 0..KEYS {
        db.put_with(key.to_be_bytes(), [1; VALUE], Durability::Buffered)?;
    }
    Ok(db)
}

fn main() -> Result<()> {
    let seconds = std::env::args().nth(1).and_then(|n| n.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(120));
    let folder = std::env::temp_dir().join(format!("thermocline-held-{}", std::process::id()));
    let (free, held) = (loaded(&folder, "free")?, loaded(&folder, "held")?);
    let (mut free_side, mut held_side) = (Side::default(), Side::default());
    let (mut one, mut other) = (Rng::new(16), Rng::new(16));

    let snapshot = held.snapshot();
    let mut cursor = held.cursor()?;
    cursor.seek_to_first()?;
    let mut entries = held.iter();
    let first = entries.next().transpose()?;
    let begun = Instant::now();
    while begun.elapsed() < time {
        free_side.turn(&free, &mut one)?;
        held_side.turn(&held, &mut other)?;
    }
    free_side.tell("nobody reads");
    held_side.tell("held");
    println!(
        "with readers that are held: {:.2} times the puts, {:.2} times the gets; these are held:",
        median(&held_side.puts) / median(&free_side.puts),
        median(&held_side.gets) / median(&free_side.gets)
    );
    for reader in held.metrics().readers_told {
        println!("  {reader}");
    }

    // All of them read what was there.
    let then = [1; VALUE];
    let was_there = |value: Option<&[u8]>| value.is_some_and(|value| *value == then);
    for key in (0..KEYS).step_by(1000) {
        assert!(was_there(snapshot.get(key.to_be_bytes())?.as_deref()));
    }
    let mut keys = u64::from(first.is_some());
    for entry in entries {
        assert!(was_there(Some(&entry?.1)));
        keys += 1;
    }
    assert_eq!(keys, KEYS);
    let mut keys = 0;
    while cursor.valid() {
        assert!(was_there(Some(cursor.value())));
        keys += 1;
        cursor.next()?;
    }
    assert_eq!(keys, KEYS);
    drop(snapshot);
    free.close()?;
    held.close()?;
    std::fs::remove_dir_all(&folder).ok();
    Ok(())
}
