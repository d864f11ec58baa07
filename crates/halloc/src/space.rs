//! Zones: large pieces of the region, attached to owners and released in batches.

mod growing;
mod growth;
mod pieces;
mod witness;
mod zones;

pub use growth::Lacks;
pub use pieces::Pieces;
pub use witness::Witness;

use std::cell::Cell;

use thermocline_base::limits::MEMTABLES_MAX;
use thermocline_base::planted::{Bug, active};
use thermocline_base::size::index;
use thermocline_base::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};
use thermocline_base::{Error, Result};
use thermocline_pm::{PmOff, Region};

use crate::doubled;
use crate::format::{
    self, DESCRIPTOR_POOL, META_BYTES_MIN, PartHeader, RegionId, SUPERBLOCK_COPIES, SuperblockCopy,
    narrow, region_seed,
};
use crate::part::{
    Part, Zone, end_of, read_parts, scan_part, write_part_header, write_parts_word, zone_bytes,
};
use crate::pool::{ObjectPool, PoolPlace};
use crate::{SITE_FORMAT, SITE_META_KEPT};
use growing::Growing;

const DESCRIPTOR_OBJECTS: u32 = MEMTABLES_MAX;
const DESCRIPTOR_OBJECT_BYTES: u64 = 192;

/// How a space is laid out and limited.
#[derive(Debug, Clone, Copy)]
pub struct SpaceSpec {
    /// Size of the first part of a new region: a power of two.
    pub part_bytes_first: u64,
    /// Most bytes of the region.
    pub pm: u64,
}

/// Whether an attachment may take the zone that is kept back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reserve {
    /// Leave it.
    Keep,
    /// Take it if nothing else is free: deletes and seals.
    Use,
}

/// How much of a region is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpaceUse {
    /// Bytes of the region now.
    pub region_bytes: u64,
    /// Bytes of zones that are attached, headers included.
    pub attached_bytes: u64,
    /// Bytes of zones that are free.
    pub free_bytes: u64,
    /// Zones attached.
    pub zones_attached: u64,
    /// Zones free.
    pub zones_free: u64,
    /// Most bytes the region may have, as far as its device has room for them.
    pub limit_bytes: u64,
}

/// All space of one region.
#[derive(Debug)]
pub struct Space {
    region: Region,
    seed: u64,
    part_bytes_first: u64,
    /// Most bytes that the user allows.
    pm: AtomicU64,
    /// Most bytes that the device has for it, as far as is known, and what growing must leave there.
    device: [AtomicU64; 2],
    /// Whether the device had no room for the growth that was tried last. Relaxed: it guards nothing.
    growth_refused: AtomicBool,
    /// Whether nobody wants growth any more. Relaxed: it guards nothing.
    growth_stopped: AtomicBool,
    /// Bytes of data in the longest run of zones that there can be, once the region is as large as it may be. Stored under
    /// `state`; relaxed, as it guards nothing.
    longest_run: AtomicU64,
    descriptors: ObjectPool,
    /// Of all zone headers that the open saw, live or not.
    highest_owner: u64,
    state: Mutex<State>,
    /// Held while the region grows, which takes long; never together with `state` by its waiters.
    growing: Mutex<Growing>,
}

#[derive(Debug)]
struct State {
    parts: Vec<Part>,
    /// The highest zone generation seen or given.
    generation: u64,
    /// Bytes of data of a run that a write needed and did not wait for; 0 if none is lacking.
    wanted_run: u64,
}

impl Space {
    /// Formats an empty region (its first part exists, zeroed).
    ///
    /// # Errors
    /// A failed persist.
    pub fn create(region: Region, id: &RegionId, spec: SpaceSpec) -> Result<Space> {
        let seed = region_seed(id);
        let header = PartHeader {
            offset: 0,
            bytes: region.len(),
            zone_bytes: zone_bytes(region.len()),
            index: 0,
        };
        write_part_header(&region, seed, &header)?;
        ObjectPool::format(&region, seed, descriptor_pool())?;
        write_parts_word(&region, seed, 1)?;
        // The superblock last: with it the region is one.
        for at in SUPERBLOCK_COPIES {
            // SAFETY: the region is being made; nobody reads it yet.
            unsafe { region.write(PmOff(at), &format::encode_superblock(id)) };
            region.persist(PmOff(at), 64, SITE_FORMAT)?;
        }
        let descriptors = ObjectPool::open(&region, seed, descriptor_pool())?;
        let state = State {
            parts: vec![Part::new(header)],
            generation: 0,
            wanted_run: 0,
        };
        Ok(Space::of(region, (seed, spec), descriptors, 0, state))
    }

    fn of(
        region: Region,
        (seed, spec): (u64, SpaceSpec),
        descriptors: ObjectPool,
        highest_owner: u64,
        state: State,
    ) -> Space {
        let space = Space {
            region,
            seed,
            part_bytes_first: spec.part_bytes_first,
            pm: AtomicU64::new(spec.pm),
            device: [AtomicU64::new(u64::MAX), AtomicU64::new(0)],
            growth_refused: AtomicBool::new(false),
            growth_stopped: AtomicBool::new(false),
            longest_run: AtomicU64::new(0),
            descriptors,
            highest_owner,
            state: Mutex::new(state),
            growing: Mutex::default(),
        };
        space.note_longest_run(&lock(&space.state));
        space
    }

    /// Bytes that a new region must have before [`Space::create`].
    pub fn first_part_bytes(spec: &SpaceSpec) -> u64 {
        spec.part_bytes_first.min(spec.pm)
    }

    /// Reads the id of a region, without opening it further.
    ///
    /// # Errors
    /// [`Error::Corruption`] if it is not a region, or both superblocks are damaged;
    /// [`Error::Unsupported`] if a newer version wrote it.
    pub fn region_id(region: &Region) -> Result<RegionId> {
        let mut newer = None;
        for at in SUPERBLOCK_COPIES {
            if at + 64 > region.len() {
                break;
            }
            match format::decode_superblock(region.bytes(PmOff(at), 64)?) {
                SuperblockCopy::Valid(id) => return Ok(id),
                SuperblockCopy::Newer(version) => newer = Some(version),
                SuperblockCopy::Invalid => {}
            }
        }
        region.check_media()?;
        match newer {
            Some(version) => Err(Error::Unsupported(format!(
                "region {} has format {version}; this version reads up to {}",
                region.path().display(),
                format::FORMAT_VERSION
            ))),
            None => Err(Error::corruption(
                "this is not a Thermocline region, or both its superblocks are damaged",
                region.path().display().to_string(),
                0,
                "a superblock",
                "none",
            )),
        }
    }

    /// Whether a region without a sound superblock has never been formatted: formatting writes the
    /// superblocks last, so an interrupted one leaves them zero or torn, and no zone attached.
    ///
    /// # Errors
    /// A page that cannot be read.
    pub fn is_unformatted(region: &Region) -> Result<bool> {
        let mut torn = true;
        for at in SUPERBLOCK_COPIES {
            if at + 64 <= region.len() {
                torn &= format::may_be_torn_superblock(region.bytes(PmOff(at), 64)?);
            }
        }
        // The part header is the first that formatting makes durable. Without it, and in any case
        // behind what formatting writes, everything is zero.
        let header = format::PART0_HEADER;
        let begun =
            header + 64 <= region.len() && format::has_part_magic(region.bytes(PmOff(header), 64)?);
        let mut at = match begun {
            true => META_BYTES_MIN,
            false => header + 128,
        };
        while torn && at < region.len() {
            let len = (region.len() - at).min(1 << 16);
            torn &= region.bytes(PmOff(at), index(len))?.iter().all(|&b| b == 0);
            at += len;
        }
        region.check_media()?;
        Ok(torn)
    }

    /// Opens a region. `live` says which owners exist; the zones of all others are free. Returns the
    /// live zones, by owner and ordinal. Unless the region is read-only, mends copies that have rotted.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the region belongs to another database, is damaged or cut short.
    pub fn open(
        region: Region,
        id: &RegionId,
        spec: SpaceSpec,
        live: impl Fn(u64) -> bool,
    ) -> Result<(Space, Vec<Zone>)> {
        let found = Space::region_id(&region)?;
        if found != *id {
            return Err(Error::corruption(
                "the region belongs to another database",
                region.path().display().to_string(),
                SUPERBLOCK_COPIES[0],
                hex(id),
                hex(&found),
            ));
        }
        let seed = region_seed(id);
        if !region.is_read_only() && !active(Bug::SkipRepersist) {
            // SAFETY: nothing of it is read, or held by anybody, before the space is open.
            unsafe { region.flush_again(PmOff(0), META_BYTES_MIN.min(region.len())) };
            region.fence(SITE_META_KEPT)?;
        }
        let (mut parts, whole) = read_parts(&region, seed)?;
        if !whole && !region.is_read_only() && !active(Bug::SkipRepersist) {
            // A killed process may have stored word A and not persisted it; what is attached in the
            // part from now on needs it. Word B is stored only after A is durable.
            write_parts_word(&region, seed, narrow(parts.len() as u64)?)?;
        }
        let highest_owner = Cell::new(0);
        let live = |owner| {
            highest_owner.set(highest_owner.get().max(owner));
            live(owner)
        };
        let mut generation = 0;
        let mut zones = Vec::new();
        for part in &mut parts {
            scan_part(&region, seed, part, &live, &mut generation, &mut zones)?;
        }
        region.check_media()?;
        zones.sort_unstable_by_key(|z| (z.owner, z.ordinal));
        if let Some(pair) = zones
            .windows(2)
            .find(|p| p[0].owner == p[1].owner && p[0].ordinal == p[1].ordinal)
        {
            return Err(Error::corruption(
                format!("zone {} of owner {}", pair[1].ordinal, pair[1].owner),
                region.path().display().to_string(),
                pair[1].data.0,
                "one",
                "two",
            ));
        }
        let descriptors = ObjectPool::open(&region, seed, descriptor_pool())?;
        doubled::mend(&region, seed, &parts)?;
        let state = State {
            parts,
            generation,
            wanted_run: 0,
        };
        let space = Space::of(
            region,
            (seed, spec),
            descriptors,
            highest_owner.get(),
            state,
        );
        Ok((space, zones))
    }

    /// The faults that a check has to tell of: copies that have rotted of what lies in the region twice, which are the
    /// superblock and the headers of its parts. Of a region that a manifest names, so that its formatting has ended.
    /// Writes nothing.
    ///
    /// # Errors
    /// [`Error::Corruption`] if neither copy of something is sound any more, or a page cannot be read.
    pub fn rotten_copies(&self) -> Result<Vec<Error>> {
        let state = lock(&self.state);
        let rotten = doubled::rotten(&self.region, self.seed, &state.parts)?;
        Ok(rotten.iter().map(|copy| copy.fault(&self.region)).collect())
    }

    /// From now on the region grows to at most `pm` bytes. What it has beyond that it keeps.
    pub fn set_limit(&self, pm: u64) {
        let state = lock(&self.state);
        self.pm.store(pm, Ordering::Relaxed);
        self.note_longest_run(&state);
    }

    /// Most bytes that the region may have.
    pub fn limit(&self) -> u64 {
        // Relaxed: a number that guards nothing.
        let pm = self.pm.load(Ordering::Relaxed);
        pm.min(self.region.capacity())
    }

    /// From now on the region grows to at most `most` bytes, because its device has no more for it, and only if
    /// `keep` bytes are left there. What it has beyond that it keeps, unless it is asked to [give it
    /// back](Space::give_back).
    pub fn set_device_limit(&self, most: u64, keep: u64) {
        self.device[0].store(most, Ordering::Relaxed);
        self.device[1].store(keep, Ordering::Relaxed);
    }

    /// Most bytes that the region can have just now.
    fn reachable(&self) -> u64 {
        self.limit().min(self.device[0].load(Ordering::Relaxed))
    }

    /// The region.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The highest id of an owner to whom a zone was ever attached, as far as the open saw headers.
    pub fn highest_owner(&self) -> u64 {
        self.highest_owner
    }

    /// The pool of memtable descriptors.
    pub fn descriptors(&self) -> &ObjectPool {
        &self.descriptors
    }

    /// Bytes of the region in use as parts.
    pub fn region_bytes(&self) -> u64 {
        end_of(&lock(&self.state).parts)
    }

    /// How much is used.
    pub fn usage(&self) -> SpaceUse {
        let state = lock(&self.state);
        let mut usage = SpaceUse {
            region_bytes: end_of(&state.parts),
            limit_bytes: self.limit(),
            ..SpaceUse::default()
        };
        usage.limit_bytes = self
            .reachable()
            .max(usage.region_bytes)
            .min(usage.limit_bytes);
        for part in &state.parts {
            let free = part.free as u64;
            let taken = part.taken.len() as u64 - free - u64::from(part.header.index == 0);
            usage.zones_free += free;
            usage.free_bytes += free * part.header.zone_bytes;
            usage.zones_attached += taken;
            usage.attached_bytes += taken * part.header.zone_bytes;
        }
        usage
    }
}

fn descriptor_pool() -> PoolPlace {
    PoolPlace {
        head: DESCRIPTOR_POOL,
        objects: 2048,
        object_bytes: DESCRIPTOR_OBJECT_BYTES,
        count: DESCRIPTOR_OBJECTS,
    }
}

const _: () = assert!(DESCRIPTOR_POOL + 64 + 8 * DESCRIPTOR_OBJECTS as u64 <= 2048);
const _: () = assert!(2048 + DESCRIPTOR_OBJECTS as u64 * DESCRIPTOR_OBJECT_BYTES <= META_BYTES_MIN);

fn hex(id: &RegionId) -> String {
    id.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests;
