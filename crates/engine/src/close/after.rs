//! What those read who are still registered with a closed store.
//!
//! Its lock is taken here and nowhere else, for a look or a change. What is taken out is dropped by the caller, without the lock: that
//! may be the last reader of another store. It knows no store: `M` is a moment of one.

use std::collections::BTreeMap;

use thermocline_base::SeqNo;
use thermocline_catalog::View;
use thermocline_commit::readers::Readers;

use crate::sync::{Arc, Mutex, lock};

/// See the [module](self).
pub(crate) struct After<M>(Mutex<ReadsOn<M>>);

/// What readers that are registered with a closed store read.
pub(crate) enum ReadsOn<M> {
    /// Nothing: there are no readers.
    Nothing,
    /// Its last view.
    View(Arc<View>),
    /// Views of the store that was opened since, where these moments are registered, each by its seqno.
    Opened(BTreeMap<SeqNo, M>),
}

/// What one of them reads.
pub(crate) enum ReadBy<M> {
    /// Nothing: there may be no version for him.
    Nothing,
    /// The last view of the closed store.
    View(Arc<View>),
    /// What there is at this moment of another store.
    Opened(M),
}

impl<M: Clone> After<M> {
    /// That of a store that is open.
    pub fn new() -> After<M> {
        After(Mutex::new(ReadsOn::Nothing))
    }

    /// The store is closed, and this is its last view.
    pub fn set_aside(&self, view: Arc<View>) {
        *lock(&self.0) = ReadsOn::View(view);
    }

    /// Those who are registered by `readers` read at these moments of another store from now on, unless what they read now
    /// `is_kept` where they read it. Returns what nobody reads any more.
    pub fn follow(
        &self,
        moments: &BTreeMap<SeqNo, M>,
        readers: &Readers,
        is_kept: impl Fn(&M) -> bool,
    ) -> Option<(ReadsOn<M>, ReadsOn<M>)> {
        let mut now = lock(&self.0);
        if now.moments().any(is_kept) {
            return None;
        }
        let before = std::mem::replace(&mut *now, ReadsOn::Opened(moments.clone()));
        let unread = now.trim(readers);
        Some((before, unread))
    }

    /// Whether anybody reads at such a moment of another store.
    pub fn reads_any(&self, is: impl Fn(&M) -> bool) -> bool {
        lock(&self.0).moments().any(is)
    }

    /// What the reader at `seqno` reads. Whoever registered after the store was closed does not ask: others may be registered at
    /// the same seqno.
    pub fn read_at(&self, seqno: SeqNo) -> ReadBy<M> {
        match &*lock(&self.0) {
            ReadsOn::Nothing => ReadBy::Nothing,
            ReadsOn::View(view) => ReadBy::View(view.clone()),
            ReadsOn::Opened(moments) => {
                let own = moments.get(&seqno);
                own.map_or(ReadBy::Nothing, |own| ReadBy::Opened(own.clone()))
            }
        }
    }

    /// Takes out what nobody is registered for any more.
    pub fn trim(&self, readers: &Readers) -> ReadsOn<M> {
        lock(&self.0).trim(readers)
    }

    /// As [`After::trim`], for who has left `seqno`: nothing else can have become unneeded by that. So it does not go through
    /// all who are there, and many who leave one after the other do not take the longer the more they are.
    pub fn trim_at(&self, readers: &Readers, seqno: SeqNo) -> ReadsOn<M> {
        lock(&self.0).trim_at(readers, seqno)
    }
}

impl<M> ReadsOn<M> {
    /// The moments of another store.
    fn moments(&self) -> impl Iterator<Item = &M> {
        let opened = match self {
            ReadsOn::Opened(moments) => Some(moments),
            ReadsOn::Nothing | ReadsOn::View(_) => None,
        };
        opened.into_iter().flat_map(|moments| moments.values())
    }

    fn trim(&mut self, readers: &Readers) -> ReadsOn<M> {
        match self {
            ReadsOn::View(_) if readers.is_empty() => std::mem::replace(self, ReadsOn::Nothing),
            ReadsOn::Opened(moments) => {
                let registered = readers.by_seqno();
                let all = std::mem::take(moments).into_iter();
                let (kept, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
                    all.partition(|(seqno, _)| registered.contains_key(&seqno.0));
                *self = match kept.is_empty() {
                    true => ReadsOn::Nothing,
                    false => ReadsOn::Opened(kept),
                };
                ReadsOn::Opened(gone)
            }
            ReadsOn::Nothing | ReadsOn::View(_) => ReadsOn::Nothing,
        }
    }

    fn trim_at(&mut self, readers: &Readers, seqno: SeqNo) -> ReadsOn<M> {
        let ReadsOn::Opened(moments) = self else {
            return self.trim(readers);
        };
        if readers.has_any_at(seqno) {
            return ReadsOn::Nothing;
        }
        let gone = moments.remove_entry(&seqno);
        if moments.is_empty() {
            *self = ReadsOn::Nothing;
        }
        gone.map_or(ReadsOn::Nothing, |gone| ReadsOn::Opened([gone].into()))
    }
}
