//! Up to 16 children in 160 bytes, key bytes in the order of their slots.
//!
//! ```text
//! meta   63      16 15 14      0
//!        inline × 6  E   count       E: slot 15 is the child of "the key ends here"
//! ```

use crate::sync::{AtomicU64, Ordering};

use super::body::Body;
use super::slot::{Header, Link, Slot};
use super::window::Window;
use crate::word::{END, Symbol, Word, byte, index};

/// The layout of the meta word, common to all kinds but the smallest.
pub(super) const COUNT_MASK: u64 = 0x7fff;
pub(super) const HAS_END: u64 = 0x8000;
pub(super) const INLINE_SHIFT: u32 = 16;
pub(super) const INLINE: usize = 6;

const SLOTS: usize = 16;
const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

#[repr(C)]
pub(crate) struct N16 {
    head: Header,
    keys: [AtomicU64; 2],
    slots: [Slot; SLOTS],
}

impl N16 {
    fn keys(&self) -> [u64; 2] {
        // Ordered by the meta word, which is read before and written after.
        [
            self.keys[0].load(Ordering::Relaxed),
            self.keys[1].load(Ordering::Relaxed),
        ]
    }
}

/// The position of the first byte of `keys` that is `byte`; 8 if there is none.
#[inline]
fn position(keys: u64, byte: u8) -> usize {
    let differing = keys ^ (u64::from(byte) * LOW);
    // Bit 7 of each zero byte; exact for the lowest one, which is all that is used.
    let zeros = differing.wrapping_sub(LOW) & !differing & HIGH;
    zeros.trailing_zeros() as usize / 8
}

impl Body for N16 {
    const INLINE: usize = INLINE;

    fn new(inline: u64) -> N16 {
        N16 {
            head: Header::new(inline << INLINE_SHIFT),
            keys: std::array::from_fn(|_| AtomicU64::new(0)),
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
        let meta = self.head.meta();
        let at = if symbol == END {
            (meta & HAS_END != 0).then_some(SLOTS - 1)?
        } else {
            let [first, second] = self.keys();
            let at = match position(first, byte(symbol)) {
                8 => 8 + position(second, byte(symbol)),
                at => at,
            };
            (at < index(meta & COUNT_MASK)).then_some(at)?
        };
        let slot = &self.slots[at];
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
        } else {
            let at = index(meta & COUNT_MASK);
            self.slots[at].store(word);
            let keys = &self.keys[at / 8];
            let key = u64::from(byte(symbol)) << (8 * (at % 8));
            keys.store(keys.load(Ordering::Relaxed) | key, Ordering::Relaxed);
            self.head.set_meta(meta + 1);
        }
    }

    fn fill<'g>(&'g self, window: &mut Window<'g>) {
        let meta = self.head.meta();
        let keys = self.keys();
        let mut found = [0u64; SLOTS];
        let mut len = 0;
        if meta & HAS_END != 0 {
            found[0] = SLOTS as u64 - 1;
            len = 1;
        }
        for i in 0..index(meta & COUNT_MASK).min(SLOTS - len) {
            let symbol = (keys[i / 8] >> (8 * (i % 8)) & 0xff) + 1;
            found[len] = symbol << 8 | i as u64;
            len += 1;
        }
        window.push_unsorted(&mut found[..len], |i| self.slots[i].load());
    }

    fn any(&self) -> Link<'_> {
        self.slots[0].load() // filled by the first byte child, of which there is one
    }
}
