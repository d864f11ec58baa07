//! How a job is divided among coroutines (FlatLSM §4.3, algorithms 4 and 5; PM-Blade §V, compaction tasks).
//!
//! A job is cut where tables of its largest run begin, so that its parts have about as many bytes each. A part reaches from
//! one cut to the next, the first from before all keys, the last to behind them. So each key is in one part, all its
//! versions with it, and what parts write does not overlap.

use crate::tuning::{
    COROUTINE_BYTES, JOBS_DRAM_PARTS, PIECE_BYTES_MAX, PIECE_BYTES_MIN, PIECES_A_COROUTINE,
    SPLIT_TABLES_MIN, TABLE_PIECE_BYTES_MAX, TABLE_PIECE_BYTES_MIN, TABLE_PIECE_PARTS,
};

/// How many coroutines a job may have: the paper's `k`, where `depth` is its `q`, and `threads` its `c`.
pub fn coroutines(depth: usize, threads: usize) -> usize {
    (depth / threads.max(1)).max(1)
}

/// What a job of compaction works with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tools {
    /// Its coroutines, at most.
    pub coroutines: usize,
    /// Bytes that it reads of a file at a time.
    pub piece_bytes: usize,
}

impl Tools {
    /// The paper's `k`, and the largest pieces, where jobs on all `threads` then have no more than their part of the store's `dram`
    /// ([`JOBS_DRAM_PARTS`]); where they would have more, fewer coroutines, and smaller pieces.
    ///
    /// ```
    /// use thermocline_policy::split::Tools;
    /// let large = Tools { coroutines: 2, piece_bytes: 256 << 10 };
    /// assert_eq!(Tools::of(4, 2, 1 << 30), large);
    /// let small = Tools { coroutines: 1, piece_bytes: 64 << 10 };
    /// assert_eq!(Tools::of(4, 4, 16 << 20), small);
    /// ```
    pub fn of(depth: usize, threads: usize, dram: u64) -> Tools {
        let job = dram / JOBS_DRAM_PARTS / threads.max(1) as u64;
        let fit = usize::try_from(job / COROUTINE_BYTES).unwrap_or(usize::MAX);
        let coroutines = coroutines(depth, threads).min(fit.max(1));
        let piece = job / coroutines as u64 / PIECES_A_COROUTINE;
        // Whole units of what devices transfer.
        let piece = piece / PIECE_BYTES_MIN * PIECE_BYTES_MIN;
        let piece_bytes = usize::try_from(piece.clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX));
        Tools {
            coroutines,
            piece_bytes: piece_bytes.expect("no more than the largest"),
        }
    }
}

/// Bytes of a table that are gathered before they are written, where a store has so much DRAM.
///
/// ```
/// use thermocline_policy::split::table_piece_bytes;
/// assert_eq!(table_piece_bytes(1 << 20), 256 << 10);
/// assert_eq!(table_piece_bytes(1 << 40), 1 << 20);
/// ```
pub fn table_piece_bytes(dram: u64) -> u64 {
    (dram / TABLE_PIECE_PARTS).clamp(TABLE_PIECE_BYTES_MIN, TABLE_PIECE_BYTES_MAX)
}

/// Before which tables of its largest run a job of `total` bytes is cut, ascending: into at most `parts` parts of about the same
/// size, each of at least [`SPLIT_TABLES_MIN`] tables of `table_bytes`, so into fewer where there is little. `bytes` are those
/// of the run's tables in the order of keys; other runs are thought to lie as it does.
///
/// ```
/// use thermocline_policy::split::cuts;
/// assert_eq!(cuts(&[10; 12], 120, 2, 1), [6]);
/// assert_eq!(cuts(&[10; 12], 120, 3, 1), [4, 8]);
/// assert_eq!(cuts(&[10; 12], 120, 2, 10), [6]);
/// assert!(cuts(&[10; 12], 120, 2, 20).is_empty());
/// assert_eq!(cuts(&[10; 12], 240, 2, 20), [6]);
/// ```
pub fn cuts(bytes: &[u64], total: u64, parts: usize, table_bytes: u64) -> Vec<usize> {
    let all: u64 = bytes.iter().sum();
    let least = u128::from(table_bytes) * u128::from(SPLIT_TABLES_MIN);
    // Of this run, so much.
    let least = least * u128::from(all) / u128::from(total.max(all).max(1));
    let least = u64::try_from(least).unwrap_or(u64::MAX).max(1);
    let parts = (parts as u64).min(all / least).max(1);
    let mut cuts: Vec<usize> = Vec::new();
    let (mut before, mut begun) = (0, 0);
    for (n, table) in bytes.iter().enumerate() {
        // The cut lies where it is nearest to its share.
        let share = (cuts.len() as u64 + 1) * (all / parts);
        let is_there = before + table / 2 >= share && before - begun >= least;
        if is_there && cuts.len() as u64 + 1 < parts && all - before >= least {
            cuts.push(n);
            begun = before;
        }
        before += table;
    }
    cuts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_job_has_as_many_coroutines_as_its_share_of_the_depth() {
        let of = |depth, threads| coroutines(depth, threads);
        assert_eq!(
            [of(8, 4), of(8, 3), of(8, 16), of(1, 1), of(8, 0)],
            [2, 2, 1, 1, 8]
        );
    }

    proptest! {
        #[test]
        fn jobs_keep_to_their_part_of_dram(depth in 1..64_usize, threads in 1..64_usize, dram in (20u32..42).prop_map(|n| 3u64 << n)) {
            let tools = Tools::of(depth, threads, dram);
            let piece = tools.piece_bytes as u64;
            prop_assert!((PIECE_BYTES_MIN..=PIECE_BYTES_MAX).contains(&piece));
            prop_assert!((1..=coroutines(depth, threads)).contains(&tools.coroutines));
            let read = threads as u64 * tools.coroutines as u64 * PIECES_A_COROUTINE * piece;
            let least = tools.coroutines == 1 && piece == PIECE_BYTES_MIN;
            prop_assert!(least || read <= dram / JOBS_DRAM_PARTS);
            let more = Tools::of(depth, threads, 2 * dram);
            prop_assert!(more.coroutines >= tools.coroutines);
        }

        #[test]
        fn parts_are_neither_small_nor_too_many(
            bytes in prop::collection::vec(0..1000_u64, 0..60),
            parts in 0..10_usize,
            table in 0..300_u64,
        ) {
            let all = bytes.iter().sum();
            let cuts = cuts(&bytes, all, parts, table);
            prop_assert!(cuts.len() < parts.max(1));
            let ends = cuts.iter().copied().chain([bytes.len()]);
            let mut begin = 0;
            for end in ends {
                let part: u64 = bytes[begin..end].iter().sum();
                let is_all = cuts.is_empty();
                prop_assert!(is_all || begin < end && part >= SPLIT_TABLES_MIN * table);
                begin = end;
            }
        }

        #[test]
        fn tables_of_one_size_are_divided_evenly(tables in 16..200_usize, parts in 1..8_usize) {
            let all = 100 * tables as u64;
            let cuts = cuts(&vec![100; tables], all, parts, 1);
            prop_assert_eq!(cuts.len() + 1, parts);
            let ends = cuts.iter().copied().chain([tables]);
            let mut begin = 0;
            for end in ends {
                let off = (end - begin).abs_diff(tables / parts);
                prop_assert!(off <= 2 + tables % parts, "{begin}..{end} of {tables} in {parts}");
                begin = end;
            }
        }
    }
}
