//! Looking one key up.
//!
//! One descent: the run in DRAM, the group by the prefix layer, the entry by passing over the group, its
//! value where it lies. The next group is looked at only where its prefix says that it may begin with the key.

use std::cmp::Ordering;
use std::sync::Arc;

use thermocline_base::numbers::len_of;
use thermocline_base::{CfId, Kind, Result, SeqNo};

use crate::format::HEADER_LEN;
use crate::format::group::RawValue;
use crate::search::{Group, Matcher};
use crate::table::{Piece, PmPart, PmTable, bytes_between, place};
use crate::value::{Checksum, Found, FoundValue, Pinned};

/// An entry that a lookup found.
struct Hit {
    seqno: SeqNo,
    kind: Kind,
    value: FoundValue,
}

impl PmPart {
    /// The newest that the part says about `user_key` at or below `seqno`: an entry, or a range tombstone.
    /// Checksums are compared if `verify`; a value is where it lies, and not copied.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] with region and offset.
    pub fn get(&self, user_key: &[u8], seqno: SeqNo, verify: bool) -> Result<Option<Found>> {
        // Of a key within the limits the whole table says what the part says: a cut leaves its entries, and the seqno of what
        // covers it.
        match self.limits().hold(user_key) {
            true => self.table().get(self.cf(), user_key, seqno, verify),
            false => Ok(None),
        }
    }
}

/// What passing over a group ended with.
enum Passed {
    /// The entry.
    Hit(Hit),
    /// A key behind the one looked for.
    Behind,
    /// Nothing of either: the next group may have it.
    End,
}

impl PmTable {
    /// As [`PmPart::get`], of all that the table has of a family. The table is not held for that, unless by a value that is
    /// found: that a table has no entry of a key writes to no count that threads share.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] with region and offset.
    pub fn get(
        self: &Arc<PmTable>,
        cf: CfId,
        user_key: &[u8],
        seqno: SeqNo,
        verify: bool,
    ) -> Result<Option<Found>> {
        // Nothing has the greatest seqno, and as a target it stands before all versions.
        let seqno = seqno.min(SeqNo(u64::MAX - 1));
        let hit = match self.run_with(cf, user_key, seqno) {
            None => None,
            Some(run) => self.find(run, user_key, seqno, verify)?,
        };
        self.region().check_media()?;
        let covered = self.covered_at(cf, user_key, seqno);
        if let Some(seqno) = covered.filter(|s| hit.as_ref().is_none_or(|hit| hit.seqno < *s)) {
            return Ok(Some(Found {
                seqno,
                kind: Kind::RangeDelete,
                value: FoundValue::None,
            }));
        }
        Ok(hit.map(|Hit { seqno, kind, value }| Found { seqno, kind, value }))
    }

    /// The first entry of `key` from version `seqno` on, looked for in a run.
    fn find(
        self: &Arc<PmTable>,
        run: usize,
        key: &[u8],
        seqno: SeqNo,
        verify: bool,
    ) -> Result<Option<Hit>> {
        let mut group = match self.group_with(run, key, seqno, verify)? {
            Some(group) => group,
            // It begins behind the target, perhaps with an older version of the key.
            None => self.group(run, 0, verify)?,
        };
        loop {
            match self.find_in(&group, key, seqno, verify)? {
                Passed::Hit(hit) => return Ok(Some(hit)),
                Passed::Behind => return Ok(None),
                Passed::End => {}
            }
            // Behind the end of a group its key may go on, or the key looked for begin with a version that
            // is older than the one asked for.
            match self.next_with(&group, key, verify)? {
                Some(next) => group = next,
                None => return Ok(None),
            }
        }
    }

    /// The next group, if it may begin with `key`.
    fn next_with(&self, group: &Group<'_>, key: &[u8], verify: bool) -> Result<Option<Group<'_>>> {
        let Some((run, number)) = self.beside(group.run, group.number) else {
            return Ok(None);
        };
        let head = &self.runs[run];
        if number == 0 && !head.is_from(head.cf, key, SeqNo(0)) {
            return Ok(None);
        }
        let Some(rest) = key.strip_prefix(head.shared()) else {
            return Ok(None);
        };
        let entry = self.prefix_entry(run, number, verify)?;
        let len = rest.len().min(head.prefix_len);
        let is_equal =
            entry.prefix[..len] == rest[..len] && entry.prefix[len..].iter().all(|b| *b == 0);
        match is_equal {
            true => self.group_at(run, number, entry, verify).map(Some),
            false => Ok(None),
        }
    }

    /// The group behind another one of the same family.
    pub(crate) fn beside(&self, run: usize, number: u32) -> Option<(usize, u32)> {
        if number + 1 < self.runs[run].groups {
            return Some((run, number + 1));
        }
        let next = self.runs.get(run + 1)?;
        (next.cf == self.runs[run].cf).then_some((run + 1, 0))
    }

    fn find_in(
        self: &Arc<PmTable>,
        group: &Group<'_>,
        key: &[u8],
        seqno: SeqNo,
        verify: bool,
    ) -> Result<Passed> {
        let mut entries = group.bytes.entries(self.stripped(group.run));
        let mut matcher: Option<Matcher<'_>> = None;
        while let Some(entry) = entries.next().map_err(|at| self.no_entry(group, at))? {
            let order = match &mut matcher {
                Some(matcher) => matcher.next(entry.lead, entry.rest),
                None => {
                    let parts = self.first_key(group, &entry)?;
                    let (first, order) = Matcher::first(key, parts);
                    matcher = Some(first);
                    order
                }
            };
            match order {
                Ordering::Less => {}
                Ordering::Greater => return Ok(Passed::Behind),
                Ordering::Equal if entry.seqno > seqno => {}
                Ordering::Equal => {
                    let value = self.found_value(group, &entry.value, verify)?;
                    let (seqno, kind) = (entry.seqno, entry.kind);
                    return Ok(Passed::Hit(Hit { seqno, kind, value }));
                }
            }
        }
        Ok(Passed::End)
    }

    fn found_value(
        self: &Arc<PmTable>,
        group: &Group<'_>,
        value: &RawValue,
        verify: bool,
    ) -> Result<FoundValue> {
        Ok(match value {
            RawValue::None => FoundValue::None,
            RawValue::Blob(to) => FoundValue::Blob(*to),
            RawValue::Inline(range) => {
                let at = group.place.plus(range.start as u64);
                let place = (at, range.len());
                let checksum = Checksum::Group(group.place);
                FoundValue::Inline(Pinned::new(self, group.run, place, checksum))
            }
            RawValue::Apart { at, len, crc } => {
                let piece = self.piece_of(group.run);
                if verify {
                    let at = place(piece, *at);
                    self.region().prefetch_range(at, len_of(*len));
                }
                let bytes = self.apart(piece, *at, *len, *crc, verify)?;
                let place = (place(piece, *at), bytes.len());
                FoundValue::Inline(Pinned::new(self, group.run, place, Checksum::Own(*crc)))
            }
        })
    }

    /// The bytes of a value that lies apart, for which the caller has asked.
    pub(crate) fn apart(
        &self,
        piece: &Piece,
        at: u32,
        len: u32,
        crc: u32,
        verify: bool,
    ) -> Result<&[u8]> {
        let len = len_of(len);
        let room = bytes_between(at, piece.header.groups_at);
        if room.is_none_or(|room| len > room) || len_of(at) < HEADER_LEN {
            let got = format!("{len} bytes at offset {at} of the piece");
            return Err(self.damaged("the place of a value", piece.base, "one among values", got));
        }
        let at = place(piece, at);
        let bytes = self.region().bytes(at, len)?;
        if verify {
            self.check(piece.seed, at, bytes, crc, "a value")?;
        }
        Ok(bytes)
    }
}
