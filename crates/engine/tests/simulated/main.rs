//! The model of a store (`policy::simulate`) beside a real one: the same load on both, and how many bytes each writes to the SSD
//! and into persistent memory.
//!
//! The real store has simulated files, memory and clock, and no threads: whatever is due in the background is done at once. So it
//! does the same in every run, and the model is run with a device that takes no time. Both begin with all keys in the last level.
//!
//! What a preset may be off by is written down here; 15 % is what is promised. Preset `pm-blade` does not keep it everywhere
//! (see `docs/plan.md`). Figures are printed with
//!
//! ```text
//! THERMOCLINE_EXPLORE=2 cargo test -p thermocline-engine --test simulated -- --nocapture
//! ```

mod run;

use run::{KEY_BYTES, Store, whole};
use thermocline_base::options::{Options, Preset};
use thermocline_base::size::index;
use thermocline_policy::simulate::{self, Record, Setting, Spread};
use thermocline_testkit::explore::{explored, side_by_side};

/// The allocator of these tests: they take a sixth less time with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PM_BYTES: u64 = 4 << 20;

/// So short that a table has a thousand records: with fewer, chance makes tables unlike each other, and the model knows no chance.
const VALUE_BYTES: u64 = 250;

/// Written in a second, by the clock of both.
const WRITES_PER_S: f64 = 10e6;

/// Persistent memory is written so many times over before it counts, and while it counts.
const WARM_TIMES: u64 = 4;
const TIMES: u64 = 8;

/// Data for each byte of persistent memory, and how skewed writes are, in the order in which they are worth their time: a plain run
/// compares the first, the long form [`LOADS_LONG`], twice the long form all.
const LOADS: [(f64, f64); 8] = [
    (1.0, 0.9),
    (5.0, 0.9),
    (20.0, 0.9),
    (1.0, 0.0),
    (5.0, 0.0),
    (2.5, 0.9),
    (2.5, 0.0),
    (20.0, 0.0),
];
const LOADS_LONG: u64 = 5;

/// Sizes as those of a store with 64 times as much persistent memory; and what would take threads does without.
const SET: [(&str, &str); 5] = [
    ("compaction.table_bytes", "256KiB"),
    ("pm.part_bytes_first", "256KiB"),
    ("level0.evacuation_threads", "1"),
    ("memtable.replay_threads", "1"),
    ("read.readahead", "4"),
];

fn options(preset: Preset) -> Options {
    let mut options = Setting::options(preset, PM_BYTES, 4 * PM_BYTES);
    for (name, value) in SET {
        options.set(name, value).unwrap();
    }
    options
}

/// Bytes written to the SSD, into tables, and into persistent memory.
#[derive(Debug, Clone, Copy, Default)]
struct Written {
    ssd: f64,
    pm: f64,
}

impl Written {
    fn add(&mut self, other: &Written) {
        self.ssd += other.ssd;
        self.pm += other.pm;
    }
}

/// Draws ranks with a likelihood of 1 / rank^skew.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(keys: u64, skew: f64) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=keys).map(|rank| {
            sum += (rank as f64).powf(-skew);
            sum
        });
        Zipf(sums.collect())
    }

    fn rank(&self, part: f64) -> u64 {
        let at = part * self.0.last().unwrap();
        let rank = self.0.partition_point(|sum| *sum <= at);
        rank.min(self.0.len() - 1) as u64
    }
}

/// A prime that divides no number of keys here: ranks times this are scattered over the keys.
const SCATTER: u64 = 1_000_003;

/// What a real store writes, and how much was written to it.
fn real(preset: Preset, ratio: f64, skew: f64, seed: u64) -> (Written, u64) {
    let mut store = Store::new(&options(preset), VALUE_BYTES, WRITES_PER_S, seed);
    let record = KEY_BYTES + VALUE_BYTES;
    let keys = whole(ratio * PM_BYTES as f64) / record;
    store.load(keys);
    let zipf = Zipf::new(keys, skew);
    let write = |store: &mut Store, writes: u64| {
        for _ in 0..writes {
            let rank = zipf.rank(store.draw());
            store.put(rank * SCATTER % keys);
        }
    };
    write(&mut store, WARM_TIMES * PM_BYTES / record);
    let before = store.metrics();
    write(&mut store, (keys / 2).max(TIMES * PM_BYTES / record));
    let after = store.metrics();
    store.close();
    let ssd = after.ssd.tables_written - before.ssd.tables_written;
    let pm = after.pm.bytes_stored - before.pm.bytes_stored;
    let written = Written {
        ssd: ssd as f64,
        pm: pm as f64,
    };
    (written, after.user_bytes - before.user_bytes)
}

/// The same of the model.
fn modelled(preset: Preset, ratio: f64, skew: f64, user_bytes: u64) -> Written {
    let options = options(preset);
    let in_dram = options.in_dram();
    let outcome = simulate::run(&Setting {
        options,
        data_bytes: whole(ratio * PM_BYTES as f64),
        record: Record {
            key_bytes: KEY_BYTES,
            value_bytes: VALUE_BYTES,
        },
        writes_per_s: WRITES_PER_S,
        reads_per_s: 0.0,
        scanned_per_s: 0.0,
        device_per_s: f64::INFINITY,
        skew,
        spread: Spread::Keys,
        is_filled: false,
        warm_bytes: WARM_TIMES * PM_BYTES,
        user_bytes,
        jobs: 1,
        clients: 0.0,
    });
    Written {
        ssd: outcome.flushed_bytes + outcome.compacted_bytes,
        pm: if in_dram {
            0.0
        } else {
            outcome.pm_written_bytes
        },
    }
}

/// By how many percent the model is off.
fn off(modelled: f64, real: f64) -> f64 {
    (modelled - real) / real.max(1.0) * 100.0
}

/// Where every table is like the others, or there are many, one load says enough.
const ALONE: &[f64] = &[1.0];

/// Data for each byte of persistent memory from which on there are many.
const RATIO_ALONE: f64 = 20.0;

/// Where tables lie in persistent memory, which of them leaves next hangs on single records: stores that differ by a seed write up
/// to a fifth more or less. So sums are compared, over loads that differ a little.
const BESIDE: &[f64] = &[0.92, 1.0, 1.08];

/// Compares all loads, of which no sum may be off by more percent than it says here.
fn compare(preset: Preset, beside: &[f64], (ssd_most, pm_most): (f64, f64)) {
    let loads = &LOADS[..LOADS.len().min(index(explored(1, LOADS_LONG)))];
    let mut stores: Vec<(usize, f64, f64, u64)> = Vec::new();
    for (load, &(ratio, skew)) in loads.iter().enumerate() {
        let beside = if ratio < RATIO_ALONE { beside } else { ALONE };
        let parts = beside.iter().zip(1..);
        stores.extend(parts.map(|(part, seed)| (load, ratio * part, skew, seed)));
    }
    // A preset has many of them, and the last one would be alone with its own. Those with most data come first.
    stores.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mut written = side_by_side(&stores, |&(load, ratio, skew, seed)| {
        let (real, user_bytes) = real(preset, ratio, skew, seed);
        (load, seed, real, modelled(preset, ratio, skew, user_bytes))
    });
    // Sums are formed in the same order each time.
    written.sort_by_key(|&(load, seed, ..)| (load, seed));
    let mut worst = Vec::new();
    for (load, &(ratio, skew)) in loads.iter().enumerate() {
        let (mut real_all, mut modelled_all) = (Written::default(), Written::default());
        for (_, _, real, modelled) in written.iter().filter(|one| one.0 == load) {
            real_all.add(real);
            modelled_all.add(modelled);
        }
        let ssd = off(modelled_all.ssd, real_all.ssd);
        let pm = off(modelled_all.pm, real_all.pm);
        println!(
            "| {} | {ratio} | {skew} | {:.1} | {:.1} | {ssd:+.1} % | {:.1} | {:.1} | {pm:+.1} % |",
            preset.name(),
            real_all.ssd / 1e6,
            modelled_all.ssd / 1e6,
            real_all.pm / 1e6,
            modelled_all.pm / 1e6,
        );
        if ssd.abs() > ssd_most || pm.abs() > pm_most {
            worst.push((ratio, skew, ssd, pm));
        }
    }
    assert!(worst.is_empty(), "{}: {worst:?}", preset.name());
}

#[test]
fn thermocline() {
    compare(Preset::Thermocline, BESIDE, (15.0, 15.0));
}

#[test]
fn global_index() {
    compare(Preset::GlobalIndex, ALONE, (15.0, 15.0));
}

#[test]
fn leveled() {
    compare(Preset::Leveled, ALONE, (15.0, 15.0));
}

/// Its printed equations merge inside persistent memory as long as fewer than two thirds of what is written are updates, and there
/// four fifths of it are for tables. Which merges find room may hang on single zones, of which the model knows only the mean; it is
/// not found out. Worst are 20 times as much data with skew 0.9, 26 % less on the SSD, and 23 % less in persistent memory elsewhere.
#[test]
fn pm_blade() {
    compare(Preset::PmBlade, BESIDE, (30.0, 25.0));
}
