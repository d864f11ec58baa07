//! What a region counts: bytes stored, lines written back, fences, media units touched.
//!
//! Counters are sharded by thread, so that counting never makes two writers share a line.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const SHARDS: usize = 16;

/// Bytes that Optane-like media write at once.
const MEDIA_UNIT: u64 = 256;

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    stored: AtomicU64,
    lines: AtomicU64,
    fences: AtomicU64,
    media: AtomicU64,
    device: AtomicU64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    shards: [Shard; SHARDS],
}

/// A reading of a region's counters, since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PmCounters {
    /// Bytes stored.
    pub bytes_stored: u64,
    /// Lines of 64 bytes written back, non-temporal ones included.
    pub lines_written_back: u64,
    /// Fences; on kind `file` each is one or more `msync`.
    pub fences: u64,
    /// Bytes of 256-byte media units touched by write-backs.
    pub media_bytes: u64,
    /// On kind `file`: bytes of pages handed to the device, initialisation included.
    pub device_bytes: u64,
}

thread_local! {
    static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// A small number for this thread, different for threads that live at the same time until they
/// outnumber the shards.
pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    SHARD.with(|shard| {
        if shard.get() == usize::MAX {
            shard.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        shard.get()
    })
}

impl Counters {
    fn mine(&self) -> &Shard {
        &self.shards[thread_number() % SHARDS]
    }

    pub fn stored(&self, bytes: u64) {
        self.mine().stored.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn written_back(&self, off: u64, len: u64) {
        let span = |unit: u64| (off + len).div_ceil(unit) - off / unit;
        let shard = self.mine();
        shard.lines.fetch_add(span(64), Ordering::Relaxed);
        shard
            .media
            .fetch_add(span(MEDIA_UNIT) * MEDIA_UNIT, Ordering::Relaxed);
    }

    pub fn fenced(&self) {
        self.mine().fences.fetch_add(1, Ordering::Relaxed);
    }

    pub fn device(&self, bytes: u64) {
        self.mine().device.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn read(&self) -> PmCounters {
        let sum = |field: fn(&Shard) -> &AtomicU64| {
            self.shards
                .iter()
                .map(|s| field(s).load(Ordering::Relaxed))
                .sum()
        };
        PmCounters {
            bytes_stored: sum(|s| &s.stored),
            lines_written_back: sum(|s| &s.lines),
            fences: sum(|s| &s.fences),
            media_bytes: sum(|s| &s.media),
            device_bytes: sum(|s| &s.device),
        }
    }
}
