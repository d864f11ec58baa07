//! Databases that are removed: what goes, what stays, and when that is refused.

use thermocline::options::Preset;

use super::*;

fn names(dir: &Path) -> Vec<String> {
    let all = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = all
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Where databases of both kinds are to lie, with region and logs in their folder and elsewhere.
fn kinds(home: &Path) -> Vec<(PathBuf, Options)> {
    let (regions, logs) = (home.join("regions"), home.join("logs"));
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
        ("logs", leveled(Some(logs))),
    ];
    let all = all.into_iter();
    all.map(|(name, options)| (home.join("db").join(name), options))
        .collect()
}

#[test]
fn exactly_the_files_of_the_database_go() {
    let home = home();
    let kinds = kinds(home.path());
    for (dir, options) in &kinds {
        let db = Db::open(dir, options.clone()).unwrap();
        db.put("in a table", "1").unwrap();
        db.put("in a blob file", vec![7u8; 2 << 20]).unwrap();
        db.flush().unwrap();
        db.put("in no table", "yet").unwrap();
        db.close().unwrap();
        std::fs::write(dir.join("999999.sst"), "somebody's").unwrap();
        std::fs::write(dir.join("MANIFEST-999999"), "somebody's").unwrap();
        std::fs::create_dir(dir.join("999998.blob")).unwrap();
    }
    for (dir, options) in kinds {
        Db::destroy(&dir).unwrap();
        let left = ["999998.blob", "999999.sst", "LOCK", "MANIFEST-999999"];
        assert_eq!(names(&dir), left, "{}", dir.display());
        std::fs::remove_dir(dir.join(left[0])).unwrap();
        for name in [left[1], left[3]] {
            std::fs::remove_file(dir.join(name)).unwrap();
        }
        let db = Db::open(&dir, options).unwrap();
        assert_eq!(db.iter().count(), 0);
        db.close().unwrap();
        Db::destroy(&dir).unwrap();
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
    refused(
        Db::destroy(&dir),
        ErrorKind::Locked,
        &[&text(&dir), "close it"],
    );
    assert_filled(&db);
    let snapshot = db.snapshot();
    db.close().unwrap();
    refused(Db::destroy(&dir), ErrorKind::Locked, &[&text(&dir)]);
    assert_eq!(snapshot.iter().count(), entries().len());
    drop(snapshot);
    let reading = Options {
        read_only: true,
        ..options()
    };
    let db = Db::open(&dir, reading).unwrap();
    refused(Db::destroy(&dir), ErrorKind::Locked, &[&text(&dir)]);
    assert_filled(&db);
    drop(db);
    Db::destroy(&dir).unwrap();
    refused(
        Db::destroy(&dir),
        ErrorKind::InvalidArgument,
        &["no database", &text(&dir)],
    );
}

/// What is no database is not touched, nor is one that cannot be read, or whose region is another one's.
#[test]
fn what_cannot_be_told_stays() {
    let home = home();
    let (dir, other) = (home.path().join("db"), home.path().join("other"));
    let nothing = home.path().join("nothing");
    refused(
        Db::destroy(&nothing),
        ErrorKind::InvalidArgument,
        &["no database"],
    );
    assert!(!nothing.exists());
    filled(&dir, options());
    filled(&other, options());
    let before = snapshot(&other);
    std::fs::copy(other.join("region.pm"), dir.join("region.pm")).unwrap();
    Db::destroy(&dir).unwrap();
    assert_eq!(names(&dir), ["LOCK", "region.pm"]);
    assert_unchanged(&other, &before);

    std::fs::write(other.join("region.pm"), [9; 8192]).unwrap();
    let before = snapshot(&other);
    let says = [&text(&other.join("region.pm"))[..]];
    refused(Db::destroy(&other), ErrorKind::Corruption, &says);
    assert_same(&other, &before);
    std::fs::remove_file(other.join("region.pm")).unwrap();
    std::fs::write(other.join("CURRENT"), "MANIFEST").unwrap();
    let before = snapshot(&other);
    refused(Db::destroy(&other), ErrorKind::Corruption, &["CURRENT"]);
    assert_same(&other, &before);
}

/// Of copies neither takes the other's files along.
#[test]
fn copies_and_backups_stay() {
    let home = home();
    let [dir, copy] = ["db", "copy"].map(|name| home.path().join(name));
    let db = Db::open(&dir, options()).unwrap();
    fill(&db);
    db.flush().unwrap();
    db.checkpoint(&copy).unwrap();
    let backups = thermocline::Backups::new(home.path().join("backups"));
    backups.create(&db).unwrap();
    db.close().unwrap();
    Db::destroy(&dir).unwrap();
    assert_filled(&Db::open(&copy, options()).unwrap());
    backups.restore(None, &dir).unwrap();
    assert_filled(&Db::open(&dir, options()).unwrap());
    // One that was never opened for writing has no region yet.
    backups.restore(None, home.path().join("again")).unwrap();
    Db::destroy(home.path().join("again")).unwrap();
    assert_eq!(names(&home.path().join("again")), ["LOCK"]);
}

/// A folder that was copied by hand finds the region of its original.
#[test]
fn a_region_with_which_another_folder_has_gone_on_stays() {
    let home = home();
    let [dir, copied, region] = ["db", "copied", "region"].map(|name| home.path().join(name));
    filled(&dir, with_pm_path(&region));
    copy(&dir, &copied);
    let db = Db::open(&dir, with_pm_path(&region)).unwrap();
    db.put("more", "since").unwrap();
    db.close().unwrap();
    let before = snapshot(home.path());
    let says = ["another copy", &text(&region)];
    refused(Db::destroy(&copied), ErrorKind::Corruption, &says);
    assert_same(home.path(), &before);
    let db = Db::open(&dir, with_pm_path(&region)).unwrap();
    assert!(db.get("more").unwrap().is_some());
    db.close().unwrap();
    Db::destroy(&dir).unwrap();
    assert!(!region.exists());
}
