//! Writing the index: one block, or a root over blocks that are written as they fill.

use thermocline_base::SeqNo;
use thermocline_base::planted::{self, Bug};

use crate::block::build::{BlockBuilder, common};
use crate::format::entry::{self, TAG_INDEX};
use crate::format::{INDEX_BINARY, TRAILER_LEN};
use crate::handle::BlockHandle;
use crate::key::{InternalKey, KeyRef};

/// An index block of level 0 has at least so many entries, so that the root stays small even where
/// keys are long.
const ENTRIES_MIN: usize = 16;

/// Keys of an index are compared whole at each step of a bisection: few share one restart point.
const RESTART_INTERVAL: usize = 4;

/// Most bytes of a handle in an index entry.
const HANDLE_LEN_MAX: usize = 15;

/// Collects separators of data blocks.
#[derive(Debug)]
pub(crate) struct IndexBuilder {
    leaf: BlockBuilder,
    root: BlockBuilder,
    /// The last separator of the leaf.
    last: InternalKey,
    block_bytes: usize,
}

fn head(level: u8) -> [u8; 4] {
    [INDEX_BINARY, level, 0, 0]
}

fn add(block: &mut BlockBuilder, key: KeyRef<'_>, handle: BlockHandle) {
    let mut value = Vec::with_capacity(HANDLE_LEN_MAX);
    entry::encode_handle(&mut value, handle);
    block.add(key, TAG_INDEX, &value);
}

impl IndexBuilder {
    pub fn new(block_bytes: usize) -> IndexBuilder {
        IndexBuilder {
            leaf: BlockBuilder::new(&head(0), RESTART_INTERVAL),
            root: BlockBuilder::new(&head(1), RESTART_INTERVAL),
            last: InternalKey::default(),
            block_bytes,
        }
    }

    /// Bytes so far that are not written.
    pub fn len(&self) -> usize {
        self.leaf.len() + self.root.len()
    }

    /// Bytes of the root so far.
    pub fn root_len(&self) -> usize {
        self.root.len()
    }

    /// Adds a data block: no entry of it lies above `separator`, none behind it at or below.
    pub fn add(&mut self, separator: InternalKey, block: BlockHandle) {
        add(&mut self.leaf, separator.as_ref(), block);
        self.last = separator;
    }

    /// Whether the leaf is to be written out before a separator of `key_len` bytes is added.
    pub fn is_leaf_full(&self, key_len: usize) -> bool {
        let len = self.leaf.len_with(key_len, HANDLE_LEN_MAX) + TRAILER_LEN;
        self.leaf.count() >= ENTRIES_MIN && len > self.block_bytes
    }

    /// Whether there is a level above the leaf and the leaf has entries that it does not know.
    pub fn has_last_leaf(&self) -> bool {
        self.root.count() > 0 && self.leaf.count() > 0
    }

    /// Completes the leaf: `write` writes its payload and says where.
    pub fn write_leaf<E>(
        &mut self,
        write: impl FnOnce(&[u8]) -> Result<BlockHandle, E>,
    ) -> Result<(), E> {
        let handle = self.leaf.finish(write)?;
        add(&mut self.root, self.last.as_ref(), handle);
        Ok(())
    }

    /// Completes the root: the only leaf, if there was one.
    pub fn finish<T>(mut self, take: impl FnOnce(&[u8]) -> T) -> T {
        match self.root.count() {
            0 => self.leaf.finish(take),
            _ => self.root.finish(take),
        }
    }
}

/// A short key that is not below `last`, the last of a block, and below `next`, the user key of the
/// first behind it.
pub(crate) fn separator(last: KeyRef<'_>, next: Option<&[u8]>) -> InternalKey {
    let of_all = |user_key: &[u8]| InternalKey {
        user_key: user_key.to_vec(),
        seqno: SeqNo::ZERO,
    };
    let key = last.user_key;
    match next {
        Some(next) if next == key && !planted::active(Bug::SeparatorForgetsSeqno) => {
            last.to_owned()
        }
        Some(next) => {
            let shared = common(key, next);
            // As `key` is below `next`, this lies above `key` unless `key` ends here.
            if shared < key.len() && shared + 1 < next.len() {
                return of_all(&next[..=shared]);
            }
            of_all(key)
        }
        None => of_all(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline_testkit::Rng;

    #[test]
    fn a_separator_lies_between_the_blocks() {
        let mut rng = Rng::new(7);
        let mut shorter = 0;
        for _ in 0..20_000 {
            let mut key = || {
                (0..rng.below(6))
                    .map(|_| b"a\xffb\x00"[rng.below(4)])
                    .collect::<Vec<u8>>()
            };
            let (a, b) = (key(), key());
            let (last, next) = if a < b { (a, b) } else { (b, a) };
            let key = KeyRef::new(&last, SeqNo(5));
            let found = separator(key, Some(&next));
            assert!(found.as_ref() >= key);
            assert!(
                found.as_ref() < KeyRef::new(&next, SeqNo(if last == next { 4 } else { u64::MAX }))
            );
            assert!(found.user_key.len() <= last.len().max(1));
            shorter += u32::from(found.user_key.len() < last.len());
        }
        assert!(shorter > 1000);
    }
}
