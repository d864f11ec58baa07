//! Making a backup.

use std::collections::BTreeMap;
use std::path::Path;

use thermocline_base::planted::{Bug, active};
use thermocline_base::{FileId, Result};
use thermocline_env::{OpenMode, Storage};
use thermocline_sst::{Identity, sum_record_headers, verify_blobs, verify_table};
use thermocline_version::FileKind;

use super::format::{LIST_TEMP, Listed, Stored, TAIL_BYTES, list_name};
use super::{BackupInfo, Backups, crc_from};
use crate::checkpoint::file_name;
use crate::copy::{Capture, copy_file, sites};
use crate::store::Engine;

/// The files that are there already, by what they are known again.
type Known = BTreeMap<(FileId, FileKind, [u8; 16], u64, u32), Stored>;

impl Backups {
    /// Backs up all that is visible in `engine` now, and makes it durable there, too. Only tables that
    /// no backup here has are copied. The backup is durable on return. Writers go on meanwhile.
    ///
    /// # Errors
    /// [`InvalidArgument`](thermocline_base::Error::InvalidArgument) if the folder has anything but
    /// backups; [`Locked`](thermocline_base::Error::Locked);
    /// [`Corruption`](thermocline_base::Error::Corruption) of a table or record of the store; those of
    /// [`Engine::checkpoint`]. There is no new backup then, and store and other backups are unharmed.
    pub fn create(&self, engine: &Engine) -> Result<BackupInfo> {
        engine.inner.check_open()?;
        // Before anything is changed in what may be somebody's.
        if self.storage().exists(&self.dir)? {
            self.found()?;
        } else {
            self.storage().create_dir_all(&self.dir)?;
        }
        let _lock = self.lock()?;
        let lists = self.sweep()?;
        let made = self.make(engine, &lists);
        if made.is_err() {
            // What stays is no backup, and the next one removes it.
            let _ = self.sweep();
        }
        made
    }

    fn make(&self, engine: &Engine, lists: &[Listed]) -> Result<BackupInfo> {
        let inner = &engine.inner;
        // Whatever this fails for, what is in no table is streamed.
        let _ = engine.flush();
        let capture = Capture::of(inner)?;
        let state = inner.stream_state(&capture, &self.dir)?;
        let known = lists.iter().flat_map(|listed| &listed.files);
        let known: Known = known.map(|stored| (key_of(stored), *stored)).collect();
        let origins = state.origins().expect("a copy has an id");
        let mut files = Vec::new();
        let mut new_bytes = 0;
        for (file, kind) in state.version().files() {
            inner.check_open()?;
            let db_id = origins.of(file);
            let name = file_name(file, kind).to_string();
            // Streamed into place just now, or the store's.
            let own = Some(db_id) == state.db_id();
            let temporary = self.dir.join(&name);
            let source = if own {
                temporary.clone()
            } else {
                inner.dir.join(&name)
            };
            let storage = &*inner.world.env.storage;
            let looked = look(storage, &source, file, kind, db_id)?;
            if let Some(stored) = known.get(&key_of(&looked))
                && self.has(stored)?
            {
                files.push(*stored);
                continue;
            }
            let crc = if own {
                crc_from(storage, &source, 0)?
            } else {
                check_source(storage, &source, &looked)?;
                let copied = copy_file(storage, &source, &temporary, || inner.check_open())?;
                copied.crc
            };
            let stored = Stored { crc, ..looked };
            self.storage()
                .rename(&temporary, &self.dir.join(stored.name()))?;
            new_bytes += stored.bytes;
            files.push(stored);
        }
        if !active(Bug::CopyForgetsNames) {
            self.storage().sync_dir(&self.dir, sites::COPY_NAMED)?;
        }
        let listed = Listed {
            id: self.found()?.lists.last().map_or(1, |last| last + 1),
            db_id: inner.db_id,
            seqno: capture.snapshot.seqno(),
            files,
            state,
        };
        self.write(&listed)?;
        Ok(BackupInfo {
            new_bytes,
            ..BackupInfo::of(&listed)
        })
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
            // Nobody is told of it, so it should not be there.
            let _ = self.storage().remove(&path);
        }
        named
    }

    /// Whether a file that a list names is there, by its length.
    fn has(&self, stored: &Stored) -> Result<bool> {
        let path = self.dir.join(stored.name());
        if !self.storage().exists(&path)? {
            return Ok(false);
        }
        let len = self.storage().open(&path, OpenMode::Read)?.len()?;
        Ok(len == stored.bytes)
    }
}

fn key_of(stored: &Stored) -> (FileId, FileKind, [u8; 16], u64, u32) {
    let Stored {
        file, kind, db_id, ..
    } = *stored;
    (file, kind, db_id, stored.bytes, stored.tail_crc)
}

/// What can be known of a file without reading all of it.
fn look(
    storage: &dyn Storage,
    path: &Path,
    file: FileId,
    kind: FileKind,
    db_id: [u8; 16],
) -> Result<Stored> {
    let opened = storage.open(path, OpenMode::Read)?;
    let bytes = opened.len()?;
    let identity = Identity::new(db_id, file);
    Ok(Stored {
        file,
        kind,
        db_id,
        bytes,
        crc: 0,
        tail_crc: match kind {
            FileKind::Table => crc_from(storage, path, bytes.saturating_sub(TAIL_BYTES))?,
            FileKind::Blob => sum_record_headers(&*opened, identity, bytes)?,
        },
    })
}

/// Refuses a file of the store that is damaged.
fn check_source(storage: &dyn Storage, path: &Path, looked: &Stored) -> Result<()> {
    let file = storage.open(path, OpenMode::Read)?;
    let identity = Identity::new(looked.db_id, looked.file);
    let verified = match looked.kind {
        FileKind::Table => verify_table(&file, identity),
        FileKind::Blob => verify_blobs(&file, identity, looked.bytes),
    };
    verified.faults.into_iter().next().map_or(Ok(()), Err)
}
