//! The largest node: a slot for every symbol, 2,080 bytes.

use super::body::Body;
use super::n16::{INLINE, INLINE_SHIFT};
use super::slot::{Header, Link, Slot};
use super::window::Window;
use crate::word::{SYMBOLS, Symbol, Word};

#[repr(C)]
pub(crate) struct N256 {
    head: Header,
    slots: [Slot; SYMBOLS as usize],
}

impl Body for N256 {
    const INLINE: usize = INLINE;

    fn new(inline: u64) -> N256 {
        N256 {
            head: Header::new(inline << INLINE_SHIFT),
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
        let slot = &self.slots[usize::from(symbol)];
        let link = slot.load();
        (!link.is_empty()).then_some((slot, link))
    }

    fn is_full(&self) -> bool {
        false
    }

    fn insert(&self, symbol: Symbol, word: Word) {
        self.slots[usize::from(symbol)].store(word);
    }

    fn fill<'g>(&'g self, window: &mut Window<'g>) {
        let (from, until, reverse) = window.range();
        let mut push = |symbol: Symbol| window.push(symbol, self.slots[usize::from(symbol)].load());
        if reverse {
            (from..until).rev().all(&mut push);
        } else {
            (from..until).all(&mut push);
        }
    }

    fn any(&self) -> Link<'_> {
        let filled = |slot: &&Slot| !slot.load().is_empty();
        self.slots
            .iter()
            .find(filled)
            .expect("a node has children")
            .load()
    }
}
