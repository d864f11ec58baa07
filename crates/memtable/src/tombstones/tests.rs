//! Against a list of all tombstones that is searched from end to end.

use std::sync::Arc;

use thermocline_base::budget::{Account, Budget};
use thermocline_testkit::Rng;

use super::*;
use crate::fixture::Registered;

type Owned = (Vec<u8>, Option<Vec<u8>>, SeqNo);

fn keys() -> Vec<Vec<u8>> {
    let letters = [b'a', b'b', b'c', b'd'];
    let pairs = letters.iter().flat_map(|a| letters.map(|b| vec![*a, b]));
    let ones = letters.iter().map(|a| vec![*a]);
    let mut keys: Vec<_> = [vec![]].into_iter().chain(ones).chain(pairs).collect();
    keys.sort();
    keys
}

fn random(rng: &mut Rng, seqno: u64) -> Owned {
    let keys = keys();
    loop {
        let start = keys[rng.below(keys.len())].clone();
        let end = keys.get(rng.below(keys.len() + 1)).cloned();
        if end.as_ref().is_none_or(|end| start < *end) {
            return (start, end, SeqNo(seqno));
        }
    }
}

fn covers((start, end, _): &Owned, key: &[u8]) -> bool {
    &start[..] <= key && end.as_ref().is_none_or(|end| key < &end[..])
}

fn newest(all: &[Owned], key: &[u8], at: u64) -> Option<SeqNo> {
    let seen = all.iter().filter(|t| covers(t, key) && t.2.0 <= at);
    seen.map(|t| t.2).max()
}

fn set(account: Option<&Arc<Account>>) -> (Tombstones, Arc<Ledger>) {
    let ledger = account.map_or_else(Arc::default, Ledger::charged_to);
    (Tombstones::new(ledger.clone(), 7), ledger)
}

fn insert(set: &Tombstones, (start, end, seqno): &Owned, moments: &[u64]) {
    let moments = moments.iter().map(|&m| SeqNo(m)).collect();
    set.insert(start, end.as_deref(), *seqno, || Registered(moments))
        .unwrap();
}

/// What a cover says of every key and fragment, at one moment.
fn check_cover(set: &Tombstones, all: &[Owned], at: u64) {
    let keys = keys();
    // What is wanted is asked for often.
    let wanted: Vec<_> = keys.iter().map(|key| (key, newest(all, key, at))).collect();
    let cover = set.as_of(SeqNo(at)).unwrap_or_default();
    for &(key, expected) in &wanted {
        let list = set.list();
        assert_eq!(set.newest_over(&list, key, SeqNo(at)), expected, "{at}");
        assert_eq!(cover.newest_over(key), expected);
        let fragment = cover.fragment(key);
        assert_eq!(fragment.over, expected);
        let within = |key: &[u8]| fragment.start <= key && fragment.end.is_none_or(|end| key < end);
        assert!(within(key));
        let like = wanted.iter().filter(|(other, _)| within(other));
        like.for_each(|(_, over)| assert_eq!(*over, expected));
        if expected.is_some() {
            let mut rest = wanted.iter().filter(|(other, _)| *other > key);
            let until = rest.find(|(_, over)| over.is_none());
            assert_eq!(cover.covered_until(key), until.map(|(key, _)| &key[..]));
            let mut before = wanted.iter().rev().filter(|(other, _)| *other <= key);
            let uncovered = before.find(|(_, over)| over.is_none());
            let (behind, _) = wanted
                .iter()
                .find(|(k, _)| uncovered.is_none_or(|(u, _)| k > u))
                .unwrap();
            assert_eq!(cover.covered_from(key), &behind[..]);
        }
    }
    let covered: Vec<_> = cover.fragments().collect();
    for pair in covered.windows(2) {
        assert!(pair[0].end.unwrap() <= pair[1].start);
    }
    let mut of_keys = wanted.iter().filter(|(_, over)| over.is_some());
    assert!(of_keys.all(|(key, over)| {
        covered
            .iter()
            .any(|f| f.over == *over && f.start <= &key[..])
    }));
}

#[test]
fn every_kept_moment_sees_the_newest_tombstone_over_each_key() {
    let mut rng = Rng::new(3);
    let mut kept = 0;
    for round in 0..300 {
        let (set, _) = set(None);
        let mut all: Vec<Owned> = Vec::new();
        let mut readers: Vec<u64> = Vec::new();
        let mut seqno = 1;
        for _ in 0..rng.below(20) {
            // A few groups, which enter in any order: their ends are moments, and so is what is visible.
            let groups = 1 + rng.below(3);
            let visible = seqno - 1;
            let mut due: Vec<Vec<Owned>> = Vec::new();
            let mut ends = Vec::new();
            for _ in 0..groups {
                let len = 1 + rng.below(3) as u64;
                due.push((0..len).map(|n| random(&mut rng, seqno + n)).collect());
                seqno += len;
                ends.push(seqno - 1);
            }
            let open = ends.clone();
            while !due.is_empty() {
                let group = due.remove(rng.below(due.len()));
                for tombstone in group {
                    let mut moments = [&readers[..], &open[..], &[visible]].concat();
                    moments.sort_unstable();
                    insert(&set, &tombstone, &moments);
                    all.push(tombstone);
                }
            }
            if rng.below(2) == 0 {
                readers.push(ends[rng.below(ends.len())]);
            }
            if rng.below(4) == 0 && !readers.is_empty() {
                readers.swap_remove(rng.below(readers.len()));
            }
            check_cover(&set, &all, seqno);
            ends.iter()
                .chain(&readers)
                .for_each(|&at| check_cover(&set, &all, at));
        }
        kept = kept.max(set.list().versions.len());
        assert!(set.list().versions.len() <= readers.len() + 5, "{round}");
    }
    assert!(kept > 3);
}

#[test]
fn a_staged_set_counts_from_its_base() {
    let (mut set, _) = set(None);
    let all = [
        (b"a".to_vec(), Some(b"c".to_vec()), 1),
        (b"b".to_vec(), None, 3),
    ];
    let all = all.map(|(start, end, seqno)| (start, end, SeqNo(seqno)));
    all.iter()
        .for_each(|tombstone| insert(&set, tombstone, &[1]));
    set.adopt(SeqNo(100));
    let adopted: Vec<Owned> = all.map(|(s, e, seqno)| (s, e, seqno.plus(99))).to_vec();
    for at in [99, 100, 101, 102, 500] {
        check_cover(&set, &adopted, at);
    }
    assert_eq!(set.oldest_over(b"b", SeqNo(99)), Some(SeqNo(100)));
    assert_eq!(set.oldest_over(b"b", SeqNo(100)), Some(SeqNo(102)));
    let versions = set.versions();
    assert_eq!(versions[0].newest_over(b"b"), Some(SeqNo(100)));
}

/// However they overlap, what is kept is linear, paths are short, promises hold, and all of it goes back.
#[test]
fn thousands_of_tombstones_take_what_was_promised_and_no_more() {
    const N: u64 = 5_000;
    for (shape, reads) in [("nested", false), ("side by side", true), ("random", true)] {
        let budget = Budget::new(u64::MAX);
        let account = Account::new(budget.clone(), u64::MAX);
        account.opened();
        let (set, ledger) = set(Some(&account));
        let mut rng = Rng::new(9);
        let mut readers = Vec::new();
        for n in 1..=N {
            let (start, end) = match shape {
                "nested" => (n, 2 * N - n),
                "side by side" => (2 * n, 2 * n + 1),
                _ => (rng.below(1000) as u64, 1000 + rng.below(1000) as u64),
            };
            let (start, end) = (start.to_be_bytes(), end.to_be_bytes());
            let promised = bound(&ledger, 1, 16, readers.len() + 2);
            account
                .promise(
                    account.used() + promised,
                    thermocline_base::budget::Spare::Use,
                )
                .unwrap();
            ledger.promise(promised).unwrap();
            let moments = Registered(readers.iter().copied().chain([SeqNo(n - 1)]).collect());
            set.insert(&start, Some(&end), SeqNo(n), || moments)
                .unwrap();
            ledger.fulfil(promised);
            assert!(ledger.used() <= ledger.held());
            if reads && n.is_multiple_of(100) && n <= 2000 {
                readers.push(SeqNo(n));
            }
        }
        assert_eq!(account.overdrawn(), 0, "{shape}");
        let boundaries = 2 * N + 1;
        let nodes = boundaries * (NODE_BYTES + cover::BOUNDARY_BYTES + 8);
        let of_readers = 4096 + readers.len() as u64 * 100 * 2 * PATH_BYTES / 4;
        assert!(
            ledger.used() <= nodes + of_readers,
            "{shape}: {}",
            ledger.used()
        );
        let cover = set.as_of(SeqNo(N)).unwrap();
        assert!(cover.depth() <= 64, "{shape}: {}", cover.depth());
        drop((set, cover, ledger));
        assert_eq!(account.used(), 0, "{shape}");
    }
}
