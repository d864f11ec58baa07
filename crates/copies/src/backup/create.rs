//! Making a backup.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use thermocline_base::planted::{Bug, active};
use thermocline_base::progress::{Course, Progress};
use thermocline_base::{Error, ErrorKind, FileId, Result};
use thermocline_env::{File, OpenMode};
use thermocline_sst::{Identity, hash_record_headers, open_table, verify_blobs, verify_table};
use thermocline_tables::file_name;
use thermocline_version::{FileKind, State};

use super::format::{LIST_TEMP, Listed, Stored, TAIL_BYTES, list_name};
use super::{BackupInfo, Backups, NOTE_NAME, check_sum};
use crate::copy::note::{Note, end, remove_all};
use crate::copy::{check_apart, copy_open_file, open_captured, sites, write_state};
use crate::paths;
use crate::store::{Captured, Store};
use crate::sum::{Sum, sum_from, sum_of};

/// The files that are there already, by the properties that identify them.
type Known = BTreeMap<(FileId, FileKind, [u8; 16], u64, u64), Stored>;

impl Backups {
    /// Backs up everything that is visible in `store` now, and makes it durable there, too. Only tables that no
    /// backup here has are copied. The backup is durable on return. Writers go on meanwhile.
    ///
    /// # Errors
    /// [`InvalidArgument`](thermocline_base::Error::InvalidArgument) if the folder has anything but
    /// backups, or lies in the store's; [`Locked`](thermocline_base::Error::Locked);
    /// [`Corruption`](thermocline_base::Error::Corruption) of a table or record of the store; those of
    /// [`checkpoint`](crate::checkpoint()). There is no new backup then, and store and other backups are unharmed.
    pub fn create<S: Store>(&self, store: &S) -> Result<BackupInfo> {
        self.create_observed(store, &mut |_| {})
    }

    /// As [`Backups::create`]. `observer` is told how many bytes are backed up, of those that no backup here has. Which ones these are is
    /// found out before the first call.
    ///
    /// # Errors
    /// As [`Backups::create`].
    pub fn create_observed<S: Store>(
        &self,
        store: &S,
        observer: &mut dyn FnMut(Progress),
    ) -> Result<BackupInfo> {
        store.check_open()?;
        let dir = paths::absolute(&self.dir, paths::BACKUPS)?;
        check_apart(self.storage(), &dir, store.dir())?;
        if self.storage().exists(&self.dir)? {
            self.refuse_others()?;
        }
        // The folder's name may not be durable, whoever made it.
        self.storage().create_dir_all(&self.dir)?;
        let _lock = self.lock()?;
        let there = self.sweep()?;
        let note = Note::begin(&self.env.storage, &self.dir.join(NOTE_NAME))?;
        let mut course = Course::new(observer);
        let made = self.make(store, &there, &note, &mut course);
        match &made {
            Ok(_) => {
                // The backup exists, and the files that the note names do not. The next backup removes the note if
                // this fails.
                let _ = end(self.storage(), &self.dir.join(NOTE_NAME));
            }
            Err(error) => {
                note.disown(error);
                // The files that stay are no backup, and the next one removes them.
                let _ = self.withdraw(&note);
            }
        }
        if made.is_ok() {
            course.finish();
        }
        made
    }

    /// Removes the files made so far, whatever others have brought meanwhile.
    fn withdraw(&self, note: &Note) -> Result<()> {
        remove_all(self.storage(), &self.dir, &note.names())?;
        end(self.storage(), &self.dir.join(NOTE_NAME))?;
        let found = self.found_beside_strangers()?;
        self.sweep_found(found, &BTreeSet::new()).map(drop)
    }

    /// The number of the next backup. The folder is locked, so no other gets it.
    fn next_id(&self) -> Result<u64> {
        let lists = self.found_beside_strangers()?.lists;
        let last = lists.last().copied().unwrap_or(0);
        last.checked_add(1).ok_or_else(|| {
            let path = self.dir.join(list_name(last));
            let text = format!(
                "{} has the last number there is; move it away",
                path.display()
            );
            Error::InvalidArgument(text)
        })
    }

    fn make<S: Store>(
        &self,
        store: &S,
        there: &BTreeSet<Stored>,
        note: &Note,
        course: &mut Course<'_>,
    ) -> Result<BackupInfo> {
        let id = self.next_id()?;
        // If this fails for any reason, everything that is in no table is streamed.
        let _ = store.flush();
        let captured = store.capture()?;
        let random = &*store.env().random;
        let state = write_state(&captured, random, (&self.dir, note))?;
        let (files, new_bytes) = self.gather((store, &captured), &state, there, note, course)?;
        if !active(Bug::CopyForgetsNames) {
            self.storage().sync_dir(&self.dir, sites::COPY_NAMED)?;
        }
        let listed = Listed {
            id,
            db_id: store.db_id(),
            seqno: captured.seqno(),
            files,
            state,
        };
        note.record([LIST_TEMP.into()])?;
        self.write(&listed)?;
        Ok(BackupInfo {
            new_bytes,
            ..BackupInfo::of(&listed)
        })
    }

    /// Brings all files of a state here that are not here yet, under names of their own. Gives all files, and the
    /// bytes of the new ones.
    fn gather<S: Store>(
        &self,
        (store, captured): (&S, &S::Captured),
        state: &State,
        listed: &BTreeSet<Stored>,
        note: &Note,
        course: &mut Course<'_>,
    ) -> Result<(Vec<Stored>, u64)> {
        let known = listed
            .iter()
            .filter(|stored| matches!(stored.sum, Sum::Hash(_)));
        let known: Known = known.map(|stored| (key_of(stored), *stored)).collect();
        let origins = state.origins().expect("a copy has an id");
        let storage = &*store.env().storage;
        let of_store = |file: FileId, name: &str| {
            open_captured(storage, captured, file, &store.dir().join(name))
        };
        let mut files = Vec::new();
        let mut new = Vec::new();
        for (file, kind) in state.version().files() {
            store.check_open()?;
            let db_id = origins.of(file);
            let name = file_name(file, kind).to_string();
            // The file was streamed into place just now, or it is the store's.
            let own = Some(db_id) == state.db_id();
            let opened = match own {
                true => storage.open(&self.dir.join(&name), OpenMode::Read)?,
                false => of_store(file, &name)?,
            };
            let looked = look(&*opened, file, kind, db_id)?;
            let there = self.find(&known, &looked, &*opened)?;
            if there.is_none() {
                new.push((files.len(), name, own));
            }
            files.push(there.unwrap_or(looked));
        }
        let copied = new.iter().filter(|(_, _, own)| !own);
        note.record(copied.map(|(_, name, _)| name.clone()))?;
        course.begin(new.iter().map(|(at, _, _)| files[*at].bytes).sum());
        let mut new_bytes = 0;
        for (at, name, own) in new {
            let stored = &mut files[at];
            course.part(stored.bytes);
            let temporary = self.dir.join(&name);
            stored.sum = if own {
                sum_from(storage, &temporary, 0)?.hash()
            } else {
                let source = of_store(stored.file, &name)?;
                check_source(&source, stored)?;
                let copied = copy_open_file(storage, &*source, &temporary, |bytes| {
                    course.advance(bytes);
                    store.check_open()
                })?;
                copied.sums.hash()
            };
            self.settle(stored, &temporary, listed)?;
            new_bytes += stored.bytes;
        }
        Ok((files, new_bytes))
    }

    /// The file here that has the bytes of `source`, if there is one.
    fn find(&self, known: &Known, looked: &Stored, source: &dyn File) -> Result<Option<Stored>> {
        let Some(stored) = known.get(&key_of(looked)) else {
            return Ok(None);
        };
        let is_there = self.has(stored)? && is_same(source, stored)?;
        Ok(is_there.then_some(*stored))
    }

    /// Gives a file its own name. A file of that name that no list names stays if it has the content that the name
    /// says.
    fn settle(&self, stored: &Stored, temporary: &Path, listed: &BTreeSet<Stored>) -> Result<()> {
        let path = self.dir.join(stored.name());
        if !self.storage().exists(&path)? || listed.contains(stored) {
            return self.storage().rename(temporary, &path);
        }
        let len = self.storage().open(&path, OpenMode::Read)?.len()?;
        check_sum(stored, &path, len, &sum_from(self.storage(), &path, 0)?)?;
        self.storage().remove(temporary)
    }

    /// Makes a list, durably.
    fn write(&self, listed: &Listed) -> Result<()> {
        let temporary = self.dir.join(LIST_TEMP);
        let file = self.storage().open(&temporary, OpenMode::CreateNew)?;
        file.write_at(&listed.encode(), 0)?;
        file.sync(sites::COPY_WRITTEN)?;
        let path = self.dir.join(list_name(listed.id));
        self.storage().rename(&temporary, &path)?;
        let named = self.storage().sync_dir(&self.dir, sites::BACKUP_NAMED);
        if named.is_err() {
            // The caller gets an error, so the list should not be there.
            let _ = self.storage().remove(&path);
        }
        named
    }

    /// Whether a file that a list names is there, with its length, and of a table with the end that it had. One that is
    /// not is copied again.
    fn has(&self, stored: &Stored) -> Result<bool> {
        let path = self.dir.join(stored.name());
        if !self.storage().exists(&path)? {
            return Ok(false);
        }
        let file = self.storage().open(&path, OpenMode::Read)?;
        let len = file.len()?;
        let is_table = stored.kind == FileKind::Table;
        Ok(len == stored.bytes && (!is_table || end_of(&*file, len)? == stored.end))
    }
}

/// The hash of the end of a table of `bytes` bytes.
fn end_of(file: &dyn File, bytes: u64) -> Result<u64> {
    let sums = sum_of(file, bytes.saturating_sub(TAIL_BYTES))?;
    Ok(sums.hash64())
}

/// Whether a file of the store whose [`key_of`] is that of `stored` has the same bytes. A table whose end does not tell all
/// of it, as an older version wrote it, is read for that.
fn is_same(file: &dyn File, stored: &Stored) -> Result<bool> {
    if stored.kind == FileKind::Blob {
        return Ok(true);
    }
    match open_table(file, Identity::new(stored.db_id, stored.file)) {
        Ok(table) if table.properties().blocks_crc.is_some() => Ok(true),
        Ok(_) => Ok(sum_of(file, 0)?.like(stored.sum) == stored.sum),
        // Whoever copies it will say what is wrong with it.
        Err(error) if error.kind() == ErrorKind::Corruption => Ok(false),
        Err(error) => Err(error),
    }
}

fn key_of(stored: &Stored) -> (FileId, FileKind, [u8; 16], u64, u64) {
    let Stored {
        file, kind, db_id, ..
    } = *stored;
    (file, kind, db_id, stored.bytes, stored.end)
}

/// The description of a file, without reading all of it.
fn look(opened: &dyn File, file: FileId, kind: FileKind, db_id: [u8; 16]) -> Result<Stored> {
    let bytes = opened.len()?;
    let identity = Identity::new(db_id, file);
    Ok(Stored {
        file,
        kind,
        db_id,
        bytes,
        sum: Sum::Hash(0),
        end: match kind {
            FileKind::Table => end_of(opened, bytes)?,
            FileKind::Blob => hash_record_headers(opened, identity, bytes)?,
        },
    })
}

/// Refuses a file of the store that is damaged.
fn check_source(file: &Arc<dyn File>, looked: &Stored) -> Result<()> {
    let identity = Identity::new(looked.db_id, looked.file);
    let verified = match looked.kind {
        FileKind::Table => verify_table(file, identity),
        FileKind::Blob => verify_blobs(file, identity, looked.bytes),
    };
    verified.faults.into_iter().next().map_or(Ok(()), Err)
}
