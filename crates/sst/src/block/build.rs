//! Building a block: entries with shared beginnings, and restart points.

use thermocline_base::limits;
use thermocline_base::numbers::len32;

use crate::format::entry::{self, ENTRY_HEAD_MAX};
use crate::key::KeyRef;

/// Collects the entries of one block after the other.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    bytes: Vec<u8>,
    head: Vec<u8>,
    restarts: Vec<u32>,
    interval: usize,
    /// Entries since the last restart point.
    run: usize,
    count: usize,
    last: Vec<u8>,
}

impl BlockBuilder {
    /// Blocks that begin with `head` and have a restart point every `interval` entries.
    pub fn new(head: &[u8], interval: usize) -> BlockBuilder {
        BlockBuilder {
            bytes: head.to_vec(),
            head: head.to_vec(),
            restarts: Vec::new(),
            interval,
            run: 0,
            count: 0,
            last: Vec::new(),
        }
    }

    /// Entries so far.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the payload so far.
    pub fn len(&self) -> usize {
        self.bytes.len() + 4 * self.restarts.len() + 4
    }

    /// Most bytes of the payload if an entry like this is added.
    pub fn len_with(&self, key_len: usize, value_len: usize) -> usize {
        self.len() + 4 + ENTRY_HEAD_MAX + key_len + value_len
    }

    /// Bytes of the payload if this entry is added.
    pub fn len_with_entry(&self, key: KeyRef<'_>, value: &[u8]) -> usize {
        let restart = self.restarts.is_empty() || self.run == self.interval;
        let shared = if restart {
            0
        } else {
            common(&self.last, key.user_key)
        };
        let rest = key.user_key.len() - shared;
        let entry = entry::encoded_len(shared, rest, key.seqno.0, value.len());
        self.len() + usize::from(restart) * 4 + entry
    }

    /// Adds an entry behind all others.
    pub fn add(&mut self, key: KeyRef<'_>, tag: u8, value: &[u8]) {
        debug_assert!(key.user_key.len() <= limits::KEY_LEN_MAX);
        let head = self.head.len();
        let mut shared = 0;
        if self.restarts.is_empty() || self.run == self.interval {
            self.restarts.push(len32(self.bytes.len() - head));
            self.run = 0;
        } else {
            shared = common(&self.last, key.user_key);
        }
        let rest = &key.user_key[shared..];
        entry::encode(&mut self.bytes, shared, rest, tag, key.seqno.0, value);
        self.last.truncate(shared);
        self.last.extend_from_slice(rest);
        self.run += 1;
        self.count += 1;
    }

    /// Completes the payload, hands it to `take`, and begins the next block.
    pub fn finish<T>(&mut self, take: impl FnOnce(&[u8]) -> T) -> T {
        for restart in &self.restarts {
            self.bytes.extend_from_slice(&restart.to_le_bytes());
        }
        let count = len32(self.restarts.len());
        self.bytes.extend_from_slice(&count.to_le_bytes());
        let taken = take(&self.bytes);
        self.bytes.truncate(self.head.len());
        self.restarts.clear();
        self.run = 0;
        self.count = 0;
        self.last.clear();
        taken
    }
}

/// How many bytes both begin with.
pub(crate) fn common(a: &[u8], b: &[u8]) -> usize {
    let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
    let same = 8 * words.take_while(|(a, b)| a == b).count();
    let rest = a[same..].iter().zip(&b[same..]);
    same + rest.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline_base::SeqNo;
    use thermocline_testkit::Rng;

    #[test]
    fn what_two_keys_begin_with_is_counted_to_the_byte() {
        for len in 0..40 {
            let key = vec![b'k'; len];
            assert_eq!(common(&key, &key), len);
            for more in 0..20 {
                assert_eq!(common(&key, &vec![b'k'; len + more]), len);
            }
            for at in 0..len {
                let mut other = key.clone();
                other[at] = b'l';
                assert_eq!(common(&key, &other), at);
                assert_eq!(common(&other[..=at], &key), at);
            }
        }
    }

    #[test]
    fn the_length_foretold_is_the_length() {
        let mut rng = Rng::new(3);
        for interval in [1, 2, 16] {
            let mut block = BlockBuilder::new(&[1, 0, 0, 0], interval);
            let mut key = vec![];
            for n in 0..300 {
                if rng.one_in(3) {
                    key.push(b'a');
                } else {
                    key = format!("{n:06}{}", "x".repeat(rng.below(300))).into_bytes();
                }
                let value = vec![b'v'; rng.below(400)];
                let seqno = SeqNo(rng.next_u64() >> rng.below(64));
                let key = KeyRef::new(&key, seqno);
                let foretold = block.len_with_entry(key, &value);
                assert!(foretold <= block.len_with(key.user_key.len(), value.len()));
                block.add(key, 1, &value);
                assert_eq!(block.len(), foretold);
            }
            let len = block.len();
            assert_eq!(block.finish(<[u8]>::len), len);
        }
    }
}
