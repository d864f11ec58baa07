//! The items of a chain: walked, replayed into an index, read.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use thermocline_base::options::{Emulation, RegionDemand};
use thermocline_base::{CfId, Kind, Result, SeqNo, Steps};
use thermocline_env::Env;
use thermocline_memtable::{
    Chain, ChainEnd, ChainPlan, Direction, Lookup, Memtable, Segment, Stretch, replay,
    walk_incarnation,
};
use thermocline_pm::{Place, PmOff, Region, RegionSpec, SimPm};

use super::digest::Digest;
use super::refusal::refused;
use crate::seal::{DB_ID, items as seal};
use crate::target::{Answer, SEAL, Target};

pub(super) const TARGET: Target = Target {
    name: "items",
    run,
    samples,
    beginnings: Some(beginnings),
    runs: 200_000,
};

/// Of the first byte: the manifest says where the chain ends, the descriptor where the memtable does;
/// the chain was staged.
const CUT: u8 = 2;
/// See [`CUT`].
const FLOOR: u8 = 4;
/// See [`CUT`].
const STAGED: u8 = 8;

/// The first byte, then cut, floor and base.
const HEAD: usize = 1 + 3 * 8;

/// Where the segments lie, and how many bytes each has.
const SEGMENTS: [u64; 2] = [4096, 16384];
const SEGMENT_BYTES: usize = 1024;
const REGION_BYTES: u64 = 32 << 10;
const ZONE_GENERATION: u64 = 11;

pub(super) type Record<'a> = (Kind, u16, &'a [u8], &'a [u8]);

/// An item without checksums.
pub(super) fn item(first_seqno: u64, published: u64, records: &[Record<'_>]) -> Vec<u8> {
    let mut bytes = vec![0; 48];
    bytes[8..16].copy_from_slice(&first_seqno.to_le_bytes());
    bytes[16..24].copy_from_slice(&published.to_le_bytes());
    bytes[28..32].copy_from_slice(&seal::INCARNATION.to_le_bytes());
    bytes[32..40].copy_from_slice(&ZONE_GENERATION.to_le_bytes());
    bytes[40..48].copy_from_slice(&seal::CHAIN.to_le_bytes());
    for (seqno, (kind, cf, key, value)) in (first_seqno..).zip(records) {
        let len = |part: &[u8]| u32::try_from(part.len()).expect("a sample is small");
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&seqno.to_le_bytes()[..4]);
        bytes.extend_from_slice(&len(key).to_le_bytes()[..2]);
        bytes.extend_from_slice(&cf.to_le_bytes());
        let kind = u32::from(*kind as u8) << 28 | len(value);
        bytes.extend_from_slice(&kind.to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    let length = u32::try_from(bytes.len()).expect("a sample is small");
    bytes[4..8].copy_from_slice(&length.to_le_bytes());
    let count = u32::try_from(records.len()).expect("a sample is small");
    bytes[24..28].copy_from_slice(&count.to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(64), 0);
    bytes
}

/// A chain over two segments from this seqno on.
fn chain(flags: u8, base: u64) -> Vec<u8> {
    let first = if flags & STAGED != 0 { 1 } else { base };
    let records: [&[Record<'_>]; 7] = [
        &[
            (Kind::Put, 0, b"key", b"value"),
            (Kind::Delete, 2, b"", b""),
        ],
        &[
            (Kind::Put, 0, b"key", b"another"),
            (Kind::Put, 0, b"kez", b""),
        ],
        &[],
        &[
            (Kind::Put, 2, b"prefix", &[7; 200]),
            (Kind::Put, 2, b"prefix and more", b"x"),
        ],
        &[(Kind::Put, 0, &[0xff; 90], &[1; 300])],
        &[(Kind::Delete, 0, b"key", b"")],
        &[
            (Kind::Put, 65_535, &[0, 2], b"metadata"),
            (Kind::Put, 0, b"last", b"one"),
        ],
    ];
    let (mut segments, mut seqno) = (vec![Vec::new()], first);
    for (n, records) in records.into_iter().enumerate() {
        // The last ones follow what is known to be durable.
        let published = if n < 4 { first - 1 } else { first };
        let bytes = item(seqno, published, records);
        seqno += records.len() as u64;
        let last = segments.last_mut().expect("there is one");
        match last.len() + bytes.len() <= SEGMENT_BYTES {
            true => last.extend(bytes),
            false => {
                last.resize(SEGMENT_BYTES, 0);
                segments.push(bytes);
            }
        }
    }
    assert_eq!(segments.len(), 2, "the sample is for two segments");
    let last = base + (seqno - first) - 1;
    let mut input = vec![flags];
    for n in [last, last, base] {
        input.extend_from_slice(&n.to_le_bytes());
    }
    for (bytes, at) in segments.iter_mut().zip(SEGMENTS) {
        seal::seal(bytes, at);
        input.extend_from_slice(bytes);
    }
    input
}

fn samples() -> Vec<Vec<u8>> {
    let flags = [0, CUT, FLOOR, CUT | FLOOR];
    let bases = [1, 0xffff_fffe, 0x7_0000_0000];
    let chains = flags.into_iter().zip(bases.into_iter().cycle());
    let staged = [chain(STAGED | CUT, 500)];
    chains
        .map(|(flags, base)| chain(flags, base))
        .chain(staged)
        .collect()
}

/// What a crash tore off is cut: the chain ends with any of its items, and the manifest does not say where.
fn beginnings(sample: &[u8]) -> Vec<Vec<u8>> {
    let mut sample = sample.to_vec();
    sample[0] &= !(CUT | FLOOR);
    let ends = (HEAD..sample.len()).step_by(64);
    ends.map(|end| sample[..end].to_vec()).collect()
}

fn run(input: &[u8]) -> Answer {
    let Some((head, bytes)) = input.split_at_checked(HEAD) else {
        return Answer::Refused;
    };
    let flags = head[0];
    let number = |n: usize| crate::seal::u64_at(head, 1 + 8 * n).expect("it has three");
    let sim = SimPm::new(REGION_BYTES, Steps::new());
    let spec = region_spec(&sim, REGION_BYTES);
    let region = Region::create(&spec, REGION_BYTES).expect("a simulated region can be made");
    let mut segments = Vec::new();
    for (piece, at) in bytes.chunks(SEGMENT_BYTES).zip(SEGMENTS) {
        let mut piece = piece.to_vec();
        if flags & SEAL != 0 {
            seal::seal(&mut piece, at);
        }
        store_bytes(&region, PmOff(at), &piece);
        segments.push(Segment {
            from: PmOff(at),
            to: PmOff(at + SEGMENT_BYTES as u64),
            zone_generation: ZONE_GENERATION,
        });
    }
    // A base of 0 is none: the manifest's state has seen to that.
    let base = number(2).max(1);
    let id = Chain::new(&DB_ID, seal::CHAIN, seal::INCARNATION, seal::NONCE, base);
    let plan = ChainPlan {
        chain: if flags & STAGED != 0 { id.staged() } else { id },
        segments,
        cut: (flags & CUT != 0).then(|| number(0)),
        floor: (flags & FLOOR != 0).then(|| number(1)),
    };
    let walked = walk_incarnation(&region, std::slice::from_ref(&plan), base, 1);
    match walked {
        Err(error) => refused(&error, thermocline_base::size::index(REGION_BYTES)),
        Ok(outcome) => {
            let [end] = &outcome.chains[..] else {
                panic!("one chain, one end")
            };
            assert_eq!(end.last_seqno, outcome.last_seqno);
            let due = plan.cut.max(plan.floor).unwrap_or(0);
            assert!(outcome.last_seqno >= due, "what was durable is missing");
            assert!(outcome.seqno_seen >= outcome.last_seqno);
            match read(&region, &plan.chain, end) {
                Ok(digest) => Answer::Read(digest),
                Err(error) => refused(&error, thermocline_base::size::index(REGION_BYTES)),
            }
        }
    }
}

/// Overwrites what lies at `at`.
#[expect(unsafe_code, reason = "a region is filled with an input")]
pub(super) fn store_bytes(region: &Region, at: PmOff, bytes: &[u8]) {
    // SAFETY: a target is one thread, and holds no slice before all of the input is stored.
    unsafe { region.write(at, bytes) }
}

pub(super) fn region_spec(sim: &SimPm, capacity: u64) -> RegionSpec {
    RegionSpec {
        env: Env::real(),
        place: Place::Sim(sim.clone()),
        demand: RegionDemand::Any,
        capacity,
        emulation: Emulation::None,
        read_only: false,
    }
}

/// By family and key.
type Newest = BTreeMap<(u16, Vec<u8>), (SeqNo, Kind, Vec<u8>)>;

/// Everything that the items say: each record, and of each key the newest by every way there is.
fn read(region: &Region, chain: &Chain, end: &ChainEnd) -> Result<u64> {
    assert_eq!(region.path(), Path::new("sim"));
    let memtable = Memtable::new(region.clone(), 1, vec![*chain]);
    let mut digest = Digest::default();
    let mut newest = Newest::new();
    let mut expected = chain.base;
    let mut ranges = 0;
    for item in end.items.iter().flatten() {
        assert_eq!(item.first_seqno, expected, "items follow each other");
        expected = item.next_seqno();
        for at in memtable.record_offsets(item)? {
            let record = memtable.record(at, true)?;
            digest.number(record.seqno.0 - chain.base);
            digest.number(u64::from(record.kind as u8));
            digest.add(record.key);
            digest.add(record.value);
            ranges += usize::from(record.kind == Kind::RangeDelete);
            let cf = u16_of(region.bytes(at.plus(10), 2)?);
            let kept = (record.seqno, record.kind, record.value.to_vec());
            newest.insert((cf, record.key.to_vec()), kept);
        }
    }
    assert_eq!(expected, end.last_seqno + 1);
    for items in &end.items {
        let memtable = &memtable;
        replay(
            &[Stretch {
                memtable,
                items,
                indexed: true,
            }],
            1,
            &[],
            &|_, _, _| Ok(true),
        )?;
    }
    let mut found = Newest::new();
    for cf in memtable.families() {
        let mut all = Vec::new();
        memtable.scan(
            cf,
            Bound::Unbounded,
            Direction::Forward,
            SeqNo::MAX,
            1000,
            &mut all,
        )?;
        for entry in all {
            let record = memtable.record(entry.at, true)?;
            let kept = (record.seqno, record.kind, record.value.to_vec());
            found.insert((cf.0, record.key.to_vec()), kept);
        }
    }
    if ranges > 0 {
        // They are not of one key.
        return Ok(digest.0);
    }
    assert_eq!(found, newest, "the index is not what the items say");
    for ((cf, key), (seqno, _, value)) in &newest {
        match memtable.get(CfId(*cf), key, SeqNo::MAX, true)? {
            Lookup::Record(record) => {
                assert_eq!((record.seqno, record.value), (*seqno, &value[..]))
            }
            other => panic!("{other:?} in the place of a record"),
        }
    }
    Ok(digest.0)
}

fn u16_of(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[0], bytes[1]])
}
