//! Memory that begins at a page.

use std::fmt;
use std::ops::{Deref, DerefMut};

use thermocline_env::direct::DIRECT_UNIT;

/// The page to which buffers are aligned, in bytes: what direct I/O asks for.
pub const PAGE_BYTES: usize = DIRECT_UNIT;

/// Bytes that begin at a page and have whole pages of room. It is used as a slice.
///
/// ```
/// use thermocline_exec::{AlignedBuf, PAGE_BYTES};
///
/// let mut buf = AlignedBuf::zeroed(10);
/// buf[..5].copy_from_slice(b"hello");
/// assert_eq!(&*buf, b"hello\0\0\0\0\0");
/// assert_eq!(buf.as_ptr().addr() % PAGE_BYTES, 0);
/// assert_eq!(buf.capacity(), PAGE_BYTES);
/// ```
#[derive(Default)]
pub struct AlignedBuf {
    /// Never replaced without `start`: it does not move while it is owned.
    memory: Box<[u8]>,
    /// Where in `memory` the first page begins.
    start: usize,
    capacity: usize,
    len: usize,
}

impl AlignedBuf {
    /// An empty buffer, which owns no memory.
    pub fn new() -> AlignedBuf {
        AlignedBuf::default()
    }

    /// `len` zeros.
    ///
    /// # Panics
    /// If so much memory cannot exist.
    pub fn zeroed(len: usize) -> AlignedBuf {
        if len == 0 {
            return AlignedBuf::new();
        }
        let capacity = len
            .checked_next_multiple_of(PAGE_BYTES)
            .expect("a buffer is smaller than the address space");
        let memory = vec![0; capacity.saturating_add(PAGE_BYTES - 1)].into_boxed_slice();
        let over = memory.as_ptr().addr() % PAGE_BYTES;
        AlignedBuf {
            memory,
            start: (PAGE_BYTES - over) % PAGE_BYTES,
            capacity,
            len,
        }
    }

    /// Bytes for which there is room without moving: whole pages.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Makes it `len` bytes long. New bytes are zeros.
    pub fn resize(&mut self, len: usize) {
        let before = self.len;
        self.expose(len);
        if before < len {
            self[before..].fill(0);
        }
    }

    /// Makes it `len` bytes long. New bytes hold whatever lay there, from an earlier use or zeros:
    /// for callers that overwrite them.
    pub fn expose(&mut self, len: usize) {
        if len > self.capacity {
            let mut grown = AlignedBuf::zeroed(len.max(self.capacity.saturating_mul(2)));
            grown[..self.len].copy_from_slice(self);
            *self = grown;
        }
        self.len = len;
    }

    /// Appends `bytes`.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let before = self.len;
        let len = before.checked_add(bytes.len());
        self.expose(len.expect("two slices fit into the address space"));
        self[before..].copy_from_slice(bytes);
    }

    /// Forgets the bytes and keeps the room.
    pub fn clear(&mut self) {
        self.len = 0;
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuf")
            .field("len", &self.len)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_all_lengths_are_aligned_zeroed_and_have_whole_pages_of_room() {
        for len in [0, 1, 4095, 4096, 4097, 70_000, 256 << 10] {
            let buf = AlignedBuf::zeroed(len);
            assert_eq!(buf.len(), len);
            assert!(len == 0 || buf.as_ptr().addr().is_multiple_of(PAGE_BYTES));
            assert_eq!(buf.capacity(), len.next_multiple_of(PAGE_BYTES));
            assert!(buf.iter().all(|b| *b == 0));
        }
    }

    #[test]
    fn a_buffer_grows_as_a_vector_does_and_stays_aligned() {
        let mut state = 7_usize;
        let (mut buf, mut model) = (AlignedBuf::new(), Vec::new());
        for step in 0..2000 {
            state = state.wrapping_mul(0x5851_f42d).wrapping_add(0x1405_7b7e) % (1 << 31);
            let n = state >> 8;
            match n % 8 {
                0..4 => {
                    let bytes = vec![(step % 251) as u8; n % 3000];
                    buf.extend_from_slice(&bytes);
                    model.extend_from_slice(&bytes);
                }
                4..7 => {
                    buf.resize(n % 30_000);
                    model.resize(n % 30_000, 0);
                }
                _ => {
                    buf.clear();
                    model.clear();
                }
            }
            assert_eq!(&*buf, &*model, "step {step}");
            assert!(buf.capacity() == 0 || buf.as_ptr().addr().is_multiple_of(PAGE_BYTES));
            assert!(buf.capacity() >= buf.len() && buf.capacity().is_multiple_of(PAGE_BYTES));
        }
    }

    #[test]
    fn what_is_exposed_is_what_lay_there_and_what_is_resized_is_not() {
        let mut buf = AlignedBuf::zeroed(3);
        buf.copy_from_slice(b"old");
        buf.clear();
        buf.expose(3);
        assert_eq!(&*buf, b"old");
        buf.clear();
        buf.resize(3);
        assert_eq!(&*buf, b"\0\0\0");
    }
}
