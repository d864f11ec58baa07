//! Column families: names for separate key spaces that share memtables, batches and seqnos.
//!
//! # Dropping
//! One edit says that a family is gone; its records stay where they lie. This process refuses its
//! handles from then on, and every later open passes its records over ([`crate::replay`]). A family
//! of the same name that is made afterwards has another id, so nothing of the old one can show in
//! it.
//!
//! # Invariants
//! 1. An id names one family for ever; the manifest never gives it out again.
//! 2. No write to a family is granted behind its drop. Both hold the writer's lock: the write from
//!    before it looks until it is granted, the drop while it says so in manifest and table.
//! 3. When the edit of a creation or a drop becomes durable, all that was granted before is
//!    durable: nothing that a crash may take back lies before something that it may not.
//! 4. A reader of a moment before a drop goes on, one of a later moment is refused. A snapshot
//!    notes how many drops there had been, after it has registered: so what it sees of other
//!    families is never younger than a family that it still reads. What it reads there was set aside
//!    (`relics`).
//!
//! # Crash argument of a drop
//! Before the edit is durable, an open finds the family with all of its records. After it, an open
//! finds the family neither in the manifest nor, as it passes over its records, in an index.
//!
//! # Metadata
//! A blob for each family that a batch sets like any key: it is a record of family
//! [`CfId::METADATA`], which has no name and lies behind all ids that are given out. So it is
//! durable with its batch, and a snapshot has that of its moment. It goes with its family: an id
//! that is gone is never asked for again, and opens pass over its metadata as over its other
//! records. What tables have of it goes when they are merged, were that after later openings.

use thermocline_base::merge::MergeOperator;
use thermocline_base::planted::{Bug, active};
use thermocline_base::{CfId, CfOptions, Error, Result, limits};
use thermocline_observe::event::Event;
use thermocline_runtime::Task;
use thermocline_version::{Change, VersionEdit};

use crate::partitions;
use crate::store::FamilyChanges;
use crate::sync::{Arc, Ordering, write};
use table::{Family, note_own, operator_named};

impl FamilyChanges {
    /// The caller holds the writer's lock, and there is none of this name.
    fn make_family(&self, name: &str, options: &CfOptions) -> Result<Family> {
        let next = self.common.catalog.edits().state().next_ids().cf;
        let id = u16::try_from(next)
            .ok()
            .filter(|&id| usize::from(id) < limits::COLUMN_FAMILIES_MAX)
            .ok_or_else(|| {
                Error::InvalidArgument(format!(
                    "a database has at most {} column families in its life",
                    limits::COLUMN_FAMILIES_MAX
                ))
            })?;
        self.common.options.check_division(options)?;
        let operator = self.operator_of(options, name)?;
        // Invariant 3.
        self.common.commits.drain(&*self.memtables)?;
        let mut edit = VersionEdit::from(Change::ColumnFamilyCreated {
            id,
            name: name.to_string(),
        });
        let stored = options.stored();
        if !stored.is_empty() {
            edit = edit.with(Change::ColumnFamilyOptions {
                id,
                options: stored,
            });
        }
        let version = self.common.catalog.version();
        let divided = partitions::at_keys(&version, CfId(id), (options, &self.common.options))?;
        edit.changes.extend(divided);
        self.common.catalog.edit(&edit)?;
        let family = Family {
            id: CfId(id),
            reverse: options.reverse == Some(true),
        };
        // Whoever finds the family may merge at once.
        self.give_operator(family.id, operator);
        let mut table = write(&self.common.families.table);
        table.add(name, family);
        note_own(&mut table.own, family.id, options);
        drop(table);
        let name = name.to_string();
        self.common.events.emit(Event::ColumnFamilyCreated { name });
        Ok(family)
    }

    /// The merge operator that a family is to have by these options.
    fn operator_of(
        &self,
        options: &CfOptions,
        family: &str,
    ) -> Result<Option<Arc<dyn MergeOperator>>> {
        let given = &self.common.families.given.operators;
        let named = options.merge_operator.as_ref();
        named
            .map(|name| operator_named(name.as_str(), family, given))
            .transpose()
    }

    /// A family has this merge operator from now on, which the manifest says. The caller holds the writer's lock.
    fn give_operator(&self, cf: CfId, operator: Option<Arc<dyn MergeOperator>>) {
        let Some(operator) = operator else { return };
        let families = &self.common.families;
        write(&families.table).operators.insert(cf, operator);
        families.any_operator.store(true, Ordering::Release);
    }

    /// Gives the merge operator that `options` name to a family that has none.
    fn add_operator(&self, family: Family, name: &str, options: &CfOptions) -> Result<()> {
        let families = &self.common.families;
        if options.merge_operator.is_none() || families.has_operator(family.id) {
            return Ok(());
        }
        self.common.check_writable()?;
        let operator = self.operator_of(options, name)?;
        let mut held_up = self.memtables.hold_writer_up();
        self.common.check_writable()?;
        families.check(family.id, families.moment())?;
        if let Some(other) = families.operator(family.id) {
            let made = CfOptions::default().merge_operator(other.name());
            return options.check_fixed(&made, name);
        }
        let made = families.own_options(family.id).reverse(family.reverse);
        let mut stored = made;
        stored.merge_operator = options.merge_operator;
        let edit = Change::ColumnFamilyOptions {
            id: family.id.0,
            options: stored.stored(),
        };
        self.common.catalog.edit(&edit.into())?;
        self.give_operator(family.id, operator);
        // What was promised ahead for the family was promised for shorter lists of versions.
        held_up.spend_credit();
        Ok(())
    }

    /// As [`Engine::family`](crate::Engine::family).
    pub fn family(&self, name: &str, options: &CfOptions) -> Result<Family> {
        let found = |family: Family| {
            options.check_fixed(&self.common.families.options_of(family), name)?;
            Ok(family)
        };
        if let Some(family) = self.common.families.find(name) {
            found(family)?;
            self.add_operator(family, name, options)?;
            return Ok(family);
        }
        self.common.check_writable()?;
        limits::check_family_name(name)?;
        // Under the writer's lock, so that two callers do not make it twice.
        let held_up = self.memtables.hold_writer_up();
        // Again, since the store may have been closed meanwhile.
        self.common.check_writable()?;
        if let Some(family) = self.common.families.find(name) {
            drop(held_up);
            found(family)?;
            self.add_operator(family, name, options)?;
            return Ok(family);
        }
        self.make_family(name, options)
    }

    /// As [`Engine::drop_family`](crate::Engine::drop_family).
    pub fn drop_family(&self, name: &str) -> Result<()> {
        self.common.check_writable()?;
        let is_named = self
            .common
            .families
            .find(name)
            .is_some_and(|family| family.id != CfId::DEFAULT);
        let flushing = self.flush_for_readers(is_named);
        let mut held_up = self.memtables.hold_writer_up();
        // Again, since the store may have been closed meanwhile.
        self.common.check_writable()?;
        let Some(Family { id, .. }) = self.common.families.find(name) else {
            return Err(Error::InvalidArgument(format!(
                "there is no column family '{name}' to drop"
            )));
        };
        if id == CfId::DEFAULT {
            return Err(Error::InvalidArgument(format!(
                "column family '{name}' is the default one, which cannot be dropped"
            )));
        }
        let prepared = &self.common.prepared;
        prepared.check_family(&self.common.families, id)?;
        // Invariant 3.
        if !active(Bug::DropBeforeDurable) {
            self.common.commits.drain(&*self.memtables)?;
        }
        self.set_aside(&mut held_up, id, flushing.as_ref());
        if !active(Bug::DropUnrecorded) {
            let dropped = self
                .common
                .catalog
                .edit(&Change::ColumnFamilyDropped { id: id.0 }.into());
            dropped.inspect_err(|_| self.keep_after_all(id))?;
        }
        let families = &self.common.families;
        let mut table = write(&families.table);
        table.remove(id);
        let number = families.moment() + 1;
        table.dropped.insert(id, (name.to_string(), number));
        families.drops.store(number, Ordering::Relaxed);
        drop(table);
        self.common.rates.dropped(id);
        self.common.catalog.show_tables();
        let name = name.to_string();
        self.common.events.emit(Event::ColumnFamilyDropped { name });
        // Memtables may hold nothing else.
        self.common.background.request(Task::Ahead);
        // What somebody reads at this moment goes when the store is idle. Perhaps nobody writes.
        self.common.written();
        Ok(())
    }
}

pub(crate) mod table;
#[cfg(test)]
mod tests;
