//! Changing what exists.

mod numbers;

use std::path::Path;
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwap, Guard};
use thermocline_base::planted::{Bug, active};
use thermocline_base::sync::{Mutex, MutexGuard, lock};
use thermocline_base::{CfId, Error, FileId, Result};
use thermocline_env::direct::DeviceBytes;
use thermocline_observe::event::Event;
use thermocline_observe::events::Events;
use thermocline_observe::poison::Poison;
use thermocline_tables::{TableFiles, Tables};
use thermocline_version::{
    Change, FileKind, Hold, Manifest, State, TableRef, Version, VersionEdit, VersionSet, WriteTime,
    WriteTimes,
};

use crate::view::View;

/// What an edit has changed.
#[derive(Debug)]
pub struct Installed<'a> {
    /// The version after it, if that is another one.
    pub version: Option<&'a Arc<Version>>,
    /// The chains that it has dropped.
    pub chains_dropped: &'a [u64],
}

/// Who is told of edits.
pub trait Observer: Send + Sync {
    /// An edit was installed. Called under the lock of edits.
    fn installed(&self, installed: &Installed<'_>);
    /// What the next edit is to say of when something was written, where that is due; `last` is what the manifest said last. Called
    /// under the lock of edits.
    fn write_time(&self, last: Option<WriteTime>) -> Option<WriteTime>;
}

/// What exists in a store. See the [crate](crate).
pub struct Catalog {
    manifest: Mutex<Manifest>,
    /// What was transferred of manifests.
    bytes: Arc<DeviceBytes>,
    /// Behind the manifest's lock, where both are held. It is held while an edit is made durable.
    versions: Mutex<VersionSet>,
    /// The current one of those, for who waits for no edit: a writer asks what persistent memory tables take.
    current: ArcSwap<Version>,
    /// Where its tables lie.
    pub table_files: Arc<TableFiles>,
    view: ArcSwap<View>,
    poison: Arc<Poison>,
    events: Arc<Events>,
    observer: Weak<dyn Observer>,
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog").finish_non_exhaustive()
    }
}

impl Catalog {
    /// That of a store whose manifest was opened; `bytes` are those that go to manifests.
    pub fn new(
        (manifest, bytes): (Manifest, Arc<DeviceBytes>),
        versions: VersionSet,
        (view, table_files): (View, Arc<TableFiles>),
        (poison, events): (Arc<Poison>, Arc<Events>),
        observer: Weak<dyn Observer>,
    ) -> Catalog {
        Catalog {
            manifest: Mutex::new(manifest),
            bytes,
            current: ArcSwap::new(versions.current().clone()),
            versions: Mutex::new(versions),
            table_files,
            view: ArcSwap::from_pointee(view),
            poison,
            events,
            observer,
        }
    }

    /// Whoever holds this may ask what the manifest says, and append edits. Nobody else does meanwhile.
    pub fn edits(&self) -> Edits<'_> {
        Edits {
            catalog: self,
            manifest: lock(&self.manifest),
        }
    }

    /// Makes an edit durable. A failure poisons the store, but for [`Error::OutOfSpace`] and
    /// [`Error::InvalidArgument`], with which nothing has changed.
    ///
    /// # Errors
    /// Those, [`Error::Poisoned`], and those of the file system.
    pub fn edit(&self, edit: &VersionEdit) -> Result<()> {
        self.edits().append(edit)
    }

    /// What went to manifests.
    pub fn bytes(&self) -> &DeviceBytes {
        &self.bytes
    }

    /// The current version. It takes no lock, and waits for no edit.
    pub fn version(&self) -> Arc<Version> {
        self.current.load_full()
    }

    /// When what was written was written, as far as the manifest knows.
    pub fn write_times(&self) -> Arc<WriteTimes> {
        lock(&self.versions).write_times().clone()
    }

    /// Holds the current version: no file that it names goes meanwhile.
    pub fn hold(&self) -> Hold {
        lock(&self.versions).hold()
    }

    /// A version in which only these families are, held aside for whoever reads them after they were dropped.
    pub fn set_aside(&self, families: &[CfId]) -> Arc<Version> {
        lock(&self.versions).set_aside(families)
    }

    /// What a job needs of `version`: that keeps these tables, in files or in persistent memory, and the blob files that they refer to,
    /// and no others.
    pub fn keep_only<'t>(
        &self,
        version: &Arc<Version>,
        tables: impl Iterator<Item = &'t TableRef>,
    ) -> Arc<Version> {
        lock(&self.versions).keep_only(version, tables)
    }

    /// The PM tables that no living version refers to.
    pub fn unread_pm_tables(&self) -> Vec<FileId> {
        lock(&self.versions).unread_pm_tables()
    }

    /// The files that no living version names.
    pub fn obsolete(&self) -> Vec<(FileId, FileKind)> {
        lock(&self.versions).obsolete()
    }

    /// As [`VersionSet::has_unnamed`](thermocline_version::VersionSet::has_unnamed).
    pub fn has_unnamed(&self) -> bool {
        lock(&self.versions).has_unnamed()
    }

    /// An obsolete file is gone.
    pub fn unlinked(&self, file: FileId) {
        lock(&self.versions).unlinked(file);
    }

    /// Why the store takes no edits any more, if it does not.
    pub fn poison(&self) -> &Poison {
        &self.poison
    }

    /// What readers see.
    #[inline]
    pub fn view(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    /// As [`Catalog::view`], for whoever keeps it.
    pub fn view_to_keep(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// Lets readers see `view`. The caller holds the writer's lock (invariant 3).
    pub fn show(&self, view: View) {
        self.view.store(Arc::new(view));
    }

    /// The tables of the current version, for a view in place of `view`.
    pub fn tables_after(&self, view: &View) -> Arc<Tables> {
        let version = self.version();
        match Arc::ptr_eq(&version, view.tables.version()) {
            true => view.tables.clone(),
            false => Tables::new(version, self.table_files.clone(), Some(&view.tables)),
        }
    }

    /// Lets readers see the tables of the current version. The caller holds the writer's lock.
    pub fn show_tables(&self) {
        let view = self.view_to_keep();
        let tables = self.tables_after(&view);
        if !Arc::ptr_eq(&tables, &view.tables) {
            self.show(view.over(tables));
        }
    }
}

/// The lock of edits, held.
#[derive(Debug)]
pub struct Edits<'a> {
    catalog: &'a Catalog,
    manifest: MutexGuard<'a, Manifest>,
}

impl Edits<'_> {
    /// What the manifest says.
    pub fn state(&self) -> &State {
        self.manifest.state()
    }

    /// Where the manifest lies.
    pub fn manifest_path(&self) -> &Path {
        self.manifest.path()
    }

    /// Bytes of the manifest.
    pub fn manifest_bytes(&self) -> u64 {
        self.manifest.len()
    }

    /// As [`Catalog::edit`].
    ///
    /// # Errors
    /// As there.
    pub fn append(&mut self, edit: &VersionEdit) -> Result<()> {
        let catalog = self.catalog;
        catalog.poison.check()?;
        let timed = self.with_write_time(edit);
        let edit = timed.as_ref().unwrap_or(edit);
        let before = self.manifest.path().to_path_buf();
        let mut versions = lock(&catalog.versions);
        // What it refuses is a mistake of ours: nothing has been written.
        versions.check(edit)?;
        let chains_dropped = chains_dropped(self.manifest.state(), edit);
        let tell = |version: Option<&Arc<Version>>, chains_dropped: &[u64]| {
            if let Some(observer) = catalog.observer.upgrade() {
                observer.installed(&Installed {
                    version,
                    chains_dropped,
                });
            }
        };
        if active(Bug::RetireLogBeforeEdit) {
            tell(None, &chains_dropped);
        }
        let appended = self.manifest.append(edit);
        let version_before = versions.current().clone();
        match &appended {
            Ok(()) => drop(versions.install(edit, self.manifest.state())),
            Err(Error::OutOfSpace(_) | Error::InvalidArgument(_)) => {}
            Err(_) => versions.freeze(),
        }
        let version = versions.current().clone();
        // The one before is handed out no more, and whoever has it holds it: only now it may be the last that names a file.
        catalog.current.store(version.clone());
        drop(versions);
        let changed = !Arc::ptr_eq(&version_before, &version);
        if self.manifest.path() != before {
            catalog.events.emit(Event::ManifestSwitched {
                path: self.manifest.path().to_path_buf(),
                bytes: self.manifest.len(),
            });
        }
        appended.map_err(|error| match error {
            // A mistake of ours, of which nothing was written.
            Error::InvalidArgument(_) => error,
            other => catalog.poison.poison_unless_full(other),
        })?;
        tell(changed.then_some(&version), &chains_dropped);
        Ok(())
    }
}

impl Edits<'_> {
    /// The same edit, which also says when something was written, if that is due.
    fn with_write_time(&self, edit: &VersionEdit) -> Option<VersionEdit> {
        let observer = self.catalog.observer.upgrade()?;
        let last = self.manifest.state().write_times().last();
        let time = observer.write_time(last)?;
        Some(edit.clone().with(Change::WriteTimes([time].into())))
    }
}

/// The chains of the memtables that an edit drops.
fn chains_dropped(state: &State, edit: &VersionEdit) -> Vec<u64> {
    let dropped = edit.changes.iter().filter_map(|change| match change {
        Change::MemtableDropped { id } => state.memtables().get(id),
        _ => None,
    });
    let chains = dropped.flat_map(|memtable| &memtable.chains);
    chains.map(|chain| chain.id).collect()
}
