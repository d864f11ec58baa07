//! Indexes over the keys of many kinds, asked for keys that are there and keys that are not.

use std::collections::BTreeSet;

use thermocline_base::SeqNo;
use thermocline_base::varint::put_varint;
use thermocline_testkit::Rng;

use super::*;
use crate::format::INDEX_LEARNED;
use crate::handle::BlockKind;
use crate::key::KeyRef;

/// The keys of a table, in blocks.
struct Blocks {
    keys: Vec<Vec<Vec<u8>>>,
    bounds: Boundaries,
    end: u64,
}

/// Puts keys, versions of one key as often as they are there, into blocks of up to `most` keys.
fn blocks(keys: &[Vec<u8>], most: usize, rng: &mut Rng) -> Blocks {
    let (mut all, mut bounds, mut end) = (Vec::new(), Boundaries::default(), 0u64);
    let mut rest = keys;
    while !rest.is_empty() {
        let few = most - rng.below(1 + most / 8);
        let (block, behind) = rest.split_at(few.min(rest.len()));
        let offset = match rng.one_in(9) {
            true => end.next_multiple_of(4096),
            false => end,
        };
        let len = len32(40 * block.len() + rng.below(9));
        let handle = BlockHandle {
            offset,
            len,
            kind: BlockKind::Data,
        };
        let last = KeyRef::new(block.last().unwrap(), SeqNo(1));
        bounds.push(&block[0], last, handle);
        end = handle.end();
        all.push(block.to_vec());
        rest = behind;
    }
    Blocks {
        keys: all,
        bounds,
        end,
    }
}

impl Blocks {
    fn built(&self) -> Option<Learned> {
        let payload = build(&self.bounds, self.end, |_| true)?;
        Some(decode(&payload, self.end).unwrap())
    }

    /// What a search for `key` must do: skip no block that has it or a greater one, and stop before none.
    fn check(&self, learned: &Learned, key: &[u8]) {
        let from = learned.block_of(key);
        let before = &self.keys[..from as usize];
        let skipped = before.last().and_then(|block| block.last());
        assert!(
            skipped.is_none_or(|last| **last < *key),
            "{key:?} is behind block {from}"
        );
        let mut at = from;
        loop {
            let block = &self.keys[at as usize];
            if block.last().unwrap().as_slice() >= key {
                break;
            }
            if !learned.goes_on(at + 1, key) {
                let next = self.keys.get(at as usize + 1);
                assert!(
                    next.is_none_or(|next| *next[0] > *key),
                    "{key:?} goes on behind {at}"
                );
                break;
            }
            at += 1;
        }
        assert!(
            at - from <= len32(grow::RUN_MAX) + 1,
            "{key:?}: {} blocks",
            at - from
        );
    }

    /// Asks for all keys, and for others beside them.
    fn check_all(&self, learned: &Learned, rng: &mut Rng) {
        for (n, block) in self.keys.iter().enumerate() {
            assert_eq!(learned.handle(len32(n)), self.bounds.handle(n));
            for key in block {
                assert!(leads_to(learned, key, len32(n)), "{key:?} is in block {n}");
                self.check(learned, key);
            }
            let key = &block[rng.below(block.len())];
            for other in beside(key, rng) {
                self.check(learned, &other);
            }
        }
    }
}

/// Keys near this one, and some that are not.
fn beside(key: &[u8], rng: &mut Rng) -> Vec<Vec<u8>> {
    let mut all = vec![
        vec![],
        vec![0xff; 9],
        [key, b"\0"].concat(),
        [key, b"\xff"].concat(),
    ];
    for _ in 0..4 {
        let len = rng.below(key.len() + 1);
        all.push(key[..len].to_vec());
        if len < key.len() {
            for byte in [0, 0xff, key[len].wrapping_add(1), key[len].wrapping_sub(1)] {
                let mut other = key.to_vec();
                other[len] = byte;
                all.push(other.clone());
                other.truncate(len + 1);
                all.push(other);
            }
        }
    }
    all
}

fn sorted(keys: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let distinct: BTreeSet<Vec<u8>> = keys.into_iter().collect();
    distinct.into_iter().collect()
}

fn random(rng: &mut Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| rng.next_u64().to_le_bytes()[0]).collect()
}

/// Names as cities have them: two or three parts of a name, and more at times.
fn city(rng: &mut Rng) -> Vec<u8> {
    let begin = [
        "Alt", "Bad ", "Ober", "Nieder", "Saint-", "Santa ", "New ", "Port ", "Kirch", "Wald",
    ];
    let stem = [
        "berg", "hausen", "ville", "mar", "ton", "furt", "lin", "ora", "ka", "dorf", "est",
    ];
    let end = [
        "",
        "",
        "",
        " am Main",
        "-sur-Mer",
        " del Norte",
        "burg",
        "stadt",
        "a",
        "o",
    ];
    let mut name = String::new();
    if rng.one_in(2) {
        name += *rng.pick(&begin);
    }
    for _ in 0..=rng.below(3) {
        name += *rng.pick(&stem);
    }
    name += *rng.pick(&end);
    let (first, rest) = name.split_at(1);
    (first.to_uppercase() + rest).into_bytes()
}

fn url(rng: &mut Rng) -> Vec<u8> {
    let hosts = ["www.example.com", "www.example.org", "images.example.net"];
    let parts = [
        "catalogue/furniture/tables",
        "catalogue/lamps",
        "account/orders",
        "help",
    ];
    let (host, part) = (rng.pick(&hosts), rng.pick(&parts));
    let (page, id) = (rng.below(40), rng.below(20_000));
    format!("https://{host}/shop/en/{part}/page/{page}/item?id={id}").into_bytes()
}

fn uuid(rng: &mut Rng) -> Vec<u8> {
    let hex: String = random(rng, 16).iter().map(|b| format!("{b:02x}")).collect();
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-").into_bytes()
}

/// Each kind of keys by its name, sorted.
fn kinds(count: usize, rng: &mut Rng) -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let mut of = |make: &dyn Fn(&mut Rng, usize) -> Vec<u8>| {
        sorted((0..count).map(|n| make(rng, n)).collect::<Vec<_>>())
    };
    let zeros_and_ones = |rng: &mut Rng, _| {
        let len = 1 + rng.below(12);
        (0..len)
            .map(|_| *rng.pick(&[0, 0xff, 0, 0xff, 1]))
            .collect()
    };
    let last_of_200 = |_: &mut Rng, n: usize| [vec![b'k'; 199], vec![n.to_le_bytes()[0]]].concat();
    let two_tables = |rng: &mut Rng, n: usize| match n % 2 {
        0 => format!("orders/{:010}", rng.below(1 << 30)).into_bytes(),
        _ => [b"stock/", &random(rng, 8)[..]].concat(),
    };
    vec![
        ("random", of(&|rng, _| random(rng, 16))),
        ("sequential", of(&|_, n| (n as u64).to_be_bytes().to_vec())),
        ("zero-padded", of(&|_, n| format!("{n:016}").into_bytes())),
        (
            "zero-padded, drawn",
            of(&|rng, _| format!("{:016}", rng.below(1 << 40)).into_bytes()),
        ),
        ("cities", of(&|rng, _| city(rng))),
        ("UUIDs", of(&|rng, _| uuid(rng))),
        ("URLs", of(&|rng, _| url(rng))),
        ("last byte of 200", of(&last_of_200)),
        ("0x00 and 0xff", of(&zeros_and_ones)),
        ("two tables", of(&two_tables)),
        (
            "one letter",
            (1..count.min(300)).map(|n| vec![b'a'; n]).collect(),
        ),
    ]
}

#[test]
fn keys_of_all_kinds_are_found() {
    let mut rng = Rng::new(8);
    let mut learned = BTreeSet::new();
    for round in 0..3 {
        for (name, keys) in kinds(4000, &mut rng) {
            for most in [1, 3, 40] {
                let blocks = blocks(&keys, most, &mut rng);
                let Some(index) = blocks.built() else {
                    continue;
                };
                learned.insert(name);
                blocks.check_all(&index, &mut rng);
                if round == 0 {
                    let payload = build(&blocks.bounds, blocks.end, |_| true).unwrap();
                    let bits = payload.len() * 8 / blocks.keys.len();
                    let (groups, models) = index.counts();
                    let all = blocks.keys.len();
                    println!(
                        "{name}: {all} blocks of {most}: {groups} groups, {models} models, {bits} bits"
                    );
                }
            }
        }
    }
    // Training gives up on none of them; whether it is worth it is for the writer to say.
    assert_eq!(learned.len(), 11);
}

/// Versions of keys, up to so many that they fill several blocks.
#[test]
fn versions_over_several_blocks_are_found_from_the_first() {
    let mut rng = Rng::new(9);
    let (mut built, mut given_up) = (0, 0);
    for _ in 0..200 {
        let (many, letters, least) = (1 + rng.below(12), 3 + rng.below(4), 3 + rng.below(6));
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for _ in 0..rng.below(400) {
            let len = least + rng.below(4);
            let key: Vec<u8> = (0..len)
                .map(|_| b"\0ab\xffcd"[rng.below(letters)])
                .collect();
            keys.extend(std::iter::repeat_n(key, 1 + rng.below(many)));
        }
        keys.sort();
        let most = 2 + rng.below(9);
        let blocks = blocks(&keys, most, &mut rng);
        match blocks.built() {
            Some(index) => {
                blocks.check_all(&index, &mut rng);
                built += 1;
            }
            None => given_up += 1,
        }
    }
    assert!(built > 40 && given_up > 10, "{built}, {given_up}");
}

#[test]
fn numbers_in_order_take_one_model_and_hardly_a_bit() {
    let mut rng = Rng::new(10);
    let keys: Vec<Vec<u8>> = (0..30_000)
        .map(|n| format!("{n:016}").into_bytes())
        .collect();
    // Blocks of three, all of one length.
    let mut blocks = blocks(&keys, 3, &mut rng);
    let mut bounds = Boundaries::default();
    for (n, block) in blocks.keys.iter().enumerate() {
        let handle = BlockHandle {
            offset: n as u64 * 3120,
            len: 3120,
            kind: BlockKind::Data,
        };
        bounds.push(
            &block[0],
            KeyRef::new(block.last().unwrap(), SeqNo(1)),
            handle,
        );
        blocks.end = handle.end();
    }
    blocks.bounds = bounds;
    let payload = build(&blocks.bounds, blocks.end, |_| true).unwrap();
    let index = decode(&payload, blocks.end).unwrap();
    assert_eq!(index.counts(), (1, 1));
    assert!(
        payload.len() * 8 < 2 * blocks.keys.len(),
        "{}",
        payload.len()
    );
    blocks.check_all(&index, &mut rng);
}

#[test]
fn the_same_keys_give_the_same_bytes() {
    let made = || {
        let mut rng = Rng::new(11);
        let kinds = kinds(1000, &mut rng);
        let of = |keys: &Vec<Vec<u8>>, rng: &mut Rng| {
            let blocks = blocks(keys, 5, rng);
            build(&blocks.bounds, blocks.end, |_| true)
        };
        kinds
            .iter()
            .map(|(_, keys)| of(keys, &mut rng))
            .collect::<Vec<_>>()
    };
    assert_eq!(made(), made());
}

/// Work is counted: keys of tens of thousands of bytes are given up.
#[test]
fn keys_that_are_too_much_work_are_given_up() {
    let keys: Vec<Vec<u8>> = (0..60u8)
        .map(|n| [vec![b'k'; 60_000], vec![n]].concat())
        .collect();
    assert!(blocks(&keys, 1, &mut Rng::new(12)).built().is_none());
}

/// Few bytes claim many long keys, each nearly the one before: they are refused before they are made.
#[test]
fn lowest_keys_are_bounded_alone_and_together() {
    let payload = |len: usize| {
        let groups: u32 = 40_000;
        let mut out = vec![INDEX_LEARNED, 0, 0, 0];
        put_varint(&mut out, groups.into());
        out.extend([0; 32]);
        // One piece of all groups, with an even line.
        out.push(0);
        out.push(1);
        put_varint(&mut out, groups.into());
        out.extend([0, 0, 0]);
        put_varint(&mut out, groups.into());
        for group in 0..groups {
            let (shared, rest) = match group {
                0 => (0, 0),
                1 => (0, len),
                _ => (len + group as usize - 2, 1),
            };
            out.push(1);
            put_varint(&mut out, shared as u64);
            put_varint(&mut out, rest as u64);
            out.extend(std::iter::repeat_n(b'k', rest));
            // Without a prefix, positions and models.
            out.extend([0, 0, 0]);
        }
        out
    };
    let refused = |len| format!("{:?}", decode(&payload(len), 1 << 30).unwrap_err());
    let [alone, together] = [refused(70_000), refused(10_000)];
    assert!(
        alone.contains("lowest key of a group") && alone.contains("65535"),
        "{alone}"
    );
    assert!(together.contains("lowest keys of all groups"), "{together}");
}

/// No writer makes this: all keys have one code, so that each block goes on in the next one.
#[test]
fn a_search_leads_over_no_more_blocks_than_are_written_in_a_row() {
    let blocks: u32 = 20;
    let mut payload = vec![INDEX_LEARNED, 0, 0, 0];
    put_varint(&mut payload, blocks.into());
    payload.extend([0; 32]);
    // One piece of one group, with an even line.
    payload.extend([0, 1, 1, 0, 0, 0]);
    // The group has all blocks, and neither lowest key nor prefix nor positions.
    payload.extend([1, 20, 0, 0, 0, 0]);
    // One model of all blocks but the first: their thresholds are 1, which is 2 as a zigzag.
    payload.extend([1, 19, 2, 0, 0, 0, 0]);
    // One frame. Blocks have 12 bytes and follow each other.
    payload.extend([12, 0, 0, 0, 0]);
    let index = decode(&payload, 12 * u64::from(blocks)).unwrap();
    assert!((1..blocks).all(|n| index.goes_on(n, b"key")));
    let most = len32(grow::RUN_MAX);
    for n in 0..blocks {
        assert_eq!(leads_to(&index, b"key", n), n <= most, "{n}");
    }
}

#[test]
fn damaged_payloads_are_refused_or_can_be_asked() {
    let mut rng = Rng::new(13);
    let kinds = kinds(600, &mut rng);
    let (mut refused, mut read) = (0, 0);
    for (_, keys) in &kinds {
        let blocks = blocks(keys, 4, &mut rng);
        let payload = build(&blocks.bounds, blocks.end, |_| true).unwrap();
        for len in (0..payload.len()).step_by(3) {
            assert!(decode(&payload[..len], blocks.end).is_err());
        }
        for _ in 0..2000 {
            let mut bad = payload.clone();
            for _ in 0..=rng.below(3) {
                let at = rng.below(bad.len().min(1 << rng.clone().below(12)));
                bad[at] =
                    *rng.pick(&[0, 1, 0x7f, 0x80, 0xff, bad[at] ^ 1, bad[at].wrapping_add(1)]);
            }
            let Ok(index) = decode(&bad, blocks.end) else {
                refused += 1;
                continue;
            };
            read += 1;
            for _ in 0..20 {
                let key = rng.pick(keys);
                for key in beside(key, &mut rng) {
                    let block = index.block_of(&key);
                    assert!(index.handle(block).end() <= blocks.end);
                    index.goes_on(block + 1, &key);
                }
            }
        }
    }
    assert!(refused > 2000 && read > 2000, "{refused}, {read}");
}
