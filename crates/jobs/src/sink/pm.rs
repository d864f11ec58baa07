//! Writing PM tables: what a flush puts out family by family, in tables of a bounded size.
//!
//! A table may go on with the next family, so that families that are small share zones. Where a family is cut
//! (`compaction::output`), the table ends: so a table has one part of each family, without limits.
//!
//! A sink takes no more room than it is given. For more it returns the error of a full region: a flush then writes
//! files instead, and an internal compaction gives up. The same holds for entries that fit no PM table, even if it is
//! only because one key has more range tombstones over it than a table can have.
//!
//! Nothing is named here. What is dropped before it is handed over leaves no zone behind.

use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_base::size::format_size;
use thermocline_base::{CfId, Error, FileId, Kind, PmFamily, Result};
use thermocline_catalog::Catalog;
use thermocline_halloc::{Space, ZONE_HEADER_BYTES};
use thermocline_level0::{
    PmTable, PmTableWriter, TOMBSTONES_LEN_MAX, TableIdentity, Value, WriteOptions,
};
use thermocline_policy::tuning::{PM_TABLE_FAMILIES, TOMBSTONES_PARTS_PM};
use thermocline_sst::{KeyRef, Value as AnyValue};
use thermocline_version::{BlobBytes, Level, Place, PmTableInfo, TableRef};

use super::TableSink;
use crate::outputs::{MadeInPm, Outputs};

/// What a table in persistent memory needs of its store.
#[derive(Clone, Copy)]
pub struct PmHome<'a> {
    /// Where its zones come from.
    pub space: &'a Arc<Space>,
    /// Numbers tables, and has those that are open.
    pub catalog: &'a Catalog,
    /// Whose tables they are.
    pub db_id: [u8; 16],
    /// Gives the next owner of zones. An owner is reserved in the manifest.
    pub next_owner: &'a dyn Fn() -> Result<u64>,
}

impl PmHome<'_> {
    /// Lack of room does not stop the store, nor does an entry that the format refuses, or that the store is being closed; a failed
    /// persist does.
    fn failed(&self, error: Error) -> Error {
        match error {
            Error::InvalidArgument(_) | Error::OutOfSpace(_) | Error::Closed => error,
            other => self.catalog.poison().poison(other),
        }
    }
}

/// See the [module](self).
pub struct PmSink<'a> {
    home: PmHome<'a>,
    table: Option<(FileId, PmTableWriter)>,
    /// What the table at hand refers to in blob files.
    blobs: BTreeMap<(CfId, FileId), u64>,
    families: usize,
    /// The family that was written last.
    last: Option<CfId>,
    made: Vec<MadeInPm>,
    /// Of those.
    bytes: u64,
    /// The persistent memory that the sink may take, and below that what the finished tables have.
    zone_bytes_max: u64,
    zone_bytes: u64,
    /// Persistent memory of finished tables with which it has enough.
    enough: u64,
    /// Bytes that an edit has of finished tables, and with how many it has enough.
    named: u64,
    names_max: u64,
}

impl<'a> PmSink<'a> {
    /// One that takes no more than so many bytes of persistent memory, but for what the last zone has beyond.
    pub fn new(home: PmHome<'a>, zone_bytes_max: u64) -> PmSink<'a> {
        PmSink {
            home,
            table: None,
            blobs: BTreeMap::new(),
            families: 0,
            last: None,
            made: Vec::new(),
            bytes: 0,
            zone_bytes_max,
            zone_bytes: 0,
            enough: u64::MAX,
            named: 0,
            names_max: u64::MAX,
        }
    }

    /// It has enough when its finished tables have so many bytes of persistent memory.
    pub fn until(mut self, enough: u64) -> PmSink<'a> {
        self.enough = enough;
        self
    }

    /// It has enough, too, when an edit has so many bytes of its finished tables.
    pub fn naming(mut self, names_max: u64) -> PmSink<'a> {
        self.names_max = names_max;
        self
    }

    fn begin_table(&self) -> Result<(FileId, PmTableWriter)> {
        let home = &self.home;
        let identity = TableIdentity::new(home.db_id, (home.next_owner)()?);
        let writer = PmTableWriter::new(home.space.clone(), identity, WriteOptions::default());
        Ok((home.catalog.take_number()?, writer))
    }

    fn check_room(&self) -> Result<()> {
        let zones = self.table.iter().flat_map(|(_, table)| table.zones());
        let of_table: u64 = zones.map(|z| z.end.0 - z.data.0 + ZONE_HEADER_BYTES).sum();
        match self.zone_bytes + of_table > self.zone_bytes_max {
            false => Ok(()),
            true => Err(Error::OutOfSpace(format!(
                "tables of level 0 may take {} more of persistent memory, and these take more",
                format_size(self.zone_bytes_max)
            ))),
        }
    }

    fn finish_table(&mut self) -> Result<()> {
        (self.families, self.last) = (0, None);
        let blobs = std::mem::take(&mut self.blobs);
        let Some((file, table)) = self.table.take() else {
            return Ok(());
        };
        let written = table.finish().map_err(|error| self.home.failed(error))?;
        let Some(written) = written else {
            return Ok(());
        };
        let meta = written.meta;
        let opened = PmTable::open(
            self.home.space.region(),
            self.home.db_id,
            meta.clone(),
            &written.zones,
        );
        let table = match opened {
            Ok(table) => table,
            Err(error) => {
                self.home.space.release(&written.zones);
                return Err(error);
            }
        };
        self.bytes += meta.bytes;
        self.zone_bytes += meta.zone_bytes;
        let info = PmTableInfo { file, meta };
        let references = references(&info, &blobs);
        // The keys of each family are in what an edit says of the table, and in its reference.
        let named = references.iter().map(|(_, table)| 2 * table.named_bytes());
        self.named += named.sum::<u64>();
        self.made.push(MadeInPm {
            references,
            info: Arc::new(info),
            table,
            zones: written.zones,
        });
        Ok(())
    }

    /// Ends the last table, and hands all over: they are found by their numbers from here on, and an edit may
    /// name them.
    ///
    /// # Errors
    /// As those of adding an entry.
    pub fn hand_over(mut self, outputs: &mut Outputs) -> Result<()> {
        self.finish_table()?;
        outputs.bytes += self.bytes;
        for made in std::mem::take(&mut self.made) {
            let (table, zones) = (made.table.clone(), made.zones.clone());
            let files = &self.home.catalog.table_files;
            files.pm.add(made.info.file, table, zones, files.account());
            outputs.pm.push(made);
        }
        Ok(())
    }
}

impl TableSink for PmSink<'_> {
    /// # Errors
    /// [`Error::OutOfSpace`] if there is no zone, or it may have no other; [`Error::InvalidArgument`] for what fits
    /// no table; a failed persist, which poisons the store.
    fn add(
        &mut self,
        cf: CfId,
        key: KeyRef<'_>,
        kind: Kind,
        value: AnyValue<'_>,
        _: &mut Outputs,
    ) -> Result<()> {
        // Within a family the caller cuts, between keys.
        if self.last != Some(cf) && (self.families == PM_TABLE_FAMILIES || self.is_full()) {
            self.finish_table()?;
        }
        if self.last != Some(cf) {
            self.families += 1;
            self.last = Some(cf);
        }
        if self.table.is_none() {
            self.table = Some(self.begin_table()?);
        }
        let value = match value {
            AnyValue::Inline(bytes) => Value::Inline(bytes),
            AnyValue::Blob(to) => Value::Blob(to),
        };
        let (_, table) = self.table.as_mut().expect("it was made above");
        let added = table.add(cf, key.user_key, key.seqno, kind, value);
        added.map_err(|error| self.home.failed(error))?;
        self.check_room()?;
        if let Value::Blob(to) = value {
            *self.blobs.entry((cf, to.file)).or_default() += u64::from(to.len);
        }
        Ok(())
    }

    fn end_table(&mut self, _: &mut Outputs) -> Result<()> {
        self.finish_table()
    }

    /// The table may go on with the next family.
    fn end_family(&mut self, _: &mut Outputs) -> Result<()> {
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.table.as_ref().map_or(0, |(_, table)| table.bytes())
    }

    fn is_full(&self) -> bool {
        let table = self.table.as_ref();
        table.is_some_and(|(_, table)| table.is_full())
    }

    fn memory(&self) -> u64 {
        self.table.as_ref().map_or(0, |(_, table)| table.memory())
    }

    /// The families before may have range tombstones in the same table, at most half as many bytes as it can have.
    fn tombstone_bytes_max(&self) -> usize {
        TOMBSTONES_LEN_MAX / TOMBSTONES_PARTS_PM
    }

    /// Between two tables.
    fn has_enough(&self) -> bool {
        let is_enough = self.zone_bytes >= self.enough || self.named >= self.names_max;
        is_enough && self.table.is_none()
    }
}

impl Drop for PmSink<'_> {
    fn drop(&mut self) {
        for made in &self.made {
            // All of it was fenced: nothing is under way.
            self.home.space.release(&made.zones);
        }
    }
}

/// One reference for each family, to all that the table has of it.
fn references(
    info: &PmTableInfo,
    blobs: &BTreeMap<(CfId, FileId), u64>,
) -> Vec<(Place, Arc<TableRef>)> {
    let meta = &info.meta;
    let weight = |f: &PmFamily| {
        let ranges = f.range_tombstones.saturating_mul(32);
        (f.key_bytes + f.value_bytes + ranges + 16 * f.entries).max(1)
    };
    let all: u64 = meta.families.iter().map(weight).sum();
    let of_family = |family: &PmFamily| {
        let share = u128::from(meta.bytes) * u128::from(weight(family)) / u128::from(all.max(1));
        let bytes = u64::try_from(share).unwrap_or(u64::MAX).max(1);
        let own = blobs.range((family.cf, FileId(0))..=(family.cf, FileId(u64::MAX)));
        let table = TableRef {
            file: info.file,
            file_bytes: bytes,
            bytes,
            entries: family.entries + family.range_tombstones,
            deletes: family.deletes + family.range_tombstones,
            range: family.range.owned(),
            limited_below: false,
            limited_above: false,
            smallest_seqno: family.seqnos.0,
            largest_seqno: family.seqnos.1,
            blobs: own
                .map(|(&(_, file), &bytes)| BlobBytes { file, bytes })
                .collect(),
        };
        (Place::new(family.cf, Level::ZERO), Arc::new(table))
    };
    meta.families.iter().map(of_family).collect()
}
