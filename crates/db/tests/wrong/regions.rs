//! Regions that are missing, somebody else's, cut short, too new, or of the wrong kind.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use thermocline::options::{Preset, RegionDemand};

use super::*;

const KIND: ErrorKind = ErrorKind::InvalidArgument;

#[test]
fn a_missing_region() {
    let home = home();
    let dir = home.path().join("db");
    let elsewhere = home.path().join("elsewhere.pm");
    filled(&dir, with_pm_path(&elsewhere));
    // Without the path that was given at creation: it is remembered.
    assert_filled(&Db::open(&dir, options()).unwrap());
    // Moved away.
    let hidden = home.path().join("hidden");
    std::fs::rename(&elsewhere, &hidden).unwrap();
    let before = snapshot(home.path());
    let error = Db::open(&dir, with_pm_path(&elsewhere));
    refused(error, KIND, &[&text(&elsewhere), "missing", "pm-path"]);
    let says = [
        &text(&dir)[..],
        &text(&elsewhere),
        "region.pm",
        "missing",
        "pm-path",
    ];
    refused(Db::open(&dir, options()), KIND, &says);
    let read_only = Options {
        read_only: true,
        ..options()
    };
    refused(Db::open(&dir, read_only), KIND, &says);
    refused(Db::verify(&dir, options()), KIND, &says);
    assert_same(home.path(), &before);
    // Its new place works.
    assert_filled(&Db::open(&dir, with_pm_path(&hidden)).unwrap());
}

/// A manifest has places as text. One that is none would be missing at the next opening.
#[test]
fn places_that_cannot_be_remembered() {
    let home = home();
    let dir = home.path().join("db");
    let place = home.path().join(OsStr::from_bytes(b"place\xff"));
    let logged = Options {
        wal_path: Some(place.clone()),
        ..Options::preset(Preset::Leveled)
    };
    let before = snapshot(home.path());
    let error = Db::open(&dir, with_pm_path(&place));
    refused(error, KIND, &["pm_path", "not UTF-8"]);
    refused(Db::open(&dir, logged), KIND, &["wal_path", "not UTF-8"]);
    assert_unchanged(home.path(), &before);
    // What lies there all the same can be read.
    filled(&dir, options());
    std::fs::rename(dir.join("region.pm"), &place).unwrap();
    let reading = Options {
        read_only: true,
        ..with_pm_path(&place)
    };
    assert_filled(&Db::open(&dir, reading).unwrap());
    // The database's own folder need not be remembered.
    let dir = home.path().join(OsStr::from_bytes(b"db\xff"));
    filled(&dir, options());
    assert_filled(&Db::open(&dir, options()).unwrap());
}

/// No file can be made in that folder. A database that remembers it opens no more without being told of another one.
#[test]
fn a_place_where_no_log_can_be_made_is_not_remembered() {
    let home = home();
    let (dir, copy) = (home.path().join("db"), home.path().join("copy"));
    let leveled = Options {
        memtable: options().memtable,
        ..Options::preset(Preset::Leveled)
    };
    let nowhere = Options {
        wal_path: Some("/proc".into()),
        ..leveled.clone()
    };
    let says = ["wal_path", "/proc"];
    refused(Db::open(&dir, nowhere.clone()), ErrorKind::Io, &says);
    assert!(Db::stored_options(&dir).unwrap().is_none());
    filled(&dir, leveled.clone());
    // Nor is it where a copy is opened for the first time.
    let db = Db::open(&dir, leveled.clone()).unwrap();
    db.checkpoint(&copy).unwrap();
    db.close().unwrap();
    refused(Db::open(&copy, nowhere.clone()), ErrorKind::Io, &says);
    refused(Db::open(&dir, nowhere), ErrorKind::Io, &["/proc"]);
    for dir in [&copy, &dir] {
        let stored = Db::stored_options(dir).unwrap().unwrap();
        assert_eq!(stored.wal_path, None);
        assert_filled(&Db::open(dir, stored).unwrap());
    }
}

#[test]
fn the_region_of_another_database() {
    let home = home();
    let [dir, other] = ["db", "other"].map(|name| home.path().join(name));
    filled(&dir, options());
    filled(&other, options());
    let own = std::fs::read(dir.join("region.pm")).unwrap();
    std::fs::copy(other.join("region.pm"), dir.join("region.pm")).unwrap();
    let before = snapshot(home.path());
    let says = ["region.pm", "another database", &text(&dir)];
    refused(Db::open(&dir, options()), ErrorKind::Corruption, &says);
    let faults = Db::verify(&dir, options()).unwrap().faults;
    assert!(faults[0].what.contains("another database"), "{faults:?}");
    // And by pm_path, for an existing database and for a new one.
    let theirs = other.join("region.pm");
    let error = Db::open(&dir, with_pm_path(&theirs));
    refused(error, ErrorKind::Corruption, &["another database"]);
    let error = Db::open(home.path().join("new"), with_pm_path(&theirs));
    refused(error, KIND, &[&text(&theirs), "another pm-path"]);
    for (path, then) in &before {
        assert!(then.2.is_none() || std::fs::read(path).ok() == then.2);
    }
    assert_filled(&Db::open(&other, options()).unwrap());
    std::fs::write(dir.join("region.pm"), own).unwrap();
    assert_filled(&Db::open(&dir, options()).unwrap());
}

/// Nobody's file is taken for an unfinished region and replaced.
#[test]
fn another_programs_file_as_region() {
    let contents: [(&str, Vec<u8>); 9] = [
        ("a byte", vec![b'x']),
        ("a note", b"do not delete me\n".to_vec()),
        ("almost a page", vec![b'x'; 4095]),
        ("a page", vec![b'x'; 4096]),
        ("a page and some", vec![b'x'; 5000]),
        ("much", b"0123456789abcdef".repeat(20_000)),
        ("zeros and an end", {
            let mut bytes = vec![0; 4096];
            bytes.extend(b"end");
            bytes
        }),
        ("zeros with a byte", {
            let mut bytes = vec![0; 100_000];
            bytes[77_777] = 1;
            bytes
        }),
        ("a sparse header", {
            let mut bytes = vec![0; 20_000];
            bytes[4000] = 1;
            bytes
        }),
    ];
    for (what, bytes) in contents {
        let home = home();
        let file = home.path().join("file");
        std::fs::write(&file, &bytes).unwrap();
        let then = snapshot(&file);
        let dir = home.path().join("db");
        let error = match Db::open(&dir, with_pm_path(&file)) {
            Ok(_) => panic!("{what} was taken for a region"),
            Err(error) => error,
        };
        // Nor after a creation that was interrupted.
        std::fs::write(dir.join("CREATING"), [7; 16]).unwrap();
        assert!(Db::open(&dir, with_pm_path(&file)).is_err(), "{what}");
        std::fs::remove_file(dir.join("CREATING")).unwrap();
        assert_eq!(error.kind(), KIND, "{what}: {error}");
        for part in [&text(&file)[..], "another program", "pm-path"] {
            assert!(error.to_string().contains(part), "{what}: {error}");
        }
        assert_unchanged(&file, &then);
        // The folder is not spoilt by that.
        let elsewhere = home.path().join("elsewhere");
        filled(&dir, with_pm_path(&elsewhere));
        // In place of the region of an existing database.
        let error = Db::open(&dir, with_pm_path(&file));
        refused(error, ErrorKind::Corruption, &[&text(&file)]);
        assert_unchanged(&file, &then);
        assert_filled(&Db::open(&dir, with_pm_path(&elsewhere)).unwrap());
    }
}

#[test]
fn a_region_cut_short_is_an_error_at_open() {
    let home = home();
    let dir = home.path().join("db");
    filled(&dir, options());
    let path = dir.join("region.pm");
    let whole = std::fs::read(&path).unwrap();
    let mut lens = vec![0, 1, 63, 64, 511, 512, 4095, 4096, 4097, 16 << 10, 20_000];
    lens.extend((1..16).map(|n| whole.len() * n / 16));
    lens.extend((0..20).map(|n| whole.len() - 1 - n * 4096));
    lens.push(whole.len() - 1);
    for len in lens {
        std::fs::write(&path, &whole[..len]).unwrap();
        let before = snapshot(&dir);
        for read_only in [false, true] {
            let options = Options {
                read_only,
                ..options()
            };
            refused(
                Db::open(&dir, options),
                ErrorKind::Corruption,
                &[&text(&path)],
            );
        }
        assert_ne!(
            Db::verify(&dir, options()).unwrap().faults,
            [],
            "{len} bytes"
        );
        assert_same(&dir, &before);
    }
    std::fs::write(&path, &whole).unwrap();
    assert_filled(&Db::open(&dir, options()).unwrap());
}

#[test]
fn a_region_cut_short_while_open_ends_in_errors() {
    for (kind, home) in [
        ("file", Some(file_home())),
        ("shm", tempfile::tempdir_in("/dev/shm").ok()),
    ] {
        let Some(home) = home else { continue };
        let dir = home.path().join("db");
        let all: &[u64] = if kind == "shm" {
            &[0, 1, 9, 32, 63]
        } else {
            &[1]
        };
        for &keep_in_64 in all {
            // Without checksums, zeros in place of a page are an error all the same.
            let mut options = options();
            options.read.verify_checksums = keep_in_64 % 2 == 1;
            let db = Db::open(&dir, options).unwrap();
            assert_eq!(db.metrics().region_kind, kind);
            fill(&db);
            let path = db.metrics().region_path;
            let whole = std::fs::read(&path).unwrap();
            let mut cursor = db.cursor().unwrap();
            cursor.seek_to_first().unwrap();
            let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(whole.len() as u64 * keep_in_64 / 64).unwrap();
            // Every answer is right or an error that names the region.
            let mut failed = 0;
            for (key, value) in entries() {
                match db.get(&key) {
                    Ok(Some(got)) => assert!(*got == value),
                    Ok(None) => panic!("silently gone"),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                        assert!(error.to_string().contains(&text(&path)), "{error}");
                        failed += 1;
                    }
                }
            }
            let mut scan_failed = false;
            for (entry, expected) in db.iter().zip(entries()) {
                match entry {
                    Ok(entry) => assert!(entry.0 == expected.0 && *entry.1 == expected.1),
                    Err(_) => scan_failed = true,
                }
            }
            while matches!(cursor.next(), Ok(true)) {}
            if keep_in_64 < 2 {
                assert!(failed > 0 && scan_failed, "{failed} {scan_failed}");
            }
            // A write is durable or an error; once it failed, writes end.
            let wrote = (0..2000u32).map(|n| db.put(b"new", [b'v'; 1000]).map(|()| n));
            let wrote = wrote.collect::<Result<Vec<_>, _>>();
            assert!(keep_in_64 > 1 || wrote.is_err(), "a write to nowhere");
            if let Err(error) = wrote {
                let kinds = [ErrorKind::Corruption, ErrorKind::Io, ErrorKind::Poisoned];
                assert!(kinds.contains(&error.kind()), "{error}");
                let error = db.put("new", "v").unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
            }
            let _ = db.metrics();
            let _ = db.close();
            drop(cursor);
            std::fs::remove_dir_all(&dir).unwrap();
        }
    }
}

/// Nothing is read here that could be missed: only the page itself is gone.
#[test]
fn a_first_write_to_a_region_that_is_gone_is_no_success() {
    for home in [home(), file_home()] {
        let dir = home.path().join("db");
        let db = Db::open(&dir, options()).unwrap();
        db.put("k", "v").unwrap();
        let other = db.column_family("other", CfOptions::default()).unwrap();
        let path = db.metrics().region_path;
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(0).unwrap();
        let error = other.put("k", "v").unwrap_err();
        let kinds = [ErrorKind::Corruption, ErrorKind::Io];
        assert!(kinds.contains(&error.kind()), "{error}");
        assert!(error.to_string().contains(&text(&path)), "{error}");
        refused(db.put("k", "v"), ErrorKind::Poisoned, &[&text(&path)]);
        assert!(db.get("k").is_err());
    }
}

#[test]
fn a_newer_region() {
    let home = home();
    let dir = home.path().join("db");
    filled(&dir, options());
    let path = dir.join("region.pm");
    let whole = std::fs::read(&path).unwrap();
    let mut newer = whole.clone();
    for at in [0, 256] {
        bytes::set_superblock_version(&mut newer[at..at + 64], 7);
    }
    std::fs::write(&path, &newer).unwrap();
    let before = snapshot(&dir);
    let says = [&text(&path)[..], "format 7", "up to 1"];
    refused(Db::open(&dir, options()), ErrorKind::Unsupported, &says);
    refused(Db::verify(&dir, options()), ErrorKind::Unsupported, &says);
    // Nor is it somebody's leftover.
    let error = Db::open(home.path().join("new"), with_pm_path(&path));
    refused(error, ErrorKind::InvalidArgument, &[&text(&path)]);
    assert_same(&dir, &before);
    std::fs::write(&path, &whole).unwrap();
    assert_filled(&Db::open(&dir, options()).unwrap());
}

#[test]
fn a_kind_that_it_is_not() {
    let on_file = file_home();
    let mut places = vec![(on_file, RegionDemand::File, "file")];
    if let Ok(on_shm) = tempfile::tempdir_in("/dev/shm") {
        places.push((on_shm, RegionDemand::Shm, "shm"));
    }
    for (home, demand, kind) in places {
        let dir = home.path().join("db");
        let demanding = |region| Options {
            region,
            ..options()
        };
        let others = [
            (RegionDemand::Dax, "dax"),
            (RegionDemand::File, "file"),
            (RegionDemand::Shm, "shm"),
        ];
        let refuse_others = || {
            for (other, name) in others.iter().filter(|(d, _)| *d != demand) {
                let says = [&format!("'{kind}'")[..], &format!("'{name}'"), "pm-path"];
                refused(
                    Db::open(&dir, demanding(*other)),
                    ErrorKind::Unsupported,
                    &says,
                );
            }
        };
        refuse_others();
        assert!(!dir.join("CURRENT").exists() && !dir.join("region.pm").exists());
        filled(&dir, demanding(demand));
        let before = snapshot(&dir);
        refuse_others();
        let files: Vec<_> = before
            .iter()
            .filter(|(path, _)| !path.ends_with("LOCK"))
            .collect();
        for (path, then) in files {
            if let Some(bytes) = &then.2 {
                assert!(*bytes == std::fs::read(path).unwrap(), "{}", path.display());
            }
        }
        let db = Db::open(&dir, demanding(demand)).unwrap();
        assert_eq!(db.metrics().region_kind, kind);
        assert_filled(&db);
    }
}

#[test]
fn another_pm_at_every_open() {
    let home = home();
    let dir = home.path().join("db");
    let with_pm = |pm| {
        let mut options = Options { pm, ..options() };
        options.flush.automatic = false;
        options
    };
    filled(&dir, with_pm(64 << 20));
    let len = std::fs::metadata(dir.join("region.pm")).unwrap().len();
    assert!(len > 512 << 10);
    // Smaller than the region: what is there stays, reading and deleting go on.
    let db = Db::open(&dir, with_pm(256 << 10)).unwrap();
    assert_filled(&db);
    for n in 0..10_000u32 {
        if let Err(error) = db.put(format!("big {n}"), n.to_be_bytes().repeat(12_000)) {
            let says = ["region.pm", "full", "raise pm"];
            refused::<()>(Err(error), ErrorKind::OutOfSpace, &says);
            break;
        }
        assert!(n < 9_999, "pm is no limit");
    }
    let big: Vec<_> = db.prefix(b"big").map(|entry| entry.unwrap().0).collect();
    for key in big {
        db.delete(key).unwrap();
    }
    assert_filled(&db);
    drop(db);
    assert_eq!(std::fs::metadata(dir.join("region.pm")).unwrap().len(), len);
    // Raised: it grows.
    let db = Db::open(&dir, with_pm(16 << 20)).unwrap();
    assert_filled(&db);
    for n in 0..100u8 {
        db.put([n], vec![n; 50_000]).unwrap();
    }
    assert!(db.metrics().region_bytes > len);
    drop(db);
    let db = Db::open(&dir, with_pm(256 << 10)).unwrap();
    assert_eq!(db.get([99]).unwrap().as_deref(), Some(&[99; 50_000][..]));
}
