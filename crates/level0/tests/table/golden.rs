//! The bytes of a table, as version 1 has them.

use thermocline_base::{BlobRef, FileId, Kind};
use thermocline_level0::{GroupSize, verify_table};
use thermocline_testkit::golden;

use crate::world::*;

fn small() -> Model {
    let bytes = |bytes: &[u8]| Content::Bytes(bytes.to_vec());
    let mut model = Model::default();
    model.put(0, b"table/a", 300, Kind::Put, bytes(b"new"));
    model.put(0, b"table/a", 7, Kind::Delete, bytes(b""));
    model.put(0, b"table/apart", 8, Kind::Put, bytes(&[0x61; 40]));
    let blob = BlobRef {
        file: FileId(9),
        offset: 64,
        len: 2 << 20,
    };
    model.put(0, b"table/b", 9, Kind::Merge, Content::Blob(blob));
    model.put(2, b"", 5, Kind::Put, bytes(b"of the empty key"));
    model
        .ranges
        .insert((0, b"table/c".to_vec(), u64::MAX - 10), b"table/d".to_vec());
    model
        .ranges
        .insert((0, b"table/c".to_vec(), u64::MAX - 6), b"table/d".to_vec());
    model
}

const HEADER: [(usize, &str); 26] = [
    (8, "magic"),
    (4, "format version"),
    (4, "crc of the header"),
    (16, "database id"),
    (8, "table"),
    (8, "zone generation"),
    (4, "ordinal"),
    (1, "flags: the last piece"),
    (1, "most entries of a group"),
    (2, "zeros"),
    (8, "entries of the piece"),
    (4, "groups from"),
    (4, "arrays from"),
    (4, "runs from"),
    (4, "range tombstones from"),
    (4, "end"),
    (4, "groups"),
    (4, "crc of the runs"),
    (4, "crc of the range tombstones"),
    (8, "entries of the table"),
    (8, "smallest seqno"),
    (8, "largest seqno"),
    (8, "range tombstones of the table"),
    (40, "values: of table/apart"),
    (4, "group 0: crc"),
    (4, "length"),
];

const REST: &[(usize, &str)] = &[
    (4, "first value from"),
    (1, "entries"),
    (1, "smallest seqno"),
    (1, "entry 0: put"),
    (1, "length of the key, all of which stands in the run"),
    (2, "seqno, less the smallest"),
    (1, "length of the value"),
    (3, "value"),
    (1, "entry 1: delete"),
    (1, "shared"),
    (1, "rest"),
    (1, "seqno"),
    (1, "entry 2: put, apart"),
    (1, "shared"),
    (1, "rest"),
    (1, "seqno"),
    (1, "length of the value"),
    (4, "crc of the value"),
    (4, "rest of the key"),
    (1, "entry 3: merge, in a blob file"),
    (1, "shared"),
    (1, "rest"),
    (1, "seqno"),
    (1, "rest of the key"),
    (20, "file, offset, length"),
    (4, "group 1: crc"),
    (4, "length"),
    (4, "first value from"),
    (1, "entries"),
    (1, "smallest seqno"),
    (1, "entry 0: put"),
    (1, "length of the key"),
    (1, "seqno"),
    (1, "length of the value"),
    (16, "value"),
];

#[test]
fn the_bytes_of_a_table_are_those_of_version_1() {
    let (_, space) = space(1 << 20, 256 << 10);
    let written = small().write(&space, options(GroupSize::Eight));
    let written = written.unwrap().unwrap();
    let table = open(&space, &written).unwrap();
    verify_table(&table).unwrap();
    let len = usize::try_from(written.meta.bytes).unwrap();
    let bytes = space.region().bytes(written.zones[0].data, len).unwrap();
    let word = |at: usize| {
        let word = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        usize::try_from(word).unwrap()
    };
    let (arrays, runs, tombstones, end) = (word(68), word(72), word(76), word(80));
    let mut fields: Vec<(usize, &str)> = [&HEADER[..], REST].concat();
    let groups_end = fields.iter().map(|field| field.0).sum::<usize>();
    fields.extend([
        (arrays - groups_end, "zeros"),
        (4, "array of run 0: crc"),
        (4, "prefix of group 0"),
        (4, "group 0 from"),
        (64 - 12, "zeros"),
        (4, "array of run 1: crc"),
        (4, "prefix of group 1"),
        (4, "group 1 from"),
        (2, "run 0: column family"),
        (1, "length of prefixes"),
        (1, "length of what keys share"),
        (4, "groups"),
        (4, "array from"),
        (2, "length of the separator"),
        (2, "zeros"),
        (8, "seqno of the separator"),
        (7, "what keys share"),
        (2, "run 1: column family"),
        (1, "length of prefixes"),
        (1, "length of what keys share"),
        (4, "groups"),
        (4, "array from"),
        (2, "length of the separator"),
        (2, "zeros"),
        (8, "seqno of the separator"),
    ]);
    assert_eq!(
        fields.iter().map(|field| field.0).sum::<usize>(),
        tombstones
    );
    assert!(runs < tombstones);
    fields.extend([
        (2, "range tombstone 0: column family"),
        (1, "length of the start plus 1"),
        (1, "length of the end plus 1"),
        (1, "seqno"),
        (14, "start, end"),
        (2, "range tombstone 1: column family"),
        (1, "start as before"),
        (1, "end as before"),
        (1, "seqno"),
        (len - end, "zeros to the line"),
    ]);
    let text = golden::annotate(bytes, &fields);
    let expected = include_str!("../golden/table-v1.txt");
    golden::check("table", expected, &text);
}
