//! Several items in flight at once, which one writer alone never has: a test takes over the chain of
//! a process that died and appends to it as several threads would, persisting in any order.

use std::sync::Arc;

use thermocline_base::planted::{Bug, plant};
use thermocline_base::{Point, When};
use thermocline_halloc::{Reserve, Space};
use thermocline_memtable::{
    Chain, ChainPlan, ChainWriter, ItemBuilder, ItemRef, Persist, Segment, item_bytes,
    walk_incarnation,
};
use thermocline_pm::Region;
use thermocline_version::Manifest;

use crate::life::{ACKNOWLEDGED, Life, dir, options};
use crate::oracle::{Expect, Op};
use crate::snapshot::Snapshot;
use crate::space::{SPACE, region_spec};

/// The instant of a test that sets its own stage.
pub const HERE: Point = Point {
    step: 0,
    site: ACKNOWLEDGED,
    when: When::After,
};

/// The chain of a store whose process died, and its next writer.
pub struct Raw {
    /// The world; its store is not open.
    pub life: Life,
    /// What was acknowledged before.
    pub acked: Expect,
    /// The items found.
    pub items: Vec<ItemRef>,
    /// The next seqno.
    pub next: u64,
    pub segment: Segment,
    space: Arc<Space>,
    chain: Chain,
}

impl Raw {
    /// A store in which `ops` were acknowledged before its process died.
    pub fn after(ops: &[Op], seed: u64) -> Raw {
        let mut first = Life::fresh(&options(), seed);
        first.open().unwrap();
        for op in ops {
            assert!(first.run(op).unwrap());
        }
        let now = Snapshot::of(&first, HERE);
        Raw::of(now.life(&now.newest(), &options(), seed + 1), now.expect)
    }

    /// Takes over the only chain of the store in `life`.
    pub fn of(life: Life, acked: Expect) -> Raw {
        let (_, state) = Manifest::open(life.world().env.storage, dir(), true).unwrap();
        let (_, entry) = state.chains().last().unwrap();
        let (db_id, region_id) = (state.db_id().unwrap(), state.region_id().unwrap());
        let base = entry.base_seqno;
        let chain = Chain::new(&db_id, entry.id, entry.incarnation, entry.nonce, base);
        let region = Region::open(&region_spec(&life, false)).unwrap();
        let live = |owner| owner == chain.id;
        let (space, zones) = Space::open(region.clone(), &region_id, SPACE, live).unwrap();
        let plan = ChainPlan {
            chain,
            segments: ChainPlan::segments(None, &zones),
            cut: entry.cut.map(|cut| cut.last_seqno),
            floor: None,
        };
        let plans = [plan];
        let walk = walk_incarnation(&region, &plans, base, 1).unwrap();
        let (last, from) = walk.chains[0].end.unwrap();
        Raw {
            items: walk.chains[0].items.concat(),
            next: walk.last_seqno + 1,
            segment: Segment {
                from,
                ..plans[0].segments[last]
            },
            life,
            acked,
            space: Arc::new(space),
            chain,
        }
    }

    /// Goes on in a zone of its own, the chain's second.
    pub fn next_zone(&mut self) {
        let zone = self.space.attach(self.chain.id, 1, 1024, Reserve::Keep);
        let zone = zone.unwrap();
        self.segment = Segment {
            from: zone.data,
            to: zone.end,
            zone_generation: zone.generation,
        };
    }

    /// Appends an item of which everything before `published` is durable; it is itself, if
    /// `persisted`.
    pub fn append(&mut self, op: &Op, published: u64, persisted: bool) {
        let Op::Write(changes) = op else {
            unreachable!("only writes have items")
        };
        let batch = Op::batch(changes);
        let mut writer = ChainWriter::new(self.space.clone(), self.chain, Some(self.segment));
        let bug = (!persisted).then(|| plant(Bug::SkipFlush));
        let grant = writer.grant(item_bytes(batch.iter()));
        ItemBuilder::default()
            .store(
                self.space.region(),
                &grant,
                batch.iter(),
                self.next,
                published,
                Persist::Now,
            )
            .unwrap();
        drop(bug);
        self.segment.from = self.segment.from.plus(item_bytes(batch.iter()));
        self.next += batch.len() as u64;
    }

    /// The world after a crash in which nothing survives that was not persisted.
    pub fn crash(&self, seed: u64) -> Life {
        let now = Snapshot::of(&self.life, HERE);
        let mut life = now.life(&now.oldest(), &options(), seed);
        life.expect(&self.acked);
        life
    }
}
