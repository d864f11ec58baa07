//! What unit tests are made in: databases, and tables that nobody has written. This crate's own tests use it, and, with
//! the feature `testing`, those of crates above.

use thermocline_base::{CfId, FileId, KeyRange, SeqNo};

use crate::edit::{Change, NextIds, VersionEdit};
use crate::state::State;
use crate::table::{Level, Place, TableRef};

/// Level `level` of the default family.
pub fn at(level: u8) -> Place {
    Place::new(CfId(0), Level(level))
}

/// A table of the keys from `first` to `last` and of these seqnos: 100 entries without deletes, in 1,000 bytes.
pub fn table<K: AsRef<[u8]>>(
    file: u64,
    (first, last): (K, K),
    (smallest, largest): (u64, u64),
) -> TableRef {
    TableRef {
        file: FileId(file),
        file_bytes: 1000,
        bytes: 1000,
        entries: 100,
        deletes: 0,
        range: KeyRange::inclusive(first, last).owned(),
        limited_below: false,
        limited_above: false,
        smallest_seqno: SeqNo(smallest),
        largest_seqno: SeqNo(largest),
        blobs: vec![],
    }
}

/// A database with the default family, ids for files below 1,000, and these changes: as [`store`] makes it.
///
/// # Panics
/// As [`store`].
pub fn state(changes: impl IntoIterator<Item = Change>) -> State {
    let next = NextIds {
        file: 1000,
        ..NextIds::default()
    };
    store(1, next, changes)
}

/// A database with so many families, of which the first is the default one, ids below those that are `next`, and these
/// changes, in one edit: so it does not matter how its tables came there.
///
/// # Panics
/// If it refuses the changes.
pub fn store(families: u16, next: NextIds, changes: impl IntoIterator<Item = Change>) -> State {
    let name = |id: u16| match id {
        0 => "default".to_string(),
        _ => id.to_string(),
    };
    let created = (0..families).map(|id| Change::ColumnFamilyCreated { id, name: name(id) });
    let mut edit = VersionEdit::new().with(Change::Created {
        db_id: [1; 16],
        region_id: [2; 16],
    });
    edit.changes.extend(created);
    edit.changes.push(Change::NextIds(NextIds {
        cf: u32::from(families),
        ..next
    }));
    edit.changes.extend(changes);
    let mut state = State::default();
    let applied = state.apply(&edit);
    applied.expect("a test makes up what can be");
    state
}
