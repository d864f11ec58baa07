//! The simulator must really lose what was not synced, and nothing else.

use std::collections::BTreeSet;

use thermocline_base::sync::{Mutex, lock};

use super::*;
use crate::simulated::SeededRandom;

const SITE: Site = Site("test: durable");

fn path(text: &str) -> &Path {
    Path::new(text)
}

fn fresh() -> SimFs {
    let fs = SimFs::new(Steps::new());
    fs.create_dir_all(path("/db")).unwrap();
    fs
}

/// `/db/name` with durable name and content.
fn durable_file(fs: &SimFs, name: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = fs.open(path(name), OpenMode::CreateNew).unwrap();
    file.write_at(bytes, 0).unwrap();
    file.sync(SITE).unwrap();
    fs.sync_dir(path("/db"), SITE).unwrap();
    file
}

/// What every possible crash leaves in `name`.
fn outcomes(fs: &SimFs, name: &str) -> BTreeSet<Option<Vec<u8>>> {
    let pending = fs.pending();
    assert!(pending.outcomes() <= 100_000, "{pending:?}");
    pending
        .explore(100_000, 0, 0)
        .iter()
        .map(|choices| fs.image(choices, Steps::new()).contents(path(name)))
        .collect()
}

#[test]
fn data_without_fsync_tears_by_sector_in_every_combination() {
    let fs = fresh();
    let file = durable_file(&fs, "/db/a", &[1; 3 * 512]);
    file.write_at(&[2; 3 * 512], 0).unwrap();
    let expected: BTreeSet<_> = (0..8u8)
        .map(|mask| {
            let sector = |i: u8| [1 + (mask >> i & 1); 512];
            Some([sector(0), sector(1), sector(2)].concat())
        })
        .collect();
    assert_eq!(outcomes(&fs, "/db/a"), expected);
    file.sync(SITE).unwrap();
    assert_eq!(
        outcomes(&fs, "/db/a"),
        BTreeSet::from([Some(vec![2; 3 * 512])])
    );
}

#[test]
fn a_sector_may_keep_any_of_its_contents_since_the_sync() {
    let fs = fresh();
    let file = durable_file(&fs, "/db/a", &[1; 8]);
    for byte in 2..5 {
        file.write_at(&[byte; 8], 0).unwrap();
    }
    let expected: BTreeSet<_> = (1..5).map(|byte| Some(vec![byte; 8])).collect();
    assert_eq!(outcomes(&fs, "/db/a"), expected);
}

#[test]
fn size_and_data_survive_apart() {
    let fs = fresh();
    let file = durable_file(&fs, "/db/a", &[]);
    file.write_at(&[7; 4], 0).unwrap();
    let expected = [vec![], vec![0; 4], vec![7; 4]].map(Some);
    assert_eq!(outcomes(&fs, "/db/a"), BTreeSet::from(expected));
}

/// A kernel makes files longer page by page: whoever reads an end finds the one of a record's first pages, too.
#[test]
fn a_write_of_several_pages_may_leave_a_file_that_ends_within_it() {
    let fs = fresh();
    let file = durable_file(&fs, "/db/a", &[1; 100]);
    let lens = || -> BTreeSet<usize> {
        let outcomes = fs.pending().explore(1, 200, 5);
        let images = outcomes
            .iter()
            .map(|choices| fs.image(choices, Steps::new()));
        let contents = images.map(|image| image.contents(path("/db/a")).unwrap());
        contents.map(|bytes| bytes.len()).collect()
    };
    file.write_at(&[2; 9000], 100).unwrap();
    assert_eq!(lens(), BTreeSet::from([100, 8192, 9100]));
    file.sync(SITE).unwrap();
    // What lies on one page is there or not, and so is what begins a page.
    file.write_at(&[3; 10], 9100).unwrap();
    assert_eq!(lens(), BTreeSet::from([9100, 9110]));
    file.sync(SITE).unwrap();
    file.write_at(&[4; 4096], 3 * 4096).unwrap();
    assert_eq!(lens(), BTreeSet::from([9110, 4 * 4096]));
}

#[test]
fn what_was_cut_off_reads_as_zeros_when_the_file_grows_again() {
    let fs = fresh();
    let file = durable_file(&fs, "/db/a", &[9; 1500]);
    file.set_len(100).unwrap();
    file.set_len(1500).unwrap();
    let expected = [vec![9; 100], vec![0; 1400]].concat();
    assert_eq!(fs.contents(path("/db/a")).unwrap(), expected);
    file.sync(SITE).unwrap();
    assert_eq!(outcomes(&fs, "/db/a"), BTreeSet::from([Some(expected)]));
}

#[test]
fn a_file_sync_does_not_keep_the_name_and_a_folder_sync_not_the_data() {
    let fs = fresh();
    let file = fs.open(path("/db/a"), OpenMode::CreateNew).unwrap();
    file.write_at(b"x", 0).unwrap();
    file.sync(SITE).unwrap();
    let lost_or_whole = BTreeSet::from([None, Some(b"x".to_vec())]);
    assert_eq!(outcomes(&fs, "/db/a"), lost_or_whole);

    let file = fs.open(path("/db/b"), OpenMode::CreateNew).unwrap();
    file.write_at(b"y", 0).unwrap();
    fs.sync_dir(path("/db"), SITE).unwrap();
    let empty_torn_or_whole = [vec![], vec![0], b"y".to_vec()].map(Some);
    assert_eq!(outcomes(&fs, "/db/b"), BTreeSet::from(empty_torn_or_whole));
}

#[test]
fn a_rename_without_folder_sync_is_lost_in_some_image_and_never_half_done() {
    let fs = fresh();
    durable_file(&fs, "/db/live", b"old");
    durable_file(&fs, "/db/temp", b"new");
    fs.rename(path("/db/temp"), path("/db/live")).unwrap();
    assert_eq!(fs.contents(path("/db/live")).unwrap(), b"new");
    let images: BTreeSet<_> = fs
        .pending()
        .explore(100, 0, 0)
        .iter()
        .map(|choices| {
            let image = fs.image(choices, Steps::new());
            let live = image.contents(path("/db/live")).unwrap();
            (live, image.exists(path("/db/temp")).unwrap())
        })
        .collect();
    let expected = [(b"old".to_vec(), true), (b"new".to_vec(), false)];
    assert_eq!(images, BTreeSet::from(expected));
    fs.sync_dir(path("/db"), SITE).unwrap();
    assert_eq!(fs.pending().outcomes(), 1);
}

#[test]
fn name_changes_survive_in_any_combination() {
    let fs = fresh();
    durable_file(&fs, "/db/old", b"o");
    fs.open(path("/db/new"), OpenMode::CreateNew).unwrap();
    fs.rename(path("/db/new"), path("/db/current")).unwrap();
    fs.remove(path("/db/old")).unwrap();
    let images: BTreeSet<_> = fs
        .pending()
        .explore(100, 0, 0)
        .iter()
        .map(|choices| fs.image(choices, Steps::new()).list(path("/db")).unwrap())
        .collect();
    let expected: [&[&str]; 6] = [
        &["old"],
        &["new", "old"],
        &["current", "old"],
        &[],
        &["new"],
        &["current"],
    ];
    let expected = expected.map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(images, BTreeSet::from(expected));
}

#[test]
fn a_link_is_kept_or_lost_apart_from_the_first_name_and_shares_the_content() {
    let fs = fresh();
    let file = durable_file(&fs, "/db/a", b"old");
    fs.create_dir_all(path("/copy")).unwrap();
    fs.link(path("/db/a"), path("/copy/a")).unwrap();
    let none = fs.image_none(Steps::new());
    assert_eq!(
        none.contents(path("/copy/a")),
        None,
        "its folder was not synced"
    );
    assert_eq!(none.contents(path("/db/a")).unwrap(), b"old");
    fs.sync_dir(path("/copy"), SITE).unwrap();
    fs.remove(path("/db/a")).unwrap();
    file.write_at(b"new", 0).unwrap();
    let images = [fs.image_none(Steps::new()), fs.image_all(Steps::new())];
    for (image, (first, second)) in images
        .iter()
        .zip([(Some(&b"old"[..]), &b"old"[..]), (None, &b"new"[..])])
    {
        assert_eq!(image.contents(path("/db/a")).as_deref(), first);
        assert_eq!(image.contents(path("/copy/a")).unwrap(), second);
    }
    // The content of both names is decided once.
    for outcome in fs.pending().explore(1 << 10, 0, 1) {
        let image = fs.image(&outcome, Steps::new());
        let copy = image.contents(path("/copy/a")).unwrap();
        assert!([b"old", b"new"].iter().any(|content| copy == *content));
        assert!(
            image
                .contents(path("/db/a"))
                .is_none_or(|first| first == copy)
        );
    }
    fs.sync_dir(path("/db"), SITE).unwrap();
    drop(file);
    assert_eq!(
        fs.contents(path("/copy/a")).unwrap(),
        b"new",
        "it has a name left"
    );
}

#[test]
fn after_a_failed_sync_a_later_one_that_succeeds_proves_nothing() {
    for how in [FailedSync::Kept, FailedSync::Dropped] {
        let fs = fresh();
        let file = durable_file(&fs, "/db/a", b"old");
        file.write_at(b"new", 0).unwrap();
        fs.fail_next_sync(how);
        assert!(file.sync(SITE).is_err());
        file.sync(SITE).unwrap();
        let seen = fs.contents(path("/db/a")).unwrap();
        let left = outcomes(&fs, "/db/a");
        match how {
            FailedSync::Kept => {
                assert_eq!(seen, b"new");
                let either = [b"old".to_vec(), b"new".to_vec()].map(Some);
                assert_eq!(left, BTreeSet::from(either));
            }
            FailedSync::Dropped => {
                assert_eq!(seen, b"old");
                assert_eq!(left, BTreeSet::from([Some(b"old".to_vec())]));
            }
        }
        // Written again it is synced again.
        file.write_at(b"now", 0).unwrap();
        file.sync(SITE).unwrap();
        assert_eq!(outcomes(&fs, "/db/a"), [Some(b"now".to_vec())].into());
    }
}

/// A file system that writes the size as its pages come to the device (XFS) has the old one, until the last page is written again.
#[test]
fn after_a_failed_sync_the_size_is_durable_as_far_as_the_file_is_written_again() {
    let fs = fresh();
    let file = durable_file(&fs, "/db/a", &[1; 100]);
    let lens = || -> BTreeSet<usize> {
        let outcomes = fs.pending().explore(1, 50, 5);
        let images = outcomes
            .iter()
            .map(|choices| fs.image(choices, Steps::new()));
        images
            .map(|image| image.contents(path("/db/a")).unwrap().len())
            .collect()
    };
    file.write_at(&[2; 8900], 100).unwrap();
    fs.fail_next_sync(FailedSync::Kept);
    assert!(file.sync(SITE).is_err());
    assert_eq!(lens(), BTreeSet::from([100, 8192, 9000]));
    for (at, left) in [(0, vec![4096, 8192, 9000]), (4200, vec![8192, 9000])] {
        file.write_at(&[3; 10], at).unwrap();
        file.sync(SITE).unwrap();
        assert_eq!(lens(), BTreeSet::from_iter(left), "written at {at}");
    }
    file.write_at(&[3; 10], 8990).unwrap();
    file.sync(SITE).unwrap();
    assert_eq!(lens(), BTreeSet::from([9000]));
}

#[test]
fn after_a_failed_folder_sync_names_stay_doubtful_and_later_ones_apply_after_them() {
    let fs = fresh();
    durable_file(&fs, "/db/a", b"a");
    durable_file(&fs, "/db/b", b"b");
    fs.rename(path("/db/a"), path("/db/live")).unwrap();
    fs.fail_next_sync(FailedSync::Kept);
    assert!(fs.sync_dir(path("/db"), SITE).is_err());
    fs.sync_dir(path("/db"), SITE).unwrap();
    assert_eq!(
        outcomes(&fs, "/db/live"),
        BTreeSet::from([None, Some(b"a".to_vec())])
    );
    fs.rename(path("/db/b"), path("/db/live")).unwrap();
    fs.sync_dir(path("/db"), SITE).unwrap();
    assert_eq!(outcomes(&fs, "/db/live"), [Some(b"b".to_vec())].into());
    // The first rename is as doubtful as ever.
    let a = BTreeSet::from([None, Some(b"a".to_vec())]);
    assert_eq!(outcomes(&fs, "/db/a"), a);
}

#[test]
fn a_removal_without_the_rename_before_it_spares_the_file_that_had_the_name() {
    let fs = fresh();
    durable_file(&fs, "/db/a", b"a");
    durable_file(&fs, "/db/b", b"b");
    fs.rename(path("/db/b"), path("/db/a")).unwrap();
    fs.remove(path("/db/a")).unwrap();
    assert!(!fs.exists(path("/db/a")).unwrap());
    let left = [None, Some(b"a".to_vec()), Some(b"b".to_vec())];
    assert_eq!(outcomes(&fs, "/db/a"), BTreeSet::from(left));
    let only_removed = fs.image(&[0, 1], Steps::new());
    assert_eq!(only_removed.contents(path("/db/a")).unwrap(), b"a");
}

#[test]
fn bytes_behind_the_size_that_survived_are_gone() {
    let fs = fresh();
    let file = durable_file(&fs, "/db/a", b"12");
    file.write_at(b"345678", 2).unwrap();
    for choices in fs.pending().explore(100, 0, 0) {
        let image = fs.image(&choices, Steps::new());
        let len = image.contents(path("/db/a")).unwrap().len();
        let grown = image.open(path("/db/a"), OpenMode::ReadWrite).unwrap();
        grown.set_len(1000).unwrap();
        let bytes = image.contents(path("/db/a")).unwrap();
        assert!(bytes[len..].iter().all(|b| *b == 0), "{choices:?}");
    }
}

#[test]
fn writing_the_same_bytes_again_after_a_failed_sync_makes_them_durable() {
    for how in [FailedSync::Kept, FailedSync::Dropped] {
        let fs = fresh();
        let file = durable_file(&fs, "/db/a", b"old");
        file.write_at(b"longer than before", 0).unwrap();
        fs.fail_next_sync(how);
        assert!(file.sync(SITE).is_err());
        file.write_at(b"longer than before", 0).unwrap();
        file.sync(SITE).unwrap();
        let expected = Some(b"longer than before".to_vec());
        assert_eq!(outcomes(&fs, "/db/a"), [expected].into());
    }
}

#[test]
fn a_killed_process_loses_nothing_and_syncs_nothing() {
    let fs = fresh();
    let _lock = fs.lock(path("/db/LOCK")).unwrap();
    let file = fs.open(path("/db/a"), OpenMode::CreateNew).unwrap();
    file.write_at(b"x", 0).unwrap();
    let killed = fs.image_killed(Steps::new());
    assert_eq!(killed.contents(path("/db/a")).unwrap(), b"x");
    assert!(killed.lock(path("/db/LOCK")).is_ok());
    let after_power_cut = killed.image_none(Steps::new());
    assert_eq!(after_power_cut.list(path("/db")).unwrap().len(), 0);
}

#[test]
fn images_share_nothing_that_either_side_changes() {
    let fs = fresh();
    let file = durable_file(&fs, "/db/a", &[1; 5000]);
    let image = fs.image_all(Steps::new());
    let before = image.digest();
    assert_eq!(before, fs.digest());
    file.write_at(&[2; 5000], 0).unwrap();
    file.sync(SITE).unwrap();
    assert_eq!(image.digest(), before);
    assert_ne!(fs.digest(), before);
    let other = image.open(path("/db/a"), OpenMode::ReadWrite).unwrap();
    other.write_at(&[3; 10], 0).unwrap();
    assert_eq!(fs.contents(path("/db/a")).unwrap(), [2; 5000]);
}

#[test]
fn a_removed_file_stays_readable_while_open_and_is_forgotten_after() {
    let fs = fresh();
    let file = durable_file(&fs, "/db/a", b"here");
    fs.remove(path("/db/a")).unwrap();
    fs.sync_dir(path("/db"), SITE).unwrap();
    let mut buf = [0; 4];
    file.read_exact_at(&mut buf, 0).unwrap();
    assert_eq!(&buf, b"here");
    drop(file);
    assert!(fs.disk.state().inodes.is_empty());
}

#[test]
fn every_sync_and_name_change_is_a_point_at_which_images_can_be_taken() {
    let fs = fresh();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (log, world) = (Arc::clone(&seen), fs.clone());
    fs.steps().observe(Some(Arc::new(move |point| {
        let outcomes = world.pending().outcomes();
        lock(&log).push((point.site.0, point.when, outcomes));
    })));
    let file = fs.open(path("/db/a"), OpenMode::CreateNew).unwrap();
    file.write_at(b"x", 0).unwrap();
    file.sync(Site("data")).unwrap();
    fs.rename(path("/db/a"), path("/db/b")).unwrap();
    fs.remove(path("/db/b")).unwrap();
    fs.sync_dir(path("/db"), Site("names")).unwrap();
    fs.steps().observe(None);
    use When::{After, Before};
    let expected = [
        ("env: name created", Before, 1),
        ("env: name created", After, 2),
        ("data", Before, 8),
        ("data", After, 2),
        ("env: name changed", Before, 2),
        ("env: name changed", After, 4),
        ("env: name removed", Before, 4),
        ("env: name removed", After, 8),
        ("names", Before, 8),
        ("names", After, 1),
    ];
    assert_eq!(*lock(&seen), expected);
}

#[test]
fn exploring_a_large_set_tries_none_all_each_alone_all_but_each_and_random_ones() {
    let fs = fresh();
    let file = durable_file(&fs, "/db/a", &[1; 20 * 512]);
    file.write_at(&[2; 20 * 512], 0).unwrap();
    let pending = fs.pending();
    assert_eq!(pending.outcomes(), 1 << 20);
    let tried = pending.explore(1000, 30, 5);
    assert_eq!(tried.len(), 2 + 2 * 20 + 30);
    assert_eq!(tried, pending.explore(1000, 30, 5), "the same seed");
    let digests: BTreeSet<u64> = tried
        .iter()
        .map(|choices| fs.image(choices, Steps::new()).digest())
        .collect();
    assert!(digests.len() > 60, "{}", digests.len());
}

/// Random calls on one file against a plain vector and the history of all its contents.
#[test]
fn random_runs_agree_with_a_plain_model() {
    for seed in 0..200 {
        let random = SeededRandom::new(seed);
        let pick = |bound: u64| usize::try_from(random.below(bound)).unwrap();
        let fs = fresh();
        let file = durable_file(&fs, "/db/a", &[]);
        let mut model: Vec<u8> = Vec::new();
        // Everything that the file has held since the last sync, the synced content first.
        let mut history = vec![model.clone()];
        for step in 0..30u8 {
            match random.below(10) {
                0..6 => {
                    let (at, len) = (pick(9000), pick(1500));
                    file.write_at(&vec![step + 1; len], at as u64).unwrap();
                    if len > 0 {
                        let before = model.len();
                        model.resize(before.max(at + len), 0);
                        model[at..at + len].fill(step + 1);
                        let last_page = (model.len() - 1) / 4096 * 4096;
                        if last_page > before.max(at) {
                            history.push(model[..last_page].to_vec());
                        }
                    }
                }
                6..8 => {
                    model.resize(pick(10_000), 0);
                    file.set_len(model.len() as u64).unwrap();
                }
                8 => {
                    file.sync(SITE).unwrap();
                    history.clear();
                }
                _ => {}
            }
            history.push(model.clone());
            assert_eq!(
                fs.contents(path("/db/a")).unwrap(),
                model,
                "seed {seed} step {step}"
            );
            if history.len() == 1 {
                assert_eq!(fs.pending().outcomes(), 1, "seed {seed} step {step}");
            }
            let image = fs.image_random(random.next_u64(), Steps::new());
            let got = image.contents(path("/db/a")).unwrap();
            let at = |bytes: &[u8], i: usize| bytes.get(i).copied().unwrap_or(0);
            assert!(history.iter().any(|old| old.len() == got.len()));
            for sector in 0..got.len().div_ceil(512) {
                // The part of the sector that lies within the size that this image took.
                let within = sector * 512..got.len().min((sector + 1) * 512);
                assert!(
                    history
                        .iter()
                        .any(|old| within.clone().all(|i| at(&got, i) == at(old, i))),
                    "seed {seed} step {step}: sector {sector} never looked like this"
                );
            }
            let all = fs.image_all(Steps::new()).contents(path("/db/a")).unwrap();
            assert_eq!(all, model, "seed {seed} step {step}");
        }
    }
}

#[test]
fn random_images_hold_old_new_and_torn_pages() {
    let fs = fresh();
    let file = durable_file(&fs, "/db/a", &[1; 4 * 4096]);
    file.write_at(&[2; 4 * 4096], 0).unwrap();
    let [mut old, mut new, mut torn] = [0; 3];
    for seed in 0..100 {
        let image = fs.image_random(seed, Steps::new());
        assert_eq!(image.digest(), fs.image_random(seed, Steps::new()).digest());
        for page in image.contents(path("/db/a")).unwrap().chunks(4096) {
            match (page.contains(&1), page.contains(&2)) {
                (true, false) => old += 1,
                (false, _) => new += 1,
                (true, true) => torn += 1,
            }
        }
    }
    assert!(old > 80 && new > 80 && torn > 80, "{old} {new} {torn}");
}

#[test]
fn digests_tell_names_sizes_bytes_and_folders_apart() {
    let make = |dir: &str, name: &str, bytes: &[u8]| {
        let fs = SimFs::new(Steps::new());
        fs.create_dir_all(path(dir)).unwrap();
        fs.install(&path(dir).join(name), bytes);
        fs.digest()
    };
    let digests = BTreeSet::from([
        make("/d", "a", b"x"),
        make("/d", "b", b"x"),
        make("/d", "a", b"y"),
        make("/d", "a", b"x\0"),
        make("/e", "a", b"x"),
        SimFs::new(Steps::new()).digest(),
    ]);
    assert_eq!(digests.len(), 6);
    assert_eq!(make("/d", "a", b"x"), make("/d", "a", b"x"));
}

#[test]
fn after_a_crash_the_disk_is_as_large_and_descriptors_are_as_few_as_before() {
    let fs = fresh();
    let file = durable_file(&fs, "/db/a", &[1; 1000]);
    fs.limit(1500);
    fs.limit_descriptors(2);
    let images = [
        fs.image_none(Steps::new()),
        fs.image_all(Steps::new()),
        fs.image_random(1, Steps::new()),
        fs.image_killed(Steps::new()),
    ];
    for image in images {
        let room = image.room(path("/db")).unwrap();
        assert_eq!(room, fs.room(path("/db")).unwrap());
        let again = image.open(path("/db/a"), OpenMode::ReadWrite).unwrap();
        assert!(again.write_at(&[2; 501], 1000).unwrap_err().is_no_room());
        again.write_at(&[2; 500], 1000).unwrap();
        let _second = image.open(path("/db/a"), OpenMode::Read).unwrap();
        let third = image.open(path("/db/a"), OpenMode::Read);
        assert!(third.is_err(), "the process may have two");
    }
    drop(file);
}

/// Kernels write what fits. Whoever takes a refused write for one that has done nothing finds a longer file, and no room.
#[test]
fn a_write_that_finds_too_little_room_writes_what_fits() {
    let fs = fresh();
    let file = durable_file(&fs, "/db/a", &[1; 1000]);
    fs.limit(1500);
    assert!(file.write_at(&[2; 501], 1000).unwrap_err().is_no_room());
    let expected = [vec![1; 1000], vec![2; 500]].concat();
    assert_eq!(fs.contents(path("/db/a")).unwrap(), expected);
    assert_eq!((fs.used(), fs.refusals()), (1500, 1));
    // What it has can be written over, and the size is as undecided as of any write.
    file.write_at(&[3; 1500], 0).unwrap();
    assert!(file.write_at(&[4; 10], 1500).unwrap_err().is_no_room());
    assert_eq!(file.len().unwrap(), 1500);
    let none = fs.image_none(Steps::new());
    assert_eq!(none.contents(path("/db/a")).unwrap(), [1; 1000]);
    // What is refused as a whole has done nothing.
    assert!(file.set_len(1501).is_err() && file.reserve_behind(1500, 1).is_err());
    assert_eq!((file.len().unwrap(), fs.used()), (1500, 1500));
}

/// The room behind a file's end is metadata as its length is: neither taken nor given back for good before a sync.
#[test]
fn what_is_reserved_or_given_back_is_so_after_a_crash_when_it_was_synced() {
    let fs = fresh();
    let file = durable_file(&fs, "/db/a", &[1; 100]);
    let after_crash = || fs.image_none(Steps::new()).used();
    file.reserve_behind(100, 900).unwrap();
    assert_eq!((fs.used(), after_crash()), (1000, 100));
    file.sync(SITE).unwrap();
    assert_eq!((fs.used(), after_crash()), (1000, 1000));
    file.set_len(100).unwrap();
    assert_eq!((fs.used(), after_crash()), (100, 1000));
    file.sync(SITE).unwrap();
    assert_eq!((fs.used(), after_crash()), (100, 100));
}

/// As on file systems that have no locks of folders.
#[test]
fn where_folders_cannot_be_held_nobody_holds_one() {
    let fs = fresh();
    let held = fs.hold_folder(path("/db")).unwrap();
    assert!(held.is_some() && fs.is_folder_held(path("/db")).unwrap());
    fs.refuse_holds(true);
    for fs in [
        &fs,
        &fs.image_all(Steps::new()),
        &fs.image_killed(Steps::new()),
    ] {
        assert!(fs.hold_folder(path("/db")).unwrap().is_none());
        assert!(!fs.is_folder_held(path("/db")).unwrap());
        assert!(fs.hold_folder(path("/none")).is_err());
    }
    drop(held);
    fs.refuse_holds(false);
    assert!(fs.hold_folder(path("/db")).unwrap().is_some());
}

/// Whatever looks into a folder, or at a lock, opens it: a simulator that let it be would hide what a store does without.
#[test]
fn what_opens_a_folder_or_a_lock_needs_a_descriptor() {
    let fs = fresh();
    let file = durable_file(&fs, "/db/a", &[1]);
    drop(fs.lock(path("/db/LOCK")).unwrap());
    fs.limit_descriptors(1);
    let answers = [
        fs.list(path("/db")).map(drop),
        fs.create_dir_all(path("/db")),
        fs.create_dir_all(path("/new")),
        fs.lock_shared(path("/db/LOCK")).map(drop),
        fs.is_folder_held(path("/db")).map(drop),
    ];
    for answer in answers {
        let code = match answer {
            Err(Error::Io { source, .. }) => source.raw_os_error(),
            other => panic!("{other:?}"),
        };
        assert_eq!(code, Some(libc::EMFILE));
    }
    assert!(!fs.is_dir(path("/new")).unwrap());
    drop(file);
    assert_eq!(fs.list(path("/db")).unwrap(), ["LOCK", "a"]);
    fs.create_dir_all(path("/new")).unwrap();
    assert!(fs.lock_shared(path("/db/LOCK")).unwrap().is_some());
    assert!(!fs.is_folder_held(path("/db")).unwrap());
}
