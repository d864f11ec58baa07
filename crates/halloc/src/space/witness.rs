//! Which chain a region knows as the newest.

use thermocline_base::Result;
use thermocline_base::checksum::hash64;
use thermocline_pm::PmOff;

use super::Space;
use crate::SITE_WITNESS;
use crate::format::{WITNESS_COPIES, checked_word, damaged, read_checked_word};

/// What a region remembers of the newest chain: the low half of its id and a hash of its nonce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Witness(u32);

impl Witness {
    /// The witness of a chain.
    pub fn of(chain: u64, nonce: u64) -> Witness {
        let id = u32::try_from(chain & 0xffff).unwrap_or(0);
        let hash = u32::try_from(hash64(&nonce.to_le_bytes()) >> 48).unwrap_or(0);
        Witness(id << 16 | hash)
    }

    /// How many chains this one is newer than `other`; negative if it is older. Ids are compared by
    /// their low 16 bits: two witnesses of one region are never farther apart than a few.
    pub fn distance(self, other: Witness) -> i16 {
        let id = |w: Witness| u16::try_from(w.0 >> 16).unwrap_or(0);
        id(self).wrapping_sub(id(other)).cast_signed()
    }
}

impl Space {
    /// Remembers that the manifest names `witness` as its newest chain. Durable on return; to be
    /// called after the edit and before anything is granted to the chain.
    ///
    /// # Errors
    /// A failed persist.
    pub fn set_witness(&self, witness: Witness) -> Result<()> {
        for at in WITNESS_COPIES {
            let word = checked_word(witness.0, self.seed, at);
            // SAFETY: the witness is read and stored as a word alone.
            unsafe { self.region.store_u64(PmOff(at), word, SITE_WITNESS) };
            self.region.persist(PmOff(at), 8, SITE_WITNESS)?;
        }
        Ok(())
    }

    /// Where the witness lies, for messages.
    pub fn witness_offset() -> u64 {
        WITNESS_COPIES[0]
    }

    /// The chain that the region knows as the manifest's newest; `None` if none was ever recorded.
    ///
    /// # Errors
    /// [`Error::Corruption`](thermocline_base::Error::Corruption) if both copies are damaged.
    pub fn witness(&self) -> Result<Option<Witness>> {
        let mut found: Option<Witness> = None;
        let mut blank = true;
        for at in WITNESS_COPIES {
            let word = self.region.load_u64(PmOff(at))?;
            blank &= word == 0;
            if let Some(payload) = read_checked_word(word, self.seed, at) {
                let witness = Witness(payload);
                let newer = found.is_none_or(|other| witness.distance(other) > 0);
                found = if newer { Some(witness) } else { found };
            }
        }
        if found.is_none() && !blank {
            return Err(damaged(
                "the witness word",
                self.region.path(),
                WITNESS_COPIES[0],
            ));
        }
        Ok(found)
    }
}
