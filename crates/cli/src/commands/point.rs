//! `put`, `get` and `delete`: one key. `delete-range`: all between two. `drop-partition`: all of a
//! partition.

use std::io::Read;
use std::path::Path;

use serde_json::{Map, Value, json};
use thermocline::limits;

use crate::args::{KeyArgs, PrefixArgs, PutArgs, RangeArgs};
use crate::fail::{Failure, Outcome, even_unread};
use crate::files;
use crate::output::Output;
use crate::store::{Access, check_name, check_order, family, key_of};
use crate::text::{bytes_of, hex, insert};

/// Sets a key to a value.
pub(crate) fn put(args: &PutArgs, output: &mut Output) -> Outcome {
    // Before a database is made.
    let key = key_of(&args.key, args.hex)?;
    args.cf.as_deref().map_or(Ok(()), check_name)?;
    let value = match (&args.file, &args.value) {
        (Some(path), _) => contents(path)?,
        (None, Some(value)) => bytes_of(value, args.hex)?,
        (None, None) => unreachable!("one of them is required"),
    };
    let cf = args.cf.as_deref();
    let db = args.store.open_making(&args.db, Access::Create, cf)?;
    family(&db, &args.db, cf, Access::Create)?.put(key, value)?;
    db.close()?;
    done(output)
}

/// What a file holds that may be a value.
fn contents(path: &Path) -> Outcome<Vec<u8>> {
    let (file, about) = files::open(path)?;
    let most = limits::VALUE_LEN_MAX as u64;
    let too_long = |len: u64| {
        let text = format!(
            "{} has {len} bytes; a value has at most {most}",
            path.display()
        );
        Err(Failure::Failed(text))
    };
    if about > most {
        return too_long(about);
    }
    let mut value = Vec::new();
    // One more than may be, should it grow meanwhile.
    let read = file.take(most + 1).read_to_end(&mut value);
    read.map_err(|e| Failure::Failed(format!("cannot read {}: {e}", path.display())))?;
    match value.len() as u64 {
        len if len > most => too_long(len),
        _ => Ok(value),
    }
}

/// Removes a key.
pub(crate) fn delete(args: &KeyArgs, output: &mut Output) -> Outcome {
    let key = key_of(&args.key, args.hex)?;
    let db = args.store.open(&args.db, Access::Write)?;
    family(&db, &args.db, args.cf.as_deref(), Access::Write)?.delete(key)?;
    db.close()?;
    done(output)
}

/// Removes all keys of a range.
pub(crate) fn delete_range(args: &RangeArgs, output: &mut Output) -> Outcome {
    let from = key_of(&args.from, args.hex)?;
    let to = key_of(&args.to, args.hex)?;
    let db = args.store.open(&args.db, Access::Write)?;
    let family = family(&db, &args.db, args.cf.as_deref(), Access::Write)?;
    check_order(&family, (Some(&from), Some(&to)), args.hex)?;
    family.delete_range(from..to).map_err(Failure::usage)?;
    drop(family);
    db.close()?;
    done(output)
}

/// Removes all keys of a partition.
pub(crate) fn drop_partition(args: &PrefixArgs, output: &mut Output) -> Outcome {
    let start = key_of(&args.prefix, args.hex)?;
    let db = args.store.open(&args.db, Access::Write)?;
    let family = family(&db, &args.db, args.cf.as_deref(), Access::Write)?;
    // Which partitions there are is not in what was typed.
    family.drop_partition(start)?;
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
    let key = key_of(&args.key, args.hex)?;
    let db = args.store.open(&args.db, Access::Read)?;
    let found = family(&db, &args.db, args.cf.as_deref(), Access::Read)?.get(key)?;
    match (found, output.json) {
        (None, false) => Err(Failure::Failed("not found".to_string())),
        (None, true) => {
            let printed = output.document(&json!({"found": false}));
            even_unread(printed.and_then(|()| output.finish()))?;
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
