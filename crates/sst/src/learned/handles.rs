//! Where the blocks lie: an array of lengths, and of where pages are skipped.
//!
//! Data blocks follow each other in the file, with zeros up to the next page between some of them. So a
//! block's offset follows from the lengths before it, and from one bit for each that says whether it
//! begins at a page. Blocks come in *frames* of [`FRAME`]; a frame knows where its first block may begin, its
//! shortest length, and the bits that the others have above that. To find a block means to sum lengths
//! within its frame.

use thermocline_base::numbers::{len_of, len32};

use super::bits::{BitWriter, Bits};
use crate::format::{DATA_LEN_MAX, PAGE_BYTES, TRAILER_LEN};
use crate::handle::{BlockHandle, BlockKind};

/// Blocks of a frame, but for the last one.
pub(super) const FRAME: u32 = 64;

/// Most bits of a length: a data block has at most 2 MiB and its trailer.
const WIDTH_MAX: u8 = 22;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame {
    /// Where the block before ends.
    offset: u64,
    /// Where its bits begin.
    at: u64,
    shortest: u32,
    width: u8,
}

/// What a frame says of itself; where it begins follows from the frames before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHead {
    /// The length of its shortest block.
    pub shortest: u32,
    /// Bits of a length, above that.
    pub width: u8,
}

/// Handles of all data blocks of a table.
#[derive(Debug)]
pub(super) struct Handles {
    frames: Box<[Frame]>,
    bits: Bits,
    blocks: u32,
}

/// The first page that begins at or behind `offset`.
fn page_from(offset: u64) -> Option<u64> {
    offset.checked_next_multiple_of(PAGE_BYTES as u64)
}

/// Packs the handles of data blocks; `None` if one neither begins where the one before ends nor at the next
/// page.
pub(super) fn pack(all: &[BlockHandle]) -> Option<(Vec<FrameHead>, Vec<u8>)> {
    let (mut heads, mut bits) = (Vec::new(), BitWriter::default());
    let mut end = 0;
    for frame in all.chunks(len_of(FRAME)) {
        let lens = frame.iter().map(|handle| handle.len);
        let (shortest, longest) = (lens.clone().min()?, lens.max()?);
        let width = 32 - (longest - shortest).leading_zeros();
        for handle in frame {
            let skips = handle.offset != end;
            if skips && page_from(end) != Some(handle.offset) {
                return None;
            }
            bits.push(u64::from(skips), 1);
            bits.push(u64::from(handle.len - shortest), width);
            end = handle.end();
        }
        heads.push(FrameHead {
            shortest,
            width: u8::try_from(width).ok()?,
        });
    }
    Some((heads, bits.finish()))
}

/// Frames that so many blocks have.
pub(super) fn frames_of(blocks: u32) -> u32 {
    blocks.div_ceil(FRAME)
}

/// Bits of a frame of so many blocks.
fn bits_of(head: FrameHead, blocks: u32) -> u64 {
    u64::from(blocks) * (1 + u64::from(head.width))
}

/// Bits of all frames of `blocks` blocks.
pub(super) fn bits_of_all(heads: &[FrameHead], blocks: u32) -> u64 {
    let within = |n: usize| (blocks - len32(n) * FRAME).min(FRAME);
    let each = heads.iter().enumerate();
    each.map(|(n, head)| bits_of(*head, within(n))).sum()
}

impl Handles {
    /// Unpacks the handles of `blocks` blocks, for which heads and bits are there, and checks that they lie
    /// one behind the other before `data_end`. Of one that does not, says which.
    pub fn new(heads: &[FrameHead], bytes: &[u8], blocks: u32, data_end: u64) -> Result<Self, u32> {
        let bits = Bits::new(bytes);
        let (mut frames, mut at, mut offset) = (Vec::with_capacity(heads.len()), 0, 0);
        for (n, head) in heads.iter().enumerate() {
            let first = len32(n) * FRAME;
            let count = (blocks - first).min(FRAME);
            if head.width > WIDTH_MAX {
                return Err(first);
            }
            let frame = Frame {
                offset,
                at,
                shortest: head.shortest,
                width: head.width,
            };
            for i in 0..count {
                let (begin, len) = frame.step(offset, i, &bits).ok_or(first + i)?;
                let right = TRAILER_LEN..=DATA_LEN_MAX + TRAILER_LEN;
                offset = begin.checked_add(u64::from(len)).ok_or(first + i)?;
                if !right.contains(&len_of(len)) || offset > data_end {
                    return Err(first + i);
                }
            }
            at += bits_of(*head, count);
            frames.push(frame);
        }
        Ok(Handles {
            frames: frames.into(),
            bits,
            blocks,
        })
    }

    /// How many there are.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The handle of block `n`, which is one of the table's.
    pub fn get(&self, n: u32) -> BlockHandle {
        let frame = &self.frames[len_of(n / FRAME)];
        let mut handle = frame.handle(frame.offset, 0, &self.bits);
        for i in 1..=n % FRAME {
            handle = frame.handle(handle.end(), i, &self.bits);
        }
        handle
    }

    /// All handles, in order, as [`Handles::get`] has each.
    pub fn all(&self) -> impl Iterator<Item = BlockHandle> {
        let mut end = 0;
        (0..self.blocks).map(move |n| {
            let frame = &self.frames[len_of(n / FRAME)];
            let i = n % FRAME;
            let begin = if i == 0 { frame.offset } else { end };
            let handle = frame.handle(begin, i, &self.bits);
            end = handle.end();
            handle
        })
    }

    /// Bytes of memory that they take beside themselves.
    pub fn charge(&self) -> usize {
        size_of_val(&*self.frames) + self.bits.charge()
    }
}

impl Frame {
    /// Where the frame's block `i` begins, if the one before ends at `end`, and how long it is.
    #[inline]
    fn step(&self, end: u64, i: u32, bits: &Bits) -> Option<(u64, u32)> {
        let width = u32::from(self.width);
        let field = bits.get(self.at + u64::from(i) * u64::from(width + 1), width + 1);
        let more = u32::try_from(field >> 1).ok()?;
        let begin = match field & 1 {
            0 => end,
            _ => page_from(end)?,
        };
        Some((begin, self.shortest.checked_add(more)?))
    }

    /// The handle of the frame's block `i`, if the one before ends at `end`.
    #[inline]
    fn handle(&self, end: u64, i: u32, bits: &Bits) -> BlockHandle {
        let (offset, len) = self
            .step(end, i, bits)
            .expect("all of them were summed once");
        BlockHandle {
            offset,
            len,
            kind: BlockKind::Data,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline_testkit::Rng;

    fn random(rng: &mut Rng, blocks: usize) -> Vec<BlockHandle> {
        let (least, more) = (
            12 + rng.below(5000),
            1 + rng.below(1 << rng.clone().below(14)),
        );
        let mut end = 0;
        let all = (0..blocks).map(|_| {
            let offset = if rng.one_in(3) {
                page_from(end).unwrap()
            } else {
                end
            };
            let len = len32(least + rng.below(more));
            end = offset + u64::from(len);
            BlockHandle {
                offset,
                len,
                kind: BlockKind::Data,
            }
        });
        all.collect()
    }

    #[test]
    fn handles_are_unpacked_as_they_were_packed() {
        let mut rng = Rng::new(4);
        for blocks in [1, 2, 63, 64, 65, 200, 1000] {
            let all = random(&mut rng, blocks);
            let (heads, bytes) = pack(&all).unwrap();
            let (blocks, end) = (len32(blocks), all.last().unwrap().end());
            assert_eq!(len32(heads.len()), frames_of(blocks));
            assert_eq!(
                bytes.len() as u64,
                Bits::bytes_of(bits_of_all(&heads, blocks))
            );
            let handles = Handles::new(&heads, &bytes, blocks, end).unwrap();
            let found = (0..blocks).map(|n| handles.get(n));
            assert!(found.eq(all.iter().copied()) && handles.all().eq(all.iter().copied()));
            // The last block would lie behind the end.
            assert_eq!(
                Handles::new(&heads, &bytes, blocks, end - 1).err(),
                Some(blocks - 1)
            );
        }
    }

    #[test]
    fn blocks_of_one_length_take_a_bit_each() {
        let all: Vec<_> = (0..640u64)
            .map(|n| BlockHandle {
                offset: n * 3000,
                len: 3000,
                kind: BlockKind::Data,
            })
            .collect();
        let (heads, bytes) = pack(&all).unwrap();
        assert_eq!((heads.len(), bytes.len()), (10, 80));
    }

    #[test]
    fn a_gap_that_is_not_up_to_a_page_is_not_packed() {
        let mut all = random(&mut Rng::new(5), 10);
        all.last_mut().unwrap().offset += 4095;
        assert_eq!(pack(&all), None);
    }

    #[test]
    fn lengths_that_cannot_be_are_refused() {
        let head = |shortest, width| [FrameHead { shortest, width }];
        let one =
            |head: [FrameHead; 1], bytes: &[u8]| Handles::new(&head, bytes, 1, u64::MAX).err();
        assert_eq!(one(head(12, 0), &[0]), None);
        assert_eq!(one(head(11, 0), &[0]), Some(0));
        assert_eq!(one(head(u32::MAX, 1), &[2]), Some(0));
        assert_eq!(one(head(3 << 20, 0), &[0]), Some(0));
        assert_eq!(one(head(12, 23), &[0, 0, 0]), Some(0));
    }
}
