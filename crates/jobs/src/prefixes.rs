//! The prefixes that a flush or a compaction meets.

use thermocline_base::limits;
use thermocline_base::options::{Division, PartitionBy};
use thermocline_version::Partitions;

/// Notes the prefixes of keys, which come in their order, at which no partition begins. One comparison a
/// key, and a look at the partitions for each prefix.
#[derive(Debug)]
pub struct Prefixes<'a> {
    len: usize,
    partitions: &'a Partitions,
    /// Of the last key that had one.
    last: Vec<u8>,
    met: Vec<Vec<u8>>,
}

impl<'a> Prefixes<'a> {
    /// `None` unless keys are divided by prefixes.
    pub fn new(division: &Division, partitions: &'a Partitions) -> Option<Prefixes<'a>> {
        let by_prefix = division.by == PartitionBy::Prefix;
        by_prefix.then(|| Prefixes {
            len: division.prefix_len,
            partitions,
            last: Vec::new(),
            met: Vec::new(),
        })
    }

    /// The next key.
    #[inline]
    pub fn meet(&mut self, key: &[u8]) {
        let Some(prefix) = key.get(..self.len).filter(|prefix| *prefix != self.last) else {
            return;
        };
        self.last.clear();
        self.last.extend_from_slice(prefix);
        let room = self.partitions.len() + self.met.len() < limits::PARTITIONS_MAX;
        if room && self.partitions.starting_at(prefix).is_none() {
            self.met.push(prefix.to_vec());
        }
    }

    /// Those at which partitions are to begin, ascending. Where there are as many as there may be, none is
    /// added: keys of other prefixes lie in the one before.
    pub fn into_met(self) -> Vec<Vec<u8>> {
        self.met
    }
}
