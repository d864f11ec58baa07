//! Blocks that contradict each other, or are not those that were asked for.

use thermocline_base::{CfId, ErrorKind, FileId};

use super::*;
use crate::block::Place;
use crate::block::build::BlockBuilder;
use crate::cursor::{Cursor, Move};
use crate::format::entry;
use crate::identity::Identity;
use crate::properties::Properties;
use crate::root::Root;
use crate::table::Table;

const SEQNO: SeqNo = SeqNo(5);

/// The payload of an index block of one entry.
fn index(level: u8, key: &[u8], offset: u64) -> Vec<u8> {
    let (len, kind) = (100, BlockKind::Data);
    let mut value = Vec::new();
    entry::encode_handle(&mut value, BlockHandle { offset, len, kind });
    let mut builder = BlockBuilder::new(&[1, level, 0, 0], 4);
    builder.add(KeyRef::new(key, SeqNo::ZERO), entry::TAG_INDEX, &value);
    builder.finish(<[u8]>::to_vec)
}

/// A table with this root.
fn part(root: Vec<u8>) -> TablePart {
    let identity = Identity::new([1; 16], FileId(7));
    TablePart::whole(Arc::new(Table {
        name: "000007.sst".into(),
        seed: identity.table_seed(),
        bytes: 2000,
        data_end: 1000,
        root: Root::decode(root, 1000).unwrap(),
        filter: None,
        tombstones: Default::default(),
        properties: Properties::empty(identity, CfId(0)),
    }))
}

#[test]
fn a_leaf_that_ends_below_the_roots_key_is_an_error() {
    let part = part(index(1, b"m", 200));
    let leaf = Block::index(index(0, b"c", 0), 1000).unwrap();
    let seed = part.table().seed;
    let leaf = Arc::new(leaf.placed(Place { seed, offset: 200 }));
    let mut get = Get::new(&part, b"d", SEQNO);
    assert!(matches!(get.start(), Step::Need(_)));
    let error = get.supply(Arc::clone(&leaf)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    let mut cursor = Cursor::new(part.clone());
    let begun = cursor.start(Move::Seek(KeyRef::new(b"d", SEQNO)));
    assert!(matches!(begun.unwrap(), Step::Need(_)));
    assert_eq!(
        cursor.supply(leaf).unwrap_err().to_string(),
        error.to_string()
    );
}

/// Whoever has asked the filter is believed: the table asks none, and would let every key pass.
#[test]
fn a_filter_that_was_asked_before_is_not_asked_again() {
    let part = part(index(0, b"m", 200));
    let mut denied = Get::new(&part, b"c", SEQNO);
    assert!(matches!(denied.start_asked(false), Step::Done(None)));
    let mut passed = Get::new(&part, b"c", SEQNO);
    assert!(matches!(passed.start_asked(true), Step::Need(_)));
    let limited = TablePart::limited(part.table().clone(), Some(b"d"), None);
    let mut outside = Get::new(&limited, b"c", SEQNO);
    assert!(matches!(outside.start_asked(true), Step::Done(None)));
}

#[test]
fn a_block_that_was_not_asked_for_is_refused() {
    let data = || {
        let mut builder = BlockBuilder::new(&[], 4);
        builder.add(KeyRef::new(b"c", SEQNO), 1, b"v");
        builder.finish(|bytes| Block::data(bytes.to_vec()))
    };
    let leaf = || Block::index(index(0, b"m", 0), 1000);
    let seed = part(index(0, b"m", 200)).table().seed;
    for (level, seed_of, offset, is_data, right) in [
        (0, seed, 200, true, true),
        (0, seed, 201, true, false),
        (0, seed ^ 1, 200, true, false),
        (0, seed, 200, false, false),
        (1, seed, 200, false, true),
        (1, seed, 0, false, false),
        (1, seed ^ 1, 200, false, false),
        (1, seed, 200, true, false),
    ] {
        let part = part(index(level, b"m", 200));
        let block = if is_data { data() } else { leaf() };
        let seed = seed_of;
        let block = Arc::new(block.unwrap().placed(Place { seed, offset }));
        let mut get = Get::new(&part, b"c", SEQNO);
        assert!(matches!(get.start(), Step::Need(_)));
        let error = get.supply(Arc::clone(&block)).err();
        assert_eq!(error.is_none(), right, "{error:?}");
        let mut cursor = Cursor::new(part.clone());
        assert!(matches!(cursor.start(Move::First), Ok(Step::Need(_))));
        let other = cursor.supply(block).err();
        assert_eq!(error.map(|e| e.to_string()), other.map(|e| e.to_string()));
    }
}
