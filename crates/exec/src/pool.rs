//! Aligned buffers that are used again.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use thermocline_base::counter::thread_number;
use thermocline_base::sync::{Arc, AtomicUsize, Mutex, Ordering, SCHEDULED, lock};

use crate::aligned::{AlignedBuf, PAGE_BYTES};

/// Up to so many bytes a buffer is small: it is for a block, and taken and given back with each one that is read.
const SMALL_BYTES: usize = 4 * PAGE_BYTES;

/// Places for small ones of threads, each its own as far as there are enough.
const PLACES: usize = 16;

/// Each of them has one part in so many of what may lie idle, and no more bytes than follow: all together a quarter at most.
const PLACE_PART: usize = 4 * PLACES;
const PLACE_BYTES_MAX: usize = 64 << 10;

/// Keeps aligned buffers for later use, up to a number of bytes. Cloning shares it. Taking one
/// never waits: where none lies idle, one is made.
///
/// A small buffer goes back to the place of the thread that took it, whoever gives it back: there it is found the next time.
/// Both take one lock. A place that is empty, or full, is passed over without.
///
/// A large one that finds no room is kept in place of those that have been idle for longest. So sizes that are wanted once
/// do not fill the pool, to keep out those that are wanted again and again.
///
/// ```
/// let pool = thermocline_exec::BufPool::new(1 << 20);
/// drop(pool.take(5000));
/// assert_eq!(pool.idle_bytes(), 8192);
/// assert_eq!(pool.take(6000).len(), 6000);
/// ```
#[derive(Debug, Clone)]
pub struct BufPool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Small ones, by the thread that takes them.
    places: [Place; PLACES],
    /// Others, and small ones for which there is no room in their places.
    common: Idle,
}

#[derive(Debug)]
#[repr(align(128))]
struct Place(Idle);

#[derive(Debug)]
struct Idle {
    bufs: Mutex<Lists>,
    /// The sum of their capacities. Changed under the lock. Relaxed: without it a guess, which spares a lock that is of no use.
    bytes: AtomicUsize,
    /// The most that it may be.
    bytes_max: usize,
}

/// Buffers, and when they were given back.
#[derive(Debug, Default)]
struct Lists {
    /// By capacity, the one that was given back last at the end. Lists of small ones stay when they are empty: they are few, and soon
    /// needed again.
    of: BTreeMap<usize, Vec<(u64, AlignedBuf)>>,
    /// How many were given back.
    turn: u64,
}

impl Lists {
    fn put(&mut self, buf: AlignedBuf) {
        self.turn += 1;
        let list = self.of.entry(buf.capacity()).or_default();
        list.push((self.turn, buf));
    }

    /// The one that has been idle for longest.
    fn take_oldest(&mut self) -> Option<AlignedBuf> {
        let lists = self.of.iter();
        let oldest = lists.filter_map(|(capacity, list)| Some((list.first()?.0, *capacity)));
        let (_, capacity) = oldest.min()?;
        let list = self.of.get_mut(&capacity)?;
        let (_, buf) = list.remove(0);
        if list.is_empty() && capacity > SMALL_BYTES {
            self.of.remove(&capacity);
        }
        Some(buf)
    }
}

impl Idle {
    fn new(bytes_max: usize) -> Idle {
        Idle {
            bufs: Mutex::default(),
            bytes: AtomicUsize::new(0),
            bytes_max,
        }
    }

    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The smallest that has room for `len` and is not much too large, so that a block does not
    /// hold the memory of a large piece.
    fn take(&self, len: usize) -> Option<AlignedBuf> {
        if self.bytes() < len {
            return None;
        }
        let most = len.saturating_mul(2).max(PAGE_BYTES);
        let mut all = lock(&self.bufs);
        let mut fitting = all.of.range_mut(len..=most);
        let (&capacity, bufs) = fitting.find(|(_, bufs)| !bufs.is_empty())?;
        let (_, buf) = bufs.pop()?;
        if bufs.is_empty() && capacity > SMALL_BYTES {
            all.of.remove(&capacity);
        }
        let left = self.bytes() - capacity;
        self.bytes.store(left, Ordering::Relaxed);
        Some(buf)
    }

    /// Keeps one, or gives it back where all would have too many bytes.
    fn keep(&self, buf: AlignedBuf) -> Option<AlignedBuf> {
        let capacity = buf.capacity();
        let has_room = || capacity <= self.bytes_max - self.bytes();
        if !has_room() {
            return Some(buf);
        }
        let mut all = lock(&self.bufs);
        // Again: others may have taken it.
        if !has_room() {
            return Some(buf);
        }
        self.put(&mut all, buf);
        None
    }

    /// Keeps one in place of those that have been idle for longest. Returns what is not kept.
    fn keep_in_place(&self, buf: AlignedBuf) -> Vec<AlignedBuf> {
        let capacity = buf.capacity();
        if capacity > self.bytes_max {
            return vec![buf];
        }
        let mut gone = Vec::new();
        let mut all = lock(&self.bufs);
        while capacity > self.bytes_max - self.bytes()
            && let Some(oldest) = all.take_oldest()
        {
            let left = self.bytes() - oldest.capacity();
            self.bytes.store(left, Ordering::Relaxed);
            gone.push(oldest);
        }
        self.put(&mut all, buf);
        gone
    }

    /// Keeps one for which there is room, under the lock.
    fn put(&self, all: &mut Lists, buf: AlignedBuf) {
        let bytes = self.bytes() + buf.capacity();
        self.bytes.store(bytes, Ordering::Relaxed);
        all.put(buf);
    }
}

impl Inner {
    /// The place of this number for a buffer of so many bytes, if those are few.
    fn place(&self, number: usize, bytes: usize) -> Option<&Idle> {
        (bytes <= SMALL_BYTES).then(|| &self.places[number].0)
    }
}

impl BufPool {
    /// A pool that keeps at most `idle_bytes_max` bytes of buffers that nobody uses.
    pub fn new(idle_bytes_max: usize) -> BufPool {
        let place_bytes_max = match (idle_bytes_max / PLACE_PART).min(PLACE_BYTES_MAX) {
            // In a schedule nobody is slow, and each lock is a step.
            some if some < PAGE_BYTES || SCHEDULED => 0,
            some => some,
        };
        BufPool {
            inner: Arc::new(Inner {
                places: std::array::from_fn(|_| Place(Idle::new(place_bytes_max))),
                common: Idle::new(idle_bytes_max - PLACES * place_bytes_max),
            }),
        }
    }

    /// A buffer of `len` bytes, which hold whatever an earlier user left, or zeros.
    pub fn take(&self, len: usize) -> PooledBuf {
        let inner = &*self.inner;
        let place = thread_number() % PLACES;
        let own = inner.place(place, len).and_then(|idle| idle.take(len));
        let idle = own.or_else(|| inner.common.take(len));
        let mut buf = idle.unwrap_or_else(|| AlignedBuf::zeroed(len));
        buf.expose(len);
        PooledBuf {
            buf,
            place,
            pool: self.clone(),
        }
    }

    /// Bytes of buffers that nobody uses.
    pub fn idle_bytes(&self) -> usize {
        let places = self.inner.places.iter().map(|place| &place.0);
        places.chain([&self.inner.common]).map(Idle::bytes).sum()
    }

    /// Takes back a buffer of a thread that has this place.
    fn give_back(&self, buf: AlignedBuf, place: usize) {
        let inner = &*self.inner;
        if buf.capacity() == 0 {
            return;
        }
        let left = match inner.place(place, buf.capacity()) {
            Some(idle) => idle.keep(buf),
            None => Some(buf),
        };
        // Memory is freed without a lock. Small ones are as many as blocks that are read: they wait for no others to go.
        if let Some(buf) = left.and_then(|buf| inner.common.keep(buf))
            && buf.capacity() > SMALL_BYTES
        {
            drop(inner.common.keep_in_place(buf));
        }
    }
}

/// A buffer of a [`BufPool`], which returns there when it is dropped.
#[derive(Debug)]
pub struct PooledBuf {
    buf: AlignedBuf,
    /// That of the thread which took it.
    place: usize,
    pool: BufPool,
}

impl Deref for PooledBuf {
    type Target = AlignedBuf;

    fn deref(&self) -> &AlignedBuf {
        &self.buf
    }
}

impl DerefMut for PooledBuf {
    fn deref_mut(&mut self) -> &mut AlignedBuf {
        &mut self.buf
    }
}

impl Drop for PooledBuf {
    fn drop(&mut self) {
        let buf = std::mem::take(&mut self.buf);
        self.pool.give_back(buf, self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_bytes_stay_within_the_bound() {
        let pool = BufPool::new(5 * PAGE_BYTES);
        let bufs: Vec<_> = (1..=4).map(|n| pool.take(n * PAGE_BYTES)).collect();
        assert_eq!(pool.idle_bytes(), 0);
        drop(bufs);
        // One and two pages were kept; three more would have been too many.
        assert_eq!(pool.idle_bytes(), 3 * PAGE_BYTES);
        let small = pool.take(1);
        assert_eq!(pool.idle_bytes(), 2 * PAGE_BYTES);
        assert_eq!(small.capacity(), PAGE_BYTES);
        drop(BufPool::new(0).take(1));
    }

    #[test]
    fn a_buffer_is_used_again_unless_it_is_much_too_large() {
        let pool = BufPool::new(1 << 20);
        let address = {
            let buf = pool.take(4 * PAGE_BYTES);
            buf.as_ptr().addr()
        };
        let small = pool.take(PAGE_BYTES);
        assert_ne!(small.as_ptr().addr(), address);
        let again = pool.take(3 * PAGE_BYTES);
        assert_eq!(
            (again.as_ptr().addr(), again.len()),
            (address, 3 * PAGE_BYTES)
        );
        assert_eq!(pool.idle_bytes(), 0);
    }

    /// Of the size that was asked for none may be left, and a larger one that fits.
    #[test]
    fn an_empty_list_hides_no_larger_buffer() {
        let pool = BufPool::new(1 << 20);
        drop(pool.take(PAGE_BYTES));
        let one = pool.take(PAGE_BYTES);
        drop(pool.take(2 * PAGE_BYTES));
        assert_eq!(pool.take(PAGE_BYTES).capacity(), 2 * PAGE_BYTES);
        assert_eq!(one.capacity(), PAGE_BYTES);
    }

    #[test]
    fn sizes_that_nobody_wants_any_more_give_way_to_those_that_come_again() {
        // A quarter is for small ones.
        let pool = BufPool::new(64 * PAGE_BYTES);
        let once: Vec<_> = (8..=11).map(|n| pool.take(n * PAGE_BYTES)).collect();
        drop(once);
        assert_eq!(pool.idle_bytes(), 38 * PAGE_BYTES);
        let address = |bytes: usize| pool.take(bytes).as_ptr().addr();
        let first = address(24 * PAGE_BYTES);
        // Of 48 pages it has those of the first two, and some that nobody had.
        assert_eq!(pool.idle_bytes(), (10 + 11 + 24) * PAGE_BYTES);
        for _ in 0..3 {
            assert_eq!(address(24 * PAGE_BYTES), first);
        }
        assert_eq!(pool.idle_bytes(), (10 + 11 + 24) * PAGE_BYTES);
        // What is larger than all that may be idle takes nothing away.
        drop(pool.take(49 * PAGE_BYTES));
        assert_eq!(pool.idle_bytes(), (10 + 11 + 24) * PAGE_BYTES);
    }

    #[test]
    fn a_thread_finds_its_small_buffers_again_and_large_ones_of_others() {
        let pool = BufPool::new(1 << 20);
        let address = |bytes: usize| pool.take(bytes).as_ptr().addr();
        let (small, large) = (address(PAGE_BYTES), address(100 * PAGE_BYTES));
        assert_eq!(pool.idle_bytes(), 101 * PAGE_BYTES);
        assert_eq!(address(PAGE_BYTES), small);
        let other = std::thread::scope(|scope| scope.spawn(|| address(100 * PAGE_BYTES)).join());
        assert_eq!(other.unwrap(), large);
        assert_eq!(pool.idle_bytes(), 101 * PAGE_BYTES);
    }

    /// However often others give back what one thread takes: its place has them again, and those of the others none.
    #[test]
    fn a_small_buffer_goes_back_to_who_took_it() {
        let pool = BufPool::new(1 << 20);
        let own = pool.take(1).place;
        let others: Vec<_> = (0..10)
            .map(|_| {
                let buf = pool.take(PAGE_BYTES);
                let address = buf.as_ptr().addr();
                std::thread::scope(|scope| {
                    scope.spawn(move || drop(buf));
                });
                address
            })
            .collect();
        assert!(others.iter().all(|address| *address == others[0]));
        assert_eq!(pool.inner.places[own].0.bytes(), PAGE_BYTES);
        assert_eq!(pool.idle_bytes(), PAGE_BYTES);
    }

    #[test]
    fn threads_share_a_pool() {
        let pool = BufPool::new(64 * PAGE_BYTES);
        std::thread::scope(|scope| {
            for id in 0..4_u8 {
                let pool = pool.clone();
                scope.spawn(move || {
                    for n in 0..500 {
                        let mut buf = pool.take(1 + n * 37);
                        buf.fill(id);
                        assert!(buf.iter().all(|b| *b == id));
                        assert!(pool.idle_bytes() <= 64 * PAGE_BYTES);
                    }
                });
            }
        });
    }
}
