//! Storing again what an open keeps (rule 3 of recovery, `docs/durability.md`).

use thermocline_base::Result;
use thermocline_pm::Region;

use crate::walk::{item_at, values_hold};
use crate::{ChainPlan, ItemRef};

/// Stores an item that the walk has accepted, in segment `segment` of `plan`, once more and starts writing it
/// back. Whether it reads as it did then, values included. For an open, which nobody reads beside.
///
/// # Errors
/// Those of the region.
pub fn keep_again(
    region: &Region,
    plan: &ChainPlan,
    segment: usize,
    item: &ItemRef,
) -> Result<bool> {
    // SAFETY: the walk keeps offsets, never slices, and no memtable that could read the item has been made.
    unsafe { region.flush_again(item.at, u64::from(item.bytes)) };
    let again = item_at(region, &plan.chain, &plan.segments[segment], item.at)?;
    let same = again.is_some_and(|(again, _)| again == *item);
    Ok(same && values_hold(region, &plan.chain, item)?)
}
