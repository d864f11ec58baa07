//! `ingest` and `export`: tables that go in and out.

use std::ops::Bound;
use std::path::PathBuf;

use serde_json::json;
use thermocline::size::format_size;
use thermocline::{Db, Exported, Ingested};

use crate::args::{ExportArgs, IngestArgs};
use crate::commands::waiting::{Told, waited};
use crate::fail::Outcome;
use crate::files;
use crate::output::Output;
use crate::progress::Known;
use crate::store::{Access, DEFAULT_FAMILY, bound_of, check_order, family};
use crate::text::{count, path_shown};

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
        let check = || Db::check_tables(&args.table);
        waited("checking", output, || Known::Nothing, check)?;
    }
    let db = args.store.open(&args.db, access)?;
    let family = family(&db, &args.db, args.cf.as_deref(), Access::Write)?;
    let told = Told::default();
    let bring = || -> Outcome<Ingested> {
        let done = family.ingest_observed(&args.table, |progress| told.note(progress))?;
        db.close()?;
        Ok(done)
    };
    let done = waited("ingesting", output, || told.known(), bring)?;
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
    // The table is written under this name, and nobody knows yet how large it will be.
    let mut part = args.file.clone().into_os_string();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = || match part.metadata() {
        Ok(part) => Known::Written(part.len()),
        Err(_) => Known::Nothing,
    };
    let write = || -> Outcome<Exported> {
        let done = family.export(range, &args.file)?;
        db.close()?;
        Ok(done)
    };
    let done = waited("exporting", output, written, write)?;
    if output.json {
        return output.document(&json!({"entries": done.entries, "bytes": done.bytes}));
    }
    output.note(&format!(
        "{} has {} in {}",
        path_shown(&args.file),
        count(done.entries, "key"),
        format_size(done.bytes)
    ))
}
