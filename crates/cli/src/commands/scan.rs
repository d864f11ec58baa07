//! `scan`: the entries of a range.

use std::ops::Bound;

use serde_json::{Map, Value};
use thermocline::Scan;

use crate::args::ScanArgs;
use crate::fail::Outcome;
use crate::output::Output;
use crate::store::{Access, family};
use crate::text::{bytes_of, escape, hex, insert};

type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Prints the entries of a range.
pub(crate) fn scan(args: &ScanArgs, output: &mut Output) -> Outcome {
    let bounds = bounds(args)?;
    let db = args.store.open(&args.db, Access::Read)?;
    let family = family(&db, &args.db, args.cf.as_deref(), Access::Read)?;
    let entries = match &bounds {
        bounds if is_empty(bounds) => None,
        _ => Some(family.range(bounds)),
    };
    let limit = args.limit.unwrap_or(u64::MAX);
    if output.json {
        return print_json(args, entries, limit, output);
    }
    let mut text = String::new();
    each(entries, args.reverse, limit, |key, value| {
        text.clear();
        if args.hex {
            text.push_str(&hex(key));
        } else {
            escape(key, &mut text);
        }
        if !args.keys_only {
            text.push('\t');
            if args.hex {
                text.push_str(&hex(value));
            } else {
                escape(value, &mut text);
            }
        }
        output.line(&text)
    })?;
    Ok(())
}

fn print_json(args: &ScanArgs, entries: Option<Scan>, limit: u64, output: &mut Output) -> Outcome {
    output.bytes(b"{\"entries\":[")?;
    let mut first = true;
    let count = each(entries, args.reverse, limit, |key, value| {
        let mut object = Map::new();
        insert(&mut object, "key", key, args.hex);
        if !args.keys_only {
            insert(&mut object, "value", value, args.hex);
        }
        if !first {
            output.bytes(b",")?;
        }
        first = false;
        output.value(&Value::Object(object))
    })?;
    output.line(&format!("],\"count\":{count}}}"))
}

/// Calls `show` with each entry, and counts them.
fn each(
    entries: Option<Scan>,
    reverse: bool,
    limit: u64,
    mut show: impl FnMut(&[u8], &[u8]) -> Outcome,
) -> Outcome<u64> {
    let Some(mut entries) = entries else {
        return Ok(0);
    };
    let mut count = 0;
    while count < limit {
        let entry = if reverse {
            entries.next_back()
        } else {
            entries.next()
        };
        let Some(entry) = entry else { break };
        let (key, value) = entry?;
        show(&key, &value)?;
        count += 1;
    }
    Ok(count)
}

/// What `--from`, `--to` and `--prefix` allow together.
fn bounds(args: &ScanArgs) -> Outcome<Bounds> {
    let typed = |argument: &Option<String>| {
        argument
            .as_ref()
            .map(|text| bytes_of(text, args.hex))
            .transpose()
    };
    let (mut from, mut to) = (typed(&args.from)?, typed(&args.to)?);
    if let Some(prefix) = typed(&args.prefix)? {
        let end = after_prefix(&prefix);
        from = from.max(Some(prefix));
        to = match (to, end) {
            (Some(to), Some(end)) => Some(to.min(end)),
            (to, end) => to.or(end),
        };
    }
    Ok((
        from.map_or(Bound::Unbounded, Bound::Included),
        to.map_or(Bound::Unbounded, Bound::Excluded),
    ))
}

/// The first key after all keys that begin with `prefix`, if there is one.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte < 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

fn is_empty(bounds: &Bounds) -> bool {
    match bounds {
        (Bound::Included(from), Bound::Excluded(to)) => from >= to,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_its_last_small_byte_grows() {
        assert_eq!(after_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(after_prefix(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(after_prefix(b"\xff"), None);
        assert_eq!(after_prefix(b""), None);
    }
}
