//! Up to 48 (656 bytes) or 128 children (1,296 bytes), found through an index of 256 bytes. The
//! paper has the smaller only; but a node with 49 children would then take 2 KiB, and with five
//! million random keys, when nearly all nodes have 60 to 70, that alone would cost 27 bytes a key.

use crate::sync::{AtomicU64, Ordering};

use super::body::Body;
use super::n16::{COUNT_MASK, HAS_END, INLINE, INLINE_SHIFT};
use super::slot::{Header, Link, Slot};
use super::window::Window;
use crate::word::{END, Symbol, Word, byte, index};

#[repr(C)]
pub(crate) struct Indexed<const SLOTS: usize> {
    head: Header,
    /// One byte per key byte: 0, or one more than the slot.
    index: [AtomicU64; 32],
    /// In the order of arrival; the last is that of "the key ends here" if the node has it.
    slots: [Slot; SLOTS],
}

impl<const SLOTS: usize> Indexed<SLOTS> {
    fn indexes(&self, at: usize) -> u64 {
        self.index[at].load(Ordering::Acquire) // pairs with `insert`: the slot is filled
    }
}

impl<const SLOTS: usize> Body for Indexed<SLOTS> {
    const INLINE: usize = INLINE;

    fn new(inline: u64) -> Self {
        Indexed {
            head: Header::new(inline << INLINE_SHIFT),
            index: std::array::from_fn(|_| AtomicU64::new(0)),
            slots: std::array::from_fn(|_| Slot::new(Word::EMPTY)),
        }
    }

    fn head(&self) -> &Header {
        &self.head
    }

    #[inline]
    fn inline(&self) -> u64 {
        self.head.meta() >> INLINE_SHIFT
    }

    #[inline]
    fn find(&self, symbol: Symbol) -> Option<(&Slot, Link<'_>)> {
        let at = if symbol == END {
            (self.head.meta() & HAS_END != 0).then_some(SLOTS)?
        } else {
            let byte = usize::from(byte(symbol));
            index(self.indexes(byte / 8) >> (8 * (byte % 8)) & 0xff)
        };
        let slot = self.slots.get(at.wrapping_sub(1))?;
        let link = slot.load();
        (!link.is_empty()).then_some((slot, link))
    }

    fn is_full(&self) -> bool {
        let meta = self.head.meta();
        index(meta & COUNT_MASK) + usize::from(meta & HAS_END != 0) == SLOTS
    }

    fn insert(&self, symbol: Symbol, word: Word) {
        debug_assert!(!self.is_full());
        let meta = self.head.meta();
        if symbol == END {
            self.slots[SLOTS - 1].store(word);
            self.head.set_meta(meta | HAS_END);
            return;
        }
        let count = meta & COUNT_MASK;
        self.slots[index(count)].store(word);
        let byte = usize::from(byte(symbol));
        let indexes = self.indexes(byte / 8) | (count + 1) << (8 * (byte % 8));
        self.index[byte / 8].store(indexes, Ordering::Release); // pairs with `indexes`
        self.head.set_meta(meta + 1);
    }

    fn fill<'g>(&'g self, window: &mut Window<'g>) {
        let (from, until, reverse) = window.range();
        let mut push = |symbol: Symbol| match self.find(symbol) {
            Some((_, link)) => window.push(symbol, link),
            None => true,
        };
        if reverse {
            let mut symbol = until;
            while symbol > from {
                symbol -= 1;
                // Eight bytes without children are passed over at once.
                if symbol % 8 == 0 && symbol > 8 && self.indexes(usize::from(symbol) / 8 - 1) == 0 {
                    symbol -= 7;
                } else if !push(symbol) {
                    return;
                }
            }
        } else {
            let mut symbol = from;
            while symbol < until {
                if symbol % 8 == 1 && self.indexes(usize::from(symbol) / 8) == 0 {
                    symbol += 8;
                    continue;
                }
                if !push(symbol) {
                    return;
                }
                symbol += 1;
            }
        }
    }

    fn any(&self) -> Link<'_> {
        self.slots[0].load() // filled by the first byte child, of which there is one
    }
}
