//! Writing PM tables: what a flush puts out family by family, in tables of a bounded size.
//!
//! A table may go on with the next family, so that families that are small share zones. Where a family is cut
//! (`compaction::output`), the table ends: so of each family a table has one part, without limits.
//!
//! A sink takes no more than it is given: what would go beyond is an error like a full region, and the caller writes
//! files instead. So does he with what fits no PM table, were it in more range tombstones over one key than a
//! table can have.
//!
//! Nothing is named here. What is dropped before it is handed over leaves no zone behind.

use std::collections::BTreeMap;

use thermocline_base::size::format_size;
use thermocline_base::{CfId, Error, FileId, Kind, PmFamily, Result, SeqNo};
use thermocline_halloc::{Space, ZONE_HEADER_BYTES, Zone};
use thermocline_level0::{PmTable, PmTableWriter, TableIdentity, Value, WriteOptions};
use thermocline_version::{BlobBytes, Change, Level, Place, PmTableInfo, TableRef};

use crate::compact::outputs::Outputs;
use crate::store::Inner;
use crate::sync::Arc;

/// Most families of a table: what an edit says of it stays small.
const FAMILIES_MAX: usize = 256;

/// A table that is durable, with the references to it.
#[derive(Debug)]
pub(crate) struct Made {
    pub info: Arc<PmTableInfo>,
    table: Arc<PmTable>,
    zones: Vec<Zone>,
    references: Vec<(Place, Arc<TableRef>)>,
}

impl Made {
    /// What an edit says of it, and of the references.
    pub fn added(&self) -> impl Iterator<Item = Change> {
        let table = Change::PmTableAdded {
            table: self.info.clone(),
        };
        let references = self
            .references
            .iter()
            .map(|(place, table)| Change::TableAdded {
                place: *place,
                table: table.clone(),
            });
        [table].into_iter().chain(references)
    }
}

/// See the [module](self).
pub(crate) struct PmSink {
    space: Arc<Space>,
    table: Option<(FileId, PmTableWriter)>,
    /// What the table at hand refers to in blob files.
    blobs: BTreeMap<(CfId, FileId), u64>,
    families: usize,
    /// The family that was written last.
    last: Option<CfId>,
    made: Vec<Made>,
    /// Of those.
    bytes: u64,
    /// Persistent memory that it may take, and what the tables that are made have.
    zone_bytes_max: u64,
    zone_bytes: u64,
}

impl PmSink {
    /// One that takes no more than so many bytes of persistent memory, but for what the last zone has beyond.
    pub fn new(space: &Arc<Space>, zone_bytes_max: u64) -> PmSink {
        PmSink {
            space: space.clone(),
            table: None,
            blobs: BTreeMap::new(),
            families: 0,
            last: None,
            made: Vec::new(),
            bytes: 0,
            zone_bytes_max,
            zone_bytes: 0,
        }
    }

    /// Adds an entry, or a range tombstone.
    ///
    /// # Errors
    /// [`Error::OutOfSpace`] if there is no zone, or it may have no other; [`Error::InvalidArgument`] for what fits
    /// no table; a failed persist, which poisons the store.
    pub fn add(
        &mut self,
        inner: &Inner,
        cf: CfId,
        (key, seqno): (&[u8], SeqNo),
        kind: Kind,
        value: Value<'_>,
    ) -> Result<()> {
        // Within a family the caller cuts, between keys.
        if self.last != Some(cf) && (self.families == FAMILIES_MAX || self.is_full()) {
            self.end_table(inner)?;
        }
        if self.last != Some(cf) {
            self.families += 1;
            self.last = Some(cf);
        }
        if self.table.is_none() {
            let identity = TableIdentity::new(inner.db_id, inner.pm_owner()?);
            let options = WriteOptions::default();
            let writer = PmTableWriter::new(self.space.clone(), identity, options);
            self.table = Some((inner.catalog.take_number()?, writer));
        }
        let (_, table) = self.table.as_mut().expect("it was made above");
        let added = table.add(cf, key, seqno, kind, value);
        added.map_err(|error| failed(inner, error))?;
        self.check_room()?;
        if let Value::Blob(to) = value {
            *self.blobs.entry((cf, to.file)).or_default() += u64::from(to.len);
        }
        Ok(())
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

    /// Bytes of the table at hand.
    pub fn table_bytes(&self) -> u64 {
        self.table.as_ref().map_or(0, |(_, table)| table.bytes())
    }

    /// Whether the table at hand nears a limit of its format.
    pub fn is_full(&self) -> bool {
        self.table
            .as_ref()
            .is_some_and(|(_, table)| table.is_full())
    }

    /// Whether there is a table at hand.
    pub fn is_in_table(&self) -> bool {
        self.table.is_some()
    }

    /// Persistent memory of the tables that were ended.
    pub fn finished_bytes(&self) -> u64 {
        self.zone_bytes
    }

    /// DRAM that it takes.
    pub fn memory(&self) -> u64 {
        self.table.as_ref().map_or(0, |(_, table)| table.memory())
    }

    /// Ends the table at hand, if there is one.
    pub fn end_table(&mut self, inner: &Inner) -> Result<()> {
        (self.families, self.last) = (0, None);
        let blobs = std::mem::take(&mut self.blobs);
        let Some((file, table)) = self.table.take() else {
            return Ok(());
        };
        let written = table.finish().map_err(|error| failed(inner, error))?;
        let Some(written) = written else {
            return Ok(());
        };
        let meta = written.meta;
        let opened = PmTable::open(
            self.space.region(),
            inner.db_id,
            meta.clone(),
            &written.zones,
        );
        let table = match opened {
            Ok(table) => table,
            Err(error) => {
                self.space.release(&written.zones);
                return Err(error);
            }
        };
        self.bytes += meta.bytes;
        self.zone_bytes += meta.zone_bytes;
        let info = PmTableInfo { file, meta };
        self.made.push(Made {
            references: references(&info, &blobs),
            info: Arc::new(info),
            table,
            zones: written.zones,
        });
        Ok(())
    }

    /// Ends the last table, and hands all over: they are found by their numbers from here on, and an edit may
    /// name them.
    pub fn hand_over(mut self, inner: &Inner, outputs: &mut Outputs) -> Result<()> {
        self.end_table(inner)?;
        outputs.bytes += self.bytes;
        for made in std::mem::take(&mut self.made) {
            let (table, zones) = (made.table.clone(), made.zones.clone());
            let files = &inner.catalog.table_files;
            files.pm.add(made.info.file, table, zones, files.account());
            outputs.pm.push(made);
        }
        Ok(())
    }
}

impl Drop for PmSink {
    fn drop(&mut self) {
        for made in &self.made {
            // All of it was fenced: nothing is under way.
            self.space.release(&made.zones);
        }
    }
}

/// No room is no reason to stop, and what the format refuses is not either; a failed persist is.
fn failed(inner: &Inner, error: Error) -> Error {
    match error {
        Error::InvalidArgument(_) | Error::OutOfSpace(_) => error,
        other => inner.poison.poison(other),
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
            range: family.into(),
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
