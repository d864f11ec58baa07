//! More keys than a filter takes. It begins first, by its name, since it takes longest and on one processor.

use thermocline_base::{Kind, SeqNo};
use thermocline_env::OpenMode;
use thermocline_sst::{
    Compression, FILTER_KEYS_MAX, FileSource, KeyRef, TablePart, TableWriter, Value, WriteOptions,
    get, open_table,
};

use crate::common::*;

/// A table of more keys than a filter takes has none, and finds them all the same.
#[test]
fn more_keys_than_a_filter_takes() {
    let dir = tempfile::tempdir().unwrap();
    let env = thermocline_env::Env::real();
    let path = dir.path().join("000007.sst");
    let options = WriteOptions {
        compression: Compression::Lz4,
        ..WriteOptions::default()
    };
    let mut writer = TableWriter::create(&*env.storage, &path, identity(7), CF, options).unwrap();
    let keys = FILTER_KEYS_MAX as u64 + 1;
    for n in 0..keys {
        let key = n.to_be_bytes();
        writer
            .add(KeyRef::new(&key, SeqNo(1)), Kind::Put, Value::Inline(b""))
            .unwrap();
        assert_eq!(writer.is_full(), n + 1 >= FILTER_KEYS_MAX as u64);
    }
    assert_eq!(writer.finish().unwrap().properties.user_keys, keys);
    let file = env.storage.open(&path, OpenMode::Read).unwrap();
    let table = open_table(&*file, identity(7)).unwrap();
    assert!(table.may_contain(b"not there"));
    let (part, source) = (TablePart::whole(table), FileSource(file));
    for n in (0..keys).step_by(10_007).chain([keys - 1]) {
        assert!(
            get(&part, &n.to_be_bytes(), SeqNo::MAX, &source)
                .unwrap()
                .is_some()
        );
    }
}
