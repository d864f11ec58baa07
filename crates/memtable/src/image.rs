//! Items that were copied out of their zones, and are put into others: how a log carries them.
//!
//! A copy is whole, or whoever carries it would not have given it; so its own checksums, which start from
//! the place that it had, are not looked at. What it says is bounded by its length all the same, and by the seqnos that
//! there are: where it is put its records are counted from its first on.

use thermocline_base::{BatchEntry, CfId};

use crate::format::{ITEM_HEADER, ItemHeader, RECORD_HEADER, RecordHeader};
use crate::walk::behind;

/// What a copied item says.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemImage<'a> {
    /// The chain that it was written to.
    pub chain: u64,
    /// The seqno of its first record, as it calls it.
    pub first_seqno: u64,
    /// What was durable when it was built.
    pub published: u64,
    /// Its records.
    pub entries: Vec<BatchEntry<'a>>,
}

impl<'a> ItemImage<'a> {
    /// The item at the beginning of `bytes`, and what lies behind it; `None` if there is none.
    pub fn read(bytes: &'a [u8]) -> Option<(ItemImage<'a>, &'a [u8])> {
        let header = ItemHeader::decode(bytes.get(..ITEM_HEADER)?);
        let length = usize::try_from(header.length).ok()?;
        let (item, rest) = bytes.split_at_checked(usize::try_from(header.padded()).ok()?)?;
        let mut records = item.get(ITEM_HEADER..length)?;
        let mut entries = Vec::new();
        while !records.is_empty() {
            let head = RecordHeader::decode(records.get(..RECORD_HEADER)?);
            let record = records.get(..head.len())?;
            let (key, value) = record[RECORD_HEADER..].split_at(usize::from(head.key_len));
            entries.push(BatchEntry {
                kind: head.kind()?,
                cf: CfId(head.cf),
                key,
                value,
            });
            records = records.get(head.padded()..)?;
        }
        let image = ItemImage {
            chain: header.chain,
            first_seqno: header.first_seqno,
            published: header.published,
            entries,
        };
        let counted = u32::try_from(image.entries.len()) == Ok(header.count);
        let numbered = header.first_seqno > 0 && behind(header.first_seqno, header.count).is_some();
        (counted && numbered).then_some((image, rest))
    }
}

#[cfg(test)]
mod tests {
    use thermocline_base::Kind;
    use thermocline_halloc::Reserve;
    use thermocline_pm::PmOff;

    use super::*;
    use crate::append::{ChainWriter, ItemBuilder, Persist};
    use crate::chain::Chain;
    use crate::fixture;

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    /// A run of items, each with so many records, as it lies in a zone.
    fn run(counts: &[usize]) -> (Vec<u8>, Vec<Pairs>) {
        let space = fixture::space(1 << 20, 1 << 20);
        let chain = Chain::new(&[1; 16], 7, 1, 5, 1);
        let mut writer = ChainWriter::new(space.clone(), chain, None);
        let mut builder = ItemBuilder::default();
        let (mut start, mut bytes, mut seqno, mut all) = (None, 0, 1, Vec::new());
        for &count in counts {
            let pairs: Pairs = (0..count)
                .map(|i| (vec![b'k'; i * 3], vec![b'v'; i * i]))
                .collect();
            let entries = pairs.iter().map(|(key, value)| BatchEntry {
                kind: Kind::Put,
                cf: CfId(2),
                key,
                value,
            });
            let item = crate::item_bytes(entries.clone());
            writer.ensure(item, Reserve::Use).unwrap();
            let grant = writer.grant(item);
            start.get_or_insert(grant.at());
            builder
                .store(
                    space.region(),
                    &grant,
                    entries,
                    seqno,
                    seqno - 1,
                    Persist::Now,
                )
                .unwrap();
            bytes += grant.bytes();
            seqno += count as u64;
            all.push(pairs);
        }
        let at = start.unwrap_or(PmOff(0));
        let bytes = usize::try_from(bytes).unwrap();
        (space.region().bytes(at, bytes).unwrap().to_vec(), all)
    }

    #[test]
    fn a_run_of_items_reads_as_it_was_written() {
        let (bytes, all) = run(&[1, 0, 7, 2]);
        let (mut rest, mut seqno) = (&bytes[..], 1);
        for pairs in all {
            let (image, behind) = ItemImage::read(rest).unwrap();
            assert_eq!((image.chain, image.first_seqno), (7, seqno));
            assert_eq!(image.published, seqno - 1);
            assert_eq!(image.entries.len(), pairs.len());
            for (entry, (key, value)) in image.entries.iter().zip(&pairs) {
                assert_eq!((entry.key, entry.value), (&key[..], &value[..]));
                assert_eq!((entry.kind, entry.cf), (Kind::Put, CfId(2)));
            }
            seqno += pairs.len() as u64;
            rest = behind;
        }
        assert!(rest.is_empty());
    }

    /// Whoever stores it again counts its records from there on.
    #[test]
    fn what_has_seqnos_that_nobody_gives_out_is_no_item() {
        const END: u64 = (1 << 63) - (1 << 48);
        let (bytes, _) = run(&[2]);
        let firsts = [
            (0, false),
            (1, true),
            (END - 2, true),
            (END - 1, false),
            (u64::MAX, false),
        ];
        for (first, is_one) in firsts {
            let mut bytes = bytes.clone();
            bytes[8..16].copy_from_slice(&u64::to_le_bytes(first));
            assert_eq!(ItemImage::read(&bytes).is_some(), is_one, "{first}");
        }
    }

    #[test]
    fn bytes_that_are_no_item_never_panic() {
        let (bytes, _) = run(&[3]);
        for len in 0..bytes.len() {
            assert_eq!(ItemImage::read(&bytes[..len]), None, "{len}");
        }
        for byte in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[byte] ^= 1 << bit;
                let _ = ItemImage::read(&damaged);
            }
        }
        assert_eq!(ItemImage::read(&[0xff; 256]), None);
        assert_eq!(ItemImage::read(&[0; 256]), None);
    }
}
