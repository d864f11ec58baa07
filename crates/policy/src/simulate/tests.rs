//! What policy promises, of modelled stores.

mod apart;
mod flushes;
mod pace;
mod scans;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use thermocline_base::options::Preset;
use thermocline_testkit::explore::{explored, is_tried, side_by_side};

use super::run::run_in_rounds;
use super::*;

/// What is written at once.
const BATCH: u64 = 16 << 10;

/// The longest wait, in nanoseconds.
const WAIT_MAX: f64 = 10e6;

const PM_BYTES: u64 = 128 << 20;

fn setting(preset: Preset, ratio: f64, skew: f64, reads_per_s: f64) -> Setting {
    let data = PM_BYTES as f64 * ratio;
    Setting {
        options: Setting::options(preset, PM_BYTES, 4 * PM_BYTES),
        data_bytes: merge::whole(data),
        record: Record {
            key_bytes: 16,
            value_bytes: 400,
        },
        writes_per_s: 10e6,
        reads_per_s,
        scanned_per_s: 0.0,
        device_per_s: 500e6,
        skew,
        spread: Spread::Keys,
        is_filled: true,
        warm_bytes: 4 * PM_BYTES,
        user_bytes: merge::whole(data).max(1 << 30),
        jobs: 2,
        clients: 0.0,
    }
}

/// Written so fast that the device is used to this part, as reckoned from a run that is not held back, and one processor is, since
/// all that waits may be one job; but not faster than persistent memory is filled by a few threads.
fn at_load(setting: &Setting, part: f64) -> Setting {
    let outcome = run(setting);
    let device = setting.device_per_s / outcome.moved_for_each().max(0.1);
    let processors = 1e9 / outcome.processor_for_each().max(0.1);
    Setting {
        writes_per_s: (part * device.min(processors)).min(60e6),
        ..setting.clone()
    }
}

/// Preset, data for each byte of persistent memory, skew, and reads a second; write amplification at most, and the part
/// of persistent memory that tables take at least. Figures of the model, with no more than a fifth to spare: a change
/// that makes one worse is seen here.
type Expected = (Preset, f64, f64, f64, f64, f64);

const EXPECTED: [Expected; 35] = [
    (Preset::Thermocline, 1.0, 0.0, 0.0, 1.9, 0.00),
    (Preset::Thermocline, 1.0, 0.0, 1e5, 1.3, 0.34),
    (Preset::Thermocline, 1.0, 0.9, 0.0, 0.6, 0.34),
    (Preset::Thermocline, 2.5, 0.0, 0.0, 3.2, 0.00),
    (Preset::Thermocline, 2.5, 0.0, 1e5, 2.6, 0.35),
    (Preset::Thermocline, 2.5, 0.9, 0.0, 1.5, 0.34),
    (Preset::Thermocline, 5.0, 0.0, 0.0, 5.2, 0.00),
    (Preset::Thermocline, 5.0, 0.0, 1e5, 5.0, 0.39),
    (Preset::Thermocline, 5.0, 0.9, 0.0, 3.1, 0.35),
    (Preset::Thermocline, 20.0, 0.0, 0.0, 9.4, 0.00),
    (Preset::Thermocline, 20.0, 0.0, 1e5, 11.0, 0.36),
    (Preset::Thermocline, 20.0, 0.9, 0.0, 4.7, 0.30),
    (Preset::Thermocline, 100.0, 0.0, 0.0, 16.3, 0.00),
    (Preset::Thermocline, 100.0, 0.0, 1e5, 15.7, 0.36),
    (Preset::Thermocline, 100.0, 0.9, 0.0, 9.6, 0.31),
    (Preset::GlobalIndex, 1.0, 0.0, 0.0, 2.0, 0.00),
    (Preset::GlobalIndex, 1.0, 0.9, 0.0, 1.4, 0.00),
    (Preset::GlobalIndex, 5.0, 0.0, 0.0, 5.5, 0.00),
    (Preset::GlobalIndex, 5.0, 0.9, 0.0, 4.9, 0.00),
    (Preset::GlobalIndex, 20.0, 0.0, 0.0, 9.8, 0.00),
    (Preset::GlobalIndex, 20.0, 0.9, 0.0, 5.4, 0.00),
    (Preset::GlobalIndex, 100.0, 0.0, 0.0, 16.6, 0.00),
    (Preset::PmBlade, 1.0, 0.0, 0.0, 1.3, 0.41),
    (Preset::PmBlade, 1.0, 0.9, 0.0, 0.7, 0.39),
    (Preset::PmBlade, 5.0, 0.0, 0.0, 9.7, 0.38),
    (Preset::PmBlade, 5.0, 0.9, 0.0, 5.1, 0.41),
    (Preset::PmBlade, 20.0, 0.0, 0.0, 42.6, 0.38),
    (Preset::PmBlade, 20.0, 0.9, 0.0, 28.6, 0.29),
    (Preset::Leveled, 1.0, 0.0, 0.0, 2.8, 0.00),
    (Preset::Leveled, 1.0, 0.9, 0.0, 2.2, 0.00),
    (Preset::Leveled, 5.0, 0.0, 0.0, 9.6, 0.00),
    (Preset::Leveled, 5.0, 0.9, 0.0, 9.0, 0.00),
    (Preset::Leveled, 20.0, 0.0, 0.0, 13.4, 0.00),
    (Preset::Leveled, 20.0, 0.9, 0.0, 7.5, 0.00),
    (Preset::Leveled, 100.0, 0.0, 0.0, 18.4, 0.00),
];

#[test]
fn write_amplification_and_what_stays_by_data_for_persistent_memory() {
    // In a plain run every fifth line.
    let lines = EXPECTED.iter().enumerate();
    let lines = lines.filter(|(line, _)| is_tried(*line, 5));
    let lines: Vec<_> = lines.map(|(_, expected)| *expected).collect();
    // It comes last, and is one of the longest.
    side_by_side(&lines, |expected| {
        let &(preset, ratio, skew, reads, most, least) = expected;
        let outcome = run(&at_load(&setting(preset, ratio, skew, reads), 0.7));
        let written = outcome.write_amplification();
        let stays = outcome.pm_table_bytes / PM_BYTES as f64;
        assert!(written <= most, "{expected:?}: {written:.2}");
        assert!(stays >= least, "{expected:?}: {stays:.2}");
        assert!(outcome.skip_changes <= 2, "{expected:?}: {outcome:?}");
        // What `pm-blade` leaves for memtables is too little for that.
        if preset != Preset::PmBlade {
            let wait = outcome.wait_ns_max(BATCH);
            assert!(wait <= WAIT_MAX, "{expected:?}: {outcome:?}");
        }
    });
}

#[test]
fn a_device_that_is_too_slow_holds_writers_back_before_anything_is_full() {
    let setting = Setting {
        device_per_s: 20e6,
        writes_per_s: 60e6,
        // Later levels are behind as well.
        warm_bytes: 0,
        ..setting(Preset::Thermocline, 5.0, 0.0, 0.0)
    };
    let outcome = run(&setting);
    assert!(outcome.felt_max > 0.0, "{outcome:?}");
    assert!(outcome.delay_max <= 1000.0, "{outcome:?}");
    assert_eq!(outcome.cause, Some(crate::pressure::Cause::PmFill));
    assert!(outcome.written_per_s() < 60e6, "{outcome:?}");
}

/// With what preset `pm-blade` leaves for memtables the promise about waits cannot be kept: four fifths are for tables.
fn promising() -> impl Strategy<Value = Preset> {
    prop_oneof![
        3 => Just(Preset::Thermocline),
        1 => Just(Preset::GlobalIndex),
        1 => Just(Preset::Leveled),
    ]
}

fn any_spread() -> impl Strategy<Value = Spread> {
    prop_oneof![Just(Spread::Keys), Just(Spread::Ranges)]
}

/// Data for each byte of persistent memory, skew, spread, reads a second, bytes of values.
type Load = (f64, f64, Spread, f64, u64);

fn loads() -> impl Strategy<Value = Load> {
    let reads = prop_oneof![Just(0.0), 0.0f64..300_000.0];
    (0.5f64..16.0, 0.0f64..1.1, any_spread(), reads, 60u64..2000)
}

fn with(preset: Preset, (ratio, skew, spread, reads, value_bytes): Load) -> Setting {
    let setting = setting(preset, ratio, skew, reads);
    let key_bytes = setting.record.key_bytes;
    Setting {
        spread,
        record: Record {
            key_bytes,
            value_bytes,
        },
        ..setting
    }
}

/// Random loads: `part` of them in a plain run, ten where all is explored. They are the same ones each time, since what they are held
/// against are promises of a model, in which one load among a thousand is found that just misses one (decision 173);
/// `PROPTEST_RNG_SEED=n` draws others.
fn drawn(part: u64) -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: u32::try_from(explored(part, 10)).unwrap(),
        failure_persistence: None,
        rng_seed: match usual.rng_seed {
            RngSeed::Random => RngSeed::Fixed(17),
            asked @ RngSeed::Fixed(_) => asked,
        },
        ..usual
    }
}

/// A load that waited too long when memtables and tables had less of persistent memory, and flushes took more at once: the 197th that
/// was drawn.
#[test]
fn a_load_near_seventy_percent_does_not_wait_long() {
    let load = (
        8.485_581_598_180_888,
        0.944_048_541_599_912_3,
        Spread::Keys,
        237_050.121_120_458_3,
        946,
    );
    let setting = with(Preset::Thermocline, load);
    let outcome = run(&at_load(&setting, 0.642_252_709_373_331));
    assert!(outcome.wait_ns_max(BATCH) <= WAIT_MAX, "{outcome:?}");
}

proptest! {
    #![proptest_config(drawn(5))]

    #[test]
    fn no_write_waits_long_at_a_load_that_the_device_carries_and_nothing_flaps(
        preset in promising(),
        load in loads(),
        part in 0.2f64..0.7,
    ) {
        let setting = at_load(&with(preset, load), part);
        let outcome = run(&setting);
        prop_assert!(outcome.wait_ns_max(BATCH) <= WAIT_MAX, "{:?} {:?}", setting, outcome);
        prop_assert!(outcome.skip_changes <= 2 + outcome.flushes / 50, "{:?}", outcome);
        prop_assert_eq!(outcome, run(&setting));
    }

    #[test]
    fn write_amplification_is_bounded_by_data_for_persistent_memory_whatever_the_skew_and_the_mix(
        preset in promising(),
        load in loads(),
    ) {
        let setting = at_load(&with(preset, load), 0.7);
        let outcome = run(&setting);
        let most = amplification_max(load.0, &setting.record);
        prop_assert!(outcome.write_amplification() <= most, "{most} {outcome:?}");
        // What waits for a flush never has more than there is.
        let all = setting.options.region_bytes_max();
        prop_assert!(outcome.pm_bytes_max <= all, "{all} {outcome:?}");
    }

    #[test]
    fn more_persistent_memory_writes_no_more_to_the_ssd(load in loads()) {
        more_memory_writes_no_more(load)?;
    }
}

fn more_memory_writes_no_more(load: Load) -> Result<(), TestCaseError> {
    let small = at_load(&with(Preset::Thermocline, load), 0.5);
    let small = Setting {
        // A few large jobs do the work of the larger one.
        user_bytes: 2 * small.user_bytes,
        ..small
    };
    let large = Setting {
        options: Setting::options(Preset::Thermocline, 2 * PM_BYTES, 4 * PM_BYTES),
        ..small.clone()
    };
    let (small, large) = (run_in_rounds(&small), run_in_rounds(&large));
    // What is begun is not ended.
    let most = small.write_amplification() * 1.15 + 0.3;
    prop_assert!(large.write_amplification() <= most, "{small:?} {large:?}");
    Ok(())
}

/// Data just short of ten times the level between: the larger store had none, and each job wrote a tenth of all data for a hundredth.
#[test]
fn more_persistent_memory_writes_no_more_where_a_level_between_just_pays() {
    let load = (
        15.575_103_631_959_117,
        1.096_592_395_006_237,
        Spread::Keys,
        0.0,
        881,
    );
    more_memory_writes_no_more(load).unwrap();
}

/// The larger store has a dozen large jobs in that time, and with one more or one less it wrote 1.88 or 1.30 bytes a byte, beside 1.35 of the
/// smaller one: so whole rounds are counted.
#[test]
fn more_persistent_memory_writes_no_more_where_few_large_jobs_count() {
    let load = (
        12.664_152_227_619_706,
        1.054_068_259_436_070_2,
        Spread::Keys,
        0.0,
        222,
    );
    more_memory_writes_no_more(load).unwrap();
}

/// Two stores of a preset, one 256 times as large in everything: what their writes cost and how long they wait.
fn of_any_size(preset: Preset, ratio: f64, skew: f64) {
    let demand = |pm_bytes: u64, writes_per_s: f64| Demand {
        options: Setting::options(preset, pm_bytes, pm_bytes / 4),
        data_bytes: merge::whole(pm_bytes as f64 * ratio),
        record: Record {
            key_bytes: 16,
            value_bytes: 400,
        },
        writes_per_s,
        reads_per_s: 0.0,
        device_per_s: 1e9,
        skew,
        spread: Spread::Keys,
        processors: 2,
    };
    // Of the small one nobody asks how long its writes wait.
    let small = demand(4 << 30, 10e6);
    let ideal = small.ideal();
    let (device, processors) = small.rates_max(&ideal);
    let rate = 0.6 * device.min(processors);
    let large = forecast(&demand(1 << 40, rate));
    let (written, most) = (large.write_amplification, ideal.write_amplification());
    let what = format!(
        "{preset:?} {ratio} {skew}: {written:.2} of {most:.2}, {:?}",
        large.felt
    );
    assert!(written <= most * 1.1 + 0.2, "{what}");
    assert!(large.felt.wait_ns_max(BATCH) <= WAIT_MAX, "{what}");
}

#[test]
fn a_store_with_a_terabyte_of_persistent_memory_writes_as_one_with_a_few_gigabytes() {
    let ratios = [5.0, 20.0, 1.0, 2.5, 100.0];
    let loads = ratios
        .iter()
        .flat_map(|ratio| [(*ratio, 0.0), (*ratio, 0.9)]);
    let presets = [Preset::Thermocline, Preset::GlobalIndex];
    let all = loads.flat_map(|load| presets.map(|preset| (preset, load)));
    let lines = all.enumerate().filter(|(line, _)| is_tried(*line, 7));
    let lines: Vec<_> = lines.map(|(_, load)| load).collect();
    // It is the longest, and would be the last one.
    side_by_side(&lines, |&(preset, (ratio, skew))| {
        of_any_size(preset, ratio, skew);
    });
}

/// Each flush writes what it has, and what that overlaps of the last level, until that is so large that there is one between; the
/// oftener the more of persistent memory records take; and a record may take more in a file, too.
fn amplification_max(ratio: f64, record: &Record) -> f64 {
    let larger = record.in_memtable().max(record.in_file()) as f64 / record.user() as f64;
    (2.0 + 1.2 * ratio).min(20.0) * larger
}

/// Whether so many bytes end a flush sooner or later must not decide what is promised: level 0 is compacted once in four flushes.
#[test]
fn a_few_bytes_of_persistent_memory_change_no_forecast() {
    let written = |pm_bytes: u64| {
        let demand = Demand {
            options: Setting::options(Preset::Thermocline, pm_bytes, 429_496_729),
            data_bytes: 32 << 30,
            record: Record {
                key_bytes: 16,
                value_bytes: 400,
            },
            writes_per_s: 50e6,
            reads_per_s: 0.0,
            device_per_s: 1e9,
            skew: 0.0,
            spread: Spread::Keys,
            processors: 2,
        };
        demand.ideal().write_amplification()
    };
    let (one, other) = (written(1_717_986_918), written(1_717_986_944));
    assert!((one / other - 1.0).abs() < 0.02, "{one} {other}");
}
