//! Chains that are read while they grow, and when they are complete.

use thermocline_base::planted::{Bug, plant};
use thermocline_base::{BatchEntry, CfId, ErrorKind, Kind};
use thermocline_halloc::Reserve;
use thermocline_pm::SimPm;

use super::*;
use crate::{ChainWriter, ItemBuilder, Memtable, Persist, fixture, item_bytes};

struct Chained {
    sim: SimPm,
    writer: ChainWriter,
    region: Region,
    next: u64,
}

fn chain(id: u64, base: u64) -> Chain {
    Chain::new(&[3; 16], id, 1, 17, base)
}

impl Chained {
    fn new() -> Chained {
        let (sim, space) = fixture::simulated_space(1 << 20, 256 << 10);
        Chained {
            sim,
            region: space.region().clone(),
            writer: ChainWriter::new(space, chain(1, 5), None),
            next: 5,
        }
    }

    /// Appends an item with `n` puts.
    fn item(&mut self, n: u64, len: usize) -> PmOff {
        let value = vec![7; len];
        let keys: Vec<_> = (self.next..self.next + n).map(u64::to_be_bytes).collect();
        let entries = keys.iter().map(|key| BatchEntry {
            kind: Kind::Put,
            cf: CfId(3),
            key,
            value: &value,
        });
        let bytes = item_bytes(entries.clone());
        self.writer.ensure(bytes, Reserve::Keep).unwrap();
        let grant = self.writer.grant(bytes);
        let mut builder = ItemBuilder::default();
        let stored = builder.store(&self.region, &grant, entries, self.next, 0, Persist::Now);
        stored.unwrap();
        self.next += n;
        grant.at()
    }

    /// All seqnos that are found from `seqno` on.
    fn read(&self, trail: &Trail, mark: &mut Mark, mut seqno: u64) -> Result<Vec<u64>> {
        let home = Memtable::new(self.region.clone(), 1, vec![trail.chain]);
        let home = &home.homes()[0];
        let mut all = Vec::new();
        while seqno < self.next {
            let Some(item) = trail.find(&self.region, mark, seqno)? else {
                return Ok(all);
            };
            for record in home.copy_item(&item)?.records() {
                let (cf, record) = record?;
                assert_eq!(cf, CfId(3));
                assert_eq!(record.key, record.seqno.0.to_be_bytes());
                all.push(record.seqno.0);
            }
            seqno = item.next_seqno();
        }
        Ok(all)
    }
}

#[test]
fn a_chain_is_read_on_while_it_grows_through_zones_and_empty_items() {
    let mut chained = Chained::new();
    let mut mark = Mark::default();
    let mut read = Vec::new();
    let mut behind = 5;
    for round in 0..60 {
        chained.item(round % 4, 900 * (1 + usize::try_from(round).unwrap() % 7));
        if round % 3 == 0 {
            continue;
        }
        let trail = chained.writer.trail(1, None);
        read.extend(chained.read(&trail, &mut mark, behind).unwrap());
        behind = chained.next;
    }
    let all: Vec<u64> = (5..chained.next).collect();
    assert!(chained.writer.zones().len() > 2, "it has met a zone's end");
    let complete = chained.writer.trail(1, Some(chained.next - 1));
    read.extend(chained.read(&complete, &mut mark, behind).unwrap());
    assert_eq!(read, all);
    // From anywhere, by items.
    for from in 5..chained.next {
        let mut mark = Mark::default();
        let read = chained.read(&complete, &mut mark, from).unwrap();
        assert!(read[0] <= from && read.len() as u64 == chained.next - read[0]);
        let again = chained
            .read(&complete, &mut mark, chained.next - 1)
            .unwrap();
        assert_eq!(again.last(), Some(&(chained.next - 1)));
    }
}

#[test]
fn a_trail_that_has_become_old_says_so_and_a_newer_one_goes_on() {
    let mut chained = Chained::new();
    chained.item(2, 10);
    let old = chained.writer.trail(1, None);
    // What the old one does not know lies in a zone that it does not know.
    while chained.writer.zones().len() < 2 {
        chained.item(1, 3000);
    }
    chained.item(1, 1);
    let mut mark = Mark::default();
    let known = chained.read(&old, &mut mark, 5).unwrap();
    assert!(known.len() > 2 && (known.len() as u64) < chained.next - 5);
    let new = chained.writer.trail(1, None);
    let rest = chained
        .read(&new, &mut mark, 5 + known.len() as u64)
        .unwrap();
    assert_eq!(known.len() as u64 + rest.len() as u64, chained.next - 5);
}

#[test]
fn a_complete_trail_does_not_look_behind_its_end() {
    let mut chained = Chained::new();
    chained.item(3, 100);
    let complete = chained.writer.trail(1, Some(7));
    // The same chain goes on there; a later one could.
    chained.item(1, 100);
    let mut mark = Mark::default();
    let error = chained.read(&complete, &mut mark, 8).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    let open = chained.writer.trail(1, None);
    assert_eq!(chained.read(&open, &mut Mark::default(), 8).unwrap(), [8]);
}

#[test]
fn what_is_damaged_is_named_and_an_empty_item_is_no_loss() {
    for (at_item, is_loss) in [(0, true), (1, false), (2, true), (3, true)] {
        let mut chained = Chained::new();
        let items = [3, 0, 2, 1].map(|n| chained.item(n, 100));
        let trail = chained.writer.trail(1, Some(chained.next - 1));
        chained.sim.rot(items[at_item].0 + 8, 1);
        let read = chained.read(&trail, &mut Mark::default(), 5);
        match read {
            Ok(all) => assert!(!is_loss && all.len() == 6, "item {at_item}: {all:?}"),
            Err(error) => {
                assert!(is_loss, "item {at_item}: {error}");
                assert!(
                    error.to_string().contains("is missing or damaged"),
                    "{error}"
                );
            }
        }
    }
    // A value, which is verified when it is read.
    let mut chained = Chained::new();
    let item = chained.item(1, 100);
    let trail = chained.writer.trail(1, None);
    chained.sim.rot(item.0 + 100, 1);
    let error = chained.read(&trail, &mut Mark::default(), 5).unwrap_err();
    assert!(error.to_string().contains("checksum"), "{error}");
}

#[test]
fn chains_follow_where_nothing_was_written_between_them() {
    let trail = |memtable, incarnation, base, last| {
        let chain = Chain::new(&[3; 16], base, incarnation, 17, base);
        Trail::complete(memtable, chain, Vec::new(), None, last)
    };
    let first = trail(1, 1, 5, 9);
    assert!(first.is_followed_by(&trail(2, 1, 10, 12)));
    assert!(!first.is_followed_by(&trail(2, 1, 11, 12)), "one is gone");
    // A new incarnation begins higher, in the memtable that took the writes.
    assert!(first.is_followed_by(&trail(1, 2, 500, 510)));
    assert!(!first.is_followed_by(&trail(2, 2, 500, 510)));
    let open = Trail::open(1, chain(1, 5), Vec::new());
    assert!(!open.is_followed_by(&first), "it has no end yet");
    let _bug = plant(Bug::FeedAcceptsGap);
    assert!(first.is_followed_by(&trail(2, 2, 500, 510)));
}
