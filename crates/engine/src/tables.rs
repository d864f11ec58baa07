//! The tables of a version, open for whoever reads.
//!
//! # Invariants
//! 1. *Held means kept.* [`Tables`] holds its [`Version`], so none of the files that it names is
//!    obsolete (`version::version_set`) while a view has it.
//! 2. *Opened once.* A table is opened by the first reader that needs it. Versions that follow each
//!    other share what is open, and a table is closed when the last of them that names it has gone.
//! 3. *No other file.* A table opens only as the file of this database that it is named as, whole.
//!    So who reads on after his store was closed, and finds another database in the folder, gets an
//!    error, not its data.
//!
//! Files are transferred past the page cache where the file system allows ([`files`]). Blocks go through
//! one cache for all stores of a runtime. It is made when the first table is opened, with an eighth of
//! the DRAM that the runtime or, if that has no limit, the store may use; it comes on top of what accounts
//! are charged for, as do indexes and filters of open tables.

mod files;
mod source;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use thermocline_base::{CfId, Error, FileId, Kind, Result, SeqNo};
use thermocline_env::{OpenMode, Storage};
use thermocline_sst::{CachedSource, FoundValue, Pinned, Table, TablePart, get, open_table};
use thermocline_version::{Level, TableRef, Version};

use crate::sync::Arc;
pub(crate) use files::{Lent, SharedCache, TableFiles};
pub(crate) use source::{TableSource, sources};

/// A table's file, open or not yet.
#[derive(Debug)]
struct Handle {
    file: FileId,
    opened: OnceLock<(Arc<Table>, CachedSource)>,
}

impl Handle {
    fn open(&self, files: &TableFiles) -> Result<&(Arc<Table>, CachedSource)> {
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let file = files.storage.open(&files.path(self.file), OpenMode::Read)?;
        let table = open_table(&*file, files.identity(self.file))?;
        let source = files.cache().source(file);
        // Whoever opened it meanwhile has opened the same.
        Ok(self.opened.get_or_init(|| (table, source)))
    }
}

/// The tables of a version.
#[derive(Debug)]
pub(crate) struct Tables {
    version: Arc<Version>,
    files: Arc<TableFiles>,
    handles: BTreeMap<FileId, Arc<Handle>>,
}

impl Tables {
    /// Those of `version`; what `before` has open stays open.
    pub fn new(
        version: Arc<Version>,
        files: Arc<TableFiles>,
        before: Option<&Tables>,
    ) -> Arc<Tables> {
        let handle = |(_, table): (_, &Arc<TableRef>)| {
            let file = table.file;
            let known = before.and_then(|before| before.handles.get(&file).cloned());
            let opened = OnceLock::new();
            let handle = known.unwrap_or_else(|| Arc::new(Handle { file, opened }));
            (file, handle)
        };
        Arc::new(Tables {
            handles: version.tables().map(handle).collect(),
            version,
            files,
        })
    }

    pub fn version(&self) -> &Arc<Version> {
        &self.version
    }

    pub fn is_empty(&self) -> bool {
        self.handles.is_empty()
    }

    fn open(&self, table: &TableRef) -> Result<(TablePart, CachedSource)> {
        let handle = self.handles.get(&table.file);
        let handle = handle.expect("there is a handle for each table of the version");
        let (opened, source) = handle.open(&self.files)?;
        let (lower, upper) = table.limits();
        let part = TablePart::limited(opened.clone(), lower, upper);
        Ok((part, source.clone()))
    }

    /// What the newest entry of `key` at or below `seqno` says: a value, or that there is none; `None`
    /// if there is no entry.
    pub fn get(&self, cf: CfId, key: &[u8], seqno: SeqNo) -> Result<Option<Option<Pinned>>> {
        for (_, partition) in self.version.partitions(cf) {
            for (_, level) in partition.levels() {
                // Level 0 has several, newest first; others have one.
                for table in level.may_have(key) {
                    let (part, source) = self.open(table)?;
                    let Some(found) = get(&part, key, seqno, &source)? else {
                        continue;
                    };
                    return match (found.kind, found.value) {
                        (_, FoundValue::Blob(_)) => Err(unsupported_blob(part.table())),
                        (Kind::Put, FoundValue::Inline(value)) => Ok(Some(Some(value))),
                        _ => Ok(Some(None)),
                    };
                }
            }
        }
        Ok(None)
    }

    /// The runs of a family, newest first: each table of level 0, and each deeper level.
    fn runs(&self, cf: CfId) -> Vec<Vec<Arc<TableRef>>> {
        let mut runs: Vec<Vec<Arc<TableRef>>> = Vec::new();
        for (_, partition) in self.version.partitions(cf) {
            for (level, tables) in partition.levels() {
                match level {
                    Level::ZERO => runs.extend(tables.iter().map(|table| vec![table.clone()])),
                    _ => runs.push(tables.iter().cloned().collect()),
                }
            }
        }
        runs
    }
}

fn unsupported_blob(table: &Table) -> Error {
    Error::Unsupported(format!(
        "{} refers to a blob file, which this version does not read",
        table.name()
    ))
}
