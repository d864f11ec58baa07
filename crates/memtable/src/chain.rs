//! Chains: what an incarnation wrote into a memtable, and where.

use thermocline_halloc::Zone;
use thermocline_pm::PmOff;

use crate::format::chain_seed;

/// A stretch of a zone that belongs to a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// First byte, on a line.
    pub from: PmOff,
    /// Behind the last byte.
    pub to: PmOff,
    /// The zone's generation, which items carry.
    pub zone_generation: u64,
}

impl Segment {
    /// All of a zone.
    pub(crate) fn of(zone: &Zone) -> Segment {
        Segment {
            from: zone.data,
            to: zone.end,
            zone_generation: zone.generation,
        }
    }
}

/// What identifies a chain and seeds its checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain {
    /// Its id; never reused. Zones of the chain have it as owner.
    pub id: u64,
    /// The incarnation that writes or wrote it.
    pub incarnation: u32,
    /// Seed of its checksums.
    pub seed: u64,
    /// No record of the chain has a lower seqno.
    pub base: u64,
    /// Whether its records are numbered from 1, which stands for `base`: it was written before its
    /// seqnos were known (`stage`).
    pub staged: bool,
}

impl Chain {
    /// The chain with this identity.
    pub fn new(db_id: &[u8; 16], id: u64, incarnation: u32, nonce: u64, base: u64) -> Chain {
        Chain {
            id,
            incarnation,
            seed: chain_seed(db_id, id, incarnation, nonce),
            base,
            staged: false,
        }
    }

    /// The chain, with records that are numbered from 1.
    pub fn staged(self) -> Chain {
        Chain {
            staged: true,
            ..self
        }
    }

    /// The seqno that an item's first seqno stands for; `None` if there is no such number.
    pub(crate) fn seqno(&self, stored: u64) -> Option<u64> {
        match self.staged {
            true => (self.base - 1).checked_add(stored),
            false => Some(stored),
        }
    }
}

/// A chain as recovery finds it: identity from the manifest, segments from the zone headers.
#[derive(Debug, Clone)]
pub struct ChainPlan {
    /// Identity. `base` is 0 for a chain that follows on from the one before.
    pub chain: Chain,
    /// Where its items lie, in order.
    pub segments: Vec<Segment>,
    /// Its last seqno, if the manifest says that it is complete.
    pub cut: Option<u64>,
    /// The last seqno of its memtable, if the memtable's descriptor has it.
    pub floor: Option<u64>,
}

impl ChainPlan {
    /// The segments of a chain that begins at `start` inside `start_zone` (or with its own first
    /// zone) and goes on through `zones`, which are in order.
    pub fn segments(start: Option<(PmOff, &Zone)>, zones: &[Zone]) -> Vec<Segment> {
        let first = start.map(|(from, zone)| Segment {
            from,
            to: zone.end,
            zone_generation: zone.generation,
        });
        first
            .into_iter()
            .chain(zones.iter().map(Segment::of))
            .collect()
    }
}
