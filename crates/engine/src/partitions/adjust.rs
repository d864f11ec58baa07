//! One split, or one merge of neighbours. See the [module above](super).

use std::collections::{BTreeMap, BTreeSet};

use thermocline_base::options::PartitionBy;
use thermocline_base::planted::{Bug, active};
use thermocline_base::size::index;
use thermocline_base::{CfId, Error, FileId, Result, limits};
use thermocline_observe::event::Event;
use thermocline_policy::tuning::{EDIT_BYTES, EDIT_REFERENCES, MEASURED_TABLES};
use thermocline_policy::work::Work;
use thermocline_version::{
    BlobBytes, Change, Joined, Level, PartitionId, TableRef, Version, VersionEdit,
};

use super::{Adjusting, Adjustment, Waiter, created, plan, sizes, too_many};
use crate::store::Partitioner;
use crate::sync::Arc;

/// What became of a split or merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// There is nothing to do any more.
    Gone,
    /// A running job holds its key.
    Waits,
}

/// Room in an edit.
struct Room(usize);

impl Room {
    /// Takes the room for `table` to be cut or joined, if there is any.
    fn take(&mut self, table: &TableRef) -> bool {
        if self.0 == 0 {
            return false;
        }
        let one = index(table.named_bytes());
        self.0 = self.0.saturating_sub(EDIT_REFERENCES * one);
        true
    }
}

impl Partitioner {
    /// Splits or merges what is due by size, in one edit; returns whether there was something. The caller
    /// holds no lock but the gate of compactions.
    pub fn adjust_by_size(&self) -> Result<bool> {
        let all = self.common.options.partition.by == PartitionBy::Size;
        if !all && !self.common.families.any_by_size() {
            // One may wait in the last such family, which was dropped.
            self.common.compactions.forget_waiting(Waiter::Size);
            return Ok(false);
        }
        let mut turn = self.common.compactions.adjusting.take();
        self.adjust_in_turn(&mut turn)
    }

    fn adjust_in_turn(&self, turn: &mut Adjusting) -> Result<bool> {
        let compactions = &self.common.compactions;
        if self.pressure.is_relieving() {
            compactions.forget_waiting(Waiter::Size);
            return Ok(false);
        }
        let version = &self.common.catalog.version();
        if std::ptr::eq(turn.looked.as_ptr(), Arc::as_ptr(version)) {
            return Ok(false);
        }
        let view = self.common.catalog.view_to_keep();
        turn.measures.keep(version);
        let mut measuring = turn.measures.by(&view.tables, MEASURED_TABLES);
        let divided = version.divided().map(|(cf, _)| cf);
        let families: BTreeSet<CfId> = version.families().chain(divided).collect();
        let waiting = compactions.waiting_split(Waiter::Size);
        // First the one that waits for one of its own.
        let first = waiting.iter().map(|(cf, _)| *cf);
        let next = first.chain(families).find_map(|cf| {
            let limit = self.splits_past(cf)?;
            let sizes = sizes::settled(version, cf, &mut measuring);
            let waits = waiting.as_ref().filter(|(of, _)| *of == cf);
            let waits = waits.map(|(_, key)| &key[..]);
            let decision = plan::next(version, cf, &sizes, (limit, waits), &mut measuring);
            let adjustment = match &decision.work {
                Work::SplitPartition { key, .. } => Adjustment::Split(key.clone()),
                Work::MergePartitions { starts, .. } => Adjustment::Merge(starts.clone()),
                _ => return None,
            };
            Some((cf, adjustment, decision))
        });
        let Some((cf, next, decision)) = next else {
            compactions.forget_waiting(Waiter::Size);
            turn.looked = Arc::downgrade(version);
            return Ok(false);
        };
        if matches!(next, Adjustment::Merge(_)) {
            compactions.forget_waiting(Waiter::Size);
        }
        match self.adjust(cf, &next, Waiter::Size) {
            // There is no room for an edit, or for more partitions: compaction goes on without, and the next
            // version is looked at again.
            Err(Error::OutOfSpace(_) | Error::InvalidArgument(_)) => {
                compactions.forget_waiting(Waiter::Size);
                turn.looked = Arc::downgrade(version);
                Ok(false)
            }
            // What has gone is decided on another version.
            adjusted => {
                let done = adjusted? == Outcome::Done;
                if done {
                    self.common.decided(&decision);
                }
                Ok(done)
            }
        }
    }

    /// A job has ended: does what has waited for it, if it was by size.
    pub fn adjust_waiting_by_size(&self) -> Result<()> {
        if self.common.compactions.is_waiting(Waiter::Size) {
            self.adjust_by_size()?;
            // What was put off for its sake.
            self.common.want_compaction();
        }
        Ok(())
    }

    /// Does this one, for which the disk has room, however long jobs keep it waiting; returns whether there was something to do.
    pub fn adjust_by_hand(&self, cf: CfId, what: &Adjustment) -> Result<bool> {
        let waiter = Waiter::Hand(self.common.compactions.next_waiter());
        let adjusted = self.adjust_when_free(cf, what, waiter);
        self.common.compactions.forget_waiting(waiter);
        // What became due meanwhile met what this one held, and was put off.
        self.common.want_compaction();
        adjusted
    }

    fn adjust_when_free(&self, cf: CfId, what: &Adjustment, waiter: Waiter) -> Result<bool> {
        loop {
            self.common.check_writable()?;
            let inside = self.common.compactions.gate.enter();
            // Again, since the store may be closing.
            self.common.check_writable()?;
            let outcome = {
                let _turn = self.common.compactions.adjusting.take();
                self.adjust(cf, what, waiter)?
            };
            match outcome {
                Outcome::Done => return Ok(true),
                Outcome::Gone => return Ok(false),
                Outcome::Waits => self.common.compactions.wait_for_turn(inside, waiter),
            }
        }
    }

    /// One edit. The caller has the turn ([`crate::compact::Compactions::adjusting`]).
    pub fn adjust(&self, cf: CfId, what: &Adjustment, waiter: Waiter) -> Result<Outcome> {
        match what {
            Adjustment::Split(key) => self.split_at(cf, key, waiter),
            Adjustment::Merge(keys) => self.merge_at(cf, keys),
        }
    }

    fn split_at(&self, cf: CfId, key: &[u8], waiter: Waiter) -> Result<Outcome> {
        let usage = &self.common.compactions.partition_usage;
        let Some((_held, levels)) = self.picker.hold_for_split(cf, key, waiter) else {
            usage.waited();
            return Ok(Outcome::Waits);
        };
        // Read before the lock of the manifest is taken, under which nothing is read.
        let shares = self.shares_below(cf, key, &levels);
        let halves;
        let cut = {
            let mut manifest = self.common.catalog.edits();
            self.common.check_writable()?;
            let state = manifest.state();
            let version = state.version();
            let partitions = version.partitions(cf);
            if !state.families().contains_key(&cf.0) || partitions.starting_at(key).is_some() {
                return Ok(Outcome::Gone);
            }
            if partitions.len() >= limits::PARTITIONS_MAX {
                return Err(too_many(partitions.len(), 1));
            }
            let mut room = Room(EDIT_BYTES);
            let mut changes = version.cut_at(cf, key, |place, table| {
                let held = levels.contains(&place.level);
                // Of one that has just come nothing was read.
                let share = shares.get(&table.file).copied().unwrap_or((1, 2));
                (held && room.take(table)).then_some(share)
            });
            let cut = changes.len() / EDIT_REFERENCES;
            if active(Bug::SplitForgetsParts) {
                forget_parts(&mut changes, key);
            }
            let made = created(version, cf, [&key.to_vec()]);
            let new = made.iter().find_map(|change| match change {
                Change::PartitionCreated { partition, .. } => Some(*partition),
                _ => None,
            });
            halves = new.map(|new| (partitions.of(key).id, new));
            changes.extend(made);
            self.common.rates.make_room(&changes);
            manifest.append(&VersionEdit { changes })?;
            cut
        };
        self.adjusted();
        if let Some((of, new)) = halves {
            self.common.rates.split(cf, of, new);
        }
        usage.split();
        self.common.events.emit(Event::PartitionSplit {
            family: cf.0,
            start: key.to_vec(),
            cut,
        });
        Ok(Outcome::Done)
    }

    fn merge_at(&self, cf: CfId, keys: &[Vec<u8>]) -> Result<Outcome> {
        let mut room = Room(EDIT_BYTES);
        let (_held, joined) = self
            .picker
            .hold_for_merge(cf, keys, |whole| !room.take(whole));
        let contents = self.contents(&joined);
        let mut before = Vec::new();
        let (merged, joins) = {
            let mut manifest = self.common.catalog.edits();
            self.common.check_writable()?;
            let state = manifest.state();
            let version = state.version();
            let partitions = version.partitions(cf);
            let removed = keys.iter().filter_map(|key| {
                let found = partitions.starting_at(key);
                let partition = found.filter(|id| *id != PartitionId::WHOLE)?;
                let start = key.as_slice().into();
                before.push((partitions.before(key)?.id, partition));
                Some(Change::PartitionRemoved {
                    cf,
                    partition,
                    start,
                })
            });
            let removed: Vec<Change> = removed.collect();
            if removed.is_empty() || !state.families().contains_key(&cf.0) {
                return Ok(Outcome::Gone);
            }
            let numbers = (removed.len(), joined.len());
            let joined = restored(version, joined, &contents);
            let changes = joined.into_iter().flat_map(Joined::changes);
            let changes = changes.chain(removed).collect();
            manifest.append(&VersionEdit { changes })?;
            numbers
        };
        self.adjusted();
        // The last ones first: what one has got goes on with it.
        for (into, gone) in before.into_iter().rev() {
            self.common.rates.merged(cf, into, gone);
        }
        self.common.compactions.partition_usage.merged(merged);
        self.common.events.emit(Event::PartitionsMerged {
            family: cf.0,
            merged,
            joined: joins,
        });
        Ok(Outcome::Done)
    }

    /// Readers follow.
    fn adjusted(&self) {
        self.memtables.show_tables();
    }

    /// Of the tables that reach over `key` how much lies below it, as parts of something. What cannot be read
    /// is left out: it is only an estimate.
    fn shares_below(
        &self,
        cf: CfId,
        key: &[u8],
        levels: &BTreeSet<Level>,
    ) -> BTreeMap<FileId, (u64, u64)> {
        let view = self.common.catalog.view_to_keep();
        let over = view.tables.version().reaching_over(cf, key);
        let over = over.filter(|(at, _)| levels.contains(&at.level));
        let mut measures = super::Measures::default();
        let mut measuring = measures.by(&view.tables, usize::MAX);
        let share = |(_, table): (_, &Arc<TableRef>)| {
            let (below, of) = measuring.below(cf, table, &[key])?;
            Some((table.file, (below[0], of)))
        };
        over.filter_map(share).collect()
    }

    /// What tables say that become whole again.
    fn contents(&self, joined: &[Joined]) -> BTreeMap<FileId, Contents> {
        let view = self.common.catalog.view_to_keep();
        let whole = joined.iter().map(|joined| &joined.whole);
        let whole = whole.filter(|whole| !whole.is_part());
        whole
            .filter_map(|whole| Some((whole.file, view.tables.contents(whole)?)))
            .collect()
    }
}

/// Entries, deletes, and bytes in blob files.
type Contents = (u64, u64, Vec<BlobBytes>);

/// Gives tables that become whole again what cutting has made estimates of. A blob file never has less than is
/// referred to, whatever a table says.
fn restored(
    version: &Version,
    mut joined: Vec<Joined>,
    contents: &BTreeMap<FileId, Contents>,
) -> Vec<Joined> {
    let mut given: BTreeMap<FileId, u64> = BTreeMap::new();
    for whole in joined.iter_mut().map(|joined| &mut joined.whole) {
        let Some((entries, deletes, blobs)) = contents.get(&whole.file) else {
            continue;
        };
        (whole.entries, whole.deletes) = (*entries, *deletes);
        for blob in &mut whole.blobs {
            let exact = blobs.iter().find(|exact| exact.file == blob.file);
            let file = version.blob_file(blob.file);
            let (Some(exact), Some(file)) = (exact, file) else {
                continue;
            };
            let given = given.entry(blob.file).or_default();
            let values = file.value_bytes.unwrap_or(file.bytes);
            let room = values.saturating_sub(file.referenced_bytes);
            let more = exact.bytes.saturating_sub(blob.bytes);
            let more = more.min(room.saturating_sub(*given));
            blob.bytes += more;
            *given += more;
        }
    }
    joined
}

/// A split that is wrong on purpose: what lies from `key` on is lost.
fn forget_parts(changes: &mut Vec<Change>, key: &[u8]) {
    changes.retain(|change| match change {
        Change::TableAdded { table, .. } => *table.range.first != *key,
        _ => true,
    });
}

#[cfg(test)]
mod tests {
    use thermocline_version::fixture::{self, at};

    use super::*;

    /// An edit that refers to more bytes than are values is refused. So the parts would never become whole.
    #[test]
    fn what_becomes_whole_refers_to_no_more_than_are_values() {
        let file = FileId(7);
        let of_file = |bytes| vec![BlobBytes { file, bytes }];
        let whole = TableRef {
            blobs: of_file(50),
            ..fixture::table(3, (b"a", b"z"), (1, 9))
        };
        let parts = whole.cut_at(b"m", (1, 2)).unwrap();
        let parts = parts.map(|part| Change::TableAdded {
            place: at(1),
            table: Arc::new(part),
        });
        let blob = [
            Change::BlobFileAdded { file, bytes: 100 },
            Change::BlobValues { file, bytes: 60 },
        ];
        let mut state = fixture::state(blob.into_iter().chain(parts));
        let version = state.version().clone();
        let joined = version.joined_at(CfId::DEFAULT, &[b"m".to_vec()], |_, _| true);
        assert_eq!(joined.len(), 1);
        // It says that it has more than there is.
        let contents = BTreeMap::from([(whole.file, (100, 0, of_file(80)))]);
        let joined = restored(&version, joined, &contents);
        let changes = joined.into_iter().flat_map(Joined::changes).collect();
        state.apply(&VersionEdit { changes }).unwrap();
        let blob = state.version().blob_file(file).unwrap();
        assert_eq!((blob.references, blob.referenced_bytes), (1, 60));
    }
}
