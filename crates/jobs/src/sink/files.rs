//! Writing tables into files.

use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use thermocline_base::{CfId, FileId, Kind, Result};
use thermocline_catalog::Catalog;
use thermocline_env::Storage;
use thermocline_env::meter::Meter;
use thermocline_exec::{Behind, PIECES_MAX};
use thermocline_policy::tuning::TOMBSTONES_PARTS;
use thermocline_sst::{
    Identity, KeyRef, TOMBSTONES_LEN_MAX, TableMeta, TableWriter, Value, WriteOptions,
};
use thermocline_tables::{Writes, dram_of};
use thermocline_version::{BlobBytes, FileKind, Level, Place, TableRef};

use super::TableSink;
use super::apart::{Apart, Aside};
use crate::outputs::Outputs;

/// Names the next file, and what it is sealed to.
pub type NextFile<'a> = &'a dyn Fn() -> Result<(PathBuf, Identity)>;

/// Where files go.
enum Home<'a> {
    /// Into the store, each file pinned.
    Store(&'a Catalog),
    /// Into files that this names, one after the other.
    Elsewhere(&'a dyn Storage, NextFile<'a>),
}

/// Writes the entries of one family into tables in files.
pub struct FileSink<'a> {
    home: Home<'a>,
    place: Place,
    options: WriteOptions,
    /// The table at hand.
    table: Option<(FileId, TableWriter)>,
    /// Its file, if that is written behind.
    behind: Option<Arc<Behind>>,
    /// What writes values apart from tables, if some are to lie there. In the store only.
    aside: Option<Aside<'a>>,
    /// Counts how long writing takes.
    meter: Option<Arc<Meter>>,
    /// Whose writes they are.
    writes: Writes,
    /// Bytes that an edit has of the tables that are finished, and with how many it has enough.
    named: u64,
    names_max: u64,
}

impl<'a> FileSink<'a> {
    /// Into the store's folder, for tables that are to stand in `place`.
    pub fn new(catalog: &'a Catalog, place: Place, options: WriteOptions) -> FileSink<'a> {
        FileSink {
            home: Home::Store(catalog),
            place,
            options,
            table: None,
            behind: None,
            aside: None,
            meter: None,
            writes: Writes::default(),
            named: 0,
            names_max: u64::MAX,
        }
    }

    /// The same; these are its writes.
    pub fn making(self, writes: Writes) -> FileSink<'a> {
        FileSink { writes, ..self }
    }

    /// The same; it has enough when an edit has so many bytes of its tables.
    pub fn naming(self, names_max: u64) -> FileSink<'a> {
        FileSink { names_max, ..self }
    }

    /// The same, with values apart from their tables.
    pub fn apart(self, apart: Apart<'a>) -> FileSink<'a> {
        FileSink {
            aside: Some(Aside::new(apart)),
            ..self
        }
    }

    /// The same; `meter` counts how long writing takes.
    pub fn metered(self, meter: Arc<Meter>) -> FileSink<'a> {
        FileSink {
            meter: Some(meter),
            ..self
        }
    }

    /// Into files that `next` names.
    pub fn elsewhere(
        storage: &'a dyn Storage,
        next: NextFile<'a>,
        place: Place,
        options: WriteOptions,
    ) -> FileSink<'a> {
        FileSink {
            home: Home::Elsewhere(storage, next),
            place,
            options,
            table: None,
            behind: None,
            aside: None,
            meter: None,
            writes: Writes::default(),
            named: 0,
            names_max: u64::MAX,
        }
    }

    /// Bytes that the keys of a table may take in DRAM; 0 if they are not wanted there.
    fn key_bytes_max(&self) -> u64 {
        match self.home {
            Home::Store(catalog) if self.place.level == Level::ZERO => {
                catalog.table_files.keys.room()
            }
            _ => 0,
        }
    }

    fn begin_table(&mut self, outputs: &mut Outputs) -> Result<(FileId, TableWriter)> {
        let (storage, path, identity) = match self.home {
            Home::Store(catalog) => {
                let file = catalog.pin_file(FileKind::Table)?;
                outputs.files.push(file);
                let files = &*catalog.table_files;
                let path = files.unfinished_path(file);
                (&*files.storage, path, files.identity(file))
            }
            Home::Elsewhere(storage, next) => {
                let (path, identity) = next()?;
                (storage, path, identity)
            }
        };
        let cf = self.place.cf;
        let table = TableWriter::create(storage, &path, identity, cf, self.options);
        let table = table.map_err(|error| match self.home {
            Home::Store(catalog) => catalog.table_not_made(identity.file, error),
            Home::Elsewhere(..) => error,
        })?;
        let table = match self.home {
            Home::Store(catalog) => table.through(|file| {
                let new_files = &catalog.table_files.new_files;
                let (file, behind) = new_files.begin_of_job(file, self.writes);
                self.behind = behind;
                file
            }),
            Home::Elsewhere(..) => table,
        };
        let table = match &self.meter {
            Some(meter) => table.metered(meter.clone()),
            None => table,
        };
        let table = match self.key_bytes_max() {
            0 => table,
            most => table.with_keys(most),
        };
        Ok((identity.file, table))
    }
}

impl TableSink for FileSink<'_> {
    fn add(
        &mut self,
        _: CfId,
        key: KeyRef<'_>,
        kind: Kind,
        value: Value<'_>,
        outputs: &mut Outputs,
    ) -> Result<()> {
        if self.table.is_none() {
            self.table = Some(self.begin_table(outputs)?);
        }
        let (_, table) = self.table.as_mut().expect("it was made above");
        let value = match (&mut self.aside, &self.home) {
            (Some(aside), Home::Store(catalog)) => {
                let of = (self.place.cf, key.user_key, kind);
                aside.place(catalog, of, value, outputs)?
            }
            _ => value,
        };
        table.add(key, kind, value)
    }

    fn end_table(&mut self, outputs: &mut Outputs) -> Result<()> {
        let Some((file, table)) = self.table.take() else {
            return Ok(());
        };
        let finished = table.finish_with_keys();
        self.behind = None;
        let (meta, keys) = finished?;
        let table = reference(file, meta);
        if let Home::Store(catalog) = self.home {
            let files = &catalog.table_files;
            files.name(file)?;
            if let Some(keys) = keys {
                // Without room for them, the table is read as others are.
                files.keys.keep(file, keys, files.account());
            }
        }
        outputs.bytes += table.bytes;
        self.named += table.named_bytes();
        outputs.tables.push((self.place, Arc::new(table)));
        Ok(())
    }

    fn end_family(&mut self, outputs: &mut Outputs) -> Result<()> {
        self.end_table(outputs)?;
        match &mut self.aside {
            Some(aside) => aside.finish(outputs),
            None => Ok(()),
        }
    }

    fn poll_written(&self, left: usize, context: &mut Context<'_>) -> Poll<()> {
        if let Some(behind) = &self.behind {
            ready!(pin!(behind.written(left)).poll(context));
        }
        match &self.aside {
            Some(aside) => aside.poll_written(left, context),
            None => Poll::Ready(()),
        }
    }

    fn bytes(&self) -> u64 {
        self.table.as_ref().map_or(0, |(_, table)| table.bytes())
    }

    fn is_full(&self) -> bool {
        let table = self.table.as_ref();
        table.is_some_and(|(_, table)| table.is_full())
    }

    fn memory(&self) -> u64 {
        let table = self.table.as_ref();
        let aside = self.aside.as_ref().map_or(0, Aside::memory);
        let behind = |table: &TableWriter| match self.behind {
            Some(_) => (PIECES_MAX * table.write_bytes()) as u64,
            None => 0,
        };
        aside + table.map_or(0, |(_, table)| dram_of(table) + behind(table))
    }

    fn tombstone_bytes_max(&self) -> usize {
        TOMBSTONES_LEN_MAX / TOMBSTONES_PARTS
    }

    /// Between two tables.
    fn has_enough(&self) -> bool {
        self.named >= self.names_max && self.table.is_none()
    }
}

/// The reference to all of a table.
///
/// # Panics
/// If the table has no entry. A sink begins a table with its first entry.
pub fn reference(file: FileId, meta: TableMeta) -> TableRef {
    let of = meta.properties;
    let range = of.range().expect("a table has an entry").owned();
    let (smallest_seqno, largest_seqno) = of.seqnos.expect("a table has an entry");
    let blobs = of.blobs.iter().map(|blob| BlobBytes {
        file: blob.file,
        bytes: blob.bytes,
    });
    TableRef {
        file,
        file_bytes: meta.bytes,
        bytes: meta.bytes,
        entries: of.entries + of.range_tombstones,
        deletes: of.deletes + of.range_tombstones,
        range,
        limited_below: false,
        limited_above: false,
        smallest_seqno,
        largest_seqno,
        blobs: blobs.collect(),
    }
}
