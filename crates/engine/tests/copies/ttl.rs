//! What is known of when something was written goes along into copies.

use std::sync::Arc;
use std::time::Duration;

use thermocline_base::CfId;
use thermocline_engine::{Engine, Setup, World};
use thermocline_env::Env;
use thermocline_env::simulated::SimClock;

use crate::backup::backups;
use crate::machine::{ALL, Place, disk, options, put};

fn open(place: &Place, clock: &Arc<SimClock>) -> Engine {
    let setup = Setup {
        ttls: vec![("default".into(), Duration::from_secs(100))],
        ..Setup::default()
    };
    let world = place.world();
    let world = World {
        env: Env {
            clock: clock.clone(),
            ..world.env
        },
        ..world
    };
    Engine::open_with(world, &place.dir, options(), setup).unwrap()
}

fn has(engine: &Engine, key: &[u8]) -> bool {
    engine.get(CfId::DEFAULT, key, |_| ()).unwrap().is_some()
}

fn delete(engine: &Engine, key: &[u8]) {
    let mut batch = thermocline_base::WriteBatch::new();
    batch.delete(CfId::DEFAULT, key).unwrap();
    let durable = thermocline_engine::Durability::Immediate;
    engine.write(batch.iter(), durable).unwrap();
}

/// A copy has nothing of the last seqnos of which the list speaks: they were of deletes. What is written in the copy is younger.
#[test]
fn copies_know_how_old_entries_are_and_give_no_seqno_out_again() {
    let disk = disk();
    let clock = Arc::new(SimClock::new());
    clock.set_unix_s(1000);
    let original = Place::new(&disk, "/db");
    let engine = open(&original, &clock);
    put(&engine, CfId::DEFAULT, b"old", b"");
    for n in 0..50u8 {
        delete(&engine, &[n]);
    }
    clock.set_unix_s(1010);
    engine.flush().unwrap();
    let noted = engine.metrics().write_times.unwrap();
    assert_eq!((noted.newest_seqno, noted.newest_unix_s), (51, 1010));
    let copy = Place::new(&disk, "/copies/one");
    engine.checkpoint(&copy.dir).unwrap();
    let restored = Place::new(&disk, "/copies/two");
    let all = backups(&disk, "/backups");
    all.create(&engine).unwrap();
    all.restore(None, &restored.dir).unwrap();
    clock.set_unix_s(1050);
    for place in [&copy, &restored] {
        let engine = open(place, &clock);
        assert!(has(&engine, b"old"));
        put(&engine, CfId::DEFAULT, b"new", b"");
        assert!(engine.visible().0 > noted.newest_seqno);
        engine.flush().unwrap();
        clock.set_unix_s(1120);
        engine.compact(CfId::DEFAULT, ALL).unwrap();
        assert!(!has(&engine, b"old") && has(&engine, b"new"));
        engine.close().unwrap();
        clock.set_unix_s(1050);
    }
}
