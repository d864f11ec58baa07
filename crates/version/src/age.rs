//! The law of age, as far as the metadata of an edit shows it.
//!
//! Along one key every layer is strictly newer than the layers below it, and data may skip a layer
//! only in one edit that takes all older data of that range along (design, section 1). Which keys a
//! table has is not known here, only which it can have; so this is what an edit must keep:
//!
//! 1. **Nothing overtakes.** Where a table that the edit removes, one that it adds and one that
//!    stays overlap in keys, the removed and the added one stand on the same side of the one that
//!    stays: both above it or both below. Otherwise data has moved past it.
//! 2. **What is new comes from above.** A table that the edit adds and that has newer seqnos than
//!    every removed one that it overlaps has data from outside the levels, which is newer than all
//!    of them. So no table that stays above it overlaps it.
//! 3. **Ends of ranges are keys.** Where a table that is added and one in another level of the
//!    family surely have the same key, not all seqnos of the upper one are at or below all of
//!    the lower one.
//!
//! "Above" is a smaller level, or in level 0 newer seqnos. Within level 0 the version itself
//! refuses what has no order.
//!
//! What is **not** checked, because it is not so: that along overlapping *ranges* deeper seqnos are
//! smaller. A table with the keys a and z may be older than one between them that has sunk deeper
//! while both were apart, and a merge that cuts its output by size makes such tables every day.
//!
//! What an added reference may have come from is all that the edit removes and the reference overlaps; but if
//! references to the same file are among that, then those alone: it was moved, or cut into parts. Where the edit adds
//! a part of a removed reference again, in its place, only the rest has moved.
//!
//! The rules compare an edit as a whole, so an edit is one job: two jobs of one range do not share
//! one. The state of a debug build refuses an edit that breaks them; a release build does not look.

use std::sync::Arc;

use crate::edit::{Change, VersionEdit};
use crate::impossible::{Impossible, must};
use crate::table::{Level, Place, TableRef};
use crate::version::Version;

/// Checks that the edit that made `after` of `before` kept the law of age.
///
/// # Errors
/// [`thermocline_base::Error::InvalidArgument`] naming the tables.
pub fn check_age(
    before: &Version,
    after: &Version,
    edit: &VersionEdit,
) -> thermocline_base::Result<()> {
    check(before, after, edit).map_err(|e| {
        let (what, expected, got) = (e.what, e.expected, e.got);
        let why = format!("{what} (expected {expected}, got {got})");
        thermocline_base::Error::InvalidArgument(why)
    })
}

type Placed<'a> = (Place, &'a Arc<TableRef>);

pub(crate) fn check(
    before: &Version,
    after: &Version,
    edit: &VersionEdit,
) -> Result<(), Impossible> {
    let changes = edit.changes.iter();
    let whole = changes.filter_map(|change| removed(before, change));
    let removed = whole.map(|(place, whole)| Removed {
        place,
        moved: moved(place, whole, edit),
        whole,
    });
    let removed: Vec<Removed<'_>> = removed.collect();
    for change in &edit.changes {
        if let Change::TableAdded { place, table } = change {
            check_added(before, after, &removed, (*place, table))?;
        }
    }
    Ok(())
}

/// A reference that an edit removes.
struct Removed<'a> {
    place: Place,
    whole: &'a Arc<TableRef>,
    /// Without the parts at its ends that stay where they were; `None` if nothing is left.
    moved: Option<Arc<TableRef>>,
}

fn moved(place: Place, whole: &Arc<TableRef>, edit: &VersionEdit) -> Option<Arc<TableRef>> {
    let (mut lower, mut upper) = (None, None);
    for change in &edit.changes {
        let Change::TableAdded { place: at, table } = change else {
            continue;
        };
        if *at != place || table.file != whole.file {
            continue;
        }
        let (begins, ends) = table.limits();
        let part = whole.part(begins, ends);
        if part.is_none_or(|part| part.range != table.range) {
            continue;
        }
        let is_first = table.range.first == whole.range.first;
        let is_last = table.range.end() == whole.range.end();
        match (is_first, is_last) {
            (true, true) => return None,
            (true, false) => lower = ends,
            (false, true) => upper = begins,
            (false, false) => {}
        }
    }
    match (lower, upper) {
        (None, None) => Some(Arc::clone(whole)),
        _ => whole.part(lower, upper).map(Arc::new),
    }
}

/// The reference of `before` that a change removes.
fn removed<'a>(before: &'a Version, change: &Change) -> Option<Placed<'a>> {
    let Change::TableRemoved {
        place,
        file,
        smallest,
    } = change
    else {
        return None;
    };
    let mut references = before.references(*file).iter();
    let found = references.find(|(at, t)| at == place && t.range.first == *smallest);
    found.map(|(at, table)| (*at, table))
}

fn check_added(
    before: &Version,
    after: &Version,
    removed: &[Removed<'_>],
    added: Placed<'_>,
) -> Result<(), Impossible> {
    let (place, table) = added;
    let of_family = || removed.iter().filter(move |r| r.place.cf == place.cf);
    let overlaps = |source: &&Arc<TableRef>| source.range.overlaps(&table.range);
    // A file never changes: a reference to the same one is what was moved or cut.
    let is_same = |source: &Removed<'_>| source.whole.file == table.file && overlaps(&source.whole);
    let same_file = of_family().any(is_same);
    let sources = of_family().filter_map(|source| {
        let table = match same_file {
            true => is_same(source).then_some(source.whole),
            false => source.moved.as_ref().filter(overlaps),
        };
        Some((source.place, table?))
    });
    let sources: Vec<Placed<'_>> = sources.collect();
    let newest = sources.iter().map(|(_, source)| source.largest_seqno).max();
    let from_outside = newest.is_none_or(|newest| table.largest_seqno > newest);
    let Some(family) = after.family(place.cf) else {
        return Ok(());
    };
    for (level, tables) in family.levels() {
        for other in tables.overlapping_table(table) {
            let other = (Place { level, ..place }, other);
            if level != place.level {
                check_ends(added, other)?;
            }
            if !stays(before, other) {
                continue;
            }
            let above = is_above(other, added);
            let what = "table that data from outside was put below";
            must(!(from_outside && above), what, Shown(added), Shown(other))?;
            for source in &sources {
                let overtaken =
                    source.1.range.overlaps(&other.1.range) && is_above(other, *source) != above;
                let what = "table that data was moved past";
                must(!overtaken, what, Shown(*source), Shown(other))?;
            }
        }
    }
    Ok(())
}

/// Whether a reference of the version after the edit was there before it.
fn stays(before: &Version, (place, table): Placed<'_>) -> bool {
    let mut references = before.references(table.file).iter();
    references.any(|(at, other)| *at == place && other == table)
}

/// Whether `a` is read before `b`.
fn is_above((a_at, a): Placed<'_>, (b_at, b): Placed<'_>) -> bool {
    match a_at.level.cmp(&b_at.level) {
        std::cmp::Ordering::Equal if a_at.level == Level::ZERO => a.is_newer_than(b),
        order => order.is_lt(),
    }
}

fn check_ends(one: Placed<'_>, other: Placed<'_>) -> Result<(), Impossible> {
    let (upper, lower) = match is_above(one, other) {
        true => (one, other),
        false => (other, one),
    };
    let ends = [&*lower.1.range.first, &lower.1.range.last];
    let mut common = ends.into_iter().filter(|key| lower.1.surely_has(key));
    let reversed = upper.1.largest_seqno <= lower.1.smallest_seqno
        && common.any(|key| upper.1.surely_has(key));
    must(
        !reversed,
        "table above a newer one",
        Shown(lower),
        Shown(upper),
    )
}

struct Shown<'a>(Placed<'a>);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (place, table) = self.0;
        write!(f, "{table} in {place}")
    }
}

#[cfg(test)]
mod tests;
