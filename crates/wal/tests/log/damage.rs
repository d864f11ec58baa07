//! Damaged logs: nothing is taken for a frame that was not written as one, and what lies behind the
//! damage is still found.

use thermocline_base::ErrorKind;
use thermocline_base::checksum::{crc32c, seeded, summed};
use thermocline_env::sim::SimFs;
use thermocline_testkit::Rng;
use thermocline_wal::{FRAME_HEADER, HEADER_BYTES};

use crate::common::*;

/// A small log, its payloads, and its bytes up to the end of the last frame.
fn small() -> (Vec<Vec<u8>>, Vec<u8>) {
    let fs = fresh();
    let mut rng = Rng::new(3);
    let payloads: Vec<Vec<u8>> = [5, 16, 33, 1, 100, 64]
        .iter()
        .map(|&len| (0..len).map(|_| rng.next_u64().to_le_bytes()[0]).collect())
        .collect();
    let mut log = create(&fs, 7).unwrap();
    for payload in &payloads {
        log.append(payload).unwrap();
    }
    log.sync().unwrap();
    let mut bytes = fs.contents(&path(7)).unwrap();
    bytes.truncate(usize::try_from(log.end()).unwrap());
    (payloads, bytes)
}

/// Every bit of header and frames wrong, one at a time: an error, one frame less, or a bit that says
/// nothing, which lies in padding.
pub fn flip_every_bit() {
    let (payloads, bytes) = small();
    let places = places(&payloads);
    let (mut refused, mut lost, mut unused) = (0, 0, 0);
    for byte in (0..64).chain(usize::try_from(HEADER_BYTES).unwrap()..bytes.len()) {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[byte] ^= 1 << bit;
            let fs = fresh();
            fs.install(&path(7), &damaged);
            let found = match frames(&fs, 7) {
                Ok(found) => found,
                Err(error) => {
                    assert!(byte < 64, "{byte}: {error}");
                    let kind = error.kind();
                    assert_eq!(kind, ErrorKind::Corruption, "{byte}: {error}");
                    refused += 1;
                    continue;
                }
            };
            assert!(byte >= 64, "byte {byte} of the header is not looked at");
            let hit = places.partition_point(|&at| at <= byte as u64) - 1;
            let within = byte - usize::try_from(places[hit]).unwrap();
            let whole: Vec<(u64, Vec<u8>)> = places.iter().copied().zip(payloads.clone()).collect();
            if within >= FRAME_HEADER + payloads[hit].len() {
                assert_eq!(found, whole);
                unused += 1;
            } else {
                let rest = whole.iter().filter(|(at, _)| *at != places[hit]).cloned();
                assert_eq!(found, rest.collect::<Vec<_>>(), "byte {byte}");
                lost += 1;
            }
        }
    }
    println!("{refused} refused, {lost} lost, {unused} in padding");
    assert!(refused == 512 && lost > 2000 && unused > 100);
}

#[test]
fn every_flipped_bit_is_found_or_says_nothing() {
    flip_every_bit();
}

#[test]
fn a_log_cut_short_anywhere_has_the_frames_before() {
    let (payloads, bytes) = small();
    let places = places(&payloads);
    for len in 0..bytes.len() {
        let fs = fresh();
        fs.install(&path(7), &bytes[..len]);
        match frames(&fs, 7) {
            Ok(found) => {
                let whole = places[1..].iter().zip(&payloads).zip(&places);
                // Padding may be missing.
                let whole = whole.filter(|((_, payload), at)| {
                    **at + (FRAME_HEADER + payload.len()) as u64 <= len as u64
                });
                assert_eq!(found.len(), whole.count(), "{len}");
            }
            Err(error) => {
                assert!((len as u64) < HEADER_BYTES, "{len}");
                assert_eq!(error.kind(), ErrorKind::Corruption, "{len}: {error}");
            }
        }
    }
}

#[test]
fn a_frame_elsewhere_is_no_frame() {
    let (payloads, bytes) = small();
    let places = places(&payloads);
    // The second frame, over the third; and the log of another database.
    let mut moved = bytes.clone();
    let (from, to) = (
        usize::try_from(places[1]).unwrap(),
        usize::try_from(places[2]).unwrap(),
    );
    moved.copy_within(from..to, to);
    let fs = fresh();
    fs.install(&path(7), &moved);
    assert_eq!(frames(&fs, 7).unwrap().len(), payloads.len() - 1);
    fs.install(&path(8), &bytes);
    let error = frames(&fs, 8).unwrap_err();
    assert!(error.to_string().contains("another log"), "{error}");
}

#[test]
fn random_bytes_are_an_error_or_frames_that_were_written() {
    let (payloads, bytes) = small();
    let mut rng = Rng::new(9);
    for _ in 0..3000 {
        let mut damaged = bytes.clone();
        for _ in 0..=rng.below(6) {
            let at = rng.below(damaged.len() / 16) * 16;
            let n = rng.below(64).min(damaged.len() - at);
            match rng.below(3) {
                0 => damaged[at..at + n].fill(0),
                1 => damaged[at..at + n].fill(0xff),
                _ => damaged[at..at + n].fill_with(|| rng.next_u64().to_le_bytes()[0]),
            }
        }
        let fs = fresh();
        fs.install(&path(7), &damaged);
        if let Ok(found) = frames(&fs, 7) {
            check(&found, &payloads, 0, "random bytes");
        }
    }
}

/// A sound header for the place `at` of the log with this seed.
fn header(seed: u64, at: u64, len: u32, payload_crc: u32) -> [u8; FRAME_HEADER] {
    let mut bytes = [0; FRAME_HEADER];
    bytes[4..8].copy_from_slice(&len.to_le_bytes());
    bytes[8..12].copy_from_slice(&payload_crc.to_le_bytes());
    let crc = crc32c(seeded(!seed, at), &bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// As FORMATS.md has it.
fn seed_of(log: u64) -> u64 {
    let id = id(log);
    let bytes = [&id.db_id[..], &id.log.to_le_bytes()].concat();
    thermocline_base::checksum::hash64_seeded(&bytes, id.nonce)
}

/// A log of `len` bytes of headers that are sound, each of which claims all that follows. Some frames among
/// them are whole.
fn claims(len: usize) -> (SimFs, Vec<u64>) {
    let fs = fresh();
    drop(create(&fs, 7).unwrap());
    let mut bytes = fs.contents(&path(7)).unwrap();
    let begin = usize::try_from(HEADER_BYTES).unwrap();
    bytes.resize(begin + len, 0);
    let seed = seed_of(7);
    let mut whole = Vec::new();
    let mut at = begin;
    let mut n = 0;
    while at + FRAME_HEADER < bytes.len() {
        n += 1;
        let place = at as u64;
        let rest = u32::try_from(bytes.len() - at - FRAME_HEADER).unwrap();
        let payload = vec![5; 16 + n % 7];
        // One in many, short and at the end a long one.
        let (head, payload) = match n % 400 {
            0 if payload.len() < rest as usize => {
                whole.push(place);
                let len = u32::try_from(payload.len()).unwrap();
                (
                    header(seed, place, len, crc32c(seeded(seed, place), &payload)),
                    &payload[..],
                )
            }
            _ => (header(seed, place, rest, 99), &[][..]),
        };
        bytes[at..at + FRAME_HEADER].copy_from_slice(&head);
        bytes[at + FRAME_HEADER..][..payload.len()].copy_from_slice(payload);
        at = (at + FRAME_HEADER + payload.len()).next_multiple_of(16);
    }
    fs.install(&path(7), &bytes);
    (fs, whole)
}

/// Each header claims what no frame has, and the bytes are summed a few times all the same.
#[test]
fn a_log_full_of_claims_is_searched_in_linear_time() {
    for len in [1usize << 14, 1 << 17, 3 << 20] {
        let (fs, whole) = claims(len);
        let before = summed();
        let found = frames(&fs, 7).unwrap();
        let steps = summed() - before;
        let places: Vec<u64> = found.iter().map(|(at, _)| *at).collect();
        assert_eq!(places, whole);
        assert!(!whole.is_empty() || len < 1 << 15);
        assert!(steps < 80 * len as u64, "{steps} for {len}");
    }
}

/// One that is longer than what is read at once, behind a bad one, and before a short one.
#[test]
fn long_frames_are_found_behind_bad_ones() {
    let mut rng = Rng::new(11);
    let long: Vec<u8> = (0..3 << 20)
        .map(|_| rng.next_u64().to_le_bytes()[0])
        .collect();
    let payloads = [long.clone(), vec![1; 100], long.clone(), vec![2; 9], long];
    let fs = fresh();
    let mut log = create(&fs, 7).unwrap();
    for payload in &payloads {
        log.append(payload).unwrap();
    }
    log.sync().unwrap();
    let whole = fs.contents(&path(7)).unwrap();
    let places = places(&payloads);
    for bad in 0..=payloads.len() {
        let mut bytes = whole.clone();
        if let Some(&at) = places[..payloads.len()].get(bad) {
            bytes[usize::try_from(at).unwrap() + FRAME_HEADER + 5] ^= 1;
        }
        fs.install(&path(7), &bytes);
        let mut expected: Vec<_> = places
            .iter()
            .copied()
            .zip(payloads.iter().cloned())
            .collect();
        expected.retain(|(at, _)| Some(at) != places[..payloads.len()].get(bad));
        assert!(frames(&fs, 7).unwrap() == expected, "{bad}");
    }
}
