//! `compact`: a database, a column family, or a range.

use std::ops::Bound;

use serde_json::json;
use thermocline::{ColumnFamily, Metrics, size::format_size};

use crate::args::CompactArgs;
use crate::commands::waiting::waited;
use crate::fail::Outcome;
use crate::output::Output;
use crate::progress::Known;
use crate::store::{Access, bound_of, check_order, family};

/// Compacts, and says what became of the space.
pub(crate) fn compact(args: &CompactArgs, output: &mut Output) -> Outcome {
    let bound = |typed| bound_of(typed, args.hex);
    let (from, to) = (bound(&args.from)?, bound(&args.to)?);
    let db = args.store.open(&args.db, Access::Write)?;
    let everything = args.cf.is_none() && args.from.is_none() && args.to.is_none();
    let families: Vec<ColumnFamily> = match everything {
        true => {
            let names = db.column_families().into_iter();
            names
                .filter_map(|name| db.find_column_family(&name))
                .collect()
        }
        false => vec![family(&db, &args.db, args.cf.as_deref(), Access::Write)?],
    };
    for family in &families {
        check_order(family, (from.as_deref(), to.as_deref()), args.hex)?;
    }
    let from = from.map_or(Bound::Unbounded, Bound::Included);
    let to = to.map_or(Bound::Unbounded, Bound::Excluded);
    let before = db.metrics();
    let written = || {
        let now = db.metrics().ssd_bytes_written;
        Known::Written(now.saturating_sub(before.ssd_bytes_written))
    };
    waited("compacting", output, written, || {
        let range = || (from.clone(), to.clone());
        let mut families = families.iter();
        families.try_for_each(|family| family.compact::<Vec<u8>>(range()))
    })?;
    let after = db.metrics();
    drop(families);
    db.close()?;
    let [(pm_before, ssd_before), (pm_after, ssd_after)] = [&before, &after].map(taken);
    if output.json {
        return output.document(&json!({
            "ok": true,
            "pm_bytes_before": pm_before, "pm_bytes_after": pm_after,
            "ssd_bytes_before": ssd_before, "ssd_bytes_after": ssd_after,
        }));
    }
    let went =
        |before, after| format!("{} before, {} now", format_size(before), format_size(after));
    output.note(&format!(
        "persistent memory: {}; tables and blob files on SSD: {}",
        went(pm_before, pm_after),
        went(ssd_before, ssd_after)
    ))
}

/// Bytes taken in persistent memory, and by tables and blob files.
fn taken(m: &Metrics) -> (u64, u64) {
    let tables: u64 = m.levels.iter().map(|level| level.bytes).sum();
    (m.pm_attached_bytes, tables + m.blobs.bytes)
}
