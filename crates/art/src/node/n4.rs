//! The smallest node: up to four children in 48 bytes. Where keys are random most nodes hold one
//! pair, so its size decides the size of the index; hence the key bytes live in the meta word.
//!
//! ```text
//! meta   63      40 39 38     32 31          0
//!        inline × 3  E   count    key byte × 4      E: slot 3 is the child of "the key ends here"
//! ```

use super::body::Body;
use super::slot::{Header, Link, Slot};
use super::window::Window;
use crate::word::{END, Symbol, Word, byte};

const COUNT: u64 = 1 << 32;
const COUNT_MASK: u64 = 0x7f;
const HAS_END: u64 = 1 << 39;
const SLOTS: usize = 4;

#[repr(C)]
pub(crate) struct N4 {
    head: Header,
    slots: [Slot; SLOTS],
}

fn count(meta: u64) -> usize {
    crate::word::index(meta >> 32 & COUNT_MASK)
}

impl Body for N4 {
    const INLINE: usize = 3;

    fn new(inline: u64) -> N4 {
        N4 {
            head: Header::new(inline << 40),
            slots: std::array::from_fn(|_| Slot::new(Word::EMPTY)),
        }
    }

    fn head(&self) -> &Header {
        &self.head
    }

    #[inline]
    fn inline(&self) -> u64 {
        self.head.meta() >> 40
    }

    #[inline]
    fn find(&self, symbol: Symbol) -> Option<(&Slot, Link<'_>)> {
        let meta = self.head.meta();
        let index = if symbol == END {
            (meta & HAS_END != 0).then_some(SLOTS - 1)?
        } else {
            let keys = (meta & 0xffff_ffff) as u32;
            let differing = keys ^ (u32::from(byte(symbol)) * 0x0101_0101);
            // Bit 7 of each zero byte; exact for the lowest one, which is all that is used.
            let zeros = differing.wrapping_sub(0x0101_0101) & !differing & 0x8080_8080;
            let index = zeros.trailing_zeros() as usize / 8;
            (index < count(meta)).then_some(index)?
        };
        let slot = &self.slots[index];
        let link = slot.load();
        (!link.is_empty()).then_some((slot, link))
    }

    fn is_full(&self) -> bool {
        let meta = self.head.meta();
        count(meta) + usize::from(meta & HAS_END != 0) == SLOTS
    }

    fn insert(&self, symbol: Symbol, word: Word) {
        debug_assert!(!self.is_full());
        let meta = self.head.meta();
        if symbol == END {
            self.slots[SLOTS - 1].store(word);
            self.head.set_meta(meta | HAS_END);
        } else {
            let index = count(meta);
            self.slots[index].store(word);
            let key = u64::from(byte(symbol)) << (8 * index);
            self.head.set_meta((meta | key) + COUNT);
        }
    }

    fn fill<'g>(&'g self, window: &mut Window<'g>) {
        let meta = self.head.meta();
        let mut found = [0u64; SLOTS];
        let mut len = 0;
        if meta & HAS_END != 0 {
            found[0] = SLOTS as u64 - 1;
            len = 1;
        }
        for i in 0..count(meta).min(SLOTS - len) {
            let symbol = (meta >> (8 * i) & 0xff) + 1;
            found[len] = symbol << 8 | i as u64;
            len += 1;
        }
        window.push_unsorted(&mut found[..len], |i| self.slots[i].load());
    }

    fn any(&self) -> Link<'_> {
        // The first byte child goes to slot 0, and a node has at least one beside the END.
        self.slots[0].load()
    }
}
