//! The bytes of a piece on their way into its zone.

use thermocline_base::numbers::len32;

use thermocline_pm::{LINE, PmOff, Region};
use thermocline_policy::tuning::PM_TABLE_GATHERED;

use crate::format::{HEADER_LEN, crc_at};

/// Stores what is appended past the cache, in whole lines, each once. The header's lines are left out: they
/// are stored last.
#[derive(Debug)]
pub(crate) struct Output {
    region: Region,
    base: PmOff,
    /// What was appended and not stored, from a line on.
    gathered: Vec<u8>,
    /// How much was stored, header included.
    stored: usize,
    seed: u64,
}

impl Output {
    pub fn new(region: Region, base: PmOff, seed: u64) -> Output {
        Output {
            region,
            base,
            gathered: Vec::with_capacity(PM_TABLE_GATHERED),
            stored: HEADER_LEN,
            seed,
        }
    }

    /// Where the piece begins.
    pub fn base(&self) -> PmOff {
        self.base
    }

    /// How much the piece has so far: the offset of what is appended next.
    pub fn len(&self) -> usize {
        self.stored + self.gathered.len()
    }

    /// The same, as it is stored in the piece.
    pub fn at(&self) -> u32 {
        len32(self.len())
    }

    /// The checksum that `bytes` have if they are appended next.
    pub fn crc_of(&self, bytes: &[u8]) -> u32 {
        crc_at(self.seed, self.base.0 + self.len() as u64, bytes)
    }

    pub fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = PM_TABLE_GATHERED - self.gathered.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.gathered.extend_from_slice(now);
            bytes = later;
            if self.gathered.len() == PM_TABLE_GATHERED {
                self.store();
            }
        }
    }

    /// Appends a checksum and the bytes that it covers.
    pub fn append_checked(&mut self, bytes: &[u8]) {
        let crc = self.crc_of(bytes);
        self.append(&crc.to_le_bytes());
        self.append(bytes);
    }

    /// Appends zeros up to a multiple of `align`, counted from `before` the piece.
    pub fn pad(&mut self, align: usize, before: usize) {
        const ZEROS: [u8; 256] = [0; 256];
        let at = before + self.len();
        self.append(&ZEROS[..at.next_multiple_of(align) - at]);
    }

    fn store(&mut self) {
        let at = self.base.plus(self.stored as u64);
        // SAFETY: the piece lies in a zone that was attached for it, and no table names it yet.
        unsafe { self.region.write_nt(at, &self.gathered) };
        self.stored += self.gathered.len();
        self.gathered.clear();
    }

    /// Stores what is left, zeros to the line behind it, and the header.
    pub fn finish(mut self, header: &[u8; HEADER_LEN]) {
        self.pad(thermocline_base::size::index(LINE), 0);
        if !self.gathered.is_empty() {
            self.store();
        }
        // SAFETY: as in `store`.
        unsafe { self.region.write_nt(self.base, header) };
    }
}
