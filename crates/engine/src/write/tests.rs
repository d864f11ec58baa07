//! What a commit says, and what a power cut leaves of it.

use std::path::Path;

use thermocline_base::options::{Options, Preset};
use thermocline_base::{BatchEntry, CfId, WriteBatch};
use thermocline_commit::{Callback, Durability};

use crate::store::Engine;
use crate::sync::{Arc, Mutex, lock};
use crate::tests::{Machine, options};
use crate::world::World;

const CF: CfId = CfId::DEFAULT;

/// Nothing is written back by itself.
fn asked_for(preset: Preset) -> Options {
    let mut options = match preset {
        Preset::Leveled => Options {
            dram: 8 << 20,
            ..Options::preset(preset)
        },
        _ => options(),
    };
    options.commit.buffered_bytes = 1 << 20;
    options
}

fn open(machine: &Machine, options: &Options) -> Engine {
    let mut world: World = machine.world();
    if options.in_dram() {
        world.sim = None;
    }
    Engine::open(world, Path::new("/db"), options.clone()).unwrap()
}

fn put(key: &[u8]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put(CF, key, b"value").unwrap();
    batch
}

fn nothing() -> impl ExactSizeIterator<Item = BatchEntry<'static>> + Clone {
    std::iter::empty()
}

#[test]
fn a_durable_commit_of_nothing_covers_what_was_buffered_before_it() {
    for preset in [Preset::GlobalIndex, Preset::Leveled] {
        let options = asked_for(preset);
        let machine = Machine::new(1 << 20);
        let engine = open(&machine, &options);
        // So that no first write names the chain, and syncs files.
        engine
            .write(put(b"a").iter(), Durability::Immediate)
            .unwrap();
        let left = |mode: Durability| {
            engine
                .write(put(b"b").iter(), Durability::Buffered)
                .unwrap();
            engine.write(nothing(), mode).unwrap();
            let after = open(&machine.without_power(), &options);
            [&b"a"[..], b"b"].map(|key| after.get(CF, key, |_| ()).unwrap().is_some())
        };
        assert_eq!(left(Durability::Buffered), [true, false], "{preset:?}");
        assert_eq!(left(Durability::Immediate), [true, true], "{preset:?}");
    }
}

#[test]
fn a_commit_of_nothing_is_told_behind_those_before_it_and_as_durable_as_they_are() {
    let engine = open(&Machine::new(1 << 20), &asked_for(Preset::GlobalIndex));
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = |n: u8| -> Callback {
        let (told, asked) = (told.clone(), engine.clone());
        Box::new(move |result| {
            result.unwrap();
            lock(&told).push((n, asked.durable() == asked.visible()));
        })
    };
    let first = put(b"first");
    engine
        .write_with_callback(first.iter(), false, tell(1))
        .unwrap();
    for n in [2, 3] {
        engine
            .write_with_callback(nothing(), false, tell(n))
            .unwrap();
    }
    let second = put(b"second");
    engine
        .write_with_callback(second.iter(), false, tell(4))
        .unwrap();
    assert_eq!(*lock(&told), [], "nothing is durable");
    engine.sync().unwrap();
    let all = [1, 2, 3, 4].map(|n| (n, true));
    assert_eq!(*lock(&told), all);
    // All is durable: nobody else comes by.
    engine
        .write_with_callback(nothing(), false, tell(5))
        .unwrap();
    assert_eq!(lock(&told).last(), Some(&(5, true)));
}
