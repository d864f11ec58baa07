//! Figure 6: the PM table beside the paper's yardsticks. Time to write, latency of reads, size; all in one run, on the
//! same region, in turn; medians of rounds.
//!
//! - *array*: records in order, and an offset for each (MatrixKV). Read by bisection over offsets.
//! - *array, LZ4 a pair*, *array, LZ4 by eight*: the same, each record or eight of them compressed. The
//!   paper uses Snappy; here it is LZ4, the general compressor that this engine has.
//! - *SSTable*: this engine's, in a file in the same folder, read block by block; and with all of its
//!   blocks in a cache in DRAM, which is the SSTable in memory. An emulation profile slows neither down.
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

use thermocline_base::options::RegionDemand;
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

use self::arrays::{Array, Packing};
use self::data::{Data, Pair};
use crate::experiment::Measure;
use crate::outcome::median;
use crate::outcome::{Chart, Check, Outcome, Series, Table};
use crate::setting::{Setting, Tell};

const DB_ID: [u8; 16] = *b"a database's id.";

/// What is measured.
struct World {
    env: Env,
    region: PathBuf,
    table: PathBuf,
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

    /// Has all blocks in DRAM that are to be there. That is no part of writing.
    fn warm(&self, pairs: &[Pair]) -> Result<()> {
        if let Built::Cached(part, source) = self {
            for (key, _) in pairs.iter().step_by(4) {
                found(part, key, source)?;
            }
        }
        Ok(())
    }
}

fn found(part: &TablePart, key: &[u8], source: &impl BlockSource) -> Result<Option<usize>> {
    let found = thermocline_sst::get(part, key, SeqNo(u64::MAX - 1), source)?;
    Ok(found.map(|_| 1))
}

impl World {
    fn open(setting: &Setting, pm: u64) -> Result<World> {
        let env = Env::real();
        let pm_dir = setting.pm_dir.as_ref().unwrap_or(&setting.dir);
        let path = pm_dir.join(format!("yardsticks-{}.pm", std::process::id()));
        let spec = RegionSpec {
            env: env.clone(),
            place: Place::Path(path.clone()),
            demand: RegionDemand::Any,
            capacity: pm,
            emulation: setting.emulate,
            read_only: false,
        };
        let space_spec = SpaceSpec {
            part_bytes_first: if setting.quick { 1 << 20 } else { 64 << 20 },
            pm,
        };
        let region = Region::create(&spec, Space::first_part_bytes(&space_spec))?;
        let space = Space::create(region, &[1; 16], space_spec)?;
        Ok(World {
            env,
            region: path,
            table: setting
                .dir
                .join(format!("yardsticks-{}.sst", std::process::id())),
            space: Arc::new(space),
        })
    }

    /// Leaves nothing behind.
    fn remove(self) -> Result<()> {
        self.gone(&self.region)?;
        self.gone(&self.table)
    }

    /// Gives back what a structure took, zones or a file. Of neither is that part of writing the next one.
    fn release(&self, zones: &[Zone]) -> Result<()> {
        self.space.release(zones);
        self.gone(&self.table)
    }

    fn gone(&self, path: &Path) -> Result<()> {
        let storage = &*self.env.storage;
        match storage.exists(path)? {
            true => storage.remove(path),
            false => Ok(()),
        }
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
        let path = &self.table;
        let identity = Identity::new(DB_ID, FileId(7));
        let options = thermocline_sst::WriteOptions {
            compression,
            ..thermocline_sst::WriteOptions::default()
        };
        let mut writer = TableWriter::create(storage, path, identity, CfId(0), options)?;
        for (n, (key, value)) in (1..).zip(pairs) {
            let key = KeyRef::new(key, SeqNo(n));
            writer.add(key, Kind::Put, thermocline_sst::Value::Inline(value))?;
        }
        let bytes = writer.finish()?.bytes;
        let file = storage.open(path, OpenMode::Read)?;
        let part = Box::new(TablePart::whole(open_table(&*file, identity)?));
        let built = match cached {
            true => Built::Cached(part, BlockCache::new(1 << 30).store().source(file)),
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

fn measure(
    (world, setting): (&World, &Setting),
    data: &Data,
    reads: usize,
    rounds: usize,
) -> Result<Vec<Figures>> {
    let clock = &*world.env.clock;
    let mut figures: Vec<Figures> = ALL.iter().map(|_| Figures::default()).collect();
    for round in 0..=rounds {
        for (n, (name, kind)) in ALL.iter().enumerate() {
            setting.goes_on()?;
            let media = world.space.region().counters().media_bytes;
            let start = clock.now_ns();
            let (built, bytes, zones) = world.write(*kind, &data.pairs)?;
            let write_ms = (clock.now_ns() - start) as f64 / 1e6;
            let media = world.space.region().counters().media_bytes - media;
            built.warm(&data.pairs)?;
            let keys = data.keys_to_read(round, reads);
            let start = clock.now_ns();
            for key in &keys {
                assert!(built.get(key)?.is_some(), "{name} has lost a key");
            }
            let read_ns = (clock.now_ns() - start) as f64 / reads as f64;
            drop(built);
            world.release(&zones)?;
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

/// The paper's comparison (§VI-B).
#[derive(Debug)]
pub(crate) struct Tables;

impl Measure for Tables {
    fn measure(&self, setting: &Setting, tell: Tell<'_>) -> Result<Outcome> {
        let sizes: &[usize] = if setting.quick { &[1] } else { &[4, 16, 32] };
        let (reads, rounds) = if setting.quick {
            (200, 1)
        } else {
            (200_000, 5)
        };
        let pm = if setting.quick { 32 << 20 } else { 512 << 20 };
        let world = World::open(setting, pm)?;
        let mut outcome = Outcome {
            scale: format!(
                "{} MiB in pairs of 128 bytes with index-like keys of 120 (the paper: 32 to 128 MB of an index), and of \
                 116 bytes without pattern; medians of {rounds} rounds of {reads} reads; emulation {:?}",
                sizes
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(", "),
                setting.emulate,
            ),
            ..Outcome::default()
        };
        let measured = (|| {
            let mut index = Vec::new();
            for name in ["index", "random"] {
                for &mib in sizes {
                    tell(&format!("{name} keys, {mib} MiB"));
                    let data = Data::of(name, mib << 20);
                    let figures = measure((&world, setting), &data, reads, rounds)?;
                    outcome.tables.push(table(name, mib, &data, &figures));
                    if name == "index" {
                        index.push((mib, figures));
                    }
                }
            }
            Ok(index)
        })();
        world.remove()?;
        let index = measured?;
        outcome.charts = vec![
            chart("Time to write index keys", "milliseconds", &index, |f| {
                median(&f.write_ms)
            }),
            chart("Latency of a read", "nanoseconds", &index, |f| {
                median(&f.read_ns)
            }),
        ];
        if let Some((_, figures)) = index.last() {
            outcome.checks = checks(figures);
        }
        Ok(outcome)
    }
}

fn of(figures: &[Figures], shape: Shape) -> &Figures {
    let at = ALL.iter().position(|(_, other)| *other == shape);
    &figures[at.expect("it is among them")]
}

/// At the largest size.
fn checks(figures: &[Figures]) -> Vec<Check> {
    let of = |shape| of(figures, shape);
    let (pm, array) = (
        of(Shape::Pm(GroupSize::Sixteen)),
        of(Shape::Array(Packing::Plain)),
    );
    let (pair, eight) = (
        of(Shape::Array(Packing::Pair)),
        of(Shape::Array(Packing::Eight)),
    );
    let (file, cached) = (
        of(Shape::File(Compression::None)),
        of(Shape::Cached(Compression::Lz4)),
    );
    let write = |a: &Figures, b: &Figures| median(&a.write_ms) / median(&b.write_ms);
    let read = |a: &Figures, b: &Figures| median(&a.read_ns) / median(&b.read_ns);
    vec![
        Check::at_most(
            "writing a PM table against an array",
            "0.6 times: 40 % less",
            write(pm, array),
            0.6,
        ),
        Check::at_most(
            "writing a PM table against an SSTable",
            "0.3 times: 70 % less",
            write(pm, file),
            0.5,
        ),
        Check::at_least(
            "writing an array with each pair compressed against one without",
            "not faster",
            write(pair, array),
            1.0,
        ),
        Check::at_most(
            "reading a PM table against an array",
            "0.78 times at 32 MB, and not slower",
            read(pm, array),
            1.0,
        ),
        Check::at_most(
            "reading a PM table against an SSTable in memory",
            "down to 0.11 times",
            read(pm, cached),
            1.0,
        ),
        Check::at_least(
            "reading an array with each pair compressed against one without",
            "2.3 times",
            read(pair, array),
            1.2,
        ),
        Check::at_least(
            "reading an array compressed by eight against each pair compressed",
            "slower",
            read(eight, pair),
            1.0,
        ),
        Check::at_most(
            "PM that a PM table takes against an array",
            "compression of index keys, about as by eight",
            pm.media as f64 / array.media as f64,
            0.7,
        ),
    ]
}

fn chart(title: &str, y: &str, index: &[(usize, Vec<Figures>)], of: fn(&Figures) -> f64) -> Chart {
    let values = |n: usize| index.iter().map(|(_, figures)| of(&figures[n])).collect();
    let series = ALL.iter().enumerate().map(|(n, (name, _))| Series {
        name: (*name).to_string(),
        values: values(n),
    });
    Chart {
        title: title.to_string(),
        x: "MiB".to_string(),
        y: y.to_string(),
        groups: index.iter().map(|(mib, _)| mib.to_string()).collect(),
        series: series.collect(),
    }
}

fn table(name: &str, mib: usize, data: &Data, figures: &[Figures]) -> Table {
    let array = median(&of(figures, Shape::Array(Packing::Plain)).write_ms);
    let rows = ALL.iter().zip(figures).map(|((structure, _), figures)| {
        let (write, read) = (median(&figures.write_ms), median(&figures.read_ns));
        vec![
            (*structure).to_string(),
            format!("{write:.2}"),
            format!("{:.2}", write / array),
            format!("{read:.0}"),
            format!("{:.2}", data.bytes() as f64 / figures.bytes as f64),
            format!("{:.1}", figures.media as f64 / f64::from(1 << 20)),
        ]
    });
    Table {
        title: format!(
            "{name} keys, {mib} MiB in {} pairs of {} bytes",
            data.pairs.len(),
            data.pair_bytes()
        ),
        columns: [
            "structure",
            "write ms",
            "of array",
            "read ns",
            "compression",
            "PM MiB",
        ]
        .map(String::from)
        .into(),
        rows: rows.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of which blocks are kept in DRAM takes no longer to write than one of which none are.
    #[test]
    fn blocks_come_into_the_cache_when_the_table_is_written() {
        let folder = crate::setting::folder();
        let world = World::open(&Setting::quick(folder.path()), 32 << 20).unwrap();
        let data = Data::of("index", 1 << 20);
        let shape = Shape::Cached(Compression::None);
        let (built, ..) = world.write(shape, &data.pairs).unwrap();
        let Built::Cached(_, source) = &built else {
            panic!("it has no cache");
        };
        let cached = || source.cache().cache().bytes();
        assert_eq!(cached(), 0);
        built.warm(&data.pairs).unwrap();
        assert!(cached() > 0);
        drop(built);
        world.remove().unwrap();
    }

    /// Zones were released outside of the time of writing, and a file was removed within that of the next one.
    #[test]
    fn a_file_goes_before_the_next_one_is_timed() {
        let folder = crate::setting::folder();
        let setting = Setting::quick(folder.path());
        let world = World::open(&setting, 32 << 20).unwrap();
        let data = Data::of("index", 1 << 20);
        measure((&world, &setting), &data, 10, 1).unwrap();
        assert!(!world.table.exists());
        world.remove().unwrap();
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
