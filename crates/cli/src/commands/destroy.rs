//! `destroy`: removes a database.

use serde_json::json;
use thermocline::{Db, Options};

use crate::args::DestroyArgs;
use crate::fail::{Failure, Outcome};
use crate::output::Output;
use crate::text::path_shown;

/// Removes a database, if that is said twice. What the database remembers of its region is not used: a folder that was copied
/// remembers the one of its original.
pub(crate) fn destroy(args: &DestroyArgs, output: &mut Output) -> Outcome {
    let shown = path_shown(&args.db);
    if !args.yes {
        return Err(Failure::Usage(format!(
            "this removes the database in {shown} for good; add --yes to do it"
        )));
    }
    let options = Options {
        pm_path: args.pm_path.clone(),
        wal_path: args.wal_path.clone(),
        ..Options::default()
    };
    Db::destroy(&args.db, options)?;
    if output.json {
        return output.document(&json!({"ok": true}));
    }
    output.note(&format!("the database in {shown} is gone"))
}
