//! The manifest: a log of edits, and `CURRENT`, which names the live log.
//!
//! # Vocabulary
//! - An **append** adds one record (one edit) to the live file.
//! - A **switch** writes the state as a snapshot into a new file and makes that one live.
//! - The **pointer** is the last record of a file that is live no more: it names the file that goes on.
//! - The live file is **reached**: from the file that `CURRENT` names, by pointers, or at once.
//! - The **durable length** of a file, in its header, is the end of that snapshot.
//!
//! # Invariants
//! 1. The file that `CURRENT` names, whether one reads what is visible of `CURRENT` or what is durable of it, reaches the
//!    live one. Of each file on the way name, header, snapshot and pointer are durable.
//! 2. Behind the snapshot at most one record, the last, may not be durable: the next append
//!    begins only after the sync of the one before.
//! 3. A file below the live one is removed only after a durable `CURRENT` names the live one, and a record behind its
//!    snapshot says so. So where there is such a record, and no other file, the name is known to be durable.
//! 4. After any failure while writing nothing is written any more (`Poisoned`): what the failed
//!    call left behind is unknown until the next open. But for one: a disk that is full (see below).
//!
//! # The crash argument
//! *Append*: write the record, sync the file, acknowledge. A crash before the sync leaves the
//! record whole, torn or absent, and the edit was in flight: either answer is right.
//!
//! *Switch* (and creation, which is a switch from nothing):
//!
//! | step | durable after it |
//! |---|---|
//! | write the new file, reserve room behind its end, sync it | header and snapshot, without a name |
//! | write `CURRENT.tmp`, sync it | the new content of `CURRENT`, without a name |
//! | sync the folder | both names; so a pointer, or a rename that survives, names files that exist |
//! | append the pointer to the old file, sync it | **the switch**, and the edit that caused it |
//! | rename `CURRENT.tmp` to `CURRENT` | nothing yet: a crash leaves the old or the new `CURRENT`; both reach the new file |
//! | sync the folder | the name: the old file is needed no more |
//! | append a record that changes nothing to the new file, sync it | that all of this is done (see *Open*) |
//! | remove what is not live | nothing needed: the next open removes it again |
//!
//! Until the pointer is synced the old file is complete, and nobody appends to the new one. The edit that caused
//! the switch is part of the snapshot and in flight until then. From the rename on nothing is needed for what
//! the manifest says, only for the old file to go. (A creation has no old file: there it is the last sync of the folder that
//! makes it.)
//!
//! *Open for writing* decides on what it reads, and that need not be durable: the process before
//! may have been killed, or have seen a sync fail, between its write and now, and a kernel takes
//! pages for clean after a failed sync, so that syncing them again would prove nothing. So before
//! it answers, an open cuts a torn tail, writes the last record once more and syncs the file. All earlier
//! records are durable by invariant 2, and so is a snapshot: the file got its name when its sync had succeeded. A crash
//! in between leaves what an open finds again. It does the same with each pointer on its way.
//! `CURRENT` is written once more by the steps above, since a rename that can be seen may be lost like any other page, but
//! only where the name is not known to be durable (invariant 3); then what is not live is removed. Where there is
//! no room for that the name stays as it is, and with it the files by which the live one is reached: edits go to
//! the live one all the same, and whichever `CURRENT` a crash leaves has them. The next open tries again, and the
//! next switch does the same work. **So an open needs no new room on the disk.** There are two exceptions, which have no
//! pointer: a database that is new and has never been written to, and one that crashed right behind a switch of a
//! version that wrote no pointers. Their open may take what the file has reserved (see below).
//!
//! # A full disk
//! A write that the file system refuses for want of room has written less than the record, and nothing of it was synced. So
//! the record is not whole, whatever a crash leaves of it, and the edit is not there. What was written is cut off
//! again, and if that succeeds the file is as it was before: [`Error::OutOfSpace`], and the next append goes
//! to the same place, where by then a crash may find a piece of the one or the other. A switch that finds no
//! room before its pointer is there leaves files that nobody names; then the live log grows beyond its limit
//! instead. Where a *sync* says that the disk is full nobody knows what it has kept: that is a failure like
//! others. Neither is a switch made where its files cannot be opened or written for other reasons (there may be no
//! descriptor left): until then nothing has happened but that files lie there which nobody names. Where `CURRENT` cannot
//! be renamed the switch is made, and the old file stays.
//!
//! An edit may be held back ([`Manifest::append_or_hold`]): it is in the state, and goes into the file right before the
//! next one. So a database can be opened where not even one edit has room: a crash before the next one leaves what
//! that open has found, and one between the two leaves a state that the manifest has had.
//!
//! Edits are what gives room back, so the log keeps some for them: [`AHEAD`] bytes behind its end are reserved, as far as
//! the file system does that, and reserved anew when half of them are used. The file does not get longer by that. A new
//! file has them before it is named.
//!
//! # Torn tail or corruption
//! A record that does not check is a torn append, and is cut, if it lies behind the durable length,
//! if there is no more behind it than one record can have, and if no whole record begins anywhere
//! behind it. Anything else is corruption: cutting there would lose acknowledged edits. Rot in the
//! very last record looks like a torn append; nothing else does. Where that record was a pointer, a later file that
//! has records behind its snapshot shows it, and that is corruption, too. Before cutting, the file is read a
//! second time, so that a read that went wrong once does not cut what is there.
//!
//! # Rejected
//! - *Appending first and switching after*: a switch that fails would leave an edit that is durable
//!   and an error.
//! - *Giving what is reserved back*, so that `CURRENT` can be written on a full disk: somebody else may take it first,
//!   not each file system reserves, and where there is no inode left it does not help.
//! - *Renaming a spare file*, or exchanging two names: what a crash leaves may have used the spare up, and not each
//!   file system exchanges.
//! - *Trusting the order of a journalling file system* instead of the sync between the new names
//!   and the rename: POSIX does not promise it, and one sync per switch costs nothing.

mod accept;
pub mod destroy;
mod disk_full;
mod replay;
mod switch;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_base::{Error, Result};
use thermocline_env::{File, OpenMode, Storage};

use crate::edit::{Change, VersionEdit};
use crate::format::{self, Header};
use crate::sites;
use crate::state::State;
use disk_full::{is_full, out_of_space};
use switch::AHEAD;

/// The log may grow to this many bytes before a switch, unless set otherwise.
pub const BYTES_MAX_DEFAULT: u64 = 1 << 20;

/// An open manifest.
///
/// ```
/// use std::{path::Path, sync::Arc};
/// use thermocline_base::Steps;
/// use thermocline_env::{Storage, sim::SimFs};
/// use thermocline_version::{Change, Manifest, VersionEdit};
///
/// let storage: Arc<dyn Storage> = Arc::new(SimFs::new(Steps::new()));
/// let dir = Path::new("/db");
/// storage.create_dir_all(dir).unwrap();
/// let created = Change::Created { db_id: [1; 16], region_id: [2; 16] };
/// let mut manifest = Manifest::create(Arc::clone(&storage), dir, &created.into()).unwrap();
/// manifest.append(&Change::MemtableCreated { id: 1 }.into()).unwrap();
/// drop(manifest);
/// let (_, state) = Manifest::open(storage, dir, false).unwrap();
/// assert!(state.memtables().contains_key(&1));
/// ```
#[derive(Debug)]
pub struct Manifest {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    file: Arc<dyn File>,
    header: Header,
    /// Where the next record goes.
    len: u64,
    state: State,
    bytes_max: u64,
    /// No switch is tried below this length: the last has found no room.
    switch_behind: u64,
    /// Up to here edits find room on the disk.
    reserved: u64,
    read_only: bool,
    poisoned: Option<String>,
    /// Edits, encoded, that are in the state and not in the file: they go there before the next one.
    held: Vec<Vec<u8>>,
}

impl Manifest {
    /// Whether `dir` holds a database: whether something there is called `CURRENT`.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn exists(storage: &dyn Storage, dir: &Path) -> Result<bool> {
        storage.exists(&dir.join(format::CURRENT))
    }

    /// The id of the database in `dir`, as `CURRENT` says it.
    ///
    /// # Errors
    /// [`Error::Corruption`] if that cannot be read; those of the storage.
    pub fn id(storage: &dyn Storage, dir: &Path) -> Result<[u8; 16]> {
        replay::read_current(storage, &dir.join(format::CURRENT)).map(|(_, db_id)| db_id)
    }

    /// A manifest in `dir` that names data although there is no `CURRENT` that names it. Where a
    /// creation was interrupted there is none: the first manifest of a database knows of no data.
    /// A file that cannot be read as a manifest is none, nor is a folder.
    ///
    /// # Errors
    /// Those of the storage.
    pub fn orphan(storage: &dyn Storage, dir: &Path) -> Result<Option<PathBuf>> {
        for name in storage.list(dir)? {
            if format::manifest_no(&name).is_none() {
                continue;
            }
            let path = dir.join(&name);
            if storage.is_dir(&path)? {
                continue;
            }
            let file = storage.open(&path, OpenMode::Read)?;
            let mut bytes = [0; format::HEADER_LEN];
            if file.read_at(&mut bytes, 0)? < bytes.len() {
                continue;
            }
            let Ok(header) = Header::decode(&bytes) else {
                continue;
            };
            let replayed = replay::replay(&*file, header.file_no, header.db_id);
            if replayed.is_ok_and(|r| r.state.holds_data()) {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// Makes the manifest of a new database in the folder `dir`, which exists. `first` begins with
    /// [`crate::Change::Created`]. The database exists, durably, on return; after a failure it may
    /// or may not.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is one already or `first` cannot be the first edit;
    /// those of the storage.
    pub fn create(storage: Arc<dyn Storage>, dir: &Path, first: &VersionEdit) -> Result<Manifest> {
        let mut state = State::default();
        check_and_apply(&mut state, first)?;
        Manifest::create_as(storage, dir, state)
    }

    /// As [`Manifest::create`], for a database that begins as `state`, a copy of another one's.
    ///
    /// # Errors
    /// As [`Manifest::create`].
    pub fn create_as(storage: Arc<dyn Storage>, dir: &Path, state: State) -> Result<Manifest> {
        if Manifest::exists(&*storage, dir)? {
            return Err(Error::InvalidArgument(format!(
                "{} already holds a database",
                dir.display()
            )));
        }
        let db_id = state.db_id().ok_or_else(|| {
            Error::InvalidArgument("a manifest's first edit says that it is created".into())
        })?;
        let (file, header) = switch::to_new_file(&*storage, dir, db_id, &state)?;
        switch::remove_obsolete(&*storage, dir, &header);
        Ok(Manifest {
            storage,
            dir: dir.to_path_buf(),
            file,
            header,
            len: header.durable_len,
            state,
            bytes_max: BYTES_MAX_DEFAULT,
            switch_behind: 0,
            reserved: header.durable_len + AHEAD,
            read_only: false,
            poisoned: None,
            held: Vec::new(),
        })
    }

    /// Opens the manifest of the database in `dir` and gives its state. Unless `read_only`, which
    /// writes nothing, everything in that state is durable on return.
    ///
    /// Who opens it `read_only` may do so while somebody writes to it. If that one goes on to another file meanwhile, it is read
    /// from there.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there is no `CURRENT`; [`Error::Corruption`] naming file and
    /// offset, and where the file was another one each of the several times that it was looked for; [`Error::Unsupported`] if a newer version wrote it; those of the storage.
    pub fn open(
        storage: Arc<dyn Storage>,
        dir: &Path,
        read_only: bool,
    ) -> Result<(Manifest, State)> {
        if !Manifest::exists(&*storage, dir)? {
            return Err(Error::InvalidArgument(format!(
                "{} holds no database: there is no {} in it",
                dir.display(),
                format::CURRENT
            )));
        }
        let mode = if read_only {
            OpenMode::Read
        } else {
            OpenMode::ReadWrite
        };
        let (file, replayed, passed) = replay::find_live(&*storage, (dir, format::CURRENT), mode)?;
        let mut manifest = Manifest {
            storage,
            dir: dir.to_path_buf(),
            file,
            header: replayed.header,
            len: replayed.len,
            state: replayed.state.clone(),
            bytes_max: BYTES_MAX_DEFAULT,
            switch_behind: 0,
            reserved: 0,
            read_only,
            poisoned: None,
            held: Vec::new(),
        };
        if !read_only {
            manifest.accept(&replayed, &passed)?;
            manifest.reserve_ahead();
        }
        Ok((manifest, replayed.state))
    }

    /// Lets the log grow to `bytes_max` before a switch, or to twice the snapshot where that is
    /// more.
    pub fn set_bytes_max(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    /// The state after the last edit that was acknowledged.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The path of the live file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Bytes of the live file.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Never: the header is always there.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether an earlier failure stops all appends.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned.is_some()
    }

    /// Makes an edit durable, all of it or nothing, and applies it to the state.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an edit that is empty, too long or cannot be, and if the
    /// manifest was opened read-only; [`Error::OutOfSpace`] if the disk is full; nothing has happened then. Any
    /// other error means that the
    /// edit's fate is unknown and poisons the manifest: every further append fails with
    /// [`Error::Poisoned`].
    pub fn append(&mut self, edit: &VersionEdit) -> Result<()> {
        if let Some(cause) = &self.poisoned {
            return Err(Error::Poisoned(cause.clone()));
        }
        if self.read_only {
            return Err(Error::InvalidArgument(
                "the manifest was opened read-only".into(),
            ));
        }
        let mut next = self.state.clone();
        let payload = check_and_apply(&mut next, edit)?;
        let written = self.write_held().and_then(|()| self.write(&payload, &next));
        match written {
            Ok(()) => self.state = next,
            // It was undone.
            Err(Error::OutOfSpace(_)) => {}
            Err(ref cause) => self.poisoned = Some(cause.to_string()),
        }
        written
    }

    /// As [`Manifest::append`]; but where the disk has no room, the edit is in the state and held back: the file gets it
    /// right before the next one, and until then nothing may be done that relies on it. Returns whether it is durable.
    ///
    /// # Errors
    /// Those of [`Manifest::append`], but for [`Error::OutOfSpace`].
    pub fn append_or_hold(&mut self, edit: &VersionEdit) -> Result<bool> {
        match self.append(edit) {
            Err(Error::OutOfSpace(_)) => {
                let payload = check_and_apply(&mut self.state, edit)?;
                self.held.push(payload);
                Ok(false)
            }
            appended => appended.map(|()| true),
        }
    }

    fn write_held(&mut self) -> Result<()> {
        while let Some(payload) = self.held.first() {
            let record = self.header.encode_record(payload, self.len);
            self.append_record(&record)?;
            self.held.remove(0);
        }
        Ok(())
    }

    fn write(&mut self, payload: &[u8], next: &State) -> Result<()> {
        let record = self.header.encode_record(payload, self.len);
        let len = self.len + record.len() as u64;
        let snapshot_len = self.header.durable_len;
        if len > self.bytes_max.max(2 * snapshot_len).max(self.switch_behind) {
            match self.switch(next)? {
                true => return Ok(()),
                // There may be room for this one. A snapshot is long: it is not tried with each.
                false => self.switch_behind = len + len / 8,
            }
        }
        self.append_record(&record)
    }

    fn append_record(&mut self, record: &[u8]) -> Result<()> {
        self.store(record)?;
        self.reserve_ahead();
        Ok(())
    }

    fn store(&mut self, record: &[u8]) -> Result<()> {
        let written = self.file.write_at(record, self.len);
        written.map_err(|error| match is_full(&error) && self.cut().is_ok() {
            true => out_of_space(self.file.path(), &error),
            false => error,
        })?;
        self.file.sync(sites::EDIT_DURABLE)?;
        self.len += record.len() as u64;
        Ok(())
    }

    /// Whether the state was written into a new file that is live. If not, nothing has happened.
    fn switch(&mut self, next: &State) -> Result<bool> {
        let storage = Arc::clone(&self.storage);
        let prepared = switch::prepare(&*storage, &self.dir, self.header.db_id, next);
        let pointed = prepared.and_then(|(file, header)| {
            let pointer = format::encode_pointer(header.file_no);
            let record = self.header.encode_record(&pointer, self.len);
            match self.store(&record) {
                // It was not undone: nobody knows whether it is there.
                Err(error) if !matches!(error, Error::OutOfSpace(_)) => Ok(Err(error)),
                stored => stored.map(|()| Ok((file, header))),
            }
        });
        let (file, header) = match pointed {
            Ok(pointed) => pointed?,
            // What was written before may not be durable.
            Err(error) if error.is_failed_sync() => return Err(error),
            Err(_) => {
                switch::remove_newer(&*storage, &self.dir, &self.header);
                return Ok(false);
            }
        };
        self.file = file;
        self.header = header;
        self.len = header.durable_len;
        self.switch_behind = 0;
        self.reserved = self.len + AHEAD;
        match switch::go_live(&*storage, &self.dir) {
            Ok(()) => self.finish_switch(next)?,
            Err(error) if error.is_failed_sync() => return Err(error),
            // `CURRENT` reaches the new file, whether it was renamed or not.
            Err(_) => {}
        }
        Ok(true)
    }

    /// Says that the name of the live file is durable, and removes the others. Where there is no room to say so, they stay.
    fn finish_switch(&mut self, state: &State) -> Result<()> {
        if self.len == self.header.durable_len {
            let nothing = VersionEdit::from(Change::NextIds(state.next_ids()));
            let payload = format::encode_edit(&nothing);
            let record = self.header.encode_record(&payload, self.len);
            match self.append_record(&record) {
                Err(Error::OutOfSpace(_)) => return Ok(()),
                appended => appended?,
            }
        }
        switch::remove_obsolete(&*self.storage, &self.dir, &self.header);
        Ok(())
    }

    /// Cuts off what an append has left, and with it what was reserved.
    fn cut(&mut self) -> Result<()> {
        self.reserved = 0;
        self.file.set_len(self.len)
    }

    /// Reserves room for more edits, where there is some.
    fn reserve_ahead(&mut self) {
        if self.len + AHEAD / 2 > self.reserved {
            // Whether or not: asked again with each edit, it would cost more than it is worth.
            self.reserved = self.len + AHEAD;
            let _ = self.file.reserve_behind(self.len, AHEAD);
        }
    }
}

/// Applies an edit that a caller made up, and encodes it.
fn check_and_apply(state: &mut State, edit: &VersionEdit) -> Result<Vec<u8>> {
    let refused = |why: String| Err(Error::InvalidArgument(why));
    let payload = format::encode_edit(edit);
    if payload.is_empty() || payload.len() > format::PAYLOAD_LEN_MAX {
        return refused(format!(
            "an edit takes between 1 and {} bytes; this one takes {}",
            format::PAYLOAD_LEN_MAX,
            payload.len()
        ));
    }
    if let Err(e) = state.apply_in_place(edit) {
        let (what, expected, got) = (e.what, e.expected, e.got);
        return refused(format!(
            "impossible edit: {what} (expected {expected}, got {got})"
        ));
    }
    Ok(payload)
}
