//! The payload of the properties block.

use std::num::NonZeroU8;

use thermocline_base::numbers::{len_of, len32};
use thermocline_base::{CfId, FileId, SeqNo, limits};

use super::coding::{Fields, Unreadable, damaged};
use crate::identity::Identity;
use crate::key::InternalKey;
use crate::properties::{BlobUse, Creation, IndexUse, Properties};
use thermocline_base::Codec;

mod tag {
    pub const IDENTITY: u8 = 0x81;
    pub const COUNTS: u8 = 0x82;
    pub const SEQNOS: u8 = 0x83;
    pub const SMALLEST: u8 = 0x84;
    pub const LARGEST: u8 = 0x85;
    pub const BLOB: u8 = 0x86;
    pub const CREATION: u8 = 0x07;
    pub const INDEX: u8 = 0x08;
    pub const BLOCKS_CRC: u8 = 0x09;
    pub const PREFIXES: u8 = 0x0a;
}

/// Of a tag: a reader that does not know it must stop.
const CRITICAL: u8 = 0x80;

fn put(out: &mut Vec<u8>, tag: u8, body: &[&[u8]]) {
    let len: usize = body.iter().map(|part| part.len()).sum();
    out.push(tag);
    out.extend_from_slice(&len32(len).to_le_bytes());
    body.iter().for_each(|part| out.extend_from_slice(part));
}

pub(crate) fn encode(p: &Properties) -> Vec<u8> {
    let mut out = Vec::new();
    let file = p.identity.file.0.to_le_bytes();
    let identity: [&[u8]; 3] = [&p.identity.db_id, &file, &p.cf.0.to_le_bytes()];
    put(&mut out, tag::IDENTITY, &identity);
    let counts = [
        p.entries,
        p.deletes,
        p.merges,
        p.range_tombstones,
        p.user_keys,
        p.key_bytes,
        p.value_bytes,
        p.data_blocks,
        p.data_bytes,
    ];
    put(
        &mut out,
        tag::COUNTS,
        &[counts.map(u64::to_le_bytes).as_flattened()],
    );
    if let Some((low, high)) = p.seqnos {
        let seqnos = [low, high].map(|s| s.0.to_le_bytes());
        put(&mut out, tag::SEQNOS, &[seqnos.as_flattened()]);
    }
    for (tag, key) in [(tag::SMALLEST, &p.smallest), (tag::LARGEST, &p.largest)] {
        if let Some(key) = key {
            put(&mut out, tag, &[&key.seqno.0.to_le_bytes(), &key.user_key]);
        }
    }
    for blob in &p.blobs {
        let numbers = [blob.file.0, blob.values, blob.bytes].map(u64::to_le_bytes);
        put(&mut out, tag::BLOB, &[numbers.as_flattened()]);
    }
    let creation: [&[u8]; 3] = [
        &[p.creation as u8, p.codec.tag()],
        &p.block_bytes.to_le_bytes(),
        &p.restart_interval.to_le_bytes(),
    ];
    put(&mut out, tag::CREATION, &creation);
    if p.index != IndexUse::Binary {
        put(&mut out, tag::INDEX, &[&[p.index as u8]]);
    }
    if let Some(len) = p.prefix_len {
        put(&mut out, tag::PREFIXES, &[&[len.get()]]);
    }
    // Last, so that it lies near the end of the file however long the rest is.
    if let Some(crc) = p.blocks_crc {
        put(&mut out, tag::BLOCKS_CRC, &[&crc.to_le_bytes()]);
    }
    out
}

/// Reads the properties of the table `identity`.
pub(crate) fn decode(bytes: &[u8], identity: &Identity) -> Result<Properties, Unreadable> {
    let mut fields = Fields { bytes, at: 0 };
    let mut p = Properties::empty(*identity, CfId::DEFAULT);
    let (mut identified, mut counted) = (false, false);
    while fields.at < bytes.len() {
        let tag = fields.u8()?;
        let len = len_of(fields.u32()?);
        let at = fields.at;
        fields.take(len)?;
        let mut body = Fields {
            bytes: &bytes[..fields.at],
            at,
        };
        match tag {
            tag::IDENTITY => {
                let found = Identity::new(body.array()?, FileId(body.u64()?));
                identity.check(&found, at)?;
                p.cf = CfId(body.u16()?);
                identified = true;
            }
            tag::COUNTS => {
                decode_counts(&mut body, &mut p)?;
                counted = true;
            }
            tag::SEQNOS => p.seqnos = Some((SeqNo(body.u64()?), SeqNo(body.u64()?))),
            tag::SMALLEST => p.smallest = Some(decode_key(&mut body)?),
            tag::LARGEST => p.largest = Some(decode_key(&mut body)?),
            tag::BLOB => decode_blob(&mut body, &mut p)?,
            tag::CREATION => decode_creation(&mut body, &mut p)?,
            tag::INDEX => {
                let index = body.u8()?;
                let newer = || Unreadable::Newer(format!("the table has index kind {index}"));
                p.index = IndexUse::from_u8(index).ok_or_else(newer)?;
            }
            tag::PREFIXES => {
                let at = body.at;
                let none = || damaged("length of prefixes", at, "1 or more", 0);
                p.prefix_len = Some(NonZeroU8::new(body.u8()?).ok_or_else(none)?);
            }
            tag::BLOCKS_CRC => p.blocks_crc = Some(body.u32()?),
            newer if newer & CRITICAL != 0 => {
                return Err(Unreadable::Newer(format!(
                    "the table has a property of kind {newer:#04x}, which a newer version wrote"
                )));
            }
            _ => {
                body.rest();
            }
        }
        body.end()?;
    }
    if !identified || !counted {
        return Err(damaged("properties", 0, "identity and counts", "less"));
    }
    check(&p)?;
    Ok(p)
}

/// The parts that depend on each other do not contradict.
fn check(p: &Properties) -> Result<(), Unreadable> {
    let empty = p.entries == 0 && p.range_tombstones == 0;
    let bounds = [
        p.seqnos.is_none(),
        p.smallest.is_none(),
        p.largest.is_none(),
    ];
    if bounds != [empty; 3] {
        return Err(damaged("bounds in the properties", 0, !empty, empty));
    }
    let ordered = p.smallest <= p.largest && p.seqnos.is_none_or(|(low, high)| low <= high);
    if !ordered {
        return Err(damaged(
            "order of the bounds in the properties",
            0,
            true,
            false,
        ));
    }
    Ok(())
}

fn decode_counts(body: &mut Fields<'_>, p: &mut Properties) -> Result<(), Unreadable> {
    for count in [
        &mut p.entries,
        &mut p.deletes,
        &mut p.merges,
        &mut p.range_tombstones,
        &mut p.user_keys,
        &mut p.key_bytes,
        &mut p.value_bytes,
        &mut p.data_blocks,
        &mut p.data_bytes,
    ] {
        *count = body.u64()?;
    }
    Ok(())
}

fn decode_key(body: &mut Fields<'_>) -> Result<InternalKey, Unreadable> {
    let seqno = SeqNo(body.u64()?);
    let at = body.at;
    let user_key = body.rest();
    if user_key.len() > limits::KEY_LEN_MAX {
        return Err(damaged(
            "length of a key",
            at,
            limits::KEY_LEN_MAX,
            user_key.len(),
        ));
    }
    Ok(InternalKey {
        user_key: user_key.to_vec(),
        seqno,
    })
}

fn decode_blob(body: &mut Fields<'_>, p: &mut Properties) -> Result<(), Unreadable> {
    let at = body.at;
    let blob = BlobUse {
        file: FileId(body.u64()?),
        values: body.u64()?,
        bytes: body.u64()?,
    };
    if let Some(last) = p.blobs.last()
        && last.file >= blob.file
    {
        return Err(damaged("order of blob files", at, last.file, blob.file));
    }
    p.blobs.push(blob);
    Ok(())
}

fn decode_creation(body: &mut Fields<'_>, p: &mut Properties) -> Result<(), Unreadable> {
    let at = body.at;
    let (creation, compression) = (body.u8()?, body.u8()?);
    let newer = |what: &str, n| Unreadable::Newer(format!("the table has {what} {n}"));
    p.creation = Creation::from_u8(creation).ok_or_else(|| newer("creation kind", creation))?;
    p.codec = Codec::from_tag(compression)
        .ok_or_else(|| damaged("compression", at + 1, "0, 1 or 2", compression))?;
    p.block_bytes = body.u32()?;
    p.restart_interval = body.u16()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyRef;

    fn sample() -> Properties {
        let identity = Identity::new([3; 16], FileId(9));
        let mut p = Properties::empty(identity, CfId(7));
        p.entries = 2;
        p.cover(KeyRef::new(b"k", SeqNo(5)), KeyRef::new(b"k", SeqNo(5)));
        p.cover(KeyRef::new(b"a", SeqNo(9)), KeyRef::new(b"z", SeqNo::MAX));
        p.codec = Codec::Lz4;
        p.creation = Creation::Ingest;
        p.blocks_crc = Some(0x0102_0304);
        p
    }

    fn with_blobs(files: &[u64]) -> Properties {
        let mut p = sample();
        let blob = |&file| BlobUse {
            file: FileId(file),
            values: 1,
            bytes: 2,
        };
        p.blobs = files.iter().map(blob).collect();
        p
    }

    fn reads(p: &Properties) -> Result<Properties, Unreadable> {
        decode(&encode(p), &sample().identity)
    }

    #[test]
    fn they_read_as_they_were_written_and_cut_ones_are_refused() {
        for p in [
            sample(),
            with_blobs(&[1, 2, 900]),
            Properties {
                prefix_len: NonZeroU8::new(255),
                ..sample()
            },
            Properties::empty(sample().identity, CfId(1)),
        ] {
            let bytes = encode(&p);
            assert_eq!(decode(&bytes, &p.identity), Ok(p.clone()));
        }
        // Only what comes last may be missing, and then it is as by default.
        let bytes = encode(&sample());
        let crc = bytes.len() - 9;
        let creation = crc - 13;
        for len in 0..bytes.len() {
            let cut = decode(&bytes[..len], &sample().identity);
            assert_eq!(cut.is_ok(), len == creation || len == crc, "{len}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let mut wrong = vec![with_blobs(&[2, 1]), with_blobs(&[1, 1])];
        let mut change = |change: &dyn Fn(&mut Properties)| {
            let mut p = sample();
            change(&mut p);
            wrong.push(p);
        };
        change(&|p| p.smallest = None);
        change(&|p| p.largest = None);
        change(&|p| p.seqnos = None);
        change(&|p| p.entries = 0);
        change(&|p| p.seqnos = Some((SeqNo(9), SeqNo(5))));
        change(&|p| std::mem::swap(&mut p.smallest, &mut p.largest));
        change(&|p| p.identity.file = FileId(8));
        change(&|p| p.identity.db_id = [4; 16]);
        for p in wrong {
            assert!(
                matches!(reads(&p), Err(Unreadable::Damaged { .. })),
                "{p:?}"
            );
        }
        assert_eq!(reads(&sample()), Ok(sample()));
        let mut prefixes = encode(&Properties {
            prefix_len: NonZeroU8::new(3),
            ..sample()
        });
        // Before the last one, which has nine bytes.
        let at = prefixes.len() - 10;
        assert_eq!(prefixes[at], 3);
        prefixes[at] = 0;
        let refused = decode(&prefixes, &sample().identity);
        assert!(matches!(refused, Err(Unreadable::Damaged { .. })));
    }
}
