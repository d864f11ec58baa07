//! What a relative path means.
//!
//! A program of its own, with one test: it changes the working folder, which the whole process has in common.
#![expect(
    clippy::disallowed_methods,
    reason = "tests look at files from outside"
)]

use std::path::Path;

use thermocline::{Backups, Db, IngestWriter, Options};

/// The names in a folder.
fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[test]
fn a_database_stays_where_it_is_when_the_working_folder_changes() {
    let home = tempfile::tempdir().unwrap();
    let [before, after] = ["before", "after"].map(|name| home.path().join(name));
    std::fs::create_dir(&before).unwrap();
    // Something of the same name, in which files can be made.
    std::fs::create_dir_all(after.join("db")).unwrap();
    let mut options = Options {
        pm: 64 << 20,
        ..Options::default()
    };
    options.set("level0.shape", "ssd").unwrap();
    std::env::set_current_dir(&before).unwrap();
    let db = Db::open("db", options.clone()).unwrap();
    let backups = Backups::new("backups");
    let mut tables = ["a.sst", "b.sst"].map(|name| IngestWriter::create(name).unwrap());
    std::env::set_current_dir(&after).unwrap();
    db.put("k", "v").unwrap();
    db.flush().unwrap();
    let is_table = |name: &String| name.ends_with(".sst");
    assert!(names(&before.join("db")).iter().any(is_table));
    backups.create(&db).unwrap();
    assert!(before.join("backups").is_dir());
    // One is completed, and one is given up.
    for table in &mut tables {
        table.put("t", "v").unwrap();
    }
    let [completed, given_up] = tables;
    completed.finish().unwrap();
    drop(given_up);
    let mut left = names(&before);
    left.sort();
    assert_eq!(left, ["a.sst", "backups", "db"]);
    // Whoever asks is told what he gave.
    assert_eq!(db.path(), Path::new("db"));
    db.close().unwrap();
    assert_eq!(names(&after), ["db"]);
    assert!(names(&after.join("db")).is_empty());
    assert_eq!(backups.list().unwrap().len(), 1);
    let db = Db::open(before.join("db"), options.clone()).unwrap();
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"v"[..]));
    db.close().unwrap();
    // Nor is a database of another folder destroyed, or the region of another one.
    options.pm_path = Some("region".into());
    assert!(Db::destroy("db", options.clone()).is_err());
    std::env::set_current_dir(&before).unwrap();
    let db = Db::open("other", options.clone()).unwrap();
    db.put("k", "v").unwrap();
    db.close().unwrap();
    assert!(Path::new("region").exists());
    Db::destroy("other", options.clone()).unwrap();
    assert!(!Path::new("region").exists());
    options.pm_path = None;
    Db::destroy("db", options).unwrap();
    for name in ["db", "other"] {
        assert_eq!(names(&before.join(name)), ["LOCK"]);
    }
}
