//! The last bytes of a table.

use thermocline_base::checksum::crc32c;
use thermocline_base::numbers::{len_of, u32_at};

use super::coding::{Fields, Unreadable, damaged, hex};
use super::trailer::payload_len_max;
use super::{FOOTER_LEN, FORMAT_VERSION, TRAILER_LEN};
use crate::handle::{BlockHandle, BlockKind};
use crate::identity::Identity;

const MAGIC: &[u8; 8] = b"THCLTABL";
const CRC_AT: usize = 64;

/// The blocks before the footer, in order. The first two may be absent.
const KINDS: [BlockKind; 4] = [
    BlockKind::Filter,
    BlockKind::RangeTombstones,
    BlockKind::Index,
    BlockKind::Properties,
];

/// What the footer of a table says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footer {
    pub identity: Identity,
    pub file_len: u64,
    /// Where data and index blocks end and the filter begins.
    pub data_end: u64,
    pub filter_len: u32,
    pub tombstones_len: u32,
    pub index_len: u32,
    pub properties_len: u32,
}

fn crc_of(bytes: &[u8; FOOTER_LEN]) -> u32 {
    crc32c(crc32c(0, &bytes[..CRC_AT]), &bytes[CRC_AT + 4..])
}

impl Footer {
    pub fn encode(&self) -> [u8; FOOTER_LEN] {
        let mut bytes = [0; FOOTER_LEN];
        bytes[0..16].copy_from_slice(&self.identity.db_id);
        bytes[16..24].copy_from_slice(&self.identity.file.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.file_len.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.data_end.to_le_bytes());
        for (n, len) in self.lens().into_iter().enumerate() {
            bytes[40 + 4 * n..44 + 4 * n].copy_from_slice(&len.to_le_bytes());
        }
        bytes[68..72].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[72..80].copy_from_slice(MAGIC);
        let crc = crc_of(&bytes);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the footer of a file of `file_len` bytes that should be `identity`.
    pub fn decode(
        bytes: &[u8; FOOTER_LEN],
        identity: &Identity,
        file_len: u64,
    ) -> Result<Footer, Unreadable> {
        let mut fields = Fields { bytes, at: 68 };
        let version = fields.u32()?;
        let magic = fields.take(8)?;
        if magic != MAGIC {
            let expected = MAGIC.escape_ascii();
            return Err(damaged(
                "magic of a table",
                72,
                expected,
                magic.escape_ascii(),
            ));
        }
        let (crc, got) = (crc_of(bytes), u32_at(bytes, CRC_AT));
        if crc != got {
            return Err(damaged(
                "checksum of the footer",
                CRC_AT,
                hex(crc),
                hex(got),
            ));
        }
        if version > FORMAT_VERSION {
            return Err(Unreadable::Newer(format!(
                "the table has format version {version}; this program reads up to version \
                 {FORMAT_VERSION}"
            )));
        }
        if version == 0 {
            return Err(damaged("format version", 68, FORMAT_VERSION, version));
        }
        fields.at = 0;
        let found = Identity::new(fields.array()?, thermocline_base::FileId(fields.u64()?));
        identity.check(&found, 0)?;
        let footer = Footer {
            identity: found,
            file_len: fields.u64()?,
            data_end: fields.u64()?,
            filter_len: fields.u32()?,
            tombstones_len: fields.u32()?,
            index_len: fields.u32()?,
            properties_len: fields.u32()?,
        };
        fields.zeros(8)?;
        if footer.file_len != file_len {
            return Err(damaged("length of the file", 24, footer.file_len, file_len));
        }
        footer.check_blocks()?;
        Ok(footer)
    }

    fn lens(&self) -> [u32; 4] {
        [
            self.filter_len,
            self.tombstones_len,
            self.index_len,
            self.properties_len,
        ]
    }

    /// The blocks fill the file up to the footer, and each can be one.
    fn check_blocks(&self) -> Result<(), Unreadable> {
        let sum: u64 = self.lens().into_iter().map(u64::from).sum();
        let end = self.data_end.checked_add(sum + FOOTER_LEN as u64);
        if end != Some(self.file_len) {
            let got = end.map_or("behind all files".to_string(), |end| end.to_string());
            let what = "where the blocks and the footer end";
            return Err(damaged(what, 32, self.file_len, got));
        }
        for (n, len) in self.lens().into_iter().enumerate() {
            // Stored, a block is never longer than without compression.
            let right = TRAILER_LEN..=payload_len_max(KINDS[n]) + TRAILER_LEN;
            let absent = n < 2 && len == 0;
            if !absent && !right.contains(&len_of(len)) {
                let expected = format!("{} to {}", right.start(), right.end());
                return Err(damaged("length of a block", 40 + 4 * n, expected, len));
            }
        }
        Ok(())
    }

    /// The blocks before the footer: filter, range tombstones, index root, properties; the first two
    /// only if they are there.
    pub fn blocks(&self) -> [Option<BlockHandle>; 4] {
        let mut offset = self.data_end;
        let mut n = 0;
        self.lens().map(|len| {
            let handle = BlockHandle {
                offset,
                len,
                kind: KINDS[n],
            };
            offset += u64::from(len);
            n += 1;
            (len > 0).then_some(handle)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(data_end: u64) -> [String; 2] {
        let footer = Footer {
            identity: Identity::new([1; 16], thermocline_base::FileId(7)),
            file_len: 1000,
            data_end,
            filter_len: 0,
            tombstones_len: 0,
            index_len: 20,
            properties_len: 30,
        };
        match Footer::decode(&footer.encode(), &footer.identity, 1000) {
            Err(Unreadable::Damaged { expected, got, .. }) => [expected, got],
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn blocks_that_do_not_fill_the_file_are_told_by_where_they_end() {
        assert_eq!(refused(100), ["1000", "230"]);
        assert_eq!(refused(u64::MAX - 50), ["1000", "behind all files"]);
    }
}
