//! Copying what lives in a region to which another process writes.
//!
//! # What a copy is like
//! Like what a crash leaves, if the owners that are asked for owned their zones until the copy was done: whoever asks looks
//! whether they do still. No line of a zone is written twice in a life of it, so a line that was copied too early lacks what
//! came later, and has nothing else in its place.
//!
//! 1. *The meta zone first*: what it says held before anything that is copied behind it.
//! 2. *Then all headers*, and the meta zone once more. If it has changed both are looked at again: else a zone might be found whose
//!    owner was given it behind something that the meta zone says by now, such as that a memtable is sealed. A zone counts as its
//!    header was then. One that is made wider meanwhile has its first length in the copy: what lies behind came after. Zones of
//!    owners that nobody asked for are free in the copy. They are of the time after, too, or nobody's.
//! 3. *Then what the zones have, the last first*, by owner and ordinal, and each from its end to its beginning. What is stored
//!    later lies behind what was stored before, or in a zone that was attached later. So what was complete when something was
//!    stored that tells of it is complete in the copy, too, if it has that. Only within [`AT_ONCE`] it is the other way round,
//!    at the place where somebody writes at that moment: an open then finds that something is missing, and copies again.
//!
//! # Copying again
//! A zone in which nothing is written any more is copied once, for as long as its owner has it. So in the end there is no more to
//! copy than what was written meanwhile, however large the region is.

use thermocline_base::size::index;
use thermocline_base::{Error, Result};
use thermocline_pm::{Copying, PmOff, Region, RegionSpec};

use crate::format::{
    META_BYTES_MIN, PART_HEADER_SPAN, PartHeader, RegionId, ZONE_HEADER_BYTES, region_seed,
};
use crate::part::{Part, Zone, count_parts, cut_short, end_of, last_header, read_part, scan_part};

/// Bytes that are copied at once.
const AT_ONCE: u64 = 64 << 10;

/// So often headers are looked at, if the meta zone changes meanwhile.
const LOOKS: usize = 16;

/// Says something of an owner.
pub type Owners<'a> = &'a dyn Fn(u64) -> bool;

/// A copy of a region to which somebody else writes, which becomes newer each time that it is taken.
#[derive(Debug, Default)]
pub struct RegionCopy {
    copying: Option<Copying>,
    /// What was copied, and stays as it is for as long as its owners have it; by place.
    settled: Vec<Zone>,
}

impl RegionCopy {
    /// What the region at `spec.place` has of all owners that are `live`, as it is now; of those that `grows` is true of copied
    /// anew. In what is returned the zones of all others are free. A region that was taken before must be gone.
    ///
    /// # Errors
    /// Those of [`Space::open`](crate::Space::open), and of reading the file. Each may come of what is written meanwhile: then another try
    /// has another answer. The next one begins anew.
    pub fn take(
        &mut self,
        spec: &RegionSpec,
        id: &RegionId,
        (live, grows): (Owners<'_>, Owners<'_>),
    ) -> Result<Region> {
        let RegionCopy { copying, settled } = std::mem::take(self);
        let is_here = |copying: &Copying| Some(copying.region().path()) == spec.place.path();
        let kept = match copying.filter(is_here) {
            Some(mut copying) => copying.grow()?.then_some(copying),
            None => None,
        };
        let (mut copying, settled) = match kept {
            Some(copying) => (copying, settled),
            // It is the first time, or the region lies elsewhere now, or is longer than there are addresses for.
            None => (Copying::begin(spec)?, Vec::new()),
        };
        let mut zones = copy_frame(&mut copying, region_seed(id), live)?;
        zones.sort_unstable_by_key(|zone| (zone.owner, zone.ordinal));
        let is_settled = |zone: &Zone| {
            let at = settled.binary_search_by_key(&zone.data, |settled| settled.data);
            at.is_ok_and(|at| settled[at] == *zone)
        };
        for zone in zones.iter().rev().filter(|zone| !is_settled(zone)) {
            copy_backwards(&mut copying, (zone.data.0, zone.end.0))?;
        }
        zones.retain(|zone| !grows(zone.owner));
        zones.sort_unstable_by_key(|zone| zone.data);
        self.settled = zones;
        let region = copying.region().clone();
        self.copying = Some(copying);
        Ok(region)
    }

    /// Copies all of it again the next time: something is missing in it.
    pub fn forget(&mut self) {
        *self = RegionCopy::default();
    }
}

/// Copies the meta zone and the headers of all parts and zones. Returns the zones of those that are `live`. The headers of others
/// are left out.
fn copy_frame(copying: &mut Copying, seed: u64, live: Owners<'_>) -> Result<Vec<Zone>> {
    if copying.region().len() < META_BYTES_MIN {
        return Err(cut_short(copying.region(), META_BYTES_MIN));
    }
    copying.copy(PmOff(0), META_BYTES_MIN)?;
    for _ in 0..LOOKS {
        let before = meta_of(copying)?.to_vec();
        let zones = copy_headers(copying, seed, live)?;
        copying.copy(PmOff(0), META_BYTES_MIN)?;
        if meta_of(copying)? == before {
            return Ok(zones);
        }
    }
    Err(Error::Busy(
        "what the region says of its zones changes faster than it can be copied".into(),
    ))
}

fn meta_of(copying: &Copying) -> Result<&[u8]> {
    copying.region().bytes(PmOff(0), index(META_BYTES_MIN))
}

fn copy_headers(copying: &mut Copying, seed: u64, live: Owners<'_>) -> Result<Vec<Zone>> {
    let (count, _) = count_parts(copying.region(), seed)?;
    let (mut parts, mut zones): (Vec<Part>, Vec<Zone>) = (Vec::new(), Vec::new());
    for index in 0..count {
        let offset = end_of(&parts);
        let header = PmOff(PartHeader::place(index, offset));
        copying.copy(header, PART_HEADER_SPAN)?;
        let mut part = read_part(copying.region(), seed, index, offset)?;
        for zone in usize::from(index == 0)..part.taken.len() {
            copying.copy(part.header_at(zone), ZONE_HEADER_BYTES)?;
        }
        let region = copying.region();
        scan_part(region, seed, &mut part, &live, &mut 0, &mut zones)?;
        let free: Vec<usize> = part.free_zones().map(|(zone, _)| zone).collect();
        for zone in free {
            if last_header(copying.region(), seed, &part, zone)?.is_some() {
                copying.leave_out(part.header_at(zone), ZONE_HEADER_BYTES)?;
            }
        }
        parts.push(part);
    }
    Ok(zones)
}

fn copy_backwards(copying: &mut Copying, (from, to): (u64, u64)) -> Result<()> {
    let mut end = to;
    while end > from {
        let at = from.max(end.saturating_sub(AT_ONCE));
        copying.copy(PmOff(at), end - at)?;
        end = at;
    }
    Ok(())
}

#[cfg(test)]
#[expect(unsafe_code, reason = "stores bytes into zones")]
mod tests;
