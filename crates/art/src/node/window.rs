//! A few neighbouring children of a node, in order: how scans and copies look at nodes.

use super::slot::Link;
use crate::word::{SYMBOLS, Symbol, index};

/// The order of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Reverse,
}

/// Most children in a window.
const SIZE: usize = 16;

/// How many children behind a window that stopped at a node are prefetched.
const PEEKS: usize = 2;

/// Children in the order of a direction. One that stops at nodes holds leaves and then at most
/// one node: what follows a node is looked up when the node's subtree has been visited.
pub(crate) struct Window<'g> {
    /// Where the next filling begins; -1 or `SYMBOLS` when nothing is left.
    from: i16,
    direction: Direction,
    stops_at_nodes: bool,
    items: [(Symbol, Link<'g>); SIZE],
    len: usize,
    /// Children behind a node at the window's end that are still to be prefetched.
    peeks: Option<usize>,
}

/// The first position in a direction.
pub(crate) fn start(direction: Direction) -> i16 {
    match direction {
        Direction::Forward => 0,
        Direction::Reverse => SYMBOLS as i16 - 1,
    }
}

/// The position after `symbol`.
pub(crate) fn after(symbol: Symbol, direction: Direction) -> i16 {
    let symbol = symbol as i16;
    match direction {
        Direction::Forward => symbol + 1,
        Direction::Reverse => symbol - 1,
    }
}

impl<'g> Window<'g> {
    /// For a scan; see [`Window::set_from`].
    pub(crate) fn new(direction: Direction) -> Window<'g> {
        Window {
            from: start(direction),
            direction,
            stops_at_nodes: true,
            items: [(0, Link::EMPTY); SIZE],
            len: 0,
            peeks: None,
        }
    }

    /// For all children.
    pub(crate) fn all() -> Window<'g> {
        Window {
            stops_at_nodes: false,
            ..Window::new(Direction::Forward)
        }
    }

    pub(crate) fn set_from(&mut self, from: i16) {
        self.from = from;
    }

    /// The position after the last item.
    pub(crate) fn advance(&mut self) -> i16 {
        if let Some(&(symbol, _)) = self.items().last() {
            self.from = after(symbol, self.direction);
        }
        self.from
    }

    pub(crate) fn items(&self) -> &[(Symbol, Link<'g>)] {
        &self.items[..self.len]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
        self.peeks = None;
    }

    /// The symbols to look at, as a half-open ascending range, and whether to go backwards.
    pub(super) fn range(&self) -> (Symbol, Symbol, bool) {
        match self.direction {
            Direction::Forward => (self.from.max(0) as Symbol, SYMBOLS, false),
            Direction::Reverse => (0, (self.from + 1).max(0) as Symbol, true),
        }
    }

    /// Takes the next child; says whether the one after it is wanted too.
    #[inline]
    pub(super) fn push(&mut self, symbol: Symbol, link: Link<'g>) -> bool {
        if link.is_empty() {
            return true; // a slot on its way; the reader's validation will fail, or need not see it
        }
        if let Some(peeks) = &mut self.peeks {
            link.prefetch();
            *peeks -= 1;
            return *peeks > 0;
        }
        self.items[self.len] = (symbol, link);
        self.len += 1;
        if self.stops_at_nodes && link.is_node() {
            self.peeks = Some(PEEKS);
            return true;
        }
        self.len < SIZE
    }

    /// Adds children that lie in slots in any order: `found` holds `symbol << 8 | slot` of each.
    pub(super) fn push_unsorted(&mut self, found: &mut [u64], slot: impl Fn(usize) -> Link<'g>) {
        let (from, until, reverse) = self.range();
        found.sort_unstable();
        let mut push = |&item: &u64| {
            let symbol = (item >> 8 & 0x1ff) as Symbol;
            symbol < from || symbol >= until || self.push(symbol, slot(index(item & 0xff)))
        };
        if reverse {
            found.iter().rev().all(&mut push);
        } else {
            found.iter().all(&mut push);
        }
    }
}
