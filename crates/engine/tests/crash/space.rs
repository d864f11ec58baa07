//! Space: what is used is what live chains and tables own, once.

use std::collections::BTreeSet;

use thermocline_base::options::RegionDemand;
use thermocline_halloc::{Space, SpaceSpec, SpaceUse, ZONE_HEADER_BYTES};
use thermocline_memtable::Descriptor;
use thermocline_pm::{Emulation, Place, Region, RegionSpec};
use thermocline_version::Manifest;

use crate::check::{Verdict, say};
use crate::life::{Life, PM, dir};

pub fn region_spec(life: &Life, read_only: bool) -> RegionSpec {
    RegionSpec {
        env: life.world().env,
        place: Place::Sim(life.pm.clone()),
        demand: RegionDemand::Any,
        capacity: PM,
        emulation: Emulation::None,
        read_only,
    }
}

pub const SPACE: SpaceSpec = SpaceSpec {
    part_bytes_first: 256 << 10,
    pm: PM,
};

/// Of a closed store: zones belong to chains and tables that exist, do not overlap, and are all that is used;
/// every memtable has one descriptor and none is leaked.
pub fn space_is_sound(life: &Life, used: SpaceUse) -> Verdict<()> {
    let storage = life.world().env.storage;
    let (_, state) = Manifest::open(storage, dir(), true).map_err(say("the manifest"))?;
    let region = Region::open(&region_spec(life, true)).map_err(say("the region"))?;
    let (Some(db_id), Some(region_id)) = (state.db_id(), state.region_id()) else {
        return Err("no ids".into());
    };
    let chains = state.chains().map(|(_, chain)| chain.id);
    let tables = state
        .version()
        .pm_tables()
        .map(|(table, _)| table.meta.owner);
    let live: BTreeSet<u64> = chains.chain(tables).collect();
    let (space, mut zones) = Space::open(region, &region_id, SPACE, |owner| live.contains(&owner))
        .map_err(say("the space"))?;
    zones.sort_by_key(|zone| zone.data);
    let mut bytes = 0;
    let mut end = 0;
    for zone in &zones {
        let start = zone.data.0 - ZONE_HEADER_BYTES;
        if start < end {
            return Err(format!("{zone:?} overlaps the zone before"));
        }
        end = zone.end.0;
        // The first zone of a later part gives some bytes to the part's header.
        bytes += (end - start).next_multiple_of(16 << 10);
    }
    if bytes != used.attached_bytes {
        return Err(format!(
            "live chains and tables {live:?} own {bytes} bytes in {zones:?}, used are {used:?}"
        ));
    }
    let pool = space.descriptors();
    let descriptors = Descriptor::read_all(&space, &db_id).map_err(say("the descriptors"))?;
    let mut described: Vec<u64> = descriptors.iter().map(|d| d.memtable).collect();
    described.sort_unstable();
    let named: Vec<u64> = state.memtables().keys().copied().collect();
    if described != named || pool.free() + named.len() != 64 {
        return Err(format!(
            "memtables {named:?}, descriptors {described:?}, {} free",
            pool.free()
        ));
    }
    Ok(())
}
