//! Opening with one thread and with many.

use std::path::Path;

use thermocline_base::options::Options;
use thermocline_base::{CfId, CfOptions, WriteBatch};
use thermocline_testkit::explore::explored;
use thermocline_testkit::{Replay, Rng, seeds};

use crate::tests::Machine;
use crate::{Durability, Engine, Family, Recovery, World};

const PM: u64 = 64 << 20;

type Row = (u16, Vec<u8>, Vec<u8>);
/// Id, whether it is sealed, records, bytes.
type MemtableRow = (u64, bool, u64, u64);

/// All that the store says of itself and holds, but for times and DRAM.
fn contents(engine: &Engine) -> (Vec<Row>, Vec<MemtableRow>, Recovery) {
    let mut rows = Vec::new();
    for name in engine.families() {
        let family = engine.find_family(&name).unwrap();
        let mut cursor = engine.cursor(family).unwrap();
        let mut more = cursor.seek_to_first().unwrap();
        while more {
            let (key, value) = (cursor.key().to_vec(), cursor.value().to_vec());
            assert_eq!(
                engine.get(family.id, &key, <[u8]>::to_vec).unwrap(),
                Some(value.clone())
            );
            rows.push((family.id.0, key, value));
            more = cursor.next().unwrap();
        }
    }
    let metrics = engine.metrics();
    let memtables = metrics.memtables.iter();
    let memtables = memtables.map(|m| (m.id, m.sealed, m.records, m.bytes));
    let recovery = Recovery {
        nanos: 0,
        ..metrics.recovery
    };
    (rows, memtables.collect(), recovery)
}

#[test]
fn an_open_finds_the_same_with_one_thread_and_with_many() {
    for seed in seeds(0..explored(3, 6)) {
        let _replay = Replay::new("-p thermocline-engine an_open_finds_the_same", seed);
        let mut rng = Rng::new(seed);
        let mut machine = Machine::new(PM);
        let mut options = Options {
            pm: PM,
            ..Options::default()
        };
        // Many small memtables, or a few of some hundred items.
        options.memtable.bytes_max = if rng.one_in(2) { 16 << 10 } else { 200 << 10 };
        for _ in 0..1 + rng.below(3) {
            let engine = Engine::open(machine.world(), Path::new("/db"), options.clone()).unwrap();
            let other = engine.family("other", &CfOptions::default()).unwrap();
            let gone = engine.family("gone", &CfOptions::default()).unwrap();
            for _ in 0..1500 {
                let mut batch = WriteBatch::new();
                for _ in 0..=rng.below(3) {
                    let family = *rng.pick(&[Family::DEFAULT, other, gone]);
                    let key = format!("{}", rng.below(4000));
                    match rng.one_in(5) {
                        true => batch.delete(family.id, key.as_bytes()).unwrap(),
                        false => {
                            let value = vec![7; rng.below(200)];
                            batch.put(family.id, key.as_bytes(), &value).unwrap();
                        }
                    }
                }
                engine.write(batch.iter(), Durability::Buffered).unwrap();
            }
            engine.drop_family("gone").unwrap();
            if rng.one_in(2) {
                engine.close().unwrap();
            }
            machine = machine.killed();
        }
        let open = |threads: u64| {
            let mut options = options.clone();
            options.memtable.replay_threads = threads;
            let world = World {
                background: true,
                ..machine.killed().world()
            };
            let engine = Engine::open(world, Path::new("/db"), options).unwrap();
            contents(&engine)
        };
        let expected = open(1);
        assert!(expected.0.len() > 1000 && expected.1.len() > 2);
        assert!(expected.0.iter().any(|(cf, _, _)| *cf != CfId::DEFAULT.0));
        for threads in [2, 3, 8] {
            assert!(open(threads) == expected, "{threads} threads");
        }
    }
}
