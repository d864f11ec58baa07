//! Where one output table ends and the next begins (FlatLSM's tasks of equal size,
//! LevelDB's limit of the overlap with grandparents).
//!
//! # Invariants
//! 1. **A key is in one table.** Tables are cut between user keys, never between versions of one:
//!    so tables of a level do not overlap.
//! 2. **Bounds are kept.** No table reaches over a bound: what lies from it on is in another table.
//! 3. **Deterministic.** Where it is cut depends on keys, sizes and options alone, not on who asks
//!    or when.
//! 4. **Bounded.** A table has at most the target's bytes, or half as many more where it waits for a
//!    preferred cut, and the versions of one key more, range tombstones apart. And it overlaps at most
//!    the limit's bytes of grandparents, or one of them, or has one key.
//!
//! A table holds the keys from where it begins (at first: from everywhere) up to the cut. Range
//! tombstones are cut at the same places, by [`RangeTombstone::cut`](thermocline_base::RangeTombstone::cut).
//!
//! ```
//! use thermocline_compaction::output::{Cutter, OutputOptions};
//! let options = OutputOptions { target_bytes: 100, ..OutputOptions::default() };
//! let mut cutter = Cutter::new(options, vec![b"m".to_vec()], vec![]);
//! assert_eq!(cutter.cut_before(b"a", 0), None);
//! assert_eq!(cutter.cut_before(b"b", 60), None);
//! assert_eq!(cutter.cut_before(b"b", 110), None); // another version
//! assert_eq!(cutter.cut_before(b"c", 160), Some(b"c".to_vec()));
//! assert_eq!(cutter.cut_before(b"x", 50), Some(b"m".to_vec())); // the bound
//! assert_eq!(cutter.cut_before(b"x", 0), None);
//! ```

use thermocline_base::KeyRange;

/// How large output tables may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputOptions {
    /// A table ends at the first new user key at which it has this many bytes.
    pub target_bytes: u64,
    /// Bytes of tables two levels below the inputs that one output table may overlap: what it will
    /// cost to compact it in turn.
    pub grandparent_bytes_max: u64,
}

impl Default for OutputOptions {
    /// Tables of 64 MiB that overlap at most ten of them, as in LevelDB.
    fn default() -> OutputOptions {
        OutputOptions {
            target_bytes: 64 << 20,
            grandparent_bytes_max: 640 << 20,
        }
    }
}

/// A table of the level below the output's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grandparent<'a> {
    /// Where its keys lie.
    pub range: KeyRange<&'a [u8]>,
    /// Its bytes.
    pub bytes: u64,
}

/// Says where to cut. See the [module](self).
#[derive(Debug)]
pub struct Cutter<'a> {
    options: OutputOptions,
    /// Those that are still ahead, the next one last.
    bounds: Vec<Vec<u8>>,
    /// Preferred cuts that are still ahead, the next one last, and the bytes from which on a table ends there.
    preferred: Vec<(Vec<u8>, u64)>,
    /// In key order.
    grandparents: Vec<Grandparent<'a>>,
    /// The first grandparent that does not end before the last key.
    grandparent: usize,
    /// Bytes of grandparents that the table overlaps.
    overlap: u64,
    /// How many grandparents, from the first, are counted or lie before the table.
    counted: usize,
    /// The last user key, of this table.
    last: Option<Vec<u8>>,
    /// Whether rests are tables of their own.
    rests: bool,
    /// The table before ended because it was full.
    follows_full: bool,
}

impl<'a> Cutter<'a> {
    /// At these bounds, which ascend strictly, and over these grandparents, which are in key order
    /// and do not overlap.
    pub fn new(
        options: OutputOptions,
        mut bounds: Vec<Vec<u8>>,
        grandparents: Vec<Grandparent<'a>>,
    ) -> Cutter<'a> {
        assert!(bounds.is_sorted_by(|a, b| a < b), "bounds ascend");
        let apart = |a: &Grandparent<'_>, b: &Grandparent<'_>| a.range.ends_before(b.range.first);
        assert!(
            grandparents.is_sorted_by(apart),
            "grandparents are one level"
        );
        bounds.reverse();
        Cutter {
            options,
            bounds,
            preferred: Vec::new(),
            grandparents,
            grandparent: 0,
            overlap: 0,
            counted: 0,
            last: None,
            rests: false,
            follows_full: false,
        }
    }

    /// Prefers to end tables before these keys, in any order, as far as sizes allow: a table that has
    /// `bytes_min` ends there, and none ends before it is half as large again as the target while one of
    /// them is ahead. So runs that are written one after the other end their tables at the same keys, and
    /// can be compacted slice by slice. What was preferred before still is; of a key that is given again the least bytes
    /// count.
    #[must_use]
    pub fn preferring(mut self, keys: Vec<Vec<u8>>, bytes_min: u64) -> Cutter<'a> {
        self.preferred
            .extend(keys.into_iter().map(|key| (key, bytes_min)));
        // They are some rows in order, of which a stable sort makes use: starts of partitions may be tens of thousands.
        self.preferred
            .sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        self.preferred.dedup_by(|later, kept| later.0 == kept.0);
        self
    }

    /// Whether what is left between a table that was full and the next preferred key is a table of its own, however small: so a table that
    /// reaches over one of these keys has less than was preferred before it. There are at most as many of them as full tables.
    #[must_use]
    pub fn with_rests(self, rests: bool) -> Cutter<'a> {
        Cutter { rests, ..self }
    }

    /// Whether the table, which has this many bytes, ends before the next entry, and at which key.
    /// If so the caller ends it, were it empty (then it is no table, unless range tombstones lie
    /// there), and asks again: several bounds may lie before one entry.
    pub fn cut_before(&mut self, user_key: &[u8], table_bytes: u64) -> Option<Vec<u8>> {
        if self.last.as_deref() == Some(user_key) {
            return None;
        }
        if let Some(bound) = self.bounds.pop_if(|bound| **bound <= *user_key) {
            (self.last, self.follows_full) = (None, false);
            return Some(bound);
        }
        let is_rest = self.rests && self.follows_full;
        let target = self.options.target_bytes;
        let mut passed = None;
        while let Some((key, least)) = self.preferred.pop_if(|(key, _)| **key <= *user_key) {
            // Between two entries lie several: the last one at which it may end.
            let ends = table_bytes >= least || is_rest;
            passed = Some(key).filter(|_| ends).or(passed);
        }
        if let Some(key) = passed.filter(|_| self.last.is_some()) {
            (self.last, self.follows_full) = (None, false);
            return Some(key);
        }
        let most = match self.preferred.is_empty() {
            true => target,
            false => target.saturating_add(target / 2),
        };
        self.count_to(user_key);
        let full = table_bytes >= most || self.overlap > self.options.grandparent_bytes_max;
        if full && self.last.is_some() {
            // Not where it ends for what it overlaps: what follows may be a part of a small partition.
            (self.last, self.follows_full) = (None, table_bytes >= most);
            return Some(user_key.to_vec());
        }
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(user_key);
        None
    }

    /// The last key that was asked for; `None` if the table has none.
    pub fn last(&self) -> Option<&[u8]> {
        self.last.as_deref()
    }

    /// The bounds behind the last entry, at which what is left of range tombstones is cut.
    pub fn rest(&mut self) -> Vec<Vec<u8>> {
        let mut rest = std::mem::take(&mut self.bounds);
        rest.reverse();
        rest
    }

    /// Counts the grandparents that the table overlaps once it has `user_key` too.
    fn count_to(&mut self, user_key: &[u8]) {
        let ahead = &self.grandparents[self.grandparent..];
        let ended = ahead
            .iter()
            .take_while(|g| g.range.ends_before(user_key))
            .count();
        self.grandparent += ended;
        if self.last.is_none() {
            // The table begins here.
            (self.counted, self.overlap) = (self.grandparent, 0);
        }
        let behind = self.grandparents[self.counted..].iter();
        for grandparent in behind.take_while(|g| g.range.first <= user_key) {
            self.overlap += grandparent.bytes;
            self.counted += 1;
        }
    }
}

#[cfg(test)]
mod tests;
