//! `ingest` and `export`: tables that go in and out.

use std::ops::Bound;

use serde_json::json;
use thermocline::Db;
use thermocline::size::format_size;

use crate::args::{ExportArgs, IngestArgs};
use crate::fail::Outcome;
use crate::files;
use crate::output::Output;
use crate::store::{Access, DEFAULT_FAMILY, bound_of, check_order, family};
use crate::text::count;

/// Adds the entries of tables.
pub(crate) fn ingest(args: &IngestArgs, output: &mut Output) -> Outcome {
    // Before a database is made for them.
    for table in &args.table {
        files::check(table)?;
    }
    // A family is not made, so a database neither where one must be there.
    let access = match &args.cf {
        Some(name) if name != DEFAULT_FAMILY => Access::Write,
        _ => Access::Create,
    };
    if access == Access::Create && Db::stored_options(&args.db)?.is_none() {
        Db::check_tables(&args.table)?;
    }
    let db = args.store.open(&args.db, access)?;
    let family = family(&db, &args.db, args.cf.as_deref(), Access::Write)?;
    let done = family.ingest(&args.table)?;
    db.close()?;
    if output.json {
        return output.document(&json!({
            "entries": done.entries,
            "ranges": done.ranges,
            "tables": done.tables,
            "bytes": done.bytes,
            "seqno": done.seqno,
        }));
    }
    let ranges = match done.ranges {
        0 => String::new(),
        ranges => format!(" and {}", count(ranges, "deleted range")),
    };
    output.note(&format!(
        "{}{ranges} of {} ingested",
        count(done.entries, "key"),
        count(args.table.len() as u64, "table")
    ))
}

/// Writes entries into one table.
pub(crate) fn export(args: &ExportArgs, output: &mut Output) -> Outcome {
    let bound = |typed| bound_of(typed, args.hex);
    let (from, to) = (bound(&args.from)?, bound(&args.to)?);
    let db = args.store.open(&args.db, Access::Read)?;
    let family = family(&db, &args.db, args.cf.as_deref(), Access::Read)?;
    check_order(&family, (from.as_deref(), to.as_deref()), args.hex)?;
    let range = (
        from.map_or(Bound::Unbounded, Bound::Included),
        to.map_or(Bound::Unbounded, Bound::Excluded),
    );
    let done = family.export(range, &args.file)?;
    db.close()?;
    if output.json {
        return output.document(&json!({"entries": done.entries, "bytes": done.bytes}));
    }
    output.note(&format!(
        "{} has {} in {}",
        args.file.display(),
        count(done.entries, "key"),
        format_size(done.bytes)
    ))
}
