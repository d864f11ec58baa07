//! Cursors that read no values.

use thermocline_memtable::Direction;

use super::*;

/// All that a cursor shows, forwards.
fn shown(cursor: &mut Cursor) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    let mut more = cursor.seek_to_first().unwrap();
    while more {
        all.push((cursor.key().to_vec(), cursor.value().to_vec()));
        more = cursor.next().unwrap();
    }
    all
}

/// Keys of memtables and of tables, with values beside them and in blob files; some were deleted.
#[test]
fn a_cursor_for_keys_shows_all_of_them_and_reads_no_blob_file() {
    let machine = Machine::new(PM);
    let mut options = options();
    options.blob.inline_bytes_max = 100;
    let engine = open_with(&machine, &options);
    for (n, key) in keys().iter().enumerate() {
        let len = if n % 3 == 0 { 200 } else { 1 + n };
        put(&engine, key, &vec![7; len]);
        if n == 30 {
            engine.flush().unwrap();
        }
    }
    write(&engine, |batch| batch.delete(CF, &keys()[7]).unwrap());
    delete_range(&engine, &keys()[20], Some(&keys()[40]));
    drop(engine);
    // Its cache is empty.
    let engine = open_with(&machine, &options);
    let read = || engine.metrics().ssd.blobs_read;
    let before = read();
    let mut alone = engine.cursor(Family::DEFAULT).unwrap().keys_only();
    let mut sibling = alone.sibling();
    let found = shown(&mut alone);
    assert_eq!(shown(&mut sibling), found);
    alone.refresh().unwrap();
    assert_eq!(shown(&mut alone), found);
    assert!(found.iter().all(|(_, value)| value.is_empty()));
    assert_eq!(read(), before);

    let whole = shown(&mut engine.cursor(Family::DEFAULT).unwrap());
    assert!(read() > before);
    let of = |all: &[(Vec<u8>, Vec<u8>)]| -> Vec<Vec<u8>> {
        all.iter().map(|(key, _)| key.clone()).collect()
    };
    assert_eq!(of(&found), of(&whole));
    assert_eq!(found.len(), keys().len() - 21);
}

/// Who looks for deleted keys stops at a key with a value, and does not read it.
#[test]
fn who_looks_for_deleted_keys_reads_no_value() {
    let machine = Machine::new(PM);
    let mut options = options();
    options.blob.inline_bytes_max = 100;
    let engine = open_with(&machine, &options);
    let keys = keys();
    for key in &keys[..11] {
        put(&engine, key, &[7; 200]);
    }
    for key in &keys[..10] {
        write(&engine, |batch| batch.delete(CF, key).unwrap());
    }
    drop(engine);
    let engine = open_with(&machine, &options);
    let before = engine.metrics().ssd.blobs_read;
    let mut cursor = engine.cursor(Family::DEFAULT).unwrap();
    cursor.explore(&keys[0], Direction::Forward, 100).unwrap();
    assert_eq!(cursor.key(), keys[10]);
    assert_eq!(engine.metrics().ssd.blobs_read, before);
}
