//! Reading beside a writer.

use thermocline::options::Preset;
use thermocline::{Db, Options};

#[test]
fn a_checkpoint_has_tables_that_the_writer_has_removed() {
    let home = tempfile::tempdir().unwrap();
    let (path, copy) = (home.path().join("db"), home.path().join("copy"));
    let options = Options::preset(Preset::Leveled);
    let writer = Db::open(&path, options.clone()).unwrap();
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
    let reader = Db::open(&path, read_only).unwrap();
    writer.put("a", "third").unwrap();
    writer.compact::<&str>(..).unwrap();
    reader.checkpoint(&copy).unwrap();
    let copy = Db::open(&copy, options).unwrap();
    for key in ["a", "z"] {
        assert_eq!(copy.get(key).unwrap().as_deref(), Some(&b"second"[..]));
    }
}
