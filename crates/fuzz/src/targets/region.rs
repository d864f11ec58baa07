//! A region's own structures: opened to read and to write, zones attached, objects taken.

use thermocline_base::size::index;
use thermocline_base::{ErrorKind, Result, Steps};
use thermocline_halloc::{Reserve, Space, SpaceSpec, Witness, Zone};
use thermocline_memtable::Descriptor;
use thermocline_pm::{PmOff, Region, RegionSpec, SimPm};

use super::digest::Digest;
use super::items::region_spec;
use super::refusal::refused;
use crate::seal::DB_ID;
use crate::seal::region::{REGION_ID, ZONE_BYTES, seal};
use crate::target::{Answer, SEAL, Target};

pub(super) const TARGET: Target = Target {
    name: "region",
    run,
    samples,
    beginnings: None,
    runs: 60_000,
};

const BYTES: usize = 4 * ZONE_BYTES;

/// The pieces of a region that an input holds, one behind the other: where they lie, and their lengths.
/// Superblocks, words, part header, pool; some of its objects; zone headers.
const PIECES: [(usize, usize); 5] = [
    (0, 1600),
    (2048, 4 * 192),
    (ZONE_BYTES, 128),
    (2 * ZONE_BYTES, 128),
    (3 * ZONE_BYTES, 128),
];

const SPEC: SpaceSpec = SpaceSpec {
    part_bytes_first: BYTES as u64,
    pm: BYTES as u64,
};

/// The owners that the manifest names.
const LIVE: [u64; 2] = [7, 9];

fn collapsed(whole: &[u8]) -> Vec<u8> {
    let pieces = PIECES.map(|(at, len)| &whole[at..at + len]);
    pieces.concat()
}

fn expanded(mut bytes: &[u8]) -> Vec<u8> {
    let mut whole = vec![0; BYTES];
    for (at, len) in PIECES {
        let (piece, rest) = bytes.split_at(len.min(bytes.len()));
        whole[at..at + piece.len()].copy_from_slice(piece);
        bytes = rest;
    }
    whole
}

fn samples() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for n in 0..4 {
        let sample = || {
            let sim = SimPm::new(BYTES as u64, Steps::new());
            let region = Region::create(&region_spec(&sim, SPEC.pm), SPEC.part_bytes_first)?;
            let space = Space::create(region.clone(), &REGION_ID, SPEC)?;
            for ordinal in 0..n {
                // Of three owners, one of which is gone; the last time a run of two zones.
                let bytes = if n == 2 { ZONE_BYTES as u64 } else { 1000 };
                let owner = [7, 8, 9][index(ordinal)];
                if space.attach(owner, 0, bytes, Reserve::Use).is_err() {
                    break;
                }
            }
            for id in 0..n {
                if let Some(mut made) = Descriptor::create(&space, &DB_ID, id)? {
                    match id {
                        0 => made.set_floor(&space, 77)?,
                        1 => made.release(&space)?,
                        _ => {}
                    }
                }
            }
            space.set_witness(Witness::of(7, n))?;
            let whole = region.bytes(PmOff(0), BYTES)?;
            Ok::<_, thermocline_base::Error>(collapsed(whole))
        };
        let bytes = sample().expect("a sample can be made");
        all.push([&[0][..], &bytes].concat());
    }
    all
}

fn run(input: &[u8]) -> Answer {
    let Some((flags, bytes)) = input.split_first() else {
        return Answer::Refused;
    };
    let mut whole = expanded(bytes);
    if flags & SEAL != 0 {
        seal(&mut whole);
    }
    let sim = SimPm::new(BYTES as u64, Steps::new());
    let spec = region_spec(&sim, SPEC.pm);
    let region = Region::create(&spec, BYTES as u64).expect("a simulated region can be made");
    for (at, line) in whole.chunks(64).enumerate() {
        if line.iter().any(|&b| b != 0) {
            super::items::store_bytes(&region, PmOff(64 * at as u64), line);
        }
    }
    // It is asked only of what does not open, and may then say either.
    Space::is_unformatted(&region).expect("it can be read");
    let read_only = RegionSpec {
        read_only: true,
        ..spec.clone()
    };
    let looked = opened(&read_only);
    let unchanged = region.bytes(PmOff(0), BYTES).expect("it is as long");
    assert_eq!(unchanged, &whole[..], "opened to read it was written to");
    match (looked, opened(&spec)) {
        (Ok(looked), Ok(written)) => {
            assert_eq!(looked.1, written.1, "opened to write it has other zones");
            match use_it(&spec, &written.0, &written.1) {
                Ok(digest) => Answer::Read(digest),
                Err(error) => refused(&error, BYTES),
            }
        }
        (Err(a), Err(b)) => {
            assert_eq!(a.to_string(), b.to_string());
            refused(&a, BYTES)
        }
        (a, b) => panic!("{a:?} to read, {b:?} to write"),
    }
}

fn opened(spec: &RegionSpec) -> Result<(Space, Vec<Zone>)> {
    let region = Region::open(spec)?;
    Space::open(region, &REGION_ID, SPEC, |owner| LIVE.contains(&owner))
}

/// Zones lie apart and within, by owner and ordinal; so do those that are attached from here on.
fn disjoint(zones: &[Zone]) {
    let mut sorted = zones.to_vec();
    sorted.sort_by_key(|zone| zone.data);
    for pair in sorted.windows(2) {
        assert!(pair[0].end < pair[1].data, "two zones share bytes");
    }
    for zone in &sorted {
        assert!(zone.data < zone.end && zone.end.0 <= BYTES as u64);
        assert!(
            zone.data.0 >= ZONE_BYTES as u64,
            "a zone over the region's own structures"
        );
    }
}

fn use_it(spec: &RegionSpec, space: &Space, zones: &[Zone]) -> Result<u64> {
    let mut digest = Digest::default();
    assert!(zones.is_sorted_by_key(|zone| (zone.owner, zone.ordinal)));
    assert!(zones.iter().all(|zone| LIVE.contains(&zone.owner)));
    disjoint(zones);
    assert!(space.usage().zones_attached >= zones.len() as u64);
    for zone in zones {
        [
            zone.owner,
            zone.generation,
            u64::from(zone.ordinal),
            zone.data.0,
            zone.end.0,
        ]
        .into_iter()
        .for_each(|n| digest.number(n));
    }
    let witness = space.witness()?;
    digest.number(u64::from(witness.is_some()));
    let descriptors = Descriptor::read_all(space, &DB_ID)?;
    for descriptor in &descriptors {
        digest.number(descriptor.memtable);
        digest.number(descriptor.floor.unwrap_or(0));
    }
    let mut all = zones.to_vec();
    for ordinal in 100.. {
        match space.attach(9, ordinal, 1000, Reserve::Use) {
            Ok(zone) => all.push(zone),
            Err(error) if error.kind() == ErrorKind::OutOfSpace => break,
            Err(error) => return Err(error),
        }
    }
    disjoint(&all);
    let pool = space.descriptors();
    let (free, committed) = (pool.free(), pool.committed());
    let mut taken = Vec::new();
    while let Some(object) = pool.get()? {
        assert!(!committed.contains(&object) && !taken.contains(&object));
        pool.commit(object)?;
        taken.push(object);
    }
    assert_eq!(taken.len(), free);
    assert_eq!(taken.len() + committed.len(), 64, "objects are lost");
    for object in taken {
        pool.release(object)?;
    }
    let (again, zones) = opened(spec)?;
    all.sort_by_key(|zone| (zone.owner, zone.ordinal));
    assert_eq!(zones, all, "what was attached is not found again");
    assert_eq!(again.descriptors().committed(), committed);
    assert_eq!(Descriptor::read_all(&again, &DB_ID)?, descriptors);
    Ok(digest.0)
}
