//! Bytes that are not what was written: noticed, and never more than an error.

use thermocline_base::{BlobRef, CfId, Error, ErrorKind, FileId, Kind, Result, SeqNo};
use thermocline_level0::{
    FoundValue, GroupSize, PmBlob, PmCursor, PmPart, PmTable, PmTableMeta, Written, verify_table,
};
use thermocline_pm::{PmOff, Region, SimPm};
use thermocline_testkit::Rng;
use thermocline_testkit::explore::one_in;

use crate::world::*;

/// Everything that a table says, by every way there is; `Err` from the first that fails.
fn read(table: &std::sync::Arc<PmTable>, model: &Model) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for cf in [0, 7] {
        let part = PmPart::whole(table.clone(), CfId(cf));
        let mut cursor = PmCursor::new(part.clone(), true);
        let mut there = cursor.first()?;
        while there {
            let value = cursor.value()?;
            let (key, seqno) = (cursor.user_key().escape_ascii().to_string(), cursor.seqno());
            all.push(format!("{key} {seqno} {:?} {value:?}", cursor.kind()));
            there = cursor.next()?;
        }
        for tombstone in part.range_tombstones() {
            all.push(format!("{tombstone:?}"));
        }
    }
    for (cf, key, left) in model.entries.keys() {
        let part = PmPart::whole(table.clone(), CfId(*cf));
        let found = part.get(key, SeqNo(u64::MAX - left), true)?;
        let found = found.map(|found| {
            let value = match found.value {
                FoundValue::Inline(bytes) => bytes.to_vec(),
                _ => Vec::new(),
            };
            (found.seqno, found.kind, value)
        });
        all.push(format!("{found:?}"));
    }
    Ok(all)
}

/// A small table over a few zones with everything in it.
fn small() -> (
    Model,
    SimPm,
    std::sync::Arc<thermocline_halloc::Space>,
    Written,
) {
    let mut model = Model::default();
    for n in 0..120u8 {
        let key = format!("table/{:03}", n / 2);
        let value = Content::Bytes(vec![n; if n % 3 == 0 { 200 } else { 5 }]);
        model.put(0, key.as_bytes(), u64::from(n) + 1, Kind::Put, value);
    }
    model.put(7, b"", 3, Kind::Delete, Content::Bytes(Vec::new()));
    model.put(7, b"x", 3, Kind::Merge, Content::Bytes(b"more".to_vec()));
    model.ranges.insert(
        (0, b"table/010".to_vec(), u64::MAX - 40),
        b"table/020".to_vec(),
    );
    model
        .ranges
        .insert((7, b"y".to_vec(), u64::MAX - 4), b"z".to_vec());
    let (sim, space) = space(1 << 20, 256 << 10);
    let written = model
        .write(&space, options(GroupSize::Eight))
        .unwrap()
        .unwrap();
    (model, sim, space, written)
}

fn is_corruption(error: &Error) -> bool {
    match error {
        Error::Corruption { place, offset, .. } => place == "sim" && *offset < 1 << 20,
        _ => false,
    }
}

/// With which of these masks a byte is damaged: with all, or in a plain run with one, whichever byte of a word it is.
fn masks<const N: usize>(at: u64, masks: [u8; N]) -> impl Iterator<Item = u8> {
    let is_its_turn = move |n: u64| (at + at / 4 + n).is_multiple_of(one_in(N as u64));
    let masks = (0..).zip(masks);
    masks.filter_map(move |(n, mask)| is_its_turn(n).then_some(mask))
}

/// Flips bits of each byte of the table's zones: an error that names a place within, or, where bytes are
/// not used, the same answers.
#[test]
fn every_byte_that_is_flipped_is_noticed_or_unused() {
    let (model, sim, space, written) = small();
    let table = open(&space, &written).unwrap();
    let expected = read(&table, &model).unwrap();
    let end = |zone: &thermocline_halloc::Zone| zone.data.0 + written.meta.bytes;
    assert_eq!(written.zones.len(), 1);
    let mut unused = 0;
    let mut undetected = 0;
    for zone in &written.zones {
        for at in zone.data.0..end(zone) + 64 {
            for mask in masks(at, [1, 0x80, 0xff]) {
                sim.rot(at, mask);
                match open(&space, &written) {
                    Err(error) => assert!(is_corruption(&error), "byte {at}: {error}"),
                    Ok(table) => {
                        match read(&table, &model) {
                            Ok(found) => {
                                unused += 1;
                                assert!(found == expected, "byte {at} ^ {mask} reads as another");
                            }
                            Err(error) => assert!(is_corruption(&error), "byte {at}: {error}"),
                        }
                        match verify_table(&table) {
                            Ok(_) => {
                                undetected += 1;
                                assert!(at >= end(zone), "byte {at} is not noticed");
                            }
                            Err(error) => assert!(is_corruption(&error), "byte {at}: {error}"),
                        }
                    }
                }
                sim.rot(at, mask);
            }
        }
    }
    println!("{unused} flips change nothing, {undetected} behind the end are not noticed");
    let masks = 3 / one_in(3);
    assert_eq!(undetected, masks * 64);
    assert!(
        unused < masks * 64 + masks * 400,
        "only zeros between are unused: {unused}"
    );
}

/// Whoever holds a value may ask at any time whether it is what was written.
#[test]
fn a_pinned_value_is_verified_where_it_lies() {
    let (model, sim, space, written) = small();
    let table = open(&space, &written).unwrap();
    let (mut own, mut of_groups) = (0, 0);
    for (cf, key, left) in model.entries.keys() {
        let part = PmPart::whole(table.clone(), CfId(*cf));
        let seqno = SeqNo(u64::MAX - left);
        let mut cursor = PmCursor::new(part.clone(), false);
        assert!(cursor.seek(key, seqno).unwrap());
        let found = [
            cursor.found(),
            part.get(key, seqno, false).map(Option::unwrap),
        ];
        for found in found.into_iter().map(Result::unwrap) {
            let FoundValue::Inline(value) = found.value else {
                continue;
            };
            match value.len() {
                200 => own += 1,
                _ => of_groups += 1,
            }
            value.verify().unwrap();
            for n in 0..value.len() as u64 {
                sim.rot(value.at().0 + n, 4);
                let error = value.verify().unwrap_err();
                assert!(is_corruption(&error), "byte {n} of {key:?}: {error}");
                sim.rot(value.at().0 + n, 4);
            }
            value.verify().unwrap();
        }
    }
    assert!(own > 20 && of_groups > 20, "{own} {of_groups}");
}

/// Bits flipped in tables of several zones: what is absent is not said to be there, and the other way round.
#[test]
fn rot_in_large_tables_never_changes_an_answer() {
    let mut noticed = 0;
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let keys = KINDS[rng.below(4)];
        let model = model(&mut rng, keys, 1500);
        let (sim, space) = space(16 << 20, 256 << 10);
        let written = model
            .write(&space, options(GroupSize::Sixteen))
            .unwrap()
            .unwrap();
        let table = open(&space, &written).unwrap();
        let known: Vec<_> = model.entries.keys().cloned().collect();
        for _ in 0..300 {
            let zone = rng.pick(&written.zones);
            let at =
                zone.data.0 + rng.below(usize::try_from(zone.end.0 - zone.data.0).unwrap()) as u64;
            let mask = 1 << rng.below(8);
            sim.rot(at, mask);
            for _ in 0..20 {
                let (cf, key, left) = rng.pick(&known);
                let mut key = key.clone();
                if rng.one_in(4) {
                    key.push(7);
                }
                let seqno = u64::MAX - left;
                let part = PmPart::whole(table.clone(), CfId(*cf));
                let expected = model.newest(*cf, &key, seqno);
                match part.get(&key, SeqNo(seqno), true) {
                    Ok(found) => {
                        let found = found.map(|found| (found.kind, found.seqno.0));
                        let expected = expected.map(|(kind, seqno, _)| (kind, seqno));
                        assert_eq!(found, expected, "seed {seed}, byte {at}");
                    }
                    Err(error) => {
                        noticed += 1;
                        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                    }
                }
            }
            sim.rot(at, mask);
        }
    }
    println!("{noticed} lookups met rot");
    assert!(noticed > 100);
}

/// A rotten prefix layer leads bisection astray: it is never taken for the absence of a key. (Each byte of
/// the arrays is flipped, with every key asked for.)
#[test]
fn a_rotten_prefix_layer_hides_nothing() {
    let mut model = Model::default();
    for n in 0..600u32 {
        let key = n.wrapping_mul(7_158_278).to_be_bytes();
        model.put(0, &key, 1, Kind::Put, Content::Bytes(vec![1]));
    }
    let (sim, space) = space(1 << 20, 1 << 20);
    let written = model
        .write(&space, options(GroupSize::Eight))
        .unwrap()
        .unwrap();
    let table = open(&space, &written).unwrap();
    let part = PmPart::whole(table, CfId(0));
    let base = written.zones[0].data.0;
    let header = space.region().bytes(PmOff(base), 128).unwrap();
    let word = |at: usize| u64::from(u32::from_le_bytes(header[at..at + 4].try_into().unwrap()));
    let (arrays, runs) = (word(68), word(72));
    assert!(runs - arrays > 600);
    let mut noticed = 0;
    for at in base + arrays..base + runs {
        for mask in masks(at, [1, 0x80]) {
            sim.rot(at, mask);
            for (_, key, _) in model.entries.keys() {
                match part.get(key, SeqNo(5), true) {
                    Ok(found) => assert!(found.is_some(), "byte {at} hides {key:?}"),
                    Err(error) => {
                        noticed += 1;
                        assert!(is_corruption(&error), "{error}");
                    }
                }
            }
            sim.rot(at, mask);
        }
    }
    assert!(noticed > 500, "{noticed}");
}

/// Groups with equal prefixes are told apart by their first keys: rot there leads bisection astray, too.
#[test]
fn rot_among_the_versions_of_a_key_hides_none() {
    let mut model = Model::default();
    for seqno in 1..=400 {
        model.put(0, b"key", seqno, Kind::Put, Content::Bytes(vec![1]));
    }
    let (sim, space) = space(1 << 20, 1 << 20);
    let written = model
        .write(&space, options(GroupSize::Eight))
        .unwrap()
        .unwrap();
    let part = PmPart::whole(open(&space, &written).unwrap(), CfId(0));
    let base = written.zones[0].data.0;
    let header = space.region().bytes(PmOff(base), 128).unwrap();
    let word = |at: usize| u64::from(u32::from_le_bytes(header[at..at + 4].try_into().unwrap()));
    let mut noticed = 0;
    for at in base + word(64)..base + word(68) {
        for mask in masks(at, [1, 0x80]) {
            sim.rot(at, mask);
            for seqno in (1..=400).step_by(7) {
                let mut cursor = PmCursor::new(part.clone(), true);
                let before = cursor.seek_for_prev(b"key", SeqNo(seqno));
                let got = part.get(b"key", SeqNo(seqno), true);
                match (&before, &got) {
                    (Ok(there), _) if !there || cursor.seqno() != SeqNo(seqno) => {
                        panic!("byte {at} hides version {seqno} from a cursor");
                    }
                    (_, Ok(found)) if found.as_ref().map(|f| f.seqno) != Some(SeqNo(seqno)) => {
                        panic!("byte {at} hides version {seqno}");
                    }
                    _ => noticed += u32::from(before.is_err()) + u32::from(got.is_err()),
                }
            }
            sim.rot(at, mask);
        }
    }
    assert!(noticed > 500, "{noticed}");
}

#[expect(unsafe_code, reason = "damages what is stored")]
fn overwrite(region: &Region, at: PmOff, bytes: &[u8]) {
    // SAFETY: a test is one thread, and no table that is open here keeps a slice.
    unsafe { region.write(at, bytes) }
}

#[test]
fn a_table_cut_short_does_not_open_or_says_so() {
    let (model, sim, space, written) = small();
    let table = open(&space, &written).unwrap();
    let expected = read(&table, &model).unwrap();
    let zone = &written.zones[0];
    // From here on there is what was there before: zeros.
    let region = space.region();
    let bytes = usize::try_from(written.meta.bytes).unwrap();
    let stored = region.bytes(zone.data, bytes).unwrap().to_vec();
    for from in (0..bytes).step_by(16) {
        overwrite(region, zone.data.plus(from as u64), &vec![0; bytes - from]);
        let answer = open(&space, &written)
            .and_then(|table| verify_table(&table).and_then(|_| read(&table, &model)));
        match answer {
            Ok(found) => assert!(found == expected && stored[from..].iter().all(|b| *b == 0)),
            Err(error) => assert!(is_corruption(&error), "{error}"),
        }
        overwrite(region, zone.data, &stored);
    }
    drop(sim);
    assert!(read(&open(&space, &written).unwrap(), &model).unwrap() == expected);
}

/// By what the manifest says of them blob files are kept, so a check counts what the table refers to.
#[test]
fn blob_files_of_which_the_manifest_says_otherwise_are_noticed() {
    let mut model = Model::default();
    for n in 0..40u64 {
        let blob = BlobRef {
            file: FileId(1 + n % 2),
            offset: 64 + 8 * n,
            len: 5000,
        };
        let key = format!("key/{n:02}");
        model.put(0, key.as_bytes(), n + 1, Kind::Put, Content::Blob(blob));
    }
    let (_, space) = space(1 << 20, 256 << 10);
    let written = model
        .write(&space, options(GroupSize::Eight))
        .unwrap()
        .unwrap();
    let of = |file| PmBlob {
        file: FileId(file),
        values: 20,
        bytes: 20 * 5000,
    };
    assert_eq!(written.meta.blobs, [of(1), of(2)]);
    verify_table(&open(&space, &written).unwrap()).unwrap();
    let less = |values, bytes| PmBlob {
        values,
        bytes,
        ..of(2)
    };
    for said in [
        vec![],
        vec![of(1)],
        vec![of(1), of(2), of(3)],
        vec![of(1), less(19, 20 * 5000)],
        vec![of(1), less(20, 19 * 5000)],
    ] {
        let mut meta = written.meta.clone();
        meta.blobs = said;
        let table = PmTable::open(space.region(), DB_ID, meta, &written.zones).unwrap();
        let error = verify_table(&table).unwrap_err();
        assert!(is_corruption(&error), "{error}");
    }
}

/// By what the manifest says of their sizes level 0 is weighed, and reports count them.
#[test]
fn sizes_of_which_the_manifest_says_otherwise_are_noticed() {
    let (_, _sim, space, written) = small();
    let check = |zone_bytes: u64, bytes: u64| {
        let meta = PmTableMeta {
            zone_bytes,
            bytes,
            ..written.meta.clone()
        };
        PmTable::open(space.region(), DB_ID, meta, &written.zones)
            .and_then(|table| verify_table(&table))
    };
    let (zone_bytes, bytes) = (written.meta.zone_bytes, written.meta.bytes);
    check(zone_bytes, bytes).unwrap();
    for (zone_bytes, bytes) in [
        (zone_bytes + 64, bytes),
        (zone_bytes - 64, bytes),
        (zone_bytes, bytes + 64),
        (zone_bytes, bytes - 64),
    ] {
        let error = check(zone_bytes, bytes).unwrap_err();
        assert!(is_corruption(&error), "{error}");
    }
}

/// Bytes of anything at all in the place of a table.
#[test]
fn foreign_bytes_are_refused() {
    let (_, _, space, written) = small();
    let zone = &written.zones[0];
    let region = space.region();
    let len = usize::try_from(zone.end.0 - zone.data.0).unwrap();
    let mut rng = Rng::new(4);
    for _ in 0..200 {
        let fill: Vec<u8> = match rng.below(3) {
            0 => vec![0xff; len],
            1 => (0..len).map(|_| rng.next_u64().to_le_bytes()[0]).collect(),
            _ => b"THCLPMTB".iter().copied().cycle().take(len).collect(),
        };
        overwrite(region, zone.data, &fill);
        assert!(is_corruption(&open(&space, &written).unwrap_err()));
    }
}

#[test]
fn without_verifying_nothing_panics() {
    let (model, sim, space, written) = small();
    let table = open(&space, &written).unwrap();
    for at in written.zones[0].data.0..written.zones[0].data.0 + written.meta.bytes {
        sim.rot(at, 0x55);
        for (cf, key, _) in model.entries.keys() {
            let part = PmPart::whole(table.clone(), CfId(*cf));
            let _ = part.get(key, SeqNo::MAX, false);
            let mut cursor = PmCursor::new(part, false);
            let mut there = cursor.seek(key, SeqNo::MAX).unwrap_or(false);
            for _ in 0..10 {
                if there {
                    let _ = cursor.value();
                    there = cursor.next().unwrap_or(false);
                }
            }
        }
        sim.rot(at, 0x55);
    }
}
