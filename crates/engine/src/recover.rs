//! From manifest and region back to memtables (design §14). See the crate documentation for the order
//! of what recovery makes durable.
//! What is only readable is made durable first (`keep`).

mod keep;

use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_base::budget::Account;
use thermocline_base::planted::{Bug, active};
use thermocline_base::{Error, Result, SeqNo};
use thermocline_halloc::{Space, Witness, Zone};
use thermocline_memtable::{
    Chain, ChainEnd, ChainPlan, Descriptor, Memtable, Segment, Stretch, Trail, WalkOutcome, replay,
    walk_incarnation,
};
use thermocline_pm::PmOff;
use thermocline_version::{Change, Generation, State};

use crate::replay::Known;
use crate::wal::Loaded;

/// The chains of one incarnation, with what was found in them.
pub(crate) struct Incarnation {
    /// The generation of each chain.
    pub generations: Vec<u64>,
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
    /// Bytes of unfinished writes behind the cut, in items that were readable.
    pub cut_records: u64,
}

/// The generations that stay.
pub(crate) struct Staying<'a> {
    /// All of them, oldest first.
    pub generations: &'a [u64],
    /// The one that takes the writes, and the chain that this process will write into it.
    pub active: (u64, Chain),
    /// Those with bases up to here were flushed (`flush`, invariant 2), but for the active one.
    pub flushed: u64,
}

/// The memtables of the generations that the manifest names, oldest first.
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

/// Finds all items of all chains that the manifest names. What was loaded from logs is blamed on them.
pub(crate) fn find(
    db_id: &[u8; 16],
    space: &Space,
    zones: &[Zone],
    state: &State,
    descriptors: &[Descriptor],
    loaded: Option<&Loaded>,
    threads: usize,
) -> Result<Found> {
    let found = find_in_region(db_id, space, zones, state, descriptors, loaded, threads);
    found.map_err(|error| match loaded {
        Some(loaded) => loaded.locate(error),
        None => error,
    })
}

fn find_in_region(
    db_id: &[u8; 16],
    space: &Space,
    zones: &[Zone],
    state: &State,
    descriptors: &[Descriptor],
    loaded: Option<&Loaded>,
    threads: usize,
) -> Result<Found> {
    check_owners(space, state)?;
    check_floors(space, zones, state, descriptors)?;
    let mut incarnations = plan(db_id, space, zones, state, descriptors, loaded)?;
    let mut found = Found {
        incarnations: Vec::new(),
        last_seqno: 0,
        next_base: 1,
        cut_records: 0,
    };
    let last = incarnations.len().saturating_sub(1);
    for (i, (base, incarnation)) in incarnations.iter_mut().enumerate() {
        let walk = walk_incarnation(space.region(), &incarnation.plans, *base, threads)?;
        if i < last && incarnation.plans.iter().any(|plan| plan.cut.is_none()) {
            return Err(corrupt(
                space,
                "an earlier incarnation was never sealed",
                PmOff(0),
            ));
        }
        found.last_seqno = walk.last_seqno;
        found.next_base = if active(Bug::ReuseSeqnos) {
            walk.last_seqno + 1
        } else {
            // The smallest record takes 16 bytes.
            walk.seqno_seen.max(walk.last_seqno) + walk.unsealed_bytes / 16 + 1
        };
        found.cut_records += walk.seqno_seen.saturating_sub(walk.last_seqno);
        incarnation.walk = walk;
    }
    found.incarnations = incarnations
        .into_iter()
        .map(|(_, incarnation)| incarnation)
        .collect();
    Ok(found)
}

/// The manifest names a chain before the chain gets its first zone. A zone of a chain that comes
/// later means that the manifest has lost its last edits, and with them where data lies.
fn check_owners(space: &Space, state: &State) -> Result<()> {
    let (next, found) = (state.next_ids().chain, space.highest_owner());
    if found < next {
        return Ok(());
    }
    Err(Error::corruption(
        "a zone belongs to a chain that the manifest does not know yet: the manifest was cut short",
        space.region().path().display().to_string(),
        0,
        format!("chains below {next}"),
        format!("chain {found}"),
    ))
}

/// The region remembers the chain that was recorded last. A manifest that does not know it lost its
/// last edit, or is an older copy; one that knows another chain of that id is another copy, which
/// has gone its own way. A crash between edit and witness leaves the witness one chain behind; nothing
/// was granted to that chain yet. Writes nothing, and comes before anything is changed.
pub(crate) fn check_witness(space: &Space, state: &State) -> Result<()> {
    let Some(found) = space.witness()? else {
        return Ok(());
    };
    let newest = state.next_ids().chain.saturating_sub(1);
    let distance = found.distance(Witness::of(newest, 0));
    // The chain that it means, if the manifest still names it.
    let meant = newest.checked_add_signed(distance.min(0).into());
    let known = state.chains().find(|(_, chain)| Some(chain.id) == meant);
    let other = known.is_some_and(|(_, chain)| found != Witness::of(chain.id, chain.nonce));
    if distance <= 0 && !other {
        return Ok(());
    }
    Err(Error::corruption(
        "the region knows a chain that the manifest does not: the manifest lost its last edit, or is \
         an older or another copy of the database's",
        space.region().path().display().to_string(),
        Space::witness_offset(),
        format!("chain {newest} or one before it"),
        if distance > 0 {
            format!("a chain {distance} later")
        } else {
            "another one".into()
        },
    ))
}

/// Whether a generation takes no more writes: by its floor, or because it is a batch that was staged,
/// which the manifest has named and cut at once.
pub(crate) fn is_sealed(generation: &Generation, floor: Option<u64>) -> bool {
    floor.is_some() || generation.is_staged()
}

/// A generation behind one without a floor was prepared and never used: it has no zone, and no chain
/// but the one it was prepared with. If it has more, the floor was there and is gone.
fn check_floors(
    space: &Space,
    zones: &[Zone],
    state: &State,
    descriptors: &[Descriptor],
) -> Result<()> {
    let mut open: Option<&Descriptor> = None;
    for (id, generation) in state.generations() {
        let used = |chain: &thermocline_version::Chain| {
            chain.base_seqno != 0 || zones.iter().any(|zone| zone.owner == chain.id)
        };
        if let Some(before) = open
            && generation.chains.iter().any(used)
        {
            return Err(corrupt(
                space,
                "the floor of a sealed generation is missing",
                before.floor_at(space),
            ));
        }
        let own = descriptors.iter().find(|d| d.generation == *id);
        open = open.or(own.filter(|d| !is_sealed(generation, d.floor)));
    }
    Ok(())
}

/// The zones of a chain, none of which is missing.
fn own_zones(space: &Space, zones: &[Zone], chain: u64) -> Result<Vec<Zone>> {
    let own = zones.iter().copied().filter(|zone| zone.owner == chain);
    let own: Vec<Zone> = own.collect();
    let hole = own
        .iter()
        .zip(0..)
        .find(|(z, ordinal)| z.ordinal != *ordinal);
    match hole {
        Some((zone, _)) => Err(corrupt(space, "a zone of a chain is missing", zone.data)),
        None => Ok(own),
    }
}

/// The zone in which a chain begins at `at`.
fn zone_at<'z>(space: &Space, zones: &'z [Zone], at: u64) -> Result<(PmOff, &'z Zone)> {
    let zone = zones.iter().find(|z| z.data.0 <= at && at < z.end.0);
    let missing = || corrupt(space, "the first zone of a chain is missing", PmOff(at));
    Ok((PmOff(at), zone.ok_or_else(missing)?))
}

/// Groups the manifest's chains by incarnation and finds their segments.
fn plan(
    db_id: &[u8; 16],
    space: &Space,
    zones: &[Zone],
    state: &State,
    descriptors: &[Descriptor],
    loaded: Option<&Loaded>,
) -> Result<Vec<(u64, Incarnation)>> {
    let mut all: Vec<(u64, Incarnation)> = Vec::new();
    let mut current = None;
    for (generation, entry) in state.chains() {
        let own = own_zones(space, zones, entry.id)?;
        // What was loaded lies elsewhere than what was written.
        let start = match loaded {
            None => entry.start,
            Some(loaded) => loaded.starts.get(&entry.id).copied(),
        };
        let start = start.map(|at| zone_at(space, zones, at)).transpose()?;
        let (incarnation, nonce, base) = (entry.incarnation, entry.nonce, entry.base_seqno);
        let is_last_chain = state.generations()[&generation]
            .chains
            .last()
            .is_some_and(|c| c.id == entry.id);
        let floor = descriptors
            .iter()
            .find(|d| d.generation == generation)
            .and_then(|d| d.floor)
            .filter(|_| is_last_chain);
        let chain = Chain::new(db_id, entry.id, incarnation, nonce, base);
        let plan = ChainPlan {
            chain: if entry.staged { chain.staged() } else { chain },
            segments: ChainPlan::segments(start, &own),
            cut: entry.cut.map(|cut| cut.last_seqno),
            floor,
        };
        if current != Some(incarnation) {
            current = Some(incarnation);
            let empty = Incarnation {
                generations: Vec::new(),
                plans: Vec::new(),
                walk: WalkOutcome::default(),
            };
            all.push((base.max(1), empty));
        }
        if let Some((_, incarnation)) = all.last_mut() {
            incarnation.generations.push(generation);
            incarnation.plans.push(plan);
        }
    }
    Ok(all)
}

#[cold]
fn corrupt(space: &Space, what: &str, at: PmOff) -> Error {
    Error::corruption(
        what,
        space.region().path().display().to_string(),
        at.0,
        "what the manifest names",
        "something else",
    )
}

impl Found {
    /// The chain ends with their generation and plan, oldest first.
    pub fn chains(&self) -> impl Iterator<Item = (u64, &ChainPlan, &ChainEnd)> {
        self.incarnations.iter().flat_map(|i| {
            i.generations
                .iter()
                .zip(&i.plans)
                .zip(&i.walk.chains)
                .map(|((generation, plan), end)| (*generation, plan, end))
        })
    }

    /// Where the records of each chain lie, oldest first.
    pub fn trails(&self) -> Vec<Trail> {
        let mut before = 0;
        let trail = |(generation, plan, end): (u64, &ChainPlan, &ChainEnd)| {
            // A chain that follows another begins behind it.
            let base = match plan.chain.base {
                0 => before + 1,
                base => base,
            };
            before = end.last_seqno;
            let chain = Chain { base, ..plan.chain };
            let segments = plan.segments.clone();
            Trail::complete(generation, chain, segments, end.end, end.last_seqno)
        };
        self.chains().map(trail).collect()
    }

    /// The unused rest of the zones of `generation` where a new chain may begin: the largest.
    pub fn rest_of(&self, generation: u64) -> Option<Segment> {
        let mut rest: Vec<Segment> = Vec::new();
        for (_, plan, end) in self.chains().filter(|(g, _, _)| *g == generation) {
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

    /// The memtables of all generations, without indexes.
    pub fn shells(
        &self,
        space: &Space,
        generations: &[u64],
        new: Option<(u64, Chain)>,
    ) -> Result<Vec<Memtable>> {
        let mut chains: BTreeMap<u64, Vec<Chain>> = BTreeMap::new();
        let mut before = 0;
        for (generation, plan, end) in self.chains() {
            // A chain that follows another begins behind it.
            let base = if plan.chain.base == 0 {
                before + 1
            } else {
                plan.chain.base
            };
            chains
                .entry(generation)
                .or_default()
                .push(Chain { base, ..plan.chain });
            before = end.last_seqno;
        }
        if let Some((generation, chain)) = new {
            chains.entry(generation).or_default().push(chain);
        }
        let shell = |&generation: &u64| {
            let chains = chains
                .remove(&generation)
                .ok_or_else(|| corrupt(space, "a generation has no chain", PmOff(0)))?;
            Ok(Memtable::new(space.region().clone(), generation, chains))
        };
        generations.iter().map(shell).collect()
    }

    /// Rebuilds the memtable of every generation that stays; `families` are those whose records are
    /// indexed, by so many threads, for whoever reads at `moments`. Generations that were flushed are not indexed: no view will have them, and DRAM may not
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
        let shells = self.shells(space, staying.generations, Some(staying.active))?;
        let shells = shells.into_iter();
        let all: Vec<Memtable> = shells.map(|m| m.charged_to(account)).collect();
        let is_flushed = |m: &Memtable| m.generation() != newest && m.base().0 <= staying.flushed;
        let mut stretches: Vec<Stretch<'_>> = Vec::new();
        for (generation, _, end) in self.chains() {
            let Some(memtable) = all.iter().find(|m| m.generation() == generation) else {
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
        let records = replay(&stretches, threads, moments, |at, cf, key| {
            families.admits(space, at, cf, key)
        })?;
        drop(stretches);
        for memtable in all.iter().filter(|m| m.generation() != newest) {
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

    /// The cuts of the last incarnation's chains that have none, except of generations that go.
    pub fn cuts(&self, dropped: &[u64]) -> Vec<Change> {
        self.chains()
            .filter(|(generation, plan, _)| plan.cut.is_none() && !dropped.contains(generation))
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
