use thermocline_base::{CfId, Error, WriteBatch};
use thermocline_testkit::Rng;
use thermocline_testkit::golden;

use super::*;

const NAME: &[u8] = b"order 42";

fn small() -> (Claims, WriteBatch) {
    let mut batch = WriteBatch::new();
    batch.delete_range(CfId(7), b"a", Some(b"b")).unwrap();
    batch.put(CfId(0), b"bob", b"3").unwrap();
    batch.delete(CfId(0), b"").unwrap();
    batch.merge(CfId(258), b"n", b"+1").unwrap();
    let mut claims = Claims::of(batch.iter());
    claims.read(CfId(0), b"alice");
    claims.read_range(CfId(1), b"x", None);
    claims.read_range(CfId(1), b"", Some(b"c"));
    (claims, batch)
}

fn entries(batch: &WriteBatch) -> Vec<(Kind, CfId, Vec<u8>, Vec<u8>)> {
    let entries = batch.iter();
    entries
        .map(|e| (e.kind, e.cf, e.key.to_vec(), e.value.to_vec()))
        .collect()
}

fn decode(name: &[u8], bytes: &[u8]) -> Result<(Claims, WriteBatch)> {
    let header = decode_header(name, bytes)?;
    let claims = decode_claims(name, &header, bytes)?;
    Ok((claims, decode_batch(name, &header, bytes)?))
}

#[test]
fn golden_of_a_prepared_transaction() {
    let (claims, batch) = small();
    let bytes = encode(NAME, &claims, batch.iter());
    let fields = [
        (1, "version"),
        (3, "zeros"),
        (4, "CRC of bytes 8..40 and claims, behind the name"),
        (8, "bytes of the claims"),
        (8, "bytes of the changes"),
        (8, "changes"),
        (4, "CRC of the changes, behind the name"),
        (4, "zeros"),
        (3, "writes key '' of family 0"),
        (8, "has read key 'alice' of family 0"),
        (6, "writes key 'bob' of family 0"),
        (5, "writes key 'n' of family 258"),
        (6, "deletes 'a'..'b' of family 7"),
        (4, "has read 'x'.. of family 1"),
        (5, "has read ''..'c' of family 1"),
        (6, "delete 'a'..'b' of family 7"),
        (8, "put 'bob' of family 0"),
        (4, "delete '' of family 0"),
        (8, "merge 'n' of family 258"),
    ];
    let text = golden::annotate(&bytes, &fields);
    let golden = include_str!("prepared-v1.txt");
    golden::check("a prepared transaction", golden, &text);
    assert_eq!(golden::bytes(golden), bytes);
    assert_eq!(part_key(b"ab", 258), b"P\x02ab\0\0\x01\x02");
}

#[test]
fn what_is_written_is_read() {
    let mut random = Rng::new(7);
    for round in 0..200 {
        let mut batch = WriteBatch::new();
        let mut claims_of_reads = Vec::new();
        for _ in 0..random.below(6) {
            let cf = CfId(u16::try_from(random.below(65_535)).unwrap());
            let key = vec![9; random.below(300)];
            let value = vec![7; random.below(20_000)];
            match random.below(5) {
                0 => batch.put(cf, &key, &value).unwrap(),
                1 => batch.delete(cf, &key).unwrap(),
                2 => batch.merge(cf, &key, &value).unwrap(),
                3 => batch.delete_range(cf, &key, None).unwrap(),
                _ => claims_of_reads.push((cf, key)),
            }
        }
        let mut claims = Claims::of(batch.iter());
        for (cf, key) in &claims_of_reads {
            claims.read(*cf, key);
        }
        let bytes = encode(NAME, &claims, batch.iter());
        let (found, changes) = decode(NAME, &bytes).unwrap();
        assert_eq!(found, claims, "round {round}");
        assert_eq!(entries(&changes), entries(&batch));
        // Who only wants the claims reads no more than the parts with them.
        let header = decode_header(NAME, &bytes).unwrap();
        let parts = usize::try_from(header.claims_parts()).unwrap();
        let some = &bytes[..bytes.len().min(parts * PART_BYTES)];
        assert_eq!(decode_claims(NAME, &header, some).unwrap(), claims);
        assert_eq!(bytes.chunks(PART_BYTES).count() as u64, header.parts());
    }
}

#[test]
fn every_flipped_bit_every_cut_and_every_other_name_is_an_error() {
    let (claims, batch) = small();
    let bytes = encode(NAME, &claims, batch.iter());
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let error = decode(NAME, &damaged).unwrap_err();
        let expected = matches!(error, Error::Corruption { .. } | Error::Unsupported(_));
        assert!(expected, "bit {bit}: {error}");
    }
    for len in 0..bytes.len() {
        assert!(decode(NAME, &bytes[..len]).is_err(), "cut at {len}");
    }
    assert!(decode(b"order 43", &bytes).is_err());
    assert!(decode(NAME, &[&bytes[..], b"x"].concat()).is_err());
}

/// Nonsense with sound checksums: no panic, no loop, no allocation without bound.
#[test]
fn nonsense_with_sound_checksums_is_an_error_or_a_transaction() {
    let (claims, batch) = small();
    let bytes = encode(NAME, &claims, batch.iter());
    let mut random = Rng::new(3);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut other = bytes.clone();
        for _ in 0..=random.below(3) {
            let at = 8 + random.below(bytes.len() - 8);
            other[at] = u8::try_from(random.below(256)).unwrap();
        }
        let Ok(header) = decode_header(NAME, &other) else {
            refused += 1;
            continue;
        };
        let claims_end = usize::try_from(40 + header.claims_bytes).unwrap();
        if let Some(changes) = other.get(claims_end..) {
            let crc = crc32c(crc32c(0, NAME), changes);
            other[32..36].copy_from_slice(&crc.to_le_bytes());
            let crc = crc32c(crc32c(0, NAME), &other[8..claims_end]);
            other[4..8].copy_from_slice(&crc.to_le_bytes());
        }
        match decode(NAME, &other) {
            Ok(_) => read += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(read > 1_000 && refused > 1_000, "{read} {refused}");
}

#[test]
fn keys_of_others_are_none_of_these() {
    assert_eq!(of_key(&part_key(NAME, 3)), Some((NAME, 3)));
    let long = [7; 65];
    let foreign: [&[u8]; 8] = [
        b"",
        b"P",
        b"P\x01",
        b"P\0\0\0\0\0",
        b"P\x02a\0\0\0\0",
        b"Q\x01a\0\0\0\0",
        b"P\x01a\0\0\0",
        &[&[TAG, 65], &long[..], &[0; 4]].concat(),
    ];
    for key in foreign {
        assert_eq!(of_key(key), None, "{key:?}");
    }
    // No family's metadata.
    for id in 0..=u16::MAX {
        assert!(!is_key(&CfId(id).metadata_key()));
    }
}
