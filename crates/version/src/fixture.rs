//! What the unit tests of this crate are made in.

use thermocline_base::CfId;

use crate::edit::{Change, NextIds, VersionEdit};
use crate::state::State;
use crate::table::{Level, Place};

/// Level `level` of the default family.
pub(crate) fn at(level: u8) -> Place {
    Place::new(CfId(0), Level(level))
}

/// A database with the default family, ids for files below 1,000, and these changes, in one edit: so
/// it does not matter how its tables came there.
pub(crate) fn state(changes: impl IntoIterator<Item = Change>) -> State {
    let mut state = State::default();
    let mut edit = VersionEdit::new()
        .with(Change::Created {
            db_id: [1; 16],
            region_id: [2; 16],
        })
        .with(Change::ColumnFamilyCreated {
            id: 0,
            name: "default".into(),
        })
        .with(Change::NextIds(NextIds {
            cf: 1,
            file: 1000,
            ..NextIds::default()
        }));
    edit.changes.extend(changes);
    state.apply(&edit).unwrap();
    state
}
