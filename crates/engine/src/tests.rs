//! The store in simulated worlds.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::options::Options;
use thermocline_base::{CfId, Steps, WriteBatch};
use thermocline_env::Env;
use thermocline_env::sim::SimFs;
use thermocline_pm::SimPm;

use super::*;

const CF: CfId = CfId::DEFAULT;

fn world() -> World {
    let steps = Steps::new();
    World {
        env: Env {
            storage: Arc::new(SimFs::new(steps.clone())),
            ..Env::real()
        },
        sim: Some(SimPm::new(1 << 20, steps)),
        background: false,
    }
}

fn options() -> Options {
    let mut options = Options {
        pm: 1 << 20,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options
}

fn put(engine: &Engine, key: &[u8], value: &[u8]) {
    let mut batch = WriteBatch::new();
    batch.put(CF, key, value).unwrap();
    engine.write(batch.iter()).unwrap();
}

fn get(engine: &Engine, key: &[u8]) -> Option<Vec<u8>> {
    engine.get(CF, key, <[u8]>::to_vec).unwrap()
}

#[test]
fn what_was_put_is_there_after_closing_and_opening() {
    let world = world();
    let dir = Path::new("/db");
    for round in 0..5u8 {
        let engine = Engine::open(world.clone(), dir, options()).unwrap();
        for before in 0..round {
            assert_eq!(get(&engine, &[before]), Some(vec![before; 100]));
        }
        put(&engine, &[round], &[round; 100]);
        assert_eq!(get(&engine, &[round]), Some(vec![round; 100]));
        if round % 2 == 0 {
            engine.close().unwrap();
        }
    }
}

#[test]
fn a_cursor_sees_one_moment() {
    let engine = Engine::open(world(), Path::new("/db"), options()).unwrap();
    for k in 0..100u8 {
        put(&engine, &[k], b"old");
    }
    let mut cursor = engine.cursor(CF);
    for k in 0..200u8 {
        put(&engine, &[k], b"new");
    }
    let mut batch = WriteBatch::new();
    batch.delete(CF, &[3]).unwrap();
    engine.write(batch.iter()).unwrap();
    let mut n = 0u8;
    let mut more = cursor.seek_to_first().unwrap();
    while more {
        assert_eq!((cursor.key(), cursor.value()), (&[n][..], &b"old"[..]));
        n += 1;
        more = cursor.next().unwrap();
    }
    assert_eq!(n, 100);
    assert_eq!(get(&engine, &[3]), None);
    let mut cursor = engine.cursor(CF);
    assert!(cursor.seek_for_prev(&[3]).unwrap());
    assert_eq!((cursor.key(), cursor.value()), (&[2][..], &b"new"[..]));
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.key(), &[4]);
}
