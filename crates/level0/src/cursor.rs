//! Moving over the entries of a table, both ways.
//!
//! A cursor decodes one group at a time, whole, so that it can go either way; values stay where they are.

use std::ops::Range;

use thermocline_base::numbers::len_of;
use thermocline_base::{BlobRef, Kind, Result, SeqNo};
use thermocline_pm::PmOff;
use thermocline_policy::tuning::{
    GROUP_GUESS, KEY_GUESS, PAGES_AT_ONCE, TRANSLATED_BYTES, VALUES_AHEAD,
};

use crate::format::group::{NoEntry, RawValue};
use crate::search::Group;
use crate::table::{PmPart, PmTable};
use crate::value::{Checksum, Found, FoundValue, Pinned, Value};

/// A place in a part of a table: at an entry (put, delete or merge; range tombstones are the
/// [`PmPart`]'s), or at none. Entries come by user key, then newest first. After an error it is at none.
#[derive(Debug)]
pub struct PmCursor {
    part: PmPart,
    verify: bool,
    group: Decoded,
    /// Which entry of the group; none if the cursor is at none.
    at: Option<usize>,
}

/// A group's entries, keys spelled out.
#[derive(Debug, Default)]
struct Decoded {
    run: usize,
    number: u32,
    /// Where it begins in the region.
    place: u64,
    keys: Vec<u8>,
    entries: Vec<DecodedEntry>,
}

#[derive(Debug)]
struct DecodedEntry {
    key: Range<usize>,
    /// Whether that is the key of the entry before it in the group, too.
    repeats: bool,
    seqno: SeqNo,
    kind: Kind,
    value: RawValue,
}

impl Decoded {
    fn key(&self, n: usize) -> &[u8] {
        &self.keys[self.entries[n].key.clone()]
    }

    /// How many entries lie before version `seqno` of `key`. They ascend ([`Decoded::fill`]).
    fn before(&self, key: &[u8], seqno: SeqNo) -> usize {
        let place = (key, !seqno.0);
        let own = |entry: &DecodedEntry| (&self.keys[entry.key.clone()], !entry.seqno.0);
        self.entries.partition_point(|entry| own(entry) < place)
    }

    fn fill(&mut self, table: &PmTable, group: &Group<'_>) -> Result<()> {
        self.keys.clear();
        self.entries.clear();
        self.keys.reserve(group.bytes.count * KEY_GUESS);
        self.entries.reserve(group.bytes.count);
        self.run = group.run;
        self.number = group.number;
        self.place = group.place.0;
        let mut entries = group.bytes.entries(table.stripped(group.run));
        while let Some(entry) = entries.next().map_err(|at| table.no_entry(group, at))? {
            let begin = self.keys.len();
            let mut repeats = false;
            match self.entries.last() {
                None => {
                    for part in table.first_key(group, &entry)? {
                        self.keys.extend_from_slice(part);
                    }
                }
                Some(last) => {
                    let lead = last.key.start..last.key.start.saturating_add(entry.lead);
                    // Keys ascend within a group: else a seek and a walk would not agree.
                    let next = self.keys[..last.key.end].get(lead.end);
                    let ascends = match (next, entry.rest.first()) {
                        (None, None) => entry.seqno < last.seqno,
                        (None, Some(_)) => true,
                        (Some(old), Some(new)) => old < new,
                        (Some(_), None) => false,
                    };
                    repeats = next.is_none() && entry.rest.is_empty();
                    if lead.end > last.key.end || !ascends {
                        return Err(table.no_entry(group, NoEntry(0)));
                    }
                    self.keys.extend_from_within(lead);
                    self.keys.extend_from_slice(entry.rest);
                }
            }
            self.entries.push(DecodedEntry {
                key: begin..self.keys.len(),
                repeats,
                seqno: entry.seqno,
                kind: entry.kind,
                value: entry.value,
            });
        }
        table.region().check_media()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Forward,
    Back,
}

/// Asks for the next group, which lies behind this one.
fn ask_behind(group: &Group<'_>, table: &PmTable) {
    let end = group.place.plus(group.bytes.len() as u64);
    table.region().prefetch_range(end, GROUP_GUESS);
}

impl PmCursor {
    /// Over `part`, at no entry. Checksums are compared if `verify`.
    pub fn new(part: PmPart, verify: bool) -> PmCursor {
        PmCursor {
            part,
            verify,
            group: Decoded::default(),
            at: None,
        }
    }

    /// The part that it moves over.
    pub fn part(&self) -> &PmPart {
        &self.part
    }

    /// Whether it is at an entry.
    pub fn is_at_entry(&self) -> bool {
        self.at.is_some()
    }

    fn entry(&self) -> (usize, &DecodedEntry) {
        let at = self.at.expect("the cursor is at an entry");
        (at, &self.group.entries[at])
    }

    /// The user key of the entry.
    ///
    /// # Panics
    /// If it is at none, here and below.
    pub fn user_key(&self) -> &[u8] {
        self.group.key(self.entry().0)
    }

    /// The version of the entry.
    pub fn seqno(&self) -> SeqNo {
        self.entry().1.seqno
    }

    /// What the entry says.
    pub fn kind(&self) -> Kind {
        self.entry().1.kind
    }

    /// Its value, where it lies; empty for a delete.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] with region and offset, here and below.
    pub fn value(&self) -> Result<Value<'_>> {
        let table = self.part.table();
        Ok(match &self.entry().1.value {
            RawValue::None => Value::Inline(&[]),
            RawValue::Blob(to) => Value::Blob(*to),
            RawValue::Inline(range) => {
                let at = PmOff(self.group.place + range.start as u64);
                Value::Inline(table.region().bytes(at, range.len())?)
            }
            RawValue::Apart { at, len, crc } => {
                let piece = table.piece_of(self.group.run);
                Value::Inline(table.apart(piece, *at, *len, *crc, self.verify)?)
            }
        })
    }

    /// The reference of the value, if it lies in a blob file.
    pub fn blob(&self) -> Option<BlobRef> {
        match self.entry().1.value {
            RawValue::Blob(to) => Some(to),
            _ => None,
        }
    }

    /// What the entry says, with its value kept where it lies.
    pub fn found(&self) -> Result<Found> {
        let table = self.part.table();
        let entry = self.entry().1;
        let run = self.group.run;
        let value = match (&entry.value, self.value()?) {
            (RawValue::None, _) => FoundValue::None,
            (_, Value::Blob(to)) => FoundValue::Blob(to),
            (RawValue::Apart { at, crc, .. }, Value::Inline(bytes)) => {
                let at = crate::table::place(table.piece_of(run), *at);
                let (place, checksum) = ((at, bytes.len()), Checksum::Own(*crc));
                FoundValue::Inline(Pinned::new(table, run, place, checksum))
            }
            (RawValue::Inline(range), Value::Inline(bytes)) => {
                let group = PmOff(self.group.place);
                let place = (group.plus(range.start as u64), bytes.len());
                FoundValue::Inline(Pinned::new(table, run, place, Checksum::Group(group)))
            }
            (RawValue::Blob(to), Value::Inline(_)) => FoundValue::Blob(*to),
        };
        table.region().check_media()?;
        Ok(Found {
            seqno: entry.seqno,
            kind: entry.kind,
            value,
        })
    }

    /// Goes to the first entry of a group.
    pub(crate) fn enter(&mut self, group: &Group<'_>) -> Result<()> {
        self.at = None;
        self.group.fill(self.part.table(), group)?;
        self.prefetch(0, 0, Way::Forward);
        self.at = Some(0);
        Ok(())
    }

    /// Goes to the next entry of the group, if there is one.
    pub(crate) fn step_within_group(&mut self) -> bool {
        let next = self.at.map_or(0, |at| at + 1);
        let there = next < self.group.entries.len();
        if there {
            self.prefetch(next, 0, Way::Forward);
            self.at = Some(next);
        }
        there
    }

    /// Where in the piece the value lies, and its length, if it lies apart.
    pub(crate) fn apart(&self) -> Option<(u32, u32)> {
        match self.entry().1.value {
            RawValue::Apart { at, len, .. } => Some((at, len)),
            _ => None,
        }
    }

    fn load(&mut self, run: usize, number: u32) -> Result<()> {
        let table = self.part.table();
        let group = table.group(run, number, self.verify)?;
        ask_behind(&group, table);
        self.group.fill(table, &group)
    }

    /// To the first entry. Returns whether there is one, here and below.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] with region and offset, here and below; it is at none then.
    pub fn first(&mut self) -> Result<bool> {
        self.at = None;
        if let Some(lower) = self.part.limits().lower().map(<[u8]>::to_vec) {
            return self.seek_within(&lower, SeqNo::MAX);
        }
        let runs = self.part.table().runs_of(self.part.cf());
        if runs.is_empty() {
            return Ok(false);
        }
        self.load(runs.start, 0)?;
        self.arrive(0, Way::Forward)
    }

    /// To the first entry of that group before which about `part` in `of` of the table's groups of the family lie: to
    /// draw entries. To none if that is outside of the part.
    pub fn go_to_share(&mut self, part: u64, of: u64) -> Result<bool> {
        self.at = None;
        let table = self.part.table();
        let runs = table.runs_of(self.part.cf());
        let groups = |run: usize| u64::from(table.runs[run].groups);
        let all: u64 = runs.clone().map(groups).sum();
        let place = u128::from(all) * u128::from(part) / u128::from(of.max(1));
        let mut left = u64::try_from(place).unwrap_or(u64::MAX);
        for run in runs {
            match u32::try_from(left) {
                Ok(number) if left < groups(run) => {
                    self.load(run, number)?;
                    return self.arrive(0, Way::Forward);
                }
                _ => left -= groups(run).min(left),
            }
        }
        Ok(false)
    }

    /// To the last entry.
    pub fn last(&mut self) -> Result<bool> {
        self.at = None;
        if let Some(upper) = self.part.limits().upper().map(<[u8]>::to_vec) {
            return self.seek_for_prev_within(&upper, SeqNo::MAX);
        }
        let table = self.part.table();
        let runs = table.runs_of(self.part.cf());
        let Some(last) = runs.clone().next_back() else {
            return Ok(false);
        };
        let number = table.runs[last].groups - 1;
        self.load(last, number)?;
        self.arrive(self.group.entries.len() - 1, Way::Back)
    }

    /// To the first entry not before version `seqno` of `user_key`: of that key none newer.
    pub fn seek(&mut self, user_key: &[u8], seqno: SeqNo) -> Result<bool> {
        match self.part.limits().is_below(user_key) {
            true => self.first(),
            false => self.seek_within(user_key, seqno),
        }
    }

    fn seek_within(&mut self, user_key: &[u8], seqno: SeqNo) -> Result<bool> {
        self.at = None;
        if !self.load_with(user_key, seqno)? {
            let runs = self.part.table().runs_of(self.part.cf());
            if runs.is_empty() {
                return Ok(false);
            }
            self.load(runs.start, 0)?;
        }
        let before = self.group.before(user_key, seqno);
        match before < self.group.entries.len() {
            true => self.arrive(before, Way::Forward),
            false => self.next_group(Way::Forward),
        }
    }

    /// To the last entry not behind version `seqno` of `user_key`.
    pub fn seek_for_prev(&mut self, user_key: &[u8], seqno: SeqNo) -> Result<bool> {
        match self.part.limits().is_behind(user_key) {
            true => self.last(),
            false => self.seek_for_prev_within(user_key, seqno),
        }
    }

    fn seek_for_prev_within(&mut self, user_key: &[u8], seqno: SeqNo) -> Result<bool> {
        self.at = None;
        if !self.load_with(user_key, seqno)? {
            return Ok(false);
        }
        let before = self.group.before(user_key, seqno);
        let is_there = before < self.group.entries.len()
            && self.group.key(before) == user_key
            && self.group.entries[before].seqno == seqno;
        match before.checked_sub(usize::from(!is_there)) {
            Some(at) => self.arrive(at, Way::Back),
            None => self.next_group(Way::Back),
        }
    }

    /// Loads the last group of the family that does not begin behind the target, or, where the target's
    /// run begins behind it, that run's first. `false` if all of the family lies behind the target.
    fn load_with(&mut self, user_key: &[u8], seqno: SeqNo) -> Result<bool> {
        let table = self.part.table();
        let Some(run) = table.run_with(self.part.cf(), user_key, seqno) else {
            return Ok(false);
        };
        match table.group_with(run, user_key, seqno, self.verify)? {
            Some(group) => {
                ask_behind(&group, table);
                self.group.fill(table, &group)?;
            }
            None => self.load(run, 0)?,
        }
        Ok(true)
    }

    /// To the next entry; from none, to none.
    #[expect(clippy::should_implement_trait, reason = "it lends, and may fail")]
    pub fn next(&mut self) -> Result<bool> {
        match self.at.take() {
            None => Ok(false),
            Some(at) if at + 1 < self.group.entries.len() => self.settle(at + 1, Way::Forward),
            Some(_) => self.next_group(Way::Forward),
        }
    }

    /// To the newest entry of the next key; from none, to none. Nothing is copied within a group. `left` is memory to use.
    pub fn next_key(&mut self, left: &mut Vec<u8>) -> Result<bool> {
        while let Some(at) = self.at {
            let repeats = match self.group.entries.get(at + 1) {
                Some(next) => {
                    let repeats = next.repeats;
                    self.next()?;
                    repeats
                }
                // Versions of a key may go on in the next group.
                None => {
                    left.clear();
                    left.extend_from_slice(self.group.key(at));
                    self.next()? && self.user_key() == *left
                }
            };
            if !repeats {
                break;
            }
        }
        Ok(self.is_at_entry())
    }

    /// To the entry before; from none, to none.
    pub fn prev(&mut self) -> Result<bool> {
        match self.at.take() {
            None => Ok(false),
            Some(0) => self.next_group(Way::Back),
            Some(at) => self.settle(at - 1, Way::Back),
        }
    }

    /// To the first entry of the next group, or the last of the one before.
    fn next_group(&mut self, way: Way) -> Result<bool> {
        let table = self.part.table();
        let (run, number) = (self.group.run, self.group.number);
        let beside = match way {
            Way::Forward => table.beside(run, number),
            Way::Back => table.before(run, number),
        };
        let Some((run, number)) = beside else {
            return Ok(false);
        };
        self.load(run, number)?;
        self.ask_for_pages(way);
        match way {
            Way::Forward => self.arrive(0, way),
            Way::Back => self.arrive(self.group.entries.len() - 1, way),
        }
    }

    /// At a group to which the cursor has gone on, asks for a line of each page on which values begin, of the first few. The processor
    /// waits for the translation of an address, but for several at a time where they are asked for together.
    fn ask_for_pages(&self, way: Way) {
        let table = self.part.table();
        let piece = table.piece_of(self.group.run);
        let (mut last, mut left) = (None, PAGES_AT_ONCE);
        let mut ask = |entry: &DecodedEntry| {
            if let RawValue::Apart { at, .. } = &entry.value {
                let at = crate::table::place(piece, *at);
                let page = Some(at.0 / TRANSLATED_BYTES);
                if page != last && left > 0 {
                    table.region().prefetch(at);
                    (last, left) = (page, left - 1);
                }
            }
        };
        match way {
            Way::Forward => self.group.entries.iter().for_each(&mut ask),
            Way::Back => self.group.entries.iter().rev().for_each(&mut ask),
        }
    }

    /// Asks for the value of the entry that comes so many behind this one on the way, if it lies apart. Of an entry behind the group it is
    /// taken for as long as the last one here, behind which it lies.
    fn prefetch(&self, at: usize, ahead: usize, way: Way) {
        let entries = &self.group.entries;
        let at = match way {
            Way::Forward => Some(at + ahead),
            Way::Back => at.checked_sub(ahead),
        };
        let Some((at, last)) = at.zip(entries.len().checked_sub(1)) else {
            return;
        };
        if let RawValue::Apart { at: value, len, .. } = &entries[at.min(last)].value {
            let table = self.part.table();
            let behind = at.saturating_sub(last) as u64 * u64::from(*len);
            let value = crate::table::place(table.piece_of(self.group.run), *value);
            let region = table.region();
            region.prefetch_range(value.plus(behind), len_of(*len));
        }
    }

    /// At an entry of a group to which the cursor has come, not by a step within it: asks for the first values, too.
    fn arrive(&mut self, at: usize, way: Way) -> Result<bool> {
        (0..VALUES_AHEAD).for_each(|ahead| self.prefetch(at, ahead, way));
        self.settle(at, way)
    }

    /// At an entry of the table: is it one of the part?
    fn settle(&mut self, at: usize, way: Way) -> Result<bool> {
        self.prefetch(at, VALUES_AHEAD, way);
        self.at = self.part.limits().hold(self.group.key(at)).then_some(at);
        Ok(self.at.is_some())
    }
}
