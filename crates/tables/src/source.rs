//! A cursor's place in a run of tables: one table, or the tables of a level in key order.
//!
//! It shows, of each user key, the newest entry that the reader may see, in either direction. Whether a
//! range tombstone is newer it can be asked, about its own entry ([`TableSource::is_covered`]) and about
//! any key of older runs that comes next ([`TableSource::edge_of_covered`]): every table that has such a key in
//! its range was entered by then, since the tables of a run are entered in their order; those that have
//! range tombstones are kept until what comes next lies behind them.
//!
//! A table that lies behind all that a cursor is asked for ([`Course::until`]) is not entered, and within a table no more than the first key that lies there
//! is looked at. The source waits before it, with no key, and goes on if more is asked for later ([`TableSource::resume`]).
//!
//! # Tables that are passed over
//! Where all that is asked for begins alike, a table may be passed over whose filter says that no key of its entries does
//! ([`denied_prefix`](thermocline_sst::Table::denied_prefix)): none of its blocks is read.
//! 1. *No entry is missed.* The filter denies no prefix that the file has, so a part of the file has none either, at whatever seqno. The next table of the run
//!    is asked as well, since a reference may end where no key is; where that lies behind what is asked for, the source stands nowhere.
//! 2. *No range tombstone is missed.* A table that has any is entered, whatever they cover: what lies in older tables is covered by tables that were entered.
//! 3. *It comes back.* The next move may ask for more, in this direction. The source has shown no key since it was placed, so it is placed there anew: not
//!    at the prefix, since parts of a file may end within that, and others of the run have such keys. Nor is it enough that all begins so still: the
//!    table behind those that were passed over may be asked for now. For the other direction a cursor places all sources anew.

use std::collections::VecDeque;
use std::ops::Bound;

use thermocline_base::chunked::Position;
use thermocline_base::numbers::first_bytes;
use thermocline_base::planted::{Bug, active};
use thermocline_base::{BlobRef, CfId, Kind, Result, SeqNo};
use thermocline_exec::RangeBuf;
use thermocline_memtable::Direction;
use thermocline_policy::tuning::FIRST_READS;
use thermocline_sst::{KeyRef, Move, Value};
use thermocline_version::TableRef;

use super::ahead::{FirstPiece, TableBlocks};
use super::runs::Run;
use super::values::ValuesAhead;
use crate::any::{AnyCursor, AnyPart};
use crate::course::{Course, PassedOver, first_move};
use crate::{Tables, ToScan};
use std::sync::Arc;

/// See the [module](self).
#[derive(Debug)]
pub struct TableSource {
    tables: Arc<Tables>,
    cf: CfId,
    /// In key order.
    run: Run,
    /// Which of them the cursor is in.
    at: Position,
    cursor: Option<AnyCursor<TableBlocks>>,
    /// The first bytes of the key of the entry at which the cursor stands ([`first_bytes`]), if that shows: most comparisons end there.
    there: Option<u64>,
    /// The table that was not entered, since all of it lies behind what is asked for.
    waits: Option<Position>,
    /// If tables were passed over since all that was asked for begins alike, and none was entered.
    denied: Option<PassedOver>,
    /// Whether the cursor stands at the first key of its table that lies behind what is asked for. Whether that shows is not known.
    paused: bool,
    /// The tables with range tombstones that were entered, by their places in the run.
    covers: VecDeque<(Position, AnyPart)>,
    /// Reads what the tables refer to. It is made when a value is asked for: most sources are never asked, and a scan may make its own.
    values: Option<Box<ValuesAhead>>,
    /// A key that the cursor leaves or seeks, copied: no memory is asked for in each step.
    left: Vec<u8>,
}

/// What became of a table that was to be entered.
enum Entered {
    Yes,
    /// There is none, or it is not asked for.
    No,
    /// It has nothing that begins with this, as all does that is asked for.
    Denied(Vec<u8>),
}

/// The entry at which a source stands.
#[derive(Debug, Clone, Copy)]
pub struct TableHead<'a> {
    pub key: &'a [u8],
    pub kind: Kind,
    pub value: Value<'a>,
}

/// Reads what the sources will need first, if that is more than one read: at once.
fn read_first(tables: &Tables, sources: &[TableSource], wanted: &[(usize, FirstPiece)]) {
    if wanted.len() < 2 {
        return;
    }
    // Not more at a time, since each is an open file.
    for some in wanted.chunks(FIRST_READS) {
        let files = some.iter().map(|(_, piece)| piece.file());
        // Those that do not open say so when they are read alone.
        let files: Vec<_> = files.map(Result::ok).collect();
        let reads = some.iter().zip(&files);
        let reads: Vec<_> = reads
            .filter_map(|((_, piece), file)| Some(piece.read(&**file.as_ref()?)))
            .collect();
        let mut answers = tables.files.reader().read(&reads).into_iter();
        for ((of, piece), file) in some.iter().zip(&files) {
            let bytes = file.as_ref().and_then(|_| answers.next()?.ok());
            sources[*of].give_first(piece, bytes);
        }
    }
}

/// Places all sources of a cursor, as [`TableSource::restart`] does each: what they read first they read
/// at once.
pub fn place(sources: &mut [TableSource], from: Bound<&[u8]>, course: Course<'_>) -> Result<()> {
    let mut wanted = Vec::new();
    for (n, source) in sources.iter_mut().enumerate() {
        let piece = source.foresee(from, course)?;
        wanted.extend(piece.map(|piece| (n, piece)));
    }
    if let Some(first) = sources.first() {
        read_first(&first.tables, sources, &wanted);
    }
    for source in sources {
        source.arrive(from, course)?;
    }
    Ok(())
}

/// One source for each run of a family, newest first.
pub fn sources(tables: &Arc<Tables>, cf: CfId) -> Vec<TableSource> {
    let source = |run: &Run| TableSource {
        tables: tables.clone(),
        cf,
        run: run.clone(),
        at: Position::default(),
        cursor: None,
        there: None,
        waits: None,
        denied: None,
        paused: false,
        covers: VecDeque::new(),
        values: None,
        left: Vec::new(),
    };
    tables.runs(cf).iter().map(source).collect()
}

impl TableSource {
    /// The entry at which it stands, with its value checked.
    pub fn head(&self) -> Result<Option<TableHead<'_>>> {
        let Some(cursor) = self.cursor.as_ref().filter(|_| self.there.is_some()) else {
            return Ok(None);
        };
        Ok(Some(TableHead {
            key: cursor.key().user_key,
            kind: cursor.kind(),
            value: cursor.value()?,
        }))
    }

    /// The value of its entry, to which that refers: read together with those of entries that come next on this course.
    ///
    /// # Errors
    /// As [`TableFiles::read_blob`](crate::TableFiles::read_blob).
    ///
    /// # Panics
    /// If it stands at no entry: who has a reference has it from [`TableSource::head`].
    pub fn read_value(&mut self, blob: BlobRef, course: Course<'_>) -> Result<Vec<u8>> {
        let cursor = self.cursor.as_ref().filter(|_| self.there.is_some());
        let cursor = cursor.expect("it stands at an entry");
        let is_back = course.direction == Direction::Reverse;
        let of = (self.cf, cursor.key().user_key);
        let (tables, level) = (&self.tables, self.run.level);
        let ahead = || Box::new(ValuesAhead::new(tables.files.clone(), level));
        let values = self.values.get_or_insert_with(ahead);
        values.read(of, blob, |each| {
            // Persistent memory has references to long values only (`blob.inline_bytes_max`).
            if let AnyCursor::File(cursor) = cursor {
                cursor.look_ahead(is_back, |key, _, value| match value {
                    _ if course.is_over(key.user_key) => false,
                    Value::Blob(blob) => each(key.user_key.len(), blob),
                    Value::Inline(_) => true,
                });
            }
        })
    }

    /// The table that it is in.
    pub fn table(&self) -> Option<&TableRef> {
        Some(self.run.get(self.at)?)
    }

    /// The key at which it stands.
    pub fn key(&self) -> Option<&[u8]> {
        let cursor = self.cursor.as_ref().filter(|_| self.there.is_some())?;
        Some(cursor.key().user_key)
    }

    /// The first bytes of that key.
    #[inline]
    pub fn prefix(&self) -> Option<u64> {
        self.there
    }

    /// Whether filters have kept it from all tables that it was to enter.
    pub fn has_passed_over(&self) -> bool {
        self.denied.is_some()
    }

    /// Whether it may cover anything.
    #[inline]
    pub fn has_covers(&self) -> bool {
        !self.covers.is_empty()
    }

    /// How many tables it keeps, since their range tombstones may cover what comes next.
    pub fn covers_kept(&self) -> usize {
        self.covers.len()
    }

    /// `key` comes next of all sources in this direction: forgets the range tombstones of tables that lie before it on this way.
    pub fn forget_passed(&mut self, key: &[u8], direction: Direction) {
        let run = &self.run;
        let is_past = |(at, _): &(Position, AnyPart)| {
            let table = run.get(*at).expect("a table that was entered");
            match direction {
                Direction::Forward => table.range.ends_before(key),
                Direction::Reverse => *key < *table.range.first,
            }
        };
        while self.covers.front().is_some_and(is_past) {
            self.covers.pop_front();
        }
    }

    /// If a range tombstone at or below `seqno` covers `key`, which comes next in this direction of any
    /// run below: where the keys that it covers end. Forwards that is the first key behind them, backwards
    /// the first of them.
    pub fn edge_of_covered(
        &mut self,
        key: &[u8],
        direction: Direction,
        seqno: SeqNo,
    ) -> Option<Vec<u8>> {
        self.forget_passed(key, direction);
        let over = |key: &[u8]| {
            let mut covers = self.covers.iter();
            covers.find_map(|(_, part)| part.covering(key, seqno))
        };
        let mut covering = over(key)?;
        // Those that begin where others end count as one.
        if direction == Direction::Reverse {
            let reaching = |key: &[u8]| {
                let mut covers = self.covers.iter();
                covers.find_map(|(_, part)| part.reaching(key, seqno))
            };
            while let Some(before) = reaching(covering.start) {
                covering = before;
            }
            return Some(covering.start.to_vec());
        }
        while let Some(next) = over(covering.end) {
            covering = next;
        }
        Some(covering.end.to_vec())
    }

    /// Whether a range tombstone of its table, at or below `seqno`, is newer than the entry at which it
    /// stands.
    pub fn is_covered(&self, seqno: SeqNo) -> bool {
        let Some(cursor) = self.cursor.as_ref().filter(|_| self.there.is_some()) else {
            return false;
        };
        // If its table has any, it is the last that was entered.
        let (key, last) = (cursor.key(), self.covers.back());
        last.is_some_and(|(at, part)| {
            let covering = part.covering(key.user_key, seqno);
            *at == self.at && covering.is_some_and(|t| t.seqno > key.seqno)
        })
    }

    /// Goes to where there is nothing.
    pub fn end(&mut self) {
        (self.there, self.cursor, self.waits) = (None, None, None);
        (self.paused, self.denied) = (false, None);
        self.covers.clear();
        if let Some(values) = &mut self.values {
            values.begin();
        }
    }

    /// Goes to the first key from the bound on, on this course, that shows.
    pub fn restart(&mut self, from: Bound<&[u8]>, course: Course<'_>) -> Result<()> {
        self.enter_first(from, course)?;
        self.arrive(from, course)
    }

    /// If it waits before a key or a table, goes on as far as is asked for now.
    #[inline]
    pub fn resume(&mut self, course: Course<'_>) -> Result<()> {
        if std::mem::take(&mut self.paused) {
            return self.settle(course);
        }
        if self.denied.is_some() {
            return self.come_back(course);
        }
        if let Some(at) = self.waits
            && let Entered::Yes = self.enter(Some(at), course, None)?
        {
            self.go(first_move(Bound::Unbounded, course.direction))?;
            self.settle(course)?;
        }
        Ok(())
    }

    /// If more is asked for than tables were passed over for, goes to what they have of it.
    fn come_back(&mut self, course: Course<'_>) -> Result<()> {
        let Some(denied) = self.denied.take() else {
            return Ok(());
        };
        let next = self.waits.and_then(|at| self.run.get(at));
        let is_all = denied.is_all(course) && next.is_none_or(|table| course.is_over_before(table));
        if is_all || active(Bug::PassedOverForGood) {
            self.denied = Some(denied);
            return Ok(());
        }
        self.restart(denied.place(), course)
    }

    /// Enters the table in which [`TableSource::arrive`] will begin. Returns what that will read first,
    /// if it reads.
    fn foresee(&mut self, from: Bound<&[u8]>, course: Course<'_>) -> Result<Option<FirstPiece>> {
        self.enter_first(from, course)?;
        let Some(AnyCursor::File(cursor)) = &mut self.cursor else {
            return Ok(None);
        };
        let block = cursor.foresee(first_move(from, course.direction))?;
        Ok(block.and_then(|handle| cursor.source().first_piece(handle)))
    }

    /// What was read of what it will need first.
    pub fn give_first(&self, piece: &FirstPiece, bytes: Option<RangeBuf>) {
        if let Some(AnyCursor::File(cursor)) = &self.cursor {
            cursor.source().give_first(piece, bytes);
        }
    }

    fn enter_first(&mut self, from: Bound<&[u8]>, course: Course<'_>) -> Result<()> {
        self.end();
        let key = match from {
            Bound::Included(key) | Bound::Excluded(key) => Some(key),
            Bound::Unbounded => None,
        };
        let run = &self.run;
        let first = match (course.direction, key) {
            (Direction::Forward, None) => Some(Position::default()),
            (Direction::Forward, Some(key)) => Some(run.position(|t| t.range.ends_before(key))),
            (Direction::Reverse, None) => run.place_before(run.end()),
            (Direction::Reverse, Some(key)) => {
                run.place_before(run.position(|t| *t.range.first <= *key))
            }
        };
        let mut at = first;
        loop {
            match self.enter(at, course, Some(from))? {
                Entered::Denied(prefix) => self.denied = Some(PassedOver::new(from, prefix)),
                Entered::No => return Ok(()),
                Entered::Yes => {
                    self.denied = None;
                    return Ok(());
                }
            }
            at = at.and_then(|at| self.beside(at, course.direction));
        }
    }

    /// The place that comes after `at` in this direction.
    fn beside(&self, at: Position, direction: Direction) -> Option<Position> {
        match direction {
            Direction::Forward => Some(self.run.place_after(at)),
            Direction::Reverse => self.run.place_before(at),
        }
    }

    /// In the table that was entered for it, and those behind it, goes to the first key that shows.
    fn arrive(&mut self, from: Bound<&[u8]>, course: Course<'_>) -> Result<()> {
        self.go(first_move(from, course.direction))?;
        self.settle(course)
    }

    /// Goes on to the next key.
    pub fn advance(&mut self, course: Course<'_>) -> Result<()> {
        self.there = None;
        self.leave_key(course.direction)?;
        self.settle(course)
    }

    /// Opens table `at` of the run, if there is one and it is asked for: to be placed in it from a bound on, or to go on.
    fn enter(
        &mut self,
        at: Option<Position>,
        course: Course<'_>,
        from: Option<Bound<&[u8]>>,
    ) -> Result<Entered> {
        (self.cursor, self.waits) = (None, None);
        let Some(at) = at else {
            return Ok(Entered::No);
        };
        let Some(table) = self.run.get(at) else {
            return Ok(Entered::No);
        };
        if course.is_over_before(table) {
            self.waits = Some(at);
            return Ok(Entered::No);
        }
        let way = (course.direction, from.map(|from| course.range_from(from)));
        let opened = self
            .tables
            .open_to_scan(self.cf, table, self.run.level, way)?;
        let (cursor, covers) = match opened {
            ToScan::Open(cursor, covers) => (cursor, covers),
            ToScan::Denied(prefix) => return Ok(Entered::Denied(prefix)),
        };
        self.covers.extend(covers.map(|part| (at, part)));
        self.cursor = Some(cursor);
        self.at = at;
        Ok(Entered::Yes)
    }

    fn go(&mut self, to: Move<'_>) -> Result<bool> {
        match &mut self.cursor {
            Some(cursor) => cursor.go(to),
            None => Ok(false),
        }
    }

    /// Moves behind all versions of the key at hand.
    fn leave_key(&mut self, direction: Direction) -> Result<()> {
        let Some(cursor) = self.cursor.as_mut().filter(|c| c.is_at_entry()) else {
            return Ok(());
        };
        let key = &mut self.left;
        match direction {
            Direction::Forward => {
                cursor.next_key(key)?;
            }
            Direction::Reverse => {
                key.clear();
                key.extend_from_slice(cursor.key().user_key);
                cursor.go(Move::SeekForPrev(KeyRef::new(key, SeqNo::MAX)))?;
            }
        }
        Ok(())
    }

    /// From where the cursor is, finds the first entry that shows, as far as is asked for.
    fn settle(&mut self, course: Course<'_>) -> Result<()> {
        let Course {
            direction, seqno, ..
        } = course;
        loop {
            let Some(cursor) = &mut self.cursor else {
                return Ok(());
            };
            if !cursor.is_at_entry() {
                let next = self.beside(self.at, direction);
                let Entered::Yes = self.enter(next, course, None)? else {
                    return Ok(());
                };
                self.go(first_move(Bound::Unbounded, direction))?;
                continue;
            }
            let here = cursor.key();
            // Before it is known whether it shows: behind it there may be very many that do not.
            if course.is_over(here.user_key) {
                self.paused = true;
                return Ok(());
            }
            // Forwards it stands at the newest version, backwards at the oldest.
            if direction == Direction::Forward && here.seqno <= seqno {
                self.there = Some(first_bytes(here.user_key));
                return Ok(());
            }
            let key = &mut self.left;
            key.clear();
            key.extend_from_slice(here.user_key);
            if cursor.go(Move::Seek(KeyRef::new(key, seqno)))? && cursor.key().user_key == *key {
                self.there = Some(first_bytes(key));
                return Ok(());
            }
            // Forwards the seek has gone behind all versions.
            if direction == Direction::Reverse {
                cursor.go(Move::SeekForPrev(KeyRef::new(key, SeqNo::MAX)))?;
            }
        }
    }
}
