//! Writing formats by hand, for what a later version would write.

use thermocline_base::checksum::crc32c;

/// Puts a format version into a superblock (see FORMATS.md) and seals it again.
pub fn set_superblock_version(block: &mut [u8], version: u32) {
    block[8..12].copy_from_slice(&version.to_le_bytes());
    block[12..16].fill(0);
    let crc = crc32c(0, &block[..64]);
    block[12..16].copy_from_slice(&crc.to_le_bytes());
}

/// Puts a format version into a manifest's header and seals it again.
pub fn set_manifest_version(header: &mut [u8], version: u32) {
    header[8..12].copy_from_slice(&version.to_le_bytes());
    let crc = crc32c(0, &header[..60]);
    header[60..64].copy_from_slice(&crc.to_le_bytes());
}
