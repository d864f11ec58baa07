use thermocline_base::options::Options;
use thermocline_testkit::{Replay, Rng, seeds};

use super::{Cause, Debt, Delay, Due, Limits, Slope};
use crate::flush::{Dram, Sealed};
use crate::scans::Scans;

fn slope(rng: &mut Rng) -> Slope {
    let mut limits = || {
        let soft = rng.below(1000) as u64;
        let hard = soft + 1 + rng.below(1000) as u64;
        Limits { soft, hard }
    };
    let (pm, level0, pending) = (limits(), limits(), limits());
    let (disk, garbage) = (limits(), limits());
    Slope {
        pm,
        level0,
        pending,
        disk,
        garbage,
        delay_max: 1.0 + rng.below(5000) as f64,
    }
}

fn debt_of(debt: &mut Debt, cause: Cause) -> &mut u64 {
    match cause {
        Cause::PmFill => &mut debt.pm_bytes,
        Cause::Level0Tables => &mut debt.level0_tables,
        Cause::PendingBytes => &mut debt.pending_bytes,
        Cause::DiskRoom => &mut debt.disk_bytes,
        Cause::Garbage => &mut debt.garbage_bytes,
    }
}

fn random(rng: &mut Rng) -> Debt {
    let mut debt = Debt::default();
    for cause in Cause::ALL {
        *debt_of(&mut debt, cause) = rng.below(2500) as u64;
    }
    debt
}

fn per_byte(slope: &Slope, debt: &Debt) -> f64 {
    slope.delay(debt).map_or(0.0, |delay| delay.nanos_per_byte)
}

/// Along every debt, from nothing to far above its limit, whatever the others are.
#[test]
fn delay_is_monotone_continuous_and_bounded() {
    for seed in seeds(0..300) {
        let _replay = Replay::new("-p thermocline-policy delay_is_monotone", seed);
        let mut rng = Rng::new(seed);
        let slope = slope(&mut rng);
        slope.validate().unwrap();
        for cause in Cause::ALL {
            let mut debt = random(&mut rng);
            let Limits { soft, hard } = slope.limits(cause);
            // The cube is steepest at its end: three parts of the way in one.
            let step_max = slope.delay_max * 3.0 / (hard - soft) as f64 + 1e-9;
            let mut last = None;
            for amount in 0..2500 {
                *debt_of(&mut debt, cause) = amount;
                let delay = per_byte(&slope, &debt);
                assert!((0.0..=slope.delay_max).contains(&delay));
                let last = last.replace(delay).unwrap_or(delay);
                assert!(
                    delay >= last && delay - last <= step_max,
                    "{debt:?} {slope:?}"
                );
            }
        }
    }
}

#[test]
fn delay_begins_at_a_soft_limit_and_names_the_debt_that_asks_for_it() {
    for seed in seeds(0..2000) {
        let _replay = Replay::new("-p thermocline-policy delay_begins", seed);
        let mut rng = Rng::new(seed);
        let (slope, mut debt) = (slope(&mut rng), random(&mut rng));
        let above = |debt: &mut Debt, cause| *debt_of(debt, cause) > slope.limits(cause).soft;
        let any = Cause::ALL.iter().any(|cause| above(&mut debt, *cause));
        let delay = slope.delay(&debt);
        assert_eq!(delay.is_some(), any, "{debt:?} {slope:?}");
        if let Some(Delay { cause, .. }) = delay {
            assert!(above(&mut debt, cause));
            let mut alone = Debt::default();
            *debt_of(&mut alone, cause) = *debt_of(&mut debt, cause);
            assert_eq!(slope.delay(&alone), delay, "{debt:?} {slope:?}");
            let full = Cause::ALL
                .iter()
                .any(|c| *debt_of(&mut debt, *c) >= slope.limits(*c).hard);
            assert_eq!(
                delay.map(|d| d.nanos_per_byte) == Some(slope.delay_max),
                full
            );
        }
    }
}

#[test]
fn the_largest_numbers_overflow_nothing() {
    let slope = Slope::new(u64::MAX, 0, u64::MAX);
    slope.validate().unwrap();
    let debt = Debt {
        pm_bytes: u64::MAX,
        level0_tables: u64::MAX,
        pending_bytes: u64::MAX,
        disk_bytes: u64::MAX,
        garbage_bytes: u64::MAX,
    };
    let delay = slope.delay(&debt).unwrap();
    assert_eq!(delay.nanos_per_byte, slope.delay_max);
    assert_eq!(delay.nanos(1 << 20), 1000 << 20);
    assert_eq!(delay.nanos(u64::MAX), u64::MAX);
    // A store without any room is not divided by.
    assert!(Slope::new(0, 0, 0).validate().is_ok());
}

/// Whatever options say, work is due before anybody is held back; and the usual options leave the usual limits.
#[test]
fn nobody_is_held_back_before_work_is_due() {
    let pm_bytes = 1 << 30;
    let slope = Slope::new(pm_bytes, 1 << 30, 1 << 40);
    assert_eq!(slope.behind(pm_bytes, &Due::of(&Options::default())), slope);
    for level0_tables in [1, 4, 19, 20, 21, 40, 1000, 1 << 40] {
        for pm_percent in 0..=95 {
            let due = Due {
                level0_tables,
                pm_percent,
            };
            let slope = slope.behind(pm_bytes, &due);
            slope.validate().unwrap();
            let debt = Debt {
                pm_bytes: pm_bytes / 100 * pm_percent,
                level0_tables,
                ..Debt::default()
            };
            assert_eq!(slope.delay(&debt), None, "{due:?}");
        }
    }
}

/// Beside no tables nothing but the next memtable fills persistent memory further: whoever was held back there would be so for nothing.
#[test]
fn memtables_that_may_have_most_are_flushed_before_anybody_is_held_back() {
    let pm_bytes = 1 << 30;
    let usual = Slope::new(pm_bytes, 1 << 30, 1 << 40);
    for shape in ["tiered", "global-index", "immutables", "pm-tables", "ssd"] {
        for pm_percent in 1..=95 {
            let mut options = Options::default();
            options.set("level0.shape", shape).unwrap();
            options.flush.pm_percent = pm_percent;
            let slope = usual.behind(pm_bytes, &Due::of(&options));
            slope.validate().unwrap();
            for skips in [false, true] {
                let sealed = Sealed {
                    automatic: true,
                    memtables: 1,
                    memtables_due: 0,
                    bytes: 1,
                    taken_bytes: 0,
                    blob_bytes: 0,
                    blob_bytes_due: 1,
                    pm_bytes,
                    sealed_percent: options.sealed_percent(),
                    alone_percent: pm_percent,
                    tables: (shape == "tiered").then_some(0),
                    skips,
                    descriptors_free: 60,
                    dram: Dram {
                        used: 0,
                        limit: 1000,
                        percent: 60,
                        held_by_all: 0,
                        budget: 1000,
                    },
                    scans: Scans::default(),
                };
                let debt = Debt {
                    pm_bytes: sealed.plan().sealed_bytes_due,
                    ..Debt::default()
                };
                assert_eq!(slope.delay(&debt), None, "{shape}: {pm_percent} %");
            }
        }
    }
}

#[test]
fn limits_that_are_no_slope_are_refused() {
    let good = Slope::new(1 << 30, 1 << 30, 1 << 40);
    let equal = Limits { soft: 5, hard: 5 };
    let bad = [
        Slope { pm: equal, ..good },
        Slope {
            disk: equal,
            ..good
        },
        Slope {
            delay_max: 0.0,
            ..good
        },
        Slope {
            delay_max: f64::NAN,
            ..good
        },
    ];
    for slope in bad {
        assert!(slope.validate().is_err(), "{slope:?}");
    }
}
