//! From manifest and region back to memtables (`docs/durability.md`). See the crate documentation for the order
//! of what recovery makes durable.
//! What is only readable is made durable first (`keep`).

pub(crate) mod found;
mod keep;

use std::collections::BTreeMap;

use thermocline_base::planted::{Bug, active};
use thermocline_base::{Error, Result};
use thermocline_halloc::{Space, Witness, Zone};
use thermocline_memtable::{Chain, ChainPlan, Descriptor, WalkOutcome, walk_incarnation};
use thermocline_pm::{PmOff, RegionKind};
use thermocline_version::{MemtableEntry, State};

use crate::wal::Loaded;
use found::{Found, Incarnation, corrupt};

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
pub(crate) fn check_owners(space: &Space, state: &State) -> Result<()> {
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
/// was granted to that chain yet. So opens that are killed there, one after the other, leave it several behind, of which
/// each is of another incarnation. Writes nothing, and comes before anything is changed.
pub(crate) fn check_witness(space: &Space, state: &State) -> Result<()> {
    let Some(found) = space.witness()? else {
        // One in DRAM begins anew with each open: its logs say as much of themselves (`wal::claim`).
        return match space.region().kind() == RegionKind::Dram {
            true => Ok(()),
            false => check_unwitnessed(space, state, 0),
        };
    };
    let newest = state.next_ids().chain.saturating_sub(1);
    let distance = found.distance(Witness::of(newest, 0));
    // The chain that it means, if the manifest still names it.
    let meant = newest.checked_add_signed(distance.min(0).into());
    let known = state.chains().find(|(_, chain)| Some(chain.id) == meant);
    let other = known.is_some_and(|(_, chain)| found != Witness::of(chain.id, chain.nonce));
    if distance <= 0 && !other {
        return meant.map_or(Ok(()), |known| check_unwitnessed(space, state, known));
    }
    Err(Error::corruption(
        "the region knows a chain that the manifest does not: the manifest lost its last edit, or is \
         an older or another copy of the database's",
        space.region().path().display().to_string(),
        Space::witness_offset(),
        format!("chain {newest} or one before it"),
        if distance > 0 {
            // By its number: of two that come one after the other each is one later.
            format!("chain {}", newest.saturating_add_signed(distance.into()))
        } else {
            "another one".into()
        },
    ))
}

/// No incarnation names a chain before the region knows the one before. So where the region knows neither of two chains of
/// one, it is an older copy of itself, without what was written since: of an incarnation that was not sealed nothing else
/// might tell that. A batch that is staged is no exception: the region knows its chain before it is named, and it is named together
/// with the one behind it. `known` is the newest chain that the region knows, or 0, which is no chain's: then it knows none, as before
/// the first write.
fn check_unwitnessed(space: &Space, state: &State, known: u64) -> Result<()> {
    let mut before = None;
    for (_, chain) in state.chains().filter(|(_, chain)| chain.id > known) {
        if before.replace(chain.incarnation) == Some(chain.incarnation) {
            return Err(Error::corruption(
                "the region does not know chains that the manifest names: it is an older copy of the database's \
                 region",
                space.region().path().display().to_string(),
                Space::witness_offset(),
                format!("chain {} or the one before it", chain.id),
                match known {
                    0 => "none".to_string(),
                    known => format!("chain {known}"),
                },
            ));
        }
    }
    Ok(())
}

/// Whether a memtable takes no more writes: by its floor, or because it is a batch that was staged,
/// which the manifest has named and cut at once.
pub(crate) fn is_sealed(memtable: &MemtableEntry, floor: Option<u64>) -> bool {
    floor.is_some() || memtable.is_staged()
}

/// A memtable behind one without a floor was prepared and never used: it has no zone, and no chain
/// but the one it was prepared with. If it has more, the floor was there and is gone.
fn check_floors(
    space: &Space,
    zones: &[Zone],
    state: &State,
    descriptors: &[Descriptor],
) -> Result<()> {
    let mut open: Option<&Descriptor> = None;
    for (id, memtable) in state.memtables() {
        let used = |chain: &thermocline_version::Chain| {
            chain.base_seqno != 0 || !Zone::of_owner(zones, chain.id).is_empty()
        };
        if let Some(before) = open
            && memtable.chains.iter().any(used)
        {
            return Err(corrupt(
                space,
                "the floor of a sealed memtable is missing",
                before.floor_at(space),
            ));
        }
        let own = descriptors.iter().find(|d| d.memtable == *id);
        open = open.or(own.filter(|d| !is_sealed(memtable, d.floor)));
    }
    Ok(())
}

/// The zones of a chain, none of which is missing.
fn own_zones<'z>(space: &Space, zones: &'z [Zone], chain: u64) -> Result<&'z [Zone]> {
    let own = Zone::of_owner(zones, chain);
    let hole = own
        .iter()
        .zip(0..)
        .find(|(z, ordinal)| z.ordinal != *ordinal);
    match hole {
        Some((zone, _)) => Err(corrupt(space, "a zone of a chain is missing", zone.data)),
        None => Ok(own),
    }
}

/// The zone in which a chain begins at `at`: it is one of the chains before, which are known by where they begin.
fn zone_at<'z>(
    space: &Space,
    before: &BTreeMap<PmOff, &'z Zone>,
    at: u64,
) -> Result<(PmOff, &'z Zone)> {
    let zone = before.range(..=PmOff(at)).next_back();
    let zone = zone.map(|(_, zone)| *zone).filter(|zone| at < zone.end.0);
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
    let mut before = BTreeMap::new();
    for (memtable, entry) in state.chains() {
        let own = own_zones(space, zones, entry.id)?;
        // What was loaded lies elsewhere than what was written.
        let start = match loaded {
            None => entry.start,
            Some(loaded) => loaded.starts.get(&entry.id).copied(),
        };
        let start = start.map(|at| zone_at(space, &before, at)).transpose()?;
        before.extend(own.iter().map(|zone| (zone.data, zone)));
        let (incarnation, nonce, base) = (entry.incarnation, entry.nonce, entry.base_seqno);
        let is_last_chain = state.memtables()[&memtable]
            .chains
            .last()
            .is_some_and(|c| c.id == entry.id);
        let floor = descriptors
            .iter()
            .find(|d| d.memtable == memtable)
            .and_then(|d| d.floor)
            .filter(|_| is_last_chain);
        let chain = Chain::new(db_id, entry.id, incarnation, nonce, base);
        let plan = ChainPlan {
            chain: if entry.staged { chain.staged() } else { chain },
            segments: ChainPlan::segments(start, own),
            cut: entry.cut.map(|cut| cut.last_seqno),
            floor,
        };
        if current != Some(incarnation) {
            current = Some(incarnation);
            let empty = Incarnation {
                memtables: Vec::new(),
                plans: Vec::new(),
                walk: WalkOutcome::default(),
            };
            all.push((base.max(1), empty));
        }
        if let Some((_, incarnation)) = all.last_mut() {
            incarnation.memtables.push(memtable);
            incarnation.plans.push(plan);
        }
    }
    Ok(all)
}
