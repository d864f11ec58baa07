use thermocline_base::merge::{Append, Counter};
use thermocline_base::planted::plant;
use thermocline_base::{FileId, KeyRange};

use super::*;

const KEY: &[u8] = b"k";

/// A put, an operand, a delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Write {
    Put(u64),
    Add(u64),
    Delete,
}

use Write::{Add, Delete, Put};

fn folding(readers: &[u64], below: bool) -> Folding {
    let moments = Moments::new(readers.iter().map(|&r| SeqNo(r)).collect(), SeqNo(1000));
    let ranges = below.then(|| KeyRange::inclusive(KEY, KEY));
    Folding::new(Arc::new(Counter), moments, RangesBelow::new(ranges))
}

/// What is left of these writes, newest first.
fn left(readers: &[u64], below: bool, writes: &[(u64, Write)]) -> Vec<(u64, Write)> {
    let mut folding = folding(readers, below);
    for (seqno, write) in writes {
        let (kind, bytes) = match write {
            Put(n) => (Kind::Put, n.to_le_bytes().to_vec()),
            Add(n) => (Kind::Merge, n.to_le_bytes().to_vec()),
            Delete => (Kind::Delete, Vec::new()),
        };
        assert!(folding.takes(KEY, kind));
        let (user_key, seqno) = (KEY, SeqNo(*seqno));
        folding.take(
            Head {
                user_key,
                seqno,
                kind,
            },
            Value::Inline(&bytes),
        );
    }
    assert!(!folding.is_behind(KEY) && folding.is_behind(b"l"));
    let folded = folding.fold();
    let (gone, left) = (folded.gone, folded.entries.len() as u64);
    assert_eq!(gone + left, writes.len() as u64);
    let told = |entry: &Entry| {
        let number = || u64::from_le_bytes(entry.as_ref().try_into().unwrap());
        let write = match entry.kind {
            Kind::Put => Put(number()),
            Kind::Merge => Add(number()),
            _ => Delete,
        };
        (entry.seqno.0, write)
    };
    folded.entries.iter().map(told).collect()
}

#[test]
fn operands_that_nobody_reads_between_become_one_entry() {
    for (readers, below, writes, expected) in [
        (
            &[][..],
            true,
            &[(9, Add(1)), (7, Add(2))][..],
            &[(9, Add(3))][..],
        ),
        (&[], false, &[(9, Add(1)), (7, Add(2))], &[(9, Put(3))]),
        (
            &[],
            true,
            &[(9, Add(1)), (7, Add(2)), (3, Put(4))],
            &[(9, Put(7))],
        ),
        (&[], true, &[(9, Add(1)), (3, Delete)], &[(9, Put(1))]),
        // Somebody reads at 7, or at 8: the newest stays alone.
        (
            &[7],
            true,
            &[(9, Add(1)), (7, Add(2)), (3, Put(4))],
            &[(9, Add(1)), (7, Put(6))],
        ),
        (
            &[8],
            true,
            &[(9, Add(1)), (7, Add(2)), (3, Put(4))],
            &[(9, Add(1)), (7, Put(6))],
        ),
        // Before 7 a reader does not see 7.
        (
            &[6],
            true,
            &[(9, Add(1)), (7, Add(2)), (3, Put(4))],
            &[(9, Add(3)), (3, Put(4))],
        ),
        (
            &[6],
            false,
            &[(9, Add(1)), (7, Add(2)), (3, Add(4))],
            &[(9, Add(3)), (3, Put(4))],
        ),
        (
            &[6],
            true,
            &[(9, Add(1)), (3, Delete), (2, Put(4))],
            &[(9, Add(1)), (3, Delete), (2, Put(4))],
        ),
        // At 9 or later a reader sees all.
        (
            &[9],
            true,
            &[(9, Add(1)), (7, Add(2)), (3, Put(4))],
            &[(9, Put(7))],
        ),
    ] {
        assert_eq!(
            left(readers, below, writes),
            expected,
            "{readers:?} {below} {writes:?}"
        );
    }
}

/// What lies in a blob file is not at hand: it is folded with nothing.
#[test]
fn an_operand_in_a_blob_file_stays_as_it_is() {
    let blob = BlobRef {
        file: FileId(9),
        offset: 64,
        len: 8,
    };
    let [one, two, four] = [1u64, 2, 4].map(u64::to_le_bytes);
    let mut folding = folding(&[], true);
    for (seqno, value) in [
        (9u64, Value::Inline(&one[..])),
        (7, Value::Blob(blob)),
        (5, Value::Inline(&two[..])),
        (3, Value::Inline(&four[..])),
    ] {
        let head = Head {
            user_key: KEY,
            seqno: SeqNo(seqno),
            kind: Kind::Merge,
        };
        folding.take(head, value);
    }
    let folded = folding.fold();
    let left = folded.entries.iter();
    let left: Vec<_> = left
        .map(|entry| (entry.seqno.0, entry.kind, entry.value.as_value()))
        .collect();
    let six = 6u64.to_le_bytes();
    let expected = [
        (9u64, Value::Inline(&one[..])),
        (7, Value::Blob(blob)),
        (5, Value::Inline(&six[..])),
    ];
    assert_eq!(
        left,
        expected.map(|(seqno, value)| (seqno, Kind::Merge, value))
    );
    assert_eq!(folded.gone, 1);
}

/// Whatever is folded, a reader at any moment that counts sees what it saw before.
#[test]
fn every_reader_sees_what_he_saw() {
    assert_eq!(first_difference(), None);
    // And a fold across the moment of a reader is seen.
    let _planted = plant(Bug::FoldForgetsReaders);
    assert!(first_difference().is_some());
}

fn first_difference() -> Option<String> {
    let value_at = |writes: &[(u64, Write)], moment: u64, below: Option<u64>| {
        let mut sum = 0;
        for (_, write) in writes.iter().filter(|(seqno, _)| *seqno <= moment) {
            match write {
                Add(n) => sum += n,
                Put(n) => return Some(sum + n),
                Delete => return (sum > 0).then_some(sum),
            }
        }
        below.map(|below| below + sum).or((sum > 0).then_some(sum))
    };
    // Each write of 4 is one of four kinds, or is not there; each of 5 moments is read at or not.
    for kinds in 0..1u64 << 8 {
        let kind = |n: u64| kinds >> (2 * n) & 3;
        let writes = (0..4).rev().filter_map(|n| {
            let write = match kind(n) {
                0 => return None,
                1 => Put(10 << n),
                2 => Delete,
                _ => Add(1 << n),
            };
            Some((2 * n + 2, write))
        });
        let writes: Vec<(u64, Write)> = writes.collect();
        // What comes before the first operand is written without it.
        let first = writes.iter().position(|(_, write)| matches!(write, Add(_)));
        let Some(first) = first else { continue };
        for readers in 0..1u64 << 9 {
            let readers: Vec<u64> = (1..10).filter(|n| readers >> (n - 1) & 1 == 1).collect();
            for below in [None, Some(1000)] {
                let mut after = writes[..first].to_vec();
                after.extend(left(&readers, below.is_some(), &writes[first..]));
                for &moment in readers.iter().chain(&[1000]) {
                    let (was, is) = (
                        value_at(&writes, moment, below),
                        value_at(&after, moment, below),
                    );
                    if was != is {
                        let told = format!("{writes:?} {after:?}, {readers:?} {below:?}");
                        return Some(format!("at {moment}: {was:?}, {is:?}: {told}"));
                    }
                }
            }
        }
    }
    None
}

#[test]
fn what_cannot_be_folded_stays_as_it_was() {
    // A base that is no number, one in a blob file, and a value that would be too long.
    let blob = BlobRef {
        file: FileId(1),
        offset: 64,
        len: 3,
    };
    let long = vec![b'a'; VALUE_INLINE_MAX - 3];
    for (operator, base, operand) in [
        (
            Arc::new(Counter) as Arc<dyn MergeOperator>,
            Value::Inline(b"three"),
            &[1, 0, 0, 0, 0, 0, 0, 0][..],
        ),
        (Arc::new(Append::new("")), Value::Blob(blob), b"b"),
        (Arc::new(Append::new("")), Value::Inline(&long), b"bcde"),
    ] {
        let moments = Moments::new(vec![], SeqNo(1000));
        let mut folding = Folding::new(operator, moments, RangesBelow::default());
        let head = |seqno, kind| Head {
            user_key: KEY,
            seqno: SeqNo(seqno),
            kind,
        };
        folding.take(head(9, Kind::Merge), Value::Inline(operand));
        folding.take(head(3, Kind::Put), base);
        let folded = folding.fold();
        let kinds: Vec<Kind> = folded.entries.iter().map(|entry| entry.kind).collect();
        assert_eq!(kinds, [Kind::Merge, Kind::Put]);
        assert_eq!(folded.entries[0].as_ref(), operand);
        assert_eq!(folded.entries[1].value.as_value(), base);
    }
}

#[test]
fn many_operands_take_little_memory() {
    let mut folding = folding(&[5000, 3], true);
    for seqno in (1..=10_000).rev() {
        let head = Head {
            user_key: KEY,
            seqno: SeqNo(seqno),
            kind: Kind::Merge,
        };
        folding.take(head, Value::Inline(&1u64.to_le_bytes()));
        // Horizon 1000: above that everybody may read anywhere, so those stay.
        if seqno < 1000 {
            assert!(
                folding.memory() < 64 * 2 * 9_100 * 2,
                "{}",
                folding.memory()
            );
        }
    }
    let folded = folding.fold();
    let sum: u64 = folded
        .entries
        .iter()
        .map(|entry| u64::from_le_bytes(entry.as_ref().try_into().unwrap()))
        .sum();
    assert_eq!(sum, 10_000);
    assert!(folding.fold().entries.is_empty());
}
