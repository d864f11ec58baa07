//! `checkpoint`, `backup`, `backups` and `restore`: copies of a database.

use serde_json::{Value, json};
use thermocline::size::format_size;
use thermocline::{BackupInfo, Backups};

use crate::args::{BackupsArgs, DbDirArgs, RestoreArgs};
use crate::fail::{Failure, Outcome};
use crate::output::Output;
use crate::store::Access;
use crate::text::{count, hex};

/// Makes a folder a database with what this one has now.
pub(crate) fn checkpoint(args: &DbDirArgs, output: &mut Output) -> Outcome {
    let db = args.store.open(&args.db, Access::Read)?;
    db.checkpoint(&args.dir)?;
    db.close()?;
    if output.json {
        return output.document(&json!({"ok": true}));
    }
    let (db, dir) = (args.db.display(), args.dir.display());
    output.note(&format!("{dir} has what {db} has now"))
}

/// Adds a backup to a folder.
pub(crate) fn backup(args: &DbDirArgs, output: &mut Output) -> Outcome {
    let db = args.store.open(&args.db, Access::Write)?;
    let info = Backups::new(&args.dir).create(&db)?;
    db.close()?;
    if output.json {
        return output.document(&described(&info));
    }
    output.note(&format!(
        "backup {} in {} has {} in {}, of which {} are new",
        info.id,
        args.dir.display(),
        format_size(info.bytes),
        count(info.files, "file"),
        format_size(info.new_bytes)
    ))
}

/// Lists, checks or deletes backups.
pub(crate) fn backups(args: &BackupsArgs, output: &mut Output) -> Outcome {
    let all = Backups::new(&args.dir);
    if args.verify {
        return verify(args, &all, output);
    }
    for id in &args.delete {
        all.delete(*id)?;
    }
    let list = all.list()?;
    if output.json {
        let described: Vec<Value> = list.iter().map(described).collect();
        return output.document(&json!({"backups": described, "count": list.len()}));
    }
    for info in &list {
        output.line(&format!(
            "{}\t{}\tup to {}\t{}\t{}",
            info.id,
            hex(&info.db_id),
            info.seqno,
            count(info.files, "file"),
            format_size(info.bytes)
        ))?;
    }
    Ok(())
}

fn verify(args: &BackupsArgs, all: &Backups, output: &mut Output) -> Outcome {
    let report = all.verify()?;
    let dir = args.dir.display();
    if output.json {
        let fault =
            |f: &thermocline::Fault| json!({"place": f.place, "offset": f.offset, "what": f.what});
        let faults: Vec<Value> = report.faults.iter().map(fault).collect();
        output.document(&json!({
            "sound": faults.is_empty(),
            "files": report.records,
            "bytes": report.bytes,
            "faults": faults,
        }))?;
    } else {
        for fault in &report.faults {
            let (place, offset, what) = (&fault.place, fault.offset, &fault.what);
            output.line(&format!("{place} at offset {offset}: {what}"))?;
        }
    }
    if report.faults.is_empty() {
        let (files, bytes) = (count(report.records, "file"), format_size(report.bytes));
        return output.note(&format!(
            "{dir} is sound: {files} of {bytes} checked, no fault"
        ));
    }
    output.finish()?;
    let faults = count(report.faults.len() as u64, "fault");
    Err(Failure::Failed(format!(
        "{dir} has {faults}; make a new backup in another folder, as one in this would use the same files again, and \
         delete those that are damaged"
    )))
}

/// Makes a database of a backup.
pub(crate) fn restore(args: &RestoreArgs, output: &mut Output) -> Outcome {
    let info = Backups::new(&args.dir).restore(args.backup, &args.db)?;
    if output.json {
        return output.document(&described(&info));
    }
    output.note(&format!(
        "{} has what backup {} has: {} in {}, every byte checked",
        args.db.display(),
        info.id,
        format_size(info.bytes),
        count(info.files, "file")
    ))
}

fn described(info: &BackupInfo) -> Value {
    json!({
        "backup": info.id,
        "database": hex(&info.db_id),
        "seqno": info.seqno,
        "files": info.files,
        "bytes": info.bytes,
        "new_bytes": info.new_bytes,
    })
}
