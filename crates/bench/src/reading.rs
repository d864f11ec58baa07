//! The reading workloads.

use std::hint::black_box;
use std::sync::Arc;

use thermocline::{Cursor, Db, Error, Result};

use crate::depth::at_once;
use crate::distribution::Draw;
use crate::keys::KeyMaker;
use crate::plan::Plan;
use crate::threads::{Pace, Share, Tally};
use crate::workload::{Operation, Workload};

/// Entries of a sequential read that share one reading of the clock.
pub(crate) const SEQUENTIAL_GROUP: u64 = 32;

/// One reading thread.
pub(crate) struct Reader {
    workload: Workload,
    share: Share,
    draw: Draw,
    keys: KeyMaker,
    scan_length: u64,
    batch: u64,
    /// Reads under way at once, as futures; `None` if it waits for each.
    depth: Option<usize>,
    /// Held while there is something to read.
    _token: Arc<()>,
    first: u64,
    last: u64,
}

impl Reader {
    /// The reader of `plan`'s workload for thread `thread`. It holds `token` until it is done.
    pub fn new(plan: &Plan, thread: u64, token: Arc<()>) -> Reader {
        let keys = Share::of(plan.num, thread, plan.threads as u64);
        let what = plan.effective_distribution();
        Reader {
            workload: plan.workload,
            share: Share::of_operations(plan, thread),
            draw: Draw::new(what, plan.num, plan.seed, thread, keys.from),
            keys: match plan.workload {
                Workload::ReadMissing => KeyMaker::missing(plan.key_size),
                _ => KeyMaker::new(plan.key_size),
            },
            scan_length: plan.effective_scan_length(),
            batch: plan.batch as u64,
            depth: plan.awaited_depth(),
            _token: token,
            first: keys.from,
            last: keys.until.max(1) - 1,
        }
    }

    /// Reads the share.
    pub fn read(self, db: &Db, pace: &mut Pace<'_>) -> Result<()> {
        match (self.workload, self.depth) {
            (Workload::ReadSeq, _) => self.sequence(db, pace, false),
            (Workload::ReadReverse, _) => self.sequence(db, pace, true),
            (Workload::SeekRandom, Some(depth)) => self.seeks_at_once(depth, db, pace),
            (Workload::SeekRandom, None) => self.seeks(db, pace),
            (Workload::MultiReadRandom, _) => self.several(db, pace),
            (_, Some(depth)) => self.points_at_once(depth, db, pace),
            (_, None) => self.points(db, pace),
        }
    }

    fn points(mut self, db: &Db, pace: &mut Pace<'_>) -> Result<()> {
        for _ in self.share.from..self.share.until {
            let found = db.get(self.keys.key(self.draw.index(0)))?;
            if let Some(value) = found {
                black_box(value.len());
                pace.tally.found += 1;
            }
            if !pace.lap(Operation::Read, 1, 1) {
                break;
            }
        }
        Ok(())
    }

    fn points_at_once(self, depth: usize, db: &Db, pace: &mut Pace<'_>) -> Result<()> {
        let begin = |key: &[u8]| db.get_async(key);
        self.at_once(depth, (pace, Operation::Read), begin, |found, tally| {
            if let Some(value) = found {
                black_box(value.len());
                tally.found += 1;
            }
        })
    }

    /// Keeps up to `depth` reads under way: `begin` begins one of a key, `count` has what it came to.
    fn at_once<T, R: Future<Output = Result<T>> + Unpin>(
        mut self,
        depth: usize,
        of: (&mut Pace<'_>, Operation),
        begin: impl Fn(&[u8]) -> R,
        count: impl Fn(T, &mut Tally),
    ) -> Result<()> {
        let share = self.share;
        let next = || begin(self.keys.key(self.draw.index(0)));
        at_once((depth, share), of, next, count)
    }

    fn several(mut self, db: &Db, pace: &mut Pace<'_>) -> Result<()> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let mut at = self.share.from;
        while at < self.share.until {
            let count = self.batch.min(self.share.until - at);
            keys.clear();
            keys.extend((0..count).map(|_| self.keys.key(self.draw.index(0)).to_vec()));
            let values = db.multi_get(&keys)?;
            pace.tally.found += black_box(values).iter().flatten().count() as u64;
            at += count;
            if !pace.lap(Operation::Read, count, 1) {
                break;
            }
        }
        Ok(())
    }

    fn seeks(mut self, db: &Db, pace: &mut Pace<'_>) -> Result<()> {
        let mut cursor = db.cursor()?;
        for _ in self.share.from..self.share.until {
            let key = self.keys.key(self.draw.index(0));
            scan(&mut cursor, key, self.scan_length, &mut pace.tally)?;
            if !pace.lap(Operation::Scan, 1, 1) {
                break;
            }
        }
        Ok(())
    }

    fn seeks_at_once(self, depth: usize, db: &Db, pace: &mut Pace<'_>) -> Result<()> {
        let length = self.scan_length;
        let begin = |key: &[u8]| Box::pin(scan_async(db, key.to_vec(), length));
        let of = (pace, Operation::Scan);
        self.at_once(depth, of, begin, |(found, entries), tally| {
            tally.found += u64::from(found);
            tally.entries += entries;
        })
    }

    fn sequence(mut self, db: &Db, pace: &mut Pace<'_>, back: bool) -> Result<()> {
        let mut cursor = db.cursor()?;
        let mut valid = if back {
            cursor.seek_for_prev(self.keys.key(self.last))?
        } else {
            cursor.seek(self.keys.key(self.first))?
        };
        let mut group = 0;
        for _ in self.share.from..self.share.until {
            if !valid {
                around(&mut cursor, back)?;
            }
            touch(&cursor);
            group += 1;
            valid = if back { cursor.prev()? } else { cursor.next()? };
            if group == SEQUENTIAL_GROUP {
                pace.tally.found += group;
                group = 0;
                if !pace.lap(Operation::Read, SEQUENTIAL_GROUP, SEQUENTIAL_GROUP) {
                    break;
                }
            }
        }
        if group > 0 {
            pace.tally.found += group;
            pace.lap(Operation::Read, group, group);
        }
        Ok(())
    }
}

/// Reads `length` entries, or as many as there are, from `key` on.
pub(crate) fn scan(cursor: &mut Cursor, key: &[u8], length: u64, tally: &mut Tally) -> Result<()> {
    let mut valid = cursor.seek(key)?;
    tally.found += u64::from(valid && cursor.key() == key);
    let mut entries = 0;
    while valid {
        touch(cursor);
        entries += 1;
        if entries == length {
            break;
        }
        valid = cursor.next()?;
    }
    tally.entries += entries;
    Ok(())
}

/// As [`scan`]; returns whether `key` was there, and how many entries were read.
async fn scan_async(db: &Db, key: Vec<u8>, length: u64) -> Result<(bool, u64)> {
    let mut scan = db.range(&*key..).into_async();
    let (mut found, mut entries) = (false, 0);
    while entries < length
        && let Some(entry) = scan.next().await
    {
        let (at, value) = entry?;
        found |= at == key;
        black_box(value.last());
        entries += 1;
    }
    Ok((found, entries))
}

/// Begins again at the other end.
fn around(cursor: &mut Cursor, back: bool) -> Result<()> {
    let valid = if back {
        cursor.seek_to_last()?
    } else {
        cursor.seek_to_first()?
    };
    if !valid {
        return Err(Error::InvalidArgument(
            "the database holds no keys; leave out use-existing to load some".to_string(),
        ));
    }
    Ok(())
}

/// Reads from the key and the value, so that neither can be skipped.
#[inline]
fn touch(cursor: &Cursor) {
    black_box(cursor.key().last());
    black_box(cursor.value().last());
}
