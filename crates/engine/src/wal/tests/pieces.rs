//! What is too large to wait for a sync in DRAM.

use super::*;

/// A batch that is written to its log piece by piece.
#[test]
fn a_batch_larger_than_what_waits_for_a_log_is_there_after_a_kill() {
    let mut options = Options {
        dram: 128 << 20,
        ..options()
    };
    options.memtable.item_bytes_max = 64 << 10;
    let fs = SimFs::new(Steps::new());
    let engine = open(&fs, &options).unwrap();
    let value = |n: u32| [n.to_le_bytes()[0]; 3000];
    let mut batch = WriteBatch::new();
    for n in 0..3500u32 {
        batch
            .put(CfId::DEFAULT, &n.to_be_bytes(), &value(n))
            .unwrap();
    }
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    let again = open(&fs.image_killed(Steps::new()), &options).unwrap();
    for n in 0..3500u32 {
        let found = again.get(CfId::DEFAULT, &n.to_be_bytes(), |v| v == value(n));
        assert_eq!(found.unwrap(), Some(true), "{n}");
    }
}
