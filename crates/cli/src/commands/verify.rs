//! `verify`: every checksum and structural rule.

use serde_json::json;
use thermocline::Db;
use thermocline::size::format_size;

use crate::args::DbArgs;
use crate::fail::{Failure, Outcome};
use crate::output::Output;
use crate::text::count;

/// Checks a database and lists every fault.
pub(crate) fn verify(args: &DbArgs, output: &mut Output) -> Outcome {
    let options = args.store.options_to_verify(&args.db)?;
    let report = Db::verify(&args.db, options)?;
    if output.json {
        let faults: Vec<_> = report
            .faults
            .iter()
            .map(|f| json!({"place": f.place, "offset": f.offset, "what": f.what}))
            .collect();
        output.document(&json!({
            "sound": faults.is_empty(),
            "records": report.records,
            "bytes": report.bytes,
            "faults": faults,
            "more_faults": report.more_faults,
        }))?;
    } else {
        for fault in &report.faults {
            output.line(&format!(
                "{} at offset {}: {}",
                fault.place, fault.offset, fault.what
            ))?;
        }
    }
    if report.faults.is_empty() {
        return output.note(&format!(
            "{} is sound: {} and {} checked, no fault",
            args.db.display(),
            count(report.records, "record"),
            format_size(report.bytes)
        ));
    }
    output.finish()?;
    Err(Failure::Failed(format!(
        "{} has {}; copy the folder before you change anything in it",
        args.db.display(),
        count(report.faults.len() as u64 + report.more_faults, "fault")
    )))
}
