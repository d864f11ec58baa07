//! Which blob files are collected: those whose garbage is past what a user allows.
//!
//! # Vocabulary
//! - A value in a blob file is *alive* while a table refers to it, and *garbage* from the edit on that takes the last such
//!   reference away. Both are counted in the manifest, per file, by the edits themselves (`version`), so that the counts are
//!   as durable as what they count.
//! - A **victim** is a file whose values move out of it, as far as they are alive.
//!
//! # What is chosen
//! Let there be `live` bytes alive, and let a user allow `p` bytes for each hundred of them. Collection begins where
//! [`GARBAGE_BEGINS_PERCENT`] of the garbage that this allows is there, so that what moves has room below the limit; the files
//! with the largest share of garbage come first, as each byte that is moved out of them frees most; and as
//! many are chosen as leave [`GARBAGE_ENDS_PERCENT`].
//!
//! 1. *Only what pays.* A file is chosen only if its own garbage is past where it ends. If no file's is, the whole is not.
//! 2. *It ends.* A collection makes no garbage but in its victims, and each job takes references to those away. So without
//!    new data a state is reached in which nothing is chosen.
//! 3. *What was begun goes on.* A victim that some values have left has less that is alive. So it comes first, now or
//!    when collection begins again.
//! 4. *Many at a time.* To free a file, all tables that refer to it are written anew. Those may be all tables that
//!    there are, even if the file is as small as a flush. So more files are chosen than the moment needs: as many as
//!    are worth writing those tables for ([`Moves::by_tables`]).
//! 5. *What moves has room.* Until the last table has let go of a victim, the values that moved out of it are there
//!    twice. So everything that is alive in the victims must fit into the free room. A value that moves takes as much
//!    from that room as from what is still to move: what was chosen stays within the room.
//! 6. *Jobs are short*, where tables are. An overwritten value is known to be garbage once the tables of level 0 are
//!    merged with those below, and that merge waits for a job that has them. In a store with few bytes of keys one job
//!    would move everything that is to move, and meanwhile as much would become garbage.
//! 7. *Writers wait for it.* From where collection begins, garbage is a debt ([`limits`]): a limit that only the
//!    background keeps is none for as long as writers are faster.
//!
//! # Alternatives
//! - *Looking up each value's key*, file by file, costs a read of the tree for each value and writes references through the
//!   commit path. Tables know already what they refer to, and a compaction reads their keys in order.
//! - *All files past a share of garbage*, as BlobDB and Titan do, bounds no space: one limit on the whole lets users
//!   say what they pay.
//! - *Every job moves the victims' values that it reads.* A merge of level 0, which tells what is garbage, then waits
//!   for values to be read and written. Those cost a hundred times as much as the tables that are written once less.

use thermocline_base::{CfId, FileId};

use crate::pressure::Limits;
use crate::tuning::{
    ALL_STAYS_PERCENT, GARBAGE_BEGINS_PERCENT, GARBAGE_ENDS_PERCENT, MOVED_BYTES_MAX,
    MOVED_BYTES_MIN, MOVED_PARTS,
};

pub mod small;

/// What is known of a blob file whose references all are in tables on the SSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobFile {
    /// Its number.
    pub file: FileId,
    /// Bytes of values in it.
    pub bytes: u64,
    /// Bytes of those to which tables refer.
    pub live: u64,
}

impl BlobFile {
    /// Whether it has more than `most` bytes for each [`OF`] that are alive.
    fn is_past(&self, most: u64) -> bool {
        u128::from(self.bytes) * u128::from(OF) > u128::from(self.live) * u128::from(most)
    }

    /// Bytes of values to which nothing refers.
    pub fn garbage(&self) -> u64 {
        self.bytes.saturating_sub(self.live)
    }
}

/// What a table refers to in victims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refers {
    /// The table's family.
    pub family: CfId,
    /// Its level.
    pub level: usize,
    /// Its place there.
    pub place: usize,
    /// Bytes of values in victims; 1 of a part of a table, which does not say what it refers to and is written anew so that it does.
    pub bytes: u64,
}

/// Parts of garbage are reckoned in percent of a percent of what is alive: in percent some of what a user allows would be lost, and with the
/// least that he may all of it.
const OF: u64 = 100 * 100;

/// Bytes for each [`OF`] that are alive, with `part` percent of the garbage that a user allows.
fn with_garbage(percent_max: u64, part: u64) -> u64 {
    OF + percent_max.saturating_sub(100).saturating_mul(part)
}

/// So many bytes are `most` for each [`OF`] of `live` bytes.
fn most_of(live: u64, most: u64) -> u64 {
    let bytes = u128::from(live) * u128::from(most) / u128::from(OF);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// How many bytes have to go before `files` have `most` for each [`OF`] that are alive.
fn excess(files: &[BlobFile], most: u64) -> u64 {
    let all: u64 = files.iter().map(|file| file.bytes).sum();
    let live: u64 = files.iter().map(|file| file.live).sum();
    all.saturating_sub(most_of(live, most))
}

/// So many bytes of garbage are allowed while `live` bytes are alive.
fn allowed(live: u64, percent_max: u64) -> u64 {
    let more = u128::from(live) * u128::from(percent_max.saturating_sub(100)) / 100;
    u64::try_from(more).unwrap_or(u64::MAX)
}

/// The tables that refer to values: all of them may have to be written anew to free a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Referring {
    /// How many they are.
    pub tables: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// As many bytes one job moves, about, where so much garbage is allowed.
fn of_one_job(allowed: u64) -> u64 {
    (allowed / MOVED_PARTS).clamp(MOVED_BYTES_MIN, MOVED_BYTES_MAX)
}

/// And as many all jobs: victims stay until the last table has let go of them. So these bytes fit between where
/// collection begins and what is allowed.
fn enough(allowed: u64, referring: Referring) -> u64 {
    let one = of_one_job(allowed);
    let most = allowed / 100 * (100 - GARBAGE_BEGINS_PERCENT);
    let all = one.saturating_mul(referring.tables).max(referring.bytes);
    all.clamp(one, most.max(one))
}

/// Where garbage holds writers back while `live` bytes are alive: from where collection begins, to where what one job moves just
/// has room. Nowhere, where all stays.
pub fn limits(live: u64, percent_max: u64) -> Limits {
    if !lets_values_move(percent_max) {
        return Limits::NONE;
    }
    let allowed = allowed(live, percent_max);
    let job = of_one_job(allowed);
    let soft = most_of(live, with_garbage(percent_max, GARBAGE_BEGINS_PERCENT) - OF);
    Limits {
        soft: soft.min(u64::MAX - 1),
        hard: allowed.saturating_sub(job).max(soft.saturating_add(job)),
    }
}

/// Whether some of `files` would be victims.
pub fn is_due(files: &[BlobFile], percent_max: u64) -> bool {
    let begins = with_garbage(percent_max, GARBAGE_BEGINS_PERCENT);
    lets_values_move(percent_max) && excess(files, begins) > 0
}

/// Whether users let values move at all.
pub fn lets_values_move(percent_max: u64) -> bool {
    percent_max < ALL_STAYS_PERCENT
}

/// As many bytes as may be there twice for another reason than garbage: with them as garbage, too, collection does not begin, or there
/// is no more of both than the shortest job moves. So they bring no writer to where garbage holds him back most ([`limits`]).
pub fn room_for_copies(files: &[BlobFile], percent_max: u64) -> u64 {
    if !lets_values_move(percent_max) {
        return 0;
    }
    let all: u64 = files.iter().map(|file| file.bytes).sum();
    let live: u64 = files.iter().map(|file| file.live).sum();
    let begins = with_garbage(percent_max, GARBAGE_BEGINS_PERCENT);
    let left = most_of(live, begins).saturating_sub(all);
    left.max(MOVED_BYTES_MIN.saturating_sub(all.saturating_sub(live)))
}

/// How much is to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moves {
    /// So many bytes at most.
    pub room: u64,
    /// With so many it has enough.
    pub enough: u64,
}

impl Moves {
    /// As much as there is.
    pub const ALL: Moves = Moves {
        room: u64::MAX,
        enough: u64::MAX,
    };

    /// What moves out of victims among `files`, one table after the other, where there is so much `room`.
    pub fn by_tables(
        files: &[BlobFile],
        percent_max: u64,
        (referring, room): (Referring, u64),
    ) -> Moves {
        let live = files.iter().map(|file| file.live).sum();
        Moves {
            room,
            enough: enough(allowed(live, percent_max), referring),
        }
    }
}

/// The victims, by number.
///
/// ```
/// use thermocline_base::FileId;
/// use thermocline_policy::collect::{BlobFile, Moves, victims};
/// let file = |n, live| BlobFile { file: FileId(n), bytes: 100, live };
/// assert_eq!(victims(&[file(1, 100), file(2, 90)], 130, Moves::ALL), []);
/// let files = [file(1, 100), file(2, 20), file(3, 95)];
/// assert_eq!(victims(&files, 130, Moves::ALL), [FileId(2)]);
/// assert_eq!(victims(&files, 130, Moves { room: 19, ..Moves::ALL }), []);
/// ```
pub fn victims(files: &[BlobFile], percent_max: u64, moves: Moves) -> Vec<FileId> {
    if !is_due(files, percent_max) {
        return Vec::new();
    }
    let most = with_garbage(percent_max, GARBAGE_ENDS_PERCENT);
    let (mut excess, mut moved) = (excess(files, most), 0u64);
    let past = files.iter().filter(|file| file.is_past(most));
    let mut past: Vec<&BlobFile> = past.collect();
    past.sort_by(|a, b| {
        let share = |of: &BlobFile, other: &BlobFile| u128::from(of.live) * u128::from(other.bytes);
        share(a, b).cmp(&share(b, a)).then(a.file.cmp(&b.file))
    });
    let mut chosen = Vec::new();
    for file in past {
        if excess == 0 || moved >= moves.enough {
            break;
        }
        let more = moved.saturating_add(file.live);
        if more <= moves.room {
            moved = more;
            excess = excess.saturating_sub(file.garbage());
            chosen.push(file.file);
        }
    }
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests;
