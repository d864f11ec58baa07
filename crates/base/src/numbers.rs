//! Numbers at fixed places: little-endian, as everything at rest has them.
//!
//! The caller checks lengths before, so that the bytes are there. Lengths are stored in 4 bytes, since the limits of
//! keys, values and blocks are far below 4 GiB.

/// The two bytes at `at`.
#[inline]
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

/// The four bytes at `at`.
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The eight bytes at `at`.
///
/// ```
/// use thermocline_base::numbers::{u16_at, u32_at, u64_at};
/// let bytes = [9, 1, 2, 3, 4, 5, 6, 7, 8];
/// assert_eq!(u16_at(&bytes, 1), 0x0201);
/// assert_eq!(u32_at(&bytes, 1), 0x0403_0201);
/// assert_eq!(u64_at(&bytes, 1), 0x0807_0605_0403_0201);
/// ```
#[inline]
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// A length as it is stored.
#[inline]
pub fn len32(len: usize) -> u32 {
    u32::try_from(len).expect("limits keep lengths below 4 GiB")
}

/// A length that was stored.
#[inline]
pub fn len_of(len: u32) -> usize {
    usize::try_from(len).expect("addresses have 32 bits or more")
}

/// The first eight bytes of a key as a number; a shorter key is filled up with zeros. Different numbers order as
/// their keys do; equal ones decide nothing.
#[inline]
pub fn first_bytes(key: &[u8]) -> u64 {
    if let Some(bytes) = key.first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    bytes[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(bytes)
}
