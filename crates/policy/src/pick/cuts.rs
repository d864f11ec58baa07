//! Where the next run of level 0 should end its tables.

use thermocline_base::KeyRange;

use super::score::Scores;
use super::slices::{hull_of, slices};
use super::state::{PickOptions, State};

/// Where the next run of level 0 should end its tables, in key order, so that level 0 falls into slices
/// which overlap no table of the level below in common: then jobs merge nothing twice, and do not wait for
/// each other. Between slices that are there already; of an empty level 0 wherever the level below
/// begins a table.
///
/// ```
/// use thermocline_base::{FileId, SeqNo};
/// use thermocline_base::KeyRange;
/// use thermocline_policy::pick::{PickOptions, State, Table, level0_cuts};
/// let table = |first, last| Table {
///     file: FileId(1),
///     range: KeyRange::inclusive(first, last),
///     bytes: 1 << 20,
///     smallest_seqno: SeqNo(1),
///     largest_seqno: SeqNo(1),
///     has_tombstones: false,
///     in_pm: false,
/// };
/// let options = PickOptions { last_level: 1, ..PickOptions::default() };
/// let below = vec![table(b"a", b"f"), table(b"g", b"p"), table(b"s", b"z")];
/// let cuts = |level0| {
///     let levels = [level0, below.clone()];
///     level0_cuts(&State { levels: &levels, running: &[] }, &options)
/// };
/// assert_eq!(cuts(vec![]), [b"a", b"g", b"s"]);
/// // Anything between the tables of level 0 would do; of that, where one below begins.
/// assert_eq!(cuts(vec![table(b"r", b"v"), table(b"b", b"k")]), [b"r"]);
/// assert_eq!(cuts(vec![table(b"u", b"v"), table(b"b", b"r")]), [b"s"]);
/// ```
///
/// # Panics
/// If a level is deeper than the last one.
pub fn level0_cuts(state: &State<'_>, options: &PickOptions) -> Vec<Vec<u8>> {
    let (tables, base) = (state.level(0), Scores::new(state, options).base_level());
    let below = state.level(base);
    if tables.is_empty() {
        return below.iter().map(|t| t.range.first.to_vec()).collect();
    }
    let hulls = slices(tables).into_iter();
    let hulls: Vec<_> = hulls.filter_map(|slice| hull_of(tables, &slice)).collect();
    let between = hulls.windows(2).map(|pair| {
        let next = pair[1].first;
        let behind = below.partition_point(|t| !pair[0].ends_before(t.range.first));
        let begins = below.get(behind).map(|t| t.range.first);
        begins
            .filter(|first| *first <= next)
            .unwrap_or(next)
            .to_vec()
    });
    between.collect()
}

/// Where a run of level 0 may end its tables among keys of which level 0 has nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Ends of the gaps between slices: a table that reaches over one joins a slice with what it has not.
    pub ends: Vec<Vec<u8>>,
    /// Where the base level begins tables within gaps.
    pub within: Vec<Vec<u8>>,
}

/// Where slices have left level 0, and the next run should have slices of its own: if its tables reached from what is left
/// there to what is left behind, level 0 would have fewer slices each time some leave, and in the end one, which
/// leaves as a whole.
///
/// ```
/// use thermocline_base::{FileId, SeqNo};
/// use thermocline_base::KeyRange;
/// use thermocline_policy::pick::{PickOptions, State, Table, level0_gaps};
/// let table = |first, last| Table {
///     file: FileId(1),
///     range: KeyRange::inclusive(first, last),
///     bytes: 1 << 20,
///     smallest_seqno: SeqNo(1),
///     largest_seqno: SeqNo(1),
///     has_tombstones: false,
///     in_pm: false,
/// };
/// let options = PickOptions { last_level: 1, ..PickOptions::default() };
/// let below = vec![table(b"a", b"c"), table(b"d", b"f"), table(b"g", b"p"), table(b"s", b"w"), table(b"x", b"z")];
/// // What was from d to w has left.
/// let levels = [vec![table(b"x", b"y"), table(b"a", b"b")], below];
/// let gaps = level0_gaps(&State { levels: &levels, running: &[] }, &options);
/// assert_eq!(gaps.ends, [b"a", b"d", b"x"]);
/// assert_eq!(gaps.within, [b"g", b"s"]);
/// ```
///
/// # Panics
/// If a level is deeper than the last one.
pub fn level0_gaps(state: &State<'_>, options: &PickOptions) -> Gaps {
    let (tables, base) = (state.level(0), Scores::new(state, options).base_level());
    let below = state.level(base);
    let hulls = slices(tables).into_iter();
    let hulls: Vec<KeyRange<'_>> = hulls.filter_map(|slice| hull_of(tables, &slice)).collect();
    let mut gaps = Gaps::default();
    for n in 0..=hulls.len() {
        let from = n.checked_sub(1).map_or(0, |before| {
            below.partition_point(|t| !hulls[before].ends_before(t.range.first))
        });
        let to = hulls.get(n).map_or(below.len(), |next| {
            below.partition_point(|t| t.range.first <= next.first)
        });
        let begins = below.get(from..to).unwrap_or_default();
        let mut keys: Vec<Vec<u8>> = begins.iter().map(|t| t.range.first.to_vec()).collect();
        if n > 0 && !keys.is_empty() {
            gaps.ends.push(keys.remove(0));
        }
        if n < hulls.len() {
            gaps.ends.extend(keys.pop());
        }
        gaps.within.extend(keys);
    }
    gaps
}
