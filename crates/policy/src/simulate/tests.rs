//! What policy promises, of modelled stores.

use proptest::prelude::*;

use super::*;

/// What is written at once.
const BATCH: u64 = 16 << 10;

/// The longest wait, in nanoseconds.
const WAIT_MAX: f64 = 10e6;

const PM_BYTES: u64 = 128 << 20;

fn setting(ratio: f64, skew: f64, reads_per_s: f64) -> Setting {
    let data = PM_BYTES as f64 * ratio;
    Setting {
        data_bytes: merge::whole(data),
        pm_bytes: PM_BYTES,
        record_bytes: 200,
        writes_per_s: 10e6,
        reads_per_s,
        device_per_s: 500e6,
        skew,
        user_bytes: merge::whole(data).max(1 << 30),
        jobs: 2,
    }
}

/// Written so fast that the device is used to this part, as reckoned from a run that is not held back; but not faster than
/// persistent memory is filled by a few threads.
fn at_load(setting: &Setting, part: f64) -> Setting {
    let moved = run(setting).moved_for_each();
    let writes_per_s = (setting.device_per_s * part / moved.max(0.1)).min(60e6);
    Setting {
        writes_per_s,
        ..*setting
    }
}

/// Write amplification at most, and the part of persistent memory that tables take at least, by data for each byte of it,
/// skew and reads a second. Figures of the model, with a fifth to spare: who makes one worse sees it here.
const EXPECTED: [(f64, f64, f64, f64, f64); 15] = [
    (1.0, 0.0, 0.0, 1.4, 0.02),
    (1.0, 0.0, 1e5, 1.3, 0.30),
    (1.0, 0.9, 0.0, 0.7, 0.25),
    (2.5, 0.0, 0.0, 2.3, 0.02),
    (2.5, 0.0, 1e5, 2.8, 0.24),
    (2.5, 0.9, 0.0, 2.1, 0.26),
    (5.0, 0.0, 0.0, 3.5, 0.02),
    (5.0, 0.0, 1e5, 3.3, 0.26),
    (5.0, 0.9, 0.0, 3.2, 0.30),
    (20.0, 0.0, 0.0, 8.6, 0.0),
    (20.0, 0.0, 1e5, 8.5, 0.32),
    (20.0, 0.9, 0.0, 5.7, 0.0),
    (100.0, 0.0, 0.0, 12.6, 0.0),
    (100.0, 0.0, 1e5, 12.8, 0.33),
    (100.0, 0.9, 0.0, 10.4, 0.0),
];

#[test]
fn write_amplification_and_what_stays_by_data_for_persistent_memory() {
    for (ratio, skew, reads, most, least) in EXPECTED {
        let setting = at_load(&setting(ratio, skew, reads), 0.7);
        let outcome = run(&setting);
        let written = outcome.write_amplification();
        let stays = outcome.pm_table_bytes / PM_BYTES as f64;
        assert!(written <= most, "{ratio} {skew} {reads}: {written:.2}");
        assert!(stays >= least, "{ratio} {skew} {reads}: {stays:.2}");
        assert!(
            outcome.skip_changes <= 2,
            "{ratio} {skew} {reads}: {outcome:?}"
        );
        assert!(outcome.wait_ns_max(BATCH) <= WAIT_MAX, "{outcome:?}");
    }
}

#[test]
fn a_device_that_is_too_slow_holds_writers_back_before_anything_is_full() {
    let setting = Setting {
        device_per_s: 20e6,
        writes_per_s: 60e6,
        ..setting(5.0, 0.0, 0.0)
    };
    let outcome = run(&setting);
    assert!(outcome.felt_max > 0.0, "{outcome:?}");
    assert!(outcome.delay_max <= 1000.0, "{outcome:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_write_waits_long_at_a_load_that_the_device_carries_and_nothing_flaps(
        ratio in 0.5f64..16.0,
        skew in 0.0f64..1.1,
        reads in prop_oneof![Just(0.0), 0.0f64..300_000.0],
        part in 0.2f64..0.7,
    ) {
        let setting = at_load(&setting(ratio, skew, reads), part);
        let outcome = run(&setting);
        prop_assert!(outcome.wait_ns_max(BATCH) <= WAIT_MAX, "{:?} {:?}", setting, outcome);
        prop_assert!(outcome.skip_changes <= 2 + outcome.flushes / 50, "{:?}", outcome);
        prop_assert_eq!(outcome, run(&setting));
    }
}
