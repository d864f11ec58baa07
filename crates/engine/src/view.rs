//! What readers look at.

use std::ops::Bound;
use std::sync::Arc;

use thermocline_base::{CfId, Error, Result, SeqNo};
use thermocline_memtable::Memtable;
use thermocline_tables::Tables;
use thermocline_version::{Change, Evacuation};

use crate::value::Pins;

/// The memtable generations of a store and the tables below them, at one moment.
#[derive(Debug, Clone)]
pub struct View {
    /// Newest first. Never empty; the first takes the writes.
    pub memtables: Vec<Arc<Memtable>>,
    /// Older than all memtables, but for what a table and a generation that is on its way out both
    /// have (see `flush`).
    pub(crate) tables: Arc<Tables>,
    /// Where the evacuation of the oldest memtables has come to, if one has begun (`evacuate`).
    front: Option<Arc<Front>>,
    /// Whoever holds the view may read all that is in it, and holds this for that: what keeps the folder once
    /// the store is closed. `None` where the store is closed, and the view only tells what there was.
    pins: Option<Arc<Pins>>,
}

/// Where an evacuation has come to: what lies before it is in tables, of generations that are no newer than this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Front {
    /// Generations with lower bases were flushed before.
    pub above: SeqNo,
    /// The largest base of a generation that is evacuated.
    pub up_to: SeqNo,
    pub at: Position,
}

/// A key of a family, in the order in which generations are evacuated.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub cf: CfId,
    pub key: Box<[u8]>,
}

impl Position {
    /// Where everything begins.
    pub fn first() -> Position {
        Position {
            cf: CfId(0),
            key: Box::default(),
        }
    }

    /// The first key of a family that does not lie before it; `None` if all of them do.
    pub fn first_of(&self, cf: CfId) -> Option<&[u8]> {
        match cf.cmp(&self.cf) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal => Some(&self.key),
            std::cmp::Ordering::Greater => Some(&[]),
        }
    }
}

impl Front {
    pub fn of(evacuation: &Evacuation) -> Front {
        Front {
            above: SeqNo(evacuation.above),
            up_to: SeqNo(evacuation.up_to),
            at: Position {
                cf: evacuation.cf,
                key: evacuation.key.clone(),
            },
        }
    }

    /// What the manifest says of it.
    pub fn said(&self) -> Change {
        Change::Evacuated {
            above: self.above.0,
            up_to: self.up_to.0,
            cf: self.at.cf,
            key: self.at.key.clone(),
        }
    }

    /// Whether it is evacuated.
    pub fn takes(&self, memtable: &Memtable) -> bool {
        memtable.base() <= self.up_to
    }
}

/// What of the keys from `from` on does not lie before `first`.
pub(crate) fn not_before<'a>(from: Bound<&'a [u8]>, first: &'a [u8]) -> Bound<&'a [u8]> {
    match from {
        Bound::Included(key) | Bound::Excluded(key) if key >= first => from,
        Bound::Unbounded if first.is_empty() => from,
        _ => Bound::Included(first),
    }
}

impl View {
    pub(crate) fn new(
        memtables: Vec<Arc<Memtable>>,
        tables: Arc<Tables>,
        front: Option<Arc<Front>>,
        pins: Option<Arc<Pins>>,
    ) -> View {
        // Of which nothing is left, of that nothing need be said.
        let front = front.filter(|front| memtables.iter().any(|m| front.takes(m)));
        View {
            memtables,
            tables,
            front,
            pins,
        }
    }

    /// What is left of it for whoever only asks what there is, since the store is closed: it holds nothing
    /// for readers, nor the indexes of sealed generations.
    pub(crate) fn closed(&self) -> View {
        View {
            memtables: self.memtables[..1].to_vec(),
            pins: None,
            ..self.clone()
        }
    }

    /// These generations and tables, which a reader of one family may still need.
    pub(crate) fn relic(&self, memtables: Vec<Arc<Memtable>>, tables: Arc<Tables>) -> View {
        View::new(memtables, tables, self.front.clone(), self.pins.clone())
    }

    /// What is pinned of what is here, and holds the folder.
    ///
    /// # Errors
    /// [`Error::Closed`] if nothing does: what the view leads to may be gone.
    #[inline]
    pub(crate) fn pins(&self) -> Result<&Arc<Pins>> {
        self.pins.as_ref().ok_or(Error::Closed)
    }

    /// Whether it has generations that have left `current`, or other tables.
    pub(crate) fn is_past(&self, current: &View) -> bool {
        self.memtables.iter().any(|m| m.is_retired()) || !Arc::ptr_eq(&self.tables, &current.tables)
    }

    /// This view with a new generation in front.
    pub(crate) fn with(&self, newest: Arc<Memtable>) -> View {
        let mut memtables = Vec::with_capacity(self.memtables.len() + 1);
        memtables.push(newest);
        memtables.extend(self.memtables.iter().cloned());
        self.with_memtables(memtables)
    }

    /// These generations over the same tables.
    pub(crate) fn with_memtables(&self, memtables: Vec<Arc<Memtable>>) -> View {
        let (tables, front) = (self.tables.clone(), self.front.clone());
        View::new(memtables, tables, front, self.pins.clone())
    }

    /// The same generations over these tables.
    pub(crate) fn over(&self, tables: Arc<Tables>) -> View {
        let (memtables, front) = (self.memtables.clone(), self.front.clone());
        View::new(memtables, tables, front, self.pins.clone())
    }

    /// The same generations over these tables, which have all that lies before this.
    pub(crate) fn evacuated(&self, front: Front, tables: Arc<Tables>) -> View {
        let (memtables, front) = (self.memtables.clone(), Some(Arc::new(front)));
        View::new(memtables, tables, front, self.pins.clone())
    }

    /// Where the evacuation of the oldest memtables has come to, if one has begun.
    pub(crate) fn front(&self) -> Option<&Arc<Front>> {
        self.front.as_ref()
    }

    /// The memtables that may have a key: of those that are evacuated none, if it lies before the front.
    #[inline]
    pub(crate) fn asked_for(&self, cf: CfId, key: &[u8]) -> &[Arc<Memtable>] {
        match &self.front {
            None => &self.memtables,
            Some(front) => self.asked_behind(front, cf, key),
        }
    }

    #[cold]
    fn asked_behind(&self, front: &Front, cf: CfId, key: &[u8]) -> &[Arc<Memtable>] {
        if front.at.first_of(cf).is_some_and(|first| first <= key) {
            return &self.memtables;
        }
        let newer = self.memtables.partition_point(|m| !front.takes(m));
        &self.memtables[..newer]
    }

    /// The first key of a family that readers look for in a memtable; `None` if they look for none.
    pub(crate) fn first_of(&self, memtable: &Memtable, cf: CfId) -> Option<&[u8]> {
        match &self.front {
            Some(front) if front.takes(memtable) => front.at.first_of(cf),
            _ => Some(&[]),
        }
    }
}
