//! Zones: large pieces of the region, attached to owners and released in batches.

use std::cell::Cell;

use thermocline_base::checksum::hash64;
use thermocline_base::planted::{Bug, active};
use thermocline_base::size::{format_size, index};
use thermocline_base::sync::{AtomicU64, Mutex, Ordering, lock};
use thermocline_base::{Error, Result};
use thermocline_pm::{PmOff, Region};

use crate::format::{
    self, GENERATION_POOL, META_BYTES_MIN, PartHeader, RegionId, SUPERBLOCK_COPIES, SuperblockCopy,
    WITNESS_COPIES, ZONE_HEADER_BYTES, ZoneHeader, checked_word, damaged, narrow,
    read_checked_word, region_seed,
};
use crate::part::{
    PART_BYTES_MAX, Part, Zone, end_of, read_parts, scan_part, write_part_header, write_parts_word,
    zone, zone_bytes,
};
use crate::pool::{ObjectPool, PoolPlace};
use crate::{SITE_ATTACH, SITE_FORMAT, SITE_META_KEPT, SITE_WITNESS};

/// A part that its device cuts short has at least such a part of the bytes that it should have.
const DEVICE_PART_LEAST: u64 = 8;

const GENERATION_OBJECTS: u32 = 64;
const GENERATION_OBJECT_BYTES: u64 = 192;

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

/// What a region remembers of the newest chain: the low half of its id and a hash of its nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Witness(u32);

impl Witness {
    /// The witness of a chain.
    pub fn of(chain: u64, nonce: u64) -> Witness {
        let id = u32::try_from(chain & 0xffff).unwrap_or(0);
        let hash = u32::try_from(hash64(&nonce.to_le_bytes()) >> 48).unwrap_or(0);
        Witness(id << 16 | hash)
    }

    /// How many chains this one is newer than `other`; negative if it is older. Ids are compared by
    /// their low 16 bits: two witnesses of one region are never farther apart than a few.
    pub fn distance(self, other: Witness) -> i16 {
        let id = |w: Witness| u16::try_from(w.0 >> 16).unwrap_or(0);
        id(self).wrapping_sub(id(other)).cast_signed()
    }
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
    generations: ObjectPool,
    /// Of all zone headers that the open saw, live or not.
    highest_owner: u64,
    state: Mutex<State>,
    /// Held while the region grows, which takes long; never together with `state` by its waiters.
    growing: Mutex<()>,
}

#[derive(Debug)]
struct State {
    parts: Vec<Part>,
    /// The highest zone generation seen or given.
    generation: u64,
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
        ObjectPool::format(&region, seed, generation_pool())?;
        write_parts_word(&region, seed, 1)?;
        // The superblock last: with it the region is one.
        for at in SUPERBLOCK_COPIES {
            // SAFETY: the region is being made; nobody reads it yet.
            unsafe { region.write(PmOff(at), &format::encode_superblock(id)) };
            region.persist(PmOff(at), 64, SITE_FORMAT)?;
        }
        let generations = ObjectPool::open(&region, seed, generation_pool())?;
        let state = State {
            parts: vec![Part::new(header)],
            generation: 0,
        };
        Ok(Space {
            region,
            seed,
            part_bytes_first: spec.part_bytes_first,
            pm: AtomicU64::new(spec.pm),
            device: [AtomicU64::new(u64::MAX), AtomicU64::new(0)],
            generations,
            highest_owner: 0,
            state: Mutex::new(state),
            growing: Mutex::new(()),
        })
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
    /// live zones, by owner and ordinal.
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
                "two zones claim the same place of one owner",
                region.path().display().to_string(),
                pair[1].data.0,
                format!("one zone {} of owner {}", pair[0].ordinal, pair[0].owner),
                "two",
            ));
        }
        let generations = ObjectPool::open(&region, seed, generation_pool())?;
        let state = Mutex::new(State { parts, generation });
        let space = Space {
            region,
            seed,
            part_bytes_first: spec.part_bytes_first,
            pm: AtomicU64::new(spec.pm),
            device: [AtomicU64::new(u64::MAX), AtomicU64::new(0)],
            generations,
            highest_owner: highest_owner.get(),
            state,
            growing: Mutex::new(()),
        };
        Ok((space, zones))
    }

    /// From now on the region grows to at most `pm` bytes. What it has beyond that it keeps.
    pub fn set_limit(&self, pm: u64) {
        self.pm.store(pm, Ordering::Relaxed);
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

    /// The pool of generation descriptors.
    pub fn generations(&self) -> &ObjectPool {
        &self.generations
    }

    /// Attaches a zone with at least `min_bytes` for data to `owner`, as its `ordinal`-th. The
    /// attachment is durable on return (invariant 1). Grows the region where needed.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] naming the region and its size; a failed persist.
    pub fn attach(
        &self,
        owner: u64,
        ordinal: u32,
        min_bytes: u64,
        reserve: Reserve,
    ) -> Result<Zone> {
        loop {
            if let Some(zone) = self.try_attach(owner, ordinal, min_bytes, reserve)? {
                return Ok(zone);
            }
            let before = self.region_bytes();
            if !self.grow(before)? {
                return Err(self.full(min_bytes));
            }
        }
    }

    fn try_attach(
        &self,
        owner: u64,
        ordinal: u32,
        min_bytes: u64,
        reserve: Reserve,
    ) -> Result<Option<Zone>> {
        let mut locked = lock(&self.state);
        let state = &mut *locked;
        let free: usize = state.parts.iter().map(|p| p.free).sum();
        let found = state.parts.iter().enumerate().find_map(|(p, part)| {
            if part.free == 0 {
                return None;
            }
            part.find(min_bytes).map(|(first, run)| (p, first, run))
        });
        let Some((p, first, run)) = found else {
            return Ok(None);
        };
        if reserve == Reserve::Keep && free - run < 1 {
            return Ok(None);
        }
        let generation = state.generation.checked_add(1);
        let generation =
            generation.ok_or_else(|| damaged("a zone generation", self.region.path(), 0))?;
        let header = ZoneHeader {
            owner,
            generation,
            ordinal,
            run: narrow(run as u64)?,
        };
        let part = &mut state.parts[p];
        let at = part.header_at(first);
        let block = header.encode(self.seed, at);
        // One copy after the other, so that a torn write leaves the other one whole.
        for copy in [at, at.plus(64)] {
            // SAFETY: headers are read by an open alone, before it attaches any zone.
            unsafe { self.region.write(copy, &block) };
            self.region.persist(copy, 64, SITE_ATTACH)?;
        }
        let present = part.take_present(first, run);
        let zone = zone(part, first, &header)?;
        state.generation = generation;
        drop(locked);
        if !present {
            self.region
                .populate(zone.data, zone.end.0 - zone.data.0, true);
        }
        Ok(Some(zone))
    }

    /// Whether the `zones` free zones that will be attached next could not all be filled without page
    /// faults.
    pub fn wants_presence(&self, zones: u64) -> bool {
        let state = lock(&self.state);
        let free = state.parts.iter().flat_map(Part::free_zones);
        free.take(index(zones)).any(|(_, present)| !present)
    }

    /// Asks for the pages of the `zones` free zones that will be attached next, so that whoever fills
    /// them meets no page faults.
    pub fn populate_ahead(&self, zones: u64) {
        let wanted: Vec<(usize, usize, (PmOff, u64))> = {
            let state = lock(&self.state);
            let free = (0..).zip(&state.parts).flat_map(|(p, part)| {
                let zones = part.free_zones();
                zones.map(move |(i, present)| (p, i, part.span(i), present))
            });
            let next = free.take(index(zones));
            next.filter_map(|(p, i, span, present)| (!present).then_some((p, i, span)))
                .collect()
        };
        for (p, i, (at, bytes)) in wanted {
            self.region.populate(at, bytes, true);
            // Attached meanwhile, perhaps: then so much the better. Or given back.
            if let Some(part) = lock(&self.state).parts.get_mut(p) {
                part.present[i] = true;
            }
        }
    }

    /// Frees zones whose owner the manifest no longer names, durably. Nobody may hold their bytes.
    pub fn release(&self, zones: &[Zone]) {
        let mut state = lock(&self.state);
        for zone in zones {
            let part = &mut state.parts[zone.part as usize];
            for taken in &mut part.taken[zone.first as usize..][..zone.run as usize] {
                assert!(*taken, "a zone is released twice");
                *taken = false;
            }
            part.free += zone.run as usize;
        }
    }

    /// The error for `bytes` more that do not fit.
    #[cold]
    pub fn full(&self, bytes: u64) -> Error {
        let usage = self.usage();
        let limit = self.limit();
        let way_out = match self.reachable() < limit {
            false => "raise pm, or delete and compact".to_string(),
            true => format!(
                "it has {} and may have {}, but its disk must keep room for flushing and compaction: make room \
                 there, or delete and compact (if that does not do, raise pm)",
                format_size(usage.region_bytes),
                format_size(limit)
            ),
        };
        Error::OutOfSpace(format!(
            "persistent memory region {} is full: {} of {} in use, and {} more with one zone in \
             reserve do not fit; {way_out}",
            self.region.path().display(),
            format_size(usage.attached_bytes),
            format_size(usage.limit_bytes),
            format_size(bytes)
        ))
    }

    /// Whether the zone that is kept back has been taken, and the region has reached its limit.
    pub fn reserve_taken(&self) -> bool {
        let state = lock(&self.state);
        state.parts.iter().all(|p| p.free == 0) && self.next_part(&state).is_none()
    }

    /// Whether a zone with `min_bytes` for data can be attached without the one that is kept back,
    /// if the device has room for growth.
    pub fn has_room(&self, min_bytes: u64) -> bool {
        let state = lock(&self.state);
        let free: usize = state.parts.iter().map(|p| p.free).sum();
        let found = state.parts.iter().find_map(|part| part.find(min_bytes));
        found.is_some_and(|(_, run)| free > run) || self.next_part(&state).is_some()
    }

    /// Whether [`Space::attach`] would find a zone with `min_bytes` for data without growing the
    /// region.
    pub fn has_room_now(&self, min_bytes: u64, reserve: Reserve) -> bool {
        let state = lock(&self.state);
        let free: usize = state.parts.iter().map(|p| p.free).sum();
        let found = state.parts.iter().find_map(|part| part.find(min_bytes));
        let spare = |run| match reserve {
            Reserve::Keep => free > run,
            Reserve::Use => true,
        };
        found.is_some_and(|(_, run)| spare(run))
    }

    /// Whether the region can still grow.
    pub fn can_grow(&self) -> bool {
        self.next_part(&lock(&self.state)).is_some()
    }

    /// Whether `bytes` bytes in all could be attached, in however many zones, without the one that is
    /// kept back, if the device has room for growth.
    pub fn could_hold(&self, bytes: u64) -> bool {
        let usage = self.usage();
        let growth = usage.limit_bytes.saturating_sub(usage.region_bytes);
        usage.zones_free + growth / META_BYTES_MIN > 1 && usage.free_bytes + growth > bytes
    }

    /// Whether fewer than `zones` zones are free and the region can still grow.
    pub fn wants_growth(&self, zones: u64) -> bool {
        let state = lock(&self.state);
        let free: usize = state.parts.iter().map(|p| p.free).sum();
        (free as u64) < zones && self.next_part(&state).is_some()
    }

    /// Adds a part, unless somebody did since the region had `seen` bytes. `false` if the region
    /// has reached its limit.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] if the device is full; a failed persist.
    pub fn grow(&self, seen: u64) -> Result<bool> {
        let _growing = lock(&self.growing);
        if self.region_bytes() != seen {
            return Ok(true);
        }
        let next = self.next_part(&lock(&self.state));
        let Some(header) = next else { return Ok(false) };
        let keep = self.device[1].load(Ordering::Relaxed);
        let end = header.offset + header.bytes;
        self.region.grow_keeping(header.offset, end, keep)?;
        write_part_header(&self.region, self.seed, &header)?;
        write_parts_word(&self.region, self.seed, header.index + 1)?;
        lock(&self.state).parts.push(Part::new(header));
        Ok(true)
    }

    /// Gives parts at the end of the region back to its device, of which no zone is attached, as far as two zones
    /// stay free. Returns how many bytes that were.
    ///
    /// First nobody finds zones there any more, then the part word forgets the parts, durably, then the file is
    /// cut. A crash in between leaves a file that is longer than its parts, as an interrupted growth does. Nobody
    /// may hold bytes of free zones (see [`Space::release`]).
    ///
    /// # Errors
    /// A failed persist. That the file cannot be cut is none: then it stays as long as it is.
    pub fn give_back(&self) -> Result<u64> {
        let _growing = lock(&self.growing);
        if !self.region.can_shrink() {
            return Ok(0);
        }
        let (parts, end, before) = {
            let mut state = lock(&self.state);
            let before = end_of(&state.parts);
            let mut free: usize = state.parts.iter().map(|p| p.free).sum();
            while let [_, .., last] = &state.parts[..]
                && last.free == last.taken.len()
                && free >= last.free + 2
            {
                free -= last.free;
                state.parts.pop();
            }
            (state.parts.len() as u64, end_of(&state.parts), before)
        };
        if end == before {
            return Ok(0);
        }
        write_parts_word(&self.region, self.seed, narrow(parts)?)?;
        // What is left of it is in nobody's way, and is overwritten if the region grows again.
        // SAFETY: its zones are free, so nobody holds bytes of them, and no longer found.
        let _ = unsafe { self.region.shrink(end) };
        Ok(before - end)
    }

    /// Bytes of the region in use as parts.
    pub fn region_bytes(&self) -> u64 {
        end_of(&lock(&self.state).parts)
    }

    fn next_part(&self, state: &State) -> Option<PartHeader> {
        let offset = end_of(&state.parts);
        let last = state
            .parts
            .iter()
            .map(|p| p.header.bytes)
            .max()
            .unwrap_or(0);
        let wanted = (last * 2).clamp(self.part_bytes_first, PART_BYTES_MAX);
        let (limit, reachable) = (self.limit(), self.reachable());
        let bytes =
            |limit: u64| wanted.min(limit.saturating_sub(offset)) / META_BYTES_MIN * META_BYTES_MIN;
        let least = match reachable < limit {
            false => 0,
            // The device may have a little more from time to time: that would be many small parts.
            true => bytes(limit) / DEVICE_PART_LEAST,
        };
        let bytes = bytes(reachable);
        let number = u32::try_from(state.parts.len()).ok()?;
        // A remainder too small for a few zones is not worth a part.
        (bytes >= least.max(4 * META_BYTES_MIN)).then(|| PartHeader {
            offset,
            bytes,
            zone_bytes: zone_bytes(bytes),
            index: number,
        })
    }

    /// Remembers that the manifest names `witness` as its newest chain. Durable on return; to be
    /// called after the edit and before anything is granted to the chain.
    ///
    /// # Errors
    /// A failed persist.
    pub fn set_witness(&self, witness: Witness) -> Result<()> {
        for at in WITNESS_COPIES {
            let word = checked_word(witness.0, self.seed, at);
            // SAFETY: the witness is read and stored as a word alone.
            unsafe { self.region.store_u64(PmOff(at), word, SITE_WITNESS) };
            self.region.persist(PmOff(at), 8, SITE_WITNESS)?;
        }
        Ok(())
    }

    /// Where the witness lies, for messages.
    pub fn witness_offset() -> u64 {
        WITNESS_COPIES[0]
    }

    /// The chain that the region knows as the manifest's newest; `None` if none was ever recorded.
    ///
    /// # Errors
    /// [`Error::Corruption`] if both copies are damaged.
    pub fn witness(&self) -> Result<Option<Witness>> {
        let mut found: Option<Witness> = None;
        let mut blank = true;
        for at in WITNESS_COPIES {
            let word = self.region.load_u64(PmOff(at))?;
            blank &= word == 0;
            if let Some(payload) = read_checked_word(word, self.seed, at) {
                let witness = Witness(payload);
                let newer = found.is_none_or(|other| witness.distance(other) > 0);
                found = if newer { Some(witness) } else { found };
            }
        }
        if found.is_none() && !blank {
            return Err(damaged(
                "the witness word",
                self.region.path(),
                WITNESS_COPIES[0],
            ));
        }
        Ok(found)
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

    /// Makes the headers of `zones` durable again (design §14, rule 3): after a kill, or a failed persist, they
    /// may have been readable without being durable. Both copies are stored again, whatever they read, since a
    /// crash may have come between them: one alone would be one rotten byte from losing the zone.
    ///
    /// # Errors
    /// A failed persist.
    pub fn repersist(&self, zones: &[Zone]) -> Result<()> {
        for zone in zones {
            let at = PmOff(zone.data.0 - ZONE_HEADER_BYTES);
            let block = zone.header().encode(self.seed, at);
            for copy in [at, at.plus(64)] {
                let there = self.region.bytes(copy, 64)? == block;
                if !(there && active(Bug::TrustCacheAfterFailedSync)) {
                    // SAFETY: as where the zone was attached; the comparison above has ended.
                    unsafe { self.region.write(copy, &block) };
                }
                self.region.flush(copy, 64);
            }
        }
        self.region.fence(SITE_ATTACH)
    }
}

fn generation_pool() -> PoolPlace {
    PoolPlace {
        head: GENERATION_POOL,
        objects: 2048,
        object_bytes: GENERATION_OBJECT_BYTES,
        count: GENERATION_OBJECTS,
    }
}

const _: () = assert!(GENERATION_POOL + 64 + 8 * GENERATION_OBJECTS as u64 <= 2048);
const _: () = assert!(2048 + GENERATION_OBJECTS as u64 * GENERATION_OBJECT_BYTES <= META_BYTES_MIN);

fn hex(id: &RegionId) -> String {
    id.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests;
