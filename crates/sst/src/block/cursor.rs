//! Moving over the entries of a block, both ways.

use std::cmp::Ordering;
use std::sync::Arc;

use thermocline_base::SeqNo;
use thermocline_base::numbers::{len_of, len32};

use super::{Block, handle_of, restart_key};
use crate::format::entry::{self, RawEntry};
use crate::handle::BlockHandle;
use crate::key::KeyRef;
use crate::value::{self, Found, FoundValue, Pinned, Value};

/// A place in a block: at an entry, or at none.
#[derive(Debug, Clone)]
pub(crate) struct BlockCursor {
    block: Arc<Block>,
    /// Where the entry begins, if the cursor is at one.
    at: Option<usize>,
    raw: RawEntry,
    key: Vec<u8>,
    /// While it goes back: where the entries of its run before its own begin.
    run: Vec<u32>,
}

impl BlockCursor {
    /// At no entry.
    pub fn new(block: Arc<Block>) -> BlockCursor {
        BlockCursor {
            block,
            at: None,
            raw: RawEntry::default(),
            key: Vec::new(),
            run: Vec::new(),
        }
    }

    /// Moves to another block, at no entry, and keeps the memory of the key.
    pub fn reset(&mut self, block: Arc<Block>) {
        self.block = block;
        self.at = None;
        self.run.clear();
    }

    pub fn block(&self) -> &Arc<Block> {
        &self.block
    }

    /// The key of the entry.
    pub fn key(&self) -> KeyRef<'_> {
        KeyRef::new(&self.key, SeqNo(self.raw.seqno))
    }

    /// What a data entry says.
    pub fn value(&self) -> (thermocline_base::Kind, Value<'_>) {
        value::of_entry(self.raw.tag, &self.block.body()[self.raw.value.clone()])
    }

    /// What a data entry says, with its value kept in memory.
    pub fn found(&self) -> Found {
        let (kind, value) = self.value();
        let start = self.block.entries.start;
        let value = match value {
            Value::Blob(blob) => FoundValue::Blob(blob),
            Value::Inline(_) if kind == thermocline_base::Kind::Delete => FoundValue::None,
            Value::Inline(_) => {
                let range = start + self.raw.value.start..start + self.raw.value.end;
                FoundValue::Inline(Pinned::new(Arc::clone(&self.block), range))
            }
        };
        Found {
            seqno: SeqNo(self.raw.seqno),
            kind,
            value,
        }
    }

    /// Where an index entry points to.
    pub fn handle(&self) -> BlockHandle {
        let block = &self.block;
        handle_of(block.body(), &self.raw, block.level()).expect("a block's entries are checked")
    }

    /// Reads the entry at `at`, which follows the one that the cursor was at or is a restart point.
    fn read(&mut self, at: usize) -> bool {
        let body = self.block.body();
        self.run.clear();
        if at >= body.len() {
            self.at = None;
            return false;
        }
        self.raw = entry::decode(body, at).expect("a block's entries are checked");
        self.key.truncate(self.raw.shared);
        self.key.extend_from_slice(&body[self.raw.rest.clone()]);
        self.at = Some(at);
        true
    }

    pub fn first(&mut self) -> bool {
        self.key.clear();
        self.read(0)
    }

    pub fn last(&mut self) -> bool {
        match self.block.restarts.checked_sub(1) {
            Some(last) => {
                let end = self.block.body().len();
                self.read_before(self.block.restart(last), end)
            }
            None => {
                self.at = None;
                false
            }
        }
    }

    /// To the last entry that begins before `end`, from the restart point `at`.
    fn read_before(&mut self, at: usize, end: usize) -> bool {
        self.read(at);
        while self.raw.end() < end {
            self.read(self.raw.end());
        }
        self.at.is_some()
    }

    pub fn next(&mut self) -> bool {
        match self.at {
            Some(_) => self.read(self.raw.end()),
            None => false,
        }
    }

    pub fn prev(&mut self) -> bool {
        match self.at {
            None => false,
            Some(0) => {
                self.at = None;
                false
            }
            Some(at) => {
                if self.run.is_empty() {
                    self.remember_run(at);
                }
                self.read_back()
            }
        }
    }

    /// Notes where the entries before `at` begin, from the last restart point on.
    fn remember_run(&mut self, at: usize) {
        let mut next = self.last_restart(|offset| offset < at);
        let body = self.block.body();
        while next < at {
            self.run.push(len32(next));
            let raw = entry::decode(body, next).expect("a block's entries are checked");
            next = raw.end();
        }
    }

    /// To the entry before, whose place is remembered. Its key begins with what this entry shares with
    /// it and ends with its own rest; what lies between is in entries before, seldom far.
    fn read_back(&mut self) -> bool {
        let at = self.run.pop().map(len_of).expect("it was remembered");
        let body = self.block.body();
        let decode = |at| entry::decode(body, at).expect("a block's entries are checked");
        let raw = decode(at);
        let have = self.raw.shared.min(raw.shared);
        let mut missing = raw.shared;
        self.key.truncate(have);
        self.key.resize(missing, 0);
        self.key.extend_from_slice(&body[raw.rest.clone()]);
        for before in self.run.iter().rev() {
            if missing <= have {
                break;
            }
            let before = decode(len_of(*before));
            if before.shared >= missing {
                continue;
            }
            let from = before.shared.max(have);
            let rest = &body[before.rest];
            let part = &rest[from - before.shared..missing - before.shared];
            self.key[from..missing].copy_from_slice(part);
            missing = from;
        }
        self.raw = raw;
        self.at = Some(at);
        true
    }

    /// The offset of the last restart point for which `holds`, which it does up to some one; of the
    /// first if for none. There is one.
    fn last_restart(&self, holds: impl Fn(usize) -> bool) -> usize {
        let (mut low, mut high) = (0, self.block.restarts);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if holds(self.block.restart(middle)) {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.block.restart(low)
    }

    /// To the first entry not below `target`.
    pub fn seek(&mut self, target: KeyRef<'_>) -> bool {
        if self.block.is_empty() {
            return false;
        }
        let body = self.block.body();
        let restart = self.last_restart(|offset| {
            let raw = entry::decode(body, offset).expect("a block's entries are checked");
            restart_key(body, &raw) < target
        });
        self.read(restart);
        while self.at.is_some() && self.key() < target {
            self.read(self.raw.end());
        }
        self.at.is_some()
    }

    /// To the last entry not above `target`.
    pub fn seek_for_prev(&mut self, target: KeyRef<'_>) -> bool {
        if !self.seek(target) {
            return self.last();
        }
        match self.key().cmp(&target) {
            Ordering::Equal => true,
            _ => self.prev(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::build::BlockBuilder;
    use super::*;
    use thermocline_testkit::Rng;

    fn block(keys: &[(Vec<u8>, u64)], interval: usize) -> Arc<Block> {
        let mut builder = BlockBuilder::new(&[], interval);
        for (key, seqno) in keys {
            builder.add(KeyRef::new(key, SeqNo(*seqno)), 1, b"v");
        }
        Arc::new(builder.finish(|bytes| Block::data(bytes.to_vec())).unwrap())
    }

    #[test]
    fn every_move_from_every_place_is_the_models() {
        let mut rng = Rng::new(4);
        for (interval, letters) in [(1, 1), (2, 1), (3, 1), (16, 1), (3, 2), (16, 2), (64, 3)] {
            let key = |rng: &mut Rng| -> Vec<u8> {
                let len = rng.below(8);
                (0..len).map(|_| b"kab"[rng.below(letters)]).collect()
            };
            let mut keys: Vec<(Vec<u8>, u64)> = (0..60)
                .map(|_| (key(&mut rng), rng.below(40) as u64 + 1))
                .collect();
            keys.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
            keys.dedup();
            let model: Vec<KeyRef<'_>> = keys
                .iter()
                .map(|(k, s)| KeyRef::new(k, SeqNo(*s)))
                .collect();
            let mut cursor = BlockCursor::new(block(&keys, interval));
            let mut place: Option<usize> = None;
            for _ in 0..3000 {
                let target = key(&mut rng);
                let target = KeyRef::new(&target, SeqNo(rng.below(42) as u64));
                // Half of the moves go back, so that some go back far.
                place = match rng.below(10).min(6) {
                    6 => (cursor.prev(), place.and_then(|p| p.checked_sub(1))).1,
                    0 => (cursor.first(), Some(0)).1,
                    1 => (cursor.last(), Some(model.len() - 1)).1,
                    2 => (cursor.next(), place.map(|p| p + 1)).1,
                    3 => (cursor.prev(), place.and_then(|p| p.checked_sub(1))).1,
                    4 => (cursor.seek(target), model.iter().position(|k| *k >= target)).1,
                    _ => {
                        let found = model.iter().rposition(|k| *k <= target);
                        (cursor.seek_for_prev(target), found).1
                    }
                };
                place = place.filter(|p| *p < model.len());
                let at = cursor.at.map(|_| cursor.key());
                assert_eq!(at, place.map(|p| model[p]));
            }
        }
    }
}
