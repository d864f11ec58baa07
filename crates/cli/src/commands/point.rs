//! `put`, `get` and `delete`: one key. `delete-range`: all between two.

use serde_json::{Map, Value, json};

use crate::args::{KeyArgs, PutArgs, RangeArgs};
use crate::fail::{Failure, Outcome};
use crate::output::Output;
use crate::store::{Access, family};
use crate::text::{bytes_of, hex, insert};

/// Sets a key to a value.
pub(crate) fn put(args: &PutArgs, output: &mut Output) -> Outcome {
    let key = bytes_of(&args.key, args.hex)?;
    let value = bytes_of(&args.value, args.hex)?;
    let db = args.store.open(&args.db, Access::Create)?;
    family(&db, &args.db, args.cf.as_deref(), Access::Create)?.put(key, value)?;
    db.close()?;
    done(output)
}

/// Removes a key.
pub(crate) fn delete(args: &KeyArgs, output: &mut Output) -> Outcome {
    let key = bytes_of(&args.key, args.hex)?;
    let db = args.store.open(&args.db, Access::Write)?;
    family(&db, &args.db, args.cf.as_deref(), Access::Write)?.delete(key)?;
    db.close()?;
    done(output)
}

/// Removes all keys of a range.
pub(crate) fn delete_range(args: &RangeArgs, output: &mut Output) -> Outcome {
    let from = bytes_of(&args.from, args.hex)?;
    let to = bytes_of(&args.to, args.hex)?;
    let db = args.store.open(&args.db, Access::Write)?;
    let family = family(&db, &args.db, args.cf.as_deref(), Access::Write)?;
    family.delete_range(from..to).map_err(Failure::usage)?;
    drop(family);
    db.close()?;
    done(output)
}

pub(crate) fn done(output: &mut Output) -> Outcome {
    if output.json {
        return output.document(&json!({"ok": true}));
    }
    Ok(())
}

/// Prints the value of a key.
pub(crate) fn get(args: &KeyArgs, output: &mut Output) -> Outcome {
    let key = bytes_of(&args.key, args.hex)?;
    let db = args.store.open(&args.db, Access::Read)?;
    let found = family(&db, &args.db, args.cf.as_deref(), Access::Read)?.get(key)?;
    match (found, output.json) {
        (None, false) => Err(Failure::Failed("not found".to_string())),
        (None, true) => {
            output.document(&json!({"found": false}))?;
            output.finish()?;
            Err(Failure::Said)
        }
        (Some(value), true) => {
            let mut object = Map::new();
            object.insert("found".to_string(), Value::Bool(true));
            insert(&mut object, "value", &value, args.hex);
            output.document(&Value::Object(object))
        }
        (Some(value), false) if args.hex => output.line(&hex(&value)),
        (Some(value), false) => {
            output.bytes(&value)?;
            output.bytes(b"\n")
        }
    }
}
