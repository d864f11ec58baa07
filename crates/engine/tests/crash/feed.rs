//! A follower beside a store that crashes: what a change feed has given no crash takes back, and what it gives
//! afterwards from the beginning is what the store holds.

use std::collections::BTreeMap;

use thermocline_base::CfId;
use thermocline_base::options::Options;
use thermocline_engine::{ChangeFeed, ChangeOp, Durability, Engine};
use thermocline_env::simulated::SeededRandom;

use crate::flush;
use crate::life::Life;
use crate::oracle::{Change, Model, Op, Step};
use crate::workload::{batch, run, value};

/// As for flushes, and everything that is flushed or dead stays for feeds.
pub fn retained(options: &mut Options) {
    flush::few_memtables(options);
    options.memtable.item_bytes_max = 4 << 10;
    options.feed.retain_bytes = 1 << 30;
}

/// Reads on to what is durable.
fn follow(life: &Life, feed: &mut ChangeFeed) {
    for group in feed {
        let group = group.unwrap();
        life.tracker.lock().unwrap().fed(group.last());
    }
}

/// Writes of all kinds, flushes, families that go, and lives that close, read on the way.
pub fn followed(life: &mut Life, random: &SeededRandom) {
    for round in 0..2 {
        let mut feed = life.engine().changes_since(0).unwrap();
        run(life, &Op::Family("red".into()));
        run(life, &batch(random, 2));
        follow(life, &mut feed);
        let buffered = Op::put(0, b"ab", value(random, 200));
        assert!(life.run_as(&buffered, Durability::Buffered).unwrap());
        follow(life, &mut feed);
        run(life, &Op::put(0, b"big", value(random, 1500)));
        let change = |n: usize| Change {
            cf: 0,
            key: vec![b's', n.to_le_bytes()[0]],
            value: Some(value(random, 700 + n).into()),
        };
        // It is staged.
        run(life, &Op::Write((0..7).map(change).collect()));
        follow(life, &mut feed);
        life.engine().flush().unwrap();
        run(
            life,
            &Op::Steps(vec![
                Step::Clear {
                    cf: 0,
                    from: b"s\x02".to_vec(),
                    to: (round == 0).then(|| b"s\x04".to_vec()),
                },
                Step::Change(Change::metadata(0, value(random, 9))),
            ]),
        );
        follow(life, &mut feed);
        if round == 1 {
            run(life, &Op::Drop("red".into()));
        }
        drop(feed);
        life.close().unwrap();
        life.open().unwrap();
    }
}

/// What a feed from the beginning makes of an empty store, without what belongs to families that are gone.
fn replayed(engine: &Engine) -> Result<Model, String> {
    let say = |error: thermocline_base::Error| format!("the change feed: {error}");
    let mut data = BTreeMap::new();
    let mut position = 0;
    for group in engine.changes_since(0).map_err(say)? {
        let group = group.map_err(say)?;
        if group.first() <= position {
            return Err(format!("seqno {} was given twice", group.first()));
        }
        position = group.last();
        for change in group.changes() {
            let change = change.map_err(say)?;
            let cf = change.family_id;
            match change.op {
                ChangeOp::Put { key, value } => drop(data.insert((cf, key.to_vec()), value.into())),
                ChangeOp::Delete { key } => drop(data.remove(&(cf, key.to_vec()))),
                ChangeOp::DeleteRange { from, to } => {
                    data.retain(|(of, key): &(u16, Vec<u8>), _| {
                        *of != cf || &**key < from || to.is_some_and(|to| &**key >= to)
                    })
                }
                ChangeOp::Metadata { value } => {
                    let key = (CfId::METADATA.0, CfId(cf).metadata_key().to_vec());
                    // `write_on` deletes some, as nobody else can.
                    match value.is_empty() {
                        true => drop(data.remove(&key)),
                        false => drop(data.insert(key, value.into())),
                    }
                }
                other => return Err(format!("{other:?}")),
            }
        }
    }
    Ok(Model {
        data,
        ..Model::default()
    })
}

/// The feed of a store that was opened and holds `model`; a follower had read it up to `fed`.
pub fn feed_agrees(engine: &Engine, model: &Model, fed: u64) -> Result<(), String> {
    let durable = engine.metrics().durable;
    if durable < fed {
        return Err(format!(
            "seqno {fed} was given by a feed, and {durable} is the last one there is"
        ));
    }
    if engine.options().feed.retain_bytes == 0 {
        return Ok(());
    }
    let mut replayed = replayed(engine)?;
    replayed.families.clone_from(&model.families);
    // Of those a feed says nothing before they are committed.
    replayed.prepared.clone_from(&model.prepared);
    match replayed == *model {
        true => Ok(()),
        false => Err(format!("the change feed: {}", model.difference(&replayed))),
    }
}
