//! Reading: point lookups, and a cursor that merges the generations of a view.
//!
//! A cursor registers the seqno that was visible when it was made and holds the view: it sees one
//! moment of the store for as long as it lives. Each generation is scanned in chunks (no epoch
//! guard outlives a call); of equal keys the newest generation's record wins, and a tombstone hides
//! the key. Checksums are verified when a record is about to be acted on, tombstones included.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use thermocline_base::size::index;
use thermocline_base::{CfId, Kind, Result, SeqNo};
use thermocline_memtable::{Direction, Lookup, Memtable, RecordRef, ScanEntry};

use crate::metrics::Count;
use crate::open::{Engine, Inner};
use crate::view::View;

/// Entries of a cursor's first chunk from each generation; later ones double up to the option.
const FIRST_CHUNK: usize = 16;

impl Engine {
    /// Calls `found` with the value of `key`, where it lies; `None` if there is none.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] naming region and offset.
    pub fn get<T>(
        &self,
        cf: CfId,
        key: &[u8],
        found: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>> {
        let inner = &*self.inner;
        inner.counted.add(Count::Gets, 1);
        let verify = inner.options.read.verify_checksums != 0;
        // Visible first, then the view: a generation that came later holds only what was not
        // visible when we began, or is found by asking again inside `get_latest`.
        let view = inner.view.load();
        for memtable in &view.memtables {
            let Lookup::Record(record) = memtable.get_latest(cf, key, &inner.visible, verify)?
            else {
                continue;
            };
            let value = (record.kind == Kind::Put).then(|| found(record.value));
            inner.space.region().check_media()?;
            inner.counted.add(Count::Found, u64::from(value.is_some()));
            return Ok(value);
        }
        Ok(None)
    }

    /// A cursor over family `cf` at what is visible now, not yet at any key.
    pub fn cursor(&self, cf: CfId) -> Cursor {
        let inner = self.inner.clone();
        let seqno = inner.readers.register(&inner.visible);
        let view = inner.view.load_full();
        let sources = view.memtables.iter().map(|_| Source::default()).collect();
        Cursor {
            chunk_max: index(inner.options.read.readahead),
            verify: inner.options.read.verify_checksums != 0,
            inner,
            view,
            cf,
            seqno,
            sources,
            direction: Direction::Forward,
            valid: false,
            key: Vec::new(),
            value: Vec::new(),
        }
    }
}

/// A position in one column family, at one moment of the store.
#[derive(Debug)]
pub struct Cursor {
    inner: Arc<Inner>,
    view: Arc<View>,
    cf: CfId,
    seqno: SeqNo,
    /// One for each generation of the view, newest first.
    sources: Vec<Source>,
    direction: Direction,
    valid: bool,
    key: Vec<u8>,
    value: Vec<u8>,
    chunk_max: usize,
    verify: bool,
}

/// The records of one generation from the cursor's position on.
#[derive(Debug, Default)]
struct Source {
    chunk: Vec<ScanEntry>,
    at: usize,
    /// Whether there may be records behind the chunk.
    more: bool,
    chunk_len: usize,
}

impl Source {
    fn restart(
        &mut self,
        memtable: &Memtable,
        reader: (CfId, SeqNo),
        from: Bound<&[u8]>,
        direction: Direction,
        chunk_max: usize,
    ) -> Result<()> {
        self.chunk_len = FIRST_CHUNK.min(chunk_max);
        self.fill(memtable, reader, from, direction)
    }

    fn fill(
        &mut self,
        memtable: &Memtable,
        (cf, seqno): (CfId, SeqNo),
        from: Bound<&[u8]>,
        direction: Direction,
    ) -> Result<()> {
        self.chunk.clear();
        self.at = 0;
        self.more = memtable.scan(cf, from, direction, seqno, self.chunk_len, &mut self.chunk)?;
        Ok(())
    }

    /// The record that is next, if any.
    fn head<'m>(&self, memtable: &'m Memtable) -> Result<Option<RecordRef<'m>>> {
        match self.chunk.get(self.at) {
            None => Ok(None),
            Some(entry) => memtable.record(entry.at, false).map(Some),
        }
    }

    fn advance(
        &mut self,
        memtable: &Memtable,
        reader: (CfId, SeqNo),
        direction: Direction,
        chunk_max: usize,
    ) -> Result<()> {
        self.at += 1;
        if self.at < self.chunk.len() || !self.more {
            return Ok(());
        }
        let last = memtable.record(self.chunk[self.at - 1].at, false)?;
        self.chunk_len = (self.chunk_len * 2).min(chunk_max);
        self.fill(memtable, reader, Bound::Excluded(last.key), direction)
    }
}

impl Cursor {
    /// Goes to the first key at or after `key`. Returns whether there is one.
    ///
    /// # Errors
    /// [`thermocline_base::Error::Corruption`] naming region and offset; the cursor is then at no
    /// key. So for all moves.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.start(Bound::Included(key), Direction::Forward)
    }

    /// Goes to the last key at or before `key`.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool> {
        self.start(Bound::Included(key), Direction::Reverse)
    }

    /// Goes to the first key behind `key`, or before it for the reverse direction.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn seek_past(&mut self, key: &[u8], direction: Direction) -> Result<bool> {
        self.start(Bound::Excluded(key), direction)
    }

    /// Goes to the first key of all.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn seek_to_first(&mut self) -> Result<bool> {
        self.start(Bound::Unbounded, Direction::Forward)
    }

    /// Goes to the last key of all.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn seek_to_last(&mut self) -> Result<bool> {
        self.start(Bound::Unbounded, Direction::Reverse)
    }

    /// Goes to the next key. `false`, and at no key, if there is none or it was at none.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    #[expect(
        clippy::should_implement_trait,
        reason = "a cursor lends its key and value"
    )]
    pub fn next(&mut self) -> Result<bool> {
        self.step(Direction::Forward)
    }

    /// Goes to the key before.
    ///
    /// # Errors
    /// As [`Cursor::seek`].
    pub fn prev(&mut self) -> Result<bool> {
        self.step(Direction::Reverse)
    }

    /// Whether it is at a key.
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The key it is at; empty if at none.
    pub fn key(&self) -> &[u8] {
        if self.valid { &self.key } else { &[] }
    }

    /// The value of that key.
    pub fn value(&self) -> &[u8] {
        if self.valid { &self.value } else { &[] }
    }

    /// Another cursor over the same family at the same moment, not yet at any key.
    pub fn sibling(&self) -> Cursor {
        self.inner.readers.join(self.seqno);
        Cursor {
            inner: self.inner.clone(),
            view: self.view.clone(),
            sources: self.sources.iter().map(|_| Source::default()).collect(),
            key: Vec::new(),
            value: Vec::new(),
            direction: Direction::Forward,
            valid: false,
            ..*self
        }
    }

    fn step(&mut self, direction: Direction) -> Result<bool> {
        if !self.valid {
            return Ok(false);
        }
        if direction == self.direction {
            return self.settle();
        }
        let key = std::mem::take(&mut self.key);
        self.start(Bound::Excluded(&key), direction)
    }

    fn start(&mut self, from: Bound<&[u8]>, direction: Direction) -> Result<bool> {
        self.valid = false;
        self.direction = direction;
        let reader = (self.cf, self.seqno);
        for (source, memtable) in self.sources.iter_mut().zip(&self.view.memtables) {
            source.restart(memtable, reader, from, direction, self.chunk_max)?;
        }
        self.settle()
    }

    /// Takes the next key that has a value.
    fn settle(&mut self) -> Result<bool> {
        self.valid = false;
        let reader = (self.cf, self.seqno);
        let view = self.view.clone();
        loop {
            let Some((newest, first)) = self.first_head(&view)? else {
                return Ok(false);
            };
            let memtable = &view.memtables[newest];
            let record = memtable.record(first.at, self.verify)?;
            self.inner.space.region().check_media()?;
            for (source, older) in self.sources.iter_mut().zip(&view.memtables).skip(newest) {
                if source
                    .head(older)?
                    .is_some_and(|head| head.key == record.key)
                {
                    source.advance(older, reader, self.direction, self.chunk_max)?;
                }
            }
            if record.kind != Kind::Put {
                continue;
            }
            self.key.clear();
            self.key.extend_from_slice(record.key);
            self.value.clear();
            self.value.extend_from_slice(record.value);
            self.inner.space.region().check_media()?;
            self.valid = true;
            return Ok(true);
        }
    }

    /// The head that comes first, and which source has it; of equal keys the newest.
    fn first_head<'m>(&self, view: &'m View) -> Result<Option<(usize, RecordRef<'m>)>> {
        let mut first: Option<(usize, RecordRef<'m>)> = None;
        for (i, (source, memtable)) in self.sources.iter().zip(&view.memtables).enumerate() {
            let Some(head) = source.head(memtable)? else {
                continue;
            };
            let sooner = first.as_ref().is_none_or(|(_, best)| match self.direction {
                Direction::Forward => head.key < best.key,
                Direction::Reverse => head.key > best.key,
            });
            if sooner {
                first = Some((i, head));
            }
        }
        Ok(first)
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.inner.readers.leave(self.seqno);
    }
}

impl Engine {
    /// Whether both are handles of one open store.
    pub fn is_same(&self, other: &Engine) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The last seqno that readers see.
    pub fn visible(&self) -> SeqNo {
        SeqNo(self.inner.visible.load(Ordering::Acquire))
    }
}
