//! What the unit tests of this crate are made in.

use std::sync::Arc;

use thermocline_art::Moments;
use thermocline_base::options::{Emulation, RegionDemand};
use thermocline_base::{BatchEntry, CfId, Kind, SeqNo, Steps};
use thermocline_env::Env;
use thermocline_halloc::{Reserve, Space, SpaceSpec, Zone};
use thermocline_pm::{Place, PmOff, Region, RegionSpec, SimPm};

use crate::{Chain, ChainWriter, ItemBuilder, Memtable, Persist, item_bytes};

/// A simulated region that may grow to `pm` bytes, with a first part of `part_bytes_first`.
pub(crate) fn space(pm: u64, part_bytes_first: u64) -> Arc<Space> {
    simulated_space(pm, part_bytes_first).1
}

/// As [`space`], with what simulates it.
pub(crate) fn simulated_space(pm: u64, part_bytes_first: u64) -> (SimPm, Arc<Space>) {
    let sim = SimPm::new(pm, Steps::new());
    let spec = RegionSpec {
        env: Env::real(),
        place: Place::Sim(sim.clone()),
        demand: RegionDemand::Any,
        capacity: pm,
        emulation: Emulation::None,
        read_only: false,
    };
    let space_spec = SpaceSpec {
        part_bytes_first,
        pm,
    };
    let region = Region::create(&spec, Space::first_part_bytes(&space_spec)).unwrap();
    let space = Space::create(region, &[9; 16], space_spec).unwrap();
    (sim, Arc::new(space))
}

/// Readers at these moments, ascending.
pub(crate) struct Registered(pub Vec<SeqNo>);

impl Moments for Registered {
    fn any_in(&self, from: SeqNo, to: SeqNo) -> bool {
        self.0.any_in(from, to)
    }
}

/// A version of a key: family, key, seqno, and whether it is a put.
pub(crate) type Row<'a> = (u16, &'a [u8], u64, bool);

/// A memtable with these versions, each kept in its index as if `readers` were registered.
pub(crate) fn memtable(space: &Arc<Space>, id: u64, rows: &[Row<'_>], readers: &[u64]) -> Memtable {
    memtable_and_zones(space, id, rows, readers).0
}

/// As [`memtable`], with the zones that it owns.
pub(crate) fn memtable_and_zones(
    space: &Arc<Space>,
    id: u64,
    rows: &[Row<'_>],
    readers: &[u64],
) -> (Memtable, Vec<Zone>) {
    let chain = chain(id);
    let mut writer = ChainWriter::new(space.clone(), chain, None);
    let memtable = Memtable::new(space.region().clone(), id, vec![chain]);
    for row in rows {
        append(&mut writer, &memtable, *row, readers);
    }
    let zones = writer.zones().to_vec();
    (memtable, zones)
}

fn chain(id: u64) -> Chain {
    Chain::new(&[3; 16], id, 1, 17, 1)
}

/// Adds a version to a memtable, in a zone of its own.
pub(crate) fn add(space: &Arc<Space>, memtable: &Memtable, row: Row<'_>, readers: &[u64]) {
    let mut writer = ChainWriter::new(space.clone(), chain(memtable.id()), None);
    append(&mut writer, memtable, row, readers);
}

fn append(writer: &mut ChainWriter, memtable: &Memtable, row: Row<'_>, readers: &[u64]) {
    let (cf, key, seqno, put) = row;
    let entry = BatchEntry {
        kind: if put { Kind::Put } else { Kind::Delete },
        cf: CfId(cf),
        key,
        value: if put { b"a value" } else { b"" },
    };
    let entries = std::iter::once(entry);
    let bytes = item_bytes(entries.clone());
    writer.ensure(bytes, Reserve::Keep).unwrap();
    let grant = writer.grant(bytes);
    let region = memtable.region();
    let at = ItemBuilder::default()
        .store(region, &grant, entries, seqno, 0, Persist::Now)
        .unwrap()[0];
    let keep = || Registered(readers.iter().map(|&r| SeqNo(r)).collect());
    memtable
        .insert(CfId(cf), (entry.kind, key), at, SeqNo(seqno), keep)
        .unwrap();
    memtable.count_item(bytes, 1);
}

/// Overwrites what lies at `at`.
pub(crate) fn rot(region: &Region, at: PmOff, bytes: &[u8]) {
    // SAFETY: a test is one thread, and holds no slice while it damages bytes.
    unsafe { region.write(at, bytes) }
}
