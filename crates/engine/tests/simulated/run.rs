//! A load on a real store: simulated files, memory and clock, and a runtime whose work is done when it is asked to be.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::options::Options;
use thermocline_base::{CfId, Steps, WriteBatch};
use thermocline_engine::{Durability, Engine, EngineMetrics, Runtime, Setup, World, WriteOptions};
use thermocline_env::Env;
use thermocline_env::sim::SimFs;
use thermocline_env::simulated::SimClock;
use thermocline_pm::SimPm;

const CF: CfId = CfId::DEFAULT;

/// Bytes of a key.
pub const KEY_BYTES: u64 = 16;

/// Keys that are loaded with one write.
const LOADED_AT_ONCE: usize = 32;

/// A store under a load.
pub struct Store {
    clock: Arc<SimClock>,
    runtime: Runtime,
    engine: Engine,
    value_bytes: u64,
    /// What a write takes by the clock.
    write_ns: u64,
    drawn: u64,
}

impl Store {
    pub fn new(options: &Options, value_bytes: u64, writes_per_s: f64, seed: u64) -> Store {
        let steps = Steps::new();
        let clock = Arc::new(SimClock::new());
        let env = Env {
            clock: clock.clone(),
            ..Env::simulated(SimFs::new(steps.clone()), 7)
        };
        let world = World {
            env,
            sim: Some(SimPm::new(2 * options.pm, steps)),
            shadow: None,
            background: true,
        };
        let runtime = Runtime::scripted(clock.clone());
        let setup = Setup {
            runtime: Some(runtime.clone()),
            ..Setup::default()
        };
        let engine = Engine::open_with(world, Path::new("/db"), options.clone(), setup).unwrap();
        let record = (KEY_BYTES + value_bytes) as f64;
        Store {
            clock,
            runtime,
            engine,
            value_bytes,
            write_ns: whole(record / writes_per_s * 1e9),
            drawn: seed,
        }
    }

    /// Each key once, in their order, and everything in the last level.
    pub fn load(&mut self, keys: u64) {
        let all: Vec<u64> = (0..keys).collect();
        for some in all.chunks(LOADED_AT_ONCE) {
            self.write(some);
        }
        self.engine.flush().unwrap();
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        self.engine.compact(CF, all).unwrap();
        self.work();
    }

    /// A write, and then all background work that is due.
    pub fn put(&mut self, n: u64) {
        self.write(&[n]);
    }

    fn write(&mut self, keys: &[u64]) {
        let mut batch = WriteBatch::new();
        for n in keys {
            batch.put(CF, &key(*n), &self.value()).unwrap();
        }
        let mode = WriteOptions::from(Durability::Immediate);
        self.engine.write(batch.iter(), mode).unwrap();
        self.clock.advance_ns(self.write_ns);
        self.work();
    }

    fn work(&self) {
        while self.runtime.step().is_some() {}
    }

    pub fn metrics(&self) -> EngineMetrics {
        self.engine.metrics()
    }

    pub fn close(self) {
        self.engine.close().unwrap();
    }

    /// A part of 1.
    pub fn draw(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn next(&mut self) -> u64 {
        self.drawn = self.drawn.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.drawn;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Bytes that no codec makes shorter.
    fn value(&mut self) -> Vec<u8> {
        let len = usize::try_from(self.value_bytes).unwrap();
        let mut value = Vec::with_capacity(len + 8);
        while value.len() < len {
            value.extend(self.next().to_le_bytes());
        }
        value.truncate(len);
        value
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number that is not negative, and far below the largest"
)]
pub fn whole(number: f64) -> u64 {
    number as u64
}

fn key(n: u64) -> Vec<u8> {
    format!("key {n:012}").into_bytes()
}
