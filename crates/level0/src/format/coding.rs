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
