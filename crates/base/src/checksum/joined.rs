//! The CRC32C of bytes, from those of parts that the processor sums at once.
//!
//! The instruction takes 8 bytes a cycle, but each waits three cycles for the one before. So `crc32c` sums three parts of 256
//! bytes beside each other, and joins them. Of what is behind the last 768 bytes it sums one word after the other: of a value of 1 KiB
//! that takes as long as all before. Here that end is cut into up to three *tails*, which are summed by themselves: none waits
//! for another, nor for what stands before them, and a processor that looks ahead does them all at once.
//!
//! A CRC is linear (`sums` has the argument), so the register behind a tail is what it would be if it had begun with zero,
//! and the register before moved over as many bytes. All tails have one length, so that is four looks into one table.

use crc32c::crc32c_append;

use super::polynomials::{BYTE, ONE, times};

/// So many bytes, and multiples, are no end.
const WHOLE: usize = 768;

/// Bytes of a tail.
const TAIL: usize = 248;

/// Tails of an end, at most.
const TAILS: usize = WHOLE / TAIL;

/// Fewer bytes are summed as they are: to join them takes longer than to wait.
const LEAST: usize = 384;

/// Bytes before the tails that belong to the end, at least: before the first multiple of 8 there may be as many.
const SPARE: usize = 7;

/// By what the register moves over a tail: for each of its bytes.
static MOVED: [[u32; 256]; 4] = moved_by(power(TAIL));

/// What so many bytes move the register by.
const fn power(bytes: usize) -> u32 {
    let (mut power, mut n) = (ONE, 0);
    while n < bytes {
        power = times(power, BYTE);
        n += 1;
    }
    power
}

const fn moved_by(power: u32) -> [[u32; 256]; 4] {
    let mut moved = [[0u32; 256]; 4];
    let mut place = 0u32;
    while place < 4 {
        let mut byte = 0u32;
        while byte < 256 {
            moved[place as usize][byte as usize] = times(byte << (8 * place), power);
            byte += 1;
        }
        place += 1;
    }
    moved
}

/// The CRC behind a tail, from the one before it, and from that of the tail behind a register of zero.
#[inline]
fn joined(before: u32, tail: u32) -> u32 {
    let register = (!before).to_le_bytes();
    let moved = MOVED.iter().zip(register);
    let moved = moved.fold(0, |sum, (of, byte)| sum ^ of[usize::from(byte)]);
    moved ^ tail
}

/// The CRC32C of `bytes`, continued from `crc`.
pub(super) fn append(crc: u32, bytes: &[u8]) -> u32 {
    let tails = (bytes.len() % WHOLE).saturating_sub(SPARE) / TAIL;
    if tails == 0 || bytes.len() < LEAST {
        return crc32c_append(crc, bytes);
    }
    let (front, end) = bytes.split_at(bytes.len() - tails * TAIL);
    // First, since the processor comes to them before it has waited for what is in front. Behind this CRC the register is zero.
    let mut sums = [0; TAILS];
    for (sum, tail) in sums.iter_mut().zip(end.chunks_exact(TAIL)) {
        *sum = crc32c_append(u32::MAX, tail);
    }
    let front = crc32c_append(crc, front);
    sums[..tails]
        .iter()
        .fold(front, |sum, tail| joined(sum, *tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In pieces that are too short to be cut.
    fn plainly(crc: u32, bytes: &[u8]) -> u32 {
        bytes.chunks(LEAST - 1).fold(crc, crc32c_append)
    }

    #[test]
    fn bytes_of_every_length_and_place_have_the_checksum_that_they_have_in_pieces() {
        let bytes: Vec<u8> = (0..6000u32).map(|n| (n * n / 7).to_le_bytes()[0]).collect();
        for len in 0..3 * WHOLE {
            let (from, crc) = (len % 9, [0, 1, 0xdead_beef, u32::MAX][len % 4]);
            let own = &bytes[from..from + len];
            assert_eq!(
                append(crc, own),
                plainly(crc, own),
                "{len} bytes from {from}"
            );
        }
        for len in [4096, 5000, 5990] {
            for from in 0..8 {
                let own = &bytes[from..from + len];
                assert_eq!(append(7, own), plainly(7, own), "{len} bytes from {from}");
            }
        }
    }

    #[test]
    fn each_bit_of_the_register_moves_over_a_tail_as_over_zeros() {
        let zeros = [0; TAIL];
        for bit in 0..32 {
            let before = !(1u32 << bit);
            let nothing = crc32c_append(u32::MAX, &zeros);
            assert_eq!(
                joined(before, nothing),
                crc32c_append(before, &zeros),
                "bit {bit}"
            );
        }
    }
}
