//! What it costs to time operations: nanoseconds an operation, for several shares that are timed.
//!
//! `cargo run --release -p thermocline-engine --example latency_cost`

use std::hint::black_box;

use thermocline_base::options::Options;
use thermocline_base::{Error, Result};
use thermocline_engine::{Engine, Operation, World};

const ROUNDS: u32 = 20_000_000;

fn main() -> Result<()> {
    let world = World::real();
    let clock = world.env.clock.clone();
    for every in [0, 1, 2, 8, 32, 1 << 20] {
        let folder = tempfile::tempdir()
            .map_err(|error| Error::io("make", std::path::Path::new("a folder"), error))?;
        let mut options = Options::default();
        options.metrics.latency_every = every;
        let engine = Engine::open(world.clone(), &folder.path().join("db"), options)?;
        let begun = clock.now_ns();
        for _ in 0..ROUNDS {
            let latencies = black_box(&engine).latencies();
            latencies.time(Operation::Get, || black_box(()));
        }
        let nanos = clock.now_ns() - begun;
        println!("1 in {every}: {:.2} ns", nanos as f64 / f64::from(ROUNDS));
    }
    Ok(())
}
