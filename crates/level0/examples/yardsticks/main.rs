//! The PM table beside the paper's yardsticks (PM-Blade §VI-B, figure 6): time to write, latency of reads,
//! size. All in one run, on the same region, in turn; medians of rounds.
//!
//! ```text
//! cargo run --release -p thermocline-level0 --example yardsticks -- --dir /dev/shm \
//!     [--emulation none|optane|cxl] [--mib 4,16,32] [--reads 200000] [--rounds 5] [--json]
//! ```
//!
//! - *array*: records in order, and an offset for each (MatrixKV). Read by bisection over offsets.
//! - *array, LZ4 a pair*, *array, LZ4 by eight*: the same, each record or eight of them compressed. The
//!   paper uses Snappy; here it is LZ4, the general compressor that this engine has.
//! - *SSTable*: this engine's, in a file in the same folder, read block by block; and with all of its
//!   blocks in a cache in DRAM. An emulation profile slows neither down.
//!
//! Arrays keep a checksum for each record or group and compare it in what they answer with, as PM tables and
//! SSTables do; unlike a PM table they cannot tell a missing key from one that rot hides.
#![expect(
    clippy::cast_possible_truncation,
    reason = "lengths of keys and records here are small"
)]

mod arrays;
mod data;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_base::options::{Emulation, RegionDemand};
use thermocline_base::{CfId, FileId, Kind, Result, SeqNo};
use thermocline_env::{Env, OpenMode};
use thermocline_halloc::{Space, SpaceSpec, Zone};
use thermocline_level0::{
    GroupSize, PmPart, PmTable, PmTableWriter, TableIdentity, Value, WriteOptions,
};
use thermocline_pm::{Place, Region, RegionSpec};
use thermocline_sst::{
    BlockCache, BlockSource, CachedSource, Compression, FileSource, Identity, KeyRef, TablePart,
    TableWriter, open_table,
};

use arrays::{Array, Packing};
use data::{Data, Pair};

const DB_ID: [u8; 16] = *b"a database's id.";

/// What is measured.
struct World {
    env: Env,
    dir: PathBuf,
    space: Arc<Space>,
}

/// A structure that was written.
enum Built {
    Pm(Box<PmPart>),
    Array(Array),
    File(Box<TablePart>, FileSource),
    Cached(Box<TablePart>, CachedSource),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Pm(GroupSize),
    Array(Packing),
    File(Compression),
    Cached(Compression),
}

const ALL: [(&str, Shape); 9] = [
    ("PM table, groups of 16", Shape::Pm(GroupSize::Sixteen)),
    ("PM table, groups of 8", Shape::Pm(GroupSize::Eight)),
    ("array", Shape::Array(Packing::Plain)),
    ("array, LZ4 a pair", Shape::Array(Packing::Pair)),
    ("array, LZ4 by eight", Shape::Array(Packing::Eight)),
    ("SSTable in a file", Shape::File(Compression::None)),
    ("SSTable in a file, LZ4", Shape::File(Compression::Lz4)),
    ("SSTable, cached", Shape::Cached(Compression::None)),
    ("SSTable, cached, LZ4", Shape::Cached(Compression::Lz4)),
];

impl Built {
    /// Bytes of the value of a key that is there.
    fn get(&self, key: &[u8]) -> Result<Option<usize>> {
        Ok(match self {
            Built::Pm(part) => {
                part.get(key, SeqNo(u64::MAX - 1), true)?
                    .map(|found| match found.value {
                        thermocline_level0::FoundValue::Inline(_) => 1,
                        _ => 0,
                    })
            }
            Built::Array(array) => array.get(key)?,
            Built::File(part, source) => found(part, key, source)?,
            Built::Cached(part, source) => found(part, key, source)?,
        })
    }
}

fn found(part: &TablePart, key: &[u8], source: &impl BlockSource) -> Result<Option<usize>> {
    let found = thermocline_sst::get(part, key, SeqNo(u64::MAX - 1), source)?;
    Ok(found.map(|_| 1))
}

impl World {
    fn open(dir: &Path, pm: u64, emulation: Emulation) -> Result<World> {
        let env = Env::real();
        let path = dir.join(format!("yardsticks-{}.pm", std::process::id()));
        let spec = RegionSpec {
            env: env.clone(),
            place: Place::Path(path),
            demand: RegionDemand::Any,
            capacity: pm,
            emulation,
            read_only: false,
        };
        let space_spec = SpaceSpec {
            part_bytes_first: 64 << 20,
            pm,
        };
        let region = Region::create(&spec, Space::first_part_bytes(&space_spec))?;
        let space = Space::create(region, &[1; 16], space_spec)?;
        Ok(World {
            env,
            dir: dir.to_path_buf(),
            space: Arc::new(space),
        })
    }

    /// Writes all pairs; durable on return. Returns the structure, its bytes and its zones.
    fn write(&self, kind: Shape, pairs: &[Pair]) -> Result<(Built, u64, Vec<Zone>)> {
        match kind {
            Shape::Pm(group_size) => {
                let options = WriteOptions {
                    group_size,
                    ..WriteOptions::default()
                };
                let identity = TableIdentity::new(DB_ID, 7);
                let mut writer = PmTableWriter::new(self.space.clone(), identity, options);
                for (n, (key, value)) in (1..).zip(pairs) {
                    let value = Value::Inline(value);
                    writer.add(CfId(0), key, SeqNo(n), Kind::Put, value)?;
                }
                let written = writer.finish()?.expect("there are pairs");
                let bytes = written.meta.bytes;
                let table =
                    PmTable::open(self.space.region(), DB_ID, written.meta, &written.zones)?;
                let part = PmPart::whole(table, CfId(0));
                Ok((Built::Pm(Box::new(part)), bytes, written.zones))
            }
            Shape::Array(packing) => {
                let (array, zones) = Array::write(&self.space, packing, pairs)?;
                let bytes = array.bytes();
                Ok((Built::Array(array), bytes, zones))
            }
            Shape::File(compression) => self.write_file(compression, false, pairs),
            Shape::Cached(compression) => self.write_file(compression, true, pairs),
        }
    }

    fn write_file(
        &self,
        compression: Compression,
        cached: bool,
        pairs: &[Pair],
    ) -> Result<(Built, u64, Vec<Zone>)> {
        let storage = &*self.env.storage;
        let path = self
            .dir
            .join(format!("yardsticks-{}.sst", std::process::id()));
        // That of the round before.
        let _ = storage.remove(&path);
        let identity = Identity::new(DB_ID, FileId(7));
        let options = thermocline_sst::WriteOptions {
            compression,
            ..thermocline_sst::WriteOptions::default()
        };
        let mut writer = TableWriter::create(storage, &path, identity, CfId(0), options)?;
        for (n, (key, value)) in (1..).zip(pairs) {
            let key = KeyRef::new(key, SeqNo(n));
            writer.add(key, Kind::Put, thermocline_sst::Value::Inline(value))?;
        }
        let bytes = writer.finish()?.bytes;
        let file = storage.open(&path, OpenMode::Read)?;
        let part = Box::new(TablePart::whole(open_table(&*file, identity)?));
        let built = match cached {
            true => {
                let store = BlockCache::new(1 << 30).store();
                let source = store.source(file);
                // Into the cache.
                for (key, _) in pairs.iter().step_by(4) {
                    found(&part, key, &source)?;
                }
                Built::Cached(part, source)
            }
            false => Built::File(part, FileSource(file)),
        };
        Ok((built, bytes, Vec::new()))
    }
}

/// What one structure comes to.
#[derive(Debug, Default)]
struct Figures {
    write_ms: Vec<f64>,
    read_ns: Vec<f64>,
    bytes: u64,
    media: u64,
}

fn median(all: &[f64]) -> f64 {
    let mut all = all.to_vec();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn measure(world: &World, data: &Data, reads: usize, rounds: usize) -> Result<Vec<Figures>> {
    let clock = &*world.env.clock;
    let mut figures: Vec<Figures> = ALL.iter().map(|_| Figures::default()).collect();
    for round in 0..=rounds {
        for (n, (name, kind)) in ALL.iter().enumerate() {
            let media = world.space.region().counters().media_bytes;
            let start = clock.now_ns();
            let (built, bytes, zones) = world.write(*kind, &data.pairs)?;
            let write_ms = (clock.now_ns() - start) as f64 / 1e6;
            let media = world.space.region().counters().media_bytes - media;
            let keys = data.keys_to_read(round, reads);
            let start = clock.now_ns();
            for key in &keys {
                assert!(built.get(key)?.is_some(), "{name} has lost a key");
            }
            let read_ns = (clock.now_ns() - start) as f64 / reads as f64;
            drop(built);
            world.space.release(&zones);
            // The first round is for pages and caches.
            if round > 0 {
                figures[n].write_ms.push(write_ms);
                figures[n].read_ns.push(read_ns);
            }
            (figures[n].bytes, figures[n].media) = (bytes, media);
        }
    }
    Ok(figures)
}

struct Args {
    dir: PathBuf,
    emulation: Emulation,
    mib: Vec<usize>,
    reads: usize,
    rounds: usize,
    json: bool,
}

fn args() -> Args {
    let mut args = Args {
        dir: PathBuf::from("/dev/shm"),
        emulation: Emulation::None,
        mib: vec![4, 16, 32],
        reads: 200_000,
        rounds: 5,
        json: false,
    };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        let mut value = || given.next().expect("the option has a value");
        match name.as_str() {
            "--dir" => args.dir = PathBuf::from(value()),
            "--emulation" => {
                args.emulation = match value().as_str() {
                    "none" => Emulation::None,
                    "optane" => Emulation::Optane,
                    "cxl" => Emulation::Cxl,
                    other => panic!("{other} is no emulation profile"),
                }
            }
            "--mib" => {
                let sizes = value();
                let sizes = sizes.split(',').map(|n| n.parse().expect("MiB"));
                args.mib = sizes.collect();
            }
            "--reads" => args.reads = value().parse().expect("a number"),
            "--rounds" => args.rounds = value().parse().expect("a number"),
            "--json" => args.json = true,
            other => panic!("{other} is no option"),
        }
    }
    args
}

fn main() -> Result<()> {
    let args = args();
    let world = World::open(&args.dir, 512 << 20, args.emulation)?;
    for name in ["index", "random"] {
        for &mib in &args.mib {
            let data = Data::of(name, mib << 20);
            let figures = measure(&world, &data, args.reads, args.rounds)?;
            report(&args, name, mib, &data, &figures);
        }
    }
    let storage = &world.env.storage;
    for suffix in ["pm", "sst"] {
        let name = format!("yardsticks-{}.{suffix}", std::process::id());
        storage.remove(&world.dir.join(name))?;
    }
    Ok(())
}

fn report(args: &Args, name: &str, mib: usize, data: &Data, figures: &[Figures]) {
    if !args.json {
        println!(
            "\n{name} keys, {mib} MiB in {} pairs of {} bytes, emulation {:?}",
            data.pairs.len(),
            data.pair_bytes(),
            args.emulation
        );
        println!(
            "{:<26}{:>10}{:>10}{:>10}{:>8}{:>9}",
            "", "write ms", "of array", "read ns", "ratio", "PM MiB"
        );
    }
    let array = ALL
        .iter()
        .position(|(_, kind)| *kind == Shape::Array(Packing::Plain));
    let array = median(&figures[array.expect("it is among them")].write_ms);
    for ((structure, _), figures) in ALL.iter().zip(figures) {
        let (write, read) = (median(&figures.write_ms), median(&figures.read_ns));
        let ratio = data.bytes() as f64 / figures.bytes as f64;
        let media = figures.media as f64 / f64::from(1 << 20);
        if args.json {
            println!(
                "{{\"keys\":\"{name}\",\"mib\":{mib},\"emulation\":\"{:?}\",\"structure\":\"{structure}\",\
                 \"write_ms\":{write:.2},\"read_ns\":{read:.0},\"ratio\":{ratio:.3},\"pm_mib\":{media:.2}}}",
                args.emulation
            );
        } else {
            let share = write / array;
            println!(
                "{structure:<26}{write:>10.2}{share:>10.2}{read:>10.0}{ratio:>8.2}{media:>9.1}"
            );
        }
    }
}
