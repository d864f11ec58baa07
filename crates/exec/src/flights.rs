//! Reads that the kernel makes while nobody waits for each, by `io_uring`. The unsafe code of asynchronous reads.
//!
//! # What makes it sound
//! The kernel writes into memory that it was given until it says that a read is done, even if the task that wanted the
//! read has gone. So
//! 1. the ring owns buffer and file of a read that is under way, in a place that does not move; neither a future nor
//!    its drop can reach them;
//! 2. it gives them out when the kernel has answered that read, and only then;
//! 3. a ring that goes in another way, as when its thread unwinds, leaks the buffers of reads that are still under way,
//!    and its bell's. [`Flights::land`] is the orderly way, after which there are none.
//!
//! The descriptor is valid while the file is held, and the kernel keeps a file open by itself once it has the read.

use std::io;
use std::io::PipeReader;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, types};
use thermocline_base::AsyncIo;

use crate::pool::PooledBuf;
use crate::prepared::Wanted;

/// Reads that are under way at once, at most.
pub(crate) const FLIGHTS_MAX: usize = 256;

/// Milliseconds after which the kernel's thread sleeps if there is no new read.
const SQPOLL_IDLE_MS: u32 = 2;

/// The bell's number among the reads.
const BELL: u64 = u64::MAX;

/// Errors in a row after which nothing more is hoped for.
const ERRORS_MAX: usize = 1000;

/// A read that is under way, and what belongs to it.
struct Flight<T> {
    wanted: Wanted,
    /// Leaked, unless the read has been answered (3).
    buf: ManuallyDrop<PooledBuf>,
    tag: T,
}

/// A read that is done.
pub(crate) struct Landed<T> {
    pub wanted: Wanted,
    pub buf: PooledBuf,
    pub tag: T,
    /// How many bytes were read.
    pub got: io::Result<usize>,
}

/// See the [module](self).
pub(crate) struct Flights<T> {
    ring: IoUring,
    /// Whether it is still to be enabled by the thread that will use it.
    is_disabled: bool,
    /// Never longer than at the beginning: its elements stay where they are.
    flights: Box<[Option<Flight<T>>]>,
    free: Vec<usize>,
    /// Read by the kernel, so that a byte written into the pipe ends the wait; none where the device is polled.
    bell: Option<PipeReader>,
    bell_buf: ManuallyDrop<Box<[u8; 8]>>,
    bell_is_armed: bool,
}

impl<T> Flights<T> {
    /// A ring in this way, in which a byte from `bell` ends a wait. With [`AsyncIo::Iopoll`] there can be no bell. Whoever
    /// will use it [enables](Flights::enable) it first.
    ///
    /// # Errors
    /// The kernel's, where it has no such thing, does not allow it, or has no memory for it.
    pub fn new(way: AsyncIo, bell: PipeReader) -> io::Result<Flights<T>> {
        // One more for the bell.
        let entries = u32::try_from(FLIGHTS_MAX * 2).expect("a few");
        let (ring, is_disabled) = match way {
            AsyncIo::Interrupt => ring_by_interrupts(entries)?,
            AsyncIo::Sqpoll => {
                let mut builder = IoUring::builder();
                builder.setup_sqpoll(SQPOLL_IDLE_MS);
                (builder.build(entries)?, false)
            }
            AsyncIo::Iopoll => {
                let mut builder = IoUring::builder();
                builder.setup_iopoll();
                (builder.build(entries)?, false)
            }
            AsyncIo::Threads => return Err(io::ErrorKind::Unsupported.into()),
        };
        let flights = std::iter::repeat_with(|| None).take(FLIGHTS_MAX);
        Ok(Flights {
            ring,
            is_disabled,
            flights: flights.collect(),
            free: (0..FLIGHTS_MAX).rev().collect(),
            bell: (way != AsyncIo::Iopoll).then_some(bell),
            bell_buf: ManuallyDrop::new(Box::new([0; 8])),
            bell_is_armed: false,
        })
    }

    /// Makes it the ring of this thread, for good. Before that the kernel takes nothing from it, and after it from no other
    /// thread, where it knows of such rings.
    ///
    /// # Errors
    /// The kernel's.
    pub fn enable(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_disabled) {
            self.ring.submitter().register_enable_rings()?;
        }
        Ok(())
    }

    /// How many more reads it can take now.
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// Whether a wait can be ended by the bell.
    pub fn has_bell(&self) -> bool {
        self.bell.is_some()
    }

    /// Reads that are under way.
    pub fn under_way(&self) -> usize {
        FLIGHTS_MAX - self.free.len()
    }

    /// Puts a read of `buf.len()` bytes at `start` on its way; the kernel learns of it with the next call. Gives it back
    /// where it cannot.
    pub fn launch(
        &mut self,
        (wanted, start): (Wanted, u64),
        buf: PooledBuf,
        tag: T,
    ) -> Result<(), (Wanted, PooledBuf, T)> {
        let len = u32::try_from(buf.len());
        let fd = wanted.file.raw_reads().map(|raw| raw.fd().as_raw_fd());
        let (Ok(len), Some(fd)) = (len, fd) else {
            return Err((wanted, buf, tag));
        };
        // Not before: what is given back keeps no place.
        let Some(place) = self.free.pop() else {
            return Err((wanted, buf, tag));
        };
        let buf = ManuallyDrop::new(buf);
        let flight = self.flights[place].insert(Flight { wanted, buf, tag });
        let entry = opcode::Read::new(types::Fd(fd), flight.buf.as_mut_ptr(), len)
            .offset(start)
            .build()
            .user_data(place as u64);
        // SAFETY: the memory is the buffer's own, `len` bytes of it. It stays where it is and is neither read nor
        // written here until the read has been answered, and is not freed before that (1-3).
        let pushed = unsafe { self.ring.submission().push(&entry) };
        if pushed.is_err() {
            // The kernel has not seen it.
            self.free.push(place);
            let flight = self.flights[place].take();
            let Flight { wanted, buf, tag } = flight.expect("it was put there just now");
            return Err((wanted, ManuallyDrop::into_inner(buf), tag));
        }
        Ok(())
    }

    /// Tells the kernel of what was launched, without waiting. What the kernel has put off of reads that have ended is done, too.
    pub fn submit(&self) -> io::Result<()> {
        retried(|| self.ring.submit().map(drop))
    }

    /// Tells it, and waits until a read is done or the bell rings.
    pub fn submit_and_wait(&mut self) -> io::Result<()> {
        self.arm_bell();
        retried(|| self.ring.submit_and_wait(1).map(drop))
    }

    fn arm_bell(&mut self) {
        let Some(bell) = self.bell.as_ref().filter(|_| !self.bell_is_armed) else {
            return;
        };
        let fd = types::Fd(bell.as_raw_fd());
        let entry = opcode::Read::new(fd, self.bell_buf.as_mut_ptr(), 8).build();
        // SAFETY: eight bytes that belong to the ring, are leaked with it unless this read has been answered (3), and
        // that nobody looks at. One such read is under way at a time.
        self.bell_is_armed = unsafe { self.ring.submission().push(&entry.user_data(BELL)) }.is_ok();
    }

    /// Hands out the reads that are done; how many there were.
    pub fn landed(&mut self, mut each: impl FnMut(Landed<T>)) -> usize {
        let mut landed = 0;
        for done in self.ring.completion() {
            if done.user_data() == BELL {
                self.bell_is_armed = false;
                continue;
            }
            let place = usize::try_from(done.user_data()).unwrap_or(usize::MAX);
            let Some(flight) = self.flights.get_mut(place).and_then(Option::take) else {
                continue;
            };
            self.free.push(place);
            landed += 1;
            let Flight { wanted, buf, tag } = flight;
            let error = |_| io::Error::from_raw_os_error(-done.result());
            let got = usize::try_from(done.result()).map_err(error);
            each(Landed {
                wanted,
                buf: ManuallyDrop::into_inner(buf),
                tag,
                got,
            });
        }
        landed
    }

    /// Gives all up that is under way, since the kernel answers nothing any more. The buffers are leaked.
    pub fn give_up(mut self) -> Vec<(Wanted, T)> {
        let flights = self.flights.iter_mut().filter_map(Option::take);
        flights.map(|flight| (flight.wanted, flight.tag)).collect()
    }

    /// Ends it when no read is under way, and a byte for the bell has been written. Its memory is freed.
    pub fn land(mut self) {
        while self.bell_is_armed {
            if retried(|| self.ring.submit_and_wait(1).map(drop)).is_err() {
                return;
            }
            self.landed(|_| {});
        }
        let Flights { ring, bell_buf, .. } = self;
        drop(ring);
        drop(ManuallyDrop::into_inner(bell_buf));
    }
}

/// A ring whose device interrupts, and whether it is to be enabled by its thread.
///
/// The thread that polls enters the kernel before it sleeps, and learns there what is done: so it need not be interrupted
/// for that. The best for it is a ring of one thread, for which the kernel puts off what is to be done at the end of a read
/// until that thread enters to look for it, and does it there for all that have ended (Linux 6.1). The thread is the one
/// that enables the ring. A flag says that something was put off, so that also who enters without waiting has it done. Older
/// kernels do it whenever the thread enters for anything (5.19), or interrupt it.
fn ring_by_interrupts(entries: u32) -> io::Result<(IoUring, bool)> {
    let mut of_one_thread = IoUring::builder();
    of_one_thread
        .setup_r_disabled()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag();
    if let Ok(ring) = of_one_thread.build(entries) {
        return Ok((ring, true));
    }
    let quiet = IoUring::builder().setup_coop_taskrun().build(entries).ok();
    let ring = quiet.map_or_else(|| IoUring::new(entries), Ok)?;
    Ok((ring, false))
}

/// The kernel may be out of something for a moment.
fn retried(mut call: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    for _ in 0..ERRORS_MAX {
        match call() {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            // Answers wait to be taken.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => return Ok(()),
            Err(_) => std::thread::yield_now(),
        }
    }
    call()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use thermocline_base::Steps;
    use thermocline_env::direct::DeviceBytes;
    use thermocline_env::real::RealStorage;
    use thermocline_env::sim::SimFs;
    use thermocline_env::{OpenMode, Storage};

    use super::*;
    use crate::pool::BufPool;
    use crate::under_way::UnderWay;

    /// A place that is lost counts as a read under way for ever: the polling thread would never park, and never end; and one that
    /// finds its device not polled would make no read any more.
    #[test]
    fn a_read_that_is_given_back_keeps_no_place() {
        let (ear, _bell) = io::pipe().unwrap();
        // The system may refuse it.
        let Ok(mut flights) = Flights::new(AsyncIo::Interrupt, ear) else {
            return;
        };
        let disk = SimFs::new(Steps::new());
        disk.install(Path::new("/a"), b"some bytes");
        // It has no descriptor.
        let file = disk.open(Path::new("/a"), OpenMode::Read).unwrap();
        let pool = BufPool::new(0);
        for n in 0..2 * FLIGHTS_MAX {
            let wanted = Wanted {
                file: file.clone(),
                offset: 0,
                len: 4,
                _held: UnderWay::default().hold(),
            };
            let given = flights.launch((wanted, 0), pool.take(4096), n);
            assert!(given.is_err_and(|(_, _, tag)| tag == n));
            assert_eq!((flights.under_way(), flights.room()), (0, FLIGHTS_MAX));
        }
    }

    /// The ring is made by whoever asks for the first read, and used by the polling thread. That looks for what is done while
    /// others bring reads all the time, so that it never waits.
    #[test]
    fn another_thread_than_its_maker_uses_it_and_sees_what_is_done_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let (path, storage) = (folder.path().join("file"), RealStorage::new());
        let made = storage.open(&path, OpenMode::CreateNew).unwrap();
        made.write_at(&[7; 4096], 0).unwrap();
        let counter = Arc::new(DeviceBytes::default());
        let file = storage.open_direct(&path, OpenMode::Read, &counter);
        let file = file.unwrap();
        let (ear, _bell) = io::pipe().unwrap();
        // The system may refuse it.
        let Ok(mut flights) = Flights::new(AsyncIo::Interrupt, ear) else {
            return;
        };
        let read = move || {
            flights.enable().unwrap();
            let wanted = Wanted {
                file,
                offset: 0,
                len: 4096,
                _held: UnderWay::default().hold(),
            };
            let given = flights.launch((wanted, 0), BufPool::new(0).take(4096), ());
            assert!(given.is_ok());
            let mut read = None;
            while read.is_none() {
                flights.submit().unwrap();
                flights.landed(|landed| read = Some((landed.got.unwrap(), landed.buf[0])));
                std::thread::yield_now();
            }
            flights.land();
            read
        };
        let read = std::thread::spawn(read).join().unwrap();
        assert_eq!(read, Some((4096, 7)));
    }
}
