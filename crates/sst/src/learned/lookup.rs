//! Asking a learned index.

use thermocline_base::numbers::{len_of, len32};

use super::bits::Bits;
use super::code::Alphabet;
use super::group::{Group, is_next_to};
use super::handles::Handles;
use super::model::Model;
use super::parts::Parts;
use super::top::Top;
use crate::format::coding::{Unreadable, damaged};
use crate::handle::BlockHandle;

/// A learned index, checked. Immutable.
#[derive(Debug)]
pub(crate) struct Learned {
    alphabet: Alphabet,
    top: Top,
    groups: Box<[Group]>,
    models: Box<[Model]>,
    corrections: Bits,
    handles: Handles,
}

impl Learned {
    /// Puts the parts together, of a table whose data blocks end at `data_end`, and checks what searches
    /// rely on: lowest keys and thresholds ascend, and blocks lie one behind the other.
    pub(super) fn new(parts: Parts, data_end: u64) -> Result<Learned, Unreadable> {
        let handles = Handles::new(&parts.frames, &parts.frame_bits, parts.blocks, data_end);
        let handles = handles.map_err(|n| {
            let what = format!("place of block {n} in a learned index");
            damaged(
                what,
                0,
                "behind the block before, within the data",
                "another",
            )
        })?;
        let learned = Learned {
            alphabet: Alphabet::new(&parts.occur),
            top: parts.top,
            groups: parts.groups.into(),
            models: parts.models.into(),
            corrections: Bits::new(&parts.corrections),
            handles,
        };
        for group in &learned.groups {
            let mut last = i64::MIN;
            for model in &learned.models[group.models.clone()] {
                for i in 0..model.blocks {
                    let threshold = model.threshold(i, &learned.corrections);
                    if threshold < last {
                        let what = format!("threshold of block {}", model.first + i);
                        return Err(damaged(what, 0, format!("at least {last}"), threshold));
                    }
                    last = threshold;
                }
            }
        }
        Ok(learned)
    }

    /// Data blocks of the table.
    pub fn blocks(&self) -> u32 {
        self.handles.blocks()
    }

    /// Where block `n` lies.
    pub fn handle(&self, n: u32) -> BlockHandle {
        self.handles.get(n)
    }

    /// Where all blocks lie, in order.
    pub fn all_handles(&self) -> impl Iterator<Item = BlockHandle> {
        self.handles.all()
    }

    /// The block from which on `key` is to be looked for: all keys in the blocks before are smaller.
    pub fn block_of(&self, key: &[u8]) -> u32 {
        let is_behind = |n: u32| *self.groups[len_of(n)].low > *key;
        let group = self.top.group_of(key, len32(self.groups.len()), is_behind);
        let group = &self.groups[len_of(group)];
        let models = &self.models[group.models.clone()];
        if models.is_empty() {
            return group.first;
        }
        let code = self.code_in(group, key);
        let begins = |model: &Model| model.threshold(0, &self.corrections) <= code;
        match models.partition_point(begins).checked_sub(1) {
            None => group.first,
            Some(n) => models[n].first + models[n].find(code, &self.corrections),
        }
    }

    /// Whether block `n` may have entries of `key`, if the block before has entries only below what is
    /// sought of it. If not, all its keys are greater.
    pub fn goes_on(&self, n: u32, key: &[u8]) -> bool {
        if n >= self.blocks() {
            return false;
        }
        let group = self.groups.partition_point(|group| group.first <= n) - 1;
        let group = &self.groups[group];
        if group.first == n {
            return is_next_to(&group.low, key);
        }
        let models = &self.models[group.models.clone()];
        let model = models.partition_point(|model| model.first <= n) - 1;
        let model = &models[model];
        let threshold = model.threshold(n - model.first, &self.corrections);
        threshold == self.code_in(group, key) + 1
    }

    fn code_in(&self, group: &Group, key: &[u8]) -> i64 {
        group.code.of(&self.alphabet, key).cast_signed()
    }

    /// Bytes of memory that it takes.
    pub fn charge(&self) -> usize {
        let groups: usize = self.groups.iter().map(Group::charge).sum();
        let models = size_of_val(&*self.models) + self.corrections.charge();
        let parts = self.alphabet.charge() + self.top.charge() + self.handles.charge();
        size_of::<Learned>() + groups + models + parts
    }

    /// How many groups and models it has.
    #[cfg(test)]
    pub fn counts(&self) -> (usize, usize) {
        (self.groups.len(), self.models.len())
    }
}
