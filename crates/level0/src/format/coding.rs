//! Numbers and fields: how they are written, and read from bytes that nobody vouches for.

use thermocline_base::{BlobRef, FileId};

use super::BLOB_REF_LEN;

/// The length of something whose limit is far below 4 GiB.
pub(crate) fn len32(len: usize) -> u32 {
    u32::try_from(len).expect("limits keep lengths below 4 GiB")
}

/// A length that was stored in 4 bytes.
pub(crate) fn len_of(len: u32) -> usize {
    usize::try_from(len).expect("addresses have 32 bits or more")
}

/// Bytes that a number takes as a varint.
pub(crate) fn varint_len(n: u64) -> usize {
    let bits = 64 - (n | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Appends a number in 7-bit groups.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push((n & 0x7f) as u8 | 0x80);
        n >>= 7;
    }
    out.push((n & 0x7f) as u8);
}

/// Reads a number at `at` and moves behind it.
#[inline]
pub(crate) fn varint(bytes: &[u8], at: &mut usize) -> Option<u64> {
    // Most numbers are small.
    if let Some(&byte @ ..0x80) = bytes.get(*at) {
        *at += 1;
        return Some(u64::from(byte));
    }
    long_varint(bytes, at)
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

/// Reads a length at `at` and moves behind it.
#[inline]
pub(crate) fn varlen(bytes: &[u8], at: &mut usize) -> Option<usize> {
    usize::try_from(varint(bytes, at)?).ok()
}

/// Takes `len` bytes at `at` and moves behind them.
#[inline]
pub(crate) fn take<'a>(bytes: &'a [u8], at: &mut usize, len: usize) -> Option<&'a [u8]> {
    let taken = bytes.get(*at..at.checked_add(len)?)?;
    *at += len;
    Some(taken)
}

/// The two bytes at `at`, which are there.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

/// The four bytes at `at`, which are there.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The eight bytes at `at`, which are there.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// How many bytes two keys begin with together.
#[inline]
pub(crate) fn shared(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let mut at = 0;
    while at + 8 <= len {
        let differ = u64_at(a, at) ^ u64_at(b, at);
        if differ != 0 {
            return at + differ.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let (a, b) = (&a[at..len], &b[at..len]);
    at + a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The bytes of a reference to a value in a blob file.
pub(crate) fn encode_blob_ref(to: BlobRef) -> [u8; BLOB_REF_LEN] {
    let mut bytes = [0; BLOB_REF_LEN];
    bytes[..8].copy_from_slice(&to.file.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&to.offset.to_le_bytes());
    bytes[16..].copy_from_slice(&to.len.to_le_bytes());
    bytes
}

/// What [`encode_blob_ref`] wrote; there are as many bytes.
pub(crate) fn decode_blob_ref(bytes: &[u8]) -> BlobRef {
    BlobRef {
        file: FileId(u64_at(bytes, 0)),
        offset: u64_at(bytes, 8),
        len: u32_at(bytes, 16),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_they_were_written() {
        for n in (0..64)
            .flat_map(|s| [(1u64 << s) - 1, 1 << s, (1 << s) + 1])
            .chain([u64::MAX])
        {
            let mut bytes = vec![9];
            put_varint(&mut bytes, n);
            assert_eq!(bytes.len(), 1 + varint_len(n), "{n}");
            let mut at = 1;
            assert_eq!(varint(&bytes, &mut at), Some(n));
            assert_eq!(at, bytes.len());
            assert_eq!(varint(&bytes[..bytes.len() - 1], &mut 1), None);
        }
        for bytes in [&[0xff; 12][..], &[0x80; 12]] {
            assert_eq!(varint(bytes, &mut 0), None);
        }
    }

    #[test]
    fn what_keys_share_is_found_at_every_length() {
        for len in 0..40 {
            let a = vec![7; len];
            assert_eq!(shared(&a, &a), len);
            for at in 0..len {
                let mut b = a.clone();
                b[at] = 8;
                b.push(1);
                assert_eq!(shared(&a, &b), at);
                assert_eq!(shared(&a[..at], &b), at);
            }
        }
    }
}
