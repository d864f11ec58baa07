//! Reading beside a writer.

use std::path::Path;

use thermocline::options::Preset;
use thermocline::{Backups, Db, ErrorKind, Options};

/// A writer, and a reader whose tables the writer has replaced since.
fn left_behind(path: &Path, options: &Options) -> (Db, Db) {
    let writer = Db::open(path, options.clone()).unwrap();
    for value in ["first", "second"] {
        // Neither table can go elsewhere without the other one.
        writer.put("a", value).unwrap();
        writer.put("z", value).unwrap();
        writer.flush().unwrap();
    }
    let read_only = Options {
        read_only: true,
        ..options.clone()
    };
    let reader = Db::open(path, read_only).unwrap();
    writer.put("a", "third").unwrap();
    writer.compact::<&str>(..).unwrap();
    (writer, reader)
}

fn assert_has_what_the_reader_has(copy: &Path, options: Options) {
    let copy = Db::open(copy, options).unwrap();
    for key in ["a", "z"] {
        assert_eq!(copy.get(key).unwrap().as_deref(), Some(&b"second"[..]));
    }
}

#[test]
fn a_checkpoint_has_tables_that_the_writer_has_removed() {
    let home = tempfile::tempdir().unwrap();
    let (path, copy) = (home.path().join("db"), home.path().join("copy"));
    let options = Options::preset(Preset::Leveled);
    let (_writer, reader) = left_behind(&path, &options);
    reader.checkpoint(&copy).unwrap();
    assert_has_what_the_reader_has(&copy, options);
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a test puts files of another database there"
)]
fn a_checkpoint_has_no_files_of_another_database() {
    let home = tempfile::tempdir().unwrap();
    let (path, copy) = (home.path().join("db"), home.path().join("copy"));
    let options = Options::preset(Preset::Leveled);
    let (writer, reader) = left_behind(&path, &options);
    writer.close().unwrap();
    Db::destroy(&path, options.clone()).unwrap();
    drop(Db::open(&path, options).unwrap());
    for number in 0..100 {
        std::fs::write(path.join(format!("{number:06}.sst")), "another one's").unwrap();
    }
    let refused = reader.checkpoint(&copy).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
}

#[test]
fn a_backup_has_tables_that_the_writer_has_removed() {
    let home = tempfile::tempdir().unwrap();
    let (path, copy) = (home.path().join("db"), home.path().join("copy"));
    let options = Options::preset(Preset::Leveled);
    let (_writer, reader) = left_behind(&path, &options);
    let backups = Backups::new(home.path().join("backups"));
    backups.create(&reader).unwrap();
    // Files that a backup has are looked at all the same.
    backups.create(&reader).unwrap();
    backups.restore(None, &copy).unwrap();
    assert_has_what_the_reader_has(&copy, options);
}
