//! `checkpoint`, `backup`, `backups` and `restore`: copies of a database.

use serde_json::{Value, json};
use thermocline::size::format_size;
use thermocline::{BackupInfo, Backups, ErrorKind, Fault, VerifyReport};

use crate::args::{BackupsArgs, DbDirArgs, RestoreArgs};
use crate::fail::{Failure, Outcome, even_unread};
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
    delete(args, &all)?;
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

/// Deletes backups; none of them, if one is not there.
fn delete(args: &BackupsArgs, all: &Backups) -> Outcome {
    check_there(args, all)?;
    let mut deleted: Vec<String> = Vec::new();
    for id in &args.delete {
        all.delete(*id).map_err(|error| match deleted.is_empty() {
            true => Failure::from(error),
            false => {
                let deleted = deleted.join(", ");
                Failure::Failed(format!("{error}; deleted before that: {deleted}"))
            }
        })?;
        deleted.push(id.to_string());
    }
    Ok(())
}

/// Whether all that are to be deleted are there, and named once. Of one alone whoever deletes it finds out.
fn check_there(args: &BackupsArgs, all: &Backups) -> Outcome {
    let ids = &args.delete;
    if ids.len() < 2 {
        return Ok(());
    }
    for (n, id) in ids.iter().enumerate() {
        if ids[..n].contains(id) {
            let text = format!("--delete {id} is there twice; leave one out");
            return Err(Failure::Usage(text));
        }
    }
    let there: Vec<u64> = match all.list() {
        // What is damaged can be deleted, and the list does not tell then what is there.
        Err(error) if error.kind() == ErrorKind::Corruption => return Ok(()),
        list => list?.iter().map(|info| info.id).collect(),
    };
    let Some(id) = ids.iter().find(|id| !there.contains(id)) else {
        return Ok(());
    };
    let dir = args.dir.display();
    let there: Vec<String> = there.iter().map(ToString::to_string).collect();
    let has = match there.is_empty() {
        true => "none".to_string(),
        false => there.join(", "),
    };
    Err(Failure::Failed(format!(
        "there is no backup {id} in {dir}; it has {has}; nothing was deleted"
    )))
}

fn verify(args: &BackupsArgs, all: &Backups, output: &mut Output) -> Outcome {
    let report = all.verify()?;
    let dir = args.dir.display();
    let printed = print(&report, output);
    if report.faults.is_empty() {
        printed?;
        let (files, bytes) = (count(report.records, "file"), format_size(report.bytes));
        return output.note(&format!(
            "{dir} is sound: {files} of {bytes} checked, no fault"
        ));
    }
    even_unread(printed.and_then(|()| output.finish()))?;
    let faults = count(report.faults.len() as u64, "fault");
    Err(Failure::Failed(format!(
        "{dir} has {faults}; make a new backup in another folder, as one in this would use the same files again, and \
         delete those that are damaged"
    )))
}

/// Prints the faults, or the document.
fn print(report: &VerifyReport, output: &mut Output) -> Outcome {
    if output.json {
        let fault = |f: &Fault| json!({"place": f.place, "offset": f.offset, "what": f.what});
        let faults: Vec<Value> = report.faults.iter().map(fault).collect();
        return output.document(&json!({
            "sound": faults.is_empty(),
            "files": report.records,
            "bytes": report.bytes,
            "faults": faults,
        }));
    }
    for fault in &report.faults {
        let (place, offset, what) = (&fault.place, fault.offset, &fault.what);
        output.line(&format!("{place} at offset {offset}: {what}"))?;
    }
    Ok(())
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
