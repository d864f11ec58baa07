//! Aligned buffers that are used again.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use thermocline_base::sync::{Arc, Mutex, lock};

use crate::aligned::AlignedBuf;

/// Keeps aligned buffers for later use, up to a number of bytes. Cloning shares it. Taking one
/// never waits: where none lies idle, one is made.
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
    idle_bytes_max: usize,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    /// By capacity; no list is empty.
    bufs: BTreeMap<usize, Vec<AlignedBuf>>,
    /// The sum of their capacities.
    bytes: usize,
}

impl Idle {
    /// The smallest that has room for `len` and is not much too large, so that a block does not
    /// hold the memory of a large piece.
    fn take(&mut self, len: usize) -> Option<AlignedBuf> {
        let most = len.saturating_mul(2).max(crate::PAGE_BYTES);
        let (&capacity, bufs) = self.bufs.range_mut(len..=most).next()?;
        let buf = bufs.pop();
        if bufs.is_empty() {
            self.bufs.remove(&capacity);
        }
        self.bytes -= capacity;
        buf
    }
}

impl BufPool {
    /// A pool that keeps at most `idle_bytes_max` bytes of buffers that nobody uses.
    pub fn new(idle_bytes_max: usize) -> BufPool {
        BufPool {
            inner: Arc::new(Inner {
                idle_bytes_max,
                idle: Mutex::default(),
            }),
        }
    }

    /// A buffer of `len` bytes, which hold whatever an earlier user left, or zeros.
    pub fn take(&self, len: usize) -> PooledBuf {
        let idle = lock(&self.inner.idle).take(len);
        let mut buf = idle.unwrap_or_else(|| AlignedBuf::zeroed(len));
        buf.expose(len);
        PooledBuf {
            buf,
            pool: self.clone(),
        }
    }

    /// Bytes of buffers that nobody uses.
    pub fn idle_bytes(&self) -> usize {
        lock(&self.inner.idle).bytes
    }

    fn give_back(&self, buf: AlignedBuf) {
        let capacity = buf.capacity();
        let mut idle = lock(&self.inner.idle);
        if capacity > 0 && capacity <= self.inner.idle_bytes_max - idle.bytes {
            idle.bytes += capacity;
            idle.bufs.entry(capacity).or_default().push(buf);
        }
    }
}

/// A buffer of a [`BufPool`], which returns there when it is dropped.
#[derive(Debug)]
pub struct PooledBuf {
    buf: AlignedBuf,
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
        self.pool.give_back(std::mem::take(&mut self.buf));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGE_BYTES;

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
