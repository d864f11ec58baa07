//! How fast sources are merged, and what stays is decided:
//! `cargo run --release -p thermocline-compaction --features examples --example merge_rates`.
//!
//! Two million entries with 16-byte keys in memory, dealt out to k sources at random. Keys either
//! differ in their first eight bytes, or share them; every tenth entry is an older version of the
//! one before.

use thermocline_base::{Kind, Result, SeqNo};
use thermocline_compaction::Head;
use thermocline_compaction::merge::{Merge, Source};
use thermocline_compaction::retain::{Decision, Moments, NothingBelow, Retain};
use thermocline_env::Env;
use thermocline_testkit::Rng;

const ENTRIES: u64 = 2_000_000;

struct List {
    entries: Vec<([u8; 16], u64)>,
    at: usize,
}

impl Source for List {
    fn head(&self) -> Option<Head<'_>> {
        let (key, seqno) = self.entries.get(self.at)?;
        Some(Head {
            user_key: key,
            seqno: SeqNo(*seqno),
            kind: Kind::Put,
        })
    }

    fn advance(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }

    fn seek(&mut self, user_key: &[u8], seqno: SeqNo) -> Result<()> {
        let before = |(key, s): &([u8; 16], u64)| (&key[..], seqno.0) < (user_key, *s);
        self.at = self.entries.partition_point(before);
        Ok(())
    }
}

fn sources(k: usize, shared: bool) -> Vec<List> {
    let mut rng = Rng::new(1);
    let mut lists: Vec<_> = (0..k).map(|_| Vec::new()).collect();
    for n in 0..ENTRIES {
        let number = n - u64::from(n % 10 == 9);
        let mut key = [b'k'; 16];
        let at = if shared { 8 } else { 0 };
        key[at..at + 8].copy_from_slice(&number.to_be_bytes());
        lists[rng.below(k)].push((key, ENTRIES - n));
    }
    let list = |entries| List { entries, at: 0 };
    lists.into_iter().map(list).collect()
}

fn main() -> Result<()> {
    let env = Env::real();
    for shared in [false, true] {
        println!("keys share their first eight bytes: {shared}");
        for k in [1, 2, 4, 8, 16, 64] {
            let mut rates = Vec::new();
            for decide in [false, true] {
                let mut merge = Merge::new(sources(k, shared));
                let moments = Moments::new(vec![], SeqNo(ENTRIES + 1));
                let mut retain = Retain::new(moments, vec![], NothingBelow);
                let begun = env.clock.now_ns();
                merge.seek(b"", SeqNo::MAX)?;
                let mut kept = 0u64;
                while let Some(head) = merge.head() {
                    kept += u64::from(!decide || retain.decide(head) != Some(Decision::Drop));
                    merge.advance()?;
                }
                let ns = (env.clock.now_ns() - begun).max(1);
                assert_eq!(kept, if decide { ENTRIES / 10 * 9 } else { ENTRIES });
                rates.push(ENTRIES as f64 * 1e3 / ns as f64);
            }
            let (merged, decided) = (rates[0], rates[1]);
            println!("  {k:2} sources: {merged:6.1} M entries/s merged, {decided:6.1} decided too");
        }
    }
    Ok(())
}
