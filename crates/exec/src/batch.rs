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
//!    reads are made one after the other. A file descriptor and a few pages each. Where the system has no room for one it is
//!    asked again, but not for each batch (`tries`).
//! 4. *Given up for what is a ring's own fault.* A kernel whose rings cannot read, and a file system that takes no direct reads, answer
//!    the same. The first is known by what the file's own read of the same bytes does.

use std::sync::Arc;

use thermocline_base::sync::{AtomicBool, Mutex, Ordering, lock};
use thermocline_base::{AsyncIo, Result};
use thermocline_env::File;
#[cfg(target_os = "linux")]
use thermocline_env::RawReads;

use crate::pool::BufPool;
#[cfg(target_os = "linux")]
use crate::pool::PooledBuf;
use crate::prepared::Prepared;
use crate::range::RangeBuf;
#[cfg(target_os = "linux")]
use crate::ring::{READS_MAX, Ring, RingRead};
#[cfg(target_os = "linux")]
use crate::tries::Tries;
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

/// A read that a ring is to make.
#[cfg(target_os = "linux")]
struct Asked<'a> {
    read: &'a BatchRead<'a>,
    raw: RawReads<'a>,
    /// Whether its file was transferred directly when it was asked for.
    direct: bool,
    /// Where the whole units begin, and how far in them the bytes lie.
    start: u64,
    before: usize,
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
    /// Whether the operating system has refused to make a ring, or to read by one. Relaxed: a thread that does not see it
    /// asks once more.
    refused: AtomicBool,
}

#[derive(Debug, Default)]
struct Rings {
    #[cfg(target_os = "linux")]
    idle: Vec<Ring>,
    #[cfg(target_os = "linux")]
    made: usize,
    /// Since the last one was made.
    #[cfg(target_os = "linux")]
    tries: Tries,
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
            Some(answer) => answer,
            None => self.alone(read),
        })
        .collect()
    }

    /// Makes a read for a job. It counts as one of those, and not as a read that a reader waits for.
    ///
    /// # Errors
    /// Those of [`File::read_at`].
    pub fn read_of_job(&self, read: &BatchRead<'_>) -> Result<RangeBuf> {
        self.for_job(|| self.alone(read))
    }

    /// Has a read of a job made past this. It counts as [`BatchReader::read_of_job`] does.
    ///
    /// ```
    /// use thermocline_exec::{BatchReader, BufPool, UnderWay};
    /// let reader = BatchReader::counted(BufPool::new(0), UnderWay::default());
    /// assert!(reader.has_room(1));
    /// reader.for_job(|| assert!(!reader.has_room(1)));
    /// assert_eq!((reader.has_room(1), reader.under_way()), (true, 0));
    /// ```
    pub fn for_job<T>(&self, read: impl FnOnce() -> T) -> T {
        let _under_way = self.reads.job();
        read()
    }

    /// Whether a job that sends for a read ahead finds room now, where so many may be under way, those of jobs among them.
    pub fn has_room(&self, depth: usize) -> bool {
        self.reads.job_if_room(depth).is_some()
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

    /// The answers to those that need not be made alone any more.
    #[cfg(target_os = "linux")]
    fn at_once(&self, reads: &[BatchRead<'_>]) -> Vec<Option<Result<RangeBuf>>> {
        if reads.len() < 2 || self.refused.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let raws: Option<Vec<_>> = reads.iter().map(|read| read.file.raw_reads()).collect();
        let prepared: Result<Vec<_>> = reads.iter().map(|read| self.prepare(read)).collect();
        let (Some(raws), Ok(prepared)) = (raws, prepared) else {
            return Vec::new();
        };
        let (mut asked, mut rest) = (Vec::new(), Vec::new());
        for ((read, raw), prepared) in reads.iter().zip(raws).zip(prepared) {
            let Prepared { start, before, buf } = prepared;
            asked.push(Asked {
                read,
                raw,
                direct: raw.direct_unit().is_some(),
                start,
                before,
            });
            rest.push(RingRead {
                fd: raw.fd(),
                offset: start,
                buf,
            });
        }
        let mut rest = rest.into_iter().peekable();
        let mut answers = Vec::with_capacity(reads.len());
        while rest.peek().is_some()
            && let Some(mut ring) = self.take_ring(Ring::new)
        {
            let some: Vec<_> = rest.by_ref().take(READS_MAX).collect();
            let Ok(done) = ring.read(some) else {
                // It is given up, and its place too.
                break;
            };
            self.give_back(ring);
            let answered = self.answers(&asked[answers.len()..], done);
            answers.extend(answered);
        }
        answers
    }

    /// The answers to these reads, of which a ring has `done` the first ones: none where it did not read all.
    #[cfg(target_os = "linux")]
    fn answers(
        &self,
        asked: &[Asked<'_>],
        done: Vec<(PooledBuf, std::io::Result<usize>)>,
    ) -> Vec<Option<Result<RangeBuf>>> {
        let kind = |got: &std::io::Result<usize>| got.as_ref().err().map(std::io::Error::kind);
        let knows_none =
            (done.iter()).all(|(_, got)| kind(got) == Some(std::io::ErrorKind::InvalidInput));
        let each = asked.iter().zip(done);
        each.map(|(asked, (buf, got))| {
            if knows_none {
                return Some(self.instead_of_ring(asked));
            }
            let (got, len) = (got.ok()?, asked.read.len);
            let (start, before) = (asked.start, asked.before);
            asked.raw.has_read(asked.direct, got, start);
            let whole = got >= before + len;
            let prepared = Prepared { start, before, buf };
            whole.then(|| Ok(prepared.answer(got, len)))
        })
        .collect()
    }

    /// Makes a read alone that a ring did not know how to make. If the file makes it in the same way, the fault is the ring's: there will be
    /// none. A file that takes no direct reads learns that here, and is read by rings from then on.
    #[cfg(target_os = "linux")]
    fn instead_of_ring(&self, asked: &Asked<'_>) -> Result<RangeBuf> {
        let answer = self.alone(asked.read);
        if answer.is_ok() && asked.raw.direct_unit().is_some() == asked.direct {
            self.refused.store(true, Ordering::Relaxed);
        }
        answer
    }

    #[cfg(not(target_os = "linux"))]
    fn at_once(&self, _reads: &[BatchRead<'_>]) -> Vec<Option<Result<RangeBuf>>> {
        Vec::new()
    }

    /// One that is idle, or one that `make` makes.
    #[cfg(target_os = "linux")]
    fn take_ring(&self, make: impl FnOnce() -> std::io::Result<Ring>) -> Option<Ring> {
        let mut rings = lock(&self.rings);
        if let Some(ring) = rings.idle.pop() {
            return Some(ring);
        }
        if rings.made == RINGS_MAX || !rings.tries.is_due() {
            return None;
        }
        let Some(ring) = rings.tries.settle(make().map(Some))? else {
            self.refused.store(true, Ordering::Relaxed);
            return None;
        };
        rings.made += 1;
        rings.tries = Tries::default();
        Some(ring)
    }

    #[cfg(target_os = "linux")]
    fn give_back(&self, ring: Ring) {
        lock(&self.rings).idle.push(ring);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io;

    use thermocline_env::real::RealStorage;
    use thermocline_env::{OpenMode, Storage};

    use super::*;

    /// A file system that takes no direct reads says the same as a kernel whose rings cannot read.
    #[test]
    fn a_ring_is_given_up_for_what_the_file_reads_in_the_same_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = RealStorage::new().open(&path, OpenMode::CreateNew).unwrap();
        file.write_at(b"some bytes", 0).unwrap();
        let (pool, reader) = (BufPool::new(0), BatchReader::new(BufPool::new(0)));
        let (offset, len) = (5, 3);
        let read = BatchRead {
            file: &*file,
            offset,
            len,
        };
        let asked = |direct| Asked {
            read: &read,
            raw: file.raw_reads().unwrap(),
            direct,
            start: 0,
            before: 5,
        };
        // EINVAL.
        let invalid = || (pool.take(4096), Err(io::Error::from_raw_os_error(22)));
        let is_refused = || reader.refused.load(Ordering::Relaxed);
        // It was to be read directly, which it is no more.
        let answers = reader.answers(&[asked(true), asked(true)], vec![invalid(), invalid()]);
        assert_eq!(answers.len(), 2);
        for answer in answers {
            assert_eq!(&answer.unwrap().unwrap()[..], b"byt");
        }
        assert!(!is_refused(), "the file was not to be read so");
        let none = (pool.take(4096), Ok(0));
        let answers = reader.answers(&[asked(false), asked(false)], vec![invalid(), none]);
        assert!(answers.iter().all(Option::is_none));
        assert!(!is_refused(), "it knows how to read");
        let answers = reader.answers(&[asked(false)], vec![invalid()]);
        assert!(answers.into_iter().flatten().all(|answer| answer.is_ok()));
        assert!(is_refused());
    }

    #[test]
    fn a_ring_for_which_there_is_no_room_is_not_asked_for_with_each_batch() {
        let reader = BatchReader::new(BufPool::new(0));
        let mut asked = Vec::new();
        for batch in 0..300 {
            let ring = reader.take_ring(|| {
                asked.push(batch);
                // ENOMEM.
                Err(io::Error::from_raw_os_error(12))
            });
            assert!(ring.is_none());
        }
        assert_eq!(asked, [0, 1, 3, 7, 15, 31, 63, 127, 191, 255]);
        assert!(!reader.refused.load(Ordering::Relaxed));
        // ENOSYS. There will be none.
        let refuses = || Err(io::Error::from_raw_os_error(38));
        assert!((0..100).all(|_| reader.take_ring(refuses).is_none()));
        assert!(reader.refused.load(Ordering::Relaxed));
    }

    /// As far as the system that this runs on has any.
    #[test]
    fn who_gets_a_ring_at_last_begins_anew() {
        let reader = BatchReader::new(BufPool::new(0));
        let no_room = || Err(io::Error::from_raw_os_error(12));
        // The fourth failure would be followed by seven batches that do not ask.
        for _ in 0..4 {
            assert!(reader.take_ring(no_room).is_none());
        }
        let Some(_ring) = (0..4).find_map(|_| reader.take_ring(Ring::new)) else {
            return;
        };
        let mut asked = Vec::new();
        for batch in 0..10 {
            let fails = || {
                asked.push(batch);
                Err(io::Error::from_raw_os_error(12))
            };
            assert!(reader.take_ring(fails).is_none());
        }
        assert_eq!(asked, [0, 1, 3, 7]);
    }

    /// As far as the system that this runs on has any.
    #[test]
    fn a_ring_that_was_made_is_used_again() {
        let reader = BatchReader::new(BufPool::new(0));
        let Some(ring) = reader.take_ring(Ring::new) else {
            return;
        };
        reader.give_back(ring);
        let asked = || -> io::Result<Ring> { unreachable!("there is one") };
        let ring = reader.take_ring(asked).unwrap();
        // Somebody has it, and there is no room for another one.
        for failed in [12, 24] {
            let fails = || Err(io::Error::from_raw_os_error(failed));
            assert!(reader.take_ring(fails).is_none());
        }
        reader.give_back(ring);
        assert!(reader.take_ring(asked).is_some());
        assert_eq!(lock(&reader.rings).made, 1);
    }
}
