//! What a region counts: bytes stored, lines written back, fences, media units touched.

/// Bytes that Optane-like media write at once.
const MEDIA_UNIT: u64 = 256;

const STORED: usize = 0;
const LINES: usize = 1;
const FENCES: usize = 2;
const MEDIA: usize = 3;
const DEVICE: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct Counters(thermocline_base::counter::Counters<5>);

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

impl Counters {
    pub fn stored(&self, bytes: u64) {
        self.0.add(STORED, bytes);
    }

    pub fn written_back(&self, off: u64, len: u64) {
        let span = |unit: u64| (off + len).div_ceil(unit) - off / unit;
        self.0.add(LINES, span(64));
        self.0.add(MEDIA, span(MEDIA_UNIT) * MEDIA_UNIT);
    }

    pub fn fenced(&self) {
        self.0.add(FENCES, 1);
    }

    pub fn device(&self, bytes: u64) {
        self.0.add(DEVICE, bytes);
    }

    pub fn read(&self) -> PmCounters {
        PmCounters {
            bytes_stored: self.0.get(STORED),
            lines_written_back: self.0.get(LINES),
            fences: self.0.get(FENCES),
            media_bytes: self.0.get(MEDIA),
            device_bytes: self.0.get(DEVICE),
        }
    }
}
