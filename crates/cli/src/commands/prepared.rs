//! `prepared`: transactions between the two halves of their commit.

use serde_json::{Map, Value, json};
use thermocline::size::format_size;
use thermocline::{ClaimedKey, PreparedState};

use crate::args::PreparedArgs;
use crate::commands::point::done;
use crate::fail::Outcome;
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
    let db = args.store.open(&args.db, Access::Write)?;
    for name in commit {
        db.commit_prepared(name)?;
    }
    for name in rollback {
        db.roll_back_prepared(name)?;
    }
    db.close()?;
    done(output)
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
    let mut line = String::new();
    match as_hex {
        true => line.push_str(&hex(&one.name)),
        false => escape(&one.name, &mut line),
    }
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
