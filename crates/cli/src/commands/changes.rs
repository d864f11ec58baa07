//! `changes`: what was committed since a sequence number.

use serde_json::{Map, Value};
use thermocline::{Change, ChangeFeed, ChangeOp};

use crate::args::ChangesArgs;
use crate::fail::Outcome;
use crate::output::Output;
use crate::store::Access;
use crate::text::{escape, hex, insert};

/// Prints the changes since a sequence number: whole groups, until there are enough.
pub(crate) fn changes(args: &ChangesArgs, output: &mut Output) -> Outcome {
    let db = args.store.open(&args.db, Access::Read)?;
    let mut feed = db.changes_since(args.since)?;
    let mut printed = Printed {
        count: 0,
        last: args.since,
    };
    if !output.json {
        return print(args, &mut feed, &mut printed, output);
    }
    output.bytes(b"{\"changes\":[")?;
    let listed = print(args, &mut feed, &mut printed, output);
    let position = match listed {
        Ok(()) => feed.position(),
        // The feed has gone past what could not be read.
        Err(_) => printed.last,
    };
    // A position is one of this database, and does not say so.
    let (count, database) = (printed.count, hex(&db.id()));
    let members = format!("\"count\":{count},\"position\":{position},\"database\":\"{database}\"");
    output.end_list(&members, listed)
}

/// How many changes were printed, and the number of the last one.
struct Printed {
    count: u64,
    last: u64,
}

/// Prints whole groups, until there are enough.
fn print(
    args: &ChangesArgs,
    feed: &mut ChangeFeed,
    printed: &mut Printed,
    output: &mut Output,
) -> Outcome {
    let limit = args.limit.unwrap_or(u64::MAX);
    while printed.count < limit
        && let Some(group) = feed.next()
    {
        for change in group?.changes() {
            let change = change?;
            // The last number that was printed may lie within a group, if what comes behind it there is of a dropped family.
            if change.seqno <= args.since {
                continue;
            }
            if !output.json {
                output.line(&line(&change, args.hex))?;
            } else {
                output.bytes(if printed.count > 0 { b"," } else { b"" })?;
                output.value(&object(&change, args.hex))?;
            }
            (printed.count, printed.last) = (printed.count + 1, change.seqno);
        }
    }
    Ok(())
}

/// What a change has beside its kind, by name: keys and values as they are typed.
fn parts<'c>(op: &'c ChangeOp<'_>) -> [Option<(&'static str, &'c [u8])>; 2] {
    match op {
        ChangeOp::Put { key, value } => [Some(("key", key)), Some(("value", value))],
        ChangeOp::Merge { key, operand } => [Some(("key", key)), Some(("operand", operand))],
        ChangeOp::Delete { key } => [Some(("key", key)), None],
        ChangeOp::DeleteRange { from, to } => [Some(("from", *from)), to.map(|to| ("to", to))],
        ChangeOp::Metadata { value } => [Some(("value", value)), None],
        _ => [None, None],
    }
}

/// `SEQNO<TAB>FAMILY<TAB>KIND<TAB>KEY<TAB>VALUE`.
fn line(change: &Change<'_>, is_hex: bool) -> String {
    let mut text = format!("{}\t", change.seqno);
    escape(change.family.as_bytes(), &mut text);
    text.push('\t');
    text.push_str(change.op.name());
    for (_, bytes) in parts(&change.op).into_iter().flatten() {
        text.push('\t');
        match is_hex {
            true => text.push_str(&hex(bytes)),
            false => escape(bytes, &mut text),
        }
    }
    text
}

fn object(change: &Change<'_>, is_hex: bool) -> Value {
    let mut object = Map::new();
    object.insert("seqno".into(), change.seqno.into());
    object.insert("family".into(), Value::from(&*change.family));
    object.insert("kind".into(), change.op.name().into());
    for (name, bytes) in parts(&change.op).into_iter().flatten() {
        insert(&mut object, name, bytes, is_hex);
    }
    Value::Object(object)
}
