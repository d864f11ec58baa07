//! How much the edit of a job names.
//!
//! An edit has the first key of each table that goes, and both ends of each that comes. Keys have up to 64 KiB. What a job
//! has to take is not bounded: a small table of level 0 may lie over a whole level. With small tables, or long keys, its edit might
//! be longer than the manifest takes. The job would fail for ever, and level 0 would grow. Therefore such a job ends at a key
//! before that, and leaves the rest to others, as internal compactions do with parts of slices.
//!
//! # The argument
//! 1. *Key by key.* Of each key before its end a job takes all that the inputs have, and of the others nothing. Its edit takes the inputs
//!    away before that key only ([`without_inputs`](super::picked::without_inputs)): one that reaches over it keeps its other part, where
//!    it stands, limited there. So before the key everything is as if all had been merged, and from there on as if nothing had. No table
//!    that comes reaches over it. What a merge leaves out it leaves out for what is known of the very key: nothing depends on where it ends.
//! 2. *Inputs* are known before. A job reads, or moves, only what lies before the first input with which it would take too many
//!    ([`Job::until`]). Each counts with both its ends, since the part that stays ends where the whole did. Tables that move lie apart
//!    from each other, so that none of them reaches over the first key of another one. They count twice: they come as well.
//! 3. *Outputs* are counted by sinks, each with what it has written. A sink has enough when these are too many, and the job ends with
//!    that table, be it between two records or among range tombstones.
//! 4. *Parts* of a divided job have a share each. If one ends before its end, what later ones have made is not named, and goes
//!    ([`Outputs::append`]). That would be work in vain, so a job that takes much for that is not divided.
//! 5. *Progress.* Each job takes away at least what lies at the first key of its inputs, and leaves less.
//! 6. *What goes unread* is few tables at a time (`EXPIRED_TABLES_MAX`), of which an edit has one key each.
//!
//! Of what an edit may have, inputs and outputs have a quarter each. The rest is for what is not counted: the table with which there is
//! enough, the key at which inputs are limited (once for each that reaches over it), prefixes that were met, and blob files.

use thermocline_jobs::Outputs;
use thermocline_version::TableRef;

use super::picked::Job;

impl Job {
    /// Its edits name no more than so many bytes of inputs, and as many of outputs.
    #[cfg(test)]
    pub(crate) fn naming(self, names_max: u64) -> Job {
        Job { names_max, ..self }
    }

    /// Bytes that an edit has of all inputs, at most.
    pub(super) fn named(&self) -> u64 {
        let named = self.inputs.iter().map(|(_, table)| self.named_of(table));
        named.sum()
    }

    fn named_of(&self, table: &TableRef) -> u64 {
        match self.picked.trivial {
            true => 2 * table.named_bytes(),
            false => table.named_bytes(),
        }
    }

    /// The key before which it ends, whatever it writes; `None` if one edit can name all that it takes.
    pub(super) fn until(&self) -> Option<&[u8]> {
        self.until.get_or_init(|| self.find_until()).as_deref()
    }

    fn find_until(&self) -> Option<Vec<u8>> {
        if self.picked.is_drop() || self.named() <= self.names_max {
            return None;
        }
        let mut tables: Vec<&TableRef> = self.inputs.iter().map(|(_, table)| &**table).collect();
        tables.sort_by(|a, b| a.range.first.cmp(&b.range.first));
        let first = tables.first()?;
        let mut named = 0u64;
        let beyond = tables.iter().find(|table| {
            named = named.saturating_add(self.named_of(table));
            named > self.names_max && table.range.first > first.range.first
        });
        beyond.map(|table| table.range.first.to_vec())
    }

    /// The key before which it has ended; `None` if it has done all.
    pub(super) fn ended_at(&self, outputs: &Outputs) -> Option<Vec<u8>> {
        let ended_at = outputs.ended_at.as_deref();
        ended_at.or_else(|| self.until()).map(<[u8]>::to_vec)
    }
}
