//! Checksums, made right: written anew from the drawings in `FORMATS.md`.

pub mod backup;
pub mod blobs;
pub mod items;
pub mod log;
pub mod manifest;
pub mod note;
pub mod pm_table;
pub mod region;
pub mod table;

/// The database of all samples.
pub const DB_ID: [u8; 16] = *b"0123456789abcdef";

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    let field = bytes.get(at..at.checked_add(2)?)?;
    Some(usize::from(u16::from_le_bytes(field.try_into().ok()?)))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    let field = bytes.get(at..at.checked_add(4)?)?;
    usize::try_from(u32::from_le_bytes(field.try_into().ok()?)).ok()
}

fn varint(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let mut n = 0u64;
    for shift in (0..63).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        n |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return usize::try_from(n).ok();
        }
    }
    None
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(field.try_into().ok()?))
}

pub(crate) fn usize_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64_at(bytes, at)?).ok()
}

/// Writes a checksum, if there is room for it.
pub(crate) fn put(bytes: &mut [u8], at: usize, crc: u32) -> Option<()> {
    let field = bytes.get_mut(at..at.checked_add(4)?)?;
    field.copy_from_slice(&crc.to_le_bytes());
    Some(())
}

/// `id_low ^ rotl32(id_high) ^ number × factor`.
pub(crate) fn mixed(id: &[u8; 16], number: u64, factor: u64) -> u64 {
    let half = |half: &[u8]| half.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
    let (low, high) = id.split_at(8);
    half(low) ^ half(high).rotate_left(32) ^ number.wrapping_mul(factor)
}
