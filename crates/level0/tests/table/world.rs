//! What tables are written into, and the model that they are held against.

use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_base::options::{Emulation, RegionDemand};
use thermocline_base::{BlobRef, CfId, FileId, Kind, Result, SeqNo, Steps};
use thermocline_env::Env;
use thermocline_halloc::{Space, SpaceSpec, Zone};
use thermocline_level0::{
    GroupSize, PmTable, PmTableWriter, TableIdentity, Value, WriteOptions, Written,
};
use thermocline_pm::{Place, Region, RegionSpec, SimPm};
use thermocline_testkit::Rng;

pub const DB_ID: [u8; 16] = *b"0123456789abcdef";
pub const REGION_ID: [u8; 16] = [7; 16];
pub const TABLE: u64 = 5;

pub fn region_spec(sim: &SimPm, capacity: u64) -> RegionSpec {
    RegionSpec {
        env: Env::real(),
        place: Place::Sim(sim.clone()),
        demand: RegionDemand::Any,
        capacity,
        emulation: Emulation::None,
        read_only: false,
    }
}

/// Simulated memory of `pm` bytes, whose first part has zones of about a sixteenth of `first`.
pub fn space(pm: u64, first: u64) -> (SimPm, Arc<Space>) {
    let sim = SimPm::new(pm, Steps::new());
    let spec = space_spec(pm, first);
    let region = Region::create(&region_spec(&sim, pm), Space::first_part_bytes(&spec)).unwrap();
    let space = Space::create(region, &REGION_ID, spec).unwrap();
    (sim, Arc::new(space))
}

pub fn space_spec(pm: u64, first: u64) -> SpaceSpec {
    SpaceSpec {
        part_bytes_first: first,
        pm,
    }
}

pub fn identity() -> TableIdentity {
    TableIdentity::new(DB_ID, TABLE)
}

pub fn options(group_size: GroupSize) -> WriteOptions {
    WriteOptions {
        group_size,
        ..WriteOptions::default()
    }
}

/// A value as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    Bytes(Vec<u8>),
    Blob(BlobRef),
}

impl Content {
    pub fn value(&self) -> Value<'_> {
        match self {
            Content::Bytes(bytes) => Value::Inline(bytes),
            Content::Blob(to) => Value::Blob(*to),
        }
    }
}

/// Entries by family, user key, and seqno descending (as the number that is left).
pub type Entries = BTreeMap<(u16, Vec<u8>, u64), (Kind, Content)>;

/// Range tombstones by family, start, and seqno descending.
pub type Ranges = BTreeMap<(u16, Vec<u8>, u64), Vec<u8>>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    pub entries: Entries,
    pub ranges: Ranges,
}

impl Model {
    pub fn put(&mut self, cf: u16, key: &[u8], seqno: u64, kind: Kind, content: Content) {
        let place = (cf, key.to_vec(), u64::MAX - seqno);
        self.entries.insert(place, (kind, content));
    }

    pub fn write(&self, space: &Arc<Space>, options: WriteOptions) -> Result<Option<Written>> {
        let mut writer = PmTableWriter::new(space.clone(), identity(), options);
        let mut ranges = self.ranges.iter().peekable();
        for ((cf, key, left), (kind, content)) in &self.entries {
            // In turn with entries, or before or after them: they are a sequence of their own.
            while let Some((place, end)) =
                ranges.next_if(|(place, _)| (place.0, &place.1) <= (*cf, key))
            {
                range(&mut writer, place, end)?;
            }
            let seqno = SeqNo(u64::MAX - left);
            writer.add(CfId(*cf), key, seqno, *kind, content.value())?;
        }
        for (place, end) in ranges {
            range(&mut writer, place, end)?;
        }
        writer.finish()
    }

    /// The newest at or below `seqno`: kind, seqno, content.
    pub fn newest(&self, cf: u16, key: &[u8], seqno: u64) -> Option<(Kind, u64, Option<Content>)> {
        let from = (cf, key.to_vec(), u64::MAX - seqno);
        let to = (cf, key.to_vec(), u64::MAX);
        let entry = self.entries.range(from..=to).next();
        let over = self.ranges.iter().filter(|((range_cf, start, left), end)| {
            *range_cf == cf && start[..] <= *key && *key < end[..] && u64::MAX - left <= seqno
        });
        let over = over.map(|((_, _, left), _)| u64::MAX - left).max();
        let entry = entry.map(|((_, _, left), found)| (u64::MAX - left, found));
        match (entry, over) {
            (Some((own, _)), Some(over)) if over > own => Some((Kind::RangeDelete, over, None)),
            (None, Some(over)) => Some((Kind::RangeDelete, over, None)),
            (Some((own, (kind, content))), _) => {
                let content = (*kind != Kind::Delete).then(|| content.clone());
                Some((*kind, own, content))
            }
            (None, None) => None,
        }
    }
}

fn range(writer: &mut PmTableWriter, place: &(u16, Vec<u8>, u64), end: &[u8]) -> Result<()> {
    let (cf, start, left) = place;
    let seqno = SeqNo(u64::MAX - left);
    writer.add(
        CfId(*cf),
        start,
        seqno,
        Kind::RangeDelete,
        Value::Inline(end),
    )
}

pub fn open(space: &Space, written: &Written) -> Result<Arc<PmTable>> {
    PmTable::open(space.region(), DB_ID, written.meta.clone(), &written.zones)
}

/// The zones that a space finds of the table when it is opened, and the space.
pub fn reopen(sim: &SimPm, pm: u64, first: u64, live: bool) -> Result<(Arc<Space>, Vec<Zone>)> {
    let region = Region::open(&region_spec(sim, pm))?;
    let spec = space_spec(pm, first);
    let (space, zones) = Space::open(region, &REGION_ID, spec, |owner| live && owner == TABLE)?;
    Ok((Arc::new(space), zones))
}

/// Keys of one kind.
#[derive(Debug, Clone, Copy)]
pub enum Keys {
    /// Few bytes of few values: one is another's beginning, and the empty one is among them.
    Short,
    /// Long beginnings in common, as tables of a database have.
    Tables,
    /// Random bytes.
    Random,
    /// Of 0xff and 0 in any lengths.
    Extreme,
    /// Some as long as they may be.
    Long,
    /// Numbers, big-endian.
    Numbers,
}

pub const KINDS: [Keys; 6] = [
    Keys::Short,
    Keys::Tables,
    Keys::Random,
    Keys::Extreme,
    Keys::Long,
    Keys::Numbers,
];

fn byte(rng: &mut Rng) -> u8 {
    rng.next_u64().to_le_bytes()[0]
}

pub fn key(rng: &mut Rng, keys: Keys) -> Vec<u8> {
    match keys {
        Keys::Short => (0..rng.below(5)).map(|_| b'a' + byte(rng) % 3).collect(),
        Keys::Tables => {
            let table = rng.below(4);
            let id = "x".repeat(table * 30);
            format!("t{table}{id}_r{:08}", rng.below(5000)).into_bytes()
        }
        Keys::Random => (0..16).map(|_| byte(rng)).collect(),
        Keys::Extreme => (0..rng.below(40))
            .map(|_| if rng.one_in(2) { 0xff } else { 0 })
            .collect(),
        Keys::Long => {
            let len = if rng.one_in(20) {
                65_535
            } else {
                100 + rng.below(900)
            };
            let mut key = vec![b'k'; len];
            let at = rng.below(len);
            key[at] = byte(rng);
            key
        }
        Keys::Numbers => (rng.below(100_000) as u64).to_be_bytes().to_vec(),
    }
}

pub fn model(rng: &mut Rng, keys: Keys, count: usize) -> Model {
    let mut model = Model::default();
    let families = 1 + rng.below(3);
    let versions = 1 + rng.below(6);
    let value_max = *rng.pick(&[0, 20, 33, 200, 3000]);
    for n in 0..count {
        let cf = u16::try_from(rng.below(families) * 7).unwrap();
        let key = key(rng, keys);
        for _ in 0..1 + rng.below(versions) {
            let seqno = 1 + (rng.next_u64() >> *rng.pick(&[1, 30, 50])) % (u64::MAX - 2);
            let content = |rng: &mut Rng| {
                Content::Bytes((0..rng.below(value_max + 1)).map(|_| byte(rng)).collect())
            };
            let (kind, content) = match rng.below(10) {
                0 => (Kind::Delete, Content::Bytes(Vec::new())),
                1 => (Kind::Merge, content(rng)),
                2 if n % 3 == 0 => {
                    let file = FileId(1 + rng.below(3) as u64);
                    let (offset, len) = (64 + 8 * rng.below(1000) as u64, 5_000_000);
                    (Kind::Put, Content::Blob(BlobRef { file, offset, len }))
                }
                _ => (Kind::Put, content(rng)),
            };
            model.put(cf, &key, seqno, kind, content);
        }
    }
    for _ in 0..*rng.pick(&[0, 0, 3, 40]) {
        let cf = u16::try_from(rng.below(families) * 7).unwrap();
        let (a, b) = (key(rng, keys), key(rng, keys));
        let seqno = 1 + rng.next_u64() % (u64::MAX - 2);
        if a != b {
            let (start, end) = (a.clone().min(b.clone()), a.max(b));
            model.ranges.insert((cf, start, u64::MAX - seqno), end);
        }
    }
    model
}
