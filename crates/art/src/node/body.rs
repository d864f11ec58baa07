//! What each kind of node does.

use super::slot::{Header, Link, Slot};
use super::window::Window;
use crate::word::{Symbol, Word};

/// What each kind of node does. Changes need the node's lock, or a node nobody else knows.
pub(super) trait Body: Sized {
    /// Number of inline bytes.
    const INLINE: usize;

    /// A node without children.
    fn new(inline: u64) -> Self;
    fn head(&self) -> &Header;
    /// The inline bytes, nearest to the depth lowest.
    fn inline(&self) -> u64;
    /// The slot of a symbol that has a child, and the child.
    fn find(&self, symbol: Symbol) -> Option<(&Slot, Link<'_>)>;
    /// Whether there is no room for a child at a symbol that has none.
    fn is_full(&self) -> bool;
    /// Adds a child; there is room, and the symbol has none.
    fn insert(&self, symbol: Symbol, word: Word);
    /// Fills the window with children in order from `window.from` on.
    fn fill<'g>(&'g self, window: &mut Window<'g>);
    /// Some child.
    fn any(&self) -> Link<'_>;
}
