//! What modelled stores do, by data for each byte of persistent memory, skew and reads:
//! `cargo run --release -p thermocline-policy --example simulate`.
//!
//! With `next TIMES` it asks so often what is next of a store of 100,000 tables; `time`, of two numbers of times, says how long one
//! takes.

use thermocline_base::options::Preset;
use thermocline_base::{CfId, FileId, KeyRange, SeqNo};
use thermocline_policy::pick::{Cursors, DeletedRanges, PickOptions, State, Table};
use thermocline_policy::simulate::{Outcome, Record, Setting, Spread, run};
use thermocline_policy::situation::{Charged, FamilyLevels, Levels, Situation};
use thermocline_policy::{Memory, next};

const PM_BYTES: u64 = 256 << 20;

fn main() {
    if std::env::args().nth(1).is_some_and(|what| what == "next") {
        let times = std::env::args().nth(2).and_then(|times| times.parse().ok());
        return ask(100_000, times.unwrap_or(100));
    }
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
                    device_per_s: 500e6,
                    skew,
                    spread: Spread::Keys,
                    is_filled: true,
                    warm_bytes: PM_BYTES,
                    user_bytes: 8 * PM_BYTES,
                    jobs: 2,
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

fn ask(tables: u32, times: u32) {
    let keys: Vec<[u8; 4]> = (0..=tables).map(u32::to_be_bytes).collect();
    let ranges = keys.windows(2).zip(1..);
    let table = |(pair, n): (&'_ [[u8; 4]], u64)| (pair[0], pair[1], n);
    let ranges: Vec<([u8; 4], [u8; 4], u64)> = ranges.map(table).collect();
    let last = ranges.iter().map(|(first, end, n)| Table {
        file: FileId(*n),
        range: KeyRange::until(first, end),
        bytes: 64 << 20,
        smallest_seqno: SeqNo(*n),
        largest_seqno: SeqNo(*n),
        entries: 1,
        deletes: 0,
        in_pm: false,
    });
    let levels = [Vec::new(), Vec::new(), last.collect()];
    let cursors = Cursors::default();
    let families = [FamilyLevels {
        family: CfId::DEFAULT,
        state: State {
            levels: &levels,
            running: &[],
        },
        running: &[],
        options: PickOptions {
            last_level: 2,
            ..PickOptions::default()
        },
        cursors: &cursors,
        contents: &[],
        deleted: DeletedRanges::default(),
    }];
    let levels = Levels {
        families: &families,
        level0: None,
        pm_files: &[],
        is_past_share: false,
        relief: None,
        is_disk_full: false,
        is_by_hand: false,
        internal_gave_up: false,
        refused: &[],
        charged: Charged::None,
        garbage: &[],
    };
    let situation = Situation {
        levels: Some(levels),
        ..Situation::default()
    };
    for _ in 0..times {
        assert!(!next(&situation, &mut Memory::default()).is_something());
    }
}
