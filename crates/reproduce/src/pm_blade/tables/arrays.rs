//! Arrays in persistent memory: records in order, and where each (or each eighth) begins.

use std::cmp::Ordering;

use thermocline_base::checksum::{crc32c, seeded};
use thermocline_base::size::index;
use thermocline_base::{Error, Result, Site};
use thermocline_halloc::{Reserve, Space, Zone};
use thermocline_pm::{PmOff, Region};

use super::data::Pair;

const SITE: Site = Site("reproduce: array durable");
const SEED: u64 = 0x5eed;

/// How records are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// As they are.
    Plain,
    /// Each compressed.
    Pair,
    /// Eight compressed together.
    Eight,
}

impl Packing {
    fn records(self) -> usize {
        match self {
            Packing::Plain | Packing::Pair => 1,
            Packing::Eight => 8,
        }
    }
}

/// An array that was written. A chunk is CRC (4), bytes stored (4), bytes unpacked (4), seqno of the first
/// (8), then records: length of key (2), of value (2), kind (1), key, value.
pub struct Array {
    region: Region,
    packing: Packing,
    base: PmOff,
    offsets: PmOff,
    chunks: usize,
    bytes: u64,
}

const HEAD: usize = 20;

/// Stores whole lines, in order.
struct Lines<'a> {
    region: &'a Region,
    at: PmOff,
    gathered: Vec<u8>,
}

impl Lines<'_> {
    fn here(&self) -> PmOff {
        self.at.plus(self.gathered.len() as u64)
    }

    fn append(&mut self, bytes: &[u8]) {
        self.gathered.extend_from_slice(bytes);
        let whole = self.gathered.len() / 64 * 64;
        if whole >= 16 << 10 {
            self.store(whole);
        }
    }

    fn end(&mut self) {
        let len = self.gathered.len().next_multiple_of(64);
        self.gathered.resize(len, 0);
        self.store(len);
    }

    #[expect(unsafe_code, reason = "stores into a region")]
    fn store(&mut self, len: usize) {
        // SAFETY: the room lies in a zone of its own, and nobody reads it before all of it is stored.
        unsafe { self.region.write_nt(self.at, &self.gathered[..len]) };
        self.at = self.at.plus(len as u64);
        self.gathered.drain(..len);
    }
}

fn push_record(out: &mut Vec<u8>, (key, value): &Pair) {
    out.extend_from_slice(&(key.len() as u16).to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.push(1);
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

/// The record at `at`: key, value, and where the next begins.
fn record(bytes: &[u8], at: usize) -> (&[u8], &[u8], usize) {
    let len = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let key = at + 5;
    let value = key + len(at);
    let end = value + len(at + 2);
    (&bytes[key..value], &bytes[value..end], end)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

impl Array {
    pub fn write(space: &Space, packing: Packing, pairs: &[Pair]) -> Result<(Array, Vec<Zone>)> {
        let raw: usize = pairs
            .iter()
            .map(|(key, value)| key.len() + value.len() + 40)
            .sum();
        let zone = space.attach(8, 0, raw as u64, Reserve::Keep)?;
        let region = space.region();
        let mut out = Lines {
            region,
            at: zone.data,
            gathered: Vec::with_capacity(32 << 10),
        };
        let mut offsets: Vec<u8> = Vec::new();
        let mut plain = Vec::new();
        let mut packed = Vec::new();
        let mut head = [0; HEAD];
        for (n, chunk) in pairs.chunks(packing.records()).enumerate() {
            plain.clear();
            for pair in chunk {
                push_record(&mut plain, pair);
            }
            let stored: &[u8] = match packing {
                Packing::Plain => &plain,
                Packing::Pair | Packing::Eight => {
                    packed.resize(lz4_flex::block::get_maximum_output_size(plain.len()), 0);
                    let len = lz4_flex::block::compress_into(&plain, &mut packed);
                    &packed[..len.map_err(|e| Error::OutOfSpace(e.to_string()))?]
                }
            };
            let at = out.here();
            head[4..8].copy_from_slice(&(stored.len() as u32).to_le_bytes());
            head[8..12].copy_from_slice(&(plain.len() as u32).to_le_bytes());
            head[12..20].copy_from_slice(&(n as u64).to_le_bytes());
            let crc = crc32c(seeded(SEED, at.0), &head[4..]);
            let crc = crc32c(crc, stored);
            head[..4].copy_from_slice(&crc.to_le_bytes());
            out.append(&head);
            out.append(stored);
            offsets.extend_from_slice(&((at.0 - zone.data.0) as u32).to_le_bytes());
        }
        out.end();
        let offsets_at = out.at;
        out.append(&offsets);
        out.end();
        region.fence(SITE)?;
        let array = Array {
            region: region.clone(),
            packing,
            base: zone.data,
            offsets: offsets_at,
            chunks: offsets.len() / 4,
            bytes: out.at.0 - zone.data.0,
        };
        Ok((array, vec![zone]))
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The stored bytes of a chunk, head included, and where it begins.
    fn chunk(&self, n: usize) -> Result<(PmOff, &[u8])> {
        let offset = self.region.bytes(self.offsets.plus(4 * n as u64), 4)?;
        let at = self.base.plus(word(offset, 0).into());
        // Its length and most of it are read as one.
        let room = index(self.offsets.0 - at.0).min(512);
        let bytes = self.region.bytes(at, room)?;
        let len = HEAD + word(bytes, 4) as usize;
        match len <= room {
            true => Ok((at, &bytes[..len])),
            false => Ok((at, self.region.bytes(at, len)?)),
        }
    }

    /// Unpacks a chunk, where it is packed.
    fn records<'a>(&'a self, bytes: &'a [u8], out: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        if self.packing == Packing::Plain {
            return Ok(&bytes[HEAD..]);
        }
        out.resize(word(bytes, 8) as usize, 0);
        let len = lz4_flex::block::decompress_into(&bytes[HEAD..], out);
        let len = len.map_err(|e| Error::corruption(e.to_string(), "array", 0, "LZ4", "none"))?;
        Ok(&out[..len])
    }

    /// Bytes of the value of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<usize>> {
        let mut out = Vec::new();
        // The last chunk that does not begin behind the key.
        let (mut low, mut high) = (0, self.chunks);
        while low < high {
            let middle = low.midpoint(high);
            let (_, bytes) = self.chunk(middle)?;
            let records = self.records(bytes, &mut out)?;
            match record(records, 0).0.cmp(key) {
                Ordering::Greater => high = middle,
                _ => low = middle + 1,
            }
        }
        let Some(last) = low.checked_sub(1) else {
            return Ok(None);
        };
        let (at, bytes) = self.chunk(last)?;
        if crc32c(seeded(SEED, at.0), &bytes[4..]) != word(bytes, 0) {
            return Err(Error::corruption(
                "a chunk",
                "array",
                at.0,
                "a checksum",
                "none",
            ));
        }
        let records = self.records(bytes, &mut out)?;
        let mut at = 0;
        while at < records.len() {
            let (own, value, next) = record(records, at);
            if own == key {
                return Ok(Some(value.len()));
            }
            at = next;
        }
        Ok(None)
    }
}
