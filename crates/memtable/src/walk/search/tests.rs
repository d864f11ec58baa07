//! What is found among claims, and by how much work.

use std::sync::Arc;

use thermocline_base::Kind;
use thermocline_base::checksum::summed;
use thermocline_halloc::Space;
use thermocline_testkit::Rng;

use super::super::{ItemRef, item_at, walk_incarnation};
use super::*;
use crate::ChainPlan;
use crate::fixture::{rot, space};

const ZONE_GENERATION: u64 = 5;

fn chain() -> Chain {
    Chain::new(&[3; 16], 1, 1, 17, 1)
}

/// Bytes that lie on a stretch of a region.
struct Laid {
    space: Arc<Space>,
    segment: Segment,
    bytes: Vec<u8>,
}

impl Laid {
    fn new(space: &Arc<Space>, len: usize) -> Laid {
        let from = PmOff(1 << 20);
        Laid {
            space: Arc::clone(space),
            segment: Segment {
                from,
                to: from.plus(len as u64),
                zone_generation: ZONE_GENERATION,
            },
            bytes: vec![0; len],
        }
    }

    fn header(&mut self, at: usize, to: usize, count: usize, first_seqno: u64) {
        let header = ItemHeader {
            length: u32::try_from(to - at).unwrap(),
            first_seqno,
            published: 0,
            count: u32::try_from(count).unwrap(),
            incarnation: 1,
            zone_generation: ZONE_GENERATION,
            chain: 1,
        };
        header.encode(&mut self.bytes[at..at + ITEM_HEADER]);
    }

    /// The header of a record without a checksum.
    fn record(&mut self, at: usize, seqno: u64, key_len: usize, value_len: usize) {
        let out = &mut self.bytes[at..at + RECORD_HEADER];
        out[4..8].copy_from_slice(&seqno_low(seqno).to_le_bytes());
        out[8..10].copy_from_slice(&u16::try_from(key_len).unwrap().to_le_bytes());
        let kind = u32::from(Kind::Put as u8) << 28;
        out[12..16].copy_from_slice(&(kind | u32::try_from(value_len).unwrap()).to_le_bytes());
    }

    /// Makes the checksum right for what an item claims, if its records are there.
    fn seal(&mut self, at: usize) {
        let header = ItemHeader::decode(&self.bytes[at..]);
        let place = self.segment.from.0 + at as u64;
        let own = &self.bytes[at + 4..at + ITEM_HEADER];
        let mut crc = crc32c(item_crc_start(chain().seed, place), own);
        let mut record = at + ITEM_HEADER;
        for _ in 0..header.count {
            let Some(bytes) = self.bytes.get(record..record + RECORD_HEADER) else {
                return;
            };
            let head = RecordHeader::decode(bytes);
            let Some(covered) = self.bytes.get(record..record + head.head_len()) else {
                return;
            };
            crc = crc32c(crc, covered);
            record += head.padded();
        }
        self.bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }

    fn store(&self) -> &Region {
        rot(self.space.region(), self.segment.from, &self.bytes);
        self.space.region()
    }

    /// Bytes that are summed while the stretch is walked, and what is found.
    fn walked(&self) -> (u64, u64) {
        let plan = ChainPlan {
            chain: chain(),
            segments: vec![self.segment],
            cut: None,
            floor: None,
        };
        let region = self.store();
        let before = summed();
        let walk = walk_incarnation(region, &[plan], 1, 1).unwrap();
        assert_eq!(walk.last_seqno, 0);
        (summed() - before, walk.seqno_seen)
    }
}

/// Every line of the first half claims all records of the second.
#[test]
fn a_zone_full_of_claims_to_its_end_is_searched_in_linear_time() {
    let space = space(16 << 20, 4 << 20);
    for len in [1 << 14, 1 << 16, 1 << 18] {
        let mut laid = Laid::new(&space, len);
        let half = len / 2;
        for n in 0..half / 16 {
            laid.record(half + 16 * n, 9 + n as u64, 0, 0);
        }
        for at in (0..half).step_by(64) {
            laid.header(at, len, 1 + half / 16, 8);
            let first = at + ITEM_HEADER;
            laid.record(first, 8, 0, half - first - RECORD_HEADER);
        }
        let (steps, seen) = laid.walked();
        assert_eq!(seen, 0);
        assert!(steps < 20 * len as u64, "{steps} for {len}");
        // One of them is true.
        laid.seal(half / 2);
        let (steps, seen) = laid.walked();
        // As if it was the first, its seqno is not the expected one.
        assert_eq!(seen, 8 + half as u64 / 16);
        assert!(steps < 20 * len as u64, "{steps} for {len}");
    }
}

/// Every line claims a key of many lines.
#[test]
fn keys_on_each_others_bytes_are_summed_in_linear_time() {
    let space = space(16 << 20, 4 << 20);
    for len in [1 << 17, 1 << 18] {
        let mut laid = Laid::new(&space, len);
        let key = 60_000;
        for at in (0..len - key - 64).step_by(64) {
            laid.header(at, at + 64 + key, 1, 8);
            laid.record(at + ITEM_HEADER, 8, key, 0);
        }
        laid.seal(1 << 12);
        let (steps, seen) = laid.walked();
        assert_eq!(seen, 8);
        assert!(steps < 40 * len as u64, "{steps} for {len}");
    }
}

/// Bytes in which many claims begin, meet, and part.
fn drawn(space: &Arc<Space>, rng: &mut Rng) -> Laid {
    let len = 64 * (4 + rng.below(40));
    let mut laid = Laid::new(space, len);
    for at in (0..len).step_by(16) {
        // Records that step to one of the next places, with seqnos that rise with those.
        let left = (len - at - 16) / 16;
        let to = rng.below(6).min(left);
        let key = (rng.below(3) * 8).min(16 * to);
        laid.record(at, (at as u64 / 16) / 2 + 50, key, 16 * to - key);
    }
    for at in (0..len).step_by(64) {
        if rng.below(2) == 0 {
            continue;
        }
        // A walk that holds, from there on: its records get the seqnos that it expects.
        let count = rng.below(9);
        let first = 40 + rng.below(20) as u64;
        let mut end = at + ITEM_HEADER;
        for n in 0..count {
            if end + RECORD_HEADER > len {
                break;
            }
            let head = RecordHeader::decode(&laid.bytes[end..]);
            if rng.below(30) > 0 {
                let low = seqno_low(first + n as u64);
                laid.bytes[end + 4..end + 8].copy_from_slice(&low.to_le_bytes());
            }
            end += head.padded();
        }
        laid.header(at, end.min(len), count, first);
    }
    for at in (0..len).step_by(64) {
        if rng.below(2) == 0 {
            laid.seal(at);
        }
    }
    laid
}

/// What is asked of all lines at once is what each line says alone.
#[test]
fn the_search_finds_what_every_line_on_its_own_gives() {
    let space = space(16 << 20, 4 << 20);
    let mut rng = Rng::new(3);
    let (mut valid, mut overlaps) = (0, 0);
    for _ in 0..6000 {
        let laid = drawn(&space, &mut rng);
        let (region, segment) = (laid.store(), &laid.segment);
        let lines = (0..laid.bytes.len() as u64).step_by(64);
        let alone: Vec<(ItemRef, u64)> = lines
            .filter_map(|at| item_at(region, &chain(), segment, segment.from.plus(at)).unwrap())
            .collect();
        let found = valid_items(region, &chain(), segment, segment.from).unwrap();
        assert_eq!(found, alone);
        valid += found.len();
        let ends = |item: &ItemRef| item.at.0 + u64::from(item.bytes);
        let overlap = |pair: &[(ItemRef, u64)]| pair[1].0.at.0 < ends(&pair[0].0);
        overlaps += found.windows(2).filter(|pair| overlap(pair)).count();
    }
    assert!(valid > 5000 && overlaps > 100, "{valid} {overlaps}");
}
