//! Workloads of column families that come and go, of batches over several of them, and of their
//! metadata. After a crash a family is there wholly or not at all, a batch likewise in all of its
//! families, and the metadata is that of the last batch that is there; of what was dropped nothing
//! returns (`life`, `oracle`).

use thermocline_engine::Durability;
use thermocline_env::simulated::SeededRandom;

use crate::life::Life;
use crate::oracle::{Change, Model, Op};
use crate::workload::{below, change, run, value};

const NAMES: &[&str] = &["red", "blue", "green"];

/// A change of one key in each of a few families, and metadata of some.
fn over_families(model: &Model, random: &SeededRandom) -> Op {
    let mut changes = Vec::new();
    for family in &model.families {
        for _ in 0..below(random, 3) {
            let cf = family.id;
            changes.push(Change {
                cf,
                ..change(random, 1)
            });
        }
        if random.below(3) == 0 {
            let len = below(random, 60);
            changes.push(Change::metadata(family.id, value(random, len)));
        }
    }
    // At least something, and sometimes nothing but metadata.
    if changes.is_empty() {
        let last = model.families.last().expect("the default one");
        changes.push(Change::metadata(last.id, value(random, 40)));
    }
    Op::Write(changes)
}

/// Makes the family that is missing, or drops the one that is there.
fn toggle(life: &Life, name: &str) {
    let op = match (life.visible().id(name), name) {
        (Some(_), _) => Op::Drop(name.into()),
        (None, "blue") => Op::Descending(name.into()),
        (None, _) => Op::Family(name.into()),
    };
    run(life, &op);
}

/// Families are made, dropped and made again under the same names, with writes before, between and
/// after.
pub fn come_and_go(life: &mut Life, random: &SeededRandom) {
    toggle(life, "red");
    toggle(life, "blue");
    for n in 0..14 {
        // What is not durable yet when a family comes or goes must not be lost behind it.
        let durability = match random.below(2) {
            0 => Durability::Buffered,
            _ => Durability::Immediate,
        };
        let op = over_families(&life.visible(), random);
        assert!(life.run_as(&op, durability).unwrap(), "there is room");
        if n % 3 == 2 {
            toggle(life, NAMES[below(random, NAMES.len())]);
        }
    }
    // The one thing that no seed leaves out: a name that comes back with nothing in it.
    if life.visible().id("red").is_none() {
        toggle(life, "red");
    }
    let red = life.visible().id("red").expect("it is there");
    let old = vec![
        Change {
            cf: red,
            key: b"a".to_vec(),
            value: Some(value(random, 40).into()),
        },
        Change::metadata(red, *b"old"),
    ];
    run(life, &Op::Write(old));
    toggle(life, "red");
    toggle(life, "red");
    run(life, &over_families(&life.visible(), random));
}

/// The same over sealed memtables, switches of the manifest, and clean closes.
pub fn through_lives(life: &mut Life, random: &SeededRandom) {
    for n in 0..3 {
        toggle(life, NAMES[n % 2]);
        run(life, &over_families(&life.visible(), random));
        run(life, &Op::put(0, b"filler", value(random, 900)));
        toggle(life, NAMES[below(random, 2)]);
        if n == 1 {
            life.close().unwrap();
            life.open().unwrap();
        }
    }
}
