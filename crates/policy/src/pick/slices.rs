//! How tables of level 0 lie over each other: slices, which overlap no other, runs, and depth.

use std::collections::BTreeMap;
use std::ops::Range;

use thermocline_base::KeyRange;

use super::levels::Table;

/// The slices of level 0: the smallest sets of tables whose hulls do not overlap, in key order. Each is
/// a set of places that ascend. Flushes that end their tables at the same keys make as many slices as
/// each has tables.
pub(super) fn slices(tables: &[Table<'_>]) -> Vec<Vec<usize>> {
    let mut places: Vec<usize> = (0..tables.len()).collect();
    places.sort_by(|a, b| tables[*a].range.first.cmp(tables[*b].range.first));
    let mut slices: Vec<(KeyRange<&[u8]>, Vec<usize>)> = Vec::new();
    for n in places {
        let range = tables[n].range;
        match slices.last_mut() {
            Some((hull, slice)) if hull.overlaps(&range) => {
                *hull = hull.hull(range);
                slice.push(n);
            }
            _ => slices.push((range, vec![n])),
        }
    }
    let sorted = slices.into_iter().map(|(_, mut slice)| {
        slice.sort_unstable();
        slice
    });
    sorted.collect()
}

/// How many tables of a slice a read may have to ask.
pub(super) fn depth_of(tables: &[Table<'_>], slice: &[usize]) -> usize {
    let tables: Vec<Table<'_>> = slice.iter().map(|n| tables[*n]).collect();
    runs(&tables).len()
}

/// The same, of those in files and of those in persistent memory.
pub(super) fn depths(tables: &[Table<'_>], slice: &[usize]) -> (usize, usize) {
    let of = |in_pm: bool| {
        let some = slice.iter().filter(|n| tables[**n].in_pm == in_pm);
        depth_of(tables, &some.copied().collect::<Vec<usize>>())
    };
    (of(false), of(true))
}

/// The runs of level 0: tables that follow each other in age and do not overlap, as the output of one
/// flush. A reader asks one table of each.
///
/// ```
/// # use thermocline_base::{FileId, SeqNo};
/// # use thermocline_base::KeyRange;
/// use thermocline_policy::pick::{Table, runs};
/// let table = |file, first, last| Table {
///     file: FileId(file),
///     range: KeyRange::inclusive(first, last),
///     bytes: 1,
///     smallest_seqno: SeqNo(file),
///     largest_seqno: SeqNo(file),
///     entries: 1,
///     deletes: 0,
///     in_pm: false,
/// };
/// let (a, z, b) = (table(3, b"a", b"f"), table(2, b"g", b"z"), table(1, b"b", b"c"));
/// assert_eq!(runs(&[a, z, b]), [0..2, 2..3]);
/// ```
pub fn runs(newest_first: &[Table<'_>]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    // Of the last run, by first key.
    let mut within: BTreeMap<&[u8], KeyRange<&[u8]>> = BTreeMap::new();
    for (n, table) in newest_first.iter().enumerate() {
        let first = table.range.first;
        let mut neighbours = within.range(..=first).next_back().into_iter();
        let mut behind = within.range(first..).take(1);
        let meets = |range: &KeyRange<&[u8]>| range.overlaps(&table.range);
        let overlaps = neighbours.any(|(_, r)| meets(r)) || behind.any(|(_, r)| meets(r));
        match runs.last_mut().filter(|_| !overlaps) {
            Some(run) => run.end = n + 1,
            None => {
                within.clear();
                runs.push(n..n + 1);
            }
        }
        within.insert(first, table.range);
    }
    runs
}

/// How many tables of level 0 a read may have to ask: in the slice of keys where that are most, its
/// [runs].
pub fn depth(newest_first: &[Table<'_>]) -> usize {
    let all = slices(newest_first).into_iter();
    let depths = all.map(|slice| depth_of(newest_first, &slice));
    depths.max().unwrap_or(0)
}
