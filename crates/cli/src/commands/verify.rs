//! `verify`: every checksum and structural rule.

use serde_json::json;
use thermocline::size::format_size;
use thermocline::{Db, VerifyReport};

use crate::args::DbArgs;
use crate::commands::waiting::{Told, waited};
use crate::fail::{Failure, Outcome, even_unread, one_line};
use crate::output::Output;
use crate::text::{count, path_shown};

/// Checks a database and lists every fault.
pub(crate) fn verify(args: &DbArgs, output: &mut Output) -> Outcome {
    let options = args.store.options_to_verify(&args.db)?;
    let told = Told::default();
    let check = || Db::verify_observed(&args.db, options, |progress| told.note(progress));
    let report = waited("checking", output, || told.known(), check)?;
    let printed = print(&report, output);
    if report.faults.is_empty() {
        printed?;
        return output.note(&format!(
            "{} is sound: {} and {} checked, no fault",
            path_shown(&args.db),
            count(report.records, "record"),
            format_size(report.bytes)
        ));
    }
    even_unread(printed.and_then(|()| output.finish()))?;
    Err(Failure::Failed(format!(
        "{} has {}; copy the folder before you change anything in it",
        args.db.display(),
        count(report.fault_count(), "fault")
    )))
}

/// Prints the faults, or the document.
fn print(report: &VerifyReport, output: &mut Output) -> Outcome {
    if output.json {
        let faults: Vec<_> = report
            .faults
            .iter()
            .map(|f| json!({"place": f.place, "offset": f.offset, "what": f.what}))
            .collect();
        return output.document(&json!({
            "sound": faults.is_empty(),
            "records": report.records,
            "bytes": report.bytes,
            "faults": faults,
            "more_faults": report.more_faults,
        }));
    }
    for fault in &report.faults {
        output.line(&one_line(&format!(
            "{} at offset {}: {}",
            fault.place, fault.offset, fault.what
        )))?;
    }
    Ok(())
}
