//! What a job has made.

use std::sync::Arc;

use thermocline_base::stages::Stages;
use thermocline_base::{CfId, FileId, SeqNo};
use thermocline_halloc::Zone;
use thermocline_level0::PmTable;
use thermocline_policy::cost::Counts;
use thermocline_sst::BlobMeta;
use thermocline_version::{Change, PartitionId, Place, PmTableInfo, TableRef};

/// A table that is durable, with the references to it.
#[derive(Debug)]
pub struct MadeInPm {
    /// What the manifest is told of it.
    pub info: Arc<PmTableInfo>,
    pub(crate) table: Arc<PmTable>,
    pub(crate) zones: Vec<Zone>,
    pub(crate) references: Vec<(Place, Arc<TableRef>)>,
}

impl MadeInPm {
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

/// What a filter, and the family's TTL, have done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Filtered {
    /// The least seqno of an entry that was removed or changed.
    pub oldest: Option<SeqNo>,
    /// Values that have expired, and were removed.
    pub expired: u64,
    /// Values that it has removed.
    pub removed: u64,
    /// Values that it has changed.
    pub changed: u64,
    /// Whether it has failed, and the job with it.
    pub failed: bool,
}

impl Filtered {
    fn append(&mut self, later: &Filtered) {
        if let Some(oldest) = later.oldest {
            self.note(oldest);
        }
        self.expired += later.expired;
        self.removed += later.removed;
        self.changed += later.changed;
        self.failed |= later.failed;
    }

    /// An entry of this seqno was removed or changed.
    pub(crate) fn note(&mut self, seqno: SeqNo) {
        let oldest = self.oldest.map_or(seqno, |oldest| oldest.min(seqno));
        self.oldest = Some(oldest);
    }
}

/// What a job has made until now.
#[derive(Debug, Default)]
pub struct Outputs {
    /// All files, pinned.
    pub(crate) files: Vec<FileId>,
    /// Tables in files, and where they are to stand.
    pub tables: Vec<(Place, Arc<TableRef>)>,
    /// Tables in persistent memory.
    pub pm: Vec<MadeInPm>,
    /// Blob files that the tables refer to, durable.
    pub blobs: Vec<BlobMeta>,
    /// Bytes of the tables and blob files.
    pub bytes: u64,
    /// Bytes of files that were read, where the caller counts them.
    pub bytes_read: u64,
    /// Time that was waited for files, where the caller counts it.
    pub stages: Stages,
    /// Entries that were read.
    pub entries_read: u64,
    /// Of those, bytes of the keys and values that came out of memtables.
    pub memtable_bytes: u64,
    /// Of the entries, those that were not written.
    pub dropped: u64,
    /// Values that moved out of blob files.
    pub moved: u64,
    /// What the family's filter has done.
    pub filtered: Filtered,
    /// What was read, by partition.
    pub counted: Vec<(CfId, Vec<(PartitionId, Counts)>)>,
    /// The prefixes at which partitions are to begin, by family.
    pub prefixes: Vec<(CfId, Vec<Vec<u8>>)>,
    /// The key before which it was enough: nothing from it on was written. `None` if that is all.
    pub ended_at: Option<Vec<u8>>,
}

impl Outputs {
    /// Takes in what was made of the keys behind those of its own. If these ended before, the files of the later ones are
    /// pinned as all are, and not named: what lies between was not written.
    pub fn append(&mut self, later: Outputs) {
        self.files.extend(later.files);
        if self.ended_at.is_some() {
            assert!(later.pm.is_empty(), "what lies there would stay");
            return;
        }
        self.tables.extend(later.tables);
        self.pm.extend(later.pm);
        self.blobs.extend(later.blobs);
        self.bytes += later.bytes;
        self.bytes_read += later.bytes_read;
        self.stages.add(later.stages);
        self.entries_read += later.entries_read;
        self.memtable_bytes += later.memtable_bytes;
        self.dropped += later.dropped;
        self.moved += later.moved;
        self.filtered.append(&later.filtered);
        self.counted.extend(later.counted);
        for (cf, mut met) in later.prefixes {
            match self.prefixes.last_mut().filter(|(last, _)| *last == cf) {
                Some((_, before)) => {
                    // A prefix may have keys on both sides.
                    let is_twice = before.last().is_some_and(|last| met.first() == Some(last));
                    before.extend(met.drain(usize::from(is_twice)..));
                }
                None => self.prefixes.push((cf, met)),
            }
        }
        self.ended_at = later.ended_at;
    }

    /// What an edit says of the tables, and of the blob files before them.
    pub fn added(&self) -> impl Iterator<Item = Change> {
        let tables = self.tables.iter().map(|(place, table)| Change::TableAdded {
            place: *place,
            table: table.clone(),
        });
        let blobs = self.blobs.iter().flat_map(|made| {
            let file = made.identity.file;
            let (bytes, values) = (made.bytes, made.value_bytes);
            [
                Change::BlobFileAdded { file, bytes },
                Change::BlobValues {
                    file,
                    bytes: values,
                },
            ]
        });
        let pm = self.pm.iter().flat_map(MadeInPm::added);
        blobs.chain(pm).chain(tables)
    }

    /// The outputs for tables that have expired as a whole. The tables are not read, and nothing is written.
    pub fn expired<'t>(tables: impl Iterator<Item = &'t TableRef>) -> Outputs {
        let mut outputs = Outputs::default();
        for table in tables {
            outputs.dropped += table.entries;
            outputs.filtered.expired += table.entries - table.deletes.min(table.entries);
            outputs.filtered.note(table.smallest_seqno);
        }
        outputs
    }

    /// The outputs for tables that a range tombstone covers. The tables are not read, and nothing is written.
    pub fn passed_over<'t>(tables: impl Iterator<Item = &'t TableRef>) -> Outputs {
        Outputs {
            dropped: tables.map(|table| table.entries).sum(),
            ..Outputs::default()
        }
    }

    /// How many tables there are.
    pub fn count(&self) -> usize {
        self.tables.len() + self.pm.len()
    }

    /// Bytes of persistent memory of the tables there.
    pub fn zone_bytes(&self) -> u64 {
        self.pm.iter().map(|made| made.info.meta.zone_bytes).sum()
    }

    /// The files that were made, whatever became of them. They are pinned.
    pub fn files(&self) -> &[FileId] {
        &self.files
    }
}
