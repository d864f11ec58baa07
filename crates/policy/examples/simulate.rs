//! What modelled stores do, by data for each byte of persistent memory, skew and reads:
//! `cargo run --release -p thermocline-policy --features examples --example simulate`.

use thermocline_base::options::Preset;
use thermocline_policy::simulate::{Outcome, Record, Setting, Spread, run};

const PM_BYTES: u64 = 256 << 20;

fn main() {
    println!("data/pm  skew  reads/s     MB/s    wa  moved  in pm  ns/byte  stall ms  flushes");
    for (data_bytes, ratio) in [(1, "1"), (5, "5"), (20, "20"), (100, "100")] {
        for skew in [0.0, 0.9] {
            for reads_per_s in [0.0, 100_000.0] {
                let setting = Setting {
                    options: Setting::options(Preset::Thermocline, PM_BYTES, 4 * PM_BYTES),
                    data_bytes: data_bytes * PM_BYTES,
                    record: Record {
                        key_bytes: 16,
                        value_bytes: 184,
                    },
                    writes_per_s: 10e6,
                    reads_per_s,
                    scanned_per_s: 0.0,
                    device_per_s: 500e6,
                    skew,
                    spread: Spread::Keys,
                    is_filled: true,
                    warm_bytes: PM_BYTES,
                    user_bytes: 8 * PM_BYTES,
                    jobs: 2,
                    clients: 0.0,
                };
                // At seven tenths of what the device can carry, and one processor.
                let outcome = run(&setting);
                let device = setting.device_per_s / outcome.moved_for_each();
                let processor = 1e9 / outcome.processor_for_each();
                let writes_per_s = (0.7 * device.min(processor)).min(60e6);
                let setting = Setting {
                    writes_per_s,
                    ..setting
                };
                print(ratio, &setting, &run(&setting));
            }
        }
    }
}

fn print(ratio: &str, setting: &Setting, outcome: &Outcome) {
    println!(
        "{ratio:>7} {:5.1} {:8.0} {:8.1} {:5.2} {:6.2} {:6.2} {:8.0} {:9.1} {:8}",
        setting.skew,
        setting.reads_per_s,
        setting.writes_per_s / 1e6,
        outcome.write_amplification(),
        outcome.moved_for_each(),
        outcome.pm_table_bytes / PM_BYTES as f64,
        outcome.felt_max,
        outcome.stall_ns_max / 1e6,
        outcome.flushes
    );
}
