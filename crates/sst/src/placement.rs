//! Where blocks lie in a table, so that a read touches few pages.

use thermocline_base::Result;
use thermocline_base::numbers::len32;

use crate::format::PAGE_BYTES;
use crate::format::trailer::Sealing;
use crate::handle::{BlockHandle, BlockKind};
use crate::output::Output;

/// Of the bytes of a table, at most one in so many is a zero between blocks, and a page of them more.
const ZEROS_ONE_IN: u64 = 16;

/// Places data and index blocks. A block that would lie on more pages than it must begins on the next
/// page, behind zeros, unless the table has too many zeros already. (A limit for each block alone
/// would not do: blocks of almost a page, once off the page's beginning, would stay off for ever.)
#[derive(Debug, Default)]
pub(crate) struct Placement {
    zeros: u64,
    /// Of the checksums of all blocks so far, in their order.
    crc: u32,
}

impl Placement {
    /// The checksum of the checksums of all blocks that were written.
    pub fn crc(&self) -> u32 {
        self.crc
    }

    /// Writes a block and says where.
    pub fn write(
        &mut self,
        out: &mut Output,
        kind: BlockKind,
        mut sealing: Sealing<'_>,
        seed: u64,
    ) -> Result<BlockHandle> {
        let len = sealing.len();
        let padding = self.padding(out.len(), len);
        self.zeros += padding as u64;
        out.pad(padding)?;
        let offset = out.len();
        sealing.finish(seed, offset);
        self.crc = sealing.sum(self.crc);
        for part in sealing.parts() {
            out.append(part)?;
        }
        Ok(BlockHandle {
            offset,
            len: len32(len),
            kind,
        })
    }

    /// How many zeros go before a block of `len` bytes at `at`.
    fn padding(&self, at: u64, len: usize) -> usize {
        let page = PAGE_BYTES as u64;
        let into_page = usize::try_from(at % page).expect("less than a page");
        let padding = (PAGE_BYTES - into_page) % PAGE_BYTES;
        let pages = (into_page + len).div_ceil(PAGE_BYTES);
        let allowed = (at + len as u64) / ZEROS_ONE_IN + page;
        let fits = self.zeros + padding as u64 <= allowed;
        match pages > len.div_ceil(PAGE_BYTES) && fits {
            true => padding,
            false => 0,
        }
    }
}
