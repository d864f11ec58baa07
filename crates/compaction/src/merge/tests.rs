use std::cell::Cell;
use std::rc::Rc;

use thermocline_base::{Error, Kind, Result, SeqNo};
use thermocline_testkit::{Replay, Rng, seeds};

use super::{Merge, Source};
use crate::Head;

type Entry = (Vec<u8>, u64);

/// Entries in memory, the moves of which fail when the common count of moves reaches a number.
struct List {
    entries: Vec<Entry>,
    at: Option<usize>,
    moves: Rc<Cell<u32>>,
    fails_at: u32,
}

impl List {
    fn step(&mut self) -> Result<()> {
        self.moves.set(self.moves.get() + 1);
        if self.moves.get() == self.fails_at {
            // Where it stands now is nobody's business.
            self.at = Some(self.entries.len());
            return Err(Error::Busy("planned".into()));
        }
        Ok(())
    }
}

impl Source for List {
    fn head(&self) -> Option<Head<'_>> {
        let (key, seqno) = self.entries.get(self.at?)?;
        Some(Head {
            user_key: key,
            seqno: SeqNo(*seqno),
            kind: Kind::Put,
        })
    }

    fn advance(&mut self) -> Result<()> {
        self.step()?;
        let at = self.at.expect("it was sought");
        assert!(at < self.entries.len(), "moved on behind the end");
        self.at = Some(at + 1);
        Ok(())
    }

    fn seek(&mut self, user_key: &[u8], seqno: SeqNo) -> Result<()> {
        self.step()?;
        let before = |(key, s): &Entry| (&key[..], seqno.0) < (user_key, *s);
        self.at = Some(self.entries.partition_point(before));
        Ok(())
    }
}

fn in_order(a: &Entry, b: &Entry) -> std::cmp::Ordering {
    a.0.cmp(&b.0).then(b.1.cmp(&a.1))
}

/// Sources with entries of their own, and all of them in order.
fn random(rng: &mut Rng, fails_at: u32) -> (Vec<List>, Vec<Entry>) {
    let count = rng.below(9);
    let mut lists = vec![Vec::new(); count];
    let mut all = Vec::new();
    let entries = rng.below(60);
    for seqno in 0..entries as u64 {
        if count == 0 {
            break;
        }
        let prefix = *rng.pick(&["", "", "a common prefix of keys", "z"]);
        let letters = (0..rng.below(3)).map(|_| b"\0ab\xff"[rng.below(4)]);
        let key: Vec<u8> = prefix.bytes().chain(letters).collect();
        lists[rng.below(count)].push((key.clone(), seqno));
        all.push((key, seqno));
    }
    all.sort_by(in_order);
    let moves = Rc::new(Cell::new(0));
    let list = |mut entries: Vec<Entry>| {
        entries.sort_by(in_order);
        let moves = Rc::clone(&moves);
        List {
            entries,
            at: None,
            moves,
            fails_at,
        }
    };
    (lists.into_iter().map(list).collect(), all)
}

fn shown(merge: &Merge<List>) -> Option<Entry> {
    let head = merge.head()?;
    let source = merge.source().unwrap().head();
    assert_eq!(source, Some(head));
    Some((head.user_key.to_vec(), head.seqno.0))
}

fn walk(merge: &mut Merge<List>, into: &mut Vec<Entry>) -> Result<()> {
    while let Some(entry) = shown(merge) {
        into.push(entry);
        merge.advance()?;
    }
    Ok(())
}

#[test]
fn a_merge_shows_what_sorting_shows() {
    for seed in seeds(0..400) {
        let _replay = Replay::new("-p thermocline-compaction a_merge_shows", seed);
        let mut rng = Rng::new(seed);
        let (lists, all) = random(&mut rng, 0);
        let mut merge = Merge::new(lists);
        assert!(merge.head().is_none());
        merge.seek(b"", SeqNo::MAX).unwrap();
        let mut seen = Vec::new();
        walk(&mut merge, &mut seen).unwrap();
        assert_eq!(seen, all);
        // Behind the end it stays there.
        merge.advance().unwrap();
        assert!(merge.head().is_none());
        for _ in 0..5 {
            let (key, seqno) = match all.len() {
                0 => (vec![], 0),
                len => all[rng.below(len)].clone(),
            };
            let seqno = seqno + rng.below(2) as u64;
            merge.seek(&key, SeqNo(seqno)).unwrap();
            let mut seen = Vec::new();
            walk(&mut merge, &mut seen).unwrap();
            let from = all.partition_point(|e| in_order(e, &(key.clone(), seqno)).is_lt());
            assert_eq!(seen, all[from..]);
        }
    }
}

#[test]
fn a_failed_move_loses_nothing_and_looks_like_no_end() {
    let mut failures = 0;
    for seed in seeds(0..40) {
        let _replay = Replay::new("-p thermocline-compaction a_failed_move", seed);
        for fails_at in 1.. {
            let (lists, all) = random(&mut Rng::new(seed), fails_at);
            let mut merge = Merge::new(lists);
            let mut seen: Vec<Entry> = Vec::new();
            let begun = merge.seek(b"", SeqNo::MAX);
            let first = begun.and_then(|()| walk(&mut merge, &mut seen));
            if first.is_ok() {
                assert_eq!(seen, all);
                break;
            }
            failures += 1;
            assert_eq!(seen, all[..seen.len()]);
            assert!(merge.head().is_none() && merge.source().is_none());
            assert!(merge.advance().is_err());
            match seen.pop() {
                Some((key, seqno)) => merge.seek(&key, SeqNo(seqno)).unwrap(),
                None => merge.seek(b"", SeqNo::MAX).unwrap(),
            }
            walk(&mut merge, &mut seen).unwrap();
            assert_eq!(seen, all);
        }
    }
    assert!(failures > 500 || seeds(0..40).len() == 1, "{failures}");
}

fn twice() -> Merge<List> {
    let list = |entries: &[(&str, u64)]| List {
        entries: entries
            .iter()
            .map(|(k, s)| (k.as_bytes().to_vec(), *s))
            .collect(),
        at: None,
        moves: Rc::new(Cell::new(0)),
        fails_at: 0,
    };
    Merge::new(vec![list(&[("b", 3)]), list(&[("a", 4), ("b", 3)])])
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "is in sources")]
fn the_same_version_in_two_sources_is_asserted_not_to_be() {
    let mut merge = twice();
    merge.seek(b"", SeqNo::MAX).unwrap();
    walk(&mut merge, &mut Vec::new()).unwrap();
}

#[test]
#[cfg(not(debug_assertions))]
fn of_the_same_version_in_two_sources_the_newer_source_comes_first() {
    let mut merge = twice();
    merge.seek(b"b", SeqNo::MAX).unwrap();
    assert_eq!(merge.source().unwrap().entries.len(), 1);
    merge.advance().unwrap();
    assert_eq!(merge.source().unwrap().entries.len(), 2);
}
