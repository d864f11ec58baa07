//! `prepared`: transactions between the two halves of their commit.

use serde_json::{Map, Value, json};
use thermocline::size::format_size;
use thermocline::{ClaimedKey, Db, PreparedState};

use crate::args::PreparedArgs;
use crate::commands::point::done;
use crate::fail::{Failure, Outcome};
use crate::output::Output;
use crate::store::Access;
use crate::text::{bytes_of, count, escape, hex, insert};

/// Lists them, or ends some.
pub(crate) fn prepared(args: &PreparedArgs, output: &mut Output) -> Outcome {
    if args.commit.is_empty() && args.rollback.is_empty() {
        return list(args, output);
    }
    let names = |all: &[String]| -> Outcome<Vec<Vec<u8>>> {
        all.iter().map(|name| bytes_of(name, args.hex)).collect()
    };
    let (commit, rollback) = (names(&args.commit)?, names(&args.rollback)?);
    let all: Vec<&[u8]> = commit.iter().chain(&rollback).map(Vec::as_slice).collect();
    for (n, name) in all.iter().enumerate() {
        if all[..n].contains(name) {
            let name = shown(name, args.hex);
            let text = format!("'{name}' is there twice; a transaction is ended once");
            return Err(Failure::Usage(text));
        }
    }
    let db = args.store.open(&args.db, Access::Write)?;
    check_there(args, &db, &all)?;
    let mut ended: Vec<String> = Vec::new();
    for (n, name) in all.iter().enumerate() {
        let resolved = match n < commit.len() {
            true => db.commit_prepared(name),
            false => db.roll_back_prepared(name),
        };
        resolved.map_err(|error| match ended.is_empty() {
            true => Failure::from(error),
            false => {
                let ended = ended.join(", ");
                Failure::Failed(format!("{error}; ended before that: {ended}"))
            }
        })?;
        ended.push(shown(name, args.hex));
    }
    db.close()?;
    done(output)
}

/// Refuses names of which one is that of no prepared transaction, before any is ended.
fn check_there(args: &PreparedArgs, db: &Db, names: &[&[u8]]) -> Outcome {
    let there = db.prepared()?;
    let unknown = |name: &&&[u8]| there.iter().all(|one| one.name[..] != ***name);
    match names.iter().find(unknown) {
        None => Ok(()),
        Some(name) => Err(Failure::Failed(format!(
            "there is no prepared transaction '{}' in {}: it was never prepared, or was committed or rolled back before; \
             nothing was ended",
            shown(name, args.hex),
            args.db.display()
        ))),
    }
}

/// A name as it is typed.
fn shown(name: &[u8], as_hex: bool) -> String {
    let mut text = String::new();
    match as_hex {
        true => text.push_str(&hex(name)),
        false => escape(name, &mut text),
    }
    text
}

fn list(args: &PreparedArgs, output: &mut Output) -> Outcome {
    let db = args.store.open(&args.db, Access::Read)?;
    let all = db.prepared()?;
    db.close()?;
    if output.json {
        let listed: Vec<Value> = all.iter().map(|one| as_json(one, args.hex)).collect();
        return output.document(&json!({"prepared": listed, "count": all.len()}));
    }
    for one in &all {
        output.line(&line(one, args.hex))?;
    }
    Ok(())
}

/// One transaction as a line.
pub(super) fn line(one: &PreparedState, as_hex: bool) -> String {
    let mut line = shown(&one.name, as_hex);
    let (changes, claims) = (count(one.changes, "change"), count(one.claims, "claim"));
    let bytes = format_size(one.bytes);
    line.push_str(&format!("\t{changes}\t{claims}\t{bytes}\t"));
    for (n, family) in one.families.iter().enumerate() {
        line.push_str(if n > 0 { ", " } else { "" });
        escape(family.as_bytes(), &mut line);
    }
    line
}

/// The keys that it keeps others from, as a line.
pub(super) fn keys_line(one: &PreparedState) -> String {
    let mut line = String::from("nobody else changes ");
    for (n, key) in one.keys.iter().enumerate() {
        line.push_str(if n > 0 { ", " } else { "" });
        escape(&key.key, &mut line);
        line.push_str(" in ");
        escape(key.family.as_bytes(), &mut line);
    }
    if one.claims > one.keys.len() as u64 {
        line.push_str(", and more");
    }
    line
}

/// One transaction as JSON.
pub(super) fn as_json(one: &PreparedState, as_hex: bool) -> Value {
    let mut object = Map::new();
    insert(&mut object, "name", &one.name, as_hex);
    object.insert("changes".into(), one.changes.into());
    object.insert("claims".into(), one.claims.into());
    object.insert("bytes".into(), one.bytes.into());
    object.insert("families".into(), one.families.clone().into());
    let key = |key: &ClaimedKey| {
        let mut object = Map::new();
        object.insert("family".into(), key.family.clone().into());
        insert(&mut object, "key", &key.key, as_hex);
        object.insert("written".into(), key.written.into());
        Value::Object(object)
    };
    object.insert("keys".into(), one.keys.iter().map(key).collect());
    Value::Object(object)
}
