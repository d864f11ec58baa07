//! How far memtables are flushed, and evacuated by ranges of keys.

use thermocline_base::{CfId, limits};

use crate::impossible::{Impossible, at_least, must, possible_seqno};

/// How far memtables are evacuated. See [`Change::Evacuated`](crate::Change::Evacuated).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evacuation {
    /// Memtables with bases up to here were flushed before.
    pub above: u64,
    /// The largest base of those that are evacuated.
    pub up_to: u64,
    /// Records of families with smaller ids are in tables, and of this one
    pub cf: CfId,
    /// those with smaller keys.
    pub key: Box<[u8]>,
}

/// How far memtables are flushed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Flushed {
    /// Memtables with bases up to here were flushed; 0 if that was never said.
    pub up_to: u64,
    /// How far the next ones are evacuated, if that has begun.
    pub evacuation: Option<Evacuation>,
}

impl Flushed {
    /// Some of the next memtables are in tables, up to a key.
    pub fn evacuate(&mut self, to: Evacuation) -> Result<(), Impossible> {
        possible_seqno(to.up_to, "seqno up to which is evacuated")?;
        let flushed = self.up_to;
        let what = "seqno above which is evacuated";
        must(to.above >= flushed, what, at_least(flushed), to.above)?;
        let most = format_args!("below {}", to.up_to);
        must(to.above < to.up_to, what, most, to.above)?;
        let most = limits::KEY_LEN_MAX;
        let what = "length of the key up to which is evacuated";
        must(to.key.len() <= most, what, most, to.key.len())?;
        if let Some(before) = &self.evacuation {
            let same = (before.above, before.up_to) == (to.above, to.up_to);
            let what = "memtables that are evacuated";
            let shown = |e: &Evacuation| format!("those above {} up to {}", e.above, e.up_to);
            must(same, what, shown(before), shown(&to))?;
            let further = (before.cf, &before.key) < (to.cf, &to.key);
            let what = "key up to which is evacuated";
            must(further, what, "one behind the last one", to.cf.0)?;
        }
        self.evacuation = Some(to);
        Ok(())
    }

    /// All memtables with bases up to here are flushed. Returns whether that ends an evacuation.
    pub fn flush(&mut self, up_to: u64) -> Result<bool, Impossible> {
        let what = "seqno up to which is flushed";
        possible_seqno(up_to, what)?;
        must(up_to >= self.up_to, what, at_least(self.up_to), up_to)?;
        let evacuation = self.evacuation.take();
        if let Some(evacuation) = &evacuation {
            let least = evacuation.up_to;
            let what = "seqno up to which is flushed during an evacuation";
            must(up_to >= least, what, at_least(least), up_to)?;
        }
        self.up_to = up_to;
        Ok(evacuation.is_some())
    }
}
