use thermocline_art::Moments as _;
use thermocline_base::SeqNo;

use crate::readers::{Moments, Readers, SLOTS};
use crate::ring::Ring;
use crate::sync::AtomicU64;

fn wanted(readers: &Readers, visible: u64, from: u64) -> bool {
    let ring = Ring::new(visible, 1);
    Moments::now(&ring, readers).any_in(SeqNo(from), SeqNo(from + 1))
}

#[test]
fn whoever_is_registered_is_asked_for_and_whoever_left_is_not() {
    let readers = Readers::default();
    let mut all = Vec::new();
    // More than there are slots, at different moments, each twice.
    for seqno in 1..=2 * SLOTS as u64 {
        for _ in 0..2 {
            all.push(readers.register(&AtomicU64::new(seqno), all.len()));
        }
    }
    assert!(all.iter().any(|r| r.slot.is_none()) && all.iter().any(|r| r.slot.is_some()));
    assert!(readers.moments() >= 2 * SLOTS);
    let past = 10 * SLOTS as u64;
    for reader in &all {
        assert!(wanted(&readers, past, reader.seqno.0));
    }
    assert!(!wanted(&readers, past, past - 1) && wanted(&readers, past, past));
    for reader in all.drain(..) {
        readers.leave(&reader);
    }
    assert_eq!(readers.moments(), 0);
    assert!(!wanted(&readers, past, 1) && !wanted(&readers, past, 2 * SLOTS as u64));
}

#[test]
fn whoever_holds_registrations_up_is_told_who_reads_from_a_seqno_on() {
    let readers = Readers::default();
    let mut all = Vec::new();
    while !all
        .iter()
        .any(|r: &crate::readers::Registration| r.slot.is_none())
    {
        all.push(readers.register(&AtomicU64::new(7), all.len()));
    }
    let reads = |seqno| readers.hold_up().reads_any_from(SeqNo(seqno));
    assert!(reads(0) && reads(7) && !reads(8));
    // Those in slots leave; then the one in the registry.
    let (slots, registry): (Vec<_>, Vec<_>) = all.into_iter().partition(|r| r.slot.is_some());
    slots.iter().for_each(|reader| readers.leave(reader));
    assert!(reads(7) && !reads(8));
    registry.iter().for_each(|reader| readers.leave(reader));
    assert!(!reads(0));
}

#[test]
fn a_seqno_has_readers_until_the_last_of_them_leaves() {
    let readers = Readers::default();
    let mut all = Vec::new();
    // Some of each seqno in slots, and some in the registry.
    for n in 0..2 * SLOTS {
        all.push(readers.register(&AtomicU64::new(5 + n as u64 % 3), n));
    }
    for seqno in 5..8 {
        let is_any = |in_slot: bool| {
            let mut all = all.iter();
            all.any(|reader| reader.seqno.0 == seqno && reader.slot.is_some() == in_slot)
        };
        assert!(is_any(true) && is_any(false));
    }
    assert!(!readers.has_any_at(SeqNo(4)) && !readers.has_any_at(SeqNo(8)));
    for (left, reader) in (0..all.len()).rev().zip(&all) {
        assert!(readers.has_any_at(reader.seqno));
        readers.leave(reader);
        let rest = &all[all.len() - left..];
        for seqno in 5..8 {
            let is_there = rest.iter().any(|reader| reader.seqno.0 == seqno);
            assert_eq!(readers.has_any_at(SeqNo(seqno)), is_there);
        }
    }
    assert!(readers.is_empty());
}
