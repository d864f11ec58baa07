//! Damaged logs: nothing is taken for a frame that was not written as one, and what lies behind the
//! damage is still found.

use thermocline_base::ErrorKind;
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
