//! Where a database finds its region.

use std::path::{Path, PathBuf};

use thermocline_base::options::{Options, Preset};
use thermocline_base::{CfId, CfOptions, ErrorKind};
use thermocline_env::OpenMode;

use super::{
    Begun, CREATING_NAME, NOTE_LEN_MAX, REGION_NAME, forget_creation, note_creation, noted_creation,
};
use crate::create::prepare_or_find;
use crate::{Engine, World, destroy, verify};
use tempfile::TempDir;

/// A folder with room for a database and for regions elsewhere.
struct House(TempDir);

impl House {
    fn new() -> House {
        let house = House(tempfile::tempdir().unwrap());
        #[expect(clippy::disallowed_methods, reason = "a test's own folder")]
        std::fs::create_dir(house.path("pm")).unwrap();
        house
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn options(&self, pm_path: Option<&str>) -> Options {
        let mut options = Options {
            pm: 1 << 20,
            pm_path: pm_path.map(|name| self.path(name)),
            ..Options::default()
        };
        options.pm_region.part_bytes_first = 256 << 10;
        options
    }

    fn open(&self, pm_path: Option<&str>) -> thermocline_base::Result<Engine> {
        Engine::open(World::real(), &self.path("db"), self.options(pm_path))
    }

    /// Makes the database with one family, which lies in the manifest alone.
    fn make(&self, pm_path: Option<&str>) {
        let engine = self.open(pm_path).unwrap();
        engine.family("kept", &CfOptions::default()).unwrap();
        engine.close().unwrap();
    }

    /// Opens and checks the database as `pm_path` says; returns where its region is.
    fn region(&self, pm_path: Option<&str>) -> PathBuf {
        let report = verify(&World::real(), &self.path("db"), &self.options(pm_path)).unwrap();
        assert_eq!(report.faults, []);
        let engine = self.open(pm_path).unwrap();
        assert_eq!(engine.find_family("kept").map(|f| f.id), Some(CfId(1)));
        engine.metrics().region_path
    }

    fn stored(&self) -> Option<PathBuf> {
        let options = Engine::stored_options(&World::real(), &self.path("db")).unwrap();
        options.unwrap().pm_path
    }

    fn rename(&self, from: &Path, to: &Path) {
        #[expect(clippy::disallowed_methods, reason = "a test moves its own files")]
        std::fs::rename(from, to).unwrap();
    }

    /// As if the manifest had never been written: there is its note, and only a region on which nothing was stored.
    fn interrupt(&self, region: &Path) {
        let kept = self.path("leftover");
        self.rename(region, &kept);
        self.rename(&self.path("db"), &self.path("old"));
        #[expect(clippy::disallowed_methods, reason = "a test's own folder")]
        std::fs::create_dir(self.path("db")).unwrap();
        self.rename(&kept, region);
        let storage = World::real().env.storage;
        let mut id = [0; 16];
        let file = storage.open(region, OpenMode::Read).unwrap();
        file.read_exact_at(&mut id, 16).unwrap();
        let elsewhere = (region != self.path("db").join(REGION_NAME)).then_some(region);
        note_creation(&*storage, &self.path("db"), &id, elsewhere).unwrap();
    }
}

#[test]
fn a_region_elsewhere_is_remembered() {
    for given in ["pm", "pm/region-one"] {
        let house = House::new();
        house.make(Some(given));
        let region = house.region(None);
        assert!(region.starts_with(house.path("pm")) && region.is_file());
        assert_eq!(house.stored(), Some(region.clone()));
        // Opening without saying it did not make it forget.
        assert_eq!(house.region(None), region);
        assert_eq!(house.region(Some(given)), region);
    }
}

#[test]
fn a_region_in_the_folder_is_found_there_and_not_remembered() {
    let house = House::new();
    house.make(None);
    assert_eq!(house.stored(), None);
    house.rename(&house.path("db"), &house.path("moved"));
    house.rename(&house.path("moved"), &house.path("db"));
    assert_eq!(house.region(None), house.path("db").join(REGION_NAME));
    assert_eq!(
        house.region(Some("db/region.pm")),
        house.path("db").join(REGION_NAME)
    );
    assert_eq!(house.stored(), None);
}

#[test]
fn a_moved_region_is_found_where_it_is_said_to_be_or_in_the_folder() {
    let house = House::new();
    house.make(Some("pm/one"));
    house.rename(&house.path("pm/one"), &house.path("pm/two"));
    // What is said wins, and is what the database remembers from now on.
    assert_eq!(house.region(Some("pm/two")), house.path("pm/two"));
    assert_eq!(house.region(None), house.path("pm/two"));
    assert_eq!(house.stored(), Some(house.path("pm/two")));
    let own = house.path("db").join(REGION_NAME);
    house.rename(&house.path("pm/two"), &own);
    assert_eq!(house.stored(), None);
    assert_eq!(house.region(None), own);
    // Now it is at home, and where it was is forgotten.
    house.rename(&own, &house.path("pm/two"));
    let error = house.open(None).unwrap_err().to_string();
    assert!(
        error.contains(REGION_NAME) && !error.contains("pm/two"),
        "{error}"
    );
    assert_eq!(error.matches(REGION_NAME).count(), 1, "{error}");
}

#[test]
fn a_missing_region_is_missed_at_both_places() {
    let house = House::new();
    house.make(Some("pm/one"));
    house.rename(&house.path("pm/one"), &house.path("pm/two"));
    let wrong = house.options(None);
    for error in [
        house.open(None).unwrap_err(),
        verify(&World::real(), &house.path("db"), &wrong).unwrap_err(),
    ] {
        let error = error.to_string();
        assert!(
            error.contains("db/region.pm") && error.contains("pm/one"),
            "{error}"
        );
        assert!(error.contains("pm-path"), "{error}");
    }
    assert_eq!(house.stored(), None);
    let error = house.open(Some("pm/three")).unwrap_err().to_string();
    assert!(
        error.contains("no ") && error.contains("pm/three"),
        "{error}"
    );
    assert!(
        error.contains("last at") && error.contains("pm/one"),
        "{error}"
    );
}

#[test]
fn a_relative_place_is_remembered_in_full() {
    let options = super::absolute(Options {
        pm_path: Some("some/where".into()),
        ..Options::default()
    });
    let path = options.unwrap().pm_path.unwrap();
    assert!(path.is_absolute() && path.ends_with("some/where"));
}

#[test]
fn an_interrupted_creation_in_the_folder_does_not_stand_in_for_the_region_elsewhere() {
    let house = House::new();
    house.make(None);
    let own = house.path("db").join(REGION_NAME);
    house.interrupt(&own);
    house.make(Some("pm/one"));
    assert!(!own.exists());
    assert_eq!(house.region(None), house.path("pm/one"));
}

/// In the database's own folder, too, by whatever name; and where the new region has another name than the one that is left.
#[test]
fn an_interrupted_creation_is_begun_again_wherever_the_region_is_to_lie() {
    for given in ["pm", "pm/one.pm", "db", "db/one.pm"] {
        let house = House::new();
        house.make(Some(given));
        let region = house.region(Some(given));
        house.interrupt(&region);
        house.make(Some(given));
        let again = house.region(Some(given));
        let folder = again.parent().unwrap();
        let names = World::real().env.storage.list(folder).unwrap();
        let regions = names.iter().filter(|name| name.ends_with(".pm")).count();
        assert_eq!(regions, 1, "{given}: {names:?}");
    }
}

/// Where the next one is to lie at another place, the first is still found: the note says where it is. What lies there by then may
/// be somebody's.
#[test]
fn an_interrupted_creation_leaves_no_region_at_another_place() {
    let storage = World::real().env.storage;
    for (first, second) in [
        ("pm", Some("pm/two.pm")),
        ("pm/one.pm", None),
        ("db/one.pm", Some("pm")),
    ] {
        for is_ours in [true, false] {
            let house = House::new();
            house.make(Some(first));
            let region = house.region(Some(first));
            house.interrupt(&region);
            if !is_ours {
                storage.remove(&region).unwrap();
                let file = storage.open(&region, OpenMode::CreateNew).unwrap();
                file.write_at(b"somebody's", 0).unwrap();
            }
            house.make(second);
            assert_eq!(region.exists(), !is_ours, "{first}");
            assert_ne!(house.region(second), region);
            assert!(!house.path("db").join(CREATING_NAME).exists());
        }
    }
}

/// A copy of the folder has the note, too, and the original has made a database with the region by then.
#[test]
fn a_copied_note_of_a_creation_says_nothing_of_another_place() {
    let storage = World::real().env.storage;
    let leveled = Options {
        dram: 4 << 20,
        ..Options::preset(Preset::Leveled)
    };
    for (first, second) in [
        ("pm/one.pm", Some("pm/two.pm")),
        ("pm/one.pm", None),
        ("pm", Some("pm")),
    ] {
        let house = House::new();
        house.make(Some(first));
        let region = house.region(Some(first));
        let mut id = [0; 16];
        let file = storage.open(&region, OpenMode::Read).unwrap();
        file.read_exact_at(&mut id, 16).unwrap();
        // As it was before the manifest.
        let [original, copy] = ["db", "copy"].map(|name| house.path(name));
        note_creation(&*storage, &original, &id, Some(&region)).unwrap();
        storage.create_dir_all(&copy).unwrap();
        house.rename(&original.join(CREATING_NAME), &copy.join(CREATING_NAME));
        let options = match second {
            Some(_) => house.options(second),
            None => leveled.clone(),
        };
        let engine = Engine::open(World::real(), &copy, options).unwrap();
        engine.close().unwrap();
        assert!(!copy.join(CREATING_NAME).exists());
        assert!(region.exists(), "{first}, {second:?}");
        assert_eq!(house.region(None), region);
    }
}

/// Nor may one be replaced that the caller names, as his own new one. What lies within the folder was copied, or moved, with it.
#[test]
fn a_copied_note_of_a_creation_gives_no_right_to_a_region_outside_of_the_folder() {
    let storage = World::real().env.storage;
    let house = House::new();
    house.make(Some("pm/one.pm"));
    let region = house.region(Some("pm/one.pm"));
    let mut id = [0; 16];
    let file = storage.open(&region, OpenMode::Read).unwrap();
    file.read_exact_at(&mut id, 16).unwrap();
    let [original, copy] = ["db", "copy"].map(|name| house.path(name));
    note_creation(&*storage, &original, &id, Some(&region)).unwrap();
    storage.create_dir_all(&copy).unwrap();
    house.rename(&original.join(CREATING_NAME), &copy.join(CREATING_NAME));
    let open = |options| Engine::open(World::real(), &copy, options);
    let refused = open(house.options(Some("pm/one.pm"))).unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("choose another pm-path"), "{refused}");
    assert_eq!(house.region(None), region);
    open(house.options(Some("pm/two.pm"))).unwrap();
    assert_eq!(house.region(None), region);

    let house = House::new();
    house.make(Some("db/one.pm"));
    house.interrupt(&house.path("db/one.pm"));
    let moved = house.path("moved");
    house.rename(&house.path("db"), &moved);
    let options = house.options(Some("moved/one.pm"));
    let engine = Engine::open(World::real(), &moved, options).unwrap();
    assert_eq!(engine.metrics().region_path, moved.join("one.pm"));
}

/// A checkpoint has one id for its region before it has the region, and a copy of its folder has the same. In a folder for regions
/// both look for the same file.
#[test]
fn a_copied_note_of_a_first_open_gives_no_right_to_the_region_of_its_original() {
    let storage = World::real().env.storage;
    let house = House::new();
    house.make(None);
    let [first, second] = ["first", "second"].map(|name| house.path(name));
    house.open(None).unwrap().checkpoint(&first).unwrap();
    storage.create_dir_all(&second).unwrap();
    for name in storage.list(&first).unwrap() {
        std::fs::copy(first.join(&name), second.join(&name)).unwrap();
    }
    let in_pm = || house.options(Some("pm"));
    let open = |dir: &Path| Engine::open(World::real(), dir, in_pm());
    let engine = open(&first).unwrap();
    let region = engine.metrics().region_path;
    engine.close().unwrap();
    let mut id = [0; 16];
    let file = storage.open(&region, OpenMode::Read).unwrap();
    file.read_exact_at(&mut id, 16).unwrap();
    // As it was before the manifest said that there is one.
    note_creation(&*storage, &first, &id, Some(&region)).unwrap();
    house.rename(&first.join(CREATING_NAME), &second.join(CREATING_NAME));
    let refused = open(&second).unwrap_err().to_string();
    assert!(refused.contains("choose another pm-path"), "{refused}");
    destroy(&second, &World::real(), &in_pm()).unwrap();
    assert!(region.exists());
    let engine = open(&first).unwrap();
    assert_eq!(engine.metrics().region_path, region);
}

/// Without a region, too.
#[test]
fn a_database_without_a_region_lets_go_of_one_at_another_place() {
    let house = House::new();
    house.make(Some("pm/one.pm"));
    let region = house.region(Some("pm/one.pm"));
    house.interrupt(&region);
    let leveled = Options {
        dram: 4 << 20,
        ..Options::preset(Preset::Leveled)
    };
    let engine = Engine::open(World::real(), &house.path("db"), leveled).unwrap();
    engine.close().unwrap();
    assert!(!region.exists());
}

#[test]
fn a_database_without_a_region_lets_go_of_one_that_was_begun_there_and_of_no_other() {
    let leveled = Options {
        dram: 4 << 20,
        ..Options::preset(Preset::Leveled)
    };
    for is_noted in [true, false] {
        let house = House::new();
        house.make(None);
        let (dir, region) = (house.path("db"), house.path("db").join(REGION_NAME));
        house.interrupt(&region);
        if !is_noted {
            note_creation(&*World::real().env.storage, &dir, &[7; 16], None).unwrap();
        }
        let engine = Engine::open(World::real(), &dir, leveled.clone()).unwrap();
        engine.close().unwrap();
        assert_eq!(region.exists(), !is_noted);
    }
}

/// Two processes make the same database, and one is done right behind the other's first look. The other then finds a folder that
/// is not empty, and is to learn whose it is.
#[test]
fn a_database_that_somebody_makes_meanwhile_is_no_strangers_folder() {
    let house = House::new();
    house.make(None);
    let storage = World::real().env.storage;
    let options = house.options(None);
    let find = |name| prepare_or_find(&*storage, &house.path(name), &options);
    assert!(find("db").unwrap());
    let open = house.open(None).unwrap();
    assert!(find("db").unwrap());
    assert_eq!(house.open(None).unwrap_err().kind(), ErrorKind::Locked);
    open.close().unwrap();
    // Of anything else it is told as before.
    let file = storage.open(&house.path("pm/somebody's"), OpenMode::CreateNew);
    drop(file.unwrap());
    let refused = find("pm").unwrap_err().to_string();
    assert!(refused.contains("not empty"), "{refused}");
    assert!(!find("new").unwrap());
}

/// A longer file of that name is no note: nobody goes by what it begins with.
#[test]
fn a_note_of_a_creation_has_its_exact_length() {
    let house = House::new();
    let storage = World::real().env.storage;
    let dir = house.path("pm");
    note_creation(&*storage, &dir, &[7; 16], None).unwrap();
    let noted = || noted_creation(&*storage, &dir).unwrap();
    let in_folder = Begun {
        id: [7; 16],
        place: None,
        is_copied: false,
    };
    assert_eq!(noted(), Some(in_folder));
    let note = dir.join(CREATING_NAME);
    let file = storage.open(&note, OpenMode::ReadWrite).unwrap();
    file.write_at(b"more", 16).unwrap();
    assert_eq!(noted(), None);
    storage.remove(&note).unwrap();
    let file = storage.open(&note, OpenMode::CreateNew).unwrap();
    file.write_at(&[7; 15], 0).unwrap();
    assert_eq!(noted(), None);
}

/// One with a place has a checksum. Of what a crash leaves of it nobody goes by it, and it goes; a longer file stays.
#[test]
fn a_torn_note_with_a_place_is_known_as_ours() {
    let house = House::new();
    let storage = World::real().env.storage;
    let dir = house.path("pm");
    let place = house.path("somewhere/else.pm");
    let note = dir.join(CREATING_NAME);
    let whole = || {
        note_creation(&*storage, &dir, &[7; 16], Some(&place)).unwrap();
        storage.open(&note, OpenMode::ReadWrite).unwrap()
    };
    let file = whole();
    let begun = Begun {
        id: [7; 16],
        place: Some(place.clone()),
        is_copied: false,
    };
    assert_eq!(noted_creation(&*storage, &dir).unwrap(), Some(begun));
    let len = file.len().unwrap();
    for cut in [0, 15, 20, 24, len - 1] {
        let file = whole();
        file.set_len(cut).unwrap();
        let lost = vec![0; usize::try_from(cut).unwrap()];
        for is_lost in [false, true] {
            if is_lost {
                file.write_at(&lost, 0).unwrap();
            }
            let noted = noted_creation(&*storage, &dir).unwrap();
            assert_eq!(noted, None, "{cut}");
        }
        forget_creation(&*storage, &dir).unwrap();
        assert!(!note.exists(), "{cut}");
    }
    let file = whole();
    file.set_len(NOTE_LEN_MAX + 1).unwrap();
    forget_creation(&*storage, &dir).unwrap();
    assert!(note.exists());
}
