//! Numbers of a few bits each, one behind the other.

use thermocline_base::numbers::{len_of, u64_at};

/// Most bits of a number: with the bits before it in its first byte it lies in eight bytes.
pub(super) const BITS_MAX: u32 = 56;

/// Bytes behind the last number, so that eight can be read at each.
const SPARE: usize = 8;

/// Collects numbers.
#[derive(Debug, Default)]
pub(super) struct BitWriter {
    bytes: Vec<u8>,
    /// Bits of the last byte that are taken; 0 if all are.
    into: u32,
}

impl BitWriter {
    /// Appends the lowest `width` bits of `number`, which has no others.
    pub fn push(&mut self, number: u64, width: u32) {
        debug_assert!(width <= BITS_MAX && number >> width == 0);
        let placed = (number << self.into).to_le_bytes();
        let bits = self.into + width;
        let mut bytes = &placed[..len_of(bits.div_ceil(8))];
        if self.into > 0 {
            *self
                .bytes
                .last_mut()
                .expect("with `into` above 0 the last byte is begun") |= placed[0];
            bytes = &bytes[1..];
        }
        self.bytes.extend_from_slice(bytes);
        self.into = bits % 8;
    }

    /// The bytes, the last one filled with zeros.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Numbers as they were collected.
#[derive(Debug)]
pub(super) struct Bits {
    /// With [`SPARE`] zeros behind them.
    bytes: Box<[u8]>,
}

impl Bits {
    pub fn new(bytes: &[u8]) -> Bits {
        let mut own = Vec::with_capacity(bytes.len() + SPARE);
        own.extend_from_slice(bytes);
        own.resize(bytes.len() + SPARE, 0);
        Bits {
            bytes: own.into_boxed_slice(),
        }
    }

    /// Bytes that so many bits take.
    pub fn bytes_of(bits: u64) -> u64 {
        bits.div_ceil(8)
    }

    /// The number of `width` bits, at most [`BITS_MAX`], that begins with bit `at`. The bits are there.
    #[inline]
    pub fn get(&self, at: u64, width: u32) -> u64 {
        let byte = usize::try_from(at / 8).expect("it is in memory");
        let bits = u64_at(&self.bytes, byte) >> (at % 8);
        bits & ((1 << width) - 1)
    }

    /// Bytes of memory that they take.
    pub fn charge(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline_testkit::Rng;

    #[test]
    fn numbers_are_read_as_they_were_collected() {
        let mut rng = Rng::new(1);
        let (mut writer, mut all, mut at) = (BitWriter::default(), Vec::new(), 0);
        for _ in 0..5000 {
            let width = u32::try_from(rng.below(57)).unwrap();
            let number = rng.next_u64() & ((1 << width) - 1);
            writer.push(number, width);
            all.push((at, width, number));
            at += u64::from(width);
        }
        let bytes = writer.finish();
        assert_eq!(bytes.len() as u64, Bits::bytes_of(at));
        let bits = Bits::new(&bytes);
        for (at, width, number) in all {
            assert_eq!(bits.get(at, width), number);
        }
    }
}
