//! Which small blob files are joined.
//!
//! Each flush, job and long value leaves a blob file, whatever its size. Collection looks at garbage alone, so files without any would
//! stay as they are, and become as many as there were flushes. Each takes a descriptor and an entry of the manifest, and values that
//! lie beside each other are read one by one. So where a family has more than [`SMALL_FILES`] small ones, some are *joined*: they are
//! victims as those with garbage are, and the same jobs move what is alive in them, table by table, into new files.
//!
//! # What is chosen
//! Files are taken by the bytes that are alive in them, the fewest first, and of equal ones the oldest. The first [`JOINED_FILES_MIN`]
//! or more are chosen that together have [`JOINED_SIZES`] times the bytes of the largest of them for each table that refers to some
//! of them, and one part in [`JOINED_TABLE_PARTS`] of the bytes of those tables; if none have, nothing is. Let `r` be the number of those
//! tables, `m` the bytes of the largest file, and `V ≥ 4·r·m` those of all.
//!
//! 1. *It makes fewer.* The job of a table leaves full files and one rest. So there are at most `V / full + r` new files. As `m` is less than
//!    a quarter of a full one, each of the two is at most a quarter of the files that go.
//! 2. *Each byte moves a few times.* Let the weight of a file with `s` bytes alive be `s · log2(full / s)`, 0 of larger ones. At most `r` of the new
//!    files have fewer than `2m` bytes, and so less than half of `V` lies there. All others lie in files at least twice as large as before,
//!    and lose a bit each: `V / 2` or more. Of the rest, bytes that come into a file of `x < m` bytes gain at most `x · log2(m / x)`, which is
//!    never more than 0.54 `m`, so all of them less than `0.14 V`. So each join takes `V / 3` or more of the weight away. What dies adds at most 1.45 for each byte,
//!    and each byte dies once. So all joins together move at most three times the weight of what was written, and a little for what dies:
//!    a byte moves `O(log(full / s))` times, where `s` is what its flush left.
//! 3. *Few stay.* If nothing is chosen among `n` files, then each one, in their order, has more than one part in `4·r` of the bytes of all up to it. So these
//!    grow by that part with each file, from the first byte to less than a quarter of a full file for each: `n` is [`SMALL_FILES`], or
//!    `O(r · log(n · full))`. Or more stay, and all that they have is little beside the tables that refer to them (6).
//! 4. *No size is moved back and forth.* A file that is not small is not joined, and joining makes no file larger than full ones.
//!    That values die in a file may make it small; that counts in 2.
//! 5. *What was begun goes on.* The caller remembers the victims of a job that has begun. Until the last one has gone nothing
//!    else is chosen: else those that one table has let go of, and another one has not, would stay beside what was made of them.
//! 6. *Tables are not written anew for little.* A table with many records of its own may refer to one value in each of a few files. For each
//!    byte that moves at most [`JOINED_TABLE_PARTS`] bytes of tables are written.
//!
//! # What comes first
//! Garbage does. Where collection is due the caller asks for nothing here. Until the last table has let go of a victim, what moved
//! counts as garbage in it, so only so much moves as leaves the whole below where collection begins (`collect::room_for_copies`). Nothing is
//! joined on a full disk, nor where users have all values left where they are.
//!
//! # What is left alone
//! Files of several families, and those to which a table of level 0 refers: its job would take all of its level that is older, and
//! the next compaction takes it anyway. The caller leaves out what collection does.
//!
//! # Alternatives
//! - *The oldest neighbours, whatever their sizes*: a file that is nearly large enough would be written again with each few that are
//!   tiny.
//! - *All that have less than a quarter of a full file, however large that is*: by default that is 16 MiB, so what one flush leaves and
//!   each value of some MiB would be written once more.
//! - *All small files at once*, whenever they are many, has the same fault.
//! - *One table's files alone* need no memory of what was begun. But where keys are written in no order each flush leaves values of all
//!   tables, and nothing would ever be joined.

use std::collections::{BTreeMap, BTreeSet};

use thermocline_base::{CfId, FileId};

use crate::tuning::{
    JOINED_FILES_MIN, JOINED_SIZES, JOINED_TABLE_PARTS, SMALL_BYTES_MAX, SMALL_FILES, SMALL_PARTS,
};

/// A small blob file whose values can move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Small {
    /// Its number.
    pub file: FileId,
    /// The family whose tables refer to it.
    pub family: CfId,
    /// Bytes of values to which they refer.
    pub live: u64,
    /// Those tables, and the bytes of each.
    pub tables: Vec<(FileId, u64)>,
}

/// How many bytes may move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// For which the disk has room.
    pub disk: u64,
    /// That may be there twice.
    pub copies: u64,
}

/// Whether a file with so many bytes alive is small, where one ends with `file_bytes`.
pub fn is_small(live: u64, file_bytes: u64) -> bool {
    live < SMALL_BYTES_MAX.min(file_bytes / SMALL_PARTS)
}

/// Whether so many files are small, as far as what is alive in them says it, that some family may have too many.
pub fn are_many(live: impl Iterator<Item = u64>, file_bytes: u64) -> bool {
    let small = live.filter(|live| is_small(*live, file_bytes));
    small.take(SMALL_FILES + 1).count() > SMALL_FILES
}

/// The files that are joined, by number: those of `begun`, which ascend, that are left, or else what is chosen anew.
///
/// ```
/// use thermocline_base::{CfId, FileId};
/// use thermocline_policy::collect::small::{Room, Small, victims};
/// let tables = vec![(FileId(1), 0)];
/// let small = |n| Small { file: FileId(n), family: CfId::DEFAULT, live: 100, tables: tables.clone() };
/// let files = |to: u64| (100..to).map(small).collect::<Vec<Small>>();
/// let room = Room { disk: u64::MAX, copies: u64::MAX };
/// assert_eq!(victims(&files(164), &[], room), []);
/// let chosen = victims(&files(165), &[], room);
/// assert_eq!(chosen, (100..132).map(FileId).collect::<Vec<FileId>>());
/// assert_eq!(victims(&files(110), &chosen, room).len(), 10);
/// ```
pub fn victims(files: &[Small], begun: &[FileId], room: Room) -> Vec<FileId> {
    // Both may be many: thousands, where each file has values of as many tables.
    let is_begun = |of: &&Small| begun.binary_search(&of.file).is_ok();
    let left: Vec<&Small> = files.iter().filter(is_begun).collect();
    if !left.is_empty() {
        let live = left.iter().map(|of| of.live);
        let bytes = live.fold(0, u64::saturating_add);
        return match bytes <= room.disk {
            true => by_number(&left),
            false => Vec::new(),
        };
    }
    let mut families: BTreeMap<CfId, Vec<&Small>> = BTreeMap::new();
    for of in files {
        families.entry(of.family).or_default().push(of);
    }
    let most = room.disk.min(room.copies);
    let chosen = families.into_values().find_map(|own| choose(own, most));
    chosen.unwrap_or_default()
}

fn by_number(files: &[&Small]) -> Vec<FileId> {
    let mut files: Vec<FileId> = files.iter().map(|of| of.file).collect();
    files.sort_unstable();
    files
}

/// Of a family's files those that are joined, with at most so many bytes.
fn choose(mut files: Vec<&Small>, bytes_max: u64) -> Option<Vec<FileId>> {
    if files.len() <= SMALL_FILES {
        return None;
    }
    files.sort_unstable_by_key(|of| (of.live, of.file));
    let mut tables: BTreeSet<FileId> = BTreeSet::new();
    let (mut bytes, mut table_bytes) = (0u64, 0u64);
    for (n, of) in files.iter().enumerate() {
        bytes = bytes.saturating_add(of.live);
        if bytes > bytes_max {
            return None;
        }
        for (table, own) in &of.tables {
            if tables.insert(*table) {
                table_bytes = table_bytes.saturating_add(*own);
            }
        }
        let sizes = JOINED_SIZES.saturating_mul(tables.len() as u64);
        let pays = bytes.saturating_mul(JOINED_TABLE_PARTS) >= table_bytes;
        if n + 1 >= JOINED_FILES_MIN && pays && bytes >= sizes.saturating_mul(of.live) {
            return Some(by_number(&files[..=n]));
        }
    }
    None
}

#[cfg(test)]
mod tests;
