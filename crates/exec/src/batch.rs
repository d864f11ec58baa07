//! Several reads at once.
//!
//! A device answers several requests that it has at the same time in little more time than one. A
//! [`BatchReader`] hands it all of them with one system call, where the operating system offers that
//! (`io_uring`), and waits for all. Where it does not, or a file must be read in its own way (simulators),
//! they are made one after the other. The answers are the same.
//!
//! # What always holds
//! 1. *As if read alone.* A read that is not answered in full is made again by the file's own
//!    [`read_at`](File::read_at), which knows what to do after interruptions, short reads and refusals;
//!    that answer counts.
//! 2. *Counted once*, as the file counts what it reads itself.
//! 3. *Bounded.* Rings are made as threads read at the same time, up to a bound, and kept; beyond it
//!    reads are made one after the other. A file descriptor and a few pages each.

use std::sync::Arc;

use thermocline_base::sync::{AtomicBool, Mutex, Ordering, lock};
use thermocline_base::{AsyncIo, Result};
use thermocline_env::File;

use crate::pool::BufPool;
use crate::prepared::Prepared;
use crate::range::RangeBuf;
#[cfg(target_os = "linux")]
use crate::ring::{READS_MAX, Ring, RingRead, is_refusal};
use crate::under_way::{Counted, UnderWay};

/// Rings at most, in use or idle.
#[cfg(target_os = "linux")]
const RINGS_MAX: usize = 64;

/// A read of a batch.
#[derive(Debug, Clone, Copy)]
pub struct BatchRead<'a> {
    /// From where.
    pub file: &'a dyn File,
    /// The first byte.
    pub offset: u64,
    /// How many: fewer are read where the file ends before.
    pub len: usize,
}

/// See the [module](self).
///
/// ```
/// use std::path::Path;
/// use thermocline_base::Steps;
/// use thermocline_env::{OpenMode, Storage, sim::SimFs};
/// use thermocline_exec::{BatchRead, BatchReader, BufPool};
///
/// let disk = SimFs::new(Steps::new());
/// disk.install(Path::new("/a"), b"some bytes");
/// let file = disk.open(Path::new("/a"), OpenMode::Read)?;
/// let read = |offset, len| BatchRead { file: &*file, offset, len };
/// let reader = BatchReader::new(BufPool::new(1 << 20));
/// let found = reader.read(&[read(5, 3), read(0, 4)]);
/// let found: Result<Vec<_>, _> = found.into_iter().collect();
/// assert_eq!(found?.iter().map(|bytes| &bytes[..]).collect::<Vec<_>>(), [&b"byt"[..], b"some"]);
/// # Ok::<(), thermocline_base::Error>(())
/// ```
#[derive(Debug)]
pub struct BatchReader {
    pool: BufPool,
    reads: UnderWay,
    rings: Mutex<Rings>,
    /// Whether the operating system has refused to make a ring. Relaxed: a thread that does not see it
    /// asks once more.
    refused: AtomicBool,
}

#[derive(Debug, Default)]
struct Rings {
    #[cfg(target_os = "linux")]
    idle: Vec<Ring>,
    #[cfg(target_os = "linux")]
    made: usize,
}

impl BatchReader {
    /// With buffers of `pool`.
    pub fn new(pool: BufPool) -> BatchReader {
        BatchReader::counted(pool, UnderWay::default())
    }

    /// The same; its reads count among `reads` while they are under way.
    pub fn counted(pool: BufPool, reads: UnderWay) -> BatchReader {
        BatchReader {
            pool,
            reads,
            rings: Mutex::default(),
            refused: AtomicBool::new(false),
        }
    }

    /// One that never asks for several at once.
    pub fn one_by_one(pool: BufPool) -> BatchReader {
        BatchReader::new(pool).without_rings()
    }

    /// The same; or, where threads are to read, one that never asks for several at once, with the same buffers, and whose
    /// reads count among the same.
    #[must_use]
    pub fn by_way_of(self: &Arc<BatchReader>, way: AsyncIo) -> Arc<BatchReader> {
        match way {
            AsyncIo::Threads => {
                let (pool, reads) = (self.pool.clone(), self.reads.clone());
                Arc::new(BatchReader::counted(pool, reads).without_rings())
            }
            _ => self.clone(),
        }
    }

    fn without_rings(self) -> BatchReader {
        self.refused.store(true, Ordering::Relaxed);
        self
    }

    /// Makes all reads. The answers have their order.
    ///
    /// # Errors
    /// Each answer those of [`File::read_at`].
    pub fn read(&self, reads: &[BatchRead<'_>]) -> Vec<Result<RangeBuf>> {
        let _under_way = self.reads.add(reads.len());
        let mut answers: Vec<_> = self.at_once(reads);
        answers.resize_with(reads.len(), || None);
        let each = reads.iter().zip(answers);
        each.map(|(read, answer)| match answer {
            Some(buf) => Ok(buf),
            None => self.alone(read),
        })
        .collect()
    }

    /// Makes a read for a job. It counts as one of those, and not as a read that a reader waits for.
    ///
    /// # Errors
    /// Those of [`File::read_at`].
    pub fn read_of_job(&self, read: &BatchRead<'_>) -> Result<RangeBuf> {
        let _under_way = self.reads.job();
        self.alone(read)
    }

    /// Says that its caller reads alone, past this, for as long as it keeps what this returns.
    ///
    /// ```
    /// use thermocline_exec::{BatchReader, BufPool, UnderWay};
    /// let reads = UnderWay::default();
    /// let reader = BatchReader::counted(BufPool::new(0), reads.clone());
    /// let alone = reader.one_under_way();
    /// assert_eq!((reads.now(), reader.under_way()), (1, 1));
    /// drop(alone);
    /// assert_eq!(reads.now(), 0);
    /// ```
    #[must_use]
    pub fn one_under_way(&self) -> Counted<'_> {
        self.reads.add(1)
    }

    /// Reads that are under way, by this and all that count with it, but for those of jobs.
    pub fn under_way(&self) -> usize {
        self.reads.now()
    }

    fn prepare(&self, read: &BatchRead<'_>) -> Result<Prepared> {
        Prepared::new(&self.pool, read.file, read.offset, read.len)
    }

    fn alone(&self, read: &BatchRead<'_>) -> Result<RangeBuf> {
        let mut prepared = self.prepare(read)?;
        let got = read.file.read_at(&mut prepared.buf, prepared.start)?;
        Ok(prepared.answer(got, read.len))
    }

    /// Those that were answered in full.
    #[cfg(target_os = "linux")]
    fn at_once(&self, reads: &[BatchRead<'_>]) -> Vec<Option<RangeBuf>> {
        if reads.len() < 2 || self.refused.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let raws: Option<Vec<_>> = reads.iter().map(|read| read.file.raw_reads()).collect();
        let prepared: Result<Vec<_>> = reads.iter().map(|read| self.prepare(read)).collect();
        let (Some(raws), Ok(prepared)) = (raws, prepared) else {
            return Vec::new();
        };
        let places: Vec<_> = prepared.iter().map(|p| (p.start, p.before)).collect();
        let directs: Vec<_> = raws.iter().map(|raw| raw.direct_unit().is_some()).collect();
        let mut rest = raws.iter().zip(prepared).map(|(raw, prepared)| RingRead {
            fd: raw.fd(),
            offset: prepared.start,
            buf: prepared.buf,
        });
        let mut answers = Vec::with_capacity(reads.len());
        while let Some(mut ring) = self.take_ring() {
            let some: Vec<_> = rest.by_ref().take(READS_MAX).collect();
            if some.is_empty() {
                self.give_back(ring);
                break;
            }
            let Ok(done) = ring.read(some) else {
                // It is given up, and its place too.
                break;
            };
            self.give_back(ring);
            let kind = |got: &std::io::Result<usize>| got.as_ref().err().map(std::io::Error::kind);
            if (done.iter()).all(|(_, got)| kind(got) == Some(std::io::ErrorKind::InvalidInput)) {
                // It does not know how to read.
                self.refused.store(true, Ordering::Relaxed);
            }
            for (buf, got) in done {
                let n = answers.len();
                let (start, before) = places[n];
                answers.push(got.ok().and_then(|got| {
                    raws[n].has_read(directs[n], got, start);
                    let whole = got >= before + reads[n].len;
                    let prepared = Prepared { start, before, buf };
                    whole.then(|| prepared.answer(got, reads[n].len))
                }));
            }
        }
        answers
    }

    #[cfg(not(target_os = "linux"))]
    fn at_once(&self, _reads: &[BatchRead<'_>]) -> Vec<Option<RangeBuf>> {
        Vec::new()
    }

    #[cfg(target_os = "linux")]
    fn take_ring(&self) -> Option<Ring> {
        let mut rings = lock(&self.rings);
        if let Some(ring) = rings.idle.pop() {
            return Some(ring);
        }
        if rings.made == RINGS_MAX {
            return None;
        }
        let ring = match Ring::new() {
            Ok(ring) => ring,
            Err(error) => {
                if is_refusal(&error) {
                    self.refused.store(true, Ordering::Relaxed);
                }
                return None;
            }
        };
        rings.made += 1;
        Some(ring)
    }

    #[cfg(target_os = "linux")]
    fn give_back(&self, ring: Ring) {
        lock(&self.rings).idle.push(ring);
    }
}
