//! Every small history, and many large ones, against an oracle that reads every key at every moment
//! before and after. A plain run has every fifth of those that are not the smallest.

use thermocline_base::{KeyRange, Kind, RangeTombstone, SeqNo};
use thermocline_testkit::explore::{explored, is_tried, one_in};
use thermocline_testkit::{Replay, Rng, seeds};

use super::{Below, Decision, Moments, RangesBelow, Retain};
use crate::Head;

/// Keys are single letters from 'a' on.
type Key = u8;

/// A write: to one key, or a delete of all from one up to before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Write {
    Put(Key),
    Delete(Key),
    Merge(Key),
    Range(Key, Key),
}

use Write::{Delete, Merge, Put, Range};

impl Write {
    fn is_to(self, key: Key) -> bool {
        match self {
            Put(to) | Delete(to) | Merge(to) => to == key,
            Range(start, end) => (start..end).contains(&key),
        }
    }
}

/// Writes by their seqnos.
type History = Vec<(u64, Write)>;

/// What a read finds: the operands' seqnos, and the put's.
fn read(history: &[(u64, Write)], key: Key, moment: u64) -> (Vec<u64>, Option<u64>) {
    let mut seen: Vec<_> = history
        .iter()
        .filter(|(seqno, write)| *seqno <= moment && write.is_to(key))
        .collect();
    seen.sort_by_key(|(seqno, _)| std::cmp::Reverse(*seqno));
    let mut operands = Vec::new();
    for (seqno, write) in seen {
        match write {
            Merge(_) => operands.push(*seqno),
            Put(_) => return (operands, Some(*seqno)),
            Delete(_) | Range(..) => break,
        }
    }
    (operands, None)
}

fn newest_write(history: &[(u64, Write)], key: Key) -> Option<u64> {
    let to = history.iter().filter(|(_, write)| write.is_to(key));
    to.map(|(seqno, _)| *seqno).max()
}

/// Keys that may have older data below.
#[derive(Debug, Clone)]
struct KeysBelow<'a>(&'a [Key]);

impl Below for KeysBelow<'_> {
    fn may_have(&mut self, user_key: &[u8]) -> bool {
        self.0.contains(&user_key[0])
    }

    fn reach(&mut self, start: &[u8], end: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let within = self.0.iter().filter(|key| (start[0]..end[0]).contains(key));
        let first = within.clone().min()?;
        Some((vec![*first], vec![within.max()? + 1]))
    }
}

fn tombstone(seqno: u64, start: Key, end: Key) -> RangeTombstone {
    RangeTombstone {
        start: vec![start],
        end: vec![end],
        seqno: SeqNo(seqno),
    }
}

fn compacted(history: &[(u64, Write)], moments: &Moments, below: &[Key]) -> History {
    let mut tombstones = Vec::new();
    let mut entries = Vec::new();
    for &(seqno, write) in history {
        match write {
            Put(key) => entries.push((key, seqno, Kind::Put)),
            Delete(key) => entries.push((key, seqno, Kind::Delete)),
            Merge(key) => entries.push((key, seqno, Kind::Merge)),
            Range(start, end) => tombstones.push(tombstone(seqno, start, end)),
        }
    }
    entries.sort_by_key(|(key, seqno, _)| (*key, std::cmp::Reverse(*seqno)));
    let mut retain = Retain::new(moments.clone(), tombstones, KeysBelow(below));
    let stay = retain.tombstones().iter();
    let stay = stay.map(|t| (t.seqno.0, Range(t.start[0], t.end[0])));
    let mut output: History = stay.collect();
    for (key, seqno, kind) in entries {
        let head = Head {
            user_key: &[key],
            seqno: SeqNo(seqno),
            kind,
        };
        match retain.decide(head).unwrap() {
            Decision::Drop => continue,
            Decision::KeepAfterDelete(delete) => output.push((delete.0, Delete(key))),
            Decision::Keep => {}
        }
        let write = match kind {
            Kind::Put => Put(key),
            Kind::Delete => Delete(key),
            _ => Merge(key),
        };
        output.push((seqno, write));
    }
    output
}

/// One case, with all that a failure shows.
#[derive(Debug)]
struct Case<'a> {
    history: &'a [(u64, Write)],
    keys: &'a [Key],
    /// Moments below the horizon.
    snapshots: Vec<u64>,
    horizon: u64,
    written_since: u64,
    /// Keys that may have older data, and do in some variants, at seqno 1.
    below: &'a [Key],
}

impl Case<'_> {
    fn check(&self) {
        let snapshots = self.snapshots.iter().map(|s| SeqNo(*s)).collect();
        let moments = Moments::new(snapshots, SeqNo(self.horizon))
            .with_written_since(SeqNo(self.written_since));
        let output = compacted(self.history, &moments, self.below);
        let last = self
            .history
            .iter()
            .map(|(seqno, _)| *seqno)
            .max()
            .unwrap_or(0);
        let all_moments: Vec<u64> = (self.horizon..=last.max(self.horizon))
            .chain(self.snapshots.iter().copied())
            .collect();
        self.check_reads(&output, &all_moments);
        self.check_size(&output, &all_moments);
        for &key in self.keys {
            let before = newest_write(self.history, key);
            if before > Some(self.written_since) {
                assert_eq!(
                    before,
                    newest_write(&output, key),
                    "{self:?} gives {output:?}"
                );
            }
        }
    }

    fn check_reads(&self, output: &History, moments: &[u64]) {
        for older in [None, Some(Put as fn(Key) -> Write), Some(Merge)] {
            if older.is_some() && self.below.is_empty() {
                continue;
            }
            let below = older
                .into_iter()
                .flat_map(|w| self.below.iter().map(move |k| (1, w(*k))));
            let with_below = |history: &[(u64, Write)]| -> History {
                history.iter().copied().chain(below.clone()).collect()
            };
            let (before, after) = (with_below(self.history), with_below(output));
            for &key in self.keys {
                for &moment in moments {
                    let (is, was) = (read(&after, key, moment), read(&before, key, moment));
                    assert_eq!(
                        is, was,
                        "of {} at {moment}: {self:?} gives {output:?}",
                        key as char
                    );
                }
            }
        }
    }

    /// Nothing stays that no read needs; nothing is there that was not.
    fn check_size(&self, output: &History, moments: &[u64]) {
        let ranges = |history: &History| -> Vec<(u64, Write)> {
            let of_ranges = |(_, write): &&(u64, Write)| matches!(write, Range(..));
            history.iter().filter(of_ranges).copied().collect()
        };
        let have = ranges(&self.history.to_vec());
        for (seqno, range) in ranges(output) {
            let Range(start, end) = range else {
                unreachable!()
            };
            let within = |(of, w): &(u64, Write)| {
                *of == seqno && matches!(*w, Range(s, e) if s <= start && end <= e)
            };
            assert!(
                start < end && have.iter().any(within),
                "{self:?} gives {output:?}"
            );
        }
        assert!(ranges(output).len() <= have.len());
        for (seqno, write) in output {
            let (Put(key) | Delete(key) | Merge(key)) = *write else {
                continue;
            };
            assert!(
                self.history.contains(&(*seqno, *write)),
                "{self:?} gives {output:?}"
            );
            let needed = match write {
                Delete(_) if self.below.contains(&key) || *seqno > self.written_since => true,
                // Which of the tombstones that say the same stays is free.
                Delete(_) if have.iter().any(|(_, range)| range.is_to(key)) => true,
                Delete(_) => {
                    let others = output.iter().filter(|other| **other != (*seqno, *write));
                    let others: History = others.copied().collect();
                    moments
                        .iter()
                        .any(|&m| read(output, key, m) != read(&others, key, m))
                }
                _ => moments.iter().any(|&m| {
                    let (operands, put) = read(output, key, m);
                    operands.contains(seqno) || put == Some(*seqno)
                }),
            };
            assert!(
                needed,
                "{write:?} at {seqno} stays: {self:?} gives {output:?}"
            );
        }
    }
}

/// In a plain run one history in so many is tried: of a number that has no factor in common with that of any choices.
const ONE_IN: u64 = 5;

/// Every history of `len` writes from `choices` with all moments, in a plain run a share of them; returns the number of cases
/// that this stands for, about.
fn every_history(choices: &[Write], keys: &[Key], below: &[&[Key]], len: u32) -> u64 {
    let mut cases = 0;
    let last = u64::from(len) + 1;
    let some = |number: &usize| len < 3 || is_tried(*number, ONE_IN);
    let stands_for = if len < 3 { 1 } else { one_in(ONE_IN) };
    for number in (0..choices.len().pow(len)).filter(some) {
        let digits = (0..len).map(|d| number / choices.len().pow(d) % choices.len());
        // What may lie below has seqno 1.
        let history: History = (2..).zip(digits.map(|d| choices[d])).collect();
        for horizon in 1..=last + 1 {
            for set in 0..1u64 << (horizon - 1) {
                let snapshots: Vec<u64> =
                    (1..horizon).filter(|s| set >> (s - 1) & 1 == 1).collect();
                for below in below {
                    for written_since in [u64::MAX, last - 1, 1] {
                        Case {
                            history: &history,
                            keys,
                            snapshots: snapshots.clone(),
                            horizon,
                            written_since,
                            below,
                        }
                        .check();
                        cases += stands_for;
                    }
                }
            }
        }
    }
    cases
}

#[test]
fn every_small_history_of_one_key_reads_the_same_at_every_moment() {
    let choices = [Put(b'a'), Delete(b'a'), Merge(b'a'), Range(b'a', b'b')];
    let cases: u64 = (0..=5)
        .map(|len| every_history(&choices, b"a", &[b"", b"a"], len))
        .sum();
    println!("{cases} cases");
    assert!(cases > 500_000);
}

#[test]
fn every_small_history_of_two_keys_reads_the_same_at_every_moment() {
    let mut choices = vec![Range(b'a', b'b'), Range(b'a', b'c'), Range(b'b', b'c')];
    choices.extend(
        b"ab"
            .iter()
            .flat_map(|&key| [Put(key), Delete(key), Merge(key)]),
    );
    let below: [&[Key]; 4] = [b"", b"a", b"b", b"ab"];
    let cases: u64 = (0..=3)
        .map(|len| every_history(&choices, b"ab", &below, len))
        .sum();
    println!("{cases} cases");
    assert!(cases > 200_000);
}

#[test]
fn every_small_history_of_ranges_over_three_keys_reads_the_same() {
    let choices = [
        Put(b'b'),
        Range(b'a', b'b'),
        Range(b'a', b'c'),
        Range(b'a', b'd'),
        Range(b'b', b'c'),
        Range(b'b', b'd'),
    ];
    let below: [&[Key]; 4] = [b"", b"b", b"c", b"ac"];
    let every = |below| (0..=4).map(move |len| every_history(&choices, b"abc", &[below], len));
    // All at once: it is the longest by far here.
    let cases: u64 = std::thread::scope(|scope| {
        let parts = below.map(|below| scope.spawn(move || every(below).sum::<u64>()));
        parts.map(|part| part.join().unwrap()).iter().sum()
    });
    println!("{cases} cases");
    assert!(cases > 500_000);
}

#[test]
fn large_random_histories_read_the_same_at_every_moment() {
    for seed in seeds(0..explored(1_000, 4_000)) {
        let _replay = Replay::new("-p thermocline-compaction large_random_histories", seed);
        let mut rng = Rng::new(seed);
        let keys: Vec<Key> = (b'a'..b'a' + 1 + u8::try_from(rng.below(7)).unwrap()).collect();
        let len = 1 + rng.below(50) as u64;
        let ranges = 1 + rng.below(6);
        let history: History = (2..2 + len)
            .filter_map(|seqno| {
                let key = *rng.pick(&keys);
                let write = match rng.below(6) {
                    _ if rng.one_in(ranges) => Range(key, key + 1 + *rng.pick(&[0, 1, 2, 5])),
                    0..3 => Put(key),
                    3..5 => Delete(key),
                    _ => Merge(key),
                };
                (!rng.one_in(5)).then_some((seqno, write))
            })
            .collect();
        let horizon = 1 + rng.below(60) as u64;
        let few = 1 + rng.below(12);
        let below: Vec<Key> = keys.iter().copied().filter(|_| rng.one_in(few)).collect();
        Case {
            history: &history,
            keys: &keys,
            snapshots: (1..horizon).filter(|_| rng.one_in(few)).collect(),
            horizon,
            written_since: *rng.pick(&[u64::MAX, horizon, 20, 1]),
            below: &below,
        }
        .check();
    }
}

#[test]
fn with_one_moment_and_nothing_below_no_tombstone_stays() {
    for seed in seeds(0..200) {
        let _replay = Replay::new("-p thermocline-compaction with_one_moment", seed);
        let mut rng = Rng::new(seed);
        let history: History = (2..40)
            .map(|seqno| {
                let key = *rng.pick(b"abc");
                let all = [Put(key), Delete(key), Merge(key), Range(key, b'd')];
                (seqno, *rng.pick(&all))
            })
            .collect();
        let output = compacted(&history, &Moments::new(vec![], SeqNo(100)), &[]);
        let is_tombstone = |(_, w): &(u64, Write)| matches!(w, Delete(_) | Range(..));
        assert!(
            !output.iter().any(is_tombstone),
            "{history:?} gives {output:?}"
        );
    }
}

#[test]
fn range_tombstones_are_joined_trimmed_and_never_multiply() {
    let surviving = |given: &[RangeTombstone], snapshots: &[u64], below: &[Key]| {
        let snapshots = snapshots.iter().map(|s| SeqNo(*s)).collect();
        let moments = Moments::new(snapshots, SeqNo(100));
        Retain::new(moments, given.to_vec(), KeysBelow(below))
            .tombstones()
            .to_vec()
    };
    // Pieces of one, as tables have them.
    let pieces = [tombstone(5, b'c', b'f'), tombstone(5, b'a', b'c')];
    assert_eq!(surviving(&pieces, &[1], &[]), [tombstone(5, b'a', b'f')]);
    // Trimmed to what lies below, and gone where nothing does.
    assert_eq!(surviving(&pieces, &[], b"bd"), [tombstone(5, b'b', b'e')]);
    assert_eq!(surviving(&pieces, &[], b"x"), []);
    // A newer one hides the end, the middle, all.
    let old = tombstone(5, b'c', b'f');
    let newer = |start, end| [old.clone(), tombstone(9, start, end)];
    assert!(surviving(&newer(b'd', b'z'), &[1], &[]).contains(&tombstone(5, b'c', b'd')));
    assert!(surviving(&newer(b'd', b'e'), &[1], &[]).contains(&old));
    assert_eq!(
        surviving(&newer(b'c', b'f'), &[1], &[]),
        [tombstone(9, b'c', b'f')]
    );
    // Not if somebody reads between them.
    assert_eq!(surviving(&newer(b'c', b'f'), &[7], b"d").len(), 2);
}

fn decide_all(entries: &[(&str, u64)]) -> Option<Vec<Decision>> {
    let mut retain = Retain::new(Moments::new(vec![], SeqNo(1)), vec![], KeysBelow(&[]));
    let decide = |(key, seqno): &(&str, u64)| {
        retain.decide(Head {
            user_key: key.as_bytes(),
            seqno: SeqNo(*seqno),
            kind: Kind::Put,
        })
    };
    entries.iter().map(decide).collect()
}

#[test]
fn of_a_version_that_comes_twice_the_second_goes() {
    use Decision::{Drop, Keep};
    let entries = [("", 9), ("", 9), ("a", 9), ("a", 8), ("a", 8), ("a", 7)];
    let decided = decide_all(&entries).unwrap();
    assert_eq!(decided, [Keep, Drop, Keep, Keep, Drop, Keep]);
}

#[test]
fn versions_and_keys_out_of_order_are_refused() {
    for second in [("k", 4), ("j", 2), ("", 9)] {
        assert_eq!(decide_all(&[("k", 3), second]), None, "{second:?}");
    }
}

#[test]
fn what_is_removed_hides_what_it_hid_and_goes_where_nothing_is_below() {
    for (below, snapshots, expected) in [
        // Nothing older is left: the delete says nothing.
        (&[][..], vec![], [Decision::Drop, Decision::Drop]),
        // Something lies below, and must not return.
        (b"k", vec![], [Decision::Keep, Decision::Drop]),
        // A reader sees the older one, which must not return for others.
        (
            &[],
            vec![SeqNo(5)],
            [Decision::Drop, Decision::KeepAfterDelete(SeqNo(9))],
        ),
    ] {
        let below = RangesBelow::new(below.chunks(1).map(|key| KeyRange::inclusive(key, key)));
        let mut retain = Retain::new(Moments::new(snapshots, SeqNo(100)), vec![], below);
        let head = |seqno| Head {
            user_key: b"k",
            seqno: SeqNo(seqno),
            kind: Kind::Put,
        };
        let newest = retain.decide(head(9)).unwrap();
        assert_eq!(newest, Decision::Keep);
        let got = [retain.remove(newest), retain.decide(head(4)).unwrap()];
        assert_eq!(got, expected);
    }
}
