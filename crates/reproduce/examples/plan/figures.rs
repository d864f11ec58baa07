//! Forecasts for all presets, sizes and loads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use thermocline_base::options::Preset;
use thermocline_policy::simulate::{
    BATCH_BYTES, Demand, Forecast, Record, Setting, Spread, forecast,
};

use crate::PRESETS;

/// Data for each byte of persistent memory.
pub const RATIOS: [f64; 5] = [1.0, 2.5, 5.0, 20.0, 100.0];

/// Data.
pub const SIZES: [(&str, u64); 4] = [
    ("1 GiB", 1 << 30),
    ("32 GiB", 32 << 30),
    ("1 TiB", 1 << 40),
    ("10 TiB", 10 << 40),
];

pub const SKEWS: [f64; 2] = [0.0, 0.9];

/// What is asked of each.
pub const WRITES_PER_S: f64 = 50e6;
const DEVICE_PER_S: f64 = 1e9;
const PROCESSORS: usize = 2;

/// So much DRAM for each byte of persistent memory, or for what a preset without would have.
const DRAM_PARTS: f64 = 4.0;

/// Of what device and processors carry, where waits are told.
const PART: f64 = 0.7;

/// No faster than a few threads write.
const WRITES_MAX_PER_S: f64 = 200e6;

/// What one store may expect. Places in the lists above.
#[derive(Debug, Clone)]
pub struct Figure {
    pub preset: Preset,
    pub size: usize,
    pub ratio: usize,
    pub skew: usize,
    pub forecast: Forecast,
    pub wait_ms: f64,
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a size, far below the largest"
)]
fn whole(number: f64) -> u64 {
    number as u64
}

fn figure(preset: Preset, size: usize, ratio: usize, skew: usize) -> Figure {
    let data_bytes = SIZES[size].1;
    let pm = data_bytes as f64 / RATIOS[ratio];
    let demand = Demand {
        options: Setting::options(preset, whole(pm), whole(pm / DRAM_PARTS)),
        data_bytes,
        record: Record {
            key_bytes: 16,
            value_bytes: 400,
        },
        writes_per_s: WRITES_PER_S,
        reads_per_s: 0.0,
        device_per_s: DEVICE_PER_S,
        skew: SKEWS[skew],
        spread: Spread::Keys,
        processors: PROCESSORS,
    };
    let asked = forecast(&demand);
    let easy = Demand {
        writes_per_s: (PART * asked.writes_per_s_max).min(WRITES_MAX_PER_S),
        ..demand
    };
    Figure {
        preset,
        size,
        ratio,
        skew,
        forecast: asked,
        wait_ms: easy.felt().wait_ns_max(BATCH_BYTES) / 1e6,
    }
}

/// All of them, in the order of the lists, by as many threads as there are processors.
pub fn all() -> Vec<Figure> {
    let mut wanted = Vec::new();
    for preset in PRESETS {
        for size in 0..SIZES.len() {
            for skew in 0..SKEWS.len() {
                let ratios = 0..RATIOS.len();
                wanted.extend(ratios.map(|ratio| (preset, size, ratio, skew)));
            }
        }
    }
    let next = AtomicUsize::new(0);
    let made: Mutex<Vec<(usize, Figure)>> = Mutex::default();
    let work = || {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some((preset, size, ratio, skew)) = wanted.get(n).copied() else {
                return;
            };
            let figure = figure(preset, size, ratio, skew);
            let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
            made.push((n, figure));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
    made.sort_by_key(|(n, _)| *n);
    made.into_iter().map(|(_, figure)| figure).collect()
}
