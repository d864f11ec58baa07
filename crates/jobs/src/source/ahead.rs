//! A file that a job reads from its beginning to its end.
//!
//! It is read in pieces. What lies behind the piece at hand may be on its way (`compaction.scheduler`, PM-Blade §V): with
//! `stages` from when the job begins with a piece, so that the device and the processor work at the same time; with
//! `coroutines` from when the piece is about to end, while other coroutines go on. A file has two pieces in DRAM then.
//!
//! # What holds
//! - *As if read alone.* What a read gives is what lies there. A piece that could not be read ahead is read when it is needed,
//!   and says what is wrong, and where.
//! - *Nothing behind the end* that a reader names is read ahead.
//! - *Any order.* A read that does not go on where the piece ends begins a new piece.

mod piece;

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use thermocline_base::{Error, Result};
use thermocline_env::File;
use thermocline_env::meter::Meter;
use thermocline_tables::{Staged, TableFile};

use piece::{Bytes, Piece};

/// See the [module](self).
pub(super) struct Ahead<'a> {
    file: Arc<TableFile>,
    /// Reads ahead; `None` if nothing does.
    staged: Option<&'a Staged>,
    meter: &'a Meter,
    /// Bytes of a piece.
    piece_bytes: usize,
    piece: RefCell<Piece>,
}

impl<'a> Ahead<'a> {
    /// Of this file, of which it reads so many bytes at a time, `staged` ahead; `meter` counts what is read.
    pub fn new(
        file: Arc<TableFile>,
        piece_bytes: usize,
        staged: Option<&'a Staged>,
        meter: &'a Meter,
    ) -> Ahead<'a> {
        Ahead {
            file,
            staged,
            meter,
            piece_bytes,
            piece: RefCell::default(),
        }
    }

    /// The `len` bytes at `offset`. Later reads will want nothing behind `end`.
    ///
    /// # Errors
    /// Those of reading; the end of the file before that.
    pub fn read(&self, offset: u64, len: usize, end: u64) -> Result<Vec<u8>> {
        let mut piece = self.piece.borrow_mut();
        piece.end = end;
        if let Some(bytes) = piece.get(offset, len) {
            return Ok(bytes);
        }
        while self.await_next(&mut piece, offset) {
            self.send_ahead(&mut piece);
            if let Some(bytes) = piece.get(offset, len) {
                return Ok(bytes);
            }
        }
        self.begin_anew(&mut piece, offset, len, end)?;
        self.send_ahead(&mut piece);
        Ok(piece.get(offset, len).expect("it was just read"))
    }

    /// The `len` bytes at `offset`, and nothing with them.
    ///
    /// # Errors
    /// As [`Ahead::read`].
    pub fn read_alone(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        Ok(self.fetch(offset, (len, len))?.to_vec())
    }

    /// Bytes of DRAM that it takes, but for what a buffer of the pool has beyond what was asked for: mostly a page or two, and at
    /// most about as much again.
    pub fn memory(&self) -> u64 {
        let piece = self.piece.borrow();
        let coming = piece.coming.as_ref().map_or(0, |_| self.piece_bytes);
        (piece.len() + coming) as u64
    }

    /// Whether the piece at hand is about to end, and there is more.
    pub fn is_short(&self) -> bool {
        self.staged.is_some() && self.piece.borrow().is_short()
    }

    /// Waits, without holding up the thread, until the piece at hand is not about to end, or cannot be helped.
    pub fn poll_more(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut piece = self.piece.borrow_mut();
        if self.staged.is_none() || !piece.is_short() {
            return Poll::Ready(());
        }
        if piece.coming.is_none() {
            self.send(&mut piece);
        }
        let Some((coming, _)) = &mut piece.coming else {
            piece.refused = true;
            return Poll::Ready(());
        };
        let next = ready!(Pin::new(coming).poll(context));
        piece.coming = None;
        piece.refused = next.is_none();
        if let Some(next) = next {
            self.meter.has_read(next.len() as u64);
            let used = piece.used;
            piece.join(used, next);
            self.send_ahead(&mut piece);
        }
        Poll::Ready(())
    }

    /// Up to `most` bytes that lie at `offset`, but `least` of them.
    fn fetch(&self, offset: u64, (least, most): (usize, usize)) -> Result<Bytes> {
        let bytes = self.meter.reading(|| match self.staged {
            Some(staged) => staged.read_now(&self.file, offset, most).map(Bytes::Read),
            None => {
                let mut bytes = vec![0; most];
                let got = self.file.read_at(&mut bytes, offset)?;
                bytes.truncate(got);
                Ok(Bytes::Own(bytes))
            }
        })?;
        if bytes.len() < least {
            let text = format!("asked for {least} bytes, got {}", bytes.len());
            let short = io::Error::new(io::ErrorKind::UnexpectedEof, text);
            return Err(Error::io_at("read", self.file.path(), offset, short));
        }
        self.meter.has_read(bytes.len() as u64);
        Ok(bytes)
    }

    /// Waits for what is on its way, if it is what lies behind `offset`. Returns whether it is there.
    fn await_next(&self, piece: &mut Piece, offset: u64) -> bool {
        let is_wanted = piece.has(offset);
        let Some((coming, _)) = piece.coming.take().filter(|_| is_wanted) else {
            return false;
        };
        let Some(next) = self.meter.reading(|| coming.wait()) else {
            return false;
        };
        self.meter.has_read(next.len() as u64);
        piece.join(offset, next);
        true
    }

    /// Reads a piece that begins at `offset`, but for what is there of it.
    fn begin_anew(&self, piece: &mut Piece, offset: u64, len: usize, end: u64) -> Result<()> {
        // Nothing is known of it if the call fails.
        let before = std::mem::take(piece);
        let left = match before.has(offset) {
            true => before.left_from(offset),
            false => Vec::new(),
        };
        let at = offset + left.len() as u64;
        let least = len.saturating_sub(left.len());
        let most = self.at_most(end.saturating_sub(at)).max(least);
        *piece = Piece {
            begin: offset,
            bytes: self.fetch(at, (least, most))?,
            left,
            end,
            ..Piece::default()
        };
        Ok(())
    }

    /// Sends for what lies behind the piece, if that is done before it is needed.
    fn send_ahead(&self, piece: &mut Piece) {
        if self.staged.is_some_and(Staged::is_ahead) {
            self.send(piece);
        }
    }

    fn send(&self, piece: &mut Piece) {
        let at = piece.behind();
        let len = self.at_most(piece.end.saturating_sub(at));
        if let (Some(staged), 1..) = (self.staged, len) {
            let coming = staged.read(&self.file, at, len);
            piece.coming = coming.map(|coming| (coming, len));
        }
    }

    fn at_most(&self, bytes: u64) -> usize {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        bytes.min(self.piece_bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::path::Path;

    use thermocline_base::{AsyncIo, Scheduler, Steps};
    use thermocline_env::fault::{Fault, FaultStorage, Op, Plan, Repeat};
    use thermocline_env::real::RealClock;
    use thermocline_env::sim::SimFs;
    use thermocline_env::simulated::SimClock;
    use thermocline_env::{OpenMode, Storage};
    use thermocline_exec::{BufPool, JobIo, UnderWay};
    use thermocline_testkit::{Rng, block_on};

    use super::*;

    const PIECE_BYTES: usize = 256 << 10;
    const LEN: usize = 5 * PIECE_BYTES + 1234;

    /// A file of random bytes, and a disk that may fail.
    struct World {
        bytes: Vec<u8>,
        disk: FaultStorage,
        threads: Staged,
        inline: Staged,
        coroutines: Staged,
    }

    fn staged(io: JobIo, scheduler: Scheduler) -> Staged {
        Staged::new(io.into(), scheduler, AsyncIo::Threads, (8, 1)).unwrap()
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
            let inline = JobIo::inline(pool.clone(), 3);
            let coroutines = JobIo::inline(pool, 4);
            World {
                bytes,
                disk: FaultStorage::over_sim(fs),
                threads: staged(threads, Scheduler::Stages),
                inline: staged(inline, Scheduler::Stages),
                coroutines: staged(coroutines, Scheduler::Coroutines),
            }
        }

        fn staged(&self) -> [Option<&Staged>; 4] {
            let staged = [&self.threads, &self.inline, &self.coroutines];
            [None, Some(staged[0]), Some(staged[1]), Some(staged[2])]
        }

        fn ahead<'a>(&'a self, staged: Option<&'a Staged>, meter: &'a Meter) -> Ahead<'a> {
            let disk: Arc<dyn Storage> = Arc::new(self.disk.clone());
            let file = TableFile::open(&disk, "/file".into()).unwrap();
            Ahead::new(file, PIECE_BYTES, staged, meter)
        }
    }

    fn meter() -> Meter {
        Meter::new(Arc::new(SimClock::new()))
    }

    #[test]
    fn every_read_gives_what_lies_there_in_any_order() {
        let world = World::new();
        for (seed, staged) in (0..24).zip(world.staged().into_iter().cycle()) {
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
                if rng.one_in(2) {
                    block_on(poll_fn(|context| ahead.poll_more(context)));
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
    fn what_lies_between_is_passed_over_and_nothing_is_read_twice() {
        let world = World::new();
        for seed in 0..20 {
            let io = JobIo::inline(BufPool::new(1 << 20), seed);
            let inline = staged(io, Scheduler::Stages);
            let staged = Some(&inline);
            let meter = meter();
            let ahead = world.ahead(staged, &meter);
            let calls = || world.disk.calls_for(Fault::Eio, Some(Op::Read));
            let before = calls();
            // As data with other blocks between, at which some pieces end.
            for at in (0..LEN - 5000).step_by(7001) {
                let read = ahead.read(at as u64, 5000, LEN as u64).unwrap();
                assert!(read == world.bytes[at..at + 5000]);
            }
            drop(ahead);
            assert!(calls() - before <= LEN.div_ceil(PIECE_BYTES) as u64);
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
    fn nobody_waits_for_ever_for_what_cannot_be_read_ahead() {
        let world = World::new();
        let meter = meter();
        for staged in [&world.threads, &world.inline, &world.coroutines] {
            let both = [(), ()].map(|()| world.ahead(Some(staged), &meter));
            let end = LEN as u64;
            for ahead in &both {
                ahead.read(0, PIECE_BYTES - 100, end).unwrap();
            }
            world.disk.arm(Plan {
                fault: Fault::Eio,
                op: Some(Op::Read),
                at: world.disk.calls_for(Fault::Eio, Some(Op::Read)),
                repeat: Repeat::Forever,
            });
            // As a job waits for its inputs: for all of them at the same time.
            block_on(poll_fn(|context| {
                let polls = both.iter().map(|ahead| ahead.poll_more(context));
                match polls.filter(Poll::is_pending).count() {
                    0 => Poll::Ready(()),
                    _ => Poll::Pending,
                }
            }));
            world.disk.disarm();
            for ahead in &both {
                let read = ahead.read(PIECE_BYTES as u64 - 100, 200, end).unwrap();
                assert!(read == world.bytes[PIECE_BYTES - 100..PIECE_BYTES + 100]);
            }
        }
    }

    #[test]
    fn blocks_larger_than_a_piece_are_read_once() {
        let world = World::new();
        for staged in world.staged() {
            let meter = meter();
            let ahead = world.ahead(staged, &meter);
            let len = 2 * PIECE_BYTES + 100;
            for n in 0..2 {
                let read = ahead.read((n * len) as u64, len, 2 * len as u64).unwrap();
                assert!(read == world.bytes[n * len..(n + 1) * len]);
            }
            assert_eq!(meter.bytes_read(), 2 * len as u64);
        }
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
