//! What is known of the garbage in blob files, and of the tables that refer to it.
//!
//! # When is a byte dead
//! A value is needed by records in persistent memory, or by tables. Of tables each edit says how many bytes they refer to in
//! which file, so what a version says of that is exact, as durable as the version, and the same after a crash: a
//! compaction that drops a reference takes it out of the sum by the edit that installs its outputs. With the bytes of
//! values, which the edit that names the file has (`Change::BlobValues`), the rest is garbage. It is known where all
//! references are in whole tables on the SSD:
//! - *records* of memtables in the view are not counted, so that a file which one of them has noted is left alone;
//! - *tables in persistent memory* leave it before they can be written anew here, and their files wait until then;
//! - *parts of tables* refer to no bytes by their estimate: what they refer to is unknown until they are written anew. That is
//!   done as soon as it matters, since a part of a cold table would keep all files to which it refers for ever.
//!
//! A value that a snapshot alone needs is in a table, and so counts as needed.
//!
//! # What a collection does
//! `policy::collect` chooses the victims, and `policy::pick` the tables that refer to them. A job writes those anew: values
//! move out of the victims into new files (`jobs::sink`). So does a job that somebody asked for; others write references again. When the last reference is gone an edit removes the file, and it goes when no version that is held names
//! it (`blobs::remove`). A job moves as much as one job does ([`Copies`](thermocline_policy::collect::Copies)), out of the emptiest of them, and none begins beside
//! others that move as much as may be there twice. So a collection is a compaction: paced, cancelled, crash-safe and valid by the same argument. Each job looks
//! anew what the victims are, when it begins to write. If there are fewer than when it was picked, it writes what is there again, once.
//!
//! # Small files are joined
//! Where nothing is due for garbage, and a family has many small files, some of those are victims, too (`policy::collect::small` has the
//! choice, and why it ends). The same jobs move what is in them, by the same argument. The victims of a job that has begun are remembered
//! until they have gone ([`Compactions::joining`](super::state::Compactions::joining)). An open forgets them: what is left is chosen again
//! among others, or is collected, since what has moved out of it is garbage there. Nothing is joined on a full disk. Who asks for a
//! compaction of a range has no more values moved by its jobs than before; what is to be joined behind them is.
//!
//! # What it takes
//! *Of the disk*: until the last table has let go of a victim, what moved is there twice. So only so much is chosen as has room
//! ([`Picker::room_to_move`]), and a collection that finds none does not begin. On a full disk collections come behind all other
//! compactions, as what was deleted here and there in files frees no other way, and give up as those do.
//! *Of DRAM*: a long value is read whole. It is charged, and there is one at a time (`TableFiles::carry`).
//!
//! A memtable that was flushed, or a change feed, may still refer to a victim. Its file is named as long as that is so: what
//! moved is there twice for that long.
//!
//! # Where it comes to nothing
//! A job that fails is tried again, but where a value is corrupt, or the job fails a second time though there is room: its tables are
//! passed over until they are written anew for another reason, or the store is opened again, and with them the files to which they refer ([`Compactions::collection_ended`](super::state::Compactions::collection_ended)). Garbage that nothing can be done about
//! holds no writer back: what is passed over, what would be collected if there were room, and all while the last job has failed.

use std::collections::BTreeMap;

use thermocline_base::FileId;
use thermocline_catalog::View;
use thermocline_policy::collect::small::{self, Room};
use thermocline_policy::collect::{self, BlobFile, Moves, Refers};
use thermocline_policy::pick::Reason;
use thermocline_policy::tuning::MOVES_ROOM_PARTS;
use thermocline_version::{BlobBytes, TableRef, Version};

use super::counted::{of_file, referred, referring, small_ones};
use crate::store::{Common, Picker};

impl Picker {
    /// How many bytes of values may move out of blob files: those of the disk that flushes and writers can do without. 0 if
    /// nothing is to move. The caller holds no lock.
    pub fn room_to_move(&self) -> u64 {
        let compactions = &self.common.compactions;
        let is_relieving = self.pressure.is_relieving();
        // To join files makes no room.
        let joins = compactions.may_join() && !is_relieving;
        if !compactions.seems_due() && !joins {
            return 0;
        }
        let room = match is_relieving {
            true => self.pressure.room_for_jobs(),
            false => self
                .pressure
                .disk()
                .map(|disk| disk.beyond_reserve() / MOVES_ROOM_PARTS),
        };
        room.unwrap_or(u64::MAX)
    }

    /// The files out of which a job moves values that takes these tables, by number.
    pub(super) fn victims_for<'t>(
        &self,
        reason: Reason,
        tables: impl Iterator<Item = &'t TableRef>,
    ) -> Vec<FileId> {
        match reason {
            Reason::Garbage => {}
            // Who asks for a compaction wants what it frees.
            Reason::Manual if !self.pressure.is_relieving() => {}
            _ => return Vec::new(),
        }
        let room = self.room_to_move();
        // In this order: what has left the view is in tables of the version.
        let view = self.common.catalog.view_to_keep();
        let version = self.common.catalog.version();
        let at_once = reason == Reason::Manual;
        let garbage = garbage(&version, &view, &self.common, (room, at_once));
        if garbage.joins && !garbage.victims.is_empty() {
            self.common.compactions.begin_joining(&garbage.victims);
        }
        match at_once || garbage.joins {
            true => garbage.victims,
            false => garbage.victims_in(&version, tables, &self.common),
        }
    }
}

/// What is to be done about garbage.
#[derive(Default)]
struct Garbage {
    /// The victims, by number.
    victims: Vec<FileId>,
    /// Files to which parts of tables refer, and which would be victims if those needed nothing of them; by number.
    parts: Vec<FileId>,
    /// Whether victims have no garbage to speak of, and are small.
    joins: bool,
}

/// What is to be done in a version, if what moves has `room` bytes, in a job or all `at_once`: then for the sake of garbage alone. If `view` is newer than that, a file may count as a victim to
/// which a memtable refers that was flushed since.
fn garbage(
    version: &Version,
    view: &View,
    common: &Common,
    (room, at_once): (u64, bool),
) -> Garbage {
    let allowance = common.compactions.garbage_allowance;
    if !common.compactions.seems_due() {
        return match at_once {
            true => Garbage::default(),
            false => joined(version, view, common, room),
        };
    }
    let mut files = common.compactions.collectable(version);
    leave_noted(&mut files, view);
    let in_parts = referred(version, TableRef::refers_to_unknown);
    let is_in_parts = |file: &FileId| in_parts.binary_search(file).is_ok();
    let mut parts = collect::victims(&files, allowance, Moves::ALL);
    parts.retain(is_in_parts);
    files.retain(|of| !is_in_parts(&of.file));
    let moves = match at_once {
        true => Moves { room, ..Moves::ALL },
        false => Moves::by_tables(&files, allowance.percent_max, (referring(version), room)),
    };
    Garbage {
        victims: collect::victims(&files, allowance, moves),
        parts,
        joins: false,
    }
}

/// Leaves out the files that memtables have noted.
fn leave_noted(files: &mut Vec<BlobFile>, view: &View) {
    let homes = || view.memtables.iter().flat_map(|memtable| memtable.homes());
    files.retain(|of| !homes().any(|home| home.blobs().has(of.file)));
}

/// Which small files are joined, where nothing is due for garbage. Parts of tables keep theirs: what they refer to is unknown, and they
/// are not written anew for this.
fn joined(version: &Version, view: &View, common: &Common, room: u64) -> Garbage {
    let (compactions, options) = (&common.compactions, &common.options.blob);
    if room == 0 || !compactions.may_join() {
        return Garbage::default();
    }
    let mut files = compactions.movable(version);
    leave_noted(&mut files, view);
    let in_parts = referred(version, TableRef::refers_to_unknown);
    files.retain(|of| in_parts.binary_search(&of.file).is_err());
    let room = Room {
        disk: room,
        copies: collect::room_for_copies(&files, compactions.garbage_allowance),
    };
    let small = small_ones(version, &files, options.file_bytes);
    Garbage {
        victims: small::victims(&small, &compactions.joining(), room),
        parts: Vec::new(),
        joins: true,
    }
}

impl Garbage {
    /// The victims out of which a job moves values that takes these tables.
    fn victims_in<'t>(
        &self,
        version: &Version,
        tables: impl Iterator<Item = &'t TableRef>,
        common: &Common,
    ) -> Vec<FileId> {
        let (mut own, mut table_bytes): (BTreeMap<FileId, u64>, u64) = (BTreeMap::new(), 0);
        for table in tables {
            table_bytes = table_bytes.saturating_add(table.bytes);
            let is_victim = |blob: &&BlobBytes| self.victims.binary_search(&blob.file).is_ok();
            for blob in table.blobs.iter().filter(is_victim) {
                *own.entry(blob.file).or_default() += blob.bytes;
            }
        }
        let own = own.into_iter();
        let own = own.filter_map(|(file, bytes)| Some((of_file(version, file)?, bytes)));
        let most = common.compactions.copies().of_job(table_bytes);
        collect::of_job(own.collect(), most)
    }

    /// Bytes of values that a table has in victims. A part counts as one if it is to say what it has.
    fn bytes_of(&self, table: &TableRef) -> u64 {
        let is_in = |files: &[FileId], blob: &BlobBytes| files.binary_search(&blob.file).is_ok();
        let blobs = || table.blobs.iter();
        if table.refers_to_unknown() {
            return u64::from(blobs().any(|blob| is_in(&self.parts, blob)));
        }
        let in_victims = blobs().filter(|blob| is_in(&self.victims, blob));
        let bytes = in_victims.map(|blob| blob.bytes);
        bytes.fold(0, u64::saturating_add)
    }
}

/// What the tables of a version refer to in victims, if what moves has `room` bytes.
pub(super) fn refers(version: &Version, (common, room): (&Common, u64)) -> Vec<Refers> {
    let garbage = garbage(version, &common.catalog.view(), common, (room, false));
    if garbage.victims.is_empty() && garbage.parts.is_empty() {
        return Vec::new();
    }
    let mut refers = Vec::new();
    for family in version.families() {
        let levels = version.family(family).into_iter();
        for (level, tables) in levels.flat_map(|family| family.levels()) {
            for (place, table) in tables.iter().enumerate() {
                let bytes = garbage.bytes_of(table);
                if bytes > 0 {
                    refers.push(Refers {
                        family,
                        level: usize::from(level.0),
                        place,
                        bytes,
                    });
                }
            }
        }
    }
    refers
}
