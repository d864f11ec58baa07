//! Every byte of a live chain flipped, and of everything that leads to it: reported with its place,
//! or proven unused. The one exception is the last item, while nothing covers it yet: rot there can
//! look like a torn tail. Of what lies twice the rotten copy is named, and mended by an open.

use std::io::Write;
use std::sync::Arc;

use thermocline_base::Error;
use thermocline_base::options::Options;
use thermocline_base::planted::{Bug, plant};
use thermocline_testkit::explore::times;

use crate::check::caught;
use crate::life::{Life, options};
use crate::oracle::{Change, Model, Op, Step};
use crate::raw::{HERE, Raw};
use crate::snapshot::Snapshot;

/// How the life before the rot ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// With a write that nothing covers.
    Uncovered,
    /// Idle: an empty item covers the last write.
    Covered,
    /// With a clean close.
    Closed,
}

/// A store with every kind of record and item in its chain, and an image of it.
struct Subject {
    image: Snapshot,
    options: Options,
    model: Arc<Model>,
    /// What is left if the last write is taken for a torn one, and where it lies.
    before_last: Arc<Model>,
    last: std::ops::Range<u64>,
    /// Behind the last item.
    chain_end: u64,
}

#[derive(Debug, Default)]
struct Counts {
    flips: u64,
    reported: u64,
    unused: u64,
    torn: u64,
}

fn ops() -> Vec<Op> {
    let change = |cf, key: &[u8], value: Option<usize>| Change {
        cf,
        key: key.to_vec(),
        value: value.map(|len| vec![key.len().to_le_bytes()[0] + 1; len].into()),
    };
    vec![
        Op::Family("red".into()),
        Op::Family("blue".into()),
        Op::Write(vec![change(0, b"first", Some(100))]),
        Op::Write(vec![change(0, b"", Some(0))]),
        Op::Write(vec![
            change(0, b"batch", Some(40)),
            change(1, b"batch", Some(7)),
            change(2, b"batch", Some(8)),
            change(0, b"first", None),
        ]),
        Op::Write(vec![change(1, b"large", Some(3000))]),
        Op::Write(vec![change(0, b"batch", Some(41))]),
        Op::Write(vec![change(2, &[b'k'; 300], Some(1))]),
        Op::Write(vec![change(0, b"ghost", None)]),
        Op::Steps(vec![
            Step::Change(change(1, b"covered", Some(9))),
            Step::Clear {
                cf: 1,
                from: b"b".to_vec(),
                to: Some(b"cz".to_vec()),
            },
            Step::Clear {
                cf: 2,
                from: b"kkk".to_vec(),
                to: None,
            },
        ]),
    ]
}

fn subject(end: End, small_memtables: bool) -> Subject {
    let mut options = options();
    if small_memtables {
        options.memtable.bytes_max = 512;
    }
    let mut life = Life::fresh(&options, 21);
    life.open().unwrap();
    for op in ops() {
        life.run(&op).unwrap();
        life.engine().cover_idle().unwrap();
    }
    let before_last = life.tracker.lock().unwrap().expect().allowed[0].clone();
    life.run(&Op::put(0, b"last", [3; 90])).unwrap();
    let model = life.tracker.lock().unwrap().expect().allowed[0].clone();
    if end == End::Covered {
        life.engine().cover_idle().unwrap();
    }
    let zones = life.engine().metrics().space.zones_attached;
    let (last, chain_end) = if small_memtables {
        assert!(zones > 2, "some memtables were sealed");
        (0..0, (1 + zones) * (16 << 10))
    } else {
        let open = Snapshot::of(&life, HERE);
        let raw = Raw::of(open.life(&open.newest(), &options, 22), open.expect.clone());
        let last = raw.items.iter().rfind(|item| item.count > 0).unwrap();
        let end = last.at.0 + u64::from(last.bytes);
        (last.at.0..end, raw.segment.from.0)
    };
    if end == End::Closed {
        life.close().unwrap();
    }
    let image = Snapshot::of(&life, HERE);
    assert!(image.is_settled(), "everything was persisted");
    Subject {
        image,
        options,
        model,
        before_last,
        last,
        chain_end,
    }
}

/// Where both copies lie of the superblock and of the first part's header. One that is sound serves.
const COPIES: [u64; 4] = [0, 256, 640, 704];

/// The copy that this byte belongs to.
fn copy_of(at: u64) -> Option<u64> {
    let mut copies = COPIES.into_iter();
    copies.find(|&copy| (copy..copy + 64).contains(&at))
}

/// Whether a check has named this copy and nothing else, and after the open that has been finds nothing more.
fn is_mended(life: &mut Life, faults: &[u64], copy: u64) -> Result<(), String> {
    if faults != [copy] {
        return Err(format!("verify finds faults at {faults:?}, not at {copy}"));
    }
    life.close().map_err(|error| format!("closing: {error}"))?;
    let report = life.verify().map_err(|error| format!("again: {error}"))?;
    match report.faults.first() {
        Some(fault) => Err(format!("an open leaves {fault:?}")),
        None => Ok(()),
    }
}

/// The error of a read or open, if it names a place in the region.
fn is_report(why: &str) -> bool {
    why.contains("corruption in sim at offset")
}

/// Flips `mask` at `at` and looks at everything.
fn flip(subject: &Subject, end: End, at: u64, mask: u8, counts: &mut Counts) -> Result<(), String> {
    let state = subject.image.newest();
    let mut life = subject.image.life(&state, &subject.options, at);
    life.pm.rot(at, mask);
    counts.flips += 1;
    let faults: Vec<u64> = match life.verify() {
        Ok(report) => report.faults.iter().map(|fault| fault.offset).collect(),
        Err(Error::Corruption { offset, .. }) => vec![offset],
        Err(other) => return Err(format!("verify: {other}")),
    };
    let found = life
        .open()
        .map_err(|error| error.to_string())
        .and_then(|()| life.dump(std::slice::from_ref(&subject.model)));
    match found {
        Err(why) if !is_report(&why) => Err(why),
        Err(_) if faults.is_empty() => Err("reading reports what verify does not".into()),
        Err(_) => {
            counts.reported += 1;
            Ok(())
        }
        Ok(model) if model == *subject.model => {
            counts.reported += u64::from(!faults.is_empty());
            counts.unused += u64::from(faults.is_empty());
            copy_of(at).map_or(Ok(()), |copy| is_mended(&mut life, &faults, copy))
        }
        Ok(model) => {
            let torn = end == End::Uncovered
                && subject.last.contains(&at)
                && model == *subject.before_last;
            counts.torn += u64::from(torn);
            torn.then_some(())
                .ok_or_else(|| format!("silently: {}", subject.model.difference(&model)))
        }
    }
}

/// Flips every byte `step` apart; gives what was counted and what was wrong.
fn flip_all(end: End, small_memtables: bool, step: usize) -> (Counts, Vec<String>) {
    let subject = subject(end, small_memtables);
    let mut counts = Counts::default();
    let mut wrong = Vec::new();
    // The meta zone, the chain, and the rest of the zone where the next item would go.
    let until = subject.chain_end.next_multiple_of(16 << 10);
    for at in (0..until).step_by(step) {
        // Of sealed memtables only what is in use: the other tests have the rest.
        let in_zone = at % (16 << 10);
        if small_memtables && in_zone >= 2 << 10 && at >= 3 << 10 {
            continue;
        }
        let used = at < 3 << 10 || (16 << 10..subject.chain_end).contains(&at);
        let one = 1 << (at % 8);
        let masks: &[u8] = if used { &[one, 0xff] } else { &[one] };
        for &mask in masks {
            let done = caught(|| flip(&subject, end, at, mask, &mut counts));
            if let Err(why) = done {
                wrong.push(format!("{end:?}, byte {at} ^ {mask:#04x}: {why}"));
            }
        }
    }
    let _ = writeln!(std::io::stderr(), "flipped bytes, {end:?}: {counts:?}");
    (counts, wrong)
}

/// One byte in so many is flipped, in a plain run and in a whole one, of which three flip each. None of their divisors is one of 8,
/// so that each bit has its turn.
const ONE_IN: [u64; 2] = [29, 3];

fn one_byte_in() -> u64 {
    let [plain, whole] = ONE_IN;
    times().map_or(plain, |times| (whole / times).max(1))
}

fn all_are_found(end: End, small_memtables: bool) -> Counts {
    let step = usize::try_from(one_byte_in()).unwrap();
    let (counts, wrong) = flip_all(end, small_memtables, step);
    let first = &wrong[..wrong.len().min(20)];
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        first.join("\n")
    );
    let least = times().map_or(6_500, |_| 7_000);
    assert!(counts.reported * one_byte_in() > least, "{counts:?}");
    counts
}

#[test]
fn a_flipped_byte_under_an_uncovered_write_is_reported_unused_or_a_torn_tail() {
    let counts = all_are_found(End::Uncovered, false);
    // The exception exists, and is no larger than the last item.
    let torn = counts.torn * one_byte_in();
    let least = times().map_or(60, |_| 100);
    assert!(torn > least && counts.torn <= 2 * 192, "{counts:?}");
}

#[test]
fn a_flipped_byte_of_an_idle_store_is_reported_or_unused() {
    let counts = all_are_found(End::Covered, false);
    assert!(counts.torn == 0, "{counts:?}");
}

#[test]
fn a_flipped_byte_of_a_closed_store_is_reported_or_unused() {
    let counts = all_are_found(End::Closed, false);
    assert!(counts.torn == 0, "{counts:?}");
}

#[test]
fn a_flipped_byte_of_sealed_memtables_is_reported_or_unused() {
    for end in [End::Closed, End::Covered] {
        let counts = all_are_found(end, true);
        assert!(counts.torn == 0, "{counts:?}");
    }
}

#[test]
fn flips_show_a_cut_below_published() {
    let _bug = plant(Bug::CutBelowPublished);
    let (_, wrong) = flip_all(End::Covered, false, 61);
    assert!(
        wrong.iter().any(|why| why.contains("silently")),
        "{wrong:?}"
    );
}
