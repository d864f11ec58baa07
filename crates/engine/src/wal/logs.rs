//! The logs of a store.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use thermocline_base::size::index;
use thermocline_base::{Error, Result};
use thermocline_catalog::files::removed_or_no_room;
use thermocline_commit::ring::Range;
use thermocline_env::Storage;
use thermocline_env::direct::DeviceBytes;
use thermocline_halloc::Reserve;
use thermocline_memtable::Grant;
use thermocline_observe::poison::is_sync;
use thermocline_pm::{PmOff, Region};
use thermocline_policy::tuning::{LOG_DELETES_BYTES, LOG_WAITING_BYTES, LOGS_SPARE};
use thermocline_version::State;
use thermocline_wal::{LogId, LogReader, LogWriter, SITE_LOG_NAMED, frame_bytes};

use super::claim::{Claims, Noted};
use super::place::{LogDir, LogDirs, is_somebodys};
use crate::busy::busy;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, lock, try_lock};

/// The logs of an open store.
#[derive(Debug)]
pub(crate) struct Wal {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) dirs: LogDirs,
    pub(super) db_id: [u8; 16],
    pub(super) bytes: Arc<DeviceBytes>,
    /// Of the chain that is written to. Changed under the writer's lock, used under `syncing`.
    pub(super) current: Mutex<Option<LogWriter>>,
    /// Where its frames end at most once all is written that was granted. Changed under the writer's lock.
    pub(super) granted: AtomicU64,
    /// Up to where its file has bytes that can be written over (invariant 6). Relaxed: it only grows, and who reads an
    /// old number asks again under the lock; going over to another log is done under the writer's lock, as is granting.
    pub(super) reserved: AtomicU64,
    /// Files of logs that nobody needs any more.
    pub(super) spares: Mutex<Vec<PathBuf>>,
    /// Logs of which there are copies where new ones are made. They stay until the manifest says durably where that is.
    copied: Mutex<Vec<PathBuf>>,
    /// Chains whose logs this opening has begun, and not let go of: their names are ours, whoever might look.
    begun: Mutex<BTreeSet<u64>>,
    /// Keep others from the logs until the store is closed.
    pub(super) claims: Mutex<Option<Claims>>,
    /// Says whose the logs are, where they lie outside of the database's folder. Written to under
    /// `Memtables::next`, or the writer's lock, as chains are named.
    pub(super) noted: Mutex<Option<Noted>>,
}

impl Wal {
    pub fn new(
        storage: Arc<dyn Storage>,
        (dirs, claims): (LogDirs, Claims),
        db_id: [u8; 16],
    ) -> Wal {
        Wal {
            storage,
            dirs,
            db_id,
            bytes: Arc::default(),
            current: Mutex::new(None),
            granted: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            spares: Mutex::default(),
            copied: Mutex::default(),
            begun: Mutex::default(),
            claims: Mutex::new(Some(claims)),
            noted: Mutex::new(None),
        }
    }

    /// Sees to it that there is a folder for new logs, and that it says that they are ours. `state` is what
    /// the manifest names.
    pub fn take_over(&self, state: &State) -> Result<()> {
        self.storage.create_dir_all(&self.dir().dir)?;
        if let Some(claims) = &mut *lock(&self.claims) {
            *lock(&self.noted) = claims.note(&*self.storage, &self.dirs, state)?;
        }
        Ok(())
    }

    /// The manifest has learned of a chain, and before that of all that was held back.
    pub fn know(&self, chain: u64, nonce: u64) -> Result<()> {
        self.let_go();
        let mut noted = lock(&self.noted);
        noted
            .as_mut()
            .map_or(Ok(()), |noted| noted.know(chain, nonce))
    }

    /// Makes the log of a chain, durably. To be called before the edit that names the chain.
    pub fn begin(&self, chain: u64, nonce: u64) -> Result<LogWriter> {
        let dir = self.dirs.newest();
        let path = dir.path(&self.db_id, chain);
        // First: what comes meanwhile is not ours.
        let is_left = self.storage.exists(&path)?;
        if self.is_somebodys(&path)? {
            let taken = ErrorKind::AlreadyExists.into();
            return Err(Error::io("make a log at", &path, taken));
        }
        let id = LogId {
            db_id: self.db_id,
            log: chain,
            nonce,
        };
        let storage = &*self.storage;
        // What is left was begun with this id, and could not be removed.
        let log = match self.take_spare(&path)? || is_left {
            true => LogWriter::reuse(storage, &path, id, &self.bytes)?,
            false => LogWriter::create(storage, &path, id, &self.bytes)?,
        };
        lock(&self.begun).insert(chain);
        storage.sync_dir(&dir.dir, SITE_LOG_NAMED)?;
        Ok(log)
    }

    /// Gives a log that is kept to be used again this name, if there is one. If there is no room for that it is kept on.
    fn take_spare(&self, path: &Path) -> Result<bool> {
        let Some(spare) = lock(&self.spares).pop() else {
            return Ok(false);
        };
        match self.storage.rename(&spare, path) {
            Err(error) if error.is_no_room() => {
                lock(&self.spares).push(spare);
                Ok(false)
            }
            renamed => renamed.map(|()| true),
        }
    }

    /// As [`Wal::begin`]; none where the disk has no room for one, and nothing has happened.
    pub fn begin_if_room(&self, chain: u64, nonce: u64) -> Result<Option<LogWriter>> {
        match self.begin(chain, nonce) {
            Err(error) if error.is_no_room() && !is_sync(&error) && self.abandon(chain) => Ok(None),
            begun => begun.map(Some),
        }
    }

    /// Goes over to a log that was begun if the manifest names it by now; else takes it back.
    pub fn take_begun(&self, log: LogWriter, is_named: bool) -> Result<()> {
        let LogId {
            log: chain, nonce, ..
        } = *log.id();
        if is_named {
            self.go_over(log);
            return self.know(chain, nonce);
        }
        match self.abandon(chain) {
            true => Ok(()),
            false => Err(Error::OutOfSpace(format!(
                "the disk has no room for an edit of the manifest, and the log that was begun for it, {}, cannot be \
                 removed: make room there",
                log.path().display()
            ))),
        }
    }

    /// Takes a log back that was begun, or half begun, and that no edit has named. Whether it is gone, or there is no room to note
    /// that it has gone: then it is used when its chain's id is tried again. Else nobody knows what is wrong with it.
    pub(super) fn abandon(&self, chain: u64) -> bool {
        let path = self.dirs.newest().path(&self.db_id, chain);
        if !self.lets_go_of_begun(chain) && self.is_somebodys(&path).unwrap_or(false) {
            // Then nothing was begun.
            return true;
        }
        match self.storage.remove(&path) {
            Err(error) if error.is_no_room() => true,
            _ => matches!(self.storage.exists(&path), Ok(false)),
        }
    }

    /// From now on the chain of `log` is written to (invariant 3).
    pub fn go_over(&self, log: LogWriter) {
        let mut current = lock(&self.current);
        self.granted.store(log.end(), Ordering::Relaxed);
        self.reserved.store(log.reserved(), Ordering::Relaxed);
        *current = Some(log);
    }

    /// Sees to it that an item of `bytes` bytes can be logged (invariant 6). The caller holds the writer's lock.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] if the disk has no room for it, and [`Error::Busy`] if it `may_wait` for nobody's
    /// sync: nothing has happened.
    pub fn reserve(&self, bytes: u64, reserve: Reserve, may_wait: bool) -> Result<()> {
        let kept = match reserve {
            Reserve::Use => 0,
            Reserve::Keep => LOG_DELETES_BYTES,
        };
        let end = self.granted.load(Ordering::Relaxed) + frame_bytes(bytes) + kept;
        if end <= self.reserved.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut current = match may_wait {
            true => lock(&self.current),
            false => try_lock(&self.current).ok_or_else(|| busy("for the log's sync"))?,
        };
        let Some(log) = &mut *current else {
            // Of a store that was found poisoned: the write is refused for that.
            return Ok(());
        };
        let found = log.reserve(end);
        self.reserved.store(log.reserved(), Ordering::Relaxed);
        found.map_err(|error| match error.is_no_room() {
            true => Error::OutOfSpace(format!(
                "the disk has no room for more of a log: make room there ({error})"
            )),
            false => error,
        })
    }

    /// An item of `bytes` bytes was granted. The caller holds the writer's lock.
    pub fn granted(&self, bytes: u64) {
        let before = self.granted.load(Ordering::Relaxed);
        self.granted
            .store(before + frame_bytes(bytes), Ordering::Relaxed);
    }

    /// Appends items that lie in `ranges`, and makes them durable.
    pub(super) fn write(&self, region: &Region, ranges: &[Range]) -> Result<()> {
        let mut current = lock(&self.current);
        let Some(log) = &mut *current else {
            return Err(Error::Poisoned("no log was begun for the chain".into()));
        };
        let written = write_to(log, region, ranges.iter().copied());
        self.reserved.store(log.reserved(), Ordering::Relaxed);
        written
    }

    /// The log of a chain that is complete, durably.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] if the disk has no room for it; those of the storage.
    pub fn write_whole(
        &self,
        region: &Region,
        chain: u64,
        nonce: u64,
        items: &[Grant],
    ) -> Result<()> {
        let ranges = items.iter().map(|item| Range {
            at: item.at().0,
            bytes: item.bytes(),
        });
        let log = self.begin(chain, nonce);
        let written = log.and_then(|mut log| write_to(&mut log, region, ranges));
        written.map_err(|error| match is_sync(&error) {
            true => error,
            false => without_log(error),
        })
    }

    /// The logs of these chains are not needed any more. What cannot be removed the next open removes.
    pub fn retire(&self, chains: &[u64]) {
        for &chain in chains {
            let newest = self.dirs.newest().path(&self.db_id, chain);
            if !self.lets_go_of_begun(chain) && self.is_somebodys(&newest).unwrap_or(true) {
                // That of a staged batch which found its name taken, or what cannot be looked at.
                continue;
            }
            let mut spares = lock(&self.spares);
            let there = self.storage.exists(&newest).unwrap_or(false);
            if there && spares.len() < LOGS_SPARE && !spares.contains(&newest) {
                spares.push(newest);
                continue;
            }
            drop(spares);
            let path = match there {
                true => Ok(Some(newest)),
                false => self.dirs.find(&*self.storage, &self.db_id, chain),
            };
            if let Ok(Some(path)) = path {
                let _ = self.storage.remove(&path);
            }
        }
    }

    /// Removes what was kept to be used again, and lets go of the logs: the store is closed.
    pub fn close(&self) {
        self.remove_spares();
        drop(lock(&self.claims).take());
    }

    /// Removes what was kept to be used again; also because the disk is full. What cannot be removed for want of room is kept on.
    pub fn remove_spares(&self) {
        let spares = std::mem::take(&mut *lock(&self.spares));
        let no_room = |spare: &PathBuf| {
            let removed = self.storage.remove(spare);
            removed.is_err_and(|error| error.is_no_room())
        };
        let kept: Vec<PathBuf> = spares.into_iter().filter(no_room).collect();
        lock(&self.spares).extend(kept);
    }

    /// Whether this opening has begun the log of a chain, which goes now. Then nobody has to look into it.
    fn lets_go_of_begun(&self, chain: u64) -> bool {
        lock(&self.begun).remove(&chain)
    }

    /// Whether a file has the name of a log and is none of ours, not even one that was only begun: it stays as it is.
    fn is_somebodys(&self, path: &Path) -> Result<bool> {
        is_somebodys(&*self.storage, path, &self.db_id)
    }

    /// Removes the logs that nobody names (recovery, 5), copies that were not completed, and no file of somebody that has the
    /// name of one. What cannot be removed for want of room stays until the next open: nobody reads it.
    pub fn sweep(&self, state: &State) -> Result<()> {
        let named: BTreeSet<u64> = state.chains().map(|(_, chain)| chain.id).collect();
        let logs = self.dirs.list(&*self.storage, &self.db_id)?.into_iter();
        let unnamed = logs.filter(|(log, _)| !named.contains(log));
        let copies = self.dirs.copies(&*self.storage, &self.db_id)?;
        for (_, path) in unnamed.chain(copies) {
            // One may be there by two paths.
            if self.storage.exists(&path)? && !self.is_somebodys(&path)? {
                removed_or_no_room(self.storage.remove(&path))?;
            }
        }
        Ok(())
    }

    /// Copies logs that lie elsewhere to where new ones are made: the manifest is about to forget where they are
    /// (`place`, Moving). A copy gets its name when it is durable, and the log goes ([`Wal::let_go`]) when that
    /// name is, and the manifest remembers the folder. So as long as the log is there, a copy that an earlier open has
    /// made may have a name that goes with the power, though its folder can be synced again: it is made anew.
    /// Nothing is ever appended to the log of a chain that an open finds, so both have the same frames.
    pub fn gather(&self, state: &State) -> Result<()> {
        let (storage, dir) = (&*self.storage, self.dirs.newest());
        let mut others = Vec::new();
        for other in self.dirs.others() {
            // By another path it is the same folder: there is nothing to bring, and no log must go.
            if storage.is_dir(&other.dir)? && !storage.is_same(&other.dir, &dir.dir)? {
                others.push(other);
            }
        }
        let (mut copied, mut is_any_new) = (Vec::new(), false);
        for (_, chain) in state.chains() {
            let found = self.dirs.find(storage, &self.db_id, chain.id)?;
            for other in &others {
                let path = other.path(&self.db_id, chain.id);
                if found.as_ref() == Some(&path) {
                    self.bring(&path, chain.id)?;
                    is_any_new = true;
                }
                if storage.exists(&path)? {
                    copied.push(path);
                }
            }
        }
        if is_any_new {
            storage.sync_dir(&dir.dir, SITE_LOG_NAMED)?;
        }
        *lock(&self.copied) = copied;
        Ok(())
    }

    /// Copies the log of a chain to where new ones are made.
    fn bring(&self, found: &Path, chain: u64) -> Result<()> {
        let (storage, dir) = (&*self.storage, self.dirs.newest());
        let copy = dir.copy(&self.db_id, chain);
        if storage.exists(&copy)? {
            storage.remove(&copy)?;
        }
        let mut reader = LogReader::open(storage, found)?;
        let mut log = LogWriter::create(storage, &copy, *reader.id(), &self.bytes)?;
        while let Some(frame) = reader.next_frame()? {
            append(&mut log, frame.payload)?;
        }
        log.sync()?;
        storage.rename(&copy, &dir.path(&self.db_id, chain))
    }

    /// Removes the logs that were copied: the manifest says durably where the copies are. What cannot be removed takes
    /// room, and nobody reads it.
    pub fn let_go(&self) {
        let copied = std::mem::take(&mut *lock(&self.copied));
        for path in copied {
            let _ = self.storage.remove(&path);
        }
    }

    /// Where new logs are made.
    pub fn dir(&self) -> &LogDir {
        self.dirs.newest()
    }

    /// What went to and came from logs.
    pub fn bytes(&self) -> &DeviceBytes {
        &self.bytes
    }
}

/// Removes the logs of a database that is to be no more, and then, in folders that databases share, what says whose they were:
/// logs of which nothing says that are nobody's to remove ([`Claims::check_noted`]). The caller has claimed them. All is durable
/// but in the database's own folder, which the caller syncs.
///
/// # Errors
/// Those of the storage. Whoever calls again goes on.
pub(crate) fn remove_all(storage: &dyn Storage, dirs: &LogDirs, db_id: &[u8; 16]) -> Result<()> {
    let logs = dirs.list(storage, db_id)?.into_iter();
    for (_, path) in logs.chain(dirs.copies(storage, db_id)?) {
        // One may be there by two paths.
        if storage.exists(&path)? && !is_somebodys(storage, &path, db_id)? {
            storage.remove(&path)?;
        }
    }
    for dir in dirs.elsewhere() {
        if !storage.is_dir(&dir.dir)? {
            continue;
        }
        // Also what a call before has removed.
        storage.sync_dir(&dir.dir, SITE_LOG_NAMED)?;
        for path in [dir.owner(db_id), dir.lock(db_id)] {
            if storage.exists(&path)? {
                storage.remove(&path)?;
            }
        }
        storage.sync_dir(&dir.dir, SITE_LOG_NAMED)?;
    }
    Ok(())
}

pub(super) fn write_to(
    log: &mut LogWriter,
    region: &Region,
    ranges: impl Iterator<Item = Range>,
) -> Result<()> {
    for Range { at, bytes } in ranges {
        append(log, region.bytes(PmOff(at), index(bytes))?)?;
    }
    log.sync()
}

/// Appends a frame. It is durable after the log's sync, and whatever is written before that is not: a crash leaves frames
/// that are whole and others, as one during the sync does.
fn append(log: &mut LogWriter, payload: &[u8]) -> Result<()> {
    log.append(payload)?;
    match log.waiting() < LOG_WAITING_BYTES {
        true => Ok(()),
        false => log.write_out(),
    }
}

/// Of a log that could not be begun: if it is room that it lacks, that is no more than that.
pub(super) fn without_log(error: Error) -> Error {
    match error.is_no_room() {
        true => Error::OutOfSpace(format!(
            "the disk has no room for another log: make room there ({error})"
        )),
        false => error,
    }
}
