//! Blocks of a store's files, read without the store: what the device does by itself, at the same depth and in the same way.
//!
//! The store is closed. Its tables and blob files are opened for direct I/O, as the store opens them. Each read is of
//! `compaction.block_bytes`, in whole units of direct I/O, and begins at a random multiple of the unit. A thread waits for each
//! read, as `get` does, or has several under way through the reader that the store's futures use, in the way that
//! `read.async_io` says. Nobody looks at what was read.

use std::ffi::OsStr;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use thermocline::options::AsyncIo;
use thermocline::size::{format_size, index};
use thermocline::{Error, Result};
use thermocline_env::direct::{DIRECT_UNIT, DeviceBytes};
use thermocline_env::{File, OpenMode, Storage};
use thermocline_exec::{AsyncReader, BufPool, RangeBuf, read_range};

use crate::depth::at_once;
use crate::numbers::counted;
use crate::plan::Plan;
use crate::rng::Rng;
use crate::threads::{Pace, Share, Tally};
use crate::workload::Operation;

/// The unit of direct I/O, in bytes.
const UNIT: u64 = DIRECT_UNIT as u64;

/// Most files that are open at once. A store that has more of them is read in as many, which lie evenly among all.
const FILES_MAX: usize = 256;

/// Most bytes of buffers that nobody uses.
const BUFS_IDLE_MAX: usize = 4 << 20;

/// Threads draw numbers that no other part of a run draws.
const DRAWN_BY: u64 = 0x6465_7669;

/// What was read of the device itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceReads {
    /// Bytes of each read.
    pub read_bytes: u64,
    /// Files in which blocks were read.
    pub files: u64,
    /// Bytes of these files.
    pub file_bytes: u64,
    /// Whether all reads went past the page cache. Else they say nothing of a device.
    pub direct: bool,
    /// How reads of several at once were made, as `read.async_io` names it; `None` where threads waited for each.
    pub way: Option<&'static str>,
}

impl DeviceReads {
    /// As a table for people has it.
    pub(crate) fn rows(&self) -> Vec<(String, String)> {
        let cache = match self.direct {
            true => "past the page cache",
            false => "THROUGH THE PAGE CACHE, so they say nothing of a device",
        };
        let way = match self.way {
            Some(way) => format!("awaited, by {way}"),
            None => "waited for one by one".to_string(),
        };
        let text = format!(
            "reads of {} in {} of {}, {way}, {cache}",
            format_size(self.read_bytes),
            counted(self.files, "file"),
            format_size(self.file_bytes)
        );
        vec![("device alone".to_string(), text)]
    }
}

/// A file, and the number of its first place among those of all files.
struct Part {
    file: Arc<dyn File>,
    first: u64,
}

/// All places in a store's files at which a read may begin, and what reads there.
pub(crate) struct Blocks {
    /// In the order of their first places; the first of them has number 0.
    parts: Vec<Part>,
    /// At least one.
    places: u64,
    file_bytes: u64,
    block_bytes: u64,
    counter: Arc<DeviceBytes>,
    pool: BufPool,
    reader: AsyncReader,
    way: AsyncIo,
    awaited: bool,
}

impl Blocks {
    /// Those of the store in `folder`, which is closed.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if no file has a whole block; those of the file system.
    pub fn open(storage: &dyn Storage, folder: &Path, plan: &Plan) -> Result<Blocks> {
        let block_bytes = plan.options.compaction.block_bytes.next_multiple_of(UNIT);
        let mut names = storage.list(folder)?;
        names.retain(|name| is_data(name));
        let step = names.len().div_ceil(FILES_MAX).max(1);
        let counter = Arc::new(DeviceBytes::default());
        let (mut parts, mut places, mut file_bytes) = (Vec::new(), 0, 0);
        for name in names.iter().step_by(step) {
            let file = storage.open_direct(&folder.join(name), OpenMode::Read, &counter)?;
            let len = file.len()?;
            if len < block_bytes {
                continue;
            }
            let first = places;
            parts.push(Part { file, first });
            places += (len - block_bytes) / UNIT + 1;
            file_bytes += len;
        }
        if parts.is_empty() {
            return Err(Error::InvalidArgument(format!(
                "{} has no table or blob file of {} or more; load more keys, or compact the database first",
                folder.display(),
                format_size(block_bytes)
            )));
        }
        let pool = BufPool::new(BUFS_IDLE_MAX);
        let reader = AsyncReader::new(pool.clone());
        let (way, awaited) = (plan.options.read.async_io, plan.awaited_depth().is_some());
        if awaited {
            // Its thread is there before anything counts.
            reader.decide(way);
        }
        Ok(Blocks {
            parts,
            places,
            file_bytes,
            block_bytes,
            counter,
            pool,
            reader,
            way,
            awaited,
        })
    }

    /// The file and the offset of the place with this number, which is below that of all places.
    fn at(&self, number: u64) -> (&Arc<dyn File>, u64) {
        let behind = self.parts.partition_point(|part| part.first <= number);
        let part = &self.parts[behind - 1];
        (&part.file, (number - part.first) * UNIT)
    }

    /// Bytes that were read so far.
    pub fn bytes_read(&self) -> u64 {
        self.counter.read()
    }

    /// What was read, and how.
    pub fn told(&self) -> DeviceReads {
        let way = self.reader.usage().way.filter(|_| self.awaited);
        let mut files = self.parts.iter().map(|part| &part.file);
        DeviceReads {
            read_bytes: self.block_bytes,
            files: self.parts.len() as u64,
            file_bytes: self.file_bytes,
            direct: files.all(|file| file.direct_unit().is_some()),
            way: way.map(AsyncIo::name),
        }
    }
}

/// Whether a file of that name holds keys or values.
fn is_data(name: &str) -> bool {
    let kind = Path::new(name).extension().and_then(OsStr::to_str);
    matches!(kind, Some("sst" | "blob"))
}

/// One reading thread.
pub(crate) struct BlockReader<'a> {
    blocks: &'a Blocks,
    share: Share,
    rng: Rng,
    /// Reads under way at once; `None` if it waits for each.
    depth: Option<usize>,
}

impl<'a> BlockReader<'a> {
    /// The reader of `plan`'s workload for thread `thread`.
    pub fn new(blocks: &'a Blocks, plan: &Plan, thread: u64) -> BlockReader<'a> {
        BlockReader {
            blocks,
            share: Share::of_operations(plan, thread),
            rng: Rng::of_part(plan.seed, DRAWN_BY + thread),
            depth: plan.awaited_depth(),
        }
    }

    /// Reads the share.
    pub fn read(mut self, pace: &mut Pace<'_>) -> Result<()> {
        let (blocks, share) = (self.blocks, self.share);
        let len = index(blocks.block_bytes);
        let mut draw = || blocks.at(self.rng.below(blocks.places));
        if let Some(depth) = self.depth {
            let begin = || {
                let (file, offset) = draw();
                blocks.reader.read(blocks.way, file.clone(), offset, len)
            };
            let count = |read: RangeBuf, _: &mut Tally| {
                black_box(read.first());
            };
            return at_once((depth, share), (pace, Operation::Read), begin, count);
        }
        for _ in share.from..share.until {
            let (file, offset) = draw();
            let read = read_range(&**file, &blocks.pool, offset, len)?;
            black_box(read.first());
            if !pace.lap(Operation::Read, 1, 1) {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use thermocline_base::Steps;
    use thermocline_env::sim::SimFs;

    use super::*;
    use crate::threads::{Limits, spread};
    use crate::watch::Watch;
    use crate::workload::Workload;

    /// Two files with places in them, one that is too short, and one that has no keys.
    fn disk() -> SimFs {
        let disk = SimFs::new(Steps::new());
        for (path, len) in [
            ("/000001.sst", 3 * DIRECT_UNIT + 5),
            ("/000002.blob", 2 * DIRECT_UNIT),
            ("/000003.sst", DIRECT_UNIT - 1),
            ("/000004.log", 100 * DIRECT_UNIT),
        ] {
            disk.install(Path::new(path), &vec![7u8; len]);
        }
        disk
    }

    fn plan() -> Plan {
        Plan {
            reads: Some(100),
            ..Plan::new(Workload::DeviceRead)
        }
    }

    #[test]
    fn files_are_counted_as_people_do() {
        let (disk, plan) = (disk(), plan());
        let blocks = Blocks::open(&disk, Path::new("/"), &plan).unwrap();
        let told = |files| {
            let reads = DeviceReads {
                files,
                ..blocks.told()
            };
            let mut rows = reads.rows();
            rows.remove(0).1
        };
        assert!(told(1).contains(" in 1 file of "), "{}", told(1));
        assert!(told(2).contains(" in 2 files of "), "{}", told(2));
    }

    #[test]
    fn blocks_begin_at_units_and_end_in_their_files() {
        for (block_bytes, places) in [("256", 5), ("4KiB", 5), ("6000", 3), ("12KiB", 1)] {
            let (disk, mut plan) = (disk(), plan());
            plan.options
                .set("compaction.block_bytes", block_bytes)
                .unwrap();
            let blocks = Blocks::open(&disk, Path::new("/"), &plan).unwrap();
            assert_eq!(blocks.places, places, "{block_bytes}");
            let mut all = BTreeSet::new();
            for number in 0..places {
                let (file, offset) = blocks.at(number);
                assert!(offset.is_multiple_of(UNIT));
                assert!(offset + blocks.block_bytes <= file.len().unwrap());
                all.insert((file.path().to_path_buf(), offset));
            }
            assert_eq!(all.len() as u64, places, "{block_bytes}");
        }
    }

    #[test]
    fn as_many_blocks_are_read_as_were_asked_for() {
        for (threads, async_depth, awaited) in [
            (1, 1, false),
            (3, 1, false),
            (1, 1, true),
            (2, 8, false),
            (1, 200, false),
        ] {
            let plan = Plan {
                threads,
                async_depth,
                awaited,
                ..plan()
            };
            let disk = disk();
            let blocks = Blocks::open(&disk, Path::new("/"), &plan).unwrap();
            let readers = (0..threads as u64).map(|n| BlockReader::new(&blocks, &plan, n));
            let (tally, _) = spread(
                readers.collect(),
                &plan.workload.operations(),
                Limits::of(&plan),
                &Watch::new(),
                BlockReader::read,
            )
            .unwrap();
            assert_eq!((tally.ops, blocks.bytes_read()), (100, 100 * UNIT));
            let told = blocks.told();
            assert_eq!(told.way.is_some(), awaited || async_depth > 1);
            let files = (told.files, told.file_bytes, told.read_bytes);
            assert_eq!(files, (2, 5 * UNIT + 5, UNIT));
            assert!(told.direct && told.rows()[0].1.contains("past the page cache"));
        }
    }

    #[test]
    fn a_store_of_many_files_is_read_in_some_of_them() {
        let disk = SimFs::new(Steps::new());
        for number in 0..2 * FILES_MAX + 1 {
            let path = format!("/{number:06}.sst");
            disk.install(Path::new(&path), &[7; DIRECT_UNIT]);
        }
        let blocks = Blocks::open(&disk, Path::new("/"), &plan()).unwrap();
        assert_eq!(blocks.places, (2 * FILES_MAX as u64 + 1).div_ceil(3));
    }

    #[test]
    fn a_store_without_blocks_says_so() {
        let disk = SimFs::new(Steps::new());
        disk.install(Path::new("/000001.sst"), b"less than a block");
        let error = Blocks::open(&disk, Path::new("/"), &plan()).err().unwrap();
        assert!(error.to_string().contains("4 KiB or more"), "{error}");
    }
}
