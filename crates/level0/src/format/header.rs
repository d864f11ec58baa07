//! Headers of pieces.

use thermocline_base::numbers::{u16_at, u32_at, u64_at};

use super::{FORMAT_VERSION, HEADER_LEN, crc_at};

const MAGIC: [u8; 8] = *b"THCLPMTB";
const LAST: u8 = 1;

/// What a header says, identity apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Header {
    pub ordinal: u32,
    pub group_size: u8,
    pub entries: u64,
    pub groups_at: u32,
    pub arrays_at: u32,
    pub runs_at: u32,
    pub tombstones_at: u32,
    pub end: u32,
    pub groups: u32,
    pub runs_crc: u32,
    pub tombstones_crc: u32,
    /// Of the whole table; only of the last piece.
    pub table: Option<Totals>,
}

/// What the last piece says about the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Totals {
    pub entries: u64,
    pub smallest_seqno: u64,
    pub largest_seqno: u64,
    pub range_tombstones: u64,
}

/// Whose header it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    pub db_id: [u8; 16],
    pub table: u64,
    pub zone_generation: u64,
}

/// Why a header could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// What is wrong, and at which byte.
    Damaged(&'static str, usize),
    /// A newer version wrote it.
    Newer(u32),
}

fn put(out: &mut [u8; HEADER_LEN], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

/// The CRC that a header at `place` of the region should have.
fn crc(bytes: &[u8], seed: u64, place: u64) -> u32 {
    let start = crc_at(seed, place, &bytes[..12]);
    thermocline_base::checksum::crc32c(start, &bytes[16..HEADER_LEN])
}

impl Header {
    /// Its bytes at `place` of the region.
    pub fn encode(&self, owner: &Owner, seed: u64, place: u64) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        put(&mut out, 0, &MAGIC);
        put(&mut out, 8, &FORMAT_VERSION.to_le_bytes());
        put(&mut out, 16, &owner.db_id);
        put(&mut out, 32, &owner.table.to_le_bytes());
        put(&mut out, 40, &owner.zone_generation.to_le_bytes());
        put(&mut out, 48, &self.ordinal.to_le_bytes());
        out[52] = if self.table.is_some() { LAST } else { 0 };
        out[53] = self.group_size;
        put(&mut out, 56, &self.entries.to_le_bytes());
        let words = [
            self.groups_at,
            self.arrays_at,
            self.runs_at,
            self.tombstones_at,
            self.end,
            self.groups,
            self.runs_crc,
            self.tombstones_crc,
        ];
        for (n, word) in words.iter().enumerate() {
            put(&mut out, 64 + 4 * n, &word.to_le_bytes());
        }
        let totals = self.table.unwrap_or_default();
        let words = [
            totals.entries,
            totals.smallest_seqno,
            totals.largest_seqno,
            totals.range_tombstones,
        ];
        for (n, word) in words.iter().enumerate() {
            put(&mut out, 96 + 8 * n, &word.to_le_bytes());
        }
        let crc = crc(&out, seed, place);
        put(&mut out, 12, &crc.to_le_bytes());
        out
    }

    /// Reads the header at `place` of the region, which should be that of `owner`; `room` is how many
    /// bytes the piece may have.
    pub fn decode(
        bytes: &[u8],
        owner: &Owner,
        seed: u64,
        place: u64,
        room: u64,
    ) -> Result<Header, Refused> {
        use Refused::{Damaged, Newer};
        if bytes[..8] != MAGIC {
            return Err(Damaged("magic of a piece", 0));
        }
        if u32_at(bytes, 12) != crc(bytes, seed, place) {
            return Err(Damaged("checksum of a piece's header", 12));
        }
        match u32_at(bytes, 8) {
            FORMAT_VERSION => {}
            0 => return Err(Damaged("format version", 8)),
            version => return Err(Newer(version)),
        }
        let same = bytes[16..32] == owner.db_id
            && u64_at(bytes, 32) == owner.table
            && u64_at(bytes, 40) == owner.zone_generation;
        if !same {
            return Err(Damaged("owner of a piece", 16));
        }
        let (flags, group_size) = (bytes[52], bytes[53]);
        if flags > LAST || !matches!(group_size, 8 | 16) || u16_at(bytes, 54) != 0 {
            return Err(Damaged("flags of a piece", 52));
        }
        let totals = Totals {
            entries: u64_at(bytes, 96),
            smallest_seqno: u64_at(bytes, 104),
            largest_seqno: u64_at(bytes, 112),
            range_tombstones: u64_at(bytes, 120),
        };
        if flags & LAST == 0 && totals != Totals::default() {
            return Err(Damaged("zeros of a piece that is not the last", 96));
        }
        let word = |n: usize| u32_at(bytes, 64 + 4 * n);
        let header = Header {
            ordinal: u32_at(bytes, 48),
            group_size,
            entries: u64_at(bytes, 56),
            groups_at: word(0),
            arrays_at: word(1),
            runs_at: word(2),
            tombstones_at: word(3),
            end: word(4),
            groups: word(5),
            runs_crc: word(6),
            tombstones_crc: word(7),
            table: (flags & LAST != 0).then_some(totals),
        };
        if !header.offsets(room).is_sorted() {
            return Err(Damaged("offsets of a piece", 64));
        }
        let empty = header.tombstones_at == header.end;
        if !empty && header.table.is_none() || empty && header.tombstones_crc != 0 {
            return Err(Damaged("range tombstones of a piece", 92));
        }
        Ok(header)
    }

    /// Where what a piece has begins and ends, in the order in which it lies, and the room that there is.
    fn offsets(&self, room: u64) -> [u64; 7] {
        [
            HEADER_LEN as u64,
            u64::from(self.groups_at),
            u64::from(self.arrays_at),
            u64::from(self.runs_at),
            u64::from(self.tombstones_at),
            u64::from(self.end),
            room,
        ]
    }
}
