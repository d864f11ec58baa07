//! A state as edits.

use std::sync::Arc;

use super::State;
use crate::edit::{Change, VersionEdit};
use crate::format;

impl State {
    /// Edits that, applied to an empty state, give this one; each takes at most
    /// [`format::SNAPSHOT_EDIT_LEN`] bytes unless it is a single change. They are made one after the
    /// other, so that a large state takes no more memory than one of them.
    pub fn snapshot(&self) -> impl Iterator<Item = VersionEdit> + '_ {
        let changes = self.snapshot_changes().into_iter();
        let changes = changes
            .chain(self.partition_changes())
            .chain(self.rate_changes())
            .chain(self.jobs.iter().cloned().map(Change::JobDone));
        let mut changes = changes.chain(self.file_changes()).peekable();
        let mut next_bytes = Vec::new();
        std::iter::from_fn(move || {
            let mut edit = VersionEdit::new();
            let mut len = 0;
            while let Some(change) = changes.peek() {
                next_bytes.clear();
                format::encode_change(change, &mut next_bytes);
                len += next_bytes.len();
                if len > format::SNAPSHOT_EDIT_LEN && !edit.changes.is_empty() {
                    break;
                }
                edit.changes.extend(changes.next());
            }
            (!edit.changes.is_empty()).then_some(edit)
        })
    }

    /// Blob files, and tables in persistent memory, before the tables that refer to them, and older tables before newer ones, as the
    /// law of age has it.
    fn file_changes(&self) -> impl Iterator<Item = Change> + '_ {
        let blobs = self.version.blob_files().flat_map(|(file, blob)| {
            let bytes = blob.bytes;
            let values = blob.value_bytes;
            let values = values.map(|bytes| Change::BlobValues { file, bytes });
            [Change::BlobFileAdded { file, bytes }]
                .into_iter()
                .chain(values)
        });
        let tables = self.version.oldest_first().map(|(place, table)| {
            let table = Arc::clone(table);
            Change::TableAdded { place, table }
        });
        let pm_tables = self.version.pm_tables().map(|(table, _)| {
            let table = Arc::clone(table);
            Change::PmTableAdded { table }
        });
        blobs.chain(pm_tables).chain(tables)
    }

    fn partition_changes(&self) -> impl Iterator<Item = Change> + '_ {
        self.version.divided().flat_map(|(cf, partitions)| {
            let all = partitions.iter().skip(1);
            all.map(move |partition| Change::PartitionCreated {
                cf,
                partition: partition.id,
                start: partition.start.into(),
            })
        })
    }

    /// Ids rise within each kind, as they did when they were first applied. Files follow: their ids
    /// are below the reserved ones.
    fn snapshot_changes(&self) -> Vec<Change> {
        let Some((db_id, region_id)) = self.identity else {
            return Vec::new();
        };
        let mut changes = vec![Change::Created { db_id, region_id }];
        if !self.options.is_empty() {
            changes.push(Change::Options(self.options.clone()));
        }
        for (id, name) in self.families() {
            changes.push(Change::ColumnFamilyCreated {
                id: *id,
                name: name.clone(),
            });
            if let Some(options) = self.families.options(*id) {
                changes.push(Change::ColumnFamilyOptions {
                    id: *id,
                    options: options.clone(),
                });
            }
        }
        let memtables = self.memtables().keys();
        changes.extend(memtables.map(|id| Change::MemtableCreated { id: *id }));
        for (memtable, chain) in self.chains() {
            changes.extend(chain.changes(memtable));
        }
        changes.push(Change::NextIds(self.next));
        if self.flushed.up_to > 0 {
            let seqno = self.flushed.up_to;
            changes.push(Change::FlushedUpTo { seqno });
        }
        if let Some(evacuation) = &self.flushed.evacuation {
            changes.push(Change::Evacuated {
                above: evacuation.above,
                up_to: evacuation.up_to,
                cf: evacuation.cf,
                key: evacuation.key.clone(),
            });
        }
        if self.long_values {
            changes.push(Change::LongValues);
        }
        if self.prepared {
            changes.push(Change::PreparedTransactions);
        }
        if self.times.last().is_some() {
            changes.push(Change::WriteTimes(self.times.pairs().into()));
        }
        let inherited = self.inherited.iter();
        changes.extend(inherited.map(|&(below, db_id)| Change::FilesInherited { below, db_id }));
        changes
    }

    /// Behind the partitions that they speak of.
    fn rate_changes(&self) -> Option<Change> {
        let rates = (!self.rates.is_empty()).then(|| self.rates.clone());
        rates.map(Change::PartitionRates)
    }
}
