//! Operands on their way into an index: those of one key go in together.
//!
//! Groups, and the steps of a replay, put their records into an index in any order. An operand that comes later than
//! newer ones copies those (`art::splice`). Where one thread has many of them, of one counter say, each would
//! copy the same again. So they are noted, and those of a key then copy what is newer once. Other records do not wait for
//! them: an index takes the records of a group in any order.

use thermocline_art::{Moments, Version};
use thermocline_base::{CfId, Kind, Result, SeqNo};
use thermocline_pm::PmOff;
use thermocline_policy::tuning::OPERANDS_TOGETHER;

use crate::insert::leaf_of;
use crate::table::Memtable;

/// An operand that is stored.
#[derive(Debug, Clone, Copy)]
struct Noted<'k> {
    cf: CfId,
    key: &'k [u8],
    seqno: SeqNo,
    at: PmOff,
}

/// Operands that are stored, and are not in an index yet.
#[derive(Debug, Default)]
pub struct Operands<'k>(Vec<Noted<'k>>);

impl<'k> Operands<'k> {
    /// Notes the operand at `at`.
    pub fn note(&mut self, cf: CfId, key: &'k [u8], at: PmOff, seqno: SeqNo) {
        self.0.push(Noted { cf, key, seqno, at });
    }

    /// Whether so many are noted that they are to go in.
    pub fn is_full(&self) -> bool {
        self.0.len() >= OPERANDS_TOGETHER
    }

    /// Puts those that are noted into the indexes of `memtable`, in which they are stored. `moments` as for
    /// [`Memtable::insert`], once for each key.
    ///
    /// # Errors
    /// As [`Memtable::insert`].
    pub fn insert<M: Moments>(
        &mut self,
        memtable: &Memtable,
        moments: impl Fn() -> M,
    ) -> Result<()> {
        let mut all = self.take_in_order();
        let mut versions = Vec::new();
        for of_key in all.chunk_by(|a, b| (a.cf, a.key) == (b.cf, b.key)) {
            let Noted { cf, key, .. } = of_key[0];
            versions.clear();
            versions.extend(of_key.iter().map(|noted| Version {
                seqno: noted.seqno,
                leaf: leaf_of(Kind::Merge, key, noted.at),
            }));
            memtable.insert_operands(cf, key, &versions, &moments)?;
        }
        all.clear();
        self.0 = all;
        Ok(())
    }

    /// What is noted, by families and keys, newest first. This is no part of [`Operands::insert`], so that there is one of it.
    fn take_in_order(&mut self) -> Vec<Noted<'k>> {
        let mut all = std::mem::take(&mut self.0);
        all.sort_unstable_by(|a, b| (a.cf, a.key, b.seqno).cmp(&(b.cf, b.key, a.seqno)));
        all.dedup_by_key(|noted| (noted.cf, noted.key, noted.seqno));
        all
    }
}
