//! Development.
use thermocline_base::options::*;
use thermocline_policy::simulate::*;
fn main() {
    let g = 1u64 << 30;
    let filled = std::env::args().nth(1).is_some();
    for (data, pm, preset) in [(512*g, 16*g, Preset::Thermocline), (512*g, 16*g, Preset::GlobalIndex),(512*g, 16*g, Preset::PmBlade),(512*g, 16*g, Preset::Leveled), (20*g, 4*g, Preset::Thermocline), (20*g, 4*g, Preset::PmBlade), (10240*g, 100*g, Preset::Thermocline),(10240*g, 100*g, Preset::GlobalIndex),(10240*g, 100*g, Preset::PmBlade),(10240*g, 100*g, Preset::Leveled)] {
        if !filled && data > 1000 * g { continue; }
        for skew in [0.0, 0.9] {
            let begun = std::time::Instant::now();
            let options = Setting::options(preset, pm, pm / 4);
            let region = options.region_bytes_max();
            let f = (region / 100 * options.sealed_percent()).clamp(options.memtable_bytes(), 48 * options.memtable_bytes());
            let (warm, user) = if filled { ((2 * region).max(6 * f), (3 * region).max(16 * f)) } else { (data / 5, (data / 5).max(4 * region)) };
            let s = Setting { options, data_bytes: data, record: Record { key_bytes: 16, value_bytes: 400 }, is_filled: filled,
                writes_per_s: 50e6, reads_per_s: 0.0, device_per_s: f64::INFINITY, skew, spread: Spread::Keys, warm_bytes: warm, user_bytes: user, jobs: 2 };
            let o = run(&s);
            println!("{} {} {preset:?} {skew}: {:.1?} wa {:.2} moved {:.2} pm {:.2} res {:.2} {:.2} felt {:.0} stall {:.1} dram {} flushes {} jobs {:?}", data / g, pm / g, begun.elapsed(), o.write_amplification(), o.moved_for_each(), o.pm_table_bytes / pm as f64, o.resident_keys, o.resident_writes, o.felt_max, o.stall_ns_max / 1e6, o.flushes_for_dram, o.flushes, o.jobs);
        }
    }
}
