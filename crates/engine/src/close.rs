//! Closing: after it nothing is left to replay. And who reads on.
//!
//! Snapshots, cursors and values that are read in place go on. A handle is no reader, nor is
//! what has one (a family, a batch): from here on it tells what there was, and reads nothing.
//!
//! # Who is waited for
//! Tasks, jobs, and calls that make something: each looks at its next step whether the store is closed, and gives up. A step may wait
//! for a device, but not for the sync of a file that no edit names (`exec::job_io::closing`), nor for more than a part of a region
//! that grows.
//!
//! A compaction filter or merge operator is asked by such work. It closes nothing: it would wait for itself ([`is_asked`]). If the last handle
//! goes there, a courier closes the store.
//!
//! # Until the store is opened again
//! Readers hold the folder, and whoever opens the store next in another process drops nothing of what was
//! there (`reclaim`).
//! 1. What holds the folder is [`Pinned`]. Views hold that, and values that are
//!    read in place. The view that stays in the store does not.
//! 2. The last view that does is set aside for those who are registered, before it leaves its
//!    place, and until the last of them goes. Who leaves first says so (`Readers::leave`), then
//!    looks whether the store is closed; who closes it says that, then looks whether anybody is
//!    registered. Both are sequentially consistent, so one of them sees the other.
//! 3. A read that was under way has a view of before, and holds the folder until it is done.
//!
//! # When it is opened again in this process
//! A snapshot is a seqno, whichever opening it came from. The next opening *follows* its [`Elders`]:
//! 4. *It knows their moments before it indexes a record*, and keeps the versions that they need (`memtable::replay`).
//!    All of them are there: they were kept while the store was open, and nothing has changed since. That it has not,
//!    the manifest says: no edit came after the store was closed, since every opening that writes makes one first.
//! 5. *It registers their seqnos before it changes anything.* From then on flushes, merges and compactions keep
//!    what they need as for any reader, and no longer where it lay. Then the view that was set aside goes, and who
//!    reads on reads in the newest view of the newest opening. Who registers with the closed store,
//!    by a handle, reads nothing, before 4 or after it, and at whatever seqno (`Moment::is_late`).
//! 6. *A seqno stays registered* there until nobody has it here any more: who leaves trims what he left behind
//!    ([`After::trim_at`]). In the opening after that both are elders, and read there at once. So there is no chain of stores, but through those in
//!    which a family was dropped while somebody could read it.
//!
//! What still holds a place in the region, or a file, is a call that was under way, a value that is read in place, a
//! group of changes with long values, and a family that was dropped before ([`Held`]); each only that which it reads, but
//! a call all that was there. Of the folder the elders let go: the store that is open keeps others away, and takes the
//! folder for them again when it is closed, before it gives up its lock, or fails.
//!
//! Whoever is no elder, of another process, or of this one with an edit of another process in between, holds the folder
//! still. As long as somebody does, nothing goes that was there when the store was opened ([`has_strangers`]).

pub(crate) mod after;
pub(crate) mod folder;
pub(crate) mod position;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{PoisonError, Weak};

use thermocline_base::asked::is_asked;
use thermocline_base::planted::{Bug, active};
use thermocline_base::{Error, Result, SeqNo};
use thermocline_catalog::Pinned;
use thermocline_catalog::owned::Held;
use thermocline_commit::readers::{Readers, Registration};
use thermocline_env::{LockGuard, Storage};
use thermocline_observe::event::Event;
use thermocline_observe::events::Courier;
use thermocline_pm::RegionKind;
use thermocline_version::VersionEdit;

use crate::store::{Elders, Handle, Inner, Left, Moment};
use crate::sync::{Arc, AtomicBool, Ordering, fence, thread};
use after::{After, ReadsOn};
use position::Position;

/// Those of this process, for whoever opens one again. Nobody waits while
/// it is locked, and a scheduler that explores orders of threads must not carry it from one to the next: so
/// the lock is the system's.
static LEFT: std::sync::Mutex<Vec<Arc<Left>>> = std::sync::Mutex::new(Vec::new());

fn all_left() -> std::sync::MutexGuard<'static, Vec<Arc<Left>>> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Left {
    /// For a moment, and by the system's lock, as [`LEFT`].
    fn position(&self) -> std::sync::MutexGuard<'_, Position> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is the store in `dir`, which the caller has locked by `own`, and its readers hold that folder. By ids
    /// and paths alone a copy might be taken for it.
    fn holds(&self, storage: &dyn Storage, dir: &Path, own: &dyn LockGuard) -> bool {
        let pinned = self.pinned.upgrade();
        pinned.is_some_and(|pinned| pinned.has_folder_beside(own))
            && matches!(storage.is_same(&self.dir, dir), Ok(true))
            && has_strangers(storage, dir)
    }

    /// Whether its readers read in one of `others`.
    fn reads_in(&self, others: &[Arc<Left>]) -> bool {
        let is_of_them = |by: &Moment| {
            let by = Arc::as_ptr(by.inner());
            others.iter().any(|other| other.inner.as_ptr() == by)
        };
        let inner = self.inner.upgrade();
        inner.is_some_and(|inner| inner.left.reads_any(is_of_them))
    }

    fn add_held(&self, held: &mut Held) {
        let Some(pinned) = self.pinned.upgrade() else {
            // With what was done before the last of them went.
            fence(Ordering::Acquire);
            return;
        };
        // First: only views bring values.
        held.everything |= pinned.is_viewed();
        if active(Bug::ElderValueForgotten) {
            return;
        }
        held.bytes += pinned.bytes();
        let homes = self.homes.iter().filter_map(Weak::upgrade);
        let homes = homes.filter(|home| home.pinned_bytes() > 0);
        held.memtables.extend(homes.map(|home| home.id()));
        for (file, table) in &self.pm_tables {
            if table
                .upgrade()
                .is_some_and(|table| table.pinned_bytes() > 0)
            {
                held.files.insert(*file);
            }
        }
        if let Some(relics) = self.relics.upgrade() {
            relics.for_each_view(|view| {
                for home in view.memtables.iter().flat_map(|m| m.homes()) {
                    held.memtables.insert(home.id());
                    held.files.extend(home.blobs().files());
                }
                let version = view.tables.version();
                held.files.extend(version.files().map(|(file, _)| file));
                let tables = version.pm_tables().filter(|(_, of)| !of.is_empty());
                held.files.extend(tables.map(|(table, _)| table.file));
            });
        }
        if let Some(blobs) = self.blobs.upgrade() {
            held.files.extend(blobs.held());
        }
    }
}

impl Elders {
    /// Those of the store in `dir` whose manifest has ended at `position` ever since. They let go of the folder. The caller
    /// has locked the store by `own`; if by nothing, or only to read, there are none.
    pub fn meet(
        storage: &Arc<dyn Storage>,
        dir: &Path,
        (db_id, position): ([u8; 16], &Position),
        own: Option<&dyn LockGuard>,
    ) -> Elders {
        let here = (thread::process(), db_id);
        let ours = |left: &&Arc<Left>| (left.process, left.db_id) == here && own.is_some();
        let ours: Vec<Arc<Left>> = all_left().iter().filter(ours).cloned().collect();
        let at = |left: &Arc<Left>| *left.position() == *position;
        let ours = ours.into_iter().filter(at);
        let holds = |left: &Arc<Left>| own.is_some_and(|own| left.holds(&**storage, dir, own));
        let (mut left, others): (Vec<_>, Vec<_>) = ours.partition(holds);
        // Where only moments are left, nothing holds the folder but whom they read in.
        let following = others.into_iter();
        let following = following.filter(|other| !left.is_empty() && other.reads_in(&left));
        let following: Vec<_> = following.collect();
        left.extend(following);
        let inners = left.iter().filter_map(|left| left.inner.upgrade());
        let moments = inners.flat_map(|inner| inner.common.commits.readers.by_seqno().into_keys());
        let moments: BTreeSet<SeqNo> = moments.map(SeqNo).collect();
        for left in &left {
            left.pinned.upgrade().inspect(|pinned| pinned.hold(None));
        }
        Elders {
            storage: storage.clone(),
            dir: dir.to_path_buf(),
            left,
            moments: moments.into_iter().collect(),
            ended: AtomicBool::new(false),
        }
    }

    /// When somebody reads in them, ascending.
    pub fn moments(&self) -> &[SeqNo] {
        &self.moments
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Registers their moments, before there is a store that could do anything.
    pub fn register(&self, readers: &Readers) -> Vec<Registration> {
        let moments = self.moments.iter();
        moments.map(|at| readers.register_at(*at)).collect()
    }

    /// Those who are registered with them, and by `registered` with `inner`, read in that from now on.
    pub fn follow(&self, inner: &Arc<Inner>, registered: Vec<Registration>) {
        let all = registered.into_iter().map(|at| Moment::past(inner, at));
        let all: BTreeMap<SeqNo, Moment> = all.map(|by| (by.seqno(), by)).collect();
        for left in self.left.iter().filter_map(|left| left.inner.upgrade()) {
            // Where the store that they read in has something of its own for them they stay with that.
            let is_kept = |by: &Moment| !by.inner().reads.relics.is_empty();
            drop(
                left.left
                    .follow(&all, &left.common.commits.readers, is_kept),
            );
        }
        let holds = self.left.iter().map(|left| left.holds.clone());
        inner.reads.holds.follow(holds.collect());
        inner.reads.ask_readers_to_leave();
    }

    /// What they hold beside their moments. It gets less, never more.
    pub fn held(&self) -> Held {
        let mut held = Held::default();
        self.left.iter().for_each(|left| left.add_held(&mut held));
        held
    }

    /// They are left to whoever opens the store next, whose manifest ends at `position`; before the lock is given up.
    fn end(&self, position: Option<&Position>) {
        if self.ended.swap(true, Ordering::SeqCst) {
            return;
        }
        for left in &self.left {
            if let Some(position) = position {
                left.position().clone_from(position);
            }
            if let Some(pinned) = left.pinned.upgrade() {
                let folder = self.storage.hold_folder(&self.dir);
                pinned.hold(folder.unwrap_or(None));
            }
        }
    }
}

impl Drop for Elders {
    fn drop(&mut self) {
        // Of a store that has failed, or was not opened after all.
        self.end(None);
    }
}

/// Whether somebody holds the folder who is no elder of the caller's. Where that cannot be found out he may.
pub(crate) fn has_strangers(storage: &dyn Storage, dir: &Path) -> bool {
    storage.is_folder_held(dir).unwrap_or(true)
}

impl Inner {
    pub fn close(&self) -> Result<()> {
        if self.common.closed.swap(true, Ordering::SeqCst) {
            self.common.background.wait_ended();
            // What the first was told.
            return self.common.poison.check();
        }
        // Whoever waits for a sync of a file that no edit names waits no longer, and a region that grows is left as it was.
        self.common.catalog.table_files.new_files.close();
        self.common.space.stop_growth();
        self.common.background.stop();
        // Who works ahead on a thread of the caller's looks at `closed` under this lock.
        self.common.turns.ahead.wait();
        // So does whoever ingests or flushes, from time to time.
        self.common.turns.ingesting.wait();
        self.common.turns.flushing.wait();
        // And each compaction.
        self.common.compactions.gate.wait();
        // Whoever waits for one does so outside.
        self.common.compactions.closed();
        // And whoever makes a blob file, or removes any file.
        self.sweeper.blobs.gate.wait();
        // So does whoever stages a batch, and gives up, or has committed when this returns.
        self.common.turns.stages.wait();
        let sealed = self.seal_chain();
        self.common.account.close();
        // After a failure a write that was granted may still be storing its item. Whoever opens the
        // database next must wait until it has gone, and this store with it. A full disk alone has refused
        // the cuts, behind all writes: the next open finds the ends by itself, as after a crash.
        if matches!(sealed, Ok(()) | Err(Error::OutOfSpace(_))) {
            if let Some(wal) = &self.memtables.wal {
                wal.close();
            }
            // What a call or a job held when it became obsolete: the room need not wait for the next open.
            self.sweeper.unlink_inside();
            self.let_go();
        }
        // The user's code runs when all else is done: it may block, and whoever opens next does not wait for it.
        self.common.commits.tell(self);
        // Whatever failed: what is removed at the end may fail, too.
        let failed = sealed.as_ref().copied().map_err(ToString::to_string);
        let poisoned = self
            .common
            .poison
            .check()
            .map_err(|error| error.to_string());
        let error = failed.and(poisoned).err();
        self.common.events.emit(Event::Closed { error });
        self.common.background.end();
        // All is durable: that the next open finds the ends by itself is no failure.
        let sealed = sealed.or_else(|error| match error {
            Error::OutOfSpace(_) => Ok(()),
            other => Err(other),
        });
        // Of a store that was poisoned before its first write, too.
        sealed.and(self.common.poison.check())
    }

    /// Gives the region and the folder up.
    fn let_go(&self) {
        // For those who read on, and before the lock is given up: whoever opens next asks for it
        // (`reclaim`). Where a folder cannot be held, only their checksums protect them.
        // Beside somebody who writes everything was copied, or is open.
        let folder = match self.common.is_beside {
            true => Ok(None),
            false => self.common.world.env.storage.hold_folder(&self.common.dir),
        };
        let edits = self.common.catalog.edits();
        let position = Position::of(edits.manifest_path(), edits.manifest_bytes());
        drop(edits);
        let view = self.common.catalog.view_to_keep();
        if let Ok(pins) = view.pins() {
            pins.pinned().hold(folder.unwrap_or(None));
            let own = Arc::new(self.as_left(position.clone(), pins.pinned()));
            let mut left = all_left();
            left.retain(|left| left.pinned.strong_count() + left.inner.strong_count() > 0);
            left.push(own);
        }
        self.common.elders.end(Some(&position));
        self.left.set_aside(view.clone());
        self.common.catalog.show(view.closed());
        drop(view);
        self.let_left_go(After::trim);
        self.common.space.region().unlock();
        self.common.lock.give_up();
    }

    /// What those who read on hold of it.
    fn as_left(&self, position: Position, pinned: &Arc<Pinned>) -> Left {
        let (mut homes, mut pm_tables) = (Vec::new(), Vec::new());
        // What lies in DRAM is nobody's else.
        if self.common.space.region().kind() != RegionKind::Dram {
            let view = self.common.catalog.view();
            let own = view.memtables.iter().flat_map(|m| m.homes());
            homes.extend(own.map(Arc::downgrade));
            let retired = self.common.reclaim.retired();
            homes.extend(retired.iter().map(|retired| Arc::downgrade(&retired.home)));
            let tables = self.common.catalog.table_files.pm.all().into_iter();
            pm_tables.extend(tables.map(|(file, table)| (file, Arc::downgrade(&table))));
        }
        Left {
            process: thread::process(),
            db_id: self.common.db_id,
            dir: self.common.dir.clone(),
            position: std::sync::Mutex::new(position),
            pinned: Arc::downgrade(pinned),
            homes,
            pm_tables,
            relics: Arc::downgrade(&self.reads.relics),
            blobs: Arc::downgrade(&self.sweeper.blobs),
            holds: Arc::downgrade(&self.reads.holds),
            inner: self.me.clone(),
        }
    }

    /// Of a store that is closed: a reader at `seqno` has left.
    pub fn reader_left(&self, seqno: SeqNo) {
        self.let_left_go(|left, readers| left.trim_at(readers, seqno));
    }

    /// What was set aside for those who are registered, and nobody of them needs any more, goes: what `trim` takes out.
    fn let_left_go(&self, trim: impl FnOnce(&After<Moment>, &Readers) -> ReadsOn<Moment>) {
        drop(trim(&self.left, &self.common.commits.readers));
        if self.common.commits.readers.is_empty() {
            // Without their lock: whoever has opened the store since looks at them while its writers wait.
            drop(self.reads.relics.take_all());
        }
    }

    /// Cuts the chains of a store that is being closed.
    pub fn seal_chain(&self) -> Result<()> {
        let writer = self.memtables.hold_writer_up();
        if self.common.options.read_only {
            return Ok(());
        }
        if !writer.is_recorded() {
            return self.remember_rates();
        }
        self.common.poison.check()?;
        self.common.commits.drain(self)?;
        let changes = writer.cuts(self.memtables.next.begin_naming().prepared());
        let rates = self.partitioner.rates_to_remember();
        let with_rates = changes.iter().cloned().chain(rates).collect();
        match self.common.catalog.edit(&VersionEdit {
            changes: with_rates,
        }) {
            // The cuts alone may find room.
            Err(Error::OutOfSpace(_)) => self.common.catalog.edit(&VersionEdit { changes }),
            noted => noted,
        }
    }

    /// Of a store that was only read.
    pub fn remember_rates(&self) -> Result<()> {
        self.common.poison.check()?;
        match self
            .partitioner
            .rates_to_remember()
            .map(|change| self.common.catalog.edit(&change.into()))
        {
            None | Some(Err(Error::OutOfSpace(_))) => Ok(()),
            Some(noted) => noted,
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if is_asked() {
            // Here it would wait for the work that asks. A call waits for nobody who waits for it.
            let inner = self.0.clone();
            let close = Box::new(move || drop(inner.close()));
            return self.0.common.background.run(close);
        }
        // An error here has no caller; the next open recovers as after a crash.
        let _ = self.0.close();
    }
}
