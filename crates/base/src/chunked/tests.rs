use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn check<T>(sequence: &Chunked<T>) {
    let lens: Vec<_> = sequence.chunks.iter().map(|c| c.len()).collect();
    assert!(
        lens.iter().all(|n| (1..=CHUNK_LEN_MAX).contains(n)),
        "{lens:?}"
    );
    assert_eq!(lens.iter().sum::<usize>(), sequence.len());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn it_does_what_a_sorted_vector_does_and_copies_stay_as_they_were(
        steps in prop::collection::vec((0u32..400, 0..10), 1..1200),
    ) {
        let mut sequence = Chunked::default();
        let mut model: Vec<u32> = Vec::new();
        let mut kept = Vec::new();
        for (n, (value, lot)) in steps.into_iter().enumerate() {
            let position = sequence.position(|item| *item < value);
            let at = model.partition_point(|item| *item < value);
            prop_assert_eq!(sequence.get(position), model.get(at));
            prop_assert_eq!(sequence.before(position), at.checked_sub(1).map(|at| &model[at]));
            prop_assert!(sequence.iter_from(position).eq(&model[at..]));
            prop_assert!(sequence.iter_from(position).rev().eq(model[at..].iter().rev()));
            // Grows first, shrinks then.
            if lot < if n < 600 { 7 } else { 3 } {
                sequence.insert(position, value);
                model.insert(at, value);
            } else {
                let removed = sequence.remove(position);
                prop_assert_eq!(removed, (at < model.len()).then(|| model.remove(at)));
            }
            check(&sequence);
            if n % 100 == 0 {
                let numbered = sequence.numbered();
                for (number, item) in model.iter().enumerate() {
                    let position = sequence.position(|other| other < item);
                    prop_assert_eq!(numbered.at(number), item);
                    // Of equal ones it is the place of the first.
                    let first = model.partition_point(|other| other < item);
                    prop_assert_eq!(numbered.number_of(position), first);
                }
                prop_assert_eq!(numbered.number_of(sequence.end()), model.len());
                kept.push((sequence.clone(), model.clone()));
            }
        }
        for (sequence, model) in &kept {
            prop_assert!(sequence.iter().eq(model));
        }
    }
}

#[test]
fn a_change_copies_one_chunk_and_loading_in_order_fills_them() {
    let mut sequence = Chunked::default();
    for n in 0..100_000 {
        sequence.insert(sequence.position(|item| *item < n), n);
    }
    check(&sequence);
    assert_eq!(sequence.chunks.len(), 100_000usize.div_ceil(CHUNK_LEN_MAX));
    let before = sequence.clone();
    assert_eq!(
        sequence.remove(sequence.position(|item| *item < 5000)),
        Some(5000)
    );
    *sequence
        .get_mut(sequence.position(|item| *item < 70_000))
        .unwrap() = 70_000;
    let (chunks, shared) = sequence.shared_chunks(&before);
    assert_eq!(shared, chunks - 2);
    assert_eq!(before.len(), 100_000);
    for _ in 0..sequence.len() {
        sequence
            .remove(sequence.position(|item| *item < 0))
            .unwrap();
        check(&sequence);
    }
    assert_eq!(sequence, Chunked::default());
}

/// A pair of a key and what is kept under it.
type Pair = (u32, u32);

/// How `after` differs from `before`, and how often a key was looked at for it.
fn differences(before: &Chunked<Pair>, after: &Chunked<Pair>) -> (Vec<[Option<Pair>; 2]>, usize) {
    let looked = Cell::new(0);
    let key_of = |pair: &Pair| {
        looked.set(looked.get() + 1);
        pair.0
    };
    let found = after.differences(before, key_of, |old, new| old == new);
    let found = found.map(|one| [one.before.copied(), one.after.copied()]);
    let found = found.collect();
    (found, looked.get())
}

/// The same, of maps.
fn model_differences(
    before: &BTreeMap<u32, u32>,
    after: &BTreeMap<u32, u32>,
) -> Vec<[Option<Pair>; 2]> {
    let keys: BTreeSet<u32> = before.keys().chain(after.keys()).copied().collect();
    let of = |map: &BTreeMap<u32, u32>, key: u32| map.get(&key).map(|value| (key, *value));
    let both = keys
        .into_iter()
        .map(|key| [of(before, key), of(after, key)]);
    both.filter(|[old, new]| old != new).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Keys come and go in bursts, so that chunks are split, joined and emptied between the copies that are compared.
    #[test]
    fn differences_are_those_of_maps(
        bursts in prop::collection::vec((0u32..4000, 1u32..400, 1usize..4, 0u32..4), 1..40),
    ) {
        let mut sequence: Chunked<Pair> = Chunked::default();
        let mut model: BTreeMap<u32, u32> = BTreeMap::new();
        let mut kept = vec![(sequence.clone(), model.clone())];
        for (n, (first, len, step, what)) in (0u32..).zip(bursts) {
            for key in (first..first + len).step_by(step) {
                match what {
                    0 => prop_assert_eq!(sequence.take(&key), model.remove(&key)),
                    1 if key % 2 == 0 => {
                        prop_assert_eq!(sequence.take(&key), model.remove(&key));
                    }
                    // A third of them is as it was.
                    _ => {
                        let value = if key % 3 == 0 { 0 } else { n };
                        prop_assert_eq!(sequence.set(key, value), model.insert(key, value));
                    }
                }
                prop_assert_eq!(sequence.find(&key), model.get(&key));
            }
            check(&sequence);
            let pairs = model.iter().map(|(key, value)| (*key, *value));
            prop_assert!(sequence.iter().copied().eq(pairs));
            kept.push((sequence.clone(), model.clone()));
        }
        for (before, old) in &kept {
            let (forwards, _) = differences(before, &sequence);
            prop_assert_eq!(forwards, model_differences(old, &model));
            let (backwards, _) = differences(&sequence, before);
            prop_assert_eq!(backwards, model_differences(&model, old));
        }
    }

    /// Where one item of many has changed, come or gone, few are looked at.
    #[test]
    fn to_find_one_difference_among_many_costs_a_chunk_or_two(
        key in 0u32..20_000,
        holes in 0u32..40,
    ) {
        let mut before: Chunked<Pair> = (0..10_000).map(|n| (2 * n, 0)).collect();
        // Chunks of all lengths.
        for hole in 0..holes * 50 {
            before.take(&(hole * 386 % 20_000));
        }
        let mut after = before.clone();
        let (none, looked) = differences(&before, &after);
        prop_assert!(none.is_empty() && looked == 0);
        after.set(key, 1);
        for (old, new) in [(&before, &after), (&after, &before)] {
            let (found, looked) = differences(old, new);
            prop_assert_eq!(found.len(), 1);
            // Two keys are compared for each item.
            prop_assert!(looked <= 2 * 2 * CHUNK_LEN_MAX, "{}", looked);
        }
        let mut shorter = before.clone();
        if shorter.take(&key).is_some() {
            let (found, looked) = differences(&before, &shorter);
            prop_assert_eq!(found, [[Some((key, 0)), None]]);
            prop_assert!(looked <= 2 * 2 * CHUNK_LEN_MAX, "{}", looked);
        }
    }
}

#[test]
fn places_lead_from_item_to_item() {
    let sequence: Chunked<usize> = (0..1000).collect();
    check(&sequence);
    let mut at = Position::default();
    for n in 0..1000 {
        assert_eq!(sequence.get(at), Some(&n));
        let next = sequence.place_after(at);
        assert_eq!(sequence.place_before(next), Some(at));
        at = next;
    }
    assert_eq!((at, sequence.place_after(at)), (sequence.end(), at));
    assert_eq!(sequence.place_before(Position::default()), None);
    let empty = Chunked::<usize>::default();
    assert_eq!(
        (empty.end(), empty.place_before(empty.end())),
        (Position::default(), None)
    );
    assert!(empty.is_empty() && Chunked::from_iter([1; 0]).is_empty());
}

#[test]
fn of_chunks_that_are_shared_nothing_is_made_again() {
    let mut sequence: Chunked<u32> = (0..1000).collect();
    let made = Cell::new(0);
    let sum = |items: &[u32]| {
        made.set(made.get() + 1);
        items.iter().sum::<u32>()
    };
    let before = sequence.folded(&Folded::default(), sum);
    assert_eq!(made.replace(0), 1000usize.div_ceil(CHUNK_LEN_MAX));
    sequence.remove(sequence.position(|item| *item < 500));
    let after = sequence.folded(&before, sum);
    assert_eq!(made.replace(0), 1);
    let anew = sequence.folded(&Folded::default(), sum);
    assert!(after.iter().eq(anew.iter()));
    assert_eq!(after.iter().sum::<u32>(), 499_500 - 500);
}
