//! Finding the group of a key: the prefix layer.
//!
//! # Argument
//! Let `p(g)` be the prefix of group `g` of a run and `t` what stands in its place in the target (zeros where
//! the target ends). Prefixes ascend, since keys do and zeros stand before all else. If `p(g) < t`, the
//! group's first entry lies before the target, and if `p(g) > t`, behind it. So with `lo` the number of
//! prefixes below `t` and `hi` the number of those not above, the last group that does not begin behind the
//! target is one of `lo - 1 .. hi`; where `lo < hi` the first keys of groups are asked.
//!
//! **Rot.** Bisection reads blocks' first prefixes unverified, since that would take their checksums. What
//! it ends with is verified: a prefix below `t` and the one behind it, which is not, are read from blocks
//! whose checksums hold, and since what was written ascends, these two alone make the answer right,
//! whichever way led there. The same holds of first keys of groups, where those are asked. If what
//! is verified contradicts what led there, that is corruption, and not "absent".

use std::cmp::Ordering;

use thermocline_base::numbers::{len_of, u32_at};
use thermocline_base::{Result, SeqNo};
use thermocline_pm::PmOff;
use thermocline_policy::tuning::{BLOCKS_ASKED, GROUP_GUESS};

use crate::format::coding::shared;
use crate::format::group::{GroupBytes, NoEntry, RawEntry, stored_len};
use crate::format::{BLOCK_LEN, GROUP_HEAD, PREFIX_MAX, block_groups};
use crate::table::{PmTable, bytes_between, place};

/// What the prefix layer says about a group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub prefix: [u8; PREFIX_MAX],
    /// Where the group begins in the piece.
    pub at: u32,
}

/// A block of the prefix layer whose checksum holds.
#[derive(Debug, Clone, Copy)]
struct Block<'a> {
    /// Prefixes and offsets.
    bytes: &'a [u8],
    /// The first group that it names.
    first: u32,
    /// From one to the next.
    stride: usize,
}

impl Block<'_> {
    fn len(&self) -> usize {
        self.bytes.len() / self.stride
    }

    fn prefix(&self, n: usize) -> &[u8] {
        &self.bytes[n * self.stride..][..self.stride - 4]
    }

    fn entry(&self, group: u32) -> Entry {
        let n = len_of(group - self.first);
        let mut prefix = [0; PREFIX_MAX];
        prefix[..self.stride - 4].copy_from_slice(self.prefix(n));
        Entry {
            prefix,
            at: u32_at(self.bytes, n * self.stride + self.stride - 4),
        }
    }

    /// How many of its prefixes, from the first on, are `below`.
    fn count(&self, below: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match below(self.prefix(middle)) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

/// A group of a run, verified.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group<'a> {
    pub run: usize,
    pub number: u32,
    pub entry: Entry,
    pub bytes: GroupBytes<'a>,
    /// Where it begins in the region.
    pub place: PmOff,
}

impl PmTable {
    fn block(&self, run: usize, number: u32, verify: bool) -> Result<Block<'_>> {
        let (piece, head) = (self.piece_of(run), &self.runs[run]);
        let full = block_groups(head.prefix_len);
        let first = number * u32::try_from(full).expect("a block has few");
        let groups = len_of(head.groups - first).min(full);
        let at = place(piece, head.array).plus(u64::from(number) * BLOCK_LEN as u64);
        let stride = head.prefix_len + 4;
        let len = match groups == full {
            true => BLOCK_LEN,
            false => 4 + groups * stride,
        };
        let bytes = self.region().bytes(at, len)?;
        if verify {
            self.check(
                piece.seed,
                at,
                &bytes[4..],
                u32_at(bytes, 0),
                "a block of prefixes",
            )?;
        }
        Ok(Block {
            bytes: &bytes[4..4 + groups * stride],
            first,
            stride,
        })
    }

    /// Number of blocks of a run, and groups of a full one.
    fn blocks(&self, run: usize) -> (u32, u32) {
        let head = &self.runs[run];
        let full = u32::try_from(block_groups(head.prefix_len)).expect("a block has few");
        (head.groups.div_ceil(full), full)
    }

    /// What the prefix layer says about a group.
    pub(crate) fn prefix_entry(&self, run: usize, group: u32, verify: bool) -> Result<Entry> {
        let (_, full) = self.blocks(run);
        Ok(self.block(run, group / full, verify)?.entry(group))
    }

    /// How many groups of a run, from the first on, have prefixes that are `below`; and the block with the
    /// last of them.
    fn count_below(
        &self,
        run: usize,
        verify: bool,
        below: impl Fn(&[u8]) -> bool,
    ) -> Result<(u32, Option<Block<'_>>)> {
        let (blocks, full) = self.blocks(run);
        let (piece, head) = (self.piece_of(run), &self.runs[run]);
        let array = place(piece, head.array);
        if verify && blocks <= BLOCKS_ASKED {
            let len = len_of(blocks) * BLOCK_LEN;
            self.region().prefetch_range(array, len);
        }
        let (mut low, mut high) = (0, blocks);
        while low < high {
            let middle = low.midpoint(high);
            let at = array.plus(u64::from(middle) * BLOCK_LEN as u64 + 4);
            match below(self.region().bytes(at, head.prefix_len)?) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        let wrong = |number: u32| {
            let at = array.plus(u64::from(number) * BLOCK_LEN as u64);
            self.checksum("a block of prefixes", at)
        };
        // The first prefix that is not below, if it begins a block.
        let check_behind = || match low < blocks && below(self.block(run, low, verify)?.prefix(0)) {
            true => Err(wrong(low)),
            false => Ok(()),
        };
        let Some(number) = low.checked_sub(1) else {
            check_behind()?;
            return Ok((0, None));
        };
        let block = self.block(run, number, verify)?;
        let count = block.count(&below);
        if count == 0 {
            return Err(wrong(number));
        }
        if count == block.len() {
            check_behind()?;
        }
        let count = u32::try_from(count).expect("a block has few");
        Ok((number * full + count, Some(block)))
    }

    /// The last group of a run that does not begin behind version `seqno` of `key`; none if the first one
    /// does.
    pub(crate) fn group_with(
        &self,
        run: usize,
        key: &[u8],
        seqno: SeqNo,
        verify: bool,
    ) -> Result<Option<Group<'_>>> {
        let head = &self.runs[run];
        let Some(rest) = key.strip_prefix(head.shared()) else {
            return match key < head.shared() {
                true => Ok(None),
                false => self.group(run, head.groups - 1, verify).map(Some),
            };
        };
        let mut target = [0; PREFIX_MAX];
        let len = rest.len().min(head.prefix_len);
        target[..len].copy_from_slice(&rest[..len]);
        let target = &target[..head.prefix_len];
        let (low, block) = self.count_below(run, verify, |prefix| prefix < target)?;
        let next_is_equal = match block {
            Some(block)
                if low - block.first < u32::try_from(block.len()).expect("a block has few") =>
            {
                block.prefix(len_of(low - block.first)) == target
            }
            _ => {
                low < head.groups
                    && self.prefix_entry(run, low, verify)?.prefix[..head.prefix_len] == *target
            }
        };
        if next_is_equal
            && let Some(group) = self.tied_group(run, low, target, key, seqno, verify)?
        {
            return Ok(Some(group));
        }
        match (low.checked_sub(1), block) {
            (Some(last), Some(block)) => self
                .group_at(run, last, block.entry(last), verify)
                .map(Some),
            _ => Ok(None),
        }
    }

    /// Of the groups from `low` on whose prefixes are `target`, the last that does not begin behind the key.
    fn tied_group(
        &self,
        run: usize,
        low: u32,
        target: &[u8],
        key: &[u8],
        seqno: SeqNo,
        verify: bool,
    ) -> Result<Option<Group<'_>>> {
        let (high, _) = self.count_below(run, verify, |prefix| prefix <= target)?;
        let (mut from, mut to) = (low, high);
        while from < to {
            let middle = from.midpoint(to);
            // Unverified, as the steps of a bisection are: what it ends with is verified below.
            let group = self.group(run, middle, false)?;
            match self.first_order(&group, key, seqno)? {
                Ordering::Greater => to = middle,
                _ => from = middle + 1,
            }
        }
        if verify && to < high {
            let behind = self.group(run, to, true)?;
            if self.first_order(&behind, key, seqno)?.is_le() {
                return Err(self.checksum("a group", behind.place));
            }
        }
        if from == low {
            return Ok(None);
        }
        let last = self.group(run, from - 1, verify)?;
        if verify && self.first_order(&last, key, seqno)?.is_gt() {
            return Err(self.checksum("a group", last.place));
        }
        Ok(Some(last))
    }

    /// How a group's first entry orders against version `seqno` of `key`.
    fn first_order(&self, group: &Group<'_>, key: &[u8], seqno: SeqNo) -> Result<Ordering> {
        let entry = self.first_entry(group)?;
        let first = self.first_key(group, &entry)?;
        let by_key = first.iter().flat_map(|part| part.iter()).cmp(key);
        Ok(by_key.then_with(|| seqno.cmp(&entry.seqno)))
    }

    fn first_entry<'a>(&self, group: &Group<'a>) -> Result<RawEntry<'a>> {
        let mut entries = group.bytes.entries(self.stripped(group.run));
        let entry = entries.next().map_err(|at| self.no_entry(group, at))?;
        entry.ok_or_else(|| self.no_entry(group, NoEntry(GROUP_HEAD)))
    }

    /// How many bytes of first keys a run's groups do not have.
    pub(crate) fn stripped(&self, run: usize) -> usize {
        let head = &self.runs[run];
        head.shared().len() + head.prefix_len
    }

    /// The parts of a group's first key, of which `entry` is the entry.
    pub(crate) fn first_key<'a>(
        &'a self,
        group: &'a Group<'_>,
        entry: &RawEntry<'a>,
    ) -> Result<[&'a [u8]; 3]> {
        let head = &self.runs[group.run];
        let Some(behind) = entry.lead.checked_sub(head.shared().len()) else {
            return Err(self.no_entry(group, NoEntry(GROUP_HEAD)));
        };
        let prefix = &group.entry.prefix[..behind.min(head.prefix_len)];
        Ok([head.shared(), prefix, entry.rest])
    }

    /// A group by its number.
    pub(crate) fn group(&self, run: usize, number: u32, verify: bool) -> Result<Group<'_>> {
        let entry = self.prefix_entry(run, number, verify)?;
        self.group_at(run, number, entry, verify)
    }

    pub(crate) fn group_at(
        &self,
        run: usize,
        number: u32,
        entry: Entry,
        verify: bool,
    ) -> Result<Group<'_>> {
        let piece = self.piece_of(run);
        let at = place(piece, entry.at);
        let room = match entry.at < piece.header.groups_at {
            true => None,
            false => bytes_between(entry.at, piece.header.arrays_at),
        };
        let Some(room) = room.filter(|room| *room > GROUP_HEAD) else {
            let array = place(piece, self.runs[run].array);
            let got = format!("offset {} of the piece", entry.at);
            return Err(self.damaged("the place of a group", array, "one among groups", got));
        };
        let guess = room.min(GROUP_GUESS);
        if verify {
            // All lines that the checksum reads: they arrive together.
            self.region().prefetch_range(at, guess);
        }
        let mut bytes = self.region().bytes(at, guess)?;
        let len = stored_len(bytes);
        if len <= GROUP_HEAD || len > room {
            return Err(self.damaged("length of a group", at, format!("{room} at most"), len));
        }
        bytes = match len <= bytes.len() {
            true => &bytes[..len],
            false => self.region().bytes(at, len)?,
        };
        if verify {
            self.check(piece.seed, at, &bytes[4..], u32_at(bytes, 0), "a group")?;
        }
        let Some(bytes) = GroupBytes::new(bytes) else {
            return Err(self.damaged("entries of a group", at, "1 to 16", "another number"));
        };
        Ok(Group {
            run,
            number,
            entry,
            bytes,
            place: at,
        })
    }

    /// The group before another one of the same family.
    pub(crate) fn before(&self, run: usize, number: u32) -> Option<(usize, u32)> {
        if let Some(number) = number.checked_sub(1) {
            return Some((run, number));
        }
        let before = run.checked_sub(1)?;
        let head = &self.runs[before];
        (head.cf == self.runs[run].cf).then_some((before, head.groups - 1))
    }

    #[cold]
    pub(crate) fn no_entry(&self, group: &Group<'_>, at: NoEntry) -> thermocline_base::Error {
        let at = group.place.plus(at.0 as u64);
        self.damaged("an entry", at, "one", "none")
    }
}

/// Where a target stands against keys that are passed one after the other, each given by what it shares with
/// the one before.
///
/// # Argument
/// Let all keys so far lie before the target, the last one sharing `matched` bytes with it. Of the next key,
/// which shares `lead` bytes with the last: if `lead > matched`, it differs from the target where the last
/// one did, in the same way, and lies before it, too. If `lead < matched`, it is above the last one at byte
/// `lead`, where that had the target's byte: it lies behind the target. If they are equal, the rests decide.
#[derive(Debug)]
pub(crate) struct Matcher<'a> {
    target: &'a [u8],
    matched: usize,
}

impl<'a> Matcher<'a> {
    /// Against a first key in parts, in the order of which it also answers.
    pub fn first(target: &'a [u8], parts: [&[u8]; 3]) -> (Matcher<'a>, Ordering) {
        let mut matched = 0;
        for part in parts {
            let common = shared(&target[matched..], part);
            matched += common;
            if common < part.len() {
                let order = match target.get(matched) {
                    None => Ordering::Greater,
                    Some(byte) => part[common].cmp(byte),
                };
                return (Matcher { target, matched }, order);
            }
        }
        let order = match matched == target.len() {
            true => Ordering::Equal,
            false => Ordering::Less,
        };
        (Matcher { target, matched }, order)
    }

    /// How the next key orders against the target; all before it were not above.
    #[inline]
    pub fn next(&mut self, lead: usize, rest: &[u8]) -> Ordering {
        match lead.cmp(&self.matched) {
            Ordering::Greater => Ordering::Less,
            Ordering::Less => Ordering::Greater,
            Ordering::Equal => {
                let left = &self.target[self.matched..];
                let common = shared(left, rest);
                self.matched += common;
                match (rest.get(common), left.get(common)) {
                    (None, None) => Ordering::Equal,
                    (None, Some(_)) => Ordering::Less,
                    (Some(_), None) => Ordering::Greater,
                    (Some(a), Some(b)) => a.cmp(b),
                }
            }
        }
    }
}
