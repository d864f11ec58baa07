//! Databases that are destroyed: what goes, what stays, and when that is refused.

use std::os::unix::fs::PermissionsExt;

use thermocline::Backups;
use thermocline::options::Preset;

use super::*;

const INVALID: ErrorKind = ErrorKind::InvalidArgument;

fn names(dir: &Path) -> Vec<String> {
    let all = std::fs::read_dir(dir).unwrap();
    let names = all.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Where databases of both kinds are to lie, with region and logs in their folder and elsewhere.
fn kinds(home: &Path) -> Vec<(PathBuf, Options)> {
    let regions = home.join("regions");
    std::fs::create_dir(&regions).unwrap();
    let leveled = |wal_path| Options {
        wal_path,
        ..Options::preset(Preset::Leveled)
    };
    let all = [
        ("own", options()),
        ("region", with_pm_path(&home.join("alone.pm"))),
        ("regions", with_pm_path(&regions)),
        ("leveled", leveled(None)),
        ("logs", leveled(Some(home.join("logs")))),
    ];
    let all = all.into_iter();
    all.map(|(name, options)| (home.join("db").join(name), options))
        .collect()
}

#[test]
fn exactly_the_files_of_the_database_go() {
    let home = home();
    let kinds = kinds(home.path());
    let strangers = ["999999.sst", "MANIFEST-999999", "999999.log"];
    for (dir, options) in &kinds {
        let db = Db::open(dir, options.clone()).unwrap();
        db.put("in a table", "1").unwrap();
        db.put("in a blob file", vec![7u8; 2 << 20]).unwrap();
        db.flush().unwrap();
        db.put("in no table", "yet").unwrap();
        db.close().unwrap();
        for name in strangers {
            std::fs::write(dir.join(name), "somebody's").unwrap();
        }
        // Nor is one that may not be read.
        let unreadable = std::fs::Permissions::from_mode(0o000);
        std::fs::set_permissions(dir.join("999999.sst"), unreadable).unwrap();
        std::fs::create_dir(dir.join("999998.blob")).unwrap();
    }
    for (dir, options) in kinds {
        Db::destroy(&dir, options.clone()).unwrap();
        let mut left = names(&dir);
        left.retain(|name| !strangers.contains(&name.as_str()));
        assert_eq!(left, ["999998.blob", "LOCK"], "{}", dir.display());
        assert_eq!(names(&dir).len(), left.len() + strangers.len());
        std::fs::remove_dir(dir.join("999998.blob")).unwrap();
        for name in strangers {
            std::fs::remove_file(dir.join(name)).unwrap();
        }
        let db = Db::open(&dir, options.clone()).unwrap();
        assert_eq!(db.iter().count(), 0);
        db.close().unwrap();
        Db::destroy(&dir, options).unwrap();
        assert_eq!(names(&dir), ["LOCK"]);
    }
    assert_eq!(names(home.path()), ["db", "logs", "regions"]);
    for elsewhere in ["logs", "regions"] {
        assert_eq!(names(&home.path().join(elsewhere)), Vec::<String>::new());
    }
}

#[test]
fn who_reads_it_keeps_it() {
    let home = home();
    let dir = home.path().join("db");
    let db = Db::open(&dir, options()).unwrap();
    fill(&db);
    let says = [&text(&dir)[..], "close it"];
    refused(Db::destroy(&dir, options()), ErrorKind::Locked, &says);
    assert_filled(&db);
    let snapshot = db.snapshot();
    db.close().unwrap();
    refused(Db::destroy(&dir, options()), ErrorKind::Locked, &says);
    assert_eq!(snapshot.iter().count(), entries().len());
    drop(snapshot);
    let reading = Options {
        read_only: true,
        ..options()
    };
    let db = Db::open(&dir, reading).unwrap();
    refused(Db::destroy(&dir, options()), ErrorKind::Locked, &says);
    assert_filled(&db);
    drop(db);
    Db::destroy(&dir, options()).unwrap();
    let says = ["no database", &text(&dir)];
    refused(Db::destroy(&dir, options()), INVALID, &says);
}

/// What is no database is not touched, nor is one that cannot be read, or a region that is another one's.
#[test]
fn what_cannot_be_told_stays() {
    let home = home();
    let (dir, other) = (home.path().join("db"), home.path().join("other"));
    let nothing = home.path().join("nothing");
    let empty = home.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for path in [&nothing, &empty] {
        refused(Db::destroy(path, options()), INVALID, &["no database"]);
    }
    refused(Db::destroy("", options()), INVALID, &["empty path"]);
    assert!(!nothing.exists() && names(&empty).is_empty());
    filled(&dir, options());
    filled(&other, options());
    let before = snapshot(&other);
    std::fs::copy(other.join("region.pm"), dir.join("region.pm")).unwrap();
    // It is another database's, whoever names it.
    let theirs = with_pm_path(&other.join("region.pm"));
    let says = ["another database", &text(&other)];
    refused(Db::destroy(&dir, theirs), ErrorKind::Corruption, &says);
    let missing = with_pm_path(&nothing);
    refused(Db::destroy(&dir, missing), INVALID, &[&text(&nothing)]);
    Db::destroy(&dir, options()).unwrap();
    assert_eq!(names(&dir), ["LOCK", "region.pm"]);
    assert_unchanged(&other, &before);

    std::fs::write(other.join("region.pm"), [9; 8192]).unwrap();
    let before = snapshot(&other);
    let says = [&text(&other.join("region.pm"))[..]];
    refused(Db::destroy(&other, options()), ErrorKind::Corruption, &says);
    assert_same(&other, &before);
    std::fs::remove_file(other.join("region.pm")).unwrap();
    std::fs::write(other.join("CURRENT"), "MANIFEST").unwrap();
    let before = snapshot(&other);
    refused(
        Db::destroy(&other, options()),
        ErrorKind::Corruption,
        &["CURRENT"],
    );
    assert_same(&other, &before);
}

/// Neither copies go, wherever they lie, nor does a database in a folder of the database's.
#[test]
fn copies_and_what_lies_in_folders_stay() {
    let home = home();
    let [dir, copy, again] = ["db", "copy", "again"].map(|name| home.path().join(name));
    let db = Db::open(&dir, options()).unwrap();
    fill(&db);
    db.flush().unwrap();
    db.checkpoint(&copy).unwrap();
    let backups = Backups::new(home.path().join("backups"));
    backups.create(&db).unwrap();
    db.close().unwrap();
    filled(&dir.join("inner"), options());
    Db::destroy(&dir, options()).unwrap();
    assert_eq!(names(&dir), ["LOCK", "inner"]);
    assert_filled(&Db::open(dir.join("inner"), options()).unwrap());
    assert_filled(&Db::open(&copy, options()).unwrap());
    backups.restore(None, &again).unwrap();
    // It was never opened for writing, so it has no region yet.
    Db::destroy(&again, options()).unwrap();
    assert_eq!(names(&again), ["LOCK"]);
    assert_filled(&Db::open(&copy, options()).unwrap());
}

/// A folder that was copied by other means remembers the region of its original.
#[test]
fn a_region_elsewhere_goes_only_if_it_is_named() {
    let home = home();
    let [dir, copied, region] = ["db", "copied", "region"].map(|name| home.path().join(name));
    let named = with_pm_path(&region);
    filled(&dir, named.clone());
    copy(&dir, &copied);
    let before = snapshot(home.path());
    for folder in [&dir, &copied] {
        let says = [&text(folder)[..], &text(&region), "pm-path", "copied"];
        refused(Db::destroy(folder, options()), INVALID, &says);
    }
    assert_same(home.path(), &before);
    // The original goes on.
    let db = Db::open(&dir, named.clone()).unwrap();
    db.put("more", "since").unwrap();
    let open = Db::destroy(&copied, named.clone());
    refused(open, ErrorKind::Busy, &[&text(&region)]);
    db.close().unwrap();
    let before = snapshot(home.path());
    let says = ["another copy", &text(&region)];
    let gone_on = Db::destroy(&copied, named.clone());
    refused(gone_on, ErrorKind::Corruption, &says);
    assert_same(home.path(), &before);
    let db = Db::open(&dir, named.clone()).unwrap();
    assert!(db.get("more").unwrap().is_some());
    db.close().unwrap();
    Db::destroy(&dir, named).unwrap();
    assert_eq!(names(&dir), ["LOCK"]);
    assert!(!region.exists());
    // It is lost, so the copy is what nobody can open, and goes.
    Db::destroy(&copied, options()).unwrap();
    assert_eq!(names(&copied), ["LOCK"]);
}

/// Its manifest remembers the one of its original, as it was copied before it had its own.
#[test]
fn a_folder_with_a_region_of_its_own_takes_no_other_one() {
    let home = home();
    let [dir, copied, region] = ["db", "copied", "region"].map(|name| home.path().join(name));
    filled(&dir, with_pm_path(&region));
    copy(&dir, &copied);
    std::fs::copy(&region, copied.join("region.pm")).unwrap();
    Db::destroy(&copied, options()).unwrap();
    assert_eq!(names(&copied), ["LOCK"]);
    assert_filled(&Db::open(&dir, with_pm_path(&region)).unwrap());
}

/// Whoever is root may read and write all, and removes all at once. For everybody else the region cannot be opened for writing,
/// which is told, and a table cannot be read, which is named.
#[test]
fn what_may_not_be_read_or_written_is_not_left_silently() {
    let home = home();
    let dir = home.path().join("db");
    let mut on_ssd = options();
    on_ssd.set("level0.shape", "ssd").unwrap();
    let db = Db::open(&dir, on_ssd).unwrap();
    db.put("in a table", "1").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let allow = |name: &str, mode| {
        let allowed = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(dir.join(name), allowed).unwrap();
    };
    let before = names(&dir);
    allow("region.pm", 0o400);
    let table = before.iter().find(|name| name.ends_with(".sst")).unwrap();
    if Db::destroy(&dir, options()).is_err() {
        assert_eq!(names(&dir), before);
        allow("region.pm", 0o600);
        allow(table, 0o000);
        Db::destroy(&dir, options()).unwrap();
    }
    assert_eq!(names(&dir), ["LOCK"]);
}

/// Another database's lies where its own would be looked for first.
#[test]
fn somebodys_region_in_the_folder_hides_no_other_one() {
    let home = home();
    let [dir, other, region] = ["db", "other", "region"].map(|name| home.path().join(name));
    filled(&dir, with_pm_path(&region));
    filled(&other, options());
    std::fs::copy(other.join("region.pm"), dir.join("region.pm")).unwrap();
    let before = snapshot(home.path());
    let says = [&text(&dir)[..], &text(&region), "pm-path"];
    refused(Db::destroy(&dir, options()), INVALID, &says);
    assert_same(home.path(), &before);
    Db::destroy(&dir, with_pm_path(&region)).unwrap();
    assert_eq!(names(&dir), ["LOCK", "region.pm"]);
    assert!(!region.exists());
    assert_filled(&Db::open(&other, options()).unwrap());
}

/// Where the region was there is no folder any more, but a file, below which nothing can be synced; or a folder in which nobody
/// but root may look up anything.
#[test]
fn a_place_that_cannot_be_looked_up_is_passed_over() {
    for is_file in [true, false] {
        let home = home();
        let [dir, copied, pm] = ["db", "copied", "pm"].map(|name| home.path().join(name));
        let region = pm.join("inner").join("region");
        std::fs::create_dir_all(pm.join("inner")).unwrap();
        filled(&dir, with_pm_path(&region));
        copy(&dir, &copied);
        std::fs::copy(&region, copied.join("region.pm")).unwrap();
        std::fs::remove_dir_all(&pm).unwrap();
        let allow = |mode| {
            let allowed = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&pm, allowed).unwrap();
        };
        match is_file {
            true => std::fs::write(&pm, "somebody's").unwrap(),
            false => std::fs::create_dir(&pm).unwrap(),
        }
        allow(0o000);
        // The one has lost its region, the other one has its own.
        for folder in [&dir, &copied] {
            Db::destroy(folder, options()).unwrap();
            assert_eq!(names(folder), ["LOCK"]);
        }
        allow(0o700);
    }
}

/// Copy and original have the same logs, of which a file beside them says whose they are.
#[test]
fn logs_elsewhere_go_only_with_the_folder_that_they_name() {
    let home = home();
    let [dir, copied, hidden, logs] =
        ["db", "copied", "hidden", "logs"].map(|name| home.path().join(name));
    let here = Options {
        memtable: options().memtable,
        ..Options::preset(Preset::Leveled)
    };
    let options = Options {
        wal_path: Some(logs.clone()),
        ..here.clone()
    };
    filled(&dir, options.clone());
    copy(&dir, &copied);
    let before = names(&logs);
    assert!(before.len() > 2, "{before:?}");
    let says = ["belong to the database in", &text(&dir)];
    refused(Db::destroy(&copied, options.clone()), INVALID, &says);
    // It was moved, or cannot be seen from here. Nobody can tell.
    std::fs::rename(&dir, &hidden).unwrap();
    let says = [&text(&dir)[..], &text(&copied), "open it for writing once"];
    refused(Db::destroy(&copied, options.clone()), INVALID, &says);
    assert_eq!(names(&logs), before);
    std::fs::rename(&hidden, &dir).unwrap();
    assert_filled(&Db::open(&dir, options.clone()).unwrap());
    // Where they lie need not be said.
    Db::destroy(&dir, here).unwrap();
    assert_eq!(names(&logs), Vec::<String>::new());
}

/// Whoever destroys a database need not know with which options it was opened, but for where it lies.
#[test]
fn of_the_options_only_places_count() {
    let home = home();
    let [logged, other, logs, region] =
        ["logged", "other", "logs", "region"].map(|name| home.path().join(name));
    let leveled = Options {
        wal_path: Some(logs.clone()),
        memtable: options().memtable,
        ..Options::preset(Preset::Leveled)
    };
    filled(&logged, leveled);
    filled(&other, with_pm_path(&region));
    for (pm_path, wal_path, name) in [
        (Some(PathBuf::new()), None, "pm_path"),
        (None, Some(PathBuf::new()), "wal_path"),
    ] {
        let empty = Options {
            pm_path,
            wal_path,
            ..Options::default()
        };
        let says = [name, "empty path"];
        refused(Db::destroy(&logged, empty), INVALID, &says);
    }
    // Another preset, which has no logs.
    let with_logs = Options {
        wal_path: Some(logs.clone()),
        ..Options::default()
    };
    Db::destroy(&logged, with_logs).unwrap();
    assert_eq!(names(&logs), Vec::<String>::new());
    // One that has no region, with a place for logs that are not there, and too little DRAM to be opened.
    let with_region = Options {
        pm_path: Some(region.clone()),
        wal_path: Some(logs),
        dram: 0,
        ..Options::preset(Preset::Leveled)
    };
    Db::destroy(&other, with_region).unwrap();
    assert!(!region.exists());
    for folder in [&logged, &other] {
        assert_eq!(names(folder), ["LOCK"]);
    }
}

/// Half of one cannot be opened, so the file beside its logs cannot learn where it was moved.
#[test]
fn half_a_database_with_logs_elsewhere_is_destroyed_where_it_was() {
    let home = home();
    let [dir, moved, logs] = ["db", "moved", "logs"].map(|name| home.path().join(name));
    let options = Options {
        wal_path: Some(logs.clone()),
        memtable: options().memtable,
        ..Options::preset(Preset::Leveled)
    };
    filled(&dir, options.clone());
    std::fs::rename(dir.join("CURRENT"), dir.join("DESTROYING")).unwrap();
    std::fs::rename(&dir, &moved).unwrap();
    let before = snapshot(home.path());
    let says = [&text(&dir)[..], &text(&moved), "move it back"];
    refused(Db::destroy(&moved, options.clone()), INVALID, &says);
    assert_same(home.path(), &before);
    std::fs::rename(&moved, &dir).unwrap();
    Db::destroy(&dir, options).unwrap();
    assert_eq!(names(&dir), ["LOCK"]);
    assert_eq!(names(&logs), Vec::<String>::new());
}

/// Whoever repeats a call that was cut short, and names another place than before, does not leave the region behind.
#[test]
fn half_a_database_does_not_forget_its_region() {
    let home = home();
    let [apart, own, lost, within] =
        ["apart", "own", "lost", "within"].map(|name| home.path().join(name));
    let [region, gone, wrong] = ["region", "gone", "wrong"].map(|name| home.path().join(name));
    filled(&apart, with_pm_path(&region));
    filled(&own, options());
    filled(&lost, with_pm_path(&gone));
    filled(&within, with_pm_path(&within.join("one.pm")));
    for dir in [&apart, &own, &lost, &within] {
        std::fs::rename(dir.join("CURRENT"), dir.join("DESTROYING")).unwrap();
    }
    // Outside of the folder it may be that of another one, of which this is a copy.
    for (dir, place, may_be_another) in [
        (&apart, &region, true),
        (&own, &own.join("region.pm"), false),
        (&within, &within.join("one.pm"), false),
    ] {
        let before = snapshot(home.path());
        let says = [&text(dir)[..], &text(&wrong), &text(place), "pm-path"];
        let error = refused(Db::destroy(dir, with_pm_path(&wrong)), INVALID, &says);
        assert_eq!(
            error.to_string().contains("copied"),
            may_be_another,
            "{error}"
        );
        assert_same(home.path(), &before);
    }
    Db::destroy(&apart, with_pm_path(&region)).unwrap();
    Db::destroy(&own, options()).unwrap();
    Db::destroy(&within, with_pm_path(&within.join("one.pm"))).unwrap();
    // It was moved, and the call before has removed it.
    std::fs::remove_file(&gone).unwrap();
    Db::destroy(&lost, with_pm_path(&wrong)).unwrap();
    for dir in [&apart, &own, &lost, &within] {
        assert_eq!(names(dir), ["LOCK"]);
    }
    assert_eq!(names(home.path()), ["apart", "lost", "own", "within"]);
}

/// What a call that was cut short has left is no database, and another call removes it.
#[test]
fn half_a_database_says_so() {
    let home = home();
    let dir = home.path().join("db");
    filled(&dir, options());
    std::fs::rename(dir.join("CURRENT"), dir.join("DESTROYING")).unwrap();
    let before = snapshot(&dir);
    let read_only = Options {
        read_only: true,
        ..options()
    };
    let says = [&text(&dir)[..], "being destroyed", "destroy it again"];
    refused(Db::open(&dir, options()), INVALID, &says);
    refused(Db::open(&dir, read_only), INVALID, &says);
    refused(Db::verify(&dir, options()), INVALID, &says);
    assert!(Db::stored_options(&dir).unwrap().is_none());
    assert_unchanged(&dir, &before);
    // Its tables are gone already.
    for name in names(&dir) {
        if name.ends_with(".sst") || name.ends_with(".blob") {
            std::fs::remove_file(dir.join(name)).unwrap();
        }
    }
    Db::destroy(&dir, options()).unwrap();
    assert_eq!(names(&dir), ["LOCK"]);
    filled(&dir, options());
    // Somebody's file has the name that is needed.
    std::fs::write(dir.join("DESTROYING"), "precious").unwrap();
    let before = snapshot(&dir);
    let says = ["DESTROYING", "move it away"];
    refused(Db::destroy(&dir, options()), INVALID, &says);
    assert_same(&dir, &before);
    assert_filled(&Db::open(&dir, options()).unwrap());
}
