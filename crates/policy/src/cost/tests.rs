//! The models against what they are to weigh, played out.

use thermocline_testkit::{Replay, Rng, seeds};

use super::*;
use crate::tuning::RATE_HALF_LIFE_NS;

fn model(form: Form) -> CostModel {
    CostModel {
        form,
        units: UnitCosts::default(),
        horizon: 10.0,
    }
}

fn number(rng: &mut Rng, below: usize) -> u64 {
    rng.below(below) as u64
}

fn partition(rng: &mut Rng) -> Partition {
    let writes = 1 + number(rng, 100_000);
    Partition {
        unsorted: number(rng, 20),
        records: writes + number(rng, 1_000_000),
        bytes: number(rng, 100 << 20),
        reads: number(rng, 300_000) as f64,
        writes,
        updates: number(rng, usize::try_from(writes).unwrap() + 1),
    }
}

/// More reads, more tables, fewer records: never against a merge.
#[test]
fn equation_1_grows_with_what_reads_save_and_falls_with_what_is_merged() {
    let (mut due, mut not) = (0, 0);
    for seed in seeds(0..2000) {
        let _replay = Replay::new("-p thermocline-policy equation_1_grows", seed);
        let mut rng = Rng::new(seed);
        let model = model(Form::Corrected);
        let is = partition(&mut rng);
        let decision = model.reads(&is);
        let better = [
            Partition {
                reads: is.reads * 2.0,
                ..is
            },
            Partition {
                unsorted: is.unsorted + 1,
                ..is
            },
            Partition {
                records: is.records / 2,
                ..is
            },
        ];
        for better in better {
            let other = model.reads(&better);
            assert!(other.gain - other.cost >= decision.gain - decision.cost);
            assert!(other.due >= decision.due, "{is:?} {better:?}");
        }
        // What it says is true: within the horizon reads save more than the merge costs.
        let saved = is.reads * model.horizon * is.unsorted as f64 / 2.0 * model.units.search;
        let spent = is.records as f64 * model.units.internal;
        assert!(!decision.due || saved > spent);
        assert!(decision.due || saved <= spent * GAIN_MARGIN * 1.000_001 || is.unsorted == 0);
        due += u32::from(decision.due);
        not += u32::from(!decision.due);
    }
    assert!(due.min(not) > 300 || seeds(0..2).len() == 1, "{due} {not}");
}

/// Why the printed form is not used: it does not see how much is merged.
#[test]
fn equation_1_in_print_does_not_look_at_the_records() {
    let small = Partition {
        unsorted: 8,
        records: 10,
        reads: 1000.0,
        ..Partition::default()
    };
    let large = Partition {
        records: 10_000_000,
        ..small
    };
    let printed = model(Form::Printed);
    assert_eq!(printed.reads(&small), printed.reads(&large));
    let corrected = model(Form::Corrected);
    assert!(corrected.reads(&small).due && !corrected.reads(&large).due);
}

/// More updates, more to drop; in print it is the other way.
#[test]
fn equation_2_grows_with_updates() {
    let with = |updates| Partition {
        unsorted: 4,
        records: 100_000,
        writes: 100_000,
        updates,
        ..Partition::default()
    };
    let learned = Corrected::default();
    let (few, many) = (with(1000), with(90_000));
    let corrected = model(Form::Corrected);
    assert!(!corrected.writes(&few, learned).due && corrected.writes(&many, learned).due);
    let printed = model(Form::Printed);
    assert!(printed.writes(&few, learned).due && !printed.writes(&many, learned).due);
    // A snapshot keeps what was overwritten: merges are seen to drop nothing.
    let mut learned = learned;
    for _ in 0..20 {
        learned.learn(90_000, 100);
    }
    assert!(!corrected.writes(&many, learned).due);
    // A large sorted run is read and written, too.
    let long = Partition {
        records: 10_000_000,
        ..many
    };
    assert!(!corrected.writes(&long, Corrected::default()).due);
}

/// A store whose reads swing about the point where both sides are equal.
#[test]
fn a_decision_near_its_edge_does_not_flap() {
    let model = model(Form::Corrected);
    let edge = Partition {
        unsorted: 8,
        records: 100_000,
        ..Partition::default()
    };
    // Gain and cost are equal.
    let reads = edge.records as f64 * model.units.internal
        / model.horizon
        / (edge.unsorted as f64 / 2.0 * model.units.search);
    for percent in 90..=110 {
        let swung = Partition {
            reads: reads * f64::from(percent) / 100.0,
            ..edge
        };
        assert!(!model.reads(&swung).due, "{percent} %");
        // A merge that was due takes its reason away.
        let merged = Partition {
            unsorted: 0,
            reads: reads * 100.0,
            ..edge
        };
        assert!(!model.reads(&merged).due);
    }
}

#[test]
fn algorithm_1_asks_equation_2_from_its_threshold_on() {
    let model = model(Form::Corrected);
    let thresholds = Thresholds::new(64 << 20, 4, 0, 0);
    let mut is = Partition {
        unsorted: 4,
        records: 100_000,
        writes: 100_000,
        updates: 90_000,
        bytes: thresholds.write - 1,
        ..Partition::default()
    };
    let learned = Corrected::default();
    let asked = model.internal(&is, learned, &thresholds);
    assert_eq!((asked.due(), asked.writes), (None, None));
    is.bytes += 1;
    let due = model.internal(&is, learned, &thresholds).due().unwrap();
    assert_eq!(due.equation, Equation::Writes);
    assert_eq!(
        due.to_string(),
        "internal: eq. 2, gain 270.000 ms, cost 100.000 ms"
    );
    is.reads = 1e6;
    let due = model.internal(&is, learned, &thresholds).due().unwrap();
    assert_eq!(due.equation, Equation::Reads);
}

#[test]
fn thresholds_stay_in_order_whatever_the_budget() {
    for seed in seeds(0..2000) {
        let _replay = Replay::new("-p thermocline-policy thresholds_stay_in_order", seed);
        let mut rng = Rng::new(seed);
        let budget = rng.next_u64() >> rng.below(64);
        let partitions = rng.below(65_536);
        let (reads, writes) = (rng.next_u64() >> rng.below(64), rng.next_u64());
        let is = Thresholds::new(budget, partitions, reads, writes);
        assert!(is.write <= is.major && is.keep <= is.major && is.major <= budget);
        let more = Thresholds::new(budget, partitions, reads, writes / 2);
        assert!(more.keep >= is.keep);
    }
}

/// The best choice of few, by trying all.
fn best(candidates: &[Candidate], keep: u64) -> f64 {
    let all = 0..1u32 << candidates.len();
    let sums = all.filter_map(|set| {
        let chosen = candidates
            .iter()
            .enumerate()
            .filter(|(n, _)| set >> n & 1 == 1);
        let chosen: Vec<_> = chosen.map(|(_, c)| c).collect();
        let bytes: u64 = chosen.iter().map(|c| c.bytes).sum();
        (bytes <= keep).then(|| chosen.iter().map(|c| c.reads).sum::<f64>())
    });
    sums.fold(0.0, f64::max)
}

#[test]
fn equation_3_keeps_nearly_as_many_reads_as_can_be_kept() {
    let mut exact = 0;
    for seed in seeds(0..500) {
        let _replay = Replay::new("-p thermocline-policy equation_3_keeps_nearly", seed);
        let mut rng = Rng::new(seed);
        let candidate = |rng: &mut Rng| Candidate {
            bytes: 1 + number(rng, 100),
            reads: number(rng, 1000) as f64,
            kept: false,
        };
        let len = 1 + rng.below(12);
        let candidates: Vec<_> = (0..len).map(|_| candidate(&mut rng)).collect();
        let room = number(&mut rng, 800);
        let stays = keep(&candidates, room);
        let chosen = candidates.iter().zip(&stays).filter(|(_, stays)| **stays);
        let (bytes, reads) = chosen.fold((0, 0.0), |(bytes, reads), (c, _)| {
            (bytes + c.bytes, reads + c.reads)
        });
        assert!(bytes <= room);
        let largest = candidates.iter().filter(|c| c.bytes <= room);
        let largest = largest.map(|c| c.reads).fold(0.0, f64::max);
        let best = best(&candidates, room);
        assert!(reads.max(largest) * 2.0 >= best, "{reads} of {best}");
        exact += u32::from(reads >= best);
        // Nothing that still fits is sent away, unless nobody reads it.
        let rest = candidates.iter().zip(&stays).filter(|(_, stays)| !**stays);
        assert!(
            rest.clone()
                .all(|(c, _)| c.reads == 0.0 || c.bytes > room - bytes)
        );
    }
    assert!(exact > 250 || seeds(0..2).len() == 1, "{exact}");
}

#[test]
fn what_stayed_is_not_exchanged_for_what_is_hardly_warmer() {
    let of = |reads, kept| Candidate {
        bytes: 10,
        reads,
        kept,
    };
    assert_eq!(
        keep(&[of(100.0, true), of(110.0, false)], 10),
        [true, false]
    );
    assert_eq!(
        keep(&[of(100.0, true), of(130.0, false)], 10),
        [false, true]
    );
    // Nor where both have decayed.
    assert_eq!(keep(&[of(1.0, true), of(1.1, false)], 10), [true, false]);
}

#[test]
fn rates_decay_split_and_join() {
    let counts = Counts {
        reads: 1000.0,
        writes: 500.0,
        updates: 100.0,
    };
    let mut rates = Rates::default();
    rates.add(5, counts);
    let (left, right) = rates.split(0.25);
    let (a, b) = (left.per_second(5), right.per_second(5));
    assert!((a.reads * 3.0 - b.reads).abs() < 1e-9);
    let joined = left.joined(right).per_second(5);
    let whole = rates.per_second(5);
    assert!((joined.reads - whole.reads).abs() < 1e-9);
    assert!((joined.updates - whole.updates).abs() < 1e-9);
    // Of different times.
    let mut later = Rates::default();
    later.add(5 + RATE_HALF_LIFE_NS, counts);
    let both = rates.joined(later).per_second(5 + RATE_HALF_LIFE_NS);
    assert!((both.writes - whole.writes * 1.5).abs() < 1e-9);
    // A clock that goes back decays nothing, and adds.
    later.add(0, counts);
    let twice = later.per_second(0).reads;
    assert!((twice - whole.reads * 2.0).abs() < 1e-9);
}

#[test]
fn units_follow_what_is_measured_and_not_a_few_steps() {
    let mut units = UnitCosts::default();
    let before = units;
    units.searched(0, 100);
    units.merged(5, 0);
    units.moved(1, 1_000_000_000);
    assert_eq!(
        (units.search, units.internal),
        (before.search, before.internal)
    );
    assert!(units.major < before.major * 10.0, "{}", units.major);
    for _ in 0..40 {
        units.searched(100_000, 25_000_000);
        units.moved(100_000, 700_000_000);
    }
    assert!((units.search - 250.0).abs() < 1.0 && (units.major - 7000.0).abs() < 10.0);
}

/// One merge during which the process was stopped would count for thousands of others.
#[test]
fn one_measurement_does_not_change_much_and_many_do() {
    let usual = UnitCosts::default();
    let mut units = usual;
    // A record takes a millisecond.
    units.merged(100_000, 100_000_000_000);
    assert!(units.internal > usual.internal && units.internal < 3.0 * usual.internal);
    for _ in 0..100 {
        units.merged(100_000, 100_000_000_000);
    }
    assert!((units.internal - 1e6).abs() < 1e3, "{}", units.internal);
    // And a nanosecond.
    units.merged(100_000, 100_000);
    assert!(units.internal > 8e5, "{}", units.internal);
    for _ in 0..200 {
        units.merged(100_000, 100_000);
    }
    assert!((units.internal - 1.0).abs() < 0.1, "{}", units.internal);
}
