//! What a flush takes, and the edit that names what it has written. See the [module above](super).

use thermocline_base::Result;
use thermocline_catalog::view::Front;
use thermocline_jobs::Outputs;
use thermocline_memtable::Memtable;
use thermocline_observe::count::Count;
use thermocline_policy::flush::{self, Sealed};
use thermocline_policy::ranges;
use thermocline_policy::rewrite::RewritePlan;
use thermocline_version::{Change, Evacuation};

use crate::busy::busy;
use crate::compact::shape::Levels;
use crate::flush::along::Along;
use crate::flush::evacuate::{Span, Taken};
use crate::flush::told::Made;
use crate::report::LevelUse;
use crate::store::Evacuator;
use crate::sync::Arc;

impl Evacuator {
    pub(super) fn count_flush(&self, outputs: &Outputs, along: &[Along<'_>]) {
        self.partitioner.counted_by_merge(&outputs.counted);
        let to = along.iter().map(|along| usize::from(along.to.0)).max();
        let to = to.unwrap_or(0);
        let brought = along.iter().map(Along::brought_bytes);
        let brought = brought.fold(0, u64::saturating_add);
        self.common.compactions.usage.add(
            to,
            LevelUse {
                jobs: 1,
                bytes_read: outputs.bytes_read,
                bytes_in: match to {
                    0 => 0,
                    _ => outputs.memtable_bytes.saturating_add(brought),
                },
                bytes_written: outputs.bytes,
                entries_dropped: outputs.dropped,
                ..LevelUse::default()
            },
        );
        if !along.is_empty() {
            self.common.counted.add(Count::RangesAlong, 1);
            let bytes = along.iter().map(Along::bytes);
            let bytes = bytes.fold(0, u64::saturating_add);
            self.common.counted.add(Count::BytesAlong, bytes);
        }
    }

    /// Takes the oldest sealed memtables that were not flushed, of `least` bytes together, or all if they have less; or of
    /// those the ones that an evacuation has left. From here on none of them is merged.
    pub(super) fn take(&self, least: u64) -> Taken {
        let _turn = self.common.merges.turn_for_flush();
        let taken = {
            // A batch that is being committed is in the view before it is visible.
            let _held_up = self.memtables.hold_writer_up();
            self.taken_now(least)
        };
        let newest = taken.memtables.last().map_or(0, |m| m.id());
        self.common.reclaim.take_up_to(newest);
        taken
    }

    /// Bytes that a flush which is due takes at least, of the oldest memtables.
    ///
    /// # Errors
    /// Those of reading the memtables.
    pub(super) fn due_bytes(&self, sealed: &Sealed) -> Result<u64> {
        let shape = self.common.options.level0.shape();
        if !shape.sinks() || !sealed.automatic {
            return Ok(sealed.takes_bytes());
        }
        let rewrites = self.rewrite_plan()?.is_some_and(|plan| plan.rewrites());
        if !ranges::sinks(shape, rewrites) {
            return Ok(sealed.takes_bytes());
        }
        let version = self.common.catalog.version();
        let below = version.families().map(|cf| {
            let levels = Levels::of(&version, cf, None);
            self.common.compactions.shape.base_and_above(&levels)
        });
        Ok(ranges::sinks_bytes(below.fold(0, u64::saturating_add)))
    }

    /// What a flush takes, for whoever holds the writer's lock.
    pub(super) fn taken_now(&self, least: u64) -> Taken {
        let mut memtables = self.sealed_unflushed();
        let front = self.common.catalog.view().front().cloned();
        match &front {
            Some(front) => memtables.retain(|m| front.takes(m)),
            None => {
                let own = |m: &Arc<Memtable>| self.common.reclaim.bytes_of(m);
                memtables.truncate(flush::taken(memtables.iter().map(own), least));
            }
        }
        Taken {
            memtables,
            front,
            for_scans: false,
        }
    }

    /// The sealed memtables that were not flushed, oldest first.
    pub fn to_flush(&self) -> Vec<Arc<Memtable>> {
        // A batch that is being committed is in the view before it is visible.
        let _held_up = self.memtables.hold_writer_up();
        self.sealed_unflushed()
    }

    /// As [`Evacuator::to_flush`], for whoever holds the writer's lock.
    pub fn sealed_unflushed(&self) -> Vec<Arc<Memtable>> {
        let view = self.common.catalog.view_to_keep();
        let oldest_first = view.memtables[1..].iter().rev();
        self.common.reclaim.unflushed(oldest_first)
    }

    /// Edit 1, or of several one, and the view that comes with it.
    pub(super) fn name_tables(
        &self,
        taken: &Taken,
        span: &Span,
        written: (&Outputs, &[Along<'_>]),
        made: &Made,
    ) -> Result<()> {
        let _held_up = self.memtables.hold_writer_up();
        // Again, since the store may have been closed meanwhile.
        self.common.check_writable()?;
        self.name_holding(taken, span, written, made)
    }

    /// As [`Evacuator::name_tables`], for whoever holds the writer's lock.
    pub(super) fn name_holding(
        &self,
        taken: &Taken,
        span: &Span,
        (outputs, along): (&Outputs, &[Along<'_>]),
        made: &Made,
    ) -> Result<()> {
        let exists = |change: &Change| match change {
            Change::TableAdded { place, .. } => self.common.families.exists(place.cf, b""),
            _ => true,
        };
        let mut manifest = self.common.catalog.edits();
        let mut changes = Vec::new();
        for along in along
            .iter()
            .filter(|along| self.common.families.exists(along.cf, b""))
        {
            if !along.stands(manifest.state()) {
                return Err(busy("for tables that have gone"));
            }
            changes.extend(along.taken());
        }
        changes.extend(outputs.added().filter(exists));
        let front = span.to.clone().map(|at| taken.front_at(at));
        // Of nothing there is nothing to say, until the next range is named.
        if changes.is_empty() && front.is_some() {
            return Ok(());
        }
        changes.extend(said(manifest.state().evacuation(), taken, front.as_ref()));
        if !changes.is_empty() {
            if front.is_none() {
                let clock = &self.common.world.env.clock;
                let done = made.done((clock.now_ns(), clock.unix_s()));
                changes.push(Change::JobDone(Arc::new(done.cut())));
            }
            let made =
                self.partitioner
                    .append_with_prefixes(&mut manifest, changes, &outputs.prefixes)?;
            drop(manifest);
            self.partitioner.tell_of_prefixes(made);
        }
        if let Some(front) = front {
            let view = self.common.catalog.view_to_keep();
            let tables = self.common.catalog.tables_after(&view);
            self.common.catalog.show(view.evacuated(front, tables));
            return Ok(());
        }
        let homes = taken.memtables.iter().flat_map(|m| m.homes());
        self.common.reclaim.flushed(homes.map(|home| home.id()));
        self.reclaimer.retire();
        // If all of them had been retired as dead before.
        self.common.catalog.show_tables();
        Ok(())
    }

    /// What a flush that began now would be decided on.
    ///
    /// # Errors
    /// Those of reading the memtables.
    pub fn rewrite_plan(&self) -> Result<Option<RewritePlan>> {
        let taken = {
            // A batch that is being committed is in the view before it is visible.
            let _held_up = self.memtables.hold_writer_up();
            self.taken_now(u64::MAX)
        };
        self.flush_writer.rewrite_plan_of(&taken)
    }
}

/// What an edit says of the evacuation of `taken`, which comes to `front` by it, or to its end; `before` is what the
/// manifest says of one so far, were it of memtables of which none is left.
fn said(before: Option<&Evacuation>, taken: &Taken, front: Option<&Front>) -> Vec<Change> {
    let up_to = taken.up_to().0;
    let ended = |seqno| Change::FlushedUpTo { seqno };
    let other = before.filter(|before| before.up_to != up_to);
    match (front, other) {
        (None, _) => {
            // Where none that was taken has records, that of before ends.
            let before = before.map(|before| ended(up_to.max(before.up_to)));
            before.into_iter().collect()
        }
        (Some(front), None) => vec![front.said()],
        (Some(front), Some(before)) => vec![ended(before.up_to), front.said()],
    }
}
