//! How bytes are damaged.
//!
//! Files are damaged by hardware in few ways (flipped bits, lost or misplaced pieces, cuts), and by
//! programs that were wrong in others: lengths, counts and offsets that lie. An input is a sample with one
//! to eight such changes, mostly few: with many, nothing behind the first check is reached.

use thermocline_testkit::Rng;

use crate::target::SEAL;

/// No input is made longer than this.
const LEN_MAX: usize = 1 << 16;

/// Numbers at which comparisons, sums and allocations go wrong.
const NUMBERS: [u64; 26] = [
    0,
    1,
    2,
    7,
    8,
    12,
    63,
    64,
    127,
    128,
    255,
    256,
    4095,
    4096,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    1 << 20,
    (1 << 28) - 1,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    i64::MAX as u64,
    u64::MAX,
];

/// A damaged input, made of `samples`; every second one is to be sealed.
pub fn damaged(rng: &mut Rng, samples: &[Vec<u8>]) -> Vec<u8> {
    let mut input = rng.pick(samples).clone();
    let changes = match rng.below(10) {
        0..5 => 1,
        5..8 => 2 + rng.below(2),
        _ => 4 + rng.below(5),
    };
    for _ in 0..changes {
        let other = rng.pick(samples);
        // The first byte says how the others are taken.
        let mut bytes = input.split_off(1.min(input.len()));
        change(rng, &mut bytes, other.get(1..).unwrap_or_default());
        input.append(&mut bytes);
    }
    if input.is_empty() {
        input.push(0);
    }
    if rng.one_in(8) {
        input[0] = byte(rng);
    }
    input[0] = input[0] & !SEAL | if rng.one_in(2) { SEAL } else { 0 };
    input
}

fn byte(rng: &mut Rng) -> u8 {
    rng.next_u64().to_le_bytes()[0]
}

/// A number to put in the place of `now`, which has so many bytes.
fn number(rng: &mut Rng, now: u64, len: usize) -> u64 {
    let small = 1 + rng.below(16) as u64;
    match rng.below(6) {
        0 => now.wrapping_add(small),
        1 => now.wrapping_sub(small),
        2 => now ^ 1 << rng.below(8 * len),
        3 => rng.next_u64(),
        4 => rng.pick(&NUMBERS).wrapping_add(small).wrapping_sub(8),
        _ => *rng.pick(&NUMBERS),
    }
}

/// One change of `bytes`; `other` is another sample.
fn change(rng: &mut Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    if bytes.is_empty() {
        bytes.extend((0..rng.below(100)).map(|_| byte(&mut rng.clone())));
        return;
    }
    let len = bytes.len();
    let at = rng.below(len);
    let piece = 1 + rng.below(len - at).min(rng.below(64));
    match rng.below(16) {
        0..3 => bytes[at] ^= 1 << rng.below(8),
        3 => bytes[at] = byte(rng),
        4..8 => {
            let width = *rng.pick(&[1, 2, 4, 4, 8, 8]);
            // Most fields lie at multiples of their lengths.
            let at = if rng.one_in(2) {
                at
            } else {
                at / width * width
            };
            let Some(field) = bytes.get_mut(at..at + width) else {
                return;
            };
            let mut now = [0; 8];
            now[..width].copy_from_slice(field);
            let new = number(rng, u64::from_le_bytes(now), width);
            field.copy_from_slice(&new.to_le_bytes()[..width]);
        }
        8 => bytes.truncate(if rng.one_in(2) { at } else { len - at.min(100) }),
        9 => drop(bytes.drain(at..at + piece)),
        10 => {
            let again = bytes[at..at + piece].to_vec();
            let to = rng.below(len + 1);
            bytes.splice(to..to, again);
        }
        11 => {
            let from = rng.below(len - piece + 1);
            bytes.copy_within(from..from + piece, at);
        }
        12 => bytes[at..at + piece].fill(*rng.clone().pick(&[0, 0xff, 0x80, 1])),
        13 => {
            let new = (0..rng.below(40)).map(|_| byte(rng)).collect::<Vec<u8>>();
            bytes.splice(at..at, new);
        }
        14 => {
            // What lies there in another sample.
            let end = (at + piece).min(other.len());
            if at < end {
                bytes[at..end].copy_from_slice(&other[at..end]);
            }
        }
        _ => {
            // The beginning of one and the end of another.
            let from = rng.below(other.len() + 1);
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
    }
    bytes.truncate(LEN_MAX);
}
