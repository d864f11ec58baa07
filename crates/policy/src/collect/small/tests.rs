//! Small files are joined as often as they must be, and no more.

use proptest::prelude::*;

use super::*;

/// What a file ends with.
const FULL: u64 = 1 << 20;

const ALL: Room = Room {
    disk: u64::MAX,
    copies: u64::MAX,
};

/// A store of one family, in which each file has so many bytes of each table.
#[derive(Default)]
struct Store {
    files: BTreeMap<FileId, Vec<u64>>,
    next: u64,
    /// Bytes that joins have moved.
    moved: u64,
    joins: u64,
}

fn live(shares: &[u64]) -> u64 {
    shares.iter().sum()
}

impl Store {
    fn add(&mut self, shares: Vec<u64>) {
        if live(&shares) > 0 {
            self.next += 1;
            self.files.insert(FileId(self.next), shares);
        }
    }

    fn small(&self) -> Vec<Small> {
        let small = self.files.iter();
        let small = small.filter(|(_, shares)| is_small(live(shares), FULL));
        let of = |(file, shares): (&FileId, &Vec<u64>)| {
            let tables = (0..).zip(shares).filter(|(_, bytes)| **bytes > 0);
            Small {
                file: *file,
                family: CfId::DEFAULT,
                live: live(shares),
                tables: tables.map(|(table, _)| (FileId(table), 0)).collect(),
            }
        };
        small.map(of).collect()
    }

    /// Does what the jobs of all tables do, one after the other; whether there was something to do.
    fn join(&mut self, room: Room, tables: usize) -> bool {
        let victims = victims(&self.small(), &[], room);
        for table in 0..tables {
            // Each looks anew.
            let mut left = victims.clone();
            left.retain(|file| self.files.contains_key(file));
            if left.is_empty() {
                break;
            }
            assert_eq!(super::victims(&self.small(), &victims, room), left);
            let mut bytes = 0;
            for victim in &left {
                let shares = self.files.get_mut(victim).unwrap();
                bytes += std::mem::take(&mut shares[table]);
            }
            self.files.retain(|_, shares| live(shares) > 0);
            self.moved += bytes;
            while bytes > 0 {
                let mut shares = vec![0; tables];
                shares[table] = bytes.min(FULL);
                bytes -= shares[table];
                self.add(shares);
            }
        }
        self.joins += u64::from(!victims.is_empty());
        !victims.is_empty()
    }
}

/// Bytes of tables in a file: some have much, and some little or nothing.
fn shares(tables: usize) -> impl Strategy<Value = Vec<u64>> {
    let share = prop_oneof![2 => 0u64..1, 3 => 1u64..200, 3 => 1u64..20_000, 1 => 1u64..200_000];
    prop::collection::vec(share, tables)
}

fn stories() -> impl Strategy<Value = (usize, Vec<Vec<u64>>)> {
    (1usize..5).prop_flat_map(|tables| {
        let files = prop::collection::vec(shares(tables), 100..400);
        files.prop_map(move |files| (tables, files))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// However sizes are drawn, few small files stay, and all that moves is within the weight of what was written.
    #[test]
    fn small_files_stay_few_and_bytes_move_a_few_times((tables, files) in stories()) {
        let mut store = Store::default();
        let (mut weight, mut written) = (0, 0);
        for shares in files {
            let bytes = live(&shares);
            if bytes == 0 {
                continue;
            }
            written += 1;
            if bytes < FULL {
                weight += bytes * u64::from(FULL.ilog2() - bytes.ilog2());
            }
            store.add(shares);
            let mut joins = 0;
            while store.join(ALL, tables) {
                joins += 1;
                prop_assert!(joins < 100, "it goes on and on");
            }
            let small = store.small().len() as u64;
            // Each one that stays is larger by one part in so many than what comes before it.
            let parts = JOINED_SIZES * tables as u64;
            let grows = (small.max(1) * FULL).ilog2() + 1;
            let few = JOINED_FILES_MIN as u64 + parts * u64::from(grows);
            prop_assert!(small <= few.max(SMALL_FILES as u64), "{small}");
            prop_assert!(store.moved <= 3 * weight, "{} of {weight}", store.moved);
        }
        // Each join has half of its files go for good.
        prop_assert!(store.joins * JOINED_FILES_MIN as u64 / 2 <= written);
    }

    /// Whatever there is, what is chosen fits, and is what is smallest.
    #[test]
    fn what_is_chosen_has_room_and_is_smallest((_, files) in stories(), most in 0u64..10_000_000) {
        let mut store = Store::default();
        files.into_iter().for_each(|shares| store.add(shares));
        let small = store.small();
        for room in [Room { disk: most, ..ALL }, Room { copies: most, ..ALL }] {
            let chosen = victims(&small, &[], room);
            let (in_it, beside): (Vec<&Small>, Vec<&Small>) =
                small.iter().partition(|of| chosen.contains(&of.file));
            let bytes: u64 = in_it.iter().map(|of| of.live).sum();
            prop_assert!(bytes <= most);
            let largest = in_it.iter().map(|of| (of.live, of.file)).max();
            if let Some(largest) = largest {
                prop_assert!(in_it.len() >= JOINED_FILES_MIN);
                prop_assert!(beside.iter().all(|of| (of.live, of.file) > largest));
                prop_assert!(bytes >= JOINED_SIZES * largest.0);
            }
        }
    }
}

/// Flushes of one size, into one table: never more than so many, and each byte moves twice at most.
#[test]
fn equal_files_are_joined_in_the_order_of_their_ages() {
    let mut store = Store::default();
    for n in 1..=2000u64 {
        store.add(vec![10_000]);
        let before: Vec<FileId> = store.files.keys().copied().collect();
        if store.join(ALL, 1) {
            let after: Vec<FileId> = store.files.keys().copied().collect();
            let gone: Vec<&FileId> = before.iter().filter(|f| !after.contains(f)).collect();
            assert_eq!(gone.len(), JOINED_FILES_MIN);
            // What was left as it was is newer, but for what is large.
            let left = store.files.iter();
            let mut left = left.filter(|(_, shares)| live(shares) == 10_000);
            assert!(left.all(|(file, _)| file > gone[gone.len() - 1]));
        }
        assert!(store.small().len() <= SMALL_FILES, "{n}");
    }
    assert!(store.moved <= 2 * 2000 * 10_000);
    assert!(store.files.len() < 200, "{}", store.files.len());
}

#[test]
fn families_are_apart_and_what_is_large_beside_much_that_is_tiny_stays() {
    let small = |n: u64, family: u16, live: u64| Small {
        file: FileId(n),
        family: CfId(family),
        live,
        tables: vec![(FileId(u64::from(family)), 0)],
    };
    // Neither has many.
    let of = |from: u64, family| (from..from + 60).map(move |n| small(n, family, 100));
    let both: Vec<Small> = of(100, 1).chain(of(200, 2)).collect();
    assert_eq!(victims(&both, &[], ALL), []);
    assert!(are_many(both.iter().map(|of| of.live), FULL));
    assert!(!are_many(both.iter().map(|of| of.live), 400));
    let more: Vec<Small> = both
        .into_iter()
        .chain((300..310).map(|n| small(n, 2, 7)))
        .collect();
    let chosen = victims(&more, &[], ALL);
    let wanted: Vec<FileId> = (200..222).chain(300..310).map(FileId).collect();
    assert_eq!(chosen, wanted);
    // One that is nearly large enough is no company for many that are tiny.
    let tiny = (0..80).map(|n| small(n, 1, 10));
    let files: Vec<Small> = tiny.chain([small(90, 1, FULL / 5)]).collect();
    let chosen = victims(&files, &[], ALL);
    assert_eq!(chosen, (0..32).map(FileId).collect::<Vec<FileId>>());
}

/// What has moved in part goes on though nothing would be chosen, where it has room.
#[test]
fn what_was_begun_goes_on() {
    let small = |n: u64| Small {
        file: FileId(n),
        family: CfId::DEFAULT,
        live: 100,
        tables: vec![(FileId(1), 0)],
    };
    let files: Vec<Small> = (0..10).map(small).collect();
    let begun = [3, 5, 77].map(FileId);
    let room = |disk| Room { disk, copies: 0 };
    assert_eq!(victims(&files, &begun, room(200)), [3, 5].map(FileId));
    assert_eq!(victims(&files, &begun, room(199)), []);
    assert_eq!(victims(&files, &[FileId(77)], room(200)), []);
}

/// By default files end with 64 MiB, and a quarter of that would be what one flush leaves.
#[test]
fn what_has_a_megabyte_alive_is_not_small_however_large_full_files_are() {
    for file_bytes in [4 << 20, 64 << 20, 1 << 40] {
        assert!(is_small((1 << 20) - 1, file_bytes), "{file_bytes}");
        assert!(!is_small(1 << 20, file_bytes), "{file_bytes}");
    }
    assert!(is_small(255, 1 << 10) && !is_small(256, 1 << 10));
}

/// Tables with many records of their own wait until there is more to be joined. What was begun does not.
#[test]
fn no_table_is_written_anew_for_little() {
    let joined = |table_bytes: u64, begun: &[FileId]| {
        let small = |n: u64| Small {
            file: FileId(n),
            family: CfId::DEFAULT,
            live: 1000,
            tables: vec![(FileId(1000), table_bytes)],
        };
        let files: Vec<Small> = (0..80).map(small).collect();
        victims(&files, begun, ALL).len() as u64
    };
    for files in [32, 50, 80] {
        let most = files * 1000 * JOINED_TABLE_PARTS;
        assert_eq!(joined(most, &[]), files);
        let more = if files < 80 { files + 1 } else { 0 };
        assert_eq!(joined(most + 1, &[]), more);
    }
    assert_eq!(joined(u64::MAX, &[FileId(7)]), 1);
}
