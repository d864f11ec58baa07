//! Scanning in key order, both ways.
//!
//! A scan keeps a stack of nodes with a position in each, and looks at a few children at a time
//! under the node's version. It never has to begin again: if a node was replaced meanwhile, the
//! old one is protected by the guard, never changes any more, and still leads to every key that
//! was below it at that moment (N4). So a scan sees every key that was in the tree when it began,
//! each once, in order; keys that arrive later it may or may not see.
//!
//! Leaves pass through a short queue, so that records are prefetched some leaves ahead, across
//! the borders of nodes, if the key source wants that ([`KeySource::ahead`]).

use std::ops::{Bound, ControlFlow};

use thermocline_base::Result;

use crate::epoch::Guard;
use crate::node::{Direction, Link, Window, after, start};
use crate::source::{AHEAD, KeySource, verified_key};
use crate::tree::Tree;
use crate::versions::{Entry, newest};
use crate::word::{common, symbol};

/// A node, and the position in it where the scan goes on.
#[derive(Clone, Copy)]
struct Frame<'g> {
    link: Link<'g>,
    from: i16,
}

struct Cursor<'g> {
    direction: Direction,
    /// The path from the root; can be as deep as the longest key.
    frames: Vec<Frame<'g>>,
    /// Children of the last frame, up to the first that is a node.
    window: Window<'g>,
    /// Items of the window that are done.
    done: usize,
    /// What precedes everything else: the leaf at the bound.
    first: Option<Link<'g>>,
}

impl Tree {
    /// Calls `visit` with the entries of all keys from `from` on in the order of `direction`,
    /// until it breaks. A reverse scan begins with the last key at or before the bound.
    ///
    /// # Errors
    /// Those of `visit` and of `keys`.
    ///
    /// # Panics
    /// If `guard` is one of another tree.
    pub fn scan<'g, K, V>(
        &'g self,
        guard: &'g Guard<'_>,
        from: Bound<&[u8]>,
        direction: Direction,
        keys: &K,
        mut visit: V,
    ) -> Result<()>
    where
        K: KeySource + ?Sized,
        V: FnMut(Entry<'g>) -> Result<ControlFlow<()>>,
    {
        let mut cursor = Cursor::seek(self.root(guard), from, direction, keys)?;
        let ahead = keys.ahead().clamp(1, AHEAD);
        if ahead == 1 {
            // Each is visited when it is found.
            while let Some(link) = cursor.next() {
                keys.prefetch(newest(link));
                if visit(self.entry(link))?.is_break() {
                    break;
                }
            }
            return Ok(());
        }
        let mut queue = [Link::EMPTY; AHEAD];
        let (mut taken, mut put) = (0usize, 0usize);
        let mut more = true;
        loop {
            while more && put - taken < ahead {
                match cursor.next() {
                    Some(link) => {
                        keys.prefetch(newest(link));
                        queue[put % AHEAD] = link;
                        put += 1;
                    }
                    None => more = false,
                }
            }
            if taken == put {
                return Ok(());
            }
            let entry = self.entry(queue[taken % AHEAD]);
            taken += 1;
            if visit(entry)?.is_break() {
                return Ok(());
            }
        }
    }
}

impl<'g> Cursor<'g> {
    fn seek<K: KeySource + ?Sized>(
        root: Link<'g>,
        from: Bound<&[u8]>,
        direction: Direction,
        keys: &K,
    ) -> Result<Cursor<'g>> {
        let mut cursor = Cursor {
            direction,
            frames: Vec::with_capacity(16),
            window: Window::new(direction),
            done: 0,
            first: None,
        };
        match from {
            Bound::Unbounded => cursor.begin_at(root),
            Bound::Included(key) => cursor.seek_key(root, key, true, keys)?,
            Bound::Excluded(key) => cursor.seek_key(root, key, false, keys)?,
        }
        Ok(cursor)
    }

    /// Begins with everything at and below `link`, before all that is on the stack.
    fn begin_at(&mut self, link: Link<'g>) {
        if link.is_node() {
            let from = start(self.direction);
            self.frames.push(Frame { link, from });
        } else if !link.is_empty() {
            self.first = Some(link);
        }
    }

    /// Descends along `key` without comparing, reads one key where that ends, and takes back the
    /// part of the descent that the key does not share.
    fn seek_key<K: KeySource + ?Sized>(
        &mut self,
        root: Link<'g>,
        key: &[u8],
        included: bool,
        keys: &K,
    ) -> Result<()> {
        let mut link = root;
        while link.is_node() && link.word().depth() <= key.len() {
            let symbol = symbol(key, link.word().depth());
            let from = after(symbol, self.direction);
            self.frames.push(Frame { link, from });
            link = child(link, symbol);
        }
        let sample = match self.frames.last() {
            _ if !link.is_empty() => link,
            Some(frame) => frame.link,
            None => return Ok(()), // an empty tree
        };
        let other = verified_key(keys, newest(sample.any_below()))?;
        let at = common(key, other);
        // The topmost subtree whose common prefix the key does not share lies wholly on one side.
        let mut whole = link;
        while let Some(frame) = self.frames.last().filter(|f| f.link.word().depth() > at) {
            whole = frame.link;
            self.frames.pop();
        }
        let wanted = match other.get(at).cmp(&key.get(at)) {
            std::cmp::Ordering::Equal => included,
            std::cmp::Ordering::Greater => self.direction == Direction::Forward,
            std::cmp::Ordering::Less => self.direction == Direction::Reverse,
        };
        if wanted && !whole.is_empty() {
            self.begin_at(whole);
        }
        Ok(())
    }

    /// The next leaf or list.
    fn next(&mut self) -> Option<Link<'g>> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            while let Some(&(_, link)) = self.window.items().get(self.done) {
                self.done += 1;
                if !link.is_node() {
                    return Some(link);
                }
                let from = start(self.direction);
                self.frames.push(Frame { link, from });
            }
            let frame = self.frames.last_mut()?;
            self.window.set_from(frame.from);
            fill(frame.link, &mut self.window);
            self.done = 0;
            frame.from = self.window.advance();
            if self.window.is_empty() {
                self.frames.pop();
            }
        }
    }
}

/// Fills the window with children of a node as they were at one moment.
fn fill<'g>(link: Link<'g>, window: &mut Window<'g>) {
    let node = link.node();
    loop {
        let version = node.lock().read_any();
        node.fill(window);
        if node.lock().validate(version) {
            return;
        }
    }
}

/// The child of a node at a symbol, as it was at one moment; empty if there is none.
fn child(link: Link<'_>, symbol: u16) -> Link<'_> {
    let node = link.node();
    loop {
        let version = node.lock().read_any();
        let found = node.find(symbol).map_or(Link::EMPTY, |(_, link)| link);
        if node.lock().validate(version) {
            return found;
        }
    }
}
