//! The valid items that begin at any line of a stretch of a zone, whatever lies there.
//!
//! A bad header gives no length, so behind it every line is tried. A line that is no header may look like one: it
//! is old, damaged, or part of a value that somebody chose. Only the checksum at the end of all that it claims tells,
//! and if each of many claims were summed on its own, the time would grow with the square of the bytes. So all
//! claims are followed at once, record by record, in the order of the records' places:
//!
//! - Where a record lies says where the next one does. So claims that come to one record go on together, as one
//!   *party*, and every record is looked at once. It has one seqno, so claims that expect another end there.
//! - A CRC is linear: claims whose CRCs differ by some bits before the same bytes differ by known bits behind them
//!   ([`Sums::moved`]). So a party sums for its leader alone.
//! - Keys of records that lie on each other's bytes are summed from what is known of the whole stretch
//!   ([`Sums::between`]).
//!
//! The answer is the one that [`item_at`] gives at every line.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thermocline_base::Result;
use thermocline_base::checksum::{Prefix, Sums, crc32c};
use thermocline_pm::{LINE, PmOff, Region};

use super::item::{ItemRef, claim_at, item_at, item_of};
use crate::chain::{Chain, Segment};
use crate::format::{
    ITEM_HEADER, ItemHeader, RECORD_HEADER, RecordHeader, item_crc_start, seqno_low, stored_crc,
};

/// A register is noted after so many bytes: shorter pieces are summed as they are.
const NOTED_EVERY: usize = 256;

/// How far a claim has come.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    crc: u32,
    /// Bytes and records behind the header that `crc` covers.
    bytes: u64,
    records: u32,
}

/// What a line claims to be.
#[derive(Debug)]
struct Claim {
    at: PmOff,
    header: ItemHeader,
    /// The checksum that it says it has.
    stored: u32,
    /// Where it is; of one that follows another, where it was when it joined that.
    run: Run,
    /// Where its next record begins, while it leads.
    next: u64,
    /// Claims that go with it, itself included, while it leads.
    party: u32,
    /// The claim that it follows, and where that was when it joined.
    follows: Option<(usize, Run)>,
}

impl Claim {
    fn end(&self) -> u64 {
        self.at.0 + u64::from(self.header.length)
    }
}

/// All claims of a stretch.
struct Search<'a> {
    region: &'a Region,
    segment: &'a Segment,
    claims: Vec<Claim>,
    /// Those that lead, by the place of their next record, nearest first.
    leaders: BinaryHeap<Reverse<(u64, usize)>>,
    /// Of the stretch from `from` on, once it is needed.
    sums: Option<Sums>,
    from: PmOff,
}

/// The valid items that begin at lines from `from` on, in order, each with its `published`.
pub(crate) fn valid_items(
    region: &Region,
    chain: &Chain,
    segment: &Segment,
    from: PmOff,
) -> Result<Vec<(ItemRef, u64)>> {
    let from = from.line_up();
    let mut search = Search {
        region,
        segment,
        claims: Vec::new(),
        leaders: BinaryHeap::new(),
        sums: None,
        from,
    };
    let mut found = Vec::new();
    let mut at = from;
    while at.0 + LINE <= segment.to.0 {
        if let Some(header) = claim_at(region, chain, segment, at)? {
            search.add(chain, at, header)?;
        }
        at = at.plus(LINE);
    }
    search.run(&mut found)?;
    found.sort_unstable();
    let claims = found.into_iter().map(|claim| &search.claims[claim]);
    let items = claims.filter_map(|claim| item_of(chain, claim.at, &claim.header));
    Ok(items.collect())
}

/// The next valid item behind a bad place, if it has exactly the expected seqno. Then what is bad
/// held no record: it was an empty item, and losing it loses nothing. (Taking it for the end would
/// cut the item behind it, where nothing vouches for that one yet.)
pub(crate) fn next_item(
    region: &Region,
    chain: &Chain,
    segment: &Segment,
    bad: PmOff,
    expected: u64,
) -> Result<Option<(ItemRef, u64)>> {
    let follows = |(item, _): &(ItemRef, u64)| item.first_seqno == expected;
    let mut at = bad.plus(LINE);
    // Most often it is near. Where false claims are long all are looked at together.
    let mut claimed = 0;
    while at.0 + LINE <= segment.to.0 && claimed <= segment.to.0 - segment.from.0 {
        if let Some(header) = claim_at(region, chain, segment, at)? {
            claimed += u64::from(header.length);
            let found = item_at(region, chain, segment, at)?;
            if found.is_some() {
                return Ok(found.filter(follows));
            }
        }
        at = at.plus(LINE);
    }
    let found = valid_items(region, chain, segment, at)?;
    Ok(found.into_iter().next().filter(follows))
}

impl Search<'_> {
    fn add(&mut self, chain: &Chain, at: PmOff, header: ItemHeader) -> Result<()> {
        let bytes = self.region.bytes(at, ITEM_HEADER)?;
        let next = at.0 + ITEM_HEADER as u64;
        self.leaders.push(Reverse((next, self.claims.len())));
        self.claims.push(Claim {
            at,
            header,
            stored: stored_crc(bytes),
            run: Run {
                crc: crc32c(item_crc_start(chain.seed, at.0), &bytes[4..]),
                ..Run::default()
            },
            next,
            party: 1,
            follows: None,
        });
        Ok(())
    }

    /// Follows all claims to their ends. Gives those that hold.
    fn run(&mut self, found: &mut Vec<usize>) -> Result<()> {
        let mut ends: Vec<usize> = (0..self.claims.len()).collect();
        ends.sort_unstable_by_key(|&claim| self.claims[claim].end());
        let mut ends = ends.into_iter().peekable();
        let mut here = Vec::new();
        while let Some(&Reverse((place, _))) = self.leaders.peek() {
            here.clear();
            while let Some(&Reverse((_, leader))) = self.leaders.peek().filter(|l| l.0.0 == place) {
                self.leaders.pop();
                here.push(leader);
            }
            while let Some(claim) = ends.next_if(|&claim| self.claims[claim].end() <= place) {
                if self.claims[claim].end() == place && self.holds(claim, place) {
                    found.push(claim);
                }
            }
            self.step(place, &here)?;
        }
        Ok(())
    }

    /// Whether a claim that ends at `place` has come there as it said.
    fn holds(&self, claim: usize, place: u64) -> bool {
        let leader = self.leader_of(claim);
        let told = &self.claims[claim];
        self.claims[leader].next == place && {
            let run = self.now(claim);
            run.records == told.header.count && run.crc == told.stored
        }
    }

    fn leader_of(&self, mut claim: usize) -> usize {
        while let Some((leader, _)) = self.claims[claim].follows {
            claim = leader;
        }
        claim
    }

    /// Where a claim is by now. (The larger party leads, so whom it follows is soon at its end.)
    fn now(&self, claim: usize) -> Run {
        let run = self.claims[claim].run;
        let Some((leader, met)) = self.claims[claim].follows else {
            return run;
        };
        let now = self.now(leader);
        let bytes = now.bytes - met.bytes;
        let differs = run.crc ^ met.crc;
        let moved = match &self.sums {
            Some(sums) if bytes > 0 => sums.moved(differs, bytes),
            _ => differs,
        };
        Run {
            crc: moved ^ now.crc,
            bytes: run.bytes + bytes,
            records: run.records + (now.records - met.records),
        }
    }

    /// The record at `place`, of the parties that have come there.
    fn step(&mut self, place: u64, here: &[usize]) -> Result<()> {
        if place + RECORD_HEADER as u64 > self.segment.to.0 {
            return Ok(());
        }
        let head = RecordHeader::decode(self.region.bytes(PmOff(place), RECORD_HEADER)?);
        let next = place + head.padded() as u64;
        if next > self.segment.to.0 || head.kind().is_none() {
            return Ok(());
        }
        let mut leader = None;
        for &party in here {
            let Claim { header, run, .. } = &self.claims[party];
            let seqno = header.first_seqno.wrapping_add(u64::from(run.records));
            if head.seqno_low == seqno_low(seqno) {
                leader = Some(match leader {
                    Some(leader) => self.join(leader, party)?,
                    None => party,
                });
            }
        }
        let Some(leader) = leader else {
            return Ok(());
        };
        let crc = self.sum(self.claims[leader].run.crc, place, head.head_len())?;
        let claim = &mut self.claims[leader];
        claim.run = Run {
            crc,
            bytes: claim.run.bytes + head.head_len() as u64,
            records: claim.run.records.saturating_add(1),
        };
        claim.next = next;
        self.leaders.push(Reverse((next, leader)));
        Ok(())
    }

    /// The larger of two parties leads both from here on.
    fn join(&mut self, a: usize, b: usize) -> Result<usize> {
        // What followers need is known from now on.
        self.sums()?;
        let (leader, other) = match self.claims[a].party < self.claims[b].party {
            true => (b, a),
            false => (a, b),
        };
        self.claims[leader].party += self.claims[other].party;
        self.claims[other].follows = Some((leader, self.claims[leader].run));
        Ok(leader)
    }

    /// The CRC, continued from `crc`, of bytes of the stretch.
    fn sum(&mut self, crc: u32, at: u64, len: usize) -> Result<u32> {
        if len <= NOTED_EVERY {
            return Ok(crc32c(crc, self.region.bytes(PmOff(at), len)?));
        }
        let (region, from) = (self.region, self.from);
        let sums = self.sums()?;
        let up_to = |at: u64| -> Result<Prefix> {
            let noted = sums.noted_before(at - from.0);
            let rest = usize::try_from(at - from.0 - noted).unwrap_or(usize::MAX);
            let rest = region.bytes(from.plus(noted), rest)?;
            Ok(sums.up_to(at - from.0, rest))
        };
        Ok(sums.between(crc, up_to(at)?, up_to(at + len as u64)?))
    }

    fn sums(&mut self) -> Result<&Sums> {
        if self.sums.is_none() {
            let len = usize::try_from(self.segment.to.0 - self.from.0).unwrap_or(usize::MAX);
            let mut sums = Sums::new(NOTED_EVERY);
            sums.append(self.region.bytes(self.from, len)?);
            self.sums = Some(sums);
        }
        Ok(self.sums.as_ref().expect("it was just made"))
    }
}

#[cfg(test)]
mod tests;
