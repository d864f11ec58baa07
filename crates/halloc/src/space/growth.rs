//! Growing the region, what is to be there before writers need it, and giving the region's end back.

use std::iter::successors;
use std::ops::Range;
use std::slice::Chunks;

use thermocline_base::size::{format_size, index};
use thermocline_base::sync::{Ordering, lock};
use thermocline_base::{Error, Result};
use thermocline_pm::PmOff;

use super::pieces::Pieces;
use super::{Reserve, Space, State};
use crate::format::{META_BYTES_MIN, PartHeader, narrow};
use crate::part::{
    PART_BYTES_MAX, Part, ZONE_DATA_LEAST, end_of, longest_run, write_part_header,
    write_parts_word, zone_bytes,
};

/// A part that its device cuts short has at least such a part of the bytes that it should have.
const DEVICE_PART_LEAST: u64 = 8;

/// A free zone: its part, its place there, where it lies and how many bytes it has.
type FreeZone = (usize, usize, (PmOff, u64));

/// Pages are asked for in pieces of so many bytes, between which it is looked whether anybody still wants them.
const POPULATE_BYTES: u64 = 8 << 20;

/// What a region lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lacks {
    /// Free zones, or a run of them that was [wanted](Space::want_run), and it can grow.
    pub zones: bool,
    /// Pages of the free zones that will be attached next: whoever fills them would meet page faults.
    pub pages: bool,
}

impl State {
    /// Whether a zone with `min_bytes` for data can be attached as the parts are.
    fn has_run(&self, min_bytes: u64, reserve: Reserve) -> bool {
        let free: usize = self.parts.iter().map(|p| p.free).sum();
        let found = self.parts.iter().find_map(|part| part.find(min_bytes));
        found.is_some_and(|(_, run)| reserve == Reserve::Use || free > run)
    }

    /// The pages of these zones of a part have been asked for. It may have been given back meanwhile, and a smaller one may
    /// have come in its place: of zones that are not there nothing is noted.
    pub(super) fn note_present(&mut self, part: usize, zones: Range<usize>) {
        let part = self.parts.get_mut(part);
        if let Some(flags) = part.and_then(|part| part.present.get_mut(zones)) {
            flags.fill(true);
        }
    }
}

impl Space {
    /// The error for `bytes` more that do not fit.
    #[cold]
    pub fn full(&self, bytes: u64) -> Error {
        let usage = self.usage();
        let limit = self.limit();
        let way_out = match self.reachable() < limit {
            false if self.is_growth_refused() => {
                "it found no room to grow: make some where it lies, or delete and compact"
                    .to_string()
            }
            false => "raise pm, or delete and compact".to_string(),
            true => format!(
                "it has {} and may have {}, but its disk must keep room for flushing and compaction: make room \
                 there, or delete and compact (if that does not do, raise pm)",
                format_size(usage.region_bytes),
                format_size(limit)
            ),
        };
        Error::OutOfSpace(format!(
            "{}: {} of {} in use, and {} more with one zone in reserve do not fit; {way_out}",
            self.full_text(),
            format_size(usage.attached_bytes),
            format_size(usage.limit_bytes),
            format_size(bytes)
        ))
    }

    /// As [`Space::full`], where the device has refused growth, and says why.
    #[cold]
    pub(super) fn full_for(&self, bytes: u64, why: &str) -> Error {
        match self.full(bytes) {
            Error::OutOfSpace(text) => Error::OutOfSpace(format!("{text} ({why})")),
            other => other,
        }
    }

    /// Whether it is this region that an error calls full, and nothing else that is lacking. Errors have no kind for that, and some
    /// come by way of other threads.
    pub fn says_full(&self, error: &Error) -> bool {
        matches!(error, Error::OutOfSpace(text) if text.starts_with(&self.full_text()))
    }

    fn full_text(&self) -> String {
        let path = self.region.path().display();
        format!("persistent memory region {path} is full")
    }

    /// Whether the zone that is kept back has been taken, and the region has reached its limit.
    pub fn reserve_taken(&self) -> bool {
        let state = lock(&self.state);
        state.parts.iter().all(|p| p.free == 0) && self.next_part(&state).is_none()
    }

    /// Whether a zone with `min_bytes` for data can be attached without the one that is kept back, if the device, as far as
    /// is known, has room for growth.
    pub fn has_room(&self, min_bytes: u64) -> bool {
        let state = lock(&self.state);
        let grows = || !self.is_growth_refused() && self.next_part(&state).is_some();
        state.has_run(min_bytes, Reserve::Keep) || grows()
    }

    /// Whether [`Space::attach`] would find a zone with `min_bytes` for data without growing the
    /// region.
    pub fn has_room_now(&self, min_bytes: u64, reserve: Reserve) -> bool {
        lock(&self.state).has_run(min_bytes, reserve)
    }

    /// A write needs a zone with `min_bytes` for data, which is not there, and does not wait. If growth would bring one, it is
    /// [lacking](Space::lacks) from now on, however many zones are free: until there is one, or the device refuses growth. Returns
    /// whether growth would.
    pub fn want_run(&self, min_bytes: u64) -> bool {
        let mut state = lock(&self.state);
        let comes = self.may_bring(&state, min_bytes);
        if comes {
            state.wanted_run = state.wanted_run.max(min_bytes);
        }
        comes
    }

    /// Whether growth, as far as the device is known to have room, brings a part with a zone that has `min_bytes` for data; or
    /// another one to keep back, where one that has them is all that is free.
    fn may_bring(&self, state: &State, min_bytes: u64) -> bool {
        let is_there = state.has_run(min_bytes, Reserve::Use);
        self.parts_to_come(state, self.reachable())
            .any(|part| is_there || longest_run(&part, 0) >= min_bytes)
    }

    /// Whether the region can still grow.
    pub fn can_grow(&self) -> bool {
        self.next_part(&lock(&self.state)).is_some()
    }

    /// Whether the device had no room for the growth that was tried last. It may have some by now: whoever tries to grow
    /// finds out.
    pub fn is_growth_refused(&self) -> bool {
        self.growth_refused.load(Ordering::Relaxed)
    }

    /// Whether `bytes` bytes in all could be attached, in however many zones, without the one that is
    /// kept back, if the device has room for growth.
    pub fn could_hold(&self, bytes: u64) -> bool {
        let usage = self.usage();
        let growth = usage.limit_bytes.saturating_sub(usage.region_bytes);
        usage.zones_free + growth / META_BYTES_MIN > 1 && usage.free_bytes + growth > bytes
    }

    /// Whether `bytes` bytes of data fit the region when it is as large as it may be, but no run of its zones, were all free
    /// but the one that is kept back. Each write asks this, and waits for no lock.
    #[inline]
    pub fn needs_pieces(&self, bytes: u64) -> bool {
        bytes > self.longest_run() && bytes < self.limit()
    }

    /// Bytes of data in the longest run of zones that the region can have, when it is as large as it may be.
    #[inline]
    pub fn longest_run(&self) -> u64 {
        // Relaxed: who finds an older one finds out later.
        let noted = self.longest_run.load(Ordering::Relaxed);
        noted.max(ZONE_DATA_LEAST)
    }

    /// Notes how long a run can be, behind each change of the parts or of the limit.
    pub(super) fn note_longest_run(&self, state: &State) {
        let there = state.parts.iter().map(|part| part.header);
        let to_come = || self.parts_to_come(state, self.limit());
        // Where there are several parts, the zone that is kept back may be in another one.
        let are_several = state.parts.len() > 1 || to_come().next().is_some();
        let kept = u64::from(!are_several);
        let runs = there.chain(to_come()).map(|part| longest_run(&part, kept));
        self.longest_run
            .store(runs.max().unwrap_or(0), Ordering::Relaxed);
    }

    /// The free zones, if they have room for `bytes` bytes of data, without the one that is kept back, but neither any run of
    /// them has, nor a part that growth would add. What lies in pieces leaves a rest in each: whether it fits, who takes the
    /// [`Pieces`] finds out.
    pub fn pieces_alone(&self, bytes: u64) -> Option<Pieces> {
        if bytes <= ZONE_DATA_LEAST {
            return None;
        }
        let state = lock(&self.state);
        // Most parts of a full region have no free zone.
        let some_free = state.parts.iter().filter(|part| part.free > 0);
        let is_full = some_free.clone().next().is_none();
        // The zone that is kept back has a header of its own where it lies alone.
        let runs = some_free.flat_map(|part| {
            let zone = part.header.zone_bytes;
            part.free_runs().map(move |data| (data, data.min(zone)))
        });
        let (all, kept) = runs.fold((0, u64::MAX), |(all, kept), (data, zone)| {
            (all + data, kept.min(zone))
        });
        let grows = || {
            !self.is_growth_refused()
                && self
                    .parts_to_come(&state, self.reachable())
                    .any(|part| longest_run(&part, u64::from(is_full)) >= bytes)
        };
        let fits = all.saturating_sub(kept) >= bytes;
        let is_alone = !state.has_run(bytes, Reserve::Keep) && !grows() && fits;
        is_alone.then(|| Pieces::of(&state.parts))
    }

    /// The zones of the newest part.
    pub fn newest_zones(&self) -> u64 {
        let state = lock(&self.state);
        state.parts.last().map_or(0, |part| part.taken.len() as u64)
    }

    /// What it lacks, where so many zones are to be free as `wanted` says of the zones of its newest part.
    pub fn lacks(&self, wanted: impl Fn(u64) -> u64) -> Lacks {
        let mut state = lock(&self.state);
        let run = state.wanted_run;
        let lacks_run =
            run > 0 && !state.has_run(run, Reserve::Keep) && self.may_bring(&state, run);
        if !lacks_run {
            state.wanted_run = 0;
        }
        let newest = state.parts.last();
        let wanted = wanted(newest.map_or(0, |part| part.taken.len() as u64));
        let free: u64 = state.parts.iter().map(|part| part.free as u64).sum();
        // Most parts of a full region have no free zone, and this is asked often.
        let some_free = state.parts.iter().filter(|part| part.free > 0);
        let mut first = some_free.flat_map(Part::free_zones).take(index(wanted));
        Lacks {
            zones: lacks_run || free < wanted && self.next_part(&state).is_some(),
            pages: first.any(|(_, present)| !present),
        }
    }

    /// Asks for the pages of the `zones` free zones that will be attached next, so that whoever fills
    /// them meets no page faults.
    pub fn populate_ahead(&self, zones: u64) {
        let wanted: Vec<FreeZone> = {
            let state = lock(&self.state);
            let free = (0..).zip(&state.parts).flat_map(|(p, part)| {
                let zones = part.free_zones();
                zones.map(move |(i, present)| (p, i, part.span(i), present))
            });
            let next = free.take(index(zones));
            next.filter_map(|(p, i, span, present)| (!present).then_some((p, i, span)))
                .collect()
        };
        // Neighbours are asked for together.
        let neighbours = wanted.chunk_by(|(p, i, _), (q, j, _)| p == q && i + 1 == *j);
        for some in neighbours.flat_map(in_pieces) {
            if self.is_growth_stopped() {
                return;
            }
            let (p, first, (at, _)) = some[0];
            self.region
                .populate(at, some.iter().map(|(.., (_, bytes))| bytes).sum(), true);
            // Attached meanwhile, perhaps: then so much the better.
            lock(&self.state).note_present(p, first..first + some.len());
        }
    }

    /// From now on the region does not grow, and whoever makes it grow gives up soon: the store is being closed.
    pub fn stop_growth(&self) {
        self.growth_stopped.store(true, Ordering::Relaxed);
    }

    fn is_growth_stopped(&self) -> bool {
        self.growth_stopped.load(Ordering::Relaxed)
    }

    /// Adds a part, unless somebody did since the region had `seen` bytes. `false` if the region
    /// has reached its limit.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] if the device is full; [`Error::Closed`] behind [`Space::stop_growth`]. The region is as it was
    /// then. A failed persist.
    pub fn grow(&self, seen: u64) -> Result<bool> {
        let mut growing = lock(&self.growing);
        growing.check()?;
        if self.region_bytes() != seen {
            return Ok(true);
        }
        if self.is_growth_stopped() {
            return Err(Error::Closed);
        }
        let next = self.next_part(&lock(&self.state));
        let Some(header) = next else { return Ok(false) };
        let keep = self.device[1].load(Ordering::Relaxed);
        let end = header.offset + header.bytes;
        let goes_on = || !self.is_growth_stopped();
        let grown = self.region.grow_while(header.offset..end, keep, &goes_on);
        let is_refused = matches!(grown, Err(Error::OutOfSpace(_)));
        self.growth_refused.store(is_refused, Ordering::Relaxed);
        if is_refused {
            // Whoever still wants a run says so again.
            lock(&self.state).wanted_run = 0;
        }
        grown?;
        growing.note(write_part_header(&self.region, self.seed, &header))?;
        growing.note(write_parts_word(&self.region, self.seed, header.index + 1))?;
        let mut state = lock(&self.state);
        state.parts.push(Part::new(header));
        self.note_longest_run(&state);
        Ok(true)
    }

    /// Gives parts at the end of the region back to its device, of which no zone is attached, as far as two zones
    /// stay free, and what lies behind all parts: a growth that was interrupted has left it. Returns how many bytes that
    /// were.
    ///
    /// First nobody finds zones there any more, then the part word forgets the parts, durably, then the file is
    /// cut. A crash in between leaves a file that is longer than its parts, as an interrupted growth does. Nobody
    /// may hold bytes of free zones (see [`Space::release`]).
    ///
    /// # Errors
    /// A failed persist. That the file cannot be cut is none: then it stays as long as it is.
    pub fn give_back(&self) -> Result<u64> {
        let mut growing = lock(&self.growing);
        growing.check()?;
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
            let end = end_of(&state.parts);
            if end != before {
                self.note_longest_run(&state);
            }
            (state.parts.len() as u64, end, before)
        };
        let had = self.region.len();
        if end == had {
            return Ok(0);
        }
        if end != before {
            growing.note(write_parts_word(&self.region, self.seed, narrow(parts)?))?;
        }
        // What is left of it is in nobody's way, and is overwritten if the region grows again.
        // SAFETY: its zones are free, so nobody holds bytes of them, and no longer found. Behind all parts there is nothing
        // that anybody could find.
        let _ = unsafe { self.region.shrink(end) };
        Ok(had.saturating_sub(end))
    }

    pub(super) fn next_part(&self, state: &State) -> Option<PartHeader> {
        self.parts_to_come(state, self.reachable()).next()
    }

    /// The parts that growth adds, one after the other, to a region that can have so many bytes as `reachable`.
    fn parts_to_come(&self, state: &State, reachable: u64) -> impl Iterator<Item = PartHeader> {
        let largest = state.parts.iter().map(|p| p.header.bytes).max();
        let largest = largest.unwrap_or(0);
        let number = u32::try_from(state.parts.len());
        let first = number
            .ok()
            .and_then(|number| self.part_at((number, end_of(&state.parts)), largest, reachable));
        successors(first, move |last| {
            let next = (last.index.checked_add(1)?, last.offset + last.bytes);
            self.part_at(next, largest.max(last.bytes), reachable)
        })
    }

    /// The part with this number and offset, where the largest one before it has `largest` bytes.
    fn part_at(
        &self,
        (number, offset): (u32, u64),
        largest: u64,
        reachable: u64,
    ) -> Option<PartHeader> {
        // A first part may be larger than later ones.
        let wanted = (largest * 2).max(self.part_bytes_first);
        let wanted = wanted.min(PART_BYTES_MAX);
        let limit = self.limit();
        let bytes =
            |limit: u64| wanted.min(limit.saturating_sub(offset)) / META_BYTES_MIN * META_BYTES_MIN;
        let least = match reachable < limit {
            false => 0,
            // The device may have a little more from time to time: that would be many small parts.
            true => bytes(limit) / DEVICE_PART_LEAST,
        };
        let bytes = bytes(reachable);
        // A remainder too small for a few zones is not worth a part.
        (bytes >= least.max(4 * META_BYTES_MIN)).then(|| PartHeader {
            offset,
            bytes,
            zone_bytes: zone_bytes(bytes),
            index: number,
        })
    }
}

/// Zones of one part that follow each other, in pieces of at most [`POPULATE_BYTES`], or of one zone.
fn in_pieces(zones: &[FreeZone]) -> Chunks<'_, FreeZone> {
    let bytes = zones.first().map_or(1, |(.., (_, bytes))| *bytes);
    zones.chunks(index(POPULATE_BYTES / bytes.max(1)).max(1))
}
