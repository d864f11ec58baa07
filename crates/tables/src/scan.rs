//! The ordered index of level 0, read from its tables when a store is opened.

use std::collections::BTreeSet;
use std::sync::Arc;

use thermocline_base::{FileId, Result};
use thermocline_memtable::Direction;
use thermocline_sst::TableKeys;
use thermocline_version::{Level, Version};

use crate::ahead::TableBlocks;
use crate::files::TableFiles;
use crate::open::Handle;

/// Has the keys of the tables that level 0 of `version` has in files kept, the newest first, if the store wants them and as far as
/// there is room. A table that cannot be read has none: whoever reads it is told why.
pub fn read_level0_keys(version: &Version, files: &Arc<TableFiles>) {
    let mut seen = BTreeSet::new();
    for (place, table) in version.tables() {
        let room = files.keys.room();
        if room == 0 {
            return;
        }
        let in_file = version.pm_table(table.file).is_none();
        // A file may stand there in several parts.
        if place.level > Level::ZERO || !in_file || !seen.insert(table.file) {
            continue;
        }
        let kept = match keys_of(table.file, files, room) {
            Ok(Some(keys)) => files.keys.keep(table.file, keys, files.account()),
            Ok(None) => false,
            Err(_) => continue,
        };
        if !kept {
            // What was read of it was read in vain, and of others it would be.
            return;
        }
    }
}

fn keys_of(file: FileId, files: &Arc<TableFiles>, most: u64) -> Result<Option<TableKeys>> {
    let open = Handle::new(file).open(files)?;
    let table = open.table.clone();
    // Nobody goes on from here: it says nothing of how far cursors go.
    let way = (Direction::Forward, false);
    let blocks = TableBlocks::new(open, files.clone(), Level::ZERO, way);
    TableKeys::read(&blocks, &table, most)
}
