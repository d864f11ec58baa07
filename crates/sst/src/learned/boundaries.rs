//! What a model is made of: the first and last key of each data block, and where the block lies.

use crate::handle::BlockHandle;
use crate::key::KeyRef;
use thermocline_base::SeqNo;

#[derive(Debug)]
struct Span {
    /// Where the first and the last user key end among all keys.
    ends: [usize; 2],
    seqno: SeqNo,
    handle: BlockHandle,
}

/// The ends of all data blocks of a table, as it is written.
#[derive(Debug, Default)]
pub(crate) struct Boundaries {
    keys: Vec<u8>,
    spans: Vec<Span>,
}

impl Boundaries {
    /// Adds a block that begins with the user key `first` and ends with `last`.
    pub fn push(&mut self, first: &[u8], last: KeyRef<'_>, handle: BlockHandle) {
        self.keys.extend_from_slice(first);
        let end = self.keys.len();
        self.keys.extend_from_slice(last.user_key);
        self.spans.push(Span {
            ends: [end, self.keys.len()],
            seqno: last.seqno,
            handle,
        });
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Bytes of memory that they take.
    pub fn memory(&self) -> usize {
        self.keys.capacity() + self.spans.capacity() * size_of::<Span>()
    }

    /// The first user key of block `n`.
    pub fn first(&self, n: usize) -> &[u8] {
        let begin = n
            .checked_sub(1)
            .map_or(0, |before| self.spans[before].ends[1]);
        &self.keys[begin..self.spans[n].ends[0]]
    }

    /// The last key of block `n`.
    pub fn last(&self, n: usize) -> KeyRef<'_> {
        let Span { ends, seqno, .. } = &self.spans[n];
        KeyRef::new(&self.keys[ends[0]..ends[1]], *seqno)
    }

    /// Where block `n` lies.
    pub fn handle(&self, n: usize) -> BlockHandle {
        self.spans[n].handle
    }

    /// The bytes of all these keys.
    pub fn bytes(&self) -> &[u8] {
        &self.keys
    }
}
