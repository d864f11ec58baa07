//! What is done to the store: operations that follow from a seed and a number, and the options.

use std::path::Path;

use thermocline::options::RegionDemand;
use thermocline::{
    Backups, CfOptions, ColumnFamily, Db, Durability, IngestWriter, Options, Result, WriteOptions,
};
use thermocline_testkit::Rng;

use crate::plan::{grows, is_buffered};

pub(crate) const FAMILIES: [&str; 2] = ["default", "other"];
const KEYS: usize = 70;

/// A family and a key in it.
pub(crate) type Place = (usize, u16);

/// One operation.
#[derive(Debug, Clone)]
pub(crate) struct Op {
    pub kind: Kind,
    /// Where it puts something, or deletes.
    pub changes: Vec<(Place, bool)>,
    pub durability: Durability,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Write,
    DeleteRange,
    Ingest,
    Sync,
    Flush,
    Compact,
    Drain,
    Checkpoint,
    Backup,
    /// Makes a family, puts something there and drops it.
    Family,
    Reopen,
}

impl Op {
    /// Whether it says, when it has returned, that all before it is durable.
    pub fn is_durable(&self) -> bool {
        match self.kind {
            Kind::Write | Kind::DeleteRange => self.durability == Durability::Immediate,
            Kind::Ingest | Kind::Sync => true,
            // They say something about other files.
            _ => false,
        }
    }
}

pub(crate) fn key(place: Place) -> Vec<u8> {
    format!("key/{:03}", place.1).into_bytes()
}

/// What operation `n` puts there.
pub(crate) fn value(n: u64, place: Place) -> Vec<u8> {
    let mut rng = Rng::new(n << 20 ^ (place.0 as u64) << 16 ^ u64::from(place.1));
    let len = match rng.below(40) {
        0 => 0,
        // These go into a blob file.
        1 => 5000 + rng.below(30_000),
        2..6 => 1000 + rng.below(1500),
        _ => rng.below(400),
    };
    let mut value = n.to_le_bytes().to_vec();
    while value.len() < len {
        value.extend(rng.next_u64().to_le_bytes());
    }
    value
}

/// The number of the operation that has put a value; `None` if it is not what one puts.
pub(crate) fn writer(found: &[u8], place: Place) -> Option<u64> {
    let n = u64::from_le_bytes(*found.first_chunk()?);
    (found == value(n, place)).then_some(n)
}

/// The `n`-th operation of a seed.
pub(crate) fn operation(seed: u64, n: u64) -> Op {
    let mut rng = Rng::new(seed ^ n.wrapping_mul(0x1000_0001));
    rng.next_u64();
    let place = |rng: &mut Rng| (rng.below(2), u16::try_from(rng.below(KEYS)).unwrap());
    let mut op = Op {
        kind: Kind::Write,
        changes: Vec::new(),
        durability: Durability::Immediate,
    };
    // In some stores most writes are.
    let buffered = match is_buffered(seed) {
        _ if grows(seed) => 100,
        true => 80,
        false => 25,
    };
    if rng.below(100) < buffered {
        op.durability = Durability::Buffered;
    }
    let kind = match grows(seed) {
        // What was written before the region grew, and after it, is claimed to be durable now.
        true if n.is_multiple_of(6) => 75,
        // What flushes a memtable would make that the region need not grow.
        true => rng.below(66),
        false => rng.below(100),
    };
    match kind {
        0..38 if !grows(seed) => op.changes.push((place(&mut rng), true)),
        38..44 => op.changes.push((place(&mut rng), false)),
        0..38 | 44..66 => {
            // Some are large enough to be staged.
            let len = match grows(seed) {
                true => 60,
                false => *rng.pick(&[2, 3, 5, 9, 60]),
            };
            for _ in 0..len {
                let place = place(&mut rng);
                if !op.changes.iter().any(|(other, _)| *other == place) {
                    op.changes.push((place, !rng.one_in(5)));
                }
            }
        }
        66..70 => {
            op.kind = Kind::DeleteRange;
            let (family, first) = place(&mut rng);
            let last = usize::from(first) + 1 + rng.below(15);
            let last = u16::try_from(last.min(KEYS)).unwrap();
            op.changes = (first..last).map(|key| ((family, key), false)).collect();
        }
        70..75 => {
            op.kind = Kind::Ingest;
            let family = rng.below(2);
            let keys = (0..KEYS).filter(|_| rng.one_in(6));
            op.changes = keys
                .map(|key| ((family, u16::try_from(key).unwrap()), true))
                .collect();
            if op.changes.is_empty() {
                op.changes.push(((family, 0), true));
            }
        }
        75..79 => op.kind = Kind::Sync,
        79..86 => op.kind = Kind::Flush,
        86..90 => op.kind = Kind::Compact,
        90..92 => op.kind = Kind::Drain,
        92..94 => op.kind = Kind::Checkpoint,
        94..95 => op.kind = Kind::Backup,
        95..97 => op.kind = Kind::Family,
        _ => op.kind = Kind::Reopen,
    }
    op
}

pub(crate) fn families(db: &Db) -> Result<[ColumnFamily; 2]> {
    let make = |name| db.column_family(name, CfOptions::default());
    Ok([make(FAMILIES[0])?, make(FAMILIES[1])?])
}

/// Does it, all but to reopen.
pub(crate) fn perform(db: &Db, root: &Path, n: u64, op: &Op) -> Result<()> {
    let families = families(db)?;
    let how = WriteOptions::from(op.durability);
    match op.kind {
        Kind::Write => {
            if let [(place, puts)] = op.changes[..] {
                let family = &families[place.0];
                return match puts {
                    true => family.put_with(key(place), value(n, place), how),
                    false => family.delete_with(key(place), how),
                };
            }
            let mut batch = db.batch();
            for (place, puts) in &op.changes {
                let family = &families[place.0];
                match puts {
                    true => batch.put_cf(family, key(*place), value(n, *place)),
                    false => batch.delete_cf(family, key(*place)),
                };
            }
            batch.commit(how)
        }
        Kind::DeleteRange => {
            let (first, last) = (op.changes[0].0, op.changes[op.changes.len() - 1].0);
            families[first.0].delete_range_with(key(first)..=key(last), how)
        }
        Kind::Ingest => {
            let path = root.join(format!("in-{n}.sst"));
            let mut table = IngestWriter::create(&path)?;
            for (place, _) in &op.changes {
                table.put(key(*place), value(n, *place))?;
            }
            table.finish()?;
            families[op.changes[0].0.0].ingest(&[path]).map(drop)
        }
        Kind::Sync => db.sync(),
        Kind::Flush => db.flush(),
        Kind::Compact => families[usize::from(n.is_multiple_of(2))].compact::<&[u8]>(..),
        Kind::Drain => db.drain(),
        Kind::Checkpoint => db.checkpoint(root.join(format!("copy-{n}"))).map(drop),
        Kind::Backup => Backups::new(root.join("backups")).create(db).map(drop),
        Kind::Family => {
            let name = format!("family-{}", n % 3);
            let family = db.column_family(&name, CfOptions::default())?;
            family.put("key", "value")?;
            db.drop_column_family(&name)
        }
        Kind::Reopen => Ok(()),
    }
}

/// What the store is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Tiered,
    GlobalIndex,
    PmTables,
    Immutables,
    Ssd,
    Leveled,
}

impl Shape {
    pub const ALL: [Shape; 6] = [
        Shape::Tiered,
        Shape::GlobalIndex,
        Shape::PmTables,
        Shape::Immutables,
        Shape::Ssd,
        Shape::Leveled,
    ];

    /// Its word in the options.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Tiered => "tiered",
            Shape::GlobalIndex => "global-index",
            Shape::PmTables => "pm-tables",
            Shape::Immutables => "immutables",
            Shape::Ssd => "ssd",
            Shape::Leveled => "leveled",
        }
    }
}

/// Small sizes, so that memtables, parts of the region, tables and manifests change all the time.
pub(crate) fn options(shape: Shape, disk: bool, seed: u64) -> Options {
    let mut rng = Rng::new(seed ^ 0x6f70_7469);
    let mut options = Options {
        pm: 32 << 20,
        dram: 64 << 20,
        ..Options::default()
    };
    match shape {
        Shape::Leveled => options.set("preset", "leveled").unwrap(),
        _ => {
            options.set("level0.shape", shape.name()).unwrap();
            options.region = match disk {
                true => RegionDemand::File,
                false => RegionDemand::Shm,
            };
        }
    }
    options.pm_region.part_bytes_first = 256 << 10;
    options.memtable.bytes_max = match grows(seed) {
        true => 1 << 20,
        false => *rng.pick(&[30_000, 64 << 10, 1 << 20]),
    };
    options.memtable.item_bytes_max = *rng.pick(&[8 << 10, 64 << 10]);
    options.memtable.idle_ms = *rng.pick(&[0, 1, 1000]);
    options.memtable.replay_threads = 1;
    options.commit.buckets = *rng.pick(&[0, 1]);
    options.commit.buffered_ms = match grows(seed) {
        true => 1000,
        false => *rng.pick(&[1, 1000]),
    };
    options.manifest.bytes_max = *rng.pick(&[512, 4096, 1 << 20]);
    options.blob.inline_bytes_max = *rng.pick(&[4000, 1 << 20]);
    options.compaction.table_bytes = *rng.pick(&[0, 20_000]);
    options.compaction.level0_tables = 1 + rng.below(4) as u64;
    options.level0.pm_percent = *rng.pick(&[3, 50]);
    options.flush.generations = *rng.pick(&[0, 3]);
    options.read.open_tables = *rng.pick(&[1, 512]);
    options
}
