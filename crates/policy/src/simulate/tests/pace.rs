//! Jobs that give way to clients: what that gains, and what it may cost.

use super::*;
use crate::tuning::{LEVEL0_HARD, LEVEL0_SOFT, PENDING_BASES_SOFT};

/// How much longer a write may wait where jobs give way, in nanoseconds: as long as one is delayed at most.
const LONGER_MAX: f64 = 10e6;

/// Written beside clients, so fast that background work needs this part of what they leave to one flush or job.
fn beside(setting: Setting, clients: f64, part: f64) -> Setting {
    let left = Setting {
        device_per_s: setting.device_per_s / (1.0 + clients),
        ..setting.clone()
    };
    Setting {
        writes_per_s: at_load(&left, part).writes_per_s,
        clients,
        ..setting
    }
}

/// The same with jobs that give way.
fn giving_way(setting: &Setting) -> Setting {
    let mut setting = setting.clone();
    setting.options.compaction.rate_adapts = true;
    setting
}

#[test]
fn jobs_are_slower_while_clients_read_and_as_before_while_none_does() {
    let busy = beside(setting(Preset::Leveled, 5.0, 0.0, 0.0), 4.0, 0.2);
    let before = run(&busy).jobs_per_s();
    let after = run(&giving_way(&busy)).jobs_per_s();
    assert!(after < 0.7 * before, "{after:.0} of {before:.0}");
    for preset in [Preset::Leveled, Preset::Thermocline] {
        let idle = setting(preset, 5.0, 0.0, 0.0);
        assert_eq!(run(&giving_way(&idle)), run(&idle), "{preset:?}");
    }
}

#[test]
fn what_waits_speeds_jobs_up_again() {
    let rate = |part: f64| {
        let busy = beside(setting(Preset::Leveled, 5.0, 0.0, 0.0), 4.0, part);
        run(&giving_way(&busy)).jobs_per_s()
    };
    let (little, much) = (rate(0.1), rate(0.6));
    assert!(little < much, "{little:.0} {much:.0}");
}

/// What jobs that give way keep level 0 below, in runs: what delays writers, where background work has time to spare. Where it has none,
/// writers are held back or level 0 comes most of the way to that even if no job gives way; then it may grow to the end of the slope.
fn runs_bound(at_once: &Outcome) -> u64 {
    let is_spare = at_once.held_ns <= 0.0 && at_once.level0_runs_max <= LEVEL0_SOFT * 3 / 4;
    match is_spare {
        true => LEVEL0_SOFT,
        false => LEVEL0_HARD,
    }
}

/// A load that was drawn as one of two fifths, and is more: writers are held back whether jobs give way or not. Jobs have worked at full
/// speed for ten seconds when level 0 comes to where it delays writers, too.
#[test]
fn level_0_is_bounded_where_nothing_that_jobs_do_would_be_enough() {
    let load = (
        2.312_414_774_933_468,
        1.062_663_457_665_998,
        Spread::Keys,
        228_012.254_138_828_8,
        1773,
    );
    let busy = beside(
        with(Preset::Thermocline, load),
        5.039_330_223_045_95,
        0.399_143_573_320_924_3,
    );
    let (before, after) = (run(&busy), run(&giving_way(&busy)));
    assert_eq!(runs_bound(&before), LEVEL0_HARD, "{before:?}");
    assert!(after.level0_runs_max > LEVEL0_SOFT, "{after:?}");
    assert!(after.level0_runs_max <= LEVEL0_HARD, "{after:?}");
}

proptest! {
    #![proptest_config(drawn(3))]

    #[test]
    fn no_write_waits_longer_for_jobs_that_give_way_and_debt_stays_bounded(
        preset in promising(),
        load in loads(),
        clients in 0.2f64..8.0,
        part in 0.1f64..0.6,
    ) {
        let at_once = beside(with(preset, load), clients, part);
        let giving = giving_way(&at_once);
        let (before, after) = (run(&at_once), run(&giving));
        let wait = before.wait_ns_max(BATCH) + LONGER_MAX;
        prop_assert!(after.wait_ns_max(BATCH) <= wait, "{:?} {:?} {:?}", giving, before, after);
        let runs = before.level0_runs_max.max(runs_bound(&before));
        prop_assert!(after.level0_runs_max <= runs, "{:?} {:?} {:?}", giving, before, after);
        let bases = PENDING_BASES_SOFT * giving.options.base_bytes();
        let pending = before.pending_bytes_max + bases;
        prop_assert!(after.pending_bytes_max <= pending, "{:?} {:?} {:?}", giving, before, after);
        prop_assert_eq!(after, run(&giving));
    }
}
