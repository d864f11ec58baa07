//! One key of a memtable: batches that write it twice, and somebody who gets it. So few steps that the
//! orders in which a get meets a batch are all come to.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use shuttle::scheduler::PctScheduler;
use shuttle::{Config, FailurePersistence, Runner};
use thermocline_art::Moments;
use thermocline_base::options::{Emulation, RegionDemand};
use thermocline_base::planted::{Bug, plant};
use thermocline_base::sync::{AtomicU64, Ordering, thread};
use thermocline_base::{BatchEntry, CfId, Kind, SeqNo, Steps};
use thermocline_env::Env;
use thermocline_halloc::{Reserve, Space, SpaceSpec};
use thermocline_memtable::{
    Chain, ChainWriter, ItemBuilder, Lookup, Memtable, Persist, item_bytes,
};
use thermocline_pm::{Place, PmOff, Region, RegionSpec, SimPm};

const KEY: &[u8] = b"key";
const PM: u64 = 4 << 20;
const FIRST_PART: u64 = 1 << 20;
const MEMTABLE: u64 = 1;

/// Batches, and gets.
const TIMES: u64 = 4;

/// Where it is written and got.
struct Model {
    memtable: Memtable,
    visible: AtomicU64,
    /// The records of the batches, in order.
    records: Vec<PmOff>,
    put_last: bool,
}

/// What may be read now, and after the batch at hand.
struct Readers([SeqNo; 2]);

impl Moments for Readers {
    fn any_in(&self, from: SeqNo, to: SeqNo) -> bool {
        self.0.as_slice().any_in(from, to)
    }
}

/// Batches that delete the key and put it, if the put comes last: then it is always there. Otherwise they
/// put it and delete it, and it never is.
fn entries(put_last: bool) -> [BatchEntry<'static>; 2] {
    let entry = |kind, value| BatchEntry {
        kind,
        cf: CfId::DEFAULT,
        key: KEY,
        value,
    };
    let put = entry(Kind::Put, &b"value"[..]);
    match put_last {
        true => [entry(Kind::RangeDelete, &b"kez"[..]), put],
        false => [put, entry(Kind::Delete, &[])],
    }
}

impl Model {
    /// With all batches stored, and one of them indexed and visible.
    fn new(put_last: bool) -> Model {
        let spec = RegionSpec {
            env: Env::real(),
            place: Place::Sim(SimPm::new(PM, Steps::new())),
            demand: RegionDemand::Any,
            capacity: PM,
            emulation: Emulation::None,
            read_only: false,
        };
        let space = SpaceSpec {
            part_bytes_first: FIRST_PART,
            pm: PM,
        };
        let region = Region::create(&spec, Space::first_part_bytes(&space)).unwrap();
        let space = Arc::new(Space::create(region, &[1; 16], space).unwrap());
        let chain = Chain::new(&[2; 16], MEMTABLE, 1, 1, 1);
        let mut writer = ChainWriter::new(space.clone(), chain, None);
        let mut records = Vec::new();
        for batch in 0..=TIMES {
            let entries = entries(put_last).into_iter();
            let bytes = item_bytes(entries.clone());
            writer.ensure(bytes, Reserve::Keep).unwrap();
            let first = 1 + 2 * batch;
            let room = writer.grant(bytes);
            let mut builder = ItemBuilder::default();
            let stored = builder.store(space.region(), &room, entries, first, 0, Persist::Now);
            records.extend(stored.unwrap());
        }
        let model = Model {
            memtable: Memtable::new(space.region().clone(), MEMTABLE, vec![chain]),
            visible: AtomicU64::new(0),
            records,
            put_last,
        };
        model.index(0);
        model
    }

    fn index(&self, batch: u64) {
        let now = SeqNo(self.visible.load(Ordering::SeqCst));
        let last = now.plus(2);
        let records = self
            .records
            .iter()
            .zip(1..)
            .skip(usize::try_from(2 * batch).unwrap());
        for (entry, (&at, seqno)) in entries(self.put_last).into_iter().zip(records) {
            let readers = || Readers([now, last]);
            let inserted = self.memtable.insert_entry(entry, at, SeqNo(seqno), readers);
            inserted.unwrap();
        }
        self.visible.store(last.0, Ordering::Release);
    }

    fn get(&self) {
        let found = self
            .memtable
            .get_latest(CfId::DEFAULT, KEY, &self.visible, true);
        let is_there = match found.unwrap() {
            Lookup::Record(record) => record.kind == Kind::Put,
            Lookup::Covered | Lookup::Absent => false,
        };
        assert_eq!(is_there, self.put_last, "half a batch");
    }
}

/// Runs it so many times, perhaps with a bug planted. The error is the panic of an execution that failed.
///
/// # Errors
/// If a get sees half of what a batch does.
pub fn one_key(put_last: bool, executions: usize, bug: Option<Bug>) -> std::thread::Result<()> {
    let mut config = Config::new();
    config.silence_warnings = true;
    config.failure_persistence = FailurePersistence::None;
    let scheduler = PctScheduler::new_from_seed(1, 3, executions);
    let run = move || {
        let _planted = bug.map(plant);
        let model = Arc::new(Model::new(put_last));
        let written = model.clone();
        let writer = thread::spawn(move || (1..=TIMES).for_each(|batch| written.index(batch)));
        (0..TIMES).for_each(|_| model.get());
        writer.join().unwrap();
    };
    catch_unwind(AssertUnwindSafe(|| {
        Runner::new(scheduler, config).run(run);
    }))
}
