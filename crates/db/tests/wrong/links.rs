//! Links and other strange things where files of ours should be: no file behind a link is read for ours, and
//! none is ever changed.

use std::os::unix::fs::symlink;

use thermocline::Backups;

use super::*;

const PRECIOUS: &[u8] = b"somebody's, and longer than any number of a process";

/// Options with which flushes write files.
fn with_files() -> Options {
    let mut options = options();
    options.set("level0.shape", "global-index").unwrap();
    options
}

/// A file outside, and its path.
fn precious(home: &Path) -> PathBuf {
    let path = home.join("precious");
    std::fs::write(&path, PRECIOUS).unwrap();
    path
}

#[track_caller]
fn is_unharmed(path: &Path) {
    assert_eq!(std::fs::read(path).unwrap(), PRECIOUS);
}

#[test]
fn a_lock_that_is_a_link_is_refused_by_all_and_its_target_stays() {
    let home = home();
    let target = precious(home.path());
    let dir = home.path().join("db");
    filled(&dir, options());
    let db = Db::open(&dir, options()).unwrap();
    let backups = Backups::new(home.path().join("good"));
    backups.create(&db).unwrap();
    for name in ["checkpoint", "backup", "restore", "open"] {
        let dir = home.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        let lock = dir.join("LOCK");
        symlink(&target, &lock).unwrap();
        let says = [&text(&lock)[..], "symbolic link"];
        let answer = match name {
            "checkpoint" => db.checkpoint(&dir).map(drop),
            "backup" => Backups::new(&dir).create(&db).map(drop),
            "restore" => backups.restore(None, &dir).map(drop),
            _ => Db::open(&dir, options()).map(drop),
        };
        refused(answer, ErrorKind::Io, &says);
        is_unharmed(&target);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1, "{name}");
    }
}

#[test]
fn whatever_file_of_a_store_is_a_link_a_folder_or_a_fifo_is_never_followed() {
    let home = home();
    let made = home.path().join("made");
    let db = Db::open(&made, with_files()).unwrap();
    fill(&db);
    db.flush().unwrap();
    db.put("long", vec![7; 2 << 20]).unwrap();
    db.close().unwrap();
    // What nobody names, of a job that the close has ended, goes with the next opening.
    Db::open(&made, with_files()).unwrap().close().unwrap();
    let mut names: Vec<String> = std::fs::read_dir(&made)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    assert!(names.iter().any(|name| name.ends_with(".sst")), "{names:?}");
    assert!(
        names.iter().any(|name| name.ends_with(".blob")),
        "{names:?}"
    );
    names.extend(["CURRENT.tmp", "CREATING", "COPYING"].map(String::from));
    for name in &names {
        for kind in ["link", "folder", "fifo"] {
            let dir = home.path().join(format!("{name}-{kind}"));
            copy(&made, &dir);
            let (file, aside) = (
                dir.join(name),
                home.path().join(format!("{name}-{kind}-aside")),
            );
            if file.exists() {
                std::fs::rename(&file, &aside).unwrap();
            } else {
                std::fs::write(&aside, PRECIOUS).unwrap();
            }
            let before = std::fs::read(&aside).unwrap();
            match kind {
                "link" => symlink(&aside, &file).unwrap(),
                "folder" => std::fs::create_dir(&file).unwrap(),
                _ => {
                    let made = std::process::Command::new("mkfifo").arg(&file).status();
                    assert!(made.unwrap().success());
                }
            }
            let read_only = Options {
                read_only: true,
                ..with_files()
            };
            let extra = ["CURRENT.tmp", "CREATING", "COPYING"].contains(&&name[..]);
            for options in [read_only, with_files()] {
                let writes = !options.read_only;
                let answer = Db::open(&dir, options).and_then(|db| {
                    // Tables are opened when they are read.
                    db.iter().try_for_each(|entry| entry.map(drop))?;
                    if writes {
                        db.put("more", vec![8; 3 << 20])?;
                    }
                    db.close()
                });
                if let Err(error) = &answer {
                    let error = error.to_string();
                    assert!(error.contains(name), "{kind}: no {name} in: {error}");
                }
                // What no read has needed `verify` looks at.
                let told = || match Db::verify(&dir, with_files()) {
                    Ok(report) => report
                        .faults
                        .iter()
                        .any(|f| format!("{f:?}").contains(name)),
                    Err(_) => true,
                };
                assert!(
                    answer.is_err() || extra || name.ends_with(".blob") || told(),
                    "{name}, {kind}"
                );
                assert!(std::fs::read(&aside).unwrap() == before, "{name}, {kind}");
            }
            let _ = Db::verify(&dir, with_files());
            assert!(std::fs::read(&aside).unwrap() == before, "{name}, {kind}");
        }
    }
}

#[test]
fn a_table_to_ingest_may_be_a_link_and_one_to_export_may_not() {
    let home = home();
    let dir = home.path().join("db");
    filled(&dir, options());
    let db = Db::open(&dir, options()).unwrap();
    let table = home.path().join("table.sst");
    let family = db.find_column_family("default").unwrap();
    family.export::<&str>(.., &table).unwrap();
    let link = home.path().join("link.sst");
    symlink(&table, &link).unwrap();
    assert_eq!(family.ingest(&[&link]).unwrap().tables, 1);
    // At the table's name, and at that under which it is written.
    for name in ["out.sst", "out.sst.part"] {
        for target in [precious(home.path()), home.path().join("nowhere")] {
            let in_the_way = home.path().join(name);
            symlink(&target, &in_the_way).unwrap();
            let exported = family.export::<&str>(.., home.path().join("out.sst"));
            refused(exported, ErrorKind::InvalidArgument, &[name, "exists"]);
            assert!(in_the_way.symlink_metadata().unwrap().is_symlink());
            std::fs::remove_file(&in_the_way).unwrap();
            assert!(!home.path().join("out.sst").exists());
        }
    }
    is_unharmed(&home.path().join("precious"));
    assert!(!home.path().join("nowhere").exists());
}

/// A table of somebody else that has the name of one of ours, in our own folder.
#[test]
fn a_strangers_table_in_a_database_stays() {
    let home = home();
    let dir = home.path().join("db");
    filled(&dir, with_files());
    let db = Db::open(&dir, with_files()).unwrap();
    // Numbers are given out far beyond.
    for n in 0..12u8 {
        db.put([n], "x").unwrap();
        db.flush().unwrap();
        db.compact::<&str>(..).unwrap();
    }
    let table = home.path().join("table.sst");
    db.export(&table).unwrap();
    db.close().unwrap();
    let free = (1..8).map(|n| dir.join(format!("{n:06}.sst")));
    let free: Vec<PathBuf> = free.filter(|path| !path.exists()).collect();
    assert!(free.len() >= 3, "{free:?}");
    std::fs::copy(&table, &free[0]).unwrap();
    std::fs::create_dir(&free[1]).unwrap();
    // No table of ours gets its name before it is whole.
    std::fs::write(&free[2], PRECIOUS).unwrap();
    let db = Db::open(&dir, with_files()).unwrap();
    db.put("more", "x").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let whole = std::fs::read(&table).unwrap();
    assert!(std::fs::read(&free[0]).unwrap() == whole && free[1].is_dir());
    is_unharmed(&free[2]);
}

/// Values of this length lie in blob files.
const LONG: usize = 2 << 20;

/// A store with a blob file, and numbers that it has given out and that nothing has.
fn with_blobs(dir: &Path) -> Vec<u64> {
    filled(dir, with_files());
    let db = Db::open(dir, with_files()).unwrap();
    db.put("long", vec![7; LONG]).unwrap();
    for n in 0..12u8 {
        db.put([n], "x").unwrap();
        db.flush().unwrap();
        db.compact::<&str>(..).unwrap();
    }
    db.close().unwrap();
    Db::open(dir, with_files()).unwrap().close().unwrap();
    let names = names_of(dir);
    let has = |n: &u64| {
        names
            .iter()
            .any(|name| name.starts_with(&format!("{n:06}.")))
    };
    (1..12).filter(|n| !has(n)).collect()
}

fn names_of(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).unwrap();
    names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

fn blob_of(dir: &Path) -> PathBuf {
    let names = names_of(dir);
    let name = names.iter().find(|name| name.ends_with(".blob"));
    dir.join(name.expect("there is one"))
}

/// A file of somebody else that has the name of one of our blob files stays; what a crash may have left of ours goes.
#[test]
fn a_strangers_blob_file_in_a_database_stays() {
    let home = home();
    let [dir, other] = ["db", "other"].map(|name| home.path().join(name));
    let free = with_blobs(&dir);
    with_blobs(&other);
    let header = |path: &Path| std::fs::read(path).unwrap()[..64].to_vec();
    let own = header(&blob_of(&dir));
    // One of ours with another number, one of another database, and what is no blob file at all.
    let strangers = [own, header(&blob_of(&other)), PRECIOUS.to_vec(), vec![0, 1]];
    let left = [
        Vec::new(),
        vec![0; 30],
        vec![0; 4096],
        b"THCLBLOB\x01".to_vec(),
    ];
    assert!(free.len() >= strangers.len() + left.len(), "{free:?}");
    let path = |n: &u64| dir.join(format!("{n:06}.blob"));
    let all = strangers.iter().chain(&left);
    all.zip(&free)
        .for_each(|(bytes, n)| std::fs::write(path(n), bytes).unwrap());
    for _ in 0..2 {
        let db = Db::open(&dir, with_files()).unwrap();
        db.put("more", vec![8; LONG]).unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        let mut free = free.iter();
        for (bytes, n) in strangers.iter().zip(free.by_ref()) {
            assert!(std::fs::read(path(n)).unwrap() == *bytes, "{n}");
        }
        for (_, n) in left.iter().zip(free) {
            assert!(!path(n).exists(), "{n}");
        }
    }
}

/// A file that has the name which the next of ours would get stays, and ours gets another one.
#[test]
fn a_strangers_file_at_a_number_that_comes_stays() {
    let home = home();
    let dir = home.path().join("db");
    with_blobs(&dir);
    let (other, table) = (home.path().join("other"), home.path().join("table.sst"));
    filled(&other, with_files());
    let db = Db::open(&other, with_files()).unwrap();
    db.export(&table).unwrap();
    db.close().unwrap();
    let table = std::fs::read(&table).unwrap();
    let paths = |n: u64| ["sst", "blob"].map(|kind| dir.join(format!("{n:06}.{kind}")));
    let strangers: Vec<PathBuf> = (12..2000)
        .flat_map(paths)
        .filter(|path| !path.exists())
        .collect();
    for path in &strangers {
        let is_table = path.extension().is_some_and(|kind| kind == "sst");
        let bytes = if is_table { &table[..] } else { PRECIOUS };
        std::fs::write(path, bytes).unwrap();
    }
    for _ in 0..3 {
        let db = Db::open(&dir, with_files()).unwrap();
        db.put("more", vec![8; LONG]).unwrap();
        db.put("short", "x").unwrap();
        db.flush().unwrap();
        db.compact::<&str>(..).unwrap();
        db.close().unwrap();
        for path in &strangers {
            let is_table = path.extension().is_some_and(|kind| kind == "sst");
            let bytes = if is_table { &table[..] } else { PRECIOUS };
            assert!(
                std::fs::read(path).is_ok_and(|found| found == bytes),
                "{path:?}"
            );
        }
    }
}

/// Each file of a folder of backups, and the notes beside them: read and deleted as links.
#[test]
fn links_in_a_folder_of_backups_are_never_followed() {
    let home = home();
    let (db, good) = (home.path().join("db"), home.path().join("good"));
    filled(&db, with_files());
    let db = Db::open(&db, with_files()).unwrap();
    Backups::new(&good).create(&db).unwrap();
    let mut names = names_of(&good);
    names.extend(["BACKING-UP", "BACKUP.tmp"].map(String::from));
    assert!(names.len() > 4, "{names:?}");
    for name in names {
        let dir = home.path().join(format!("of-{name}"));
        copy(&good, &dir);
        let (file, aside) = (dir.join(&name), home.path().join(format!("{name}-aside")));
        if file.exists() {
            std::fs::rename(&file, &aside).unwrap();
        } else {
            std::fs::write(&aside, PRECIOUS).unwrap();
        }
        let before = std::fs::read(&aside).unwrap();
        symlink(&aside, &file).unwrap();
        let backups = Backups::new(&dir);
        let restored = backups.restore(None, home.path().join(format!("restored-{name}")));
        assert!(restored.is_err(), "{name}");
        let verified = backups.verify().map(|report| report.faults.is_empty());
        assert!(!matches!(verified, Ok(true)), "{name}");
        let _ = (
            backups.list(),
            backups.create(&db),
            backups.delete(1),
            backups.delete(2),
        );
        assert!(std::fs::read(&aside).unwrap() == before, "{name}");
    }
}

/// A log is opened, and made, as what it is.
#[test]
fn a_log_that_is_a_link_is_refused_and_its_target_stays() {
    let home = home();
    let made = home.path().join("made");
    let mut leveled = options();
    leveled.set("preset", "leveled").unwrap();
    let db = Db::open(&made, leveled.clone()).unwrap();
    db.put("key", "value").unwrap();
    db.close().unwrap();
    let logs: Vec<String> = names_of(&made)
        .into_iter()
        .filter(|n| n.ends_with(".log"))
        .collect();
    assert!(!logs.is_empty());
    for name in &logs {
        let dir = home.path().join(format!("of-{name}"));
        copy(&made, &dir);
        let aside = home.path().join(format!("{name}-aside"));
        std::fs::rename(dir.join(name), &aside).unwrap();
        symlink(&aside, dir.join(name)).unwrap();
        let before = std::fs::read(&aside).unwrap();
        refused(
            Db::open(&dir, leveled.clone()),
            ErrorKind::Io,
            &[name, "symbolic link"],
        );
        assert!(std::fs::read(&aside).unwrap() == before);
    }
}

/// Files and folders of somebody else that have the names of logs: a store that takes each for a log that nobody needs
/// removes them when it opens, or cannot be opened for a folder. What a crash may have left of logs of ours goes.
#[test]
fn a_strangers_log_in_a_database_stays() {
    let home = home();
    let [dir, other] = ["db", "other"].map(|name| home.path().join(name));
    let mut leveled = options();
    leveled.set("preset", "leveled").unwrap();
    for dir in [&dir, &other] {
        let db = Db::open(dir, leveled.clone()).unwrap();
        db.put("key", "value").unwrap();
        db.close().unwrap();
    }
    let log_of = |dir: &Path| {
        let names = names_of(dir).into_iter();
        let log = names.filter(|name| name.ends_with(".log")).min();
        std::fs::read(dir.join(log.unwrap())).unwrap()
    };
    let (own, of_other) = (log_of(&dir), log_of(&other));
    // As programs name their logs by the day.
    let path = |n: u64| dir.join(format!("{:06}.log", 20_240_100 + n));
    let strangers = [PRECIOUS.to_vec(), of_other, vec![0, 1]];
    let left = [
        Vec::new(),
        vec![0; 4096],
        b"THCLWLOG\x01".to_vec(),
        own[..40].to_vec(),
    ];
    let all = strangers.iter().chain(&left).zip(1..);
    all.for_each(|(bytes, n)| std::fs::write(path(n), bytes).unwrap());
    std::fs::create_dir(path(50)).unwrap();
    symlink(precious(home.path()), path(51)).unwrap();
    for _ in 0..2 {
        let db = Db::open(&dir, leveled.clone()).unwrap();
        assert_eq!(&*db.get("key").unwrap().unwrap(), b"value");
        db.put("more", "x").unwrap();
        db.flush().unwrap();
        db.close().unwrap();
        for (bytes, n) in strangers.iter().zip(1..) {
            assert!(std::fs::read(path(n)).unwrap() == *bytes, "{n}");
        }
        for (_, n) in left.iter().zip(4..) {
            assert!(!path(n).exists(), "{n}");
        }
        assert!(path(50).is_dir());
        assert!(path(51).symlink_metadata().unwrap().is_symlink());
    }
    is_unharmed(&home.path().join("precious"));
}

/// What lies beside logs that are outside of the database's folder: who holds them, and whose they are.
#[test]
fn the_lock_and_the_owner_of_logs_are_never_followed() {
    let home = home();
    let (dir, logs) = (home.path().join("db"), home.path().join("logs"));
    let mut leveled = options();
    leveled.set("preset", "leveled").unwrap();
    leveled.wal_path = Some(logs.clone());
    let db = Db::open(&dir, leveled.clone()).unwrap();
    db.put("key", "value").unwrap();
    db.close().unwrap();
    for end in ["LOCK", "OWNER"] {
        let names = names_of(&logs);
        let name = names.iter().find(|name| name.ends_with(end)).unwrap();
        let (file, kept) = (logs.join(name), home.path().join("kept"));
        std::fs::rename(&file, &kept).unwrap();
        // To something else, to nothing, and to what was there.
        let owned = std::fs::read(&kept).unwrap();
        let nowhere = home.path().join("nowhere");
        for target in [&precious(home.path()), &nowhere, &kept] {
            symlink(target, &file).unwrap();
            let opened = Db::open(&dir, leveled.clone());
            refused(opened, ErrorKind::Io, &[name, "symbolic link"]);
            assert!(file.symlink_metadata().unwrap().is_symlink());
            std::fs::remove_file(&file).unwrap();
            is_unharmed(&home.path().join("precious"));
            assert!(!nowhere.exists());
            assert_eq!(std::fs::read(&kept).unwrap(), owned);
        }
        std::fs::rename(&kept, &file).unwrap();
    }
    let db = Db::open(&dir, leveled).unwrap();
    assert_eq!(&*db.get("key").unwrap().unwrap(), b"value");
}
