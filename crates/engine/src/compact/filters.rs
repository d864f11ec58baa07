//! Compaction filters: what a job removes or changes because the user says so (`base::filter`, `jobs::filtering`).
//!
//! # Vocabulary
//! A value is *filtered* if it is not in the outputs of a job as it was in the inputs. `oldest` is the least seqno of those.
//!
//! # The argument: nobody sees a value change
//! 1. *What differs.* A filtered value has a seqno s. What stands for it in the outputs has the same seqno, or is a
//!    delete of that seqno that says nothing (`compaction::retain`, 7). So a reader at a moment before `oldest` finds
//!    in the outputs what it finds in the inputs.
//! 2. *Readers that are registered at the edit.* Under the manifest's lock, before the edit is appended, registrations
//!    are held up ([`Readers::hold_up`]). If a reader is registered at `oldest` or behind, the outputs are thrown away:
//!    it may have read what would change. It does not matter when that reader came, so readers that register while the
//!    job runs need no argument of their own. Otherwise every registered reader reads before `oldest`, and (1) covers
//!    it.
//! 3. *Readers that register then* wait until the edit is durable and the view shows it. Such a reader has read nothing
//!    before, and finds the outputs. The writer's lock is held from before the edit until then, so that nobody else
//!    shows the tables of the edit earlier.
//! 4. *Reads without a registration* are those of `get`, which reads once: before the edit or behind it. It registers
//!    before it reads a second time, for operands (`engine::operands`), and begins anew then.
//! 5. *Transactions* have a moment, and are registered from their first read to their end; where a moment moves on, the next one
//!    is registered before the last one leaves. So what a transaction has read stays as long as it goes on, whether it locked the key
//!    or not. That a filter removed a value is no write: it has no seqno, nobody conflicts with it, and validation
//!    (`commit::recent`), which looks at writes alone, says the same with and without it.
//! 6. *Earlier openings* of this process registered here before any job began (`close`). Other processes that read beside this one
//!    have the tables of the moment at which they opened, and keep their files.
//! 7. *What returns.* Nothing older comes back: a removed value leaves a delete wherever something older may lie below. The
//!    value itself would come back with a table or a memtable that has it, and the edit takes those tables away. A memtable that
//!    was flushed comes back into a view if it is still named when no later table is left (`flush`, 2); so the edit says up to which seqno
//!    memtables were flushed. A crash before the edit leaves the inputs.
//!
//! # Who waits
//! A reader that registers while an edit with filtered values is appended waits for that edit, which takes one sync of
//! the manifest. Writers wait, too. Nobody waits for ever: while registrations are held up, the job waits for no lock
//! that a waiting reader may hold. It takes the writer's lock and the manifest's before it calls `hold_up`. A thread
//! that registers a reader holds none of the locks that the job takes after that.
//!
//! # Where somebody always reads
//! A job leaves alone what a reader sees that is registered when the job begins: a long snapshot costs nothing but what
//! it sees. Readers that have come since would see what is filtered. So a job that ends while they are there is done
//! again without the filter, and the filter rests for some jobs (`policy::filters`). It rests, too, after it has
//! failed. A range that is compacted by hand asks it in any case.
//!
//! # What has expired
//! A family's TTL (`expiry`) is a filter that looks at seqnos alone: all that is said here holds of it. A job asks it only where something
//! of its inputs has expired that nobody saw when it began. Tables of which everything has expired are inputs without outputs: they go
//! unread, by the same edit under the same locks, with the least of their seqnos for `oldest`. Nothing older lies below them
//! (`policy::pick::expired`), and as long as the job is in the list of running ones, nothing comes there. If somebody reads them
//! they stay. For a second they are not tried again; then the next look for a compaction tries them. Where nobody writes, that comes
//! when more may have expired (`expiry`).
//!
//! # What is not filtered
//! Flushes, with what they take along; tables that move unread; merged indexes, which move no records; copies.
//!
//! [`Readers::hold_up`]: thermocline_commit::readers::Readers::hold_up

use std::collections::BTreeMap;

use thermocline_base::CfId;
use thermocline_jobs::Filtered;
use thermocline_policy::filters::FilterTurns;
use thermocline_policy::tuning::EXPIRED_AGAIN_NS;

use crate::report::FilterUse;
use crate::sync::{Mutex, lock};

/// The turns of filters, and what they have done.
#[derive(Debug, Default)]
pub(super) struct Filters(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    turns: BTreeMap<CfId, FilterTurns>,
    /// When expired tables may be tried again that somebody read, in nanoseconds of the clock.
    again: BTreeMap<CfId, u64>,
    usage: FilterUse,
}

impl Filters {
    /// Whether the next job of a family asks its filter; one that is done by hand does in any case.
    pub fn take_turn(&self, cf: CfId, by_hand: bool) -> bool {
        lock(&self.0).turns.entry(cf).or_default().take() || by_hand
    }

    /// What a filter has said came true.
    pub fn succeeded(&self, cf: CfId, filtered: &Filtered) {
        let mut known = lock(&self.0);
        known.turns.entry(cf).or_default().succeeded();
        known.usage.expired += filtered.expired;
        known.usage.removed += filtered.removed;
        known.usage.changed += filtered.changed;
    }

    /// A job came to nothing because its filter failed, or because somebody reads (`is_read`).
    pub fn failed(&self, cf: CfId, is_read: bool) {
        let mut known = lock(&self.0);
        known.turns.entry(cf).or_default().failed();
        match is_read {
            true => known.usage.undone += 1,
            false => known.usage.failed += 1,
        }
    }

    /// Whether expired tables of a family may be tried now.
    pub fn may_drop(&self, cf: CfId, now_ns: u64) -> bool {
        let known = lock(&self.0);
        known.again.get(&cf).is_none_or(|again| *again <= now_ns)
    }

    /// Expired tables stay for now: somebody reads them.
    pub fn is_read(&self, cf: CfId, now_ns: u64) {
        let again = now_ns.saturating_add(EXPIRED_AGAIN_NS);
        lock(&self.0).again.insert(cf, again);
    }

    /// What they have done since the store was opened.
    pub fn usage(&self) -> FilterUse {
        lock(&self.0).usage
    }
}
