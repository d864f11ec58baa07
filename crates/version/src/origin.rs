//! Which database wrote a file.
//!
//! Every checksum of a table or blob file is seeded with the id of the database that wrote it and with
//! the file's own (`sst::identity`). A copy of a database (a checkpoint, a restored backup) takes files
//! over as they are, and is a database of its own all the same: it has an id of its own, so that nothing
//! that either of the two writes later is taken for the other's, though both number their files on from
//! the same one. So a copy remembers whose files it has taken over:
//!
//! 1. All files below the id from which it numbers on are the earlier database's, all others its own.
//!    (File ids are never reused, so there is no third kind.)
//! 2. That database may have been a copy itself: then there are several bounds, and each file belongs
//!    to the first whose bound lies above it.

use thermocline_base::FileId;

/// Which database wrote each file of a database. Cloning copies a few words for each time the database
/// was copied.
///
/// ```
/// use thermocline_base::FileId;
/// use thermocline_version::{Change, State, VersionEdit};
/// let mut state = State::default();
/// state.apply(&Change::Created { db_id: [1; 16], region_id: [2; 16] }.into())?;
/// state.apply(&Change::NextIds(thermocline_version::NextIds { file: 9, ..state.next_ids() }).into())?;
/// let copy = state.copied(state.version().clone(), vec![], [3; 16], [4; 16])?;
/// let origins = copy.origins().unwrap();
/// assert_eq!(origins.of(FileId(8)), [1; 16]);
/// assert_eq!(origins.of(FileId(9)), [3; 16]);
/// # Ok::<(), thermocline_base::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origins {
    /// The database itself.
    own: [u8; 16],
    /// Bounds, ascending, and whose files lie below each.
    inherited: Vec<(u64, [u8; 16])>,
}

impl Origins {
    pub(crate) fn new(own: [u8; 16], inherited: &[(u64, [u8; 16])]) -> Origins {
        Origins {
            own,
            inherited: inherited.to_vec(),
        }
    }

    /// The id of the database that wrote `file`.
    pub fn of(&self, file: FileId) -> [u8; 16] {
        let above = self
            .inherited
            .partition_point(|(below, _)| *below <= file.0);
        self.inherited
            .get(above)
            .map_or(self.own, |(_, db_id)| *db_id)
    }
}
