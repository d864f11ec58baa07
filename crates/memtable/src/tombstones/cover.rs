//! Which range tombstone is the newest over each key: a persistent ordered map, as a treap.
//!
//! Every boundary has the newest tombstone from it up to the next boundary; before the first there is
//! none. Nodes are ordered by their boundary's key, and by a priority, a hash of the key, from the root
//! down: so the shape depends on the boundaries alone, and paths are short whatever order they came in.
//! Changing means splitting and joining along a path, whose nodes are copied.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use thermocline_base::SeqNo;

use super::Ledger;

/// Bytes of a node, with the counts of its `Arc`.
pub(super) const NODE_BYTES: u64 = (size_of::<Node>() + 16) as u64;
/// Bytes of a boundary, without its key: an allocator's header for that.
pub(super) const BOUNDARY_BYTES: u64 = (size_of::<Boundary>() + 16 + 16) as u64;

/// A key at which a fragment begins or ends.
pub(super) struct Boundary {
    key: Box<[u8]>,
    priority: u64,
    ledger: Arc<Ledger>,
}

impl Boundary {
    pub fn new(key: &[u8], priority: u64, ledger: Arc<Ledger>) -> Boundary {
        ledger.keep(BOUNDARY_BYTES + key.len() as u64);
        Boundary {
            key: key.into(),
            priority,
            ledger,
        }
    }
}

impl Drop for Boundary {
    fn drop(&mut self) {
        self.ledger.give(BOUNDARY_BYTES + self.key.len() as u64);
    }
}

struct Node {
    at: Arc<Boundary>,
    /// The newest tombstone from here on; 0 if there is none.
    over: SeqNo,
    left: Link,
    right: Link,
}

type Link = Option<Arc<Node>>;

impl Node {
    fn link(at: &Arc<Boundary>, over: SeqNo, left: Link, right: Link) -> Link {
        at.ledger.keep(NODE_BYTES);
        Some(Arc::new(Node {
            at: at.clone(),
            over,
            left,
            right,
        }))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.at.ledger.give(NODE_BYTES);
    }
}

/// The newest range tombstone over each key, at one moment. Cheap to clone.
#[derive(Clone, Default)]
pub struct Cover {
    root: Link,
    /// What is to be added to the seqnos.
    shift: u64,
}

/// Keys over which the same range tombstone is the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// The first key.
    pub start: &'a [u8],
    /// The first key behind; `None` if there is none.
    pub end: Option<&'a [u8]>,
    /// The tombstone; `None` if there is none over these keys.
    pub over: Option<SeqNo>,
}

impl fmt::Debug for Cover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.fragments()).finish()
    }
}

impl Cover {
    pub(super) fn shifted(self, shift: u64) -> Cover {
        Cover { shift, ..self }
    }

    fn real(&self, over: SeqNo) -> Option<SeqNo> {
        (over > SeqNo::ZERO).then(|| over.plus(self.shift))
    }

    /// The newest tombstone over `key`.
    pub fn newest_over(&self, key: &[u8]) -> Option<SeqNo> {
        let (mut link, mut over) = (&self.root, SeqNo::ZERO);
        while let Some(node) = link {
            link = match *node.at.key <= *key {
                true => {
                    over = node.over;
                    &node.right
                }
                false => &node.left,
            };
        }
        self.real(over)
    }

    /// The fragment that `key` lies in.
    pub fn fragment(&self, key: &[u8]) -> Fragment<'_> {
        self.fragment_where(|start| start <= key)
    }

    /// The fragment that ends with `key`, which is where another one begins, and not the empty key.
    fn fragment_before(&self, key: &[u8]) -> Fragment<'_> {
        self.fragment_where(|start| start < key)
    }

    /// The last fragment that begins at a boundary that `is_before` holds for: as for all before it.
    fn fragment_where(&self, is_before: impl Fn(&[u8]) -> bool) -> Fragment<'_> {
        let mut fragment = Fragment {
            start: &[],
            end: None,
            over: None,
        };
        let mut link = &self.root;
        while let Some(node) = link {
            let key = &*node.at.key;
            link = match is_before(key) {
                true => {
                    (fragment.start, fragment.over) = (key, self.real(node.over));
                    &node.right
                }
                false => {
                    fragment.end = Some(key);
                    &node.left
                }
            };
        }
        fragment
    }

    /// Where the keys from `key` on, which is covered, are first not covered; `None` if nowhere.
    pub fn covered_until(&self, key: &[u8]) -> Option<&[u8]> {
        let mut fragment = self.fragment(key);
        while fragment.over.is_some() {
            fragment = self.fragment(fragment.end?);
        }
        Some(fragment.start)
    }

    /// The first of the keys before `key`, which is covered, that are all covered.
    pub fn covered_from(&self, key: &[u8]) -> &[u8] {
        let mut start = self.fragment(key).start;
        while !start.is_empty() {
            let before = self.fragment_before(start);
            if before.over.is_none() {
                break;
            }
            start = before.start;
        }
        start
    }

    #[cfg(test)]
    pub(super) fn depth(&self) -> usize {
        fn of(link: &Link) -> usize {
            let below = link
                .as_ref()
                .map(|node| of(&node.left).max(of(&node.right)));
            below.map_or(0, |depth| depth + 1)
        }
        of(&self.root)
    }

    /// All fragments that a tombstone covers, in the order of keys.
    pub fn fragments(&self) -> impl Iterator<Item = Fragment<'_>> {
        let first = Some(self.fragment(&[]));
        let next = |fragment: &Fragment<'_>| Some(self.fragment(fragment.end?));
        std::iter::successors(first, next).filter(|fragment| fragment.over.is_some())
    }

    /// The cover with one more tombstone, which is newer than all.
    pub(super) fn painted(
        &self,
        start: &Arc<Boundary>,
        end: Option<&Arc<Boundary>>,
        seqno: SeqNo,
    ) -> Cover {
        let (left, rest) = split(&self.root, &start.key);
        let mut right = None;
        if let Some(end) = end {
            let mid;
            (mid, right) = split(&rest, &end.key);
            // What was over the end stays, from there on.
            let over = last(&mid).or(last(&left)).unwrap_or(SeqNo::ZERO);
            if first(&right).is_none_or(|first| *first != *end.key) {
                right = join(&Node::link(end, over, None, None), &right);
            }
        }
        let own = Node::link(start, seqno, None, None);
        Cover {
            root: join(&join(&left, &own), &right),
            shift: self.shift,
        }
    }

    /// The cover with one more tombstone, which covers what newer ones do not.
    pub(super) fn painted_under(
        &self,
        start: &Arc<Boundary>,
        end: Option<&Arc<Boundary>>,
        seqno: SeqNo,
    ) -> Cover {
        let (left, rest) = split(&self.root, &start.key);
        let mid = match end {
            Some(end) => split(&rest, &end.key).0,
            None => rest,
        };
        let mut pieces: Vec<(Arc<Boundary>, SeqNo)> = Vec::new();
        if first(&mid).is_none_or(|first| *first != *start.key) {
            pieces.push((start.clone(), last(&left).unwrap_or(SeqNo::ZERO)));
        }
        collect(&mid, &mut pieces);
        let ends = pieces.iter().skip(1).map(|(at, _)| Some(at));
        let ends = ends.chain([end]).collect::<Vec<_>>();
        let older = pieces
            .iter()
            .zip(ends)
            .filter(|((_, over), _)| *over < seqno);
        older.fold(self.clone(), |cover, ((from, _), to)| {
            cover.painted(from, to, seqno)
        })
    }
}

/// Those that begin before `key`, and the others.
fn split(link: &Link, key: &[u8]) -> (Link, Link) {
    let Some(node) = link else {
        return (None, None);
    };
    match (*node.at.key).cmp(key) {
        Ordering::Less => {
            let (left, right) = split(&node.right, key);
            let own = Node::link(&node.at, node.over, node.left.clone(), left);
            (own, right)
        }
        Ordering::Equal | Ordering::Greater => {
            let (left, right) = split(&node.left, key);
            let own = Node::link(&node.at, node.over, right, node.right.clone());
            (left, own)
        }
    }
}

/// Both, of which all in `left` lie before all in `right`.
fn join(left: &Link, right: &Link) -> Link {
    let (Some(a), Some(b)) = (left, right) else {
        return left.clone().or_else(|| right.clone());
    };
    match a.at.priority >= b.at.priority {
        true => Node::link(&a.at, a.over, a.left.clone(), join(&a.right, right)),
        false => Node::link(&b.at, b.over, join(left, &b.left), b.right.clone()),
    }
}

fn first(link: &Link) -> Option<&[u8]> {
    let mut node = link.as_ref()?;
    while let Some(left) = &node.left {
        node = left;
    }
    Some(&node.at.key)
}

fn last(link: &Link) -> Option<SeqNo> {
    let mut node = link.as_ref()?;
    while let Some(right) = &node.right {
        node = right;
    }
    Some(node.over)
}

fn collect(link: &Link, out: &mut Vec<(Arc<Boundary>, SeqNo)>) {
    if let Some(node) = link {
        collect(&node.left, out);
        out.push((node.at.clone(), node.over));
        collect(&node.right, out);
    }
}
