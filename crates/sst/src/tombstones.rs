//! Range tombstones of a table: how they are written, and read.

use thermocline_base::tombstones::Head;
use thermocline_base::varint::{put_varint, varint};
use thermocline_base::{CfId, RangeTombstone, RangeTombstones, SeqNo};

use crate::format::coding::{Unreadable, damaged};
use crate::format::{END_AS_BEFORE, START_AS_BEFORE};

/// Appends a range tombstone behind the one `before`, with which it may share keys.
pub(crate) fn encode(
    own: RangeTombstone<&[u8]>,
    before: Option<RangeTombstone<&[u8]>>,
    out: &mut Vec<u8>,
) {
    // To say that a start is as before takes three bytes.
    let same_start = before.is_some_and(|b| b.start == own.start && b.start.len() > 2);
    let same_end = before.is_some_and(|b| b.end == own.end);
    let len = |same: bool, as_before: u64, key: &[u8]| match same {
        true => as_before,
        false => key.len() as u64,
    };
    put_varint(out, len(same_start, START_AS_BEFORE, own.start));
    put_varint(out, len(same_end, END_AS_BEFORE, own.end));
    put_varint(out, own.seqno.0);
    if !same_start {
        out.extend_from_slice(own.start);
    }
    if !same_end {
        out.extend_from_slice(own.end);
    }
}

/// Checks the payload of their block and keeps it. Allocates at most a small multiple of it.
pub(crate) fn decode(bytes: Vec<u8>) -> Result<RangeTombstones, Unreadable> {
    let wrong = |at| {
        damaged(
            "whole range tombstone behind the one before",
            at,
            "one",
            "none",
        )
    };
    let families = RangeTombstones::decode(&bytes, head).map_err(wrong)?;
    let first = families.into_iter().next();
    Ok(first.map(|(_, all)| all).unwrap_or_default())
}

/// What stands before the keys of the one at `at`; moves behind it. A table is of one family, and does not say which.
fn head(bytes: &[u8], at: &mut usize) -> Option<Head> {
    let mut len = |as_before: u64| Some(Some(varint(bytes, at)?).filter(|len| *len != as_before));
    Some(Head {
        cf: CfId::DEFAULT,
        start: len(START_AS_BEFORE)?,
        end: len(END_AS_BEFORE)?,
        seqno: SeqNo(varint(bytes, at)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline_testkit::Rng;

    type Owned = (Vec<u8>, Vec<u8>, SeqNo);

    fn random(rng: &mut Rng, n: usize) -> Vec<Owned> {
        let key = |rng: &mut Rng| vec![b'a' + rng.next_u64().to_le_bytes()[0] % 9; rng.below(3)];
        let mut list = Vec::new();
        while list.len() < n {
            let (start, end) = (key(rng), key(rng));
            let seqno = SeqNo(rng.below(1000) as u64);
            if start < end {
                list.push((start, end, seqno));
            }
        }
        list.sort_by(|a: &Owned, b| a.0.cmp(&b.0).then(b.2.cmp(&a.2)));
        list.dedup_by(|a, b| (&a.0, a.2) == (&b.0, b.2));
        list
    }

    fn encoded(list: &[Owned]) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        let mut before = None;
        for (start, end, seqno) in list {
            let seqno = *seqno;
            let tombstone: RangeTombstone<&[u8]> = RangeTombstone { start, end, seqno };
            encode(tombstone, before, &mut bytes);
            before = Some(tombstone);
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    #[test]
    fn the_newest_over_a_key_is_that_of_a_search_through_all() {
        let mut rng = Rng::new(5);
        let mut covered = 0;
        for n in (0..40).chain([300]) {
            let list = random(&mut rng, n);
            let set = decode(encoded(&list).0).unwrap();
            let found = set
                .iter()
                .map(|t| (t.start.to_vec(), t.end.to_vec(), t.seqno));
            assert!(found.eq(list.iter().cloned()));
            for key in [
                "", "a", "aa", "b", "bb", "c", "d", "dd", "f", "h", "i", "ii", "j",
            ] {
                for at in [0, 1, 200, 500, 999, 1000] {
                    let (key, at) = (key.as_bytes(), SeqNo(at));
                    let seen = list.iter().filter(|(start, end, seqno)| {
                        &start[..] <= key && key < &end[..] && *seqno <= at
                    });
                    let newest = seen.map(|t| t.2).max();
                    let found = set.newest_over(key, at);
                    assert_eq!(found.map(|t| t.seqno), newest);
                    assert!(found.is_none_or(|t| t.covers(key)));
                    covered += u32::from(newest.is_some());
                }
            }
        }
        assert!(covered > 100);
    }

    /// What overlaps and is cut at the same places has its keys once.
    #[test]
    fn keys_that_stand_before_are_not_written_again() {
        let key = |n: u8| [&[n][..], &[b'x'; 1000]].concat();
        let (a, b) = (key(1), key(9));
        let cut: Vec<Owned> = (0..500)
            .map(|n| (a.clone(), b.clone(), SeqNo(1000 - n)))
            .collect();
        let (bytes, _) = encoded(&cut);
        assert!(bytes.len() < 2010 + 500 * 7, "{}", bytes.len());
        // Starts of their own, and one end; one start, and ends of their own.
        let starts: Vec<Owned> = (1..5).map(|n| (key(n), b.clone(), SeqNo(5))).collect();
        assert!(encoded(&starts).0.len() < 5 * 1010);
        let ends: Vec<Owned> = (2..6)
            .map(|n| (a.clone(), key(n), SeqNo(9 - u64::from(n))))
            .collect();
        assert!(encoded(&ends).0.len() < 5 * 1010);
        for list in [cut, starts, ends] {
            let set = decode(encoded(&list).0).unwrap();
            let found = set
                .iter()
                .map(|t| (t.start.to_vec(), t.end.to_vec(), t.seqno));
            assert!(found.eq(list));
        }
    }

    /// The bytes are those of tables that were written before keys could be as before.
    #[test]
    fn keys_that_are_written_again_are_read() {
        let plain = |start: &[u8], end: &[u8], seqno: u8| {
            let lens = [start.len(), end.len()].map(|len| u8::try_from(len).unwrap());
            [&lens[..], &[seqno], start, end].concat()
        };
        let bytes = [plain(b"aaaa", b"c", 9), plain(b"aaaa", b"c", 8)].concat();
        let set = decode(bytes).unwrap();
        assert!(set.iter().all(|t| (t.start, t.end) == (b"aaaa", b"c")));
        let over = set.newest_over(b"b", SeqNo(8)).map(|t| t.seqno);
        assert_eq!(over, Some(SeqNo(8)));
    }

    #[test]
    fn cut_or_disordered_bytes_are_refused() {
        let (bytes, ends) = encoded(&random(&mut Rng::new(6), 5));
        for len in 1..bytes.len() {
            let whole = ends.contains(&len);
            assert_eq!(decode(bytes[..len].to_vec()).is_ok(), whole);
        }
        assert!(decode(bytes.repeat(2)).is_err());
        // The first has nothing before it.
        assert!(decode(vec![1, 0, 5, b'a']).is_err());
        assert!(decode(vec![0x80, 0x80, 4, 1, 5, b'a']).is_err());
        let empty: Owned = (b"a".to_vec(), b"a".to_vec(), SeqNo(1));
        assert!(decode(encoded(&[empty]).0).is_err());
    }
}
