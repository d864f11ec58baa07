//! Merging, retaining and cutting together, as a job does it: what is read from the output tables,
//! each asked only for its own keys, is what was read from the inputs.

use std::cmp::Reverse;

use thermocline_base::{Kind, RangeTombstone, Result, SeqNo};
use thermocline_compaction::Head;
use thermocline_compaction::merge::{Merge, Source};
use thermocline_compaction::output::{Cutter, OutputOptions};
use thermocline_compaction::retain::{Decision, Moments, NothingBelow, Retain};
use thermocline_testkit::{Replay, Rng, seeds};

type Entry = (Vec<u8>, u64, Kind);

#[derive(Debug, Default)]
struct Table {
    entries: Vec<Entry>,
    tombstones: Vec<RangeTombstone>,
    at: usize,
}

impl Source for Table {
    fn head(&self) -> Option<Head<'_>> {
        let (user_key, seqno, kind) = self.entries.get(self.at)?;
        Some(Head {
            user_key,
            seqno: SeqNo(*seqno),
            kind: *kind,
        })
    }

    fn advance(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }

    fn seek(&mut self, user_key: &[u8], seqno: SeqNo) -> Result<()> {
        let before = |e: &Entry| (&e.0[..], Reverse(e.1)) < (user_key, Reverse(seqno.0));
        self.at = self.entries.partition_point(before);
        Ok(())
    }
}

/// The operands' seqnos and the put's.
fn read<'a>(tables: impl Iterator<Item = &'a Table>, key: &[u8], at: u64) -> Vec<u64> {
    let mut writes = Vec::new();
    for table in tables {
        let of_key = table.entries.iter().filter(|e| e.0 == key && e.1 <= at);
        writes.extend(of_key.map(|(_, seqno, kind)| (*seqno, *kind)));
        let over = |t: &&RangeTombstone| *t.start <= *key && *key < *t.end && t.seqno.0 <= at;
        let over = table.tombstones.iter().filter(over);
        writes.extend(over.map(|t| (t.seqno.0, Kind::RangeDelete)));
    }
    writes.sort_by_key(|(seqno, _)| Reverse(*seqno));
    let base = writes.iter().position(|(_, kind)| *kind != Kind::Merge);
    let put = base.filter(|n| writes[*n].1 == Kind::Put);
    let seen = &writes[..put.map_or(base.unwrap_or(writes.len()), |n| n + 1)];
    seen.iter().map(|(seqno, _)| *seqno).collect()
}

/// Runs a job; gives its tables and where each begins.
fn compact(
    inputs: Vec<Table>,
    moments: Moments,
    target: u64,
    bounds: Vec<Vec<u8>>,
) -> Vec<(Vec<u8>, Table)> {
    let options = OutputOptions {
        target_bytes: target,
        ..OutputOptions::default()
    };
    let tombstones = inputs.iter().flat_map(|t| t.tombstones.clone()).collect();
    let mut retain = Retain::new(moments, tombstones, NothingBelow);
    let mut cutter = Cutter::new(options, bounds, vec![]);
    let mut merge = Merge::new(inputs);
    merge.seek(b"", SeqNo::MAX).unwrap();
    let mut tables = vec![(Vec::new(), Table::default())];
    while let Some(head) = merge.head() {
        let decision = retain.decide(head).unwrap();
        if decision != Decision::Drop {
            let bytes = |tables: &[(Vec<u8>, Table)]| tables[tables.len() - 1].1.entries.len();
            while let Some(cut) = cutter.cut_before(head.user_key, bytes(&tables) as u64) {
                tables.push((cut, Table::default()));
            }
            let entries = &mut tables.last_mut().unwrap().1.entries;
            if let Decision::KeepAfterDelete(delete) = decision {
                entries.push((head.user_key.to_vec(), delete.0, Kind::Delete));
            }
            entries.push((head.user_key.to_vec(), head.seqno.0, head.kind));
        }
        merge.advance().unwrap();
    }
    tables.extend(cutter.rest().into_iter().map(|cut| (cut, Table::default())));
    for n in 0..tables.len() {
        let until = tables.get(n + 1).map(|next| next.0.clone());
        let from = tables[n].0.clone();
        let cut = |t: &RangeTombstone| {
            let cut = t.borrowed().cut(Some(&from), until.as_deref())?;
            Some(cut.owned())
        };
        tables[n].1.tombstones = retain.tombstones().iter().filter_map(cut).collect();
    }
    tables
}

#[test]
fn a_job_changes_no_read() {
    let (mut tables_seen, mut dropped) = (0, 0);
    for seed in seeds(0..1500) {
        let _replay = Replay::new("-p thermocline-compaction --test whole", seed);
        let mut rng = Rng::new(seed);
        let keys: Vec<Vec<u8>> = (b'a'..=b'l').map(|letter| vec![letter]).collect();
        let mut inputs: Vec<Table> = (0..1 + rng.below(5)).map(|_| Table::default()).collect();
        let last = 1 + rng.below(120) as u64;
        for seqno in 1..=last {
            let key = rng.pick(&keys).clone();
            let count = inputs.len();
            let table = &mut inputs[rng.below(count)];
            if rng.one_in(8) {
                let end = vec![key[0] + 1 + u8::try_from(rng.below(6)).unwrap()];
                table.tombstones.push(RangeTombstone {
                    start: key,
                    end,
                    seqno: SeqNo(seqno),
                });
                continue;
            }
            let kind = *rng.pick(&[Kind::Put, Kind::Put, Kind::Delete, Kind::Merge]);
            table.entries.push((key, seqno, kind));
        }
        for table in &mut inputs {
            table
                .entries
                .sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        }
        let horizon = 1 + rng.below(150) as u64;
        let snapshots: Vec<u64> = (1..horizon).filter(|_| rng.one_in(20)).collect();
        let moments: Vec<u64> = snapshots
            .iter()
            .copied()
            .chain(horizon..=last + 1)
            .collect();
        let mut before = Vec::new();
        for key in &keys {
            before.extend(moments.iter().map(|at| read(inputs.iter(), key, *at)));
        }
        let bounds: Vec<_> = keys.iter().filter(|_| rng.one_in(4)).cloned().collect();
        let entries: usize = inputs.iter().map(|t| t.entries.len()).sum();
        let all = Moments::new(snapshots.into_iter().map(SeqNo).collect(), SeqNo(horizon));
        let target = 1 + rng.below(20) as u64;
        let tables = compact(inputs, all, target, bounds.clone());
        assert!(
            bounds
                .iter()
                .all(|bound| tables.iter().any(|(from, _)| from == bound))
        );
        assert!(tables.is_sorted_by(|a, b| a.0 < b.0), "{tables:?}");
        let mut after = Vec::new();
        for key in &keys {
            let n = tables.partition_point(|(from, _)| from <= key) - 1;
            let table = &tables[n..n + 1];
            let of_key = || table.iter().map(|(_, table)| table);
            after.extend(moments.iter().map(|at| read(of_key(), key, *at)));
        }
        assert_eq!(before, after, "{tables:?}");
        tables_seen += tables.len();
        dropped += entries - tables.iter().map(|(_, t)| t.entries.len()).sum::<usize>();
    }
    let enough = tables_seen > 3000 && dropped > 10_000 || seeds(0..2).len() == 1;
    assert!(enough, "{tables_seen} {dropped}");
}
