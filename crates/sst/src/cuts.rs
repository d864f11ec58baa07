//! Where tables end so that their range tombstones fit.
//!
//! A table keeps the range tombstones that reach into it in one block of limited size. Whoever writes
//! tables cuts range tombstones where a table ends, and those of one table that begin at its first key, or
//! end behind it, share that key ([`crate::TableWriter`] writes it once). So what limits a table is the
//! bytes of the keys *inside* of it at which range tombstones begin or end, and a table without such
//! keys takes some 130,000 of them, however long the keys and however much they overlap. [`tombstone_cuts`]
//! says where to end tables for that, before any is written: without it, 33 overlapping range tombstones
//! with keys of 65,000 bytes could not be written at all.
//!
//! # Argument
//! Of a table from key `a` to key `b` let `s` be the distinct keys inside at which range tombstones begin,
//! `e` the ends inside, each as often as range tombstones end there, and `n` the range tombstones that
//! reach into it. In their order by start equal starts stand together, so each start is written once: `a`
//! and `s`. An end is written unless it is that of the one before: at most all of `e`, and `b` once at
//! first and once behind each of `e`. The rest of a range tombstone is at most [`LENGTHS_MAX`] bytes. The
//! sum of these is what is kept below the limit.

use std::collections::BTreeMap;

use thermocline_base::RangeTombstone;

use crate::format::TOMBSTONES_LEN_MAX;

/// Most bytes of a range tombstone beside its keys: two lengths and a seqno.
const LENGTHS_MAX: usize = 3 + 3 + 10;

/// What happens at one key.
#[derive(Debug, Default)]
struct Here {
    begin: usize,
    end: usize,
}

/// The keys, ascending, at which tables have to end so that range tombstones like these fit: each table
/// then takes them with room to spare, and is not full because of them.
///
/// ```
/// use thermocline_base::{RangeTombstone, SeqNo};
/// use thermocline_sst::tombstone_cuts;
/// let some = RangeTombstone { start: &b"a"[..], end: b"c", seqno: SeqNo(7) };
/// assert!(tombstone_cuts([some].into_iter()).is_empty());
/// ```
pub fn tombstone_cuts<'a>(
    tombstones: impl Iterator<Item = RangeTombstone<&'a [u8]>>,
) -> Vec<Vec<u8>> {
    cuts(tombstones, TOMBSTONES_LEN_MAX / 2)
}

fn cuts<'a>(
    tombstones: impl Iterator<Item = RangeTombstone<&'a [u8]>>,
    len_max: usize,
) -> Vec<Vec<u8>> {
    let mut places: BTreeMap<&[u8], Here> = BTreeMap::new();
    for t in tombstones {
        places.entry(t.start).or_default().begin += 1;
        places.entry(t.end).or_default().end += 1;
    }
    let mut cuts = Vec::new();
    // What reaches up to the place; of the table: its range tombstones, its keys so far, its ends inside.
    let mut over = 0;
    let (mut count, mut keys, mut ends) = (0, 0, 0);
    let next = places.keys().skip(1).map(|key| key.len()).chain([0]);
    for ((key, here), next) in places.iter().zip(next) {
        let with = (
            count + here.begin,
            keys + key.len() * (usize::from(here.begin > 0) + here.end),
            ends + here.end,
        );
        over = over + here.begin - here.end;
        let len = with.0 * LENGTHS_MAX + with.1 + (with.2 + 1) * next;
        if len <= len_max || count == 0 {
            (count, keys, ends) = with;
            continue;
        }
        cuts.push(key.to_vec());
        (count, keys, ends) = (over, key.len(), 0);
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tombstones::{decode, encode};
    use thermocline_base::SeqNo;
    use thermocline_testkit::Rng;

    type Owned = (Vec<u8>, Vec<u8>, SeqNo);

    fn borrowed(list: &[Owned]) -> impl Iterator<Item = RangeTombstone<&[u8]>> {
        list.iter().map(|(start, end, seqno)| RangeTombstone {
            start: &start[..],
            end,
            seqno: *seqno,
        })
    }

    /// The bytes of what lies from `lower` up to `upper`, and how many keys are inside at which something
    /// begins or ends.
    fn encoded(list: &[Owned], lower: &[u8], upper: Option<&[u8]>) -> (usize, usize) {
        let cut = borrowed(list).filter_map(|t| t.cut(Some(lower), upper));
        let mut cut: Vec<_> = cut.collect();
        cut.sort_by(|a, b| {
            a.start
                .cmp(b.start)
                .then((b.seqno, b.end).cmp(&(a.seqno, a.end)))
        });
        cut.dedup_by_key(|t| (t.start, t.seqno));
        let mut bytes = Vec::new();
        for (n, t) in cut.iter().enumerate() {
            encode(*t, n.checked_sub(1).map(|before| cut[before]), &mut bytes);
        }
        assert_eq!(decode(bytes.clone()).unwrap().iter().len(), cut.len());
        let keys = cut.iter().flat_map(|t| [t.start, t.end]);
        let inside = keys.filter(|k| *k > lower && upper.is_none_or(|upper| *k < upper));
        (bytes.len(), inside.count())
    }

    #[test]
    fn what_lies_between_two_cuts_fits() {
        let mut rng = Rng::new(11);
        let (mut tables, mut tight) = (0, 0);
        for _ in 0..400 {
            let (most, len) = (2000 + rng.below(4000), 1 + rng.below(300));
            let key = |rng: &mut Rng| {
                let name = rng.below(40);
                [
                    format!("{name:02}").as_bytes(),
                    &vec![b'k'; len * rng.below(2)],
                ]
                .concat()
            };
            let mut list: Vec<Owned> = Vec::new();
            for _ in 0..rng.below(80) {
                let (a, b) = (key(&mut rng), key(&mut rng));
                let seqno = SeqNo(rng.below(1000) as u64);
                if a != b {
                    list.push((a.clone().min(b.clone()), a.max(b), seqno));
                }
            }
            let cuts = cuts(borrowed(&list), most);
            assert!(cuts.is_sorted_by(|a, b| a < b));
            let mut lower: &[u8] = b"";
            for upper in cuts.iter().map(|cut| Some(&cut[..])).chain([None]) {
                let (bytes, inside) = encoded(&list, lower, upper);
                assert!(
                    bytes <= most || inside == 0,
                    "{bytes} of {most}, {inside} inside"
                );
                tables += 1;
                tight += usize::from(bytes > most / 4);
                lower = upper.unwrap_or_default();
            }
        }
        println!("{tables} tables, {tight} of them filled by a quarter or more");
        assert!(tables > 1000 && tight > tables / 4);
    }
}
