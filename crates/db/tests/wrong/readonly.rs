//! Opening for reading writes nothing at all.

use super::*;

fn read_only(options: Options) -> Options {
    Options {
        read_only: true,
        ..options
    }
}

/// Reads everything and tries to write.
fn use_it(dir: &Path, options: Options) {
    let db = Db::open(dir, read_only(options)).unwrap();
    assert_filled(&db);
    for (key, value) in entries().iter().step_by(17) {
        assert!(*db.get(key).unwrap().unwrap() == *value);
    }
    assert_eq!(db.iter().rev().count(), entries().len());
    let mut cursor = db.cursor().unwrap();
    assert!(cursor.seek(b"key 0100").unwrap() && cursor.prev().unwrap());
    let kind = ErrorKind::InvalidArgument;
    let says = ["reading only"];
    refused(db.put("k", "v"), kind, &says);
    refused(db.delete("k"), kind, &says);
    refused(db.delete_range("k".."l"), kind, &says);
    refused(db.delete_range("k".."k"), kind, &says);
    let mut batch = db.batch();
    batch.put("k", "v");
    refused(batch.commit(Durability::Immediate), kind, &says);
    refused(db.column_family("new", CfOptions::default()), kind, &says);
    assert!(db.column_family("other", CfOptions::default()).is_ok());
    let _ = db.metrics();
    drop(batch);
    db.close().unwrap();
}

#[test]
fn after_a_clean_close_and_after_a_kill() {
    for home in [home(), file_home()] {
        let dir = home.path().join("db");
        let db = Db::open(&dir, options()).unwrap();
        fill(&db);
        let killed = home.path().join("killed");
        copy(&dir, &killed);
        db.close().unwrap();
        // A kill right after the creation, and one that left a torn edit behind.
        let torn = home.path().join("torn");
        copy(&killed, &torn);
        let name = std::fs::read_to_string(torn.join("CURRENT")).unwrap();
        let manifest = torn.join(name.lines().next().unwrap());
        let mut bytes = std::fs::read(&manifest).unwrap();
        bytes.extend([1, 2, 3, 4, 5]);
        std::fs::write(&manifest, bytes).unwrap();
        for dir in [dir, killed, torn] {
            let before = snapshot(&dir);
            for _ in 0..2 {
                use_it(&dir, options());
                assert_unchanged(&dir, &before);
                assert_eq!(Db::verify(&dir, options()).unwrap().faults, []);
                assert_unchanged(&dir, &before);
            }
            // Other options change nothing either.
            let mut other = options();
            other.manifest.bytes_max = 512;
            other.pm = 1 << 30;
            use_it(&dir, other);
            assert_unchanged(&dir, &before);
            assert!(Db::stored_options(&dir).unwrap().is_some());
            assert_unchanged(&dir, &before);
            // Without the lock file too: a copy of a database may lack it.
            std::fs::remove_file(dir.join("LOCK")).unwrap();
            let before = snapshot(&dir);
            use_it(&dir, options());
            assert_unchanged(&dir, &before);
            // And writing goes on where it was.
            let db = Db::open(&dir, options()).unwrap();
            assert_filled(&db);
            db.put("k", "v").unwrap();
        }
    }
}

/// Nothing keeps a writer away where there is no lock file, as in a copy, and no region, which is locked by itself. One that
/// does not know of the reader removes tables which that has not opened yet.
#[test]
fn without_a_lock_file_what_a_reader_found_stays() {
    let home = home();
    let dir = home.path().join("db");
    let mut leveled = options();
    leveled.set("preset", "leveled").unwrap();
    let db = Db::open(&dir, leveled.clone()).unwrap();
    for (key, value) in entries() {
        db.put(key, value).unwrap();
    }
    db.flush().unwrap();
    db.compact::<&str>(..).unwrap();
    db.close().unwrap();
    std::fs::remove_file(dir.join("LOCK")).unwrap();
    let reader = Db::open(&dir, read_only(leveled.clone())).unwrap();
    let writer = Db::open(&dir, leveled.clone()).unwrap();
    for key in entries().keys() {
        writer.put(key, "another value").unwrap();
    }
    writer.flush().unwrap();
    writer.compact::<&str>(..).unwrap();
    for key in entries().keys() {
        writer.delete(key).unwrap();
    }
    writer.flush().unwrap();
    writer.compact::<&str>(..).unwrap();
    assert_eq!(writer.iter().count(), 0);
    for (key, value) in entries() {
        assert!(*reader.get(key).unwrap().unwrap() == *value);
    }
    assert_eq!(reader.iter().count(), entries().len());
    reader.close().unwrap();
    writer.close().unwrap();
    // With a lock file it is as ever.
    let reader = Db::open(&dir, read_only(leveled.clone())).unwrap();
    refused(Db::open(&dir, leveled), ErrorKind::Locked, &["db"]);
    drop(reader);
}

/// All files and the folder without any right to write. (Root may write all the same, so the
/// snapshot decides.)
#[test]
fn with_read_only_files() {
    use std::os::unix::fs::PermissionsExt;
    let home = home();
    let dir = home.path().join("db");
    filled(&dir, options());
    let set = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    for entry in std::fs::read_dir(&dir).unwrap() {
        set(&entry.unwrap().path(), 0o400);
    }
    set(&dir, 0o500);
    let before = snapshot(&dir);
    use_it(&dir, options());
    assert_unchanged(&dir, &before);
    set(&dir, 0o700);
}
