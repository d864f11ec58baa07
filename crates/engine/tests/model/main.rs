//! The model of a store beside a real one.
mod run;

use thermocline_base::options::{Options, Preset};

const PM: u64 = 4 << 20;
const VALUE: u64 = 1000;

fn options(preset: Preset) -> Options {
    let mut options = Options::preset(preset).settled().on_region(true);
    options.pm = PM;
    options.dram = 4 * PM;
    for (name, value) in [
        ("compaction.table_bytes", "256KiB"),
        ("pm.part_bytes_first", "256KiB"),
        ("level0.evacuation_threads", "1"),
        ("memtable.replay_threads", "1"),
        ("read.readahead", "4"),
    ] {
        options.set(name, value).unwrap();
    }
    options
}

/// Draws with a likelihood of 1 / rank^skew.
struct Zipf(Vec<f64>);
impl Zipf {
    fn new(keys: u64, skew: f64) -> Zipf {
        let mut sum = 0.0;
        Zipf((0..keys).map(|n| { sum += ((n + 1) as f64).powf(-skew); sum }).collect())
    }
    fn rank(&self, part: f64) -> u64 {
        let at = part * self.0.last().unwrap();
        (self.0.partition_point(|sum| *sum <= at) as u64).min(self.0.len() as u64 - 1)
    }
}

#[test]
fn dump() {
    let only = std::env::var("ONLY").unwrap_or_default();
    for preset in [Preset::Thermocline, Preset::GlobalIndex, Preset::PmBlade, Preset::Leveled] {
        if !only.is_empty() && preset.name() != only { continue; }
        for skew in [0.0, 0.9] {
            for ratio in [1.0, 2.5, 5.0, 20.0] {
                let begun = std::time::Instant::now();
                let options = options(preset);
                let mut store = run::Store::new(&options, VALUE, 10e6);
                let keys = (ratio * PM as f64 / (VALUE + 16) as f64) as u64;
                store.load(keys);
                let loaded = begun.elapsed();
                let zipf = Zipf::new(keys, skew);
                let before = store.metrics();
                let writes = keys.max(16 * PM / (VALUE + 16));
                for part in 1..=4 {
                    for _ in 0..writes / 4 {
                        let rank = zipf.rank(store.draw());
                        // Scattered.
                        let n = rank * 1_000_003 % keys;
                        store.put(n);
                    }
                    let m = store.metrics();

                    let user = m.user_bytes - before.user_bytes;
                    println!("{},{skew},{ratio},{part},{user},{},{},{},{},{},{},{},{:.1?},{:.1?}", preset.name(),
                        m.ssd.tables_written - before.ssd.tables_written,
                        m.ssd.tables_read - before.ssd.tables_read,
                        m.pm.bytes_stored - before.pm.bytes_stored,
                        m.pm_tier.table_bytes, m.pm_tier.tables, m.flushes - before.flushes,
                        m.compaction.internal.jobs - before.compaction.internal.jobs, loaded, begun.elapsed());
                    if part == 4 { eprintln!("{} {skew} {ratio}: given up {} internal {:?} flushed {} {:?} {:?} {:?}", preset.name(), m.compaction.internal_given_up, m.compaction.internal, m.flushed_bytes, m.compaction.reasons, m.levels.iter().map(|l| (l.tables, l.bytes>>10)).collect::<Vec<_>>(), m.compaction.costs); }
                }
                store.close();
            }
        }
    }
}
