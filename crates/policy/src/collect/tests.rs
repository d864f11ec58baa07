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
        while is_due(&left, Allowance::at_rest(most)) {
            let victims = victims(&left, Allowance::at_rest(most), Moves::ALL);
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
        let chosen = victims(&files, Allowance::at_rest(most), Moves::ALL);
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
        let chosen = victims(&files, Allowance::at_rest(130), Moves { room, ..Moves::ALL });
        let of = files.iter().filter(|file| chosen.contains(&file.file));
        let live: u64 = of.map(|file| file.live).sum();
        prop_assert!(live <= room);
        let all = victims(&files, Allowance::at_rest(130), Moves::ALL);
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
        while is_due(&left, Allowance::at_rest(most)) {
            let chosen = victims(&left, Allowance::at_rest(most), Moves { enough, ..Moves::ALL });
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
    fn writers_are_held_back_once_collection_is_due(live in 0u64..1 << 50, most in 101u64..100_000, flush_bytes in 0u64..1 << 50) {
        let allowance = Allowance { percent_max: most, flush_bytes };
        let Limits { soft, hard } = limits(live, allowance);
        let allowed = allowed(live, most);
        let file = |garbage| [BlobFile { file: FileId(1), bytes: live + garbage, live }];
        prop_assert!(!is_due(&file(soft), allowance) && is_due(&file(soft + 1), allowance));
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
        let room = room_for_copies(&files, Allowance::at_rest(most));
        if !is_due(&files, Allowance::at_rest(most)) && room > MOVED_BYTES_MIN {
            files.push(BlobFile { file: FileId(1 << 20), bytes: room, live: 0 });
            prop_assert!(!is_due(&files, Allowance::at_rest(most)));
        }
    }

    /// However small a store is, and however much garbage there is, copies do not fill what writers may still write.
    #[test]
    fn copies_do_not_stop_writers(live in 0u64..1 << 30, percent in 0u64..60, most in 101u64..300) {
        let bytes = live + live / 100 * percent;
        let files = [BlobFile { file: FileId(1), bytes, live }];
        let (room, Limits { soft, hard }) = (room_for_copies(&files, Allowance::at_rest(most)), limits(live, Allowance::at_rest(most)));
        let garbage = bytes - live;
        // But for what is lost where numbers are divided.
        let begins = soft + live / 100 + 100;
        prop_assert!(room == 0 || garbage + room <= begins.max(MOVED_BYTES_MIN), "{room}");
        prop_assert!(begins.max(MOVED_BYTES_MIN) <= hard + live / 100 + 100);
    }
}

/// A store that lacks the question counts in parts of what is alive, and moves the last value of a file with ten thousand.
#[test]
fn nothing_moves_where_all_stays_however_little_that_is() {
    let files = [BlobFile {
        file: FileId(1),
        bytes: 1 << 40,
        live: 1,
    }];
    assert!(is_due(&files, Allowance::at_rest(ALL_STAYS_PERCENT - 1)));
    assert!(!is_due(&files, Allowance::at_rest(ALL_STAYS_PERCENT)));
    assert_eq!(
        victims(&files, Allowance::at_rest(ALL_STAYS_PERCENT), Moves::ALL),
        []
    );
    assert_eq!(
        limits(1, Allowance::at_rest(ALL_STAYS_PERCENT)),
        Limits::NONE
    );
}

#[test]
fn nothing_is_copied_where_all_stays() {
    let file = BlobFile {
        file: FileId(1),
        bytes: 1 << 40,
        live: 1 << 40,
    };
    assert_eq!(
        room_for_copies(&[file], Allowance::at_rest(ALL_STAYS_PERCENT)),
        0
    );
    assert!(room_for_copies(&[file], Allowance::at_rest(ALL_STAYS_PERCENT - 1)) > 0);
}

#[test]
fn limits_of_nothing_and_of_all_there_is() {
    for (live, most) in [(0, 130), (u64::MAX, 130), (u64::MAX, ALL_STAYS_PERCENT - 1)] {
        let Limits { soft, hard } = limits(live, Allowance::at_rest(most));
        assert!(soft < hard, "{live} {most}");
    }
}

/// In whole percent three quarters of the least that may be allowed are nothing: each byte that is overwritten would have what is alive
/// beside it written again. And with a little more collection would end where it begins.
#[test]
fn some_garbage_is_left_however_little_is_allowed() {
    let live = 1 << 40;
    let file = |garbage| {
        [BlobFile {
            file: FileId(1),
            bytes: live + garbage,
            live,
        }]
    };
    for most in 101..110 {
        let allowed = allowed(live, most);
        let begins = allowed / 100 * GARBAGE_BEGINS_PERCENT;
        assert!(
            limits(live, Allowance::at_rest(most)).soft.abs_diff(begins) < 1000,
            "{most}"
        );
        assert!(
            !is_due(&file(begins - 1000), Allowance::at_rest(most)),
            "{most}"
        );
        assert!(
            is_due(&file(begins + 1000), Allowance::at_rest(most)),
            "{most}"
        );
        let two = [
            BlobFile {
                file: FileId(1),
                bytes: begins + 1000,
                live: 0,
            },
            BlobFile {
                file: FileId(2),
                bytes: live + live / 1000,
                live,
            },
        ];
        // The one that is nearly all alive stays.
        assert_eq!(
            victims(&two, Allowance::at_rest(most), Moves::ALL),
            [FileId(1)],
            "{most}"
        );
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
        victims(
            &[file(1, 100), file(2, 60)],
            Allowance::at_rest(130),
            Moves::ALL
        ),
        [FileId(2)]
    );
    assert_eq!(
        victims(
            &[file(1, 100), file(2, 60)],
            Allowance::at_rest(140),
            Moves::ALL
        ),
        []
    );
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
            Allowance::at_rest(ALL_STAYS_PERCENT - 1),
            Moves {
                room: 0,
                ..Moves::ALL
            }
        ),
        [FileId(1)]
    );
    assert_eq!(
        victims(&[file(1, 0, 0)], Allowance::at_rest(101), Moves::ALL),
        []
    );
    assert_eq!(victims(&[], Allowance::at_rest(101), Moves::ALL), []);
}

#[test]
fn collection_begins_where_the_next_flush_and_a_job_still_have_room() {
    let live = 2 << 30;
    let begins = |flush_bytes: u64| {
        let allowance = Allowance {
            percent_max: 130,
            flush_bytes,
        };
        (allowance.begins(live), limits(live, allowance).soft)
    };
    let allowed = allowed(live, 130);
    // What a job moves alone has room beside three quarters.
    assert_eq!(begins(0).0, GARBAGE_BEGINS_PERCENT);
    assert_eq!(begins(16 << 20).0, GARBAGE_BEGINS_PERCENT);
    let flush = 179 << 20;
    let (percent, soft) = begins(flush);
    assert_eq!(percent, 65);
    assert!(soft + flush + MOVED_BYTES_MAX <= allowed);
    // Where it would have no room beside anything, some is left all the same.
    assert_eq!(begins(1 << 30).0, GARBAGE_BEGINS_PERCENT_MIN);
    assert_eq!(begins(u64::MAX).0, GARBAGE_BEGINS_PERCENT_MIN);
}

proptest! {
    /// A job moves values until it has enough, and out of no file that has a larger share alive than one that it leaves.
    #[test]
    fn a_job_takes_the_emptiest_and_ends_with_the_first_that_is_enough(files in files(), bytes in 1u64..500) {
        // What has nothing is no victim.
        let files: Vec<BlobFile> = files.into_iter().filter(|file| file.bytes > 0).collect();
        let own: Vec<(BlobFile, u64)> = files.iter().map(|file| (*file, file.live / 2)).collect();
        let chosen = of_job(own.clone(), bytes);
        let is_chosen = |file: &BlobFile| chosen.binary_search(&file.file).is_ok();
        let moved = own.iter().filter(|(file, _)| is_chosen(file)).map(|(_, bytes)| *bytes);
        let moved: Vec<u64> = moved.collect();
        let all: u64 = moved.iter().sum();
        let last = moved.iter().max().map_or(0, |last| *last);
        prop_assert!(all < bytes + last.max(1));
        prop_assert!(chosen.len() == files.len() || all >= bytes);
        for victim in files.iter().filter(|file| is_chosen(file)) {
            for other in files.iter().filter(|file| !is_chosen(file)) {
                prop_assert!(victim.live * other.bytes <= other.live * victim.bytes);
            }
        }
    }

    /// Some job may always move values, and where a store is large many may.
    #[test]
    fn jobs_move_a_part_of_what_is_allowed_at_a_time(live in 0u64..1 << 50, moving in 0u64..1 << 50) {
        let copies = Copies::of(live, 130);
        let allowed = allowed(live, 130);
        prop_assert!(copies.let_begin(0) && copies.job <= copies.all);
        prop_assert!(copies.all <= (allowed / MOVED_PARTS).max(MOVED_BYTES_MIN));
        prop_assert!(!copies.let_begin(moving) || moving == 0 || moving + copies.job <= copies.all);
    }
}

/// A manifest says how large blob files are, and may say anything.
#[test]
fn files_of_any_size_are_added_up() {
    let file = |n| BlobFile {
        file: FileId(n),
        bytes: u64::MAX,
        live: u64::MAX - 1,
    };
    let files = [file(1), file(2)];
    let allowance = Allowance::at_rest(200);
    assert!(!is_due(&files, allowance));
    assert_eq!(victims(&files, allowance, Moves::ALL), []);
    let enough = Moves::by_tables(&files, 200, (Referring::default(), 1)).enough;
    assert_eq!(enough, MOVED_BYTES_MAX);
    assert_eq!(room_for_copies(&files, allowance), MOVED_BYTES_MIN);
}
