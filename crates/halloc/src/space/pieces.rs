//! The free zones of a moment, taken for nobody: to find out what would go into them.

use super::Reserve;
use super::zones::{find_wide, place};
use crate::format::ZONE_HEADER_BYTES;
use crate::part::Part;

/// The free zones of a moment, from which they are taken for nobody.
#[derive(Debug)]
pub struct Pieces {
    /// Those with a free zone.
    parts: Vec<Part>,
}

impl Pieces {
    /// What is free of these parts.
    pub(super) fn of(parts: &[Part]) -> Pieces {
        let some_free = parts.iter().filter(|part| part.free > 0);
        Pieces {
            parts: some_free.cloned().collect(),
        }
    }

    /// Takes what [`Space::attach_wide`](super::Space::attach_wide) would, without the zone that is kept back and without
    /// growth. Returns how many bytes of data that has.
    pub fn take(&mut self, min_bytes: u64) -> Option<u64> {
        let keep = Reserve::Keep;
        let wide = place(&self.parts, keep, |part| find_wide(part, min_bytes));
        let found = wide.or_else(|| place(&self.parts, keep, |part| part.find(min_bytes)));
        let (p, first, run) = found?;
        let part = &mut self.parts[p];
        part.take(first, run);
        let (end, _) = part.span(first + run);
        Some(end.0 - part.header_at(first).0 - ZONE_HEADER_BYTES)
    }
}
