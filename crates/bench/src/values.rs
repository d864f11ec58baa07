//! Values that cost nothing to make.

use crate::rng::Rng;

/// Bytes of the buffer beyond one value. Neighbouring values repeat only at this distance.
const BUFFER_BYTES: usize = 1 << 20;

/// The unit in which compressible bytes repeat.
const PIECE_BYTES: usize = 128;

/// Hands out values of one size as slices of one buffer of pseudo-random bytes.
#[derive(Debug, Clone)]
pub struct Values {
    buffer: Vec<u8>,
    size: usize,
    at: usize,
}

impl Values {
    /// Values of `size` bytes that compress to about `ratio` of their size; 1 is incompressible.
    pub fn new(size: usize, ratio: f64, seed: u64) -> Values {
        let mut rng = Rng::of_part(seed, 0x7661_6c75);
        let mut buffer = vec![0; BUFFER_BYTES + size];
        let fresh = (1..PIECE_BYTES)
            .find(|&bytes| bytes as f64 >= ratio * PIECE_BYTES as f64)
            .unwrap_or(PIECE_BYTES);
        for piece in buffer.chunks_mut(PIECE_BYTES) {
            for eight in piece.chunks_mut(8) {
                eight.copy_from_slice(&rng.next().to_le_bytes()[..eight.len()]);
            }
            for i in fresh..piece.len() {
                piece[i] = piece[i % fresh];
            }
        }
        Values {
            buffer,
            size,
            at: 0,
        }
    }

    /// The next value.
    #[inline]
    pub fn next_value(&mut self) -> &[u8] {
        let from = self.at;
        // An odd step, so that equal values come back late and at every alignment.
        self.at += self.size | 1;
        if self.at >= BUFFER_BYTES {
            self.at %= BUFFER_BYTES;
        }
        &self.buffer[from..from + self.size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_size_and_differ() {
        for size in [0, 1, 100, 4096, 3 << 20] {
            let mut values = Values::new(size, 1.0, 1);
            let one = values.next_value().to_vec();
            assert_eq!(one.len(), size);
            for _ in 0..50 {
                let other = values.next_value();
                assert_eq!(other.len(), size);
                assert!(size < 8 || other != one);
            }
        }
    }

    #[test]
    fn the_ratio_says_how_much_is_fresh() {
        let distinct = |ratio| {
            let mut values = Values::new(PIECE_BYTES * 8, ratio, 3);
            let value = values.next_value();
            value[..PIECE_BYTES]
                .chunks(4)
                .collect::<std::collections::HashSet<_>>()
                .len()
        };
        assert_eq!(distinct(1.0), 32);
        assert_eq!(distinct(0.5), 16);
        assert_eq!(distinct(0.25), 8);
    }
}
