//! Numbers in groups of 7 bits, as tables store them.
//!
//! ```text
//! byte   7      6     0
//!        more   bits        the lowest bits first; `more` is 0 in the last byte
//! ```
//!
//! A number takes 1 to 10 bytes. The writer uses as few as possible. The reader also takes an *overlong* one, whose
//! last groups are zero, in up to 10 bytes; it refuses what ends early and what has more than 64 bits.

/// Bytes that a number takes.
///
/// ```
/// use thermocline_base::varint::varint_len;
/// assert_eq!([0, 127, 128, u64::MAX].map(varint_len), [1, 1, 2, 10]);
/// ```
pub fn varint_len(n: u64) -> usize {
    let bits = 64 - (n | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Appends a number.
///
/// ```
/// use thermocline_base::varint::{put_varint, varint};
/// let mut bytes = Vec::new();
/// put_varint(&mut bytes, 300);
/// assert_eq!(bytes, [0xac, 0x02]);
/// let mut at = 0;
/// assert_eq!((varint(&bytes, &mut at), at), (Some(300), 2));
/// ```
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n.to_le_bytes()[0] | 0x80);
        n >>= 7;
    }
    out.push(n.to_le_bytes()[0]);
}

/// Reads a number at `at` and moves behind it. `None` if there is none; then `at` is somewhere within.
#[inline]
pub fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    // Most numbers are small.
    let low = |byte: u8| u64::from(byte & 0x7f);
    let (n, len) = match *bytes.get(*at..)? {
        [a @ ..0x80, ..] => (low(a), 1),
        [a, b @ ..0x80, ..] => (low(a) | low(b) << 7, 2),
        [a, b, c @ ..0x80, ..] => (low(a) | low(b) << 7 | low(c) << 14, 3),
        _ => return long_varint(bytes, at),
    };
    *at += len;
    Some(n)
}

fn long_varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let mut n = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        n |= bits << shift;
        if byte < 0x80 {
            return Some(n);
        }
    }
    None
}

/// Reads a length at `at` and moves behind it, as [`varint`] does.
#[inline]
pub fn varlen(bytes: &[u8], at: &mut usize) -> Option<usize> {
    usize::try_from(varint(bytes, at)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers around every power of two, and the largest one.
    fn numbers() -> impl Iterator<Item = u64> {
        let around = |s: u32| [(1 << s) - 1, 1 << s, (1 << s) + 1];
        (0..64).flat_map(around).chain([u64::MAX])
    }

    #[test]
    fn each_length_begins_where_the_one_before_ends() {
        for len in 1..=9 {
            let last = (1u64 << (7 * len)) - 1;
            assert_eq!((varint_len(last), varint_len(last + 1)), (len, len + 1));
            let mut bytes = Vec::new();
            put_varint(&mut bytes, last);
            let whole = [vec![0xff; len - 1], vec![0x7f]].concat();
            assert_eq!(bytes, whole);
            bytes.clear();
            put_varint(&mut bytes, last + 1);
            let power = [vec![0x80; len], vec![1]].concat();
            assert_eq!(bytes, power);
        }
        let mut bytes = Vec::new();
        put_varint(&mut bytes, u64::MAX);
        assert_eq!(bytes, [255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
    }

    #[test]
    fn numbers_read_as_they_were_written_and_truncated_ones_do_not() {
        for n in numbers() {
            let mut bytes = vec![9];
            put_varint(&mut bytes, n);
            assert_eq!(bytes.len(), 1 + varint_len(n), "{n}");
            for cut in 1..bytes.len() {
                assert_eq!(varint(&bytes[..cut], &mut 1), None, "{n} cut at {cut}");
            }
            bytes.push(0x80);
            let mut at = 1;
            assert_eq!(varint(&bytes, &mut at), Some(n));
            assert_eq!(at, bytes.len() - 1);
            let mut at = 1;
            assert_eq!(varlen(&bytes, &mut at), usize::try_from(n).ok());
        }
        assert_eq!(varint(&[], &mut 0), None);
        assert_eq!(varint(&[1], &mut 1), None);
    }

    #[test]
    fn overlong_numbers_read_up_to_ten_bytes() {
        for n in numbers().filter(|n| varint_len(*n) < 10) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, n);
            for len in bytes.len() + 1..=12 {
                let mut long = bytes.clone();
                *long.last_mut().unwrap() |= 0x80;
                long.resize(len - 1, 0x80);
                long.push(0);
                let mut at = 0;
                let read = varint(&long, &mut at);
                assert_eq!(read, (len <= 10).then_some(n), "{n} in {len} bytes");
                assert!(read.is_none() || at == len);
            }
        }
    }

    #[test]
    fn numbers_of_more_than_64_bits_are_refused() {
        for last in 2..=0xff {
            let bytes = [&[0xff; 9][..], &[last]].concat();
            assert_eq!(varint(&bytes, &mut 0), None, "{last}");
        }
        for bytes in [&[0xff; 12][..], &[0x80; 12]] {
            assert_eq!(varint(bytes, &mut 0), None);
        }
    }
}
