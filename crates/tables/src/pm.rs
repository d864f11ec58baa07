//! The PM tables of a store: from the opening on all to which something refers are open. What one takes in DRAM
//! is some bytes for each zone, and its range tombstones.
//!
//! To which nothing refers when the store is opened, nobody will ever read in it: of such a table only the zones are
//! known, until they are free. Whether its bytes are sound is nobody's concern but that of `verify`.

mod promised;

use std::collections::BTreeMap;
use std::ops::Range;

use thermocline_base::budget::{Account, Charge};
use thermocline_base::{FileId, Result};
use thermocline_halloc::{Space, Zone};
use thermocline_level0::PmTable;
use thermocline_version::Version;

pub use promised::{Promise, Promised};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use thermocline_base::sync::{Mutex, RwLock, lock, read, write};

/// See the [module](self).
#[derive(Debug, Default)]
pub struct PmTables {
    open: RwLock<BTreeMap<FileId, Open>>,
    /// Owners of zones that are reserved and not given out.
    owners: Mutex<Range<u64>>,
    /// To whom writes tables.
    pub promised: Promised,
}

#[derive(Debug)]
struct Open {
    /// None of one that nobody reads.
    table: Option<Arc<PmTable>>,
    zones: Vec<Zone>,
    _charge: Option<Charge>,
}

impl PmTables {
    /// Opens all that `version` refers to, and takes over the zones of all that it names, which are among `zones`.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] with region and offset.
    pub fn open_all(
        &self,
        space: &Space,
        zones: &[Zone],
        (version, db_id): (&Version, [u8; 16]),
        account: &Arc<Account>,
    ) -> Result<()> {
        let mut by_owner: BTreeMap<u64, Vec<Zone>> = BTreeMap::new();
        for zone in zones {
            by_owner.entry(zone.owner).or_default().push(*zone);
        }
        for (info, references) in version.pm_tables() {
            let own = by_owner.get(&info.meta.owner).cloned().unwrap_or_default();
            if references.is_empty() {
                let open = Open {
                    table: None,
                    zones: own,
                    _charge: None,
                };
                write(&self.open).insert(info.file, open);
                continue;
            }
            let table = PmTable::open(space.region(), db_id, info.meta.clone(), &own)?;
            self.add(info.file, table, own, account);
        }
        Ok(())
    }

    /// A table is there.
    pub fn add(&self, file: FileId, table: Arc<PmTable>, zones: Vec<Zone>, account: &Arc<Account>) {
        let charge = account.charge_over(table.charge() as u64);
        let open = Open {
            table: Some(table),
            zones,
            _charge: Some(charge),
        };
        write(&self.open).insert(file, open);
    }

    /// Takes a table out; its zones are the caller's to release, if it was there.
    pub fn take(&self, file: FileId) -> Option<Vec<Zone>> {
        Some(write(&self.open).remove(&file)?.zones)
    }

    /// The table of that number, if anything refers to it.
    pub fn get(&self, file: FileId) -> Option<Arc<PmTable>> {
        read(&self.open).get(&file)?.table.clone()
    }

    /// All that are open, by their numbers.
    pub fn all(&self) -> Vec<(FileId, Arc<PmTable>)> {
        let open = read(&self.open);
        let tables = open
            .iter()
            .filter_map(|(file, open)| Some((*file, open.table.clone()?)));
        tables.collect()
    }

    /// Whether somebody holds a table beside this: who reads it.
    pub fn is_held(&self, file: FileId) -> bool {
        let open = read(&self.open);
        let table = open.get(&file).and_then(|open| open.table.as_ref());
        let is_held = table.is_some_and(|table| Arc::strong_count(table) > 1);
        // The last reader's loads come before what is written next in its zones: the other half of the release with which it let go.
        fence(Ordering::Acquire);
        is_held
    }

    /// An owner of zones that is reserved and not given out, if there is one.
    pub fn next_owner(&self) -> Option<u64> {
        lock(&self.owners).next()
    }

    /// These were reserved.
    pub fn give_owners(&self, owners: Range<u64>) {
        *lock(&self.owners) = owners;
    }
}
