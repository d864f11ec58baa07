//! What readers look at.

use std::ops::Bound;
use std::sync::Arc;

use thermocline_base::{CfId, Error, Result, SeqNo};
use thermocline_memtable::Memtable;
use thermocline_tables::Tables;
use thermocline_version::{Change, Evacuation};

use crate::pins::Pins;

/// The memtables of a store and the tables below them, at one moment.
#[derive(Debug, Clone)]
pub struct View {
    /// Newest first. Never empty; the first takes the writes. A merged index stands for all memtables that
    /// it leads to.
    pub memtables: Vec<Arc<Memtable>>,
    /// Older than all memtables, but for what a table and a memtable that is on its way out both
    /// have (see `flush`).
    pub tables: Arc<Tables>,
    /// Where the evacuation of the oldest memtables has come to, if one has begun (`evacuate`).
    front: Option<Arc<Front>>,
    /// Whoever holds the view may read all that is in it, and holds this for that: what keeps the folder once
    /// the store is closed. `None` where the store is closed, and the view only tells what there was.
    pins: Option<Arc<Pins>>,
}

/// Where an evacuation has come to: what lies before it is in tables, of memtables that are no newer than this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Front {
    /// Memtables with lower bases were flushed before.
    pub above: SeqNo,
    /// The largest base of a memtable that is evacuated.
    pub up_to: SeqNo,
    /// Up to where.
    pub at: Position,
}

/// A key of a family, in the order in which memtables are evacuated.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The family.
    pub cf: CfId,
    /// The key.
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
    /// The one that the manifest speaks of.
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
pub fn not_before<'a>(from: Bound<&'a [u8]>, first: &'a [u8]) -> Bound<&'a [u8]> {
    match from {
        Bound::Included(key) | Bound::Excluded(key) if key >= first => from,
        Bound::Unbounded if first.is_empty() => from,
        _ => Bound::Included(first),
    }
}

impl View {
    /// These memtables over these tables.
    pub fn new(
        memtables: Vec<Arc<Memtable>>,
        tables: Arc<Tables>,
        front: Option<Arc<Front>>,
        pins: Option<Arc<Pins>>,
    ) -> View {
        // Where none of them is left nothing need be said.
        let front = front.filter(|front| memtables.iter().any(|m| front.takes(m)));
        View {
            memtables,
            tables,
            front,
            pins,
        }
    }

    /// What is left of it for whoever only asks what there is, since the store is closed: it holds nothing
    /// for readers, nor the indexes of sealed memtables.
    pub fn closed(&self) -> View {
        View {
            memtables: self.memtables[..1].to_vec(),
            pins: None,
            ..self.clone()
        }
    }

    /// These memtables and tables, which a reader of one family may still need. It is no view of the store.
    pub fn relic(&self, memtables: Vec<Arc<Memtable>>, tables: Arc<Tables>) -> View {
        let pins = self.pins.as_ref().map(|pins| Arc::new(pins.apart()));
        View::new(memtables, tables, self.front.clone(), pins)
    }

    /// What is pinned of what is here, and holds the folder.
    ///
    /// # Errors
    /// [`Error::Closed`] if nothing does: what the view leads to may be gone.
    #[inline]
    pub fn pins(&self) -> Result<&Arc<Pins>> {
        self.pins.as_ref().ok_or(Error::Closed)
    }

    /// Whether it has memtables that have left `current`, or other tables.
    pub fn is_past(&self, current: &View) -> bool {
        self.memtables.iter().any(|m| m.is_retired()) || !Arc::ptr_eq(&self.tables, &current.tables)
    }

    /// This view with a new memtable in front.
    pub fn with(&self, newest: Arc<Memtable>) -> View {
        let mut memtables = Vec::with_capacity(self.memtables.len() + 1);
        memtables.push(newest);
        memtables.extend(self.memtables.iter().cloned());
        self.with_memtables(memtables)
    }

    /// These memtables over the same tables.
    pub fn with_memtables(&self, memtables: Vec<Arc<Memtable>>) -> View {
        let (tables, front) = (self.tables.clone(), self.front.clone());
        View::new(memtables, tables, front, self.pins.clone())
    }

    /// The same memtables over these tables.
    pub fn over(&self, tables: Arc<Tables>) -> View {
        let (memtables, front) = (self.memtables.clone(), self.front.clone());
        View::new(memtables, tables, front, self.pins.clone())
    }

    /// The same memtables over these tables, which have all that lies before this.
    pub fn evacuated(&self, front: Front, tables: Arc<Tables>) -> View {
        let (memtables, front) = (self.memtables.clone(), Some(Arc::new(front)));
        View::new(memtables, tables, front, self.pins.clone())
    }

    /// Where the evacuation of the oldest memtables has come to, if one has begun.
    pub fn front(&self) -> Option<&Arc<Front>> {
        self.front.as_ref()
    }

    /// The memtables that may have a key: of those that are evacuated none, if it lies before the front.
    #[inline]
    pub fn asked_for(&self, cf: CfId, key: &[u8]) -> &[Arc<Memtable>] {
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
    pub fn first_of(&self, memtable: &Memtable, cf: CfId) -> Option<&[u8]> {
        match &self.front {
            Some(front) if front.takes(memtable) => front.at.first_of(cf),
            _ => Some(&[]),
        }
    }
}
