//! The free zones of a moment, taken for nobody: to find out what would go into them.

use super::Reserve;
use super::zones::{find_sixteenth_behind, find_wide, place};
use crate::format::ZONE_HEADER_BYTES;
use crate::part::Part;

/// The free zones of a moment, from which they are taken for nobody.
#[derive(Debug)]
pub struct Pieces {
    /// Those with a free zone.
    parts: Vec<Part>,
    /// Which of them that has which was taken last, and the zone behind that.
    last: Option<(usize, usize)>,
}

impl Pieces {
    /// What is free of these parts.
    pub(super) fn of(parts: &[Part]) -> Pieces {
        let some_free = parts.iter().filter(|part| part.free > 0);
        Pieces {
            parts: some_free.cloned().collect(),
            last: None,
        }
    }

    /// Makes room for `min_bytes` of data as an owner does that has filled what was taken here last but for `left` bytes, without
    /// the zone that is kept back and without growth: behind that, as [`Space::widen_by_sixteenth`] would; or it takes what
    /// [`Space::attach_wide`] would. Returns how many bytes of data are there for him then.
    ///
    /// [`Space::widen_by_sixteenth`]: super::Space::widen_by_sixteenth
    /// [`Space::attach_wide`]: super::Space::attach_wide
    pub fn take(&mut self, left: u64, min_bytes: u64) -> Option<u64> {
        match self.widen(left, min_bytes) {
            Some(wider) => Some(wider),
            None => self.attach(min_bytes),
        }
    }

    fn widen(&mut self, left: u64, min_bytes: u64) -> Option<u64> {
        let (p, behind) = self.last?;
        let free: usize = self.parts.iter().map(|part| part.free).sum();
        let (most, part) = (free.saturating_sub(1), &mut self.parts[p]);
        let (first, more) = find_sixteenth_behind(part, behind, (left, min_bytes), most)?;
        part.take(first, more);
        self.last = Some((p, first + more));
        Some(left + more as u64 * part.header.zone_bytes)
    }

    fn attach(&mut self, min_bytes: u64) -> Option<u64> {
        let keep = Reserve::Keep;
        let wide = place(&self.parts, keep, |part| find_wide(part, min_bytes));
        let found = wide.or_else(|| place(&self.parts, keep, |part| part.find(min_bytes)));
        let (p, first, run) = found?;
        let part = &mut self.parts[p];
        part.take(first, run);
        self.last = Some((p, first + run));
        let (end, _) = part.span(first + run);
        Some(end.0 - part.header_at(first).0 - ZONE_HEADER_BYTES)
    }
}
