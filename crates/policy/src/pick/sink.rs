//! A range of a flush that goes to the base level at once (FlatLSM §4.4, algorithms 4 and 5).
//!
//! Where flushes are large and come seldom, each meets all of the base level anyhow: to write it into level 0 first would be to
//! write it once more.

use thermocline_base::KeyRange;

use super::level0::{Along, to_base};
use super::score::Scores;
use super::slices::overlapped;
use super::state::{PickOptions, State};
use crate::tuning::SINKING_TIMES;

/// Whether a range of a flush goes to the base level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sinking {
    /// It does, with this.
    Goes(Along),
    /// Running jobs are in the way.
    Meets,
    /// What it would be merged with is too much for what it brings, or for the disk.
    Costs,
}

/// What a range of a flush takes along to the base level: all that level 0 and the base level have of its keys. About `bytes`
/// of `range` lie in memtables, which are newer than all tables; the disk has `room` for so many.
///
/// ```
/// use thermocline_base::{FileId, KeyRange, SeqNo};
/// use thermocline_policy::pick::{PickOptions, Sinking, State, Table, pick_sinking};
/// let table = |file, first, last| Table {
///     file: FileId(file),
///     range: KeyRange::inclusive(first, last),
///     bytes: 100,
///     smallest_seqno: SeqNo(file),
///     largest_seqno: SeqNo(file),
///     has_tombstones: false,
///     in_pm: false,
/// };
/// let below: Vec<Table> = vec![table(1, b"a", b"g"), table(2, b"h", b"p"), table(3, b"q", b"z")];
/// let levels = [vec![], below];
/// let options = PickOptions { last_level: 1, ..PickOptions::default() };
/// let sink = |from, to, bytes| {
///     let range = KeyRange::until(from, to);
///     pick_sinking(&State { levels: &levels, running: &[] }, &options, &range, bytes, 1000)
/// };
/// let Sinking::Goes(along) = sink(&b"c"[..], b"k", 100) else { panic!() };
/// assert_eq!((along.to, along.overlapped), (1, vec![0, 1]));
/// // Two tables of 100 bytes are too much for 10 bytes, and 1000 bytes for a disk with no more room.
/// assert_eq!(sink(b"c", b"k", 10), Sinking::Costs);
/// assert_eq!(sink(b"c", b"k", 1000), Sinking::Costs);
/// ```
///
/// # Panics
/// If a level is deeper than the last one.
pub fn pick_sinking(
    state: &State<'_>,
    options: &PickOptions,
    range: &KeyRange<&[u8]>,
    bytes: u64,
    room: u64,
) -> Sinking {
    let (tables, base) = (state.level(0), Scores::new(state, options).base_level());
    let all: Vec<usize> = (0..tables.len())
        .filter(|n| tables[*n].range.overlaps(range))
        .collect();
    let level0: u64 = all.iter().map(|n| tables[*n].bytes).sum();
    let lower = state.level(base);
    let lower = lower[overlapped(lower, range)].iter();
    let below: u64 = lower.map(|table| table.bytes).sum();
    let brought = bytes.saturating_add(level0);
    let is_dear = below > brought.saturating_mul(SINKING_TIMES);
    if is_dear || brought.saturating_add(below) > room {
        return Sinking::Costs;
    }
    match to_base(state, range, base, &all) {
        Some(along) => Sinking::Goes(Along {
            is_cut: true,
            ..along
        }),
        None => Sinking::Meets,
    }
}
