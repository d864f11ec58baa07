//! What a compaction filter, and the family's TTL, make of the values that a job moves.
//!
//! It is asked about a value that stays (`compaction::retain`), or that operands were folded into, if the value is
//! newer than the moments of all readers that were registered when the job began. What it removes becomes a delete of
//! the same seqno, so that it hides what it hid before; as other deletes it goes where nothing lies below (`retain`,
//! 4). What it changes keeps its seqno, too.
//!
//! So entries differ only for a reader at the seqno of one of them or behind:
//! [`Filtered::oldest`](crate::outputs::Filtered::oldest). When the outputs take the inputs' place, the caller must
//! know whether there is such a reader (`engine::compact::filters`).

use std::sync::Arc;

use thermocline_base::filter::{self, CompactionFilter, Entry, Verdict};
use thermocline_base::limits::VALUE_INLINE_MAX;
use thermocline_base::numbers::len_of;
use thermocline_base::{BlobRef, Result, SeqNo};
use thermocline_sst::Value;

use crate::outputs::Outputs;

/// Reads the value of a key that lies in a blob file.
pub type ReadBlob<'a> = &'a dyn Fn(&[u8], BlobRef) -> Result<Vec<u8>>;

/// What a job leaves out, or writes otherwise, though it could stay.
#[derive(Clone)]
pub struct Filter<'a> {
    /// What has this seqno, or a smaller one, has expired: it goes, unread.
    pub expired: Option<SeqNo>,
    /// What is asked about the rest.
    pub filter: Option<Arc<dyn CompactionFilter>>,
    /// Up to here a reader sees what there is: it stays as it is. If the caller has an older answer than that, it does
    /// no harm.
    pub seen: Option<SeqNo>,
    /// The level of the outputs.
    pub level: usize,
    /// How values in blob files are read.
    pub read: ReadBlob<'a>,
    /// Bytes of DRAM that this takes.
    pub memory: &'a dyn Fn() -> u64,
}

impl Filter<'_> {
    /// What becomes of a value.
    ///
    /// # Errors
    /// As [`filter::ask`].
    pub(crate) fn ask(
        &self,
        key: &[u8],
        seqno: SeqNo,
        value: Value<'_>,
        outputs: &mut Outputs,
    ) -> Result<Verdict> {
        if self.seen.is_some_and(|seen| seqno <= seen) {
            return Ok(Verdict::Keep);
        }
        let filtered = &mut outputs.filtered;
        if self.expired.is_some_and(|expired| seqno <= expired) {
            filtered.expired += 1;
            filtered.note(seqno);
            return Ok(Verdict::Remove);
        }
        let Some(filter) = &self.filter else {
            return Ok(Verdict::Keep);
        };
        let asked = self.ask_about(&**filter, key, value);
        let verdict = asked.inspect_err(|_| filtered.failed = true)?;
        match &verdict {
            Verdict::Keep => return Ok(verdict),
            Verdict::Remove => filtered.removed += 1,
            Verdict::Change(_) => filtered.changed += 1,
        }
        filtered.note(seqno);
        Ok(verdict)
    }

    fn ask_about(
        &self,
        filter: &dyn CompactionFilter,
        key: &[u8],
        value: Value<'_>,
    ) -> Result<Verdict> {
        match value {
            Value::Inline(value) => {
                let entry = Entry::new(key, value).to_level(self.level);
                filter::ask(filter, &entry)
            }
            Value::Blob(blob) => {
                let read = || (self.read)(key, blob);
                // What may be compressed is not as long as what it is stored as.
                let is_plain = len_of(blob.len) > VALUE_INLINE_MAX;
                let len = is_plain.then_some(u64::from(blob.len));
                let entry = Entry::elsewhere(key, len, &read).to_level(self.level);
                filter::ask(filter, &entry)
            }
        }
    }
}
