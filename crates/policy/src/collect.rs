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
    /// Whether it has more than `percent` bytes for each hundred that are alive.
    fn is_past(&self, percent: u64) -> bool {
        u128::from(self.bytes) * 100 > u128::from(self.live) * u128::from(percent)
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

/// Bytes for each hundred that are alive, with `part` percent of the garbage that a user allows.
fn with_garbage(percent_max: u64, part: u64) -> u64 {
    100 + percent_max.saturating_sub(100) * part / 100
}

/// How many bytes have to go before `files` have so many for each hundred that are alive.
fn excess(files: &[BlobFile], percent: u64) -> u64 {
    let all: u64 = files.iter().map(|file| file.bytes).sum();
    let live: u64 = files.iter().map(|file| file.live).sum();
    let most = u128::from(live) * u128::from(percent) / 100;
    all.saturating_sub(u64::try_from(most).unwrap_or(u64::MAX))
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
/// has room.
pub fn limits(live: u64, percent_max: u64) -> Limits {
    let allowed = allowed(live, percent_max);
    let job = of_one_job(allowed);
    let soft = allowed / 100 * GARBAGE_BEGINS_PERCENT;
    Limits {
        soft: soft.min(u64::MAX - 1),
        hard: allowed.saturating_sub(job).max(soft.saturating_add(job)),
    }
}

/// Whether some of `files` would be victims.
pub fn is_due(files: &[BlobFile], percent_max: u64) -> bool {
    excess(files, with_garbage(percent_max, GARBAGE_BEGINS_PERCENT)) > 0
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
    let percent = with_garbage(percent_max, GARBAGE_BEGINS_PERCENT);
    let most = u128::from(live) * u128::from(percent) / 100;
    let left = u64::try_from(most).unwrap_or(u64::MAX).saturating_sub(all);
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
    let percent = with_garbage(percent_max, GARBAGE_ENDS_PERCENT);
    let (mut excess, mut moved) = (excess(files, percent), 0u64);
    let past = files.iter().filter(|file| file.is_past(percent));
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn files() -> impl Strategy<Value = Vec<BlobFile>> {
        let file = (0u64..1000, 0u64..=100);
        prop::collection::vec(file, 0..12).prop_map(|files| {
            let files = files.into_iter().enumerate();
            let file = |(n, (bytes, percent)): (usize, (u64, u64))| BlobFile {
                file: FileId(n as u64 + 1),
                bytes,
                live: bytes * percent / 100,
            };
            files.map(file).collect()
        })
    }

    proptest! {
        /// Collecting the victims, one after the other, ends where nothing is due, and moves no file that has no
        /// garbage.
        #[test]
        fn collecting_victims_brings_the_whole_below_the_limit(files in files(), most in 101u64..300) {
            let mut left = files;
            let mut rounds = 0;
            while is_due(&left, most) {
                let victims = victims(&left, most, Moves::ALL);
                prop_assert!(!victims.is_empty());
                for victim in victims {
                    let at = left.iter().position(|file| file.file == victim).unwrap();
                    prop_assert!(left[at].garbage() > 0);
                    left[at].bytes = left[at].live;
                }
                rounds += 1;
                prop_assert!(rounds <= 1);
            }
            let all: u64 = left.iter().map(|file| file.bytes).sum();
            let live: u64 = left.iter().map(|file| file.live).sum();
            prop_assert!(all * 100 <= live * most);
        }

        /// What is left alone has a smaller share of garbage than each victim.
        #[test]
        fn the_emptiest_files_are_chosen(files in files(), most in 101u64..300) {
            let chosen = victims(&files, most, Moves::ALL);
            let is_chosen = |file: &&BlobFile| chosen.binary_search(&file.file).is_ok();
            for victim in files.iter().filter(is_chosen) {
                for other in files.iter().filter(|file| !is_chosen(file)) {
                    prop_assert!(victim.live * other.bytes <= other.live * victim.bytes);
                }
            }
        }

        /// Where there is less room less is chosen, of those that would be, or what is smaller and less empty.
        #[test]
        fn what_is_alive_in_victims_fits_into_the_room(files in files(), room in 0u64..2000) {
            let chosen = victims(&files, 130, Moves { room, ..Moves::ALL });
            let of = files.iter().filter(|file| chosen.contains(&file.file));
            let live: u64 = of.map(|file| file.live).sum();
            prop_assert!(live <= room);
            let all = victims(&files, 130, Moves::ALL);
            let fits = |file: &BlobFile| all.contains(&file.file) && file.live <= room;
            prop_assert!(!chosen.is_empty() || !files.iter().any(fits));
        }
    }

    proptest! {
        /// A job ends with the file with which it has enough; one job after the other comes to where nothing is due.
        #[test]
        fn short_jobs_come_to_the_same_end(files in files(), most in 101u64..300, enough in 1u64..2000) {
            let mut left = files;
            let mut rounds = 0;
            while is_due(&left, most) {
                let chosen = victims(&left, most, Moves { enough, ..Moves::ALL });
                prop_assert!(!chosen.is_empty());
                let mut moved: Vec<u64> = Vec::new();
                for victim in chosen {
                    let at = left.iter().position(|file| file.file == victim).unwrap();
                    moved.push(left[at].live);
                    left[at].bytes = left[at].live;
                }
                let last = moved.iter().max().unwrap();
                prop_assert!(moved.iter().sum::<u64>() < enough + last);
                rounds += 1;
                prop_assert!(rounds <= left.len());
            }
        }

        /// Nobody is held back before collection is due. Where writers are slowest, the allowed garbage still has room
        /// for one job, unless so little is allowed that no job is as short.
        #[test]
        fn writers_are_held_back_once_collection_is_due(live in 0u64..1 << 50, most in 101u64..100_000) {
            let Limits { soft, hard } = limits(live, most);
            let allowed = allowed(live, most);
            let file = |garbage| [BlobFile { file: FileId(1), bytes: live + garbage, live }];
            // But for what is lost where numbers are divided.
            prop_assert!(is_due(&file(soft + live / 100 + 1), most));
            prop_assert!(soft < hard && soft <= allowed);
            if allowed >= MOVED_PARTS * MOVED_BYTES_MIN {
                prop_assert!(hard + of_one_job(allowed) <= allowed);
            }
        }
    }

    #[test]
    fn what_moves_is_enough_for_all_tables_and_has_room_below_the_limit() {
        let enough = |live: u64, (tables, bytes)| {
            let file = BlobFile {
                file: FileId(1),
                bytes: live,
                live,
            };
            let referring = Referring { tables, bytes };
            Moves::by_tables(&[file], 130, (referring, 7)).enough
        };
        assert_eq!(enough(0, (9, 0)), MOVED_BYTES_MIN);
        let allowed = 640_000_000 * 30 / 100;
        let part = allowed / MOVED_PARTS;
        assert_eq!(enough(640_000_000, (1, 5)), part);
        assert_eq!(enough(640_000_000, (1, part + 1)), part + 1);
        assert_eq!(enough(640_000_000, (1, 1 << 40)), allowed / 4);
        assert_eq!(enough(640_000_000, (99, 1 << 20)), allowed / 4);
        assert_eq!(enough(1 << 50, (1, 0)), MOVED_BYTES_MAX);
        assert_eq!(enough(1 << 50, (40, 1 << 20)), 40 * MOVED_BYTES_MAX);
    }

    proptest! {
        /// What is joined is garbage for a moment, and has nothing collected.
        #[test]
        fn copies_make_no_collection_due(files in files(), most in 101u64..300) {
            // Files are large here, so that the shortest job is nothing beside them.
            let large = |file: &BlobFile| BlobFile {
                bytes: file.bytes << 30,
                live: file.live << 30,
                ..*file
            };
            let mut files: Vec<BlobFile> = files.iter().map(large).collect();
            let room = room_for_copies(&files, most);
            if !is_due(&files, most) && room > MOVED_BYTES_MIN {
                files.push(BlobFile { file: FileId(1 << 20), bytes: room, live: 0 });
                prop_assert!(!is_due(&files, most));
            }
        }

        /// However small a store is, and however much garbage there is, copies do not fill what writers may still write.
        #[test]
        fn copies_do_not_stop_writers(live in 0u64..1 << 30, percent in 0u64..60, most in 101u64..300) {
            let bytes = live + live / 100 * percent;
            let files = [BlobFile { file: FileId(1), bytes, live }];
            let (room, Limits { soft, hard }) = (room_for_copies(&files, most), limits(live, most));
            let garbage = bytes - live;
            // But for what is lost where numbers are divided.
            let begins = soft + live / 100 + 100;
            prop_assert!(room == 0 || garbage + room <= begins.max(MOVED_BYTES_MIN), "{room}");
            prop_assert!(begins.max(MOVED_BYTES_MIN) <= hard + live / 100 + 100);
        }
    }

    #[test]
    fn nothing_is_copied_where_all_stays() {
        let file = BlobFile {
            file: FileId(1),
            bytes: 1 << 40,
            live: 1 << 40,
        };
        assert_eq!(room_for_copies(&[file], ALL_STAYS_PERCENT), 0);
        assert!(room_for_copies(&[file], ALL_STAYS_PERCENT - 1) > 0);
    }

    #[test]
    fn limits_of_nothing_and_of_all_there_is() {
        for (live, most) in [(0, 130), (u64::MAX, 130), (u64::MAX, 1_000_000)] {
            let Limits { soft, hard } = limits(live, most);
            assert!(soft < hard, "{live} {most}");
        }
    }

    #[test]
    fn what_moves_has_room_below_the_limit() {
        let file = |n, live| BlobFile {
            file: FileId(n),
            bytes: 100,
            live,
        };
        // 200 bytes for 160 are 125 for each hundred: less than the limit, and more than where it begins.
        assert_eq!(
            victims(&[file(1, 100), file(2, 60)], 130, Moves::ALL),
            [FileId(2)]
        );
        assert_eq!(victims(&[file(1, 100), file(2, 60)], 140, Moves::ALL), []);
    }

    #[test]
    fn a_file_without_anything_alive_counts_as_garbage_alone() {
        let file = |n, bytes, live| BlobFile {
            file: FileId(n),
            bytes,
            live,
        };
        assert_eq!(
            victims(
                &[file(1, 10, 0)],
                1_000_000,
                Moves {
                    room: 0,
                    ..Moves::ALL
                }
            ),
            [FileId(1)]
        );
        assert_eq!(victims(&[file(1, 0, 0)], 101, Moves::ALL), []);
        assert_eq!(victims(&[], 101, Moves::ALL), []);
    }
}
