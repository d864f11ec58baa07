//! Who holds a moment of the store: snapshots, cursors and iterators, copies that are being made. For whom they
//! hold it up: metrics, and the error that says that there is no room, name them.
//!
//! A *hold* is an entry here beside the registration of its seqno (`readers`), on which alone
//! depends what is kept. Holds lie in shards, each with a lock of its own; a thread mostly uses its
//! own shard.
//!
//! # Views are lent
//! No reader keeps a view while it is not inside a call. A view has memtables, tables and files;
//! who held one could keep all of it for as long as he stands still. What a reader needs is kept by
//! its seqno, wherever it is moved, and the newest view shows the same at that seqno as the one
//! before.
//!
//! A cursor would have to seek anew for each step. So it leaves its view, and its place in it, in
//! its *seat* between two calls ([`Guest`]), behind a lock that it holds while it moves and that
//! nobody else waits for. Whoever wants something gone that views hold calls
//! [`Reads::ask_readers_to_leave`]. That *asks*: it raises a number that cursors compare when they
//! move, so that those who are inside a call look for a newer view at the next; and it empties the
//! seats of all others whose views are past. An emptied cursor keeps its key, and seeks that in the
//! newest view when it moves again.
//!
//! 1. A seat is emptied only under its lock, which a cursor holds from the beginning of a call to its end. So
//!    none loses its view while it moves.
//! 2. A seat whose lock is taken is passed over: so nobody waits here for a cursor, nor it for itself.
//! 3. What was taken out of seats is dropped when no lock of this module is held.
//!
//! # Readers of earlier openings
//! They read in the newest opening (`close`), whose holds know of theirs, and count, tell of and ask
//! them like its own. To the newest opening all of them had begun before any family was dropped.

pub(crate) mod registry;

use std::fmt::Debug;
use std::ops::Deref;

use arc_swap::Guard;
use thermocline_base::counter::thread_number;
use thermocline_base::{CfId, Error, Result, SeqNo};
use thermocline_catalog::View;
use thermocline_commit::readers::Registration;
use thermocline_runtime::Task;

use crate::close::after::ReadBy;
use crate::report::{ReaderKind, ReaderState};
use crate::store::{Inner, Moment, Reads, Registered};
use crate::sync::{Arc, Ordering};
use registry::{Hold, HoldId, named, sort};

/// A view, for the length of a call.
#[derive(Debug)]
pub(crate) struct Reading {
    pub view: Guard<Arc<View>>,
    /// Who has it, if that is a later opening than the reader's: registered there at the same moment.
    pub by: Option<Moment>,
}

impl Deref for Reading {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

impl Reading {
    /// The store that has the view; `moment` is what it was asked of.
    pub fn inner_for<'a>(&'a self, moment: &'a Moment) -> &'a Arc<Inner> {
        self.by.as_ref().unwrap_or(moment).inner()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let common = &self.inner.common;
        common.commits.readers.leave(&self.registration);
        if common
            .compactions
            .deleted
            .waits_for(self.registration.seqno)
        {
            common.want_compaction();
        }
        // What was set aside of dropped families may go with it, and perhaps nobody writes any more (`relics`, 2).
        if self.inner.reads.relics.may_be_for(self.drops) {
            common.background.request(Task::Ahead);
        }
        // SeqCst, as what `leave` counts: see `close`.
        if self.inner.common.closed.load(Ordering::SeqCst) {
            self.inner.reader_left(self.registration.seqno);
        }
    }
}

impl Moment {
    pub fn now(inner: &Arc<Inner>) -> Moment {
        let mark = inner.common.commits.ring.visible_mark();
        let registration = inner.common.commits.readers.register(mark, thread_number());
        let drops = inner.common.families.moment();
        Moment {
            is_late: inner.common.closed.load(Ordering::Acquire),
            ..Moment::of(inner, registration, drops)
        }
    }

    /// A moment of an earlier opening, which was registered with `inner` before that could do anything.
    pub fn past(inner: &Arc<Inner>, registration: Registration) -> Moment {
        Moment::of(inner, registration, 0)
    }

    fn of(inner: &Arc<Inner>, registration: Registration, drops: u64) -> Moment {
        let inner = inner.clone();
        let held = Arc::new(Registered {
            inner,
            registration,
            drops,
        });
        Moment {
            held,
            is_late: false,
        }
    }

    #[inline]
    pub fn inner(&self) -> &Arc<Inner> {
        &self.held.inner
    }

    /// The last seqno that it sees.
    #[inline]
    pub fn seqno(&self) -> SeqNo {
        self.held.registration.seqno
    }

    /// The view in which it reads family `cf` now, for the length of a call.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a family that was dropped while the moment was being registered;
    /// [`Error::Closed`] if the store was closed before the moment, whoever else reads on.
    pub fn view(&self, cf: CfId) -> Result<Reading> {
        let inner = self.inner();
        let view = inner.common.catalog.view();
        let mut reading = match view.pins() {
            Ok(_) => Reading { view, by: None },
            Err(_) => self.view_after_close(cf)?,
        };
        // Behind the view (`snapshot`, 4).
        if inner.common.families.moment() != self.held.drops
            && let Some(relic) = inner.reads.relic_of(cf)?
        {
            let view = Guard::from_inner(relic);
            reading = Reading { view, by: None };
        }
        Ok(reading)
    }

    #[cold]
    fn view_after_close(&self, cf: CfId) -> Result<Reading> {
        if self.is_late {
            return Err(Error::Closed);
        }
        let by = match self.inner().left.read_at(self.seqno()) {
            ReadBy::Nothing => return Err(Error::Closed),
            ReadBy::View(view) => {
                let view = Guard::from_inner(view);
                return Ok(Reading { view, by: None });
            }
            ReadBy::Opened(by) => by,
        };
        let reading = by.view(cf)?;
        let by = reading.by.or(Some(by));
        Ok(Reading { by, ..reading })
    }

    /// Whether `cf` had not been dropped.
    pub fn check(&self, cf: CfId) -> Result<()> {
        self.inner().common.families.check(cf, self.held.drops)
    }

    /// What it is to be entered as.
    pub fn hold(&self, kind: ReaderKind) -> Hold {
        Hold {
            kind,
            seqno: self.seqno(),
            since_ns: self.inner().common.world.env.clock.tick_ns(),
            drops: self.held.drops,
            of_engine: false,
            guest: None,
        }
    }
}

/// A moment with a hold of its own, for a read that goes on when whoever has asked for it lets go of his: so what is set
/// aside of a family that is dropped stays for it, too (`relics`). Users are not told of it.
#[derive(Debug)]
pub(crate) struct Entered {
    moment: Moment,
    hold: HoldId,
}

impl Entered {
    pub fn new(moment: Moment) -> Arc<Entered> {
        let hold = moment.inner().reads.holds.enter(Hold {
            of_engine: true,
            ..moment.hold(ReaderKind::Snapshot)
        });
        Arc::new(Entered { moment, hold })
    }

    pub fn moment(&self) -> &Moment {
        &self.moment
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.moment.inner().reads.holds.remove(self.hold);
    }
}

impl Reads {
    /// Asks readers to let go of what is in no current view any more. May be called under the
    /// writer's lock, and those before it.
    pub fn ask_readers_to_leave(&self) {
        let current = self.common.catalog.view_to_keep();
        self.holds.ask_to_leave(&|view| view.is_past(&current));
    }

    /// Those who read, who have been there longest first; not all of them if they are many.
    pub fn readers_told(&self) -> Vec<ReaderState> {
        let visible = self.common.commits.ring.visible();
        let mut all = self.holds.told(visible);
        all.extend(self.holds.told_of_elders(visible));
        sort(&mut all);
        all
    }

    /// Who holds what would be free, for an error: those that may keep more than versions.
    pub fn who_reads(&self) -> String {
        let visible = self.common.commits.ring.visible();
        let keeps = |reader: &ReaderState| {
            reader.in_call || reader.retired_bytes > 0 || reader.kind == ReaderKind::Copy
        };
        let own = self.holds.told(visible).into_iter().filter(keeps);
        let pinned = self.pins.upgrade().map_or(0, |pins| pins.bytes());
        let mut who = named(own, pinned);
        let held = self.common.elders.held();
        let elders = self.holds.told_of_elders(visible).into_iter();
        let elders = elders.filter(|reader| held.everything || keeps(reader));
        let of_elders = named(elders, held.bytes);
        if !of_elders.is_empty() {
            who.push(format!("of an earlier opening: {}", of_elders.join(", ")));
        }
        if !self.relics.is_empty() {
            who.push("readers from before a family was dropped".to_string());
        }
        if self.common.reclaim.has_strangers() {
            who.push("a reader of another process".to_string());
        }
        match who.is_empty() {
            true => "a read that is about to end".to_string(),
            false => who.join("; "),
        }
    }

    /// The view in which a family is read that was dropped; `None` for one that was not.
    ///
    /// # Errors
    /// That it was dropped, if nothing was set aside.
    pub fn relic_of(&self, cf: CfId) -> Result<Option<Arc<View>>> {
        let Err(dropped) = self.common.families.check(cf, u64::MAX) else {
            return Ok(None);
        };
        self.relics.view_of(cf).map(Some).ok_or(dropped)
    }
}
