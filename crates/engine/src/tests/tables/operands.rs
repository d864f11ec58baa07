//! Keys with operands: which tables are asked for what an operand is on.

use thermocline_base::CfOptions;
use thermocline_sst::{BlobWriter, Value};
use thermocline_version::FileKind;

use super::*;

/// The key that has operands.
const KEY: u32 = 5;

/// Writes what `fill` adds, and flushes it into a table of its own.
fn flushed(engine: &Engine, fill: impl FnOnce(&mut WriteBatch) -> Result<()>) {
    let mut batch = WriteBatch::new();
    fill(&mut batch).unwrap();
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    engine.flush().unwrap();
}

/// A key with a base and an operand, in a table each, and between them six tables of keys on both sides of it.
fn loaded(home: &Home) -> (Engine, Family) {
    let engine = home.open();
    let lists = CfOptions::default().merge_operator("thermocline.append:2c");
    let family = engine.family("lists", &lists).unwrap();
    let cf = family.id;
    flushed(&engine, |batch| batch.put(cf, &key(KEY), b"base"));
    for _ in 0..6 {
        flushed(&engine, |batch| {
            batch.put(cf, &key(KEY - 1), &[1; 100])?;
            batch.put(cf, &key(KEY + 1), &[1; 100])
        });
    }
    flushed(&engine, |batch| batch.merge(cf, &key(KEY), b"more"));
    assert_eq!(version_of(&engine).tables().count(), 8);
    (engine, family)
}

fn list(engine: &Engine, family: Family) -> Option<Vec<u8>> {
    engine.get(family.id, &key(KEY), <[u8]>::to_vec).unwrap()
}

#[test]
fn operands_are_read_from_tables_that_have_the_key_and_no_others() {
    let home = Home::new();
    let (engine, family) = loaded(&home);
    // Opens all of them.
    let mut cursor = engine.cursor(family).unwrap();
    assert!(cursor.seek_to_first().unwrap());
    drop(cursor);
    files(&engine).cache().forget();
    let (calls, value) = home.reads_of(|| list(&engine, family));
    assert_eq!(value.as_deref(), Some(&b"base,more"[..]));
    // A block of each of the two; a filter is wrong once in 256 times.
    assert!(calls <= 4, "{calls}");
}

#[test]
fn no_table_is_opened_for_operands_that_is_known_not_to_have_the_key() {
    let mut home = Home::new();
    home.options.level0.key_index = true;
    let (engine, family) = loaded(&home);
    let opened = files(&engine).open_use().opened();
    assert_eq!(list(&engine, family).as_deref(), Some(&b"base,more"[..]));
    assert_eq!(files(&engine).open_use().opened() - opened, 2);
}

/// What no table counts as found there counts as found in a memtable.
#[test]
fn a_read_that_finds_an_operand_in_a_table_has_found_it_there() {
    for shape in ["global-index", "pm-tables"] {
        let mut home = Home::new();
        home.options.set("level0.shape", shape).unwrap();
        let engine = home.open();
        let lists = CfOptions::default().merge_operator("thermocline.append:2c");
        let family = engine.family("lists", &lists).unwrap();
        flushed(&engine, |batch| batch.put(family.id, &key(KEY), b"base"));
        flushed(&engine, |batch| batch.merge(family.id, &key(KEY), b"more"));
        assert_eq!(version_of(&engine).tables().count(), 2);
        for n in 1..=2 {
            assert_eq!(list(&engine, family).as_deref(), Some(&b"base,more"[..]));
            let metrics = engine.metrics();
            let (found, hits) = (metrics.found, metrics.hits);
            assert_eq!((found, hits.memtable, hits.global_index), (n, 0, 0));
            let in_files = hits.block_cache + hits.ssd;
            let expected = if shape == "pm-tables" { (0, n) } else { (n, 0) };
            assert_eq!((in_files, hits.pm_tables), expected, "{shape}");
        }
    }
}

/// Filters know entries alone. A range tombstone above the base hides it, from those who see the tombstone.
#[test]
fn a_range_tombstone_hides_the_base_though_its_table_does_not_have_the_key() {
    for key_index in [false, true] {
        let mut home = Home::new();
        home.options.level0.key_index = key_index;
        let (engine, family) = loaded(&home);
        let cf = family.id;
        let before = engine.snapshot();
        flushed(&engine, |batch| {
            batch.put(cf, &key(KEY - 1), &[1; 100])?;
            batch.delete_range(cf, &key(KEY), Some(&key(KEY + 1)))
        });
        flushed(&engine, |batch| batch.merge(cf, &key(KEY), b"alone"));
        for _ in 0..2 {
            assert_eq!(list(&engine, family).as_deref(), Some(&b"alone"[..]));
            let then = before.value(cf, &key(KEY)).unwrap();
            assert_eq!(then.as_deref(), Some(&b"base,more"[..]));
        }
    }
}

/// Nobody here writes an operand into a blob file. The format has it (`FORMATS.md`), so it is one, and hides nothing.
#[test]
fn an_operand_in_a_blob_file_is_on_what_is_below() {
    let home = Home::new();
    let (engine, family) = loaded(&home);
    let (catalog, files) = (&engine.inner.common.catalog, files(&engine));
    let cf = family.id;
    let blobs = catalog.pin_file(FileKind::Blob).unwrap();
    let (path, identity) = (files.blob_path(blobs), files.identity(blobs));
    let mut writer = BlobWriter::create(&*files.blob_storage, &path, identity).unwrap();
    let blob = writer.append(cf, &key(KEY), b"more").unwrap();
    writer.finish().unwrap();
    // The table of the operand, which nobody has read yet, says the same with a reference.
    let version = version_of(&engine);
    let newest = version.tables().map(|(_, table)| table);
    let newest = newest.max_by_key(|table| table.largest_seqno).unwrap();
    let (path, identity) = (files.path(newest.file), files.identity(newest.file));
    files.storage.remove(&path).unwrap();
    let options = WriteOptions::default();
    let mut table = TableWriter::create(&*files.storage, &path, identity, cf, options).unwrap();
    let (operand, value) = (key(KEY), Value::Blob(blob));
    let at = KeyRef::new(&operand, newest.largest_seqno);
    table.add(at, Kind::Merge, value).unwrap();
    table.finish().unwrap();
    assert_eq!(list(&engine, family).as_deref(), Some(&b"base,more"[..]));
}
