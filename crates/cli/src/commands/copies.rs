//! `checkpoint`, `backup`, `backups` and `restore`: copies of a database.

use serde_json::{Value, json};
use thermocline::size::format_size;
use thermocline::{BackupInfo, Backups, Error, Fault, VerifyReport};

use crate::args::{BackupsArgs, DbDirArgs, RestoreArgs};
use crate::commands::waiting::{Told, waited};
use crate::fail::{Failure, Outcome, even_unread, one_line};
use crate::output::Output;
use crate::store::Access;
use crate::text::{count, hex, path_shown};

/// Makes a folder a database with what this one has now.
pub(crate) fn checkpoint(args: &DbDirArgs, output: &mut Output) -> Outcome {
    let db = args.store.open(&args.db, Access::Read)?;
    let told = Told::default();
    let copy = || -> Outcome<u64> {
        let seqno = db.checkpoint_observed(&args.dir, |progress| told.note(progress))?;
        db.close()?;
        Ok(seqno)
    };
    let seqno = waited("copying", output, || told.known(), copy)?;
    if output.json {
        return output.document(&json!({"ok": true, "seqno": seqno}));
    }
    let (db, dir) = (path_shown(&args.db), path_shown(&args.dir));
    output.note(&format!("{dir} has what {db} has now"))
}

/// Adds a backup to a folder. What is flushed for it the next backup has in common with it.
pub(crate) fn backup(args: &DbDirArgs, output: &mut Output) -> Outcome {
    let db = args.store.open_to_flush(&args.db)?;
    let told = Told::default();
    let make = || -> Outcome<BackupInfo> {
        let backups = Backups::new(&args.dir);
        let info = backups.create_observed(&db, |progress| told.note(progress))?;
        db.close()?;
        Ok(info)
    };
    let info = waited("backing up", output, || told.known(), make)?;
    if output.json {
        return output.document(&described(&info));
    }
    output.note(&format!(
        "backup {} in {} has {} in {}, of which {} are new",
        info.id,
        path_shown(&args.dir),
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
    // Of what is left something may be damaged.
    let list = all.list();
    let list = list.map_err(|error| behind(&args.delete, error))?;
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
    for (n, id) in args.delete.iter().enumerate() {
        let deleted = all.delete(*id);
        deleted.map_err(|error| behind(&args.delete[..n], error))?;
    }
    Ok(())
}

/// What went wrong behind the deletion of these backups.
fn behind(deleted: &[u64], error: Error) -> Failure {
    match deleted.is_empty() {
        true => Failure::from(error),
        false => {
            let deleted = shown(deleted);
            Failure::Failed(format!("{error}; deleted before that: {deleted}"))
        }
    }
}

fn shown(ids: &[u64]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    ids.join(", ")
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
    // What is damaged can be deleted, too.
    let there = all.ids()?;
    let Some(id) = ids.iter().find(|id| !there.contains(id)) else {
        return Ok(());
    };
    let dir = args.dir.display();
    let has = match there.is_empty() {
        true => "none".to_string(),
        false => shown(&there),
    };
    Err(Failure::Failed(format!(
        "there is no backup {id} in {dir}; it has {has}; nothing was deleted"
    )))
}

fn verify(args: &BackupsArgs, all: &Backups, output: &mut Output) -> Outcome {
    let told = Told::default();
    let check = || all.verify_observed(|progress| told.note(progress));
    let report = waited("checking", output, || told.known(), check)?;
    let dir = path_shown(&args.dir);
    let printed = print(&report, output);
    if report.faults.is_empty() {
        printed?;
        let (files, bytes) = (count(report.records, "file"), format_size(report.bytes));
        return output.note(&format!(
            "{dir} is sound: {files} of {bytes} checked, no fault"
        ));
    }
    even_unread(printed.and_then(|()| output.finish()))?;
    let faults = count(report.fault_count(), "fault");
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
        output.line(&one_line(&format!("{place} at offset {offset}: {what}")))?;
    }
    Ok(())
}

/// Makes a database of a backup.
pub(crate) fn restore(args: &RestoreArgs, output: &mut Output) -> Outcome {
    let told = Told::default();
    let make = || {
        let backups = Backups::new(&args.dir);
        backups.restore_observed(args.backup, &args.db, |progress| told.note(progress))
    };
    let info = waited("restoring", output, || told.known(), make)?;
    if output.json {
        return output.document(&described(&info));
    }
    output.note(&format!(
        "{} has what backup {} has: {} in {}, every byte checked",
        path_shown(&args.db),
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
