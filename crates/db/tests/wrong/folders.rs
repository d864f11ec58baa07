//! Folders that are no database, or none yet.

use thermocline::options::Preset;
use thermocline::{Backups, IngestWriter};

use super::*;

#[test]
fn a_path_that_is_a_file() {
    let home = home();
    let file = home.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let before = snapshot(home.path());
    let kind = ErrorKind::InvalidArgument;
    let says = [&text(&file)[..], "is a file", "folder"];
    refused(Db::open(&file, options()), kind, &says);
    assert!(Db::open(file.join("db"), options()).is_err());
    let read_only = Options {
        read_only: true,
        ..options()
    };
    assert!(Db::open(&file, read_only).is_err());
    assert!(Db::verify(&file, options()).is_err());
    assert_unchanged(home.path(), &before);
}

/// As of a variable that is not set.
#[test]
fn a_path_that_is_empty() {
    let home = home();
    let dir = home.path().join("db");
    let kind = ErrorKind::InvalidArgument;
    let says = ["folder", "empty path"];
    let read_only = Options {
        read_only: true,
        ..options()
    };
    refused(Db::open("", options()), kind, &says);
    refused(Db::open("", read_only), kind, &says);
    refused(Db::verify("", options()), kind, &says);
    assert_eq!(Db::stored_options("").unwrap(), None);
    let empty = Some(PathBuf::new());
    let region = Options {
        pm_path: empty.clone(),
        ..options()
    };
    let logs = Options {
        wal_path: empty,
        ..Options::preset(Preset::Leveled)
    };
    for (options, name) in [(region, "pm_path"), (logs, "wal_path")] {
        refused(Db::open(&dir, options), kind, &[name, "empty path"]);
        assert!(!dir.exists());
        let error = Options::default().set(name, "");
        refused(error, kind, &[name, "empty path"]);
    }
}

/// No copy is made there, either, nor a table; and nothing is read of what lies in the working folder.
#[test]
fn a_copy_or_a_table_at_a_path_that_is_empty() {
    let home = home();
    let dir = home.path().join("db");
    filled(&dir, options());
    let db = Db::open(&dir, options()).unwrap();
    let kind = ErrorKind::InvalidArgument;
    let says = ["checkpoint", "folder", "empty path"];
    refused(db.checkpoint(""), kind, &says);

    let says = ["backups", "folder", "empty path"];
    let (nowhere, new) = (Backups::new(""), home.path().join("new"));
    refused(nowhere.create(&db), kind, &says);
    refused(nowhere.list(), kind, &says);
    refused(nowhere.ids(), kind, &says);
    refused(nowhere.delete(1), kind, &says);
    refused(nowhere.verify(), kind, &says);
    refused(nowhere.restore(None, &new), kind, &says);
    assert!(!new.exists());
    let backups = Backups::new(home.path().join("backups"));
    backups.create(&db).unwrap();
    let says = ["database", "folder", "empty path"];
    refused(backups.restore(None, ""), kind, &says);

    let says = ["table", "file", "empty path"];
    refused(db.export(""), kind, &says);
    refused(IngestWriter::create(""), kind, &says);
    refused(db.ingest(&[""]), kind, &says);
    refused(Db::check_tables(&[""]), kind, &says);
    assert_filled(&db);
}

#[test]
fn a_folder_of_somebody_else() {
    for stranger in [
        "notes.txt",
        ".hidden",
        "CURRENT.bak",
        "MANIFEST-old.txt",
        "sub",
    ] {
        let home = home();
        let path = home.path().join(stranger);
        if stranger == "sub" {
            std::fs::create_dir(&path).unwrap();
        } else {
            std::fs::write(&path, "precious").unwrap();
        }
        let before = snapshot(home.path());
        let dir = text(home.path());
        let says = [&dir[..], stranger, "empty or new folder"];
        refused(
            Db::open(home.path(), options()),
            ErrorKind::InvalidArgument,
            &says,
        );
        assert_unchanged(home.path(), &before);
    }
}

#[test]
fn a_stray_file_in_a_database() {
    let home = home();
    let dir = home.path().join("db");
    filled(&dir, options());
    for stray in [
        "notes.txt",
        "MANIFEST-999999",
        "MANIFEST-x",
        "CURRENT.tmp2",
        ".x",
    ] {
        std::fs::write(dir.join(stray), "precious").unwrap();
    }
    for _ in 0..3 {
        let db = Db::open(&dir, options()).unwrap();
        assert_filled(&db);
        let mut more = options();
        more.manifest.bytes_max = 512;
        drop(db);
        let db = Db::open(&dir, more).unwrap();
        for n in 0..20 {
            db.column_family(&format!("{n}"), CfOptions::default())
                .unwrap();
        }
    }
    for stray in [
        "notes.txt",
        "MANIFEST-999999",
        "MANIFEST-x",
        "CURRENT.tmp2",
        ".x",
    ] {
        assert_eq!(
            std::fs::read(dir.join(stray)).unwrap(),
            b"precious",
            "{stray}"
        );
    }
}

#[test]
fn no_database_where_none_may_be_made() {
    let home = home();
    let empty = home.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let before = snapshot(home.path());
    let kind = ErrorKind::InvalidArgument;
    for dir in [
        empty.clone(),
        home.path().join("missing"),
        home.path().join("a/b/c"),
    ] {
        let not_made = Options {
            create_if_missing: false,
            ..options()
        };
        let says = ["no database", &text(&dir)];
        refused(Db::open(&dir, not_made), kind, &says);
        let read_only = Options {
            read_only: true,
            ..options()
        };
        refused(Db::open(&dir, read_only), kind, &says);
        refused(Db::verify(&dir, options()), kind, &says);
        assert_eq!(Db::stored_options(&dir).unwrap(), None);
        assert_unchanged(home.path(), &before);
    }
    // An empty folder is welcome.
    filled(&empty, options());
    assert_filled(&Db::open(&empty, options()).unwrap());
}

#[test]
fn a_new_database_is_sound_before_any_write() {
    let home = home();
    let dir = home.path().join("db");
    for _ in 0..3 {
        assert_eq!(Db::open(&dir, options()).unwrap().iter().count(), 0);
        assert_eq!(Db::verify(&dir, options()).unwrap().faults, []);
    }
}

#[test]
fn a_deleted_folder_can_be_made_again() {
    let home = home();
    let dir = home.path().join("db");
    for pm_path in [
        None,
        Some(home.path().join("region")),
        Some(home.path().into()),
    ] {
        let options = Options {
            pm_path,
            ..options()
        };
        for round in 0..3 {
            let db = Db::open(&dir, options.clone()).unwrap();
            assert_eq!(db.iter().count(), 0, "round {round}");
            fill(&db);
            let region = db.metrics().region_path;
            if round == 1 {
                // Under an open database: its handles go on or fail, nothing worse.
                std::fs::remove_dir_all(&dir).unwrap();
                let _ = db.put("k", "v");
                let _ = db.get("k");
                let _ = db.close();
            } else {
                db.close().unwrap();
                std::fs::remove_dir_all(&dir).unwrap();
            }
            if region.exists() {
                std::fs::remove_file(&region).unwrap();
            }
        }
    }
}

/// By whatever path: a store that compares paths makes the copy in its own folder, and whoever removes that has neither.
#[test]
fn a_copy_in_the_folder_of_its_database() {
    let home = home();
    let dir = home.path().join("db");
    filled(&dir, options());
    let db = Db::open(&dir, options()).unwrap();
    let link = home.path().join("link");
    std::os::unix::fs::symlink(&dir, &link).unwrap();
    std::fs::create_dir(home.path().join("far")).unwrap();
    let kind = ErrorKind::InvalidArgument;
    for place in [
        dir.join("copy"),
        dir.join("far/copy"),
        link.join("copy"),
        home.path().join("far/../db/copy"),
        // To make this makes `new`, which nobody looks at then.
        home.path().join("new/../db/copy"),
        home.path().join("new/er/../../far/../link/copy"),
        home.path().join("new/../db"),
        dir.join("new/../../copy"),
    ] {
        let says = [&text(&place)[..], "lies in the folder", &text(&dir)];
        refused(db.checkpoint(&place), kind, &says);
        refused(Backups::new(&place).create(&db), kind, &says);
    }
    assert!(!dir.join("copy").exists() && !dir.join("far").exists());
    assert!(!home.path().join("new").exists());
    // Through it leads no way into it.
    let outside = dir.join("../copy");
    db.checkpoint(&outside).unwrap();
    assert_filled(&Db::open(&outside, options()).unwrap());
    let name_alone = home.path().join("db2");
    Backups::new(&name_alone).create(&db).unwrap();
}
