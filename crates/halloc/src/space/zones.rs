//! Zones: attached to owners, released, made durable again.

use thermocline_base::planted::{Bug, active};
use thermocline_base::sync::lock;
use thermocline_base::{Error, Result, Site};
use thermocline_pm::PmOff;

use super::{Reserve, Space, State};
use crate::format::{ZONE_HEADER_BYTES, ZoneHeader, damaged, narrow};
use crate::part::{Part, Zone, last_header, zone as zone_of};
use crate::{SITE_ATTACH, SITE_WIDEN};

/// What to look for in a part: the first of the zones that are found, and how many they are.
type Way<'a> = &'a dyn Fn(&Part) -> Option<(usize, usize)>;

/// What the first part has in which something is found: its place among the parts, the first zone of a run, and how many.
/// `None`, too, where that would take the zone that is to be kept back.
pub(super) fn place(
    parts: &[Part],
    reserve: Reserve,
    find: impl Fn(&Part) -> Option<(usize, usize)>,
) -> Option<(usize, usize, usize)> {
    let free: usize = parts.iter().map(|p| p.free).sum();
    let mut some_free = parts.iter().enumerate().filter(|(_, part)| part.free > 0);
    let (p, (first, run)) = some_free.find_map(|(p, part)| Some((p, find(part)?)))?;
    (reserve == Reserve::Use || free > run).then_some((p, first, run))
}

/// Zones that lie side by side, a sixteenth of the part, and more where `min_bytes` for data need it.
pub(super) fn find_wide(part: &Part, min_bytes: u64) -> Option<(usize, usize)> {
    part.find(min_bytes.max(part.wide_bytes()))
}

/// The free zones from `behind` on that make the one before wider by a sixteenth of the part, if so many are free, and else as
/// many as `min_bytes` for data need; `left` bytes of it are not filled. No more than `most`.
pub(super) fn find_sixteenth_behind(
    part: &Part,
    behind: usize,
    (left, min_bytes): (u64, u64),
    most: usize,
) -> Option<(usize, usize)> {
    let wide = min_bytes.max(left.saturating_add(part.wide_bytes()));
    let found = part.find_behind(behind, (left, wide), most);
    found.or_else(|| part.find_behind(behind, (left, min_bytes), most))
}

impl Space {
    /// Attaches a zone with at least `min_bytes` for data to `owner`, as its `ordinal`-th. The
    /// attachment is durable on return (invariant 1). Grows the region where needed.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] naming the region and its size; [`Error::Closed`] if it would have to grow behind
    /// [`Space::stop_growth`]; a failed persist.
    pub fn attach(
        &self,
        owner: u64,
        ordinal: u32,
        min_bytes: u64,
        reserve: Reserve,
    ) -> Result<Zone> {
        let find = |part: &Part| part.find(min_bytes);
        self.attach_found((owner, ordinal), min_bytes, reserve, &[&find])
    }

    /// As [`Space::attach`], but takes several zones that lie side by side, a sixteenth of a part, where there are: for owners
    /// whose items are so large that they leave much of a single one unused.
    ///
    /// # Errors
    /// As [`Space::attach`].
    pub fn attach_wide(
        &self,
        owner: u64,
        ordinal: u32,
        min_bytes: u64,
        reserve: Reserve,
    ) -> Result<Zone> {
        let find = |part: &Part| part.find(min_bytes);
        let wide = |part: &Part| find_wide(part, min_bytes);
        self.attach_found((owner, ordinal), min_bytes, reserve, &[&wide, &find])
    }

    /// Attaches what the first of these ways finds; grows the region where none finds anything.
    pub(super) fn attach_found(
        &self,
        (owner, ordinal): (u64, u32),
        min_bytes: u64,
        reserve: Reserve,
        ways: &[Way<'_>],
    ) -> Result<Zone> {
        loop {
            // Before anything is looked for: in a part that somebody else adds meanwhile it is looked for, too.
            let before = self.region_bytes();
            for find in ways {
                if let Some(zone) = self.try_attach(owner, ordinal, reserve, find)? {
                    return Ok(zone);
                }
            }
            match self.grow(before) {
                Ok(true) => {}
                Ok(false) => return Err(self.full(min_bytes)),
                Err(Error::OutOfSpace(why)) => return Err(self.full_for(min_bytes, &why)),
                Err(error) => return Err(error),
            }
        }
    }

    /// Attaches what the first part has in which something is found: the first zone of a run, and how many.
    fn try_attach(
        &self,
        owner: u64,
        ordinal: u32,
        reserve: Reserve,
        find: impl Fn(&Part) -> Option<(usize, usize)>,
    ) -> Result<Option<Zone>> {
        let mut locked = lock(&self.state);
        let state = &mut *locked;
        let Some((p, first, run)) = place(&state.parts, reserve, find) else {
            return Ok(None);
        };
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
        self.write_header(part.header_at(first), &header, SITE_ATTACH)?;
        let present = part.take_present(first, run);
        let zone = zone_of(part, first, &header)?;
        state.generation = generation;
        drop(locked);
        if !present {
            self.region
                .populate(zone.data, zone.end.0 - zone.data.0, true);
        }
        Ok(Some(zone))
    }

    /// Writes the header of a zone, or run of zones, durably. `at` is where copy A lies.
    fn write_header(&self, at: PmOff, header: &ZoneHeader, site: Site) -> Result<()> {
        let block = header.encode(self.seed, at);
        // One copy after the other, so that a torn write leaves the other one whole.
        for copy in [at, at.plus(64)] {
            // SAFETY: headers are read by an open alone, before it attaches any zone.
            unsafe { self.region.write(copy, &block) };
            self.region.persist(copy, 64, site)?;
        }
        Ok(())
    }

    /// Attaches the free zones right behind `zone` to its owner, too, as a part of it, so that `min_bytes` for data fit
    /// behind what its owner has filled; `left` bytes of it are not filled yet. That is durable on return (invariant 1).
    /// Returns the zone as it is now, with the generation that it had; `None` if there are no such zones, one of them was
    /// attached to somebody later than `zone`, or too little is left to be worth it. `zone` must be as it was attached or
    /// returned here last.
    ///
    /// # Errors
    /// A failed persist.
    pub fn widen(
        &self,
        zone: &Zone,
        left: u64,
        min_bytes: u64,
        reserve: Reserve,
    ) -> Result<Option<Zone>> {
        self.widen_found(zone, reserve, |part, most| {
            part.find_behind(zone.behind(), (left, min_bytes), most)
        })
    }

    /// As [`Space::widen`], but takes a sixteenth of a part, where so many zones are free: for owners of
    /// [`Space::attach_wide`].
    ///
    /// # Errors
    /// As [`Space::widen`].
    pub fn widen_by_sixteenth(
        &self,
        zone: &Zone,
        left: u64,
        min_bytes: u64,
        reserve: Reserve,
    ) -> Result<Option<Zone>> {
        self.widen_found(zone, reserve, |part, most| {
            find_sixteenth_behind(part, zone.behind(), (left, min_bytes), most)
        })
    }

    /// Whether [`Space::widen_by_sixteenth`] would make the zone wider.
    pub fn can_widen(&self, zone: &Zone, left: u64, min_bytes: u64, reserve: Reserve) -> bool {
        let found = self.found_behind(&lock(&self.state), zone, reserve, |part, most| {
            find_sixteenth_behind(part, zone.behind(), (left, min_bytes), most)
        });
        // What cannot be read there is told to whoever makes it wider.
        found.is_ok_and(|found| found.is_some())
    }

    /// Makes a zone wider by what is found in its part, of which no more than so many zones may be taken.
    fn widen_found(
        &self,
        zone: &Zone,
        reserve: Reserve,
        find: impl Fn(&Part, usize) -> Option<(usize, usize)>,
    ) -> Result<Option<Zone>> {
        let mut locked = lock(&self.state);
        let Some((first, more)) = self.found_behind(&locked, zone, reserve, find)? else {
            return Ok(None);
        };
        let part = &mut locked.parts[zone.part as usize];
        let header = ZoneHeader {
            run: narrow(u64::from(zone.run) + more as u64)?,
            ..zone.header()
        };
        self.write_header(part.header_at(zone.first as usize), &header, SITE_WIDEN)?;
        let present = part.take_present(first, more);
        let wider = zone_of(part, zone.first as usize, &header)?;
        drop(locked);
        if !present {
            self.region
                .populate(zone.end, wider.end.0 - zone.end.0, true);
        }
        Ok(Some(wider))
    }

    /// The first of the zones that would make a zone wider, and how many, as they are found in its part.
    fn found_behind(
        &self,
        state: &State,
        zone: &Zone,
        reserve: Reserve,
        find: impl Fn(&Part, usize) -> Option<(usize, usize)>,
    ) -> Result<Option<(usize, usize)>> {
        let free: usize = state.parts.iter().map(|part| part.free).sum();
        let most = match reserve {
            Reserve::Use => free,
            Reserve::Keep => free.saturating_sub(1),
        };
        let part = &state.parts[zone.part as usize];
        let Some((first, more)) = find(part, most) else {
            return Ok(None);
        };
        // An open sees no header within a run, so the highest generation may not lie there (invariant 2).
        for behind in first..first + more {
            let last = last_header(&self.region, self.seed, part, behind)?;
            if last.is_some_and(|last| last.generation > zone.generation) {
                return Ok(None);
            }
        }
        Ok(Some((first, more)))
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

    /// Makes the headers of `zones` durable again (rule 3 of recovery): after a kill, or a failed persist, they
    /// may have been readable without being durable. Both copies are stored again, whatever they read, since a
    /// crash may have come between them: one alone would be one rotten byte from losing the zone.
    ///
    /// Where the copies differ, the first may not be durable: who made a zone wider was killed behind its store. Another
    /// crash may tear it then, and only the second one has the zone, with all that was acknowledged in it. So that one
    /// is stored when the first is durable.
    ///
    /// # Errors
    /// A failed persist.
    pub fn repersist(&self, zones: &[Zone]) -> Result<()> {
        let headers = zones.iter().map(|zone| {
            let at = PmOff(zone.data.0 - ZONE_HEADER_BYTES);
            (at, zone.header().encode(self.seed, at))
        });
        let mut differ = false;
        for (at, block) in headers.clone() {
            differ |= self.region.bytes(at.plus(64), 64)? != block;
            self.store_again(at, &block)?;
        }
        if differ {
            self.region.fence(SITE_ATTACH)?;
        }
        for (at, block) in headers {
            self.store_again(at.plus(64), &block)?;
        }
        self.region.fence(SITE_ATTACH)
    }

    /// Stores a copy of a zone's header, whether or not it reads so, and flushes it.
    fn store_again(&self, copy: PmOff, block: &[u8]) -> Result<()> {
        let there = self.region.bytes(copy, 64)? == block;
        if !(there && active(Bug::TrustCacheAfterFailedSync)) {
            // SAFETY: as where the zone was attached; the comparison above has ended.
            unsafe { self.region.write(copy, block) };
        }
        self.region.flush(copy, 64);
        Ok(())
    }
}
