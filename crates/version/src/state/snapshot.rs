//! A state as edits.

use super::State;
use crate::edit::{Change, VersionEdit};
use crate::format;

impl State {
    /// Edits that, applied to an empty state, give this one; each fits in a record.
    pub fn snapshot(&self) -> Vec<VersionEdit> {
        let mut edits = Vec::new();
        let mut edit = VersionEdit::new();
        let mut len = 0;
        for change in self.snapshot_changes() {
            let mut bytes = Vec::new();
            format::encode_change(&change, &mut bytes);
            if len + bytes.len() > format::PAYLOAD_LEN_MAX && len > 0 {
                edits.push(std::mem::take(&mut edit));
                len = 0;
            }
            len += bytes.len();
            edit.changes.push(change);
        }
        if !edit.changes.is_empty() {
            edits.push(edit);
        }
        edits
    }

    /// Ids rise within each kind, as they did when they were first applied.
    fn snapshot_changes(&self) -> Vec<Change> {
        let Some((db_id, region_id)) = self.identity else {
            return Vec::new();
        };
        let mut changes = vec![Change::Created { db_id, region_id }];
        if !self.options.is_empty() {
            changes.push(Change::Options(self.options.clone()));
        }
        for (id, name) in &self.families {
            changes.push(Change::ColumnFamilyCreated {
                id: *id,
                name: name.clone(),
            });
            if let Some(options) = self.family_options.get(id) {
                changes.push(Change::ColumnFamilyOptions {
                    id: *id,
                    options: options.clone(),
                });
            }
        }
        let generations = self.generations.keys();
        changes.extend(generations.map(|id| Change::GenerationCreated { id: *id }));
        for (generation, chain) in self.chains() {
            if let (true, Some(cut)) = (chain.staged, chain.cut) {
                changes.push(Change::ChainAdopted {
                    chain: chain.id,
                    generation,
                    incarnation: chain.incarnation,
                    nonce: chain.nonce,
                    base_seqno: chain.base_seqno,
                    last_seqno: cut.last_seqno,
                    end: cut.end,
                });
                continue;
            }
            changes.push(Change::ChainOpened {
                chain: chain.id,
                generation,
                incarnation: chain.incarnation,
                nonce: chain.nonce,
                base_seqno: chain.base_seqno,
                start: chain.start,
            });
            if let Some(cut) = chain.cut {
                changes.push(Change::ChainCut {
                    chain: chain.id,
                    last_seqno: cut.last_seqno,
                    end: cut.end,
                });
            }
        }
        changes.push(Change::NextIds(self.next));
        changes
    }
}
