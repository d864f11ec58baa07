//! A disk without a byte left, where the logs are what needs room.

use thermocline_base::CfOptions;

use super::*;

fn delete(engine: &Engine, n: u64) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.delete(CfId::DEFAULT, &n.to_be_bytes()).unwrap();
    engine.write(batch.iter(), Durability::Immediate)
}

fn fill(fs: &SimFs) {
    fs.limit(fs.used());
}

fn is_refused(done: Result<()>) {
    let error = done.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
}

/// Deletes until there is no room for one more, and how many there were.
fn delete_all_that_fit(engine: &Engine) -> u64 {
    for n in 0..100_000 {
        if let Err(error) = delete(engine, n) {
            is_refused(Err(error));
            return n;
        }
    }
    panic!("the disk is full");
}

#[test]
fn a_write_that_has_no_room_in_the_log_is_refused_and_poisons_nothing() {
    let fs = SimFs::new(Steps::new());
    let engine = open(&fs, &options()).unwrap();
    (1..=5).for_each(|n| put(&engine, n));
    fill(&fs);
    assert!(delete_all_that_fit(&engine) > 20);
    // Again, and again nothing has happened.
    is_refused(delete(&engine, 0));
    assert!((1..=5).all(|n| has(&engine, n)));
    fs.limit(u64::MAX);
    put(&engine, 6);
    let image = fs.image_killed(Steps::new());
    let engine = open(&image, &options()).unwrap();
    assert!((1..=6).all(|n| has(&engine, n)));
}

#[test]
fn a_store_is_opened_and_read_where_there_is_no_room_for_a_log() {
    let (mut fs, ..) = killed();
    for _ in 0..3 {
        fill(&fs);
        let engine = open(&fs, &options()).unwrap();
        assert!((1..=5).all(|n| has(&engine, n)));
        is_refused(delete(&engine, 1));
        fs = fs.image_killed(Steps::new());
    }
    fs.limit(u64::MAX);
    let engine = open(&fs, &options()).unwrap();
    put(&engine, 6);
    let image = fs.image_killed(Steps::new());
    engine.close().unwrap();
    for fs in [image, fs] {
        let engine = open(&fs, &options()).unwrap();
        assert!((1..=6).all(|n| has(&engine, n)));
    }
}

#[test]
fn a_store_is_closed_where_the_manifest_has_no_room() {
    let fs = SimFs::new(Steps::new());
    let engine = open(&fs, &options()).unwrap();
    (1..=5).for_each(|n| put(&engine, n));
    fill(&fs);
    // What the manifest has left is used up.
    let mut made = 0;
    let refused = loop {
        let name = format!("family {made}");
        match engine.family(&name, &CfOptions::default()) {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
    };
    is_refused(Err(refused));
    engine.close().unwrap();
    for _ in 0..2 {
        let engine = open(&fs, &options()).unwrap();
        assert!((1..=5).all(|n| has(&engine, n)));
        is_refused(delete(&engine, 1));
        engine.close().unwrap();
    }
    fs.limit(u64::MAX);
    let engine = open(&fs, &options()).unwrap();
    put(&engine, 6);
    let image = fs.image_killed(Steps::new());
    let engine = open(&image, &options()).unwrap();
    assert!((1..=6).all(|n| has(&engine, n)));
}
