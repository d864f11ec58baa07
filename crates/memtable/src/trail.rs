//! Reading a chain's items in the order of their seqnos, while others append to it.
//!
//! A [`Trail`] says where a chain lies; a [`Mark`] how far somebody has read it. Whoever reads asks for the
//! item that has a seqno, and only for one that he knows to be durable: so all bytes up to it were stored,
//! and nobody writes there any more. Behind it others may be writing, and nobody looks there.
//!
//! # Invariants
//! 1. *Exact ends.* A trail of a chain that is complete ends where its last item does: a later chain may have
//!    begun right behind it (`engine`'s recovery lets it have the rest of the zone). Only the last segment of a chain
//!    that is written to ends with its zone.
//! 2. *In sequence.* An item counts only if its first seqno is the one expected, as in the walk (`walk`): a
//!    gap is damage, and is reported. A bad place is passed over as there, where it held no record.
//! 3. *Verified.* Header and keys of an item are verified when it is found, its values when its records are read
//!    (`copied`).

use thermocline_base::planted::{Bug, active};
use thermocline_base::{Error, Result};
use thermocline_pm::{PmOff, Region};

use crate::chain::{Chain, Segment};
use crate::walk::{ItemRef, item_at, missing, next_item};

/// Where the items of a chain lie.
#[derive(Debug, Clone)]
pub struct Trail {
    /// The number of the memtable that the chain belongs to.
    pub memtable: u64,
    /// The chain, with the exact seqno that it begins with.
    pub chain: Chain,
    /// The stretches that its items lie in, in order.
    segments: Vec<Segment>,
    /// Its last seqno, the one before its base if it has no record; `None` while it is written to.
    pub last: Option<u64>,
}

/// How far a trail was read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mark {
    segment: usize,
    /// Bytes of the segment that lie behind.
    behind: u64,
    /// Items passed over reach up to the seqno before this one; 0 before the first.
    next: u64,
}

impl Trail {
    /// That of a chain that is written to, through all of `segments`.
    pub fn open(memtable: u64, chain: Chain, segments: Vec<Segment>) -> Trail {
        Trail {
            memtable,
            chain,
            segments,
            last: None,
        }
    }

    /// That of a chain whose last seqno is `last`, and whose items end at `end`, in the segment of that number;
    /// `None` if it has no item.
    pub fn complete(
        memtable: u64,
        chain: Chain,
        mut segments: Vec<Segment>,
        end: Option<(usize, PmOff)>,
        last: u64,
    ) -> Trail {
        segments.truncate(end.map_or(0, |(segment, _)| segment + 1));
        if let (Some(segment), Some((_, at))) = (segments.last_mut(), end) {
            segment.to = at;
        }
        Trail {
            memtable,
            chain,
            segments,
            last: Some(last),
        }
    }

    /// Whether `next` begins with the seqno behind the last of this one, or a later one that only an opening lies
    /// between: no record was written between the two.
    pub fn is_followed_by(&self, next: &Trail) -> bool {
        let Some(last) = self.last else {
            return false;
        };
        if active(Bug::FeedAcceptsGap) {
            return true;
        }
        match self.chain.incarnation == next.chain.incarnation {
            true => last + 1 == next.chain.base,
            // A memtable that takes writes while the store is opened goes on in a chain of the new
            // incarnation. So two chains of it have nothing between them.
            false => self.memtable == next.memtable,
        }
    }

    /// The item that has the record `seqno`, which is durable and one of the chain's; those before it are passed over.
    /// `None` if the trail is one that was written to and ends before it: there is a newer one.
    ///
    /// # Errors
    /// [`Error::Corruption`] with region and offset of what is missing or damaged.
    pub fn find(&self, region: &Region, mark: &mut Mark, seqno: u64) -> Result<Option<ItemRef>> {
        if mark.next == 0 {
            mark.next = self.chain.base;
        }
        while let Some(segment) = self.segments.get(mark.segment) {
            let at = segment.from.plus(mark.behind);
            let mut found = item_at(region, &self.chain, segment, at)?;
            let is_open = self.last.is_none() && mark.segment + 1 == self.segments.len();
            if found.is_none() && !is_open {
                found = next_item(region, &self.chain, segment, at, mark.next)?;
            }
            let Some((item, _)) = found else {
                region.check_media()?;
                if is_open {
                    return Ok(None);
                }
                (mark.segment, mark.behind) = (mark.segment + 1, 0);
                continue;
            };
            if item.first_seqno != mark.next {
                return Err(self.missing(region, mark));
            }
            if item.next_seqno() > seqno {
                mark.behind = item.at.0 - segment.from.0;
                return Ok(Some(item));
            }
            mark.behind = item.at.0 + u64::from(item.bytes) - segment.from.0;
            mark.next = item.next_seqno();
        }
        match self.last {
            None => Ok(None),
            Some(_) => Err(self.missing(region, mark)),
        }
    }

    /// The error for an item that is not there.
    #[cold]
    pub fn missing(&self, region: &Region, mark: &Mark) -> Error {
        let lies_in = self.segments.get(mark.segment).or(self.segments.last());
        let at = lies_in.map_or(PmOff(0), |s| {
            s.from.plus(mark.behind.min(s.to.0 - s.from.0))
        });
        let durable = self.last.unwrap_or(mark.next);
        missing(region, at, mark.next, durable)
    }
}

#[cfg(test)]
mod tests;
