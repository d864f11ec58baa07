//! A store whose keys are divided into partitions, in whatever way.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use thermocline_base::size::index;

use thermocline::{CfOptions, ColumnFamily, Cursor, Db, Durability, Error, Result};
use thermocline_bench::keys::{KeyMaker, Permutation};
use thermocline_bench::values::Values;
use thermocline_env::{Env, Storage};

use super::layout::{At, Layout, prefix};
use super::systems::{Contender, Way};
use crate::setting::Setting;
use crate::trial::{KEY_BYTES, SEED, Size, Trial};

/// Bytes in which the operating system counts the room of a file.
const BLOCK_BYTES: u64 = 512;

/// An open store.
pub(super) struct Store {
    way: Way,
    layout: Layout,
    /// One for each partition, or none at all.
    families: Vec<ColumnFamily>,
    /// Which partitions are gone, or are going.
    gone: Vec<AtomicBool>,
    pub db: Db,
    trial: Trial,
}

impl Store {
    /// One with all keys, in tables, and with nothing left to be done.
    pub fn loaded(
        setting: &Setting,
        contender: &Contender,
        partitions: u64,
        size: Size,
    ) -> Result<Store> {
        let trial = Trial::new(setting, &contender.system, &[], size)?;
        let db = trial.open(setting)?;
        let layout = Layout::new(size.keys, partitions);
        let families: Result<Vec<ColumnFamily>> = match contender.way {
            Way::Family => (0..partitions)
                .map(|partition| db.column_family(&family_name(partition), CfOptions::default()))
                .collect(),
            _ => Ok(Vec::new()),
        };
        let store = Store {
            way: contender.way,
            layout,
            families: families?,
            gone: (0..partitions).map(|_| AtomicBool::new(false)).collect(),
            db,
            trial,
        };
        store.load()?;
        Ok(store)
    }

    /// Writes every key once, in random order. Column families come one after the other, in each its keys in random
    /// order: a flush writes a table for each family that it meets, which would be tens of thousands of small files.
    fn load(&self) -> Result<()> {
        let mut keys = KeyMaker::new(KEY_BYTES);
        let mut values = Values::new(self.trial.size.value_bytes, 1.0, SEED);
        let entries = self.layout.entries;
        let all = Permutation::new(self.layout.keys(), SEED);
        let within = Permutation::new(entries, SEED);
        for n in 0..self.layout.keys() {
            let at = self.layout.at(match self.way {
                Way::Family => n - n % entries + within.at(n % entries),
                _ => all.at(n),
            });
            let (key, value) = (keys.key(at.index()), values.next_value());
            match self.family(at.partition) {
                None => self.db.put_with(key, value, Durability::Buffered)?,
                Some(family) => family.put_with(key, value, Durability::Buffered)?,
            }
        }
        self.db.flush()?;
        self.db.drain()
    }

    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Drops those of these partitions that are not gone yet, one after the other, durably.
    pub fn drop_partitions(&self, partitions: &[u64]) -> Result<()> {
        for partition in partitions {
            // Told before it is true: a reader that is refused knows why.
            if !self.gone[index(*partition)].swap(true, Ordering::AcqRel) {
                self.drop_one(*partition)?;
            }
        }
        Ok(())
    }

    fn drop_one(&self, partition: u64) -> Result<()> {
        match self.way {
            Way::Deletes => {
                let mut keys = KeyMaker::new(KEY_BYTES);
                for entry in 0..self.layout.entries {
                    let key = keys.key(At { partition, entry }.index());
                    self.db.delete_with(key, Durability::Buffered)?;
                }
                // Once for all of them, as one that is deleted in another way waits once.
                self.db.sync()
            }
            Way::Range => self
                .db
                .delete_range(prefix(partition)..prefix(partition + 1)),
            Way::Partition => self.db.drop_partition(prefix(partition)),
            Way::Family => self.db.drop_column_family(&family_name(partition)),
        }
    }

    fn family(&self, partition: u64) -> Option<&ColumnFamily> {
        self.families.get(index(partition))
    }

    fn is_gone(&self, partition: u64) -> bool {
        self.gone[index(partition)].load(Ordering::Acquire)
    }

    /// Whether the key is there.
    pub fn get(&self, keys: &mut KeyMaker, at: At) -> Result<bool> {
        let key = keys.key(at.index());
        let found = match self.family(at.partition) {
            None => self.db.get(key),
            Some(family) => family.get(key),
        };
        match found {
            // A family that was dropped says so.
            Err(Error::InvalidArgument(_)) if self.is_gone(at.partition) => Ok(false),
            found => Ok(found?.is_some()),
        }
    }

    /// Reads so many entries from a key on; returns how many there were. Families are read one after the other, as
    /// who has divided keys among them does.
    pub fn scan(&self, keys: &mut KeyMaker, from: At, want: usize) -> Result<usize> {
        if self.families.is_empty() {
            return read(self.db.cursor()?, keys.key(from.index()), want);
        }
        let (mut found, mut at) = (0, from);
        while found < want && at.partition < self.layout.partitions {
            found += self.scan_family(keys, at, want - found)?;
            at = At {
                partition: at.partition + 1,
                entry: 0,
            };
        }
        Ok(found)
    }

    /// Reads so many entries of one family from a key on; none if it was dropped.
    fn scan_family(&self, keys: &mut KeyMaker, from: At, want: usize) -> Result<usize> {
        let family = self.family(from.partition);
        let Some(family) = family.filter(|_| !self.is_gone(from.partition)) else {
            return Ok(0);
        };
        let cursor = family.cursor();
        match cursor.and_then(|cursor| read(cursor, keys.key(from.index()), want)) {
            // A moment ago: before the cursor was made, or beside that, which it says when it is moved.
            Err(Error::InvalidArgument(_)) if self.is_gone(from.partition) => Ok(0),
            found => found,
        }
    }

    /// Compacts everything.
    pub fn compact(&self) -> Result<()> {
        self.db.compact::<&str>(..)?;
        for (partition, family) in (0..).zip(&self.families) {
            if !self.is_gone(partition) {
                family.compact::<&str>(..)?;
            }
        }
        Ok(())
    }

    /// Bytes of tables and blob files that are not dropped.
    pub fn ssd_bytes(&self) -> u64 {
        let metrics = self.db.metrics();
        let tables = metrics.levels.iter().map(|level| level.bytes);
        tables.sum::<u64>() + metrics.blobs.bytes
    }

    /// Room that everything in its folder takes, manifest and logs included.
    pub fn folder_bytes(&self) -> Result<u64> {
        room_of(&*Env::real().storage, &self.trial.folder())
    }

    /// Bytes of keys and values that are not gone.
    pub fn live_bytes(&self) -> u64 {
        let live = (0..self.layout.partitions).filter(|at| !self.is_gone(*at));
        let entry = (KEY_BYTES + self.trial.size.value_bytes) as u64;
        live.count() as u64 * self.layout.entries * entry
    }

    pub fn close(self) -> Result<()> {
        // What holds the store on trial goes last.
        let Store {
            trial: _trial, db, ..
        } = self;
        db.close()
    }
}

/// As people read sizes.
pub(super) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn family_name(partition: u64) -> String {
    format!("partition-{partition}")
}

/// Entries from a key on, so many at most.
fn read(mut cursor: Cursor, from: &[u8], want: usize) -> Result<usize> {
    let mut found = 0;
    let mut is_there = cursor.seek(from)?;
    while is_there {
        std::hint::black_box(cursor.value());
        found += 1;
        is_there = found < want && cursor.next()?;
    }
    Ok(found)
}

fn room_of(storage: &dyn Storage, folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for name in storage.list(folder)? {
        let path = folder.join(name);
        // A table may have gone since.
        let Ok(metadata) = path.symlink_metadata() else {
            continue;
        };
        bytes += match metadata.is_dir() {
            true => room_of(storage, &path)?,
            false => metadata.blocks() * BLOCK_BYTES,
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::layout::{Arrangement, Course};
    use super::super::systems::ALL;
    use super::*;

    #[test]
    fn what_is_dropped_is_gone_at_once_and_nothing_else() {
        let folder = crate::setting::folder();
        let setting = Setting::quick(folder.path());
        let size = Size {
            pm: 16 << 20,
            dram: 16 << 20,
            keys: 300,
            value_bytes: 1024,
        };
        let first = At {
            partition: 0,
            entry: 0,
        };
        for contender in ALL {
            for arrangement in Arrangement::BOTH {
                let store = Store::loaded(&setting, contender, 10, size).unwrap();
                let layout = store.layout();
                let course = Course::new(layout.partitions, arrangement, 10);
                let mut keys = KeyMaker::new(KEY_BYTES);
                let live = store.live_bytes();
                assert!(store.ssd_bytes() > live / 2 && store.folder_bytes().unwrap() > live / 2);
                for percent in [0, 10, 30, 50] {
                    let gone = course.gone(percent);
                    store.drop_partitions(gone).unwrap();
                    let told = format!("{}, {}, {percent}", contender.name(), arrangement.name());
                    for n in 0..layout.keys() {
                        let at = layout.at(n);
                        let is_there = store.get(&mut keys, at).unwrap();
                        assert_eq!(is_there, !gone.contains(&at.partition), "{told}: {at:?}");
                    }
                    let found = store.scan(&mut keys, first, usize::MAX).unwrap();
                    assert_eq!(
                        found as u64,
                        layout.keys() / 100 * (100 - percent),
                        "{told}"
                    );
                    assert_eq!(store.live_bytes(), live / 100 * (100 - percent), "{told}");
                }
                store.db.drain().unwrap();
                store.compact().unwrap();
                assert_eq!(store.scan(&mut keys, first, 7).unwrap(), 7);
                store.close().unwrap();
            }
        }
    }
}
