//! Which blob files are collected: those whose garbage is past what a user allows.
//!
//! # Vocabulary
//! - A value in a blob file is *alive* while a table refers to it, and *garbage* from the edit on that takes the last such
//!   reference away. Both are counted in the manifest, per file, by the edits themselves (`version`), so that the counts are
//!   as durable as what they count.
//! - A **victim** is a file whose values move out of it, as far as they are alive.
//!
//! # What is chosen
//! Let there be `live` bytes alive, and let a user allow `p` bytes for each hundred of them. Collection begins where the garbage that
//! this allows has no more room than for what the next flush brings, and for what one job moves; but with no more of it than
//! [`GARBAGE_BEGINS_PERCENT`], and no less than [`GARBAGE_BEGINS_PERCENT_MIN`]. The files
//! with the largest share of garbage come first, as each byte that is moved out of them frees most; and as
//! many are chosen as leave two thirds of that.
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
//!    would move everything that is to move, and meanwhile as much would become garbage. So a job moves values out of the emptiest
//!    victims of its tables, and ends with the file with which it has enough ([`of_job`]); and all that run at a time have an eighth of what
//!    is allowed there twice ([`Copies`]).
//! 7. *Writers wait for it.* From where collection begins, garbage is a debt ([`limits`]): a limit that only the
//!    background keeps is none for as long as writers are faster.
//!
//! # Alternatives
//! - *Looking up each value's key*, file by file, costs a read of the tree for each value and writes references through the
//!   commit path. Tables know already what they refer to, and a compaction reads their keys in order.
//! - *All files past a share of garbage*, as BlobDB and Titan do, bounds no space: one limit on the whole lets users
//!   say what they pay.
//! - *Copies under way as a debt of writers*, and what waits in persistent memory: in the model (`simulate::apart`) writers come to nine
//!   tenths, or to half, and the most that there is of the SSD stays as it was. What is sealed is flushed whoever waits.
//! - *Every job moves the victims' values that it reads.* A merge of level 0, which tells what is garbage, then waits
//!   for values to be read and written. Those cost a hundred times as much as the tables that are written once less.

use std::cmp::Ordering;

use thermocline_base::{CfId, FileId};

use crate::pressure::Limits;
use crate::tuning::{
    ALL_STAYS_PERCENT, GARBAGE_BEGINS_PERCENT, GARBAGE_BEGINS_PERCENT_MIN, GARBAGE_ENDS_PERCENT,
    MOVED_BYTES_MAX, MOVED_BYTES_MIN, MOVED_PARTS,
};

pub mod small;

/// What a user allows, and what a flush brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// Bytes that blob files may have for each hundred that are alive.
    pub percent_max: u64,
    /// Bytes of values that a flush brings, about. They lie beside those that they overwrite until they are named, and those are
    /// garbage then. That all of them overwrite something is not known, and is thought.
    pub flush_bytes: u64,
}

impl Allowance {
    /// Of a store into which nothing is written.
    pub fn at_rest(percent_max: u64) -> Allowance {
        Allowance {
            percent_max,
            flush_bytes: 0,
        }
    }

    /// At so many percent of the garbage that is allowed collection begins where so much is alive.
    fn begins(&self, live: u64) -> u64 {
        let allowed = allowed(live, self.percent_max);
        let job = (allowed / MOVED_PARTS).min(MOVED_BYTES_MAX);
        let left = allowed.saturating_sub(self.flush_bytes.saturating_add(job));
        let percent = (u128::from(left) * 100).checked_div(u128::from(allowed));
        let percent = percent.and_then(|percent| u64::try_from(percent).ok());
        let percent = percent.unwrap_or(GARBAGE_BEGINS_PERCENT);
        percent.clamp(GARBAGE_BEGINS_PERCENT_MIN, GARBAGE_BEGINS_PERCENT)
    }

    /// There may be so many bytes for each [`OF`] where collection begins.
    fn most_before(&self, live: u64) -> u64 {
        with_garbage(self.percent_max, self.begins(live))
    }

    /// And so many where it ends.
    fn most_behind(&self, live: u64) -> u64 {
        let percent = self.begins(live) * GARBAGE_ENDS_PERCENT / GARBAGE_BEGINS_PERCENT;
        with_garbage(self.percent_max, percent)
    }
}

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

    /// Which of two has the smaller share alive; of equal ones the older.
    fn emptier(&self, other: &BlobFile) -> Ordering {
        let share = |of: &BlobFile, other: &BlobFile| u128::from(of.live) * u128::from(other.bytes);
        let shares = share(self, other).cmp(&share(other, self));
        shares.then(self.file.cmp(&other.file))
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

/// Bytes of all these, and those of them that are alive.
fn sums(files: &[BlobFile]) -> (u64, u64) {
    let all = files.iter().map(|file| file.bytes);
    let live = files.iter().map(|file| file.live);
    // A manifest may say of files what it likes.
    let sum = u64::saturating_add;
    (all.fold(0, sum), live.fold(0, sum))
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

/// What is there twice while jobs move values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copies {
    /// So many bytes one job moves, about.
    pub job: u64,
    /// And all that run at the same time.
    pub all: u64,
}

impl Copies {
    /// Where nobody counts them.
    pub const ALL: Copies = Copies {
        job: u64::MAX,
        all: u64::MAX,
    };

    /// Where so many bytes are alive.
    pub fn of(live: u64, percent_max: u64) -> Copies {
        let allowed = allowed(live, percent_max);
        let job = of_one_job(allowed);
        Copies {
            job,
            all: (allowed / MOVED_PARTS).max(job),
        }
    }

    /// What a job moves that writes tables of so many bytes anew: as much as those have at least, so that they are worth it.
    pub fn of_job(&self, table_bytes: u64) -> u64 {
        self.job.max(table_bytes)
    }

    /// Whether another job may begin beside some that move so much.
    ///
    /// ```
    /// use thermocline_policy::collect::Copies;
    /// let copies = Copies { job: 32, all: 77 };
    /// assert_eq!([0, 32, 64].map(|moving| copies.let_begin(moving)), [true, true, false]);
    /// ```
    pub fn let_begin(&self, moving: u64) -> bool {
        moving == 0 || moving.saturating_add(self.job) <= self.all
    }
}

/// Where garbage holds writers back while `live` bytes are alive: from where collection begins, to where what one job moves just
/// has room. Nowhere, where all stays.
pub fn limits(live: u64, allowance: Allowance) -> Limits {
    if !lets_values_move(allowance.percent_max) {
        return Limits::NONE;
    }
    let allowed = allowed(live, allowance.percent_max);
    let job = of_one_job(allowed);
    let soft = most_of(live, allowance.most_before(live) - OF);
    Limits {
        soft: soft.min(u64::MAX - 1),
        hard: allowed.saturating_sub(job).max(soft.saturating_add(job)),
    }
}

/// Whether some of `files` would be victims.
pub fn is_due(files: &[BlobFile], allowance: Allowance) -> bool {
    let (all, live) = sums(files);
    lets_values_move(allowance.percent_max) && all > most_of(live, allowance.most_before(live))
}

/// Whether users let values move at all.
pub fn lets_values_move(percent_max: u64) -> bool {
    percent_max < ALL_STAYS_PERCENT
}

/// As many bytes as may be there twice for another reason than garbage: with them as garbage, too, collection does not begin, or there
/// is no more of both than the shortest job moves. So they bring no writer to where garbage holds him back most ([`limits`]).
pub fn room_for_copies(files: &[BlobFile], allowance: Allowance) -> u64 {
    if !lets_values_move(allowance.percent_max) {
        return 0;
    }
    let (all, live) = sums(files);
    let left = most_of(live, allowance.most_before(live)).saturating_sub(all);
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
        let (_, live) = sums(files);
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
/// use thermocline_policy::collect::{BlobFile, Allowance, Moves, victims};
/// let allowance = Allowance::at_rest(130);
/// let file = |n, live| BlobFile { file: FileId(n), bytes: 100, live };
/// assert_eq!(victims(&[file(1, 100), file(2, 90)], allowance, Moves::ALL), []);
/// let files = [file(1, 100), file(2, 20), file(3, 95)];
/// assert_eq!(victims(&files, allowance, Moves::ALL), [FileId(2)]);
/// assert_eq!(victims(&files, allowance, Moves { room: 19, ..Moves::ALL }), []);
/// ```
pub fn victims(files: &[BlobFile], allowance: Allowance, moves: Moves) -> Vec<FileId> {
    if !is_due(files, allowance) {
        return Vec::new();
    }
    let (all, live) = sums(files);
    let most = allowance.most_behind(live);
    let (mut excess, mut moved) = (all.saturating_sub(most_of(live, most)), 0u64);
    let past = files.iter().filter(|file| file.is_past(most));
    let mut past: Vec<&BlobFile> = past.collect();
    past.sort_by(|a, b| a.emptier(b));
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

/// Out of which victims a job moves values, by number: of those to which its tables refer the emptiest, until so many `bytes` move. `own` has
/// each of them, and the bytes of values that those tables have there.
///
/// ```
/// use thermocline_base::FileId;
/// use thermocline_policy::collect::{BlobFile, of_job};
/// let own = |n, live| (BlobFile { file: FileId(n), bytes: 100, live }, live);
/// let of = |bytes| of_job(vec![own(1, 60), own(2, 20), own(3, 40)], bytes);
/// assert_eq!([of(1), of(20), of(21)], [vec![FileId(2)], vec![FileId(2)], vec![FileId(2), FileId(3)]]);
/// assert_eq!(of(61).len(), 3);
/// ```
pub fn of_job(mut own: Vec<(BlobFile, u64)>, bytes: u64) -> Vec<FileId> {
    own.sort_by(|(a, _), (b, _)| a.emptier(b));
    let mut moved = 0u64;
    let chosen = own.iter().take_while(|(_, own)| {
        let has_enough = moved >= bytes;
        moved = moved.saturating_add(*own);
        !has_enough
    });
    let mut chosen: Vec<FileId> = chosen.map(|(file, _)| file.file).collect();
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests;
