//! A file that a job reads from its beginning to its end.
//!
//! It is read in pieces. With `compaction.scheduler=stages` the next piece is on its way while the job works on the one at hand, so
//! that the device and the processor work at the same time (PM-Blade §V.B). A file has two pieces in DRAM then.
//!
//! # What holds
//! - *As if read alone.* What a read gives is what lies there. A piece that could not be read ahead is read when it is needed, and says what is
//!   wrong, and where.
//! - *Nothing behind the end* that a reader names is read ahead.
//! - *Any order.* Whoever does not go on where the piece ends begins anew.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use thermocline_base::{Error, Result};
use thermocline_env::File;
use thermocline_env::meter::Meter;
use thermocline_exec::Coming;
use thermocline_tables::{Staged, TableFile};

/// Bytes of a piece.
const PIECE_BYTES: usize = 256 << 10;

/// See the [module](self).
pub(super) struct Ahead<'a> {
    file: Arc<TableFile>,
    /// Reads ahead, if somebody does.
    staged: Option<&'a Staged>,
    meter: &'a Meter,
    piece: RefCell<Piece>,
}

/// Bytes that were read.
#[derive(Default)]
struct Piece {
    begin: u64,
    bytes: Vec<u8>,
    /// Those behind them, on their way.
    coming: Option<Coming>,
}

impl Piece {
    fn get(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let skip = usize::try_from(offset.checked_sub(self.begin)?).ok()?;
        self.bytes.get(skip..skip.checked_add(len)?)
    }

    fn end(&self) -> u64 {
        self.begin + self.bytes.len() as u64
    }
}

impl<'a> Ahead<'a> {
    /// Of this file, which `staged` reads ahead; `meter` counts what is read.
    pub fn new(file: Arc<TableFile>, staged: Option<&'a Staged>, meter: &'a Meter) -> Ahead<'a> {
        Ahead {
            file,
            staged,
            meter,
            piece: RefCell::default(),
        }
    }

    /// The `len` bytes at `offset`. Whoever reads on will want nothing behind `end`.
    ///
    /// # Errors
    /// Those of reading; the end of the file before that.
    pub fn read(&self, offset: u64, len: usize, end: u64) -> Result<Vec<u8>> {
        let mut piece = self.piece.borrow_mut();
        if let Some(bytes) = piece.get(offset, len) {
            return Ok(bytes.to_vec());
        }
        if self.join(&mut piece, offset) {
            self.begin_next(&mut piece, end);
            if let Some(bytes) = piece.get(offset, len) {
                return Ok(bytes.to_vec());
            }
        }
        self.begin_anew(&mut piece, offset, len, end)?;
        self.begin_next(&mut piece, end);
        Ok(piece.bytes[..len].to_vec())
    }

    /// The `len` bytes at `offset`, and nothing with them.
    ///
    /// # Errors
    /// As [`Ahead::read`].
    pub fn read_alone(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes, offset, len)?;
        Ok(bytes)
    }

    /// Reads as many bytes as there are place for, at `offset`, but `least` of them.
    fn fill(&self, bytes: &mut Vec<u8>, offset: u64, least: usize) -> Result<()> {
        let got = self.meter.reading(|| self.file.read_at(bytes, offset))?;
        if got < least {
            let text = format!("asked for {least} bytes, got {got}");
            let short = io::Error::new(io::ErrorKind::UnexpectedEof, text);
            return Err(Error::io_at("read", self.file.path(), offset, short));
        }
        bytes.truncate(got);
        self.meter.has_read(got as u64);
        Ok(())
    }

    /// Puts what is on its way behind what there is from `offset` on. Returns whether that could be.
    fn join(&self, piece: &mut Piece, offset: u64) -> bool {
        let Some(coming) = piece.coming.take() else {
            return false;
        };
        if !(piece.begin..=piece.end()).contains(&offset) {
            return false;
        }
        let Some(next) = self.meter.reading(|| coming.wait()) else {
            return false;
        };
        self.meter.has_read(next.len() as u64);
        let passed = usize::try_from(offset - piece.begin).expect("within a piece");
        piece.bytes.drain(..passed);
        piece.bytes.extend_from_slice(&next);
        piece.begin = offset;
        true
    }

    /// Reads a piece at `offset`.
    fn begin_anew(&self, piece: &mut Piece, offset: u64, len: usize, end: u64) -> Result<()> {
        // Nothing is known of it if the call fails.
        let Piece { mut bytes, .. } = std::mem::take(piece);
        bytes.resize(at_most(end.saturating_sub(offset)).max(len), 0);
        self.fill(&mut bytes, offset, len)?;
        (piece.begin, piece.bytes) = (offset, bytes);
        Ok(())
    }

    /// Sends for what lies behind the piece.
    fn begin_next(&self, piece: &mut Piece, end: u64) {
        let at = piece.end();
        let len = at_most(end.saturating_sub(at));
        if let (Some(staged), 1..) = (self.staged, len) {
            piece.coming = staged.read(&self.file, at, len);
        }
    }
}

fn at_most(bytes: u64) -> usize {
    usize::try_from(bytes)
        .unwrap_or(usize::MAX)
        .min(PIECE_BYTES)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use thermocline_base::AsyncIo;
    use thermocline_base::Steps;
    use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
    use thermocline_env::real::RealClock;
    use thermocline_env::sim::SimFs;
    use thermocline_env::simulated::SimClock;
    use thermocline_env::{OpenMode, Storage};
    use thermocline_exec::{BufPool, JobIo, UnderWay};
    use thermocline_testkit::Rng;

    use super::*;

    const LEN: usize = 5 * PIECE_BYTES + 1234;

    /// A file of random bytes, and a disk that may fail.
    struct World {
        bytes: Vec<u8>,
        disk: FaultStorage,
        threads: Staged,
        inline: Staged,
    }

    impl World {
        fn new() -> World {
            let mut rng = Rng::new(5);
            let fs = SimFs::new(Steps::new());
            let bytes: Vec<u8> = (0..LEN).map(|_| rng.next_u64().to_le_bytes()[0]).collect();
            let file = fs.open(Path::new("/file"), OpenMode::CreateNew).unwrap();
            file.write_at(&bytes, 0).unwrap();
            let (pool, clock) = (BufPool::new(1 << 20), Arc::new(RealClock::new()));
            let threads = JobIo::new(pool.clone(), UnderWay::default(), clock);
            let inline = JobIo::inline(pool, 3);
            World {
                bytes,
                disk: FaultStorage::over_sim(fs),
                threads: Staged::new(threads.into(), AsyncIo::Threads, 8),
                inline: Staged::new(inline.into(), AsyncIo::Threads, 8),
            }
        }

        fn staged(&self) -> [Option<&Staged>; 3] {
            [None, Some(&self.threads), Some(&self.inline)]
        }

        fn ahead<'a>(&'a self, staged: Option<&'a Staged>, meter: &'a Meter) -> Ahead<'a> {
            let disk: Arc<dyn Storage> = Arc::new(self.disk.clone());
            let file = TableFile::open(&disk, "/file".into()).unwrap();
            Ahead::new(file, staged, meter)
        }
    }

    fn meter() -> Meter {
        Meter::new(Arc::new(SimClock::new()))
    }

    #[test]
    fn every_read_gives_what_lies_there_in_any_order() {
        let world = World::new();
        for (seed, staged) in (0..21).zip(world.staged().into_iter().cycle()) {
            let (mut rng, meter) = (Rng::new(seed), meter());
            let ahead = world.ahead(staged, &meter);
            let mut at = 0;
            for _ in 0..400 {
                let most = if rng.one_in(40) {
                    2 * PIECE_BYTES
                } else {
                    9000
                };
                let len = 1 + rng.below(most);
                if at + len > LEN || rng.one_in(60) {
                    at = rng.below(LEN - len);
                }
                let read = match rng.one_in(30) {
                    true => ahead.read_alone(at as u64, len),
                    false => ahead.read(at as u64, len, LEN as u64),
                };
                assert!(
                    read.unwrap() == world.bytes[at..at + len],
                    "{seed}: {len} at {at}"
                );
                at += len;
            }
        }
    }

    #[test]
    fn what_is_read_in_its_order_is_read_once() {
        let world = World::new();
        for staged in world.staged() {
            let meter = meter();
            let ahead = world.ahead(staged, &meter);
            let end = LEN as u64 - 1000;
            for at in (0..end).step_by(3000) {
                let len = usize::try_from((end - at).min(3000)).unwrap();
                ahead.read(at, len, end).unwrap();
            }
            assert_eq!(meter.bytes_read(), end);
        }
    }

    #[test]
    fn a_piece_that_cannot_be_read_ahead_is_read_when_it_is_needed() {
        let world = World::new();
        let plan = |at, repeat| Plan {
            fault: Fault::Eio,
            op: Some(Op::Read),
            at: world.disk.calls_for(Fault::Eio, Some(Op::Read)) + at,
            repeat,
        };
        let meter = meter();
        // The first read is that of the piece at hand, and the second one that of what comes.
        world.disk.arm(plan(1, Repeat::Once));
        let ahead = world.ahead(Some(&world.threads), &meter);
        for at in (0..LEN - 5000).step_by(5000) {
            let read = ahead.read(at as u64, 5000, LEN as u64).unwrap();
            assert!(read == world.bytes[at..at + 5000]);
        }
        assert_eq!(world.disk.fired(), 1);
        world.disk.arm(plan(1, Repeat::Forever));
        let ahead = world.ahead(Some(&world.threads), &meter);
        ahead.read(0, 5000, LEN as u64).unwrap();
        let at = PIECE_BYTES as u64 - 10;
        let error = ahead.read(at, 5000, LEN as u64).unwrap_err();
        assert!(
            matches!(error, Error::Io { .. }) && error.to_string().contains("/file"),
            "{error}"
        );
    }

    #[test]
    fn a_file_that_ends_too_soon_is_an_error_that_says_where() {
        let world = World::new();
        let meter = meter();
        for staged in world.staged() {
            let ahead = world.ahead(staged, &meter);
            let at = LEN as u64 - 100;
            let error = ahead
                .read(at, 101, LEN as u64 + 50)
                .unwrap_err()
                .to_string();
            assert!(error.contains("asked for 101 bytes, got 100"), "{error}");
            assert!(ahead.read_alone(at, 100).is_ok());
        }
    }
}
