//! In-memory compaction: the indexes of several sealed memtables become one (LogFree §3.3).
//!
//! Reads ask every sealed memtable. A *merged index* leads to the records of several of them, which stay
//! where they are: only pointers move. Readers use it like a memtable.
//!
//! # How it is made
//! Family by family, in the order of keys, some keys at a time: the versions of a key from all inputs, of
//! which those are left out that nobody needs, go into a new index, or into several ([below](self#dividing-by-age)). When it is
//! complete it takes the inputs' place in the view, and their DRAM is free when no reader has an older one.
//!
//! # Invariants
//! 1. *It never changes.* Nobody sees it before it is complete, and nothing is put into it later. So readers
//!    of an older view see exactly what they saw before, and a merge that fails, or finds that its
//!    inputs have changed, leaves nothing behind.
//! 2. *What is needed stays.* A version goes if the next newer one of the inputs is settled and no reader is
//!    between them, if its memtable was found dead, or with its family; `needed` says why nobody will ever
//!    need it again. A version in a newer memtable that is no input is not looked for, nor is a
//!    tombstone left out because nothing lies below it: the record that it hides may be gone from the index,
//!    but as long as its memtable is named a crash brings it back.
//! 3. *It holds what it leads to.* It holds the homes of the memtables of which it has a version, and of no
//!    others. So a memtable that it has nothing of is dead, and its zones are free as soon as no older view
//!    has it, whatever becomes of the others.
//!
//! # Range tombstones
//! A merged index has none: memtables that have range tombstones are no inputs, and keep their own index.
//!
//! # Dividing by age
//! A flush takes whole indexes. So that one which leads to many memtables lets the oldest of them go, it can be *divided*: in
//! its place come several, the *parts*, each of which leads to memtables that follow each other. It is the same pass: of the
//! versions of a key those are left out that nobody needs, and each of the others comes into the part that has its memtable.
//!
//! *Once, and in order.* A version that is kept is in one part. Parts lie in the view as their memtables would, the newest
//! first, so along a key each has what is newer than all behind it, and readers ask them as they ask memtables.
//!
//! *What a newer part hides goes.* Versions are looked at before they are parted. So one goes, too, whose next newer one comes
//! into another part, if that is settled and no reader is between them. Invariant 2 does not ask which index has the newer one;
//! what matters is that nobody comes to the older part past it. In a view nobody does, since the newer part is asked first. If
//! the memtable of the newer version leaves the view, that is by a flush, which takes all older ones with it or has taken them
//! before, and writes the newer version into tables that are asked in its place; or because the newer version is not needed
//! either, and then the older one is not (`needed`, 2). A crash takes nothing back that is settled. So a memtable of which only
//! such versions were left is in no part, and dead.
//!
//! *What somebody reads stays*, and what is not settled, each version in its part, as if the memtables had never shared an
//! index. When the reader has gone, a check of the older memtable finds the newer version in the newer part (`needed` looks
//! there); a merge of the older part alone does not look there, and keeps it, by invariant 2.
//!
//! # Operands
//! It has no operands either. To fold them it would have to write records, and it only moves pointers; to keep them all
//! it would need memory for lists of any length, of which no step can say beforehand how much. So what is left out is
//! decided by the next newer version, which is a base ([`thermocline_art::Entry::with_version`]). Newer memtables are not
//! looked at, so it does not matter whether those have operands.
//!
//! # Not in place
//! LogFree inserts the pointers of a memtable into one growing index, as readers look on. Here a merge makes
//! a new index and drops the old. It costs moving a pointer several times: as often as what it is merged
//! with is half as much as itself, which is about five times for the sixty-four memtables that there can
//! be. But keys that come in order go into warm nodes, while those of one memtable would each be a few cache
//! misses in a large index. What it spares is what an index has to promise that changes under its readers:
//! a reader of an old view would find pointers in it to memtables that its view does not hold; a
//! version that is trimmed may be in a reader's hand, so that zones had to wait for all guards; a key that is
//! gone, or a tombstone that hides nothing any more, could not be taken out, since the tree does not remove;
//! a merge that runs out of DRAM would leave half a memtable behind, which a flush must not take for none.
//! The price is DRAM: both are there while a merge lasts. Where there is not enough there is no merge.
//!
//! It lives here and not in `level0`: it is made of memtables and their records, which that crate does not see.

use std::ops::Bound;
use std::sync::Arc;

use thermocline_art::{Leaf, Version};
use thermocline_base::budget::Account;
use thermocline_base::planted::{Bug, active};
use thermocline_base::{CfId, Kind, Result};
use thermocline_halloc::Zone;
use thermocline_pm::Region;
use thermocline_policy::tuning::MERGE_KEYS_EACH_MIN;

use crate::home::{Home, Records, Span};
use crate::needed::Readers;
use crate::record::RecordRef;
use crate::scan::Versions;
use crate::table::Memtable;

/// A merge of indexes, or a division of one, under way.
#[derive(Debug)]
pub struct Merging {
    /// Newest first.
    inputs: Vec<Arc<Memtable>>,
    /// What comes in their place, oldest first: one index, unless it divides.
    parts: Vec<Part>,
    /// The newest memtable of each part but the newest one, oldest first.
    ends: Vec<u64>,
    families: Vec<CfId>,
    /// The family at hand.
    family: usize,
    /// Where it goes on in that.
    from: Bound<Vec<u8>>,
}

/// An index that is being made.
#[derive(Debug)]
struct Part {
    index: Memtable,
    spans: Vec<Span>,
    /// How many versions it has of each home.
    versions: Vec<u64>,
}

/// What a merge leaves out.
#[derive(Clone, Copy)]
pub struct Without<'a> {
    /// What these do not need.
    pub readers: Readers<'a>,
    /// Whether a memtable was found dead.
    pub dead: &'a dyn Fn(u64) -> bool,
}

impl Merging {
    /// Begins to merge sealed memtables, newest first, with none missing between them. They become one index, if there are no
    /// `ends`; or parts by age, each of which ends with one of these, the oldest first, and the last one has what is newer.
    /// `zones` tells which each memtable owns; the memory of what is made counts in `account`. `None` if there are none, or one
    /// has range tombstones or operands.
    pub fn new(
        inputs: Vec<Arc<Memtable>>,
        ends: Vec<u64>,
        zones: impl Fn(u64) -> Vec<Zone>,
        account: &Arc<Account>,
    ) -> Option<Merging> {
        let region = inputs.first()?.region().clone();
        if inputs
            .iter()
            .any(|m| m.has_tombstones() || m.has_operands())
        {
            return None;
        }
        let oldest_first = inputs.iter().rev();
        let mut of_parts: Vec<Vec<Arc<Home>>> = vec![Vec::new(); ends.len() + 1];
        for home in oldest_first.flat_map(|m| m.homes()) {
            of_parts[part_of(&ends, home.id())].push(home.clone());
        }
        let parts = of_parts.into_iter();
        let parts = parts.map(|homes| Part::new(&region, homes, &zones, account));
        let parts = parts.collect();
        let mut families: Vec<CfId> = inputs.iter().flat_map(|m| m.families()).collect();
        families.sort_unstable();
        families.dedup();
        Some(Merging {
            inputs,
            parts,
            ends,
            families,
            family: 0,
            from: Bound::Unbounded,
        })
    }

    /// How many indexes come in the place of the inputs, at most.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Most DRAM in bytes that the next step, with up to `keys` keys, may take, if at most `readers`
    /// moments are read at.
    pub fn bound(&self, keys: usize, readers: usize) -> u64 {
        let Some(&cf) = self.families.get(self.family) else {
            return 0;
        };
        let bound = |part: &Part| part.index.reserve_bound(cf, keys as u64, Some(readers));
        // Which part a key comes into is not known.
        self.parts.iter().map(bound).sum()
    }

    /// Merges up to `limit` keys more. Returns whether there may be more.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] of a record: all are verified, since their keys and seqnos
    /// decide. [`thermocline_base::Error::OutOfSpace`] without memory.
    pub fn step(&mut self, limit: usize, without: Without<'_>) -> Result<bool> {
        let Some(&cf) = self.families.get(self.family) else {
            return Ok(false);
        };
        let from = self.from.clone();
        let from = from.as_ref().map(Vec::as_slice);
        // Together they are asked for as many keys as are taken, not each for all of them: what a source has collected is
        // forgotten with the step.
        let at_once = limit.min((limit / self.inputs.len()).max(MERGE_KEYS_EACH_MIN));
        let sources = self.inputs.iter();
        let sources = sources.map(|m| (m, Versions::new(m, cf, at_once)));
        let mut sources = sources.collect::<Vec<_>>();
        for (_, source) in &mut sources {
            source.seek(from)?;
        }
        let mut found = Vec::new();
        for _ in 0..limit {
            let heads = sources.iter().filter_map(|(_, source)| source.head());
            let Some(key) = heads.map(|record| record.key).min() else {
                self.family += 1;
                self.from = Bound::Unbounded;
                return Ok(self.family < self.families.len());
            };
            found.clear();
            for (memtable, source) in &mut sources {
                while let Some(record) = source.head().filter(|record| record.key == key) {
                    found.push((memtable.home_of(record.at)?, *record));
                    source.advance()?;
                }
            }
            let kept = needed(cf, key, &found, without);
            let ends = &self.ends;
            for some in kept.chunk_by(|(a, _), (b, _)| part_of(ends, *a) == part_of(ends, *b)) {
                self.parts[part_of(ends, some[0].0)].store(cf, key, some)?;
            }
            self.from = Bound::Excluded(key.to_vec());
        }
        Ok(true)
    }

    /// What comes in the place of the inputs, newest first, once a step has said that there is no more: nothing where nothing is
    /// left, and no part that has nothing.
    pub fn finish(self) -> Vec<Memtable> {
        let newest_first = self.parts.into_iter().rev();
        newest_first.filter_map(Part::finish).collect()
    }
}

/// Which part a memtable comes into, if all but the newest one end with these.
fn part_of(ends: &[u64], memtable: u64) -> usize {
    ends.partition_point(|end| *end < memtable)
}

impl Part {
    /// An empty index that may lead to records of these memtables, oldest first.
    fn new(
        region: &Region,
        homes: Vec<Arc<Home>>,
        zones: &impl Fn(u64) -> Vec<Zone>,
        account: &Arc<Account>,
    ) -> Part {
        let mut spans = Vec::new();
        for (i, home) in homes.iter().enumerate() {
            spans.extend(zones(home.id()).iter().map(|zone| Span {
                from: zone.data,
                to: zone.end,
                home: i,
            }));
        }
        let versions = vec![0; homes.len()];
        let records = Records::of_several(region.clone(), homes, spans.clone());
        Part {
            index: Memtable::with_records(records).charged_to(account),
            spans,
            versions,
        }
    }

    /// Puts the versions of a key that are kept into it, newest first. There is one at least.
    fn store(&mut self, cf: CfId, key: &[u8], kept: &[(u64, Version)]) -> Result<()> {
        let versions: Vec<Version> = kept.iter().map(|(_, version)| *version).collect();
        let index = self.index.index_or_new(cf);
        index.note_key(key);
        let tree = &index.tree;
        let guard = tree.pin();
        let entry = tree.entry_with(&versions)?;
        tree.update(&guard, key, self.index.records(), |present| {
            assert!(present.is_none(), "each key comes once");
            Ok(Some(entry))
        })?;
        for (id, _) in kept {
            let homes = self.index.homes();
            let home = homes.binary_search_by_key(id, |home| home.id());
            self.versions[home.expect("it is of an input")] += 1;
        }
        Ok(())
    }

    /// The index, complete; `None` if there is nothing in it.
    fn finish(mut self) -> Option<Memtable> {
        let region = self.index.region().clone();
        let homes = self.index.homes().iter().zip(&self.versions).enumerate();
        let kept = homes.filter(|(_, (_, versions))| **versions > 0);
        let (numbers, homes): (Vec<usize>, Vec<Arc<Home>>) =
            kept.map(|(i, (home, _))| (i, home.clone())).unzip();
        if homes.is_empty() {
            return None;
        }
        let span = |span: &Span| {
            let home = numbers.binary_search(&span.home).ok()?;
            Some(Span { home, ..*span })
        };
        let spans = self.spans.iter().filter_map(span).collect();
        let records = Records::of_several(region, homes, spans);
        self.index.lead_to(records);
        self.index.seal();
        Some(self.index)
    }
}

/// Of the versions of a key, newest first, those that are needed, with their memtables.
fn needed(
    cf: CfId,
    key: &[u8],
    found: &[(&Arc<Home>, RecordRef<'_>)],
    without: Without<'_>,
) -> Vec<(u64, Version)> {
    if !(without.readers.exists)(cf, key) {
        return Vec::new();
    }
    let mut newer = None;
    let mut kept = Vec::with_capacity(found.len());
    for (home, record) in found {
        let next = newer.replace(record.seqno);
        let readers = without.readers;
        let read = next.is_none_or(|next| {
            readers.need(record.seqno, next) && !active(Bug::MergeForgetsReaders)
        });
        let forgotten = record.kind == Kind::Delete && active(Bug::MergeDropsDeletes);
        if read && !forgotten && !(without.dead)(home.id()) {
            let leaf = Leaf::of(key, record.at.0);
            let seqno = record.seqno;
            kept.push((home.id(), Version { seqno, leaf }));
        }
    }
    kept
}

#[cfg(test)]
mod tests;
