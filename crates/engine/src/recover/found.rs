//! What was found in the chains.

use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_base::budget::Account;
use thermocline_base::planted::{Bug, active};
use thermocline_base::{Error, Result, SeqNo};
use thermocline_halloc::Space;
use thermocline_memtable::{
    Chain, ChainEnd, ChainPlan, Memtable, Segment, Stretch, Trail, WalkOutcome, replay,
};
use thermocline_pm::PmOff;
use thermocline_version::Change;

use crate::replay::Known;

/// The chains of one incarnation, with what was found in them.
pub(crate) struct Incarnation {
    /// The number of each chain's memtable.
    pub memtables: Vec<u64>,
    pub plans: Vec<ChainPlan>,
    pub walk: WalkOutcome,
}

/// What recovery found in the region.
pub(crate) struct Found {
    pub incarnations: Vec<Incarnation>,
    /// The last seqno that was kept.
    pub last_seqno: u64,
    /// The seqno that the next incarnation may begin with (rule 5).
    pub next_base: u64,
    /// Records of unfinished writes behind the cut, up to the last one that was readable.
    pub cut_records: u64,
}

impl Found {
    /// The chain ends, each with its memtable's number and its plan, oldest first.
    pub fn chains(&self) -> impl Iterator<Item = (u64, &ChainPlan, &ChainEnd)> {
        self.incarnations.iter().flat_map(|i| {
            i.memtables
                .iter()
                .zip(&i.plans)
                .zip(&i.walk.chains)
                .map(|((id, plan), end)| (*id, plan, end))
        })
    }

    /// Where the records of each chain lie, oldest first.
    pub fn trails(&self) -> Vec<Trail> {
        let mut before = 0;
        let trail = |(id, plan, end): (u64, &ChainPlan, &ChainEnd)| {
            // A chain that follows another begins behind it.
            let base = match plan.chain.base {
                0 => before + 1,
                base => base,
            };
            before = end.last_seqno;
            let chain = Chain { base, ..plan.chain };
            let segments = plan.segments.clone();
            Trail::complete(id, chain, segments, end.end, end.last_seqno)
        };
        self.chains().map(trail).collect()
    }

    /// The unused rest of the zones of memtable `id` where a new chain may begin: the largest.
    pub fn rest_of(&self, id: u64) -> Option<Segment> {
        let mut rest: Vec<Segment> = Vec::new();
        for (_, plan, end) in self.chains().filter(|(of, _, _)| *of == id) {
            for (s, segment) in plan.segments.iter().enumerate() {
                let behind = match end.items[s].last() {
                    Some(item) => item.at.plus(u64::from(item.bytes)),
                    None => segment.from,
                };
                // A later chain that began in this stretch has it now.
                rest.retain(|r| r.to != segment.to);
                rest.push(Segment {
                    from: behind,
                    ..*segment
                });
            }
        }
        rest.into_iter()
            .filter(|s| s.to.0 - s.from.0 >= 64)
            .max_by_key(|s| s.to.0 - s.from.0)
    }

    /// These memtables, without indexes.
    pub fn shells(
        &self,
        space: &Space,
        ids: &[u64],
        new: Option<(u64, Chain)>,
    ) -> Result<Vec<Memtable>> {
        let mut chains: BTreeMap<u64, Vec<Chain>> = BTreeMap::new();
        let mut before = 0;
        for (id, plan, end) in self.chains() {
            // A chain that follows another begins behind it.
            let base = if plan.chain.base == 0 {
                before + 1
            } else {
                plan.chain.base
            };
            chains
                .entry(id)
                .or_default()
                .push(Chain { base, ..plan.chain });
            before = end.last_seqno;
        }
        if let Some((id, chain)) = new {
            chains.entry(id).or_default().push(chain);
        }
        let shell = |&id: &u64| {
            let chains = chains
                .remove(&id)
                .ok_or_else(|| corrupt(space, "a memtable has no chain", PmOff(0)))?;
            Ok(Memtable::new(space.region().clone(), id, chains))
        };
        ids.iter().map(shell).collect()
    }

    /// Rebuilds every memtable that stays; `families` are those whose records are
    /// indexed, by so many threads, for whoever reads at `moments`. Memtables that were flushed are not indexed: no view will have them, and DRAM may not
    /// have room for all that is kept. The memory of the indexes counts in `account`.
    pub fn memtables(
        &self,
        space: &Space,
        staying: Staying<'_>,
        families: &Known,
        account: &Arc<Account>,
        (threads, moments): (usize, &[SeqNo]),
    ) -> Result<Rebuilt> {
        let (newest, _) = staying.active;
        let shells = self.shells(space, staying.memtables, Some(staying.active))?;
        let shells = shells.into_iter();
        let all: Vec<Memtable> = shells.map(|m| m.charged_to(account)).collect();
        let is_flushed = |m: &Memtable| m.id() != newest && m.base().0 <= staying.flushed;
        let mut stretches: Vec<Stretch<'_>> = Vec::new();
        for (id, _, end) in self.chains() {
            let Some(memtable) = all.iter().find(|m| m.id() == id) else {
                continue;
            };
            let indexed = !is_flushed(memtable) || active(Bug::IndexKeptAtOpen);
            let items = end.items.iter().filter(|items| !items.is_empty());
            stretches.extend(items.map(|items| Stretch {
                memtable,
                items,
                indexed,
            }));
        }
        let records = replay(&stretches, threads, moments, &|at, cf, key| {
            families.admits(space, at, cf, key)
        })?;
        drop(stretches);
        for memtable in all.iter().filter(|m| m.id() != newest) {
            memtable.seal();
        }
        // What could not be read looked like zeros, and zeros like the end of a chain.
        space.region().check_media()?;
        let (flushed, live): (Vec<_>, Vec<_>) = all.into_iter().partition(is_flushed);
        Ok(Rebuilt {
            flushed: flushed.into_iter().map(Arc::new).collect(),
            live: live.into_iter().map(Arc::new).collect(),
            records,
        })
    }

    /// The cuts of the last incarnation's chains that have none, except of memtables that go.
    pub fn cuts(&self, dropped: &[u64]) -> Vec<Change> {
        self.chains()
            .filter(|(id, plan, _)| plan.cut.is_none() && !dropped.contains(id))
            .map(|(_, plan, end)| Change::ChainCut {
                chain: plan.chain.id,
                last_seqno: end.last_seqno,
                end: end.end.map_or(0, |(_, at)| at.0),
            })
            .collect()
    }

    /// Up to which seqno all that was found is known to have been durable before this open.
    pub fn known_durable(&self) -> u64 {
        match &self.incarnations[..] {
            // What came before was cut, which was done only when it was durable.
            [.., before, last] if self.unsealed() => {
                before.walk.last_seqno.max(last.walk.known_durable)
            }
            [last] if self.unsealed() => last.walk.known_durable,
            _ => u64::MAX,
        }
    }

    /// Whether some chain was never cut: the last process did not close.
    pub fn unsealed(&self) -> bool {
        self.chains().any(|(_, plan, _)| plan.cut.is_none())
    }
}

/// The memtables that stay.
pub(crate) struct Staying<'a> {
    /// All of them, oldest first.
    pub memtables: &'a [u64],
    /// The one that takes the writes, and the chain that this process will write into it.
    pub active: (u64, Chain),
    /// Those with bases up to here were flushed (`flush`, invariant 2), but for the active one.
    pub flushed: u64,
}

/// The memtables that the manifest names, oldest first.
pub(crate) struct Rebuilt {
    /// Of those that were flushed (`flush`, invariant 2): without indexes.
    pub flushed: Vec<Arc<Memtable>>,
    /// Of those that a view needs; the last one takes the writes.
    pub live: Vec<Arc<Memtable>>,
    /// Records that were indexed.
    pub records: u64,
}

impl Rebuilt {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Memtable>> + Clone {
        self.flushed.iter().chain(&self.live)
    }
}

#[cold]
pub(super) fn corrupt(space: &Space, what: &str, at: PmOff) -> Error {
    Error::corruption(
        what,
        space.region().path().display().to_string(),
        at.0,
        "what the manifest names",
        "something else",
    )
}
