//! Opening a table for whoever reads it.

use std::sync::Arc;

use arc_swap::Guard;
use thermocline_base::sync::{Ordering, lock};
use thermocline_base::{CfId, Result};
use thermocline_observe::charged::Charged;
use thermocline_sst::{IndexUse, open_table};
use thermocline_version::TableRef;

use crate::files::TableFiles;
use crate::open::{Handle, OpenTable};

/// What an open table takes beside what it says itself: handles, and its place here.
const HANDLE_BYTES: u64 = 512;

/// What a table knows of a key while nothing is read.
pub enum Asked {
    /// It is not open.
    Closed,
    /// That it says nothing about it.
    Nothing,
    /// No such thing, so it is to be read; and whether the filter lets the key pass. If not, its range tombstones alone are
    /// left to ask.
    May(Arc<OpenTable>, bool),
}

impl Handle {
    /// A read was looked at that asked it, a table of family `cf`, in vain, by this reference.
    pub fn charge(&self, files: &TableFiles, cf: CfId, table: &TableRef) {
        let before = self.charged.load(Ordering::Relaxed);
        // Of two at the same time one counts.
        let now = files.reads.charge(before, table.bytes, || Charged {
            cf,
            file: table.file,
            first: table.range.first.to_vec(),
        });
        self.charged.store(now, Ordering::Relaxed);
    }

    /// Asks the table about `key`, for whoever reads it. Where it says nothing, which most tables that are asked do, no count
    /// is written that threads share.
    #[inline]
    pub fn ask(&self, key: &[u8]) -> Asked {
        let open = self.open.load();
        let Some(table) = &*open else {
            return Asked::Closed;
        };
        self.note_use();
        // The filter knows entries alone.
        let may_contain = table.table.may_contain(key);
        if !may_contain && !table.has_ranges() {
            return Asked::Nothing;
        }
        let open = Guard::into_inner(open);
        open.map_or(Asked::Closed, |open| Asked::May(open, may_contain))
    }

    /// The table, for whoever reads it, if it is open.
    #[inline]
    pub fn opened_to_read(&self) -> Option<Arc<OpenTable>> {
        let open = self.open.load_full()?;
        self.note_use();
        Some(open)
    }

    #[inline]
    fn note_use(&self) {
        // Not written where it is set: others read it, too.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Which index the table has. A table that is not open is closed again.
    pub fn index(&self, files: &TableFiles) -> Result<IndexUse> {
        if let Some(open) = &*self.open.load() {
            return Ok(open.table.properties().index);
        }
        let file = files.open_file(self.file)?;
        let table = open_table(&*file, files.identity(self.file))?;
        Ok(table.properties().index)
    }

    /// The table, opened if it is not open.
    pub fn open(self: &Arc<Handle>, files: &TableFiles) -> Result<Arc<OpenTable>> {
        if let Some(open) = self.opened_to_read() {
            return Ok(open);
        }
        let _one = lock(&self.opening);
        if let Some(open) = self.open.load_full() {
            return Ok(open);
        }
        let file = files.open_file(self.file)?;
        let table = open_table(&*file, files.identity(self.file))?;
        let source = files.cache().source(file.clone());
        let bytes = table.charge() as u64 + HANDLE_BYTES;
        let set = files.open_tables();
        let (charge, stays) = match files.account().charge_or_evict(bytes) {
            Some(charge) => (charge, true),
            None => (files.account().charge_over(bytes), false),
        };
        let open = Arc::new(OpenTable::new((table, file), source, charge, &set.of));
        if stays {
            self.used.store(true, Ordering::Relaxed);
            self.open.store(Some(open.clone()));
            set.add(self);
        }
        Ok(open)
    }
}
