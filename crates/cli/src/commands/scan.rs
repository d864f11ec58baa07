//! `scan`: the entries of a range.

use std::cmp::Ordering;
use std::ops::Bound;

use serde_json::{Map, Value};
use thermocline::Scan;

use crate::args::ScanArgs;
use crate::fail::Outcome;
use crate::output::Output;
use crate::store::{Access, bound_of, check_order, family};
use crate::text::{escape, hex, insert};

type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Prints the entries of a range.
pub(crate) fn scan(args: &ScanArgs, output: &mut Output) -> Outcome {
    let typed = Typed::of(args)?;
    let db = args.store.open(&args.db, Access::Read)?;
    let family = family(&db, &args.db, args.cf.as_deref(), Access::Read)?;
    let reverse = family.options().reverse == Some(true);
    check_order(
        &family,
        (typed.from.as_deref(), typed.to.as_deref()),
        args.hex,
    )?;
    let mut entries = family.range(typed.bounds(reverse));
    if args.keys_only {
        entries = entries.keys_only();
    }
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
    })
}

fn print_json(args: &ScanArgs, entries: Scan, limit: u64, output: &mut Output) -> Outcome {
    output.bytes(b"{\"entries\":[")?;
    let mut count = 0u64;
    let listed = each(entries, args.reverse, limit, |key, value| {
        let mut object = Map::new();
        insert(&mut object, "key", key, args.hex);
        if !args.keys_only {
            insert(&mut object, "value", value, args.hex);
        }
        if count > 0 {
            output.bytes(b",")?;
        }
        count += 1;
        output.value(&Value::Object(object))
    });
    output.end_list(&format!("\"count\":{count}"), listed)
}

/// Calls `show` with each entry.
fn each(
    mut entries: Scan,
    reverse: bool,
    limit: u64,
    mut show: impl FnMut(&[u8], &[u8]) -> Outcome,
) -> Outcome {
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
    Ok(())
}

/// What `--from`, `--to` and `--prefix` say.
struct Typed {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    prefix: Option<Vec<u8>>,
}

impl Typed {
    fn of(args: &ScanArgs) -> Outcome<Typed> {
        Ok(Typed {
            from: bound_of(&args.from, args.hex)?,
            to: bound_of(&args.to, args.hex)?,
            prefix: bound_of(&args.prefix, args.hex)?,
        })
    }

    /// What they allow together, in a family whose keys descend if `reverse`.
    fn bounds(self, reverse: bool) -> Bounds {
        let begin = self.from.map_or(Bound::Unbounded, Bound::Included);
        let end = self.to.map_or(Bound::Unbounded, Bound::Excluded);
        let Some(prefix) = self.prefix else {
            return (begin, end);
        };
        let above = after_prefix(&prefix).map_or(Bound::Unbounded, Bound::Excluded);
        let lowest = Bound::Included(prefix);
        let (begin, end) = if reverse {
            (
                tighter(begin, above, Ordering::Less),
                tighter(end, lowest, Ordering::Greater),
            )
        } else {
            (
                tighter(begin, lowest, Ordering::Greater),
                tighter(end, above, Ordering::Less),
            )
        };
        match crosses(&begin, &end, reverse) {
            // A prefix outside of the range: no key is meant, which is no mistake.
            true => (Bound::Excluded(vec![]), Bound::Excluded(vec![])),
            false => (begin, end),
        }
    }
}

/// Of two bounds of the same end the one that allows less; `inward` is how its key lies to the
/// other.
fn tighter(a: Bound<Vec<u8>>, b: Bound<Vec<u8>>, inward: Ordering) -> Bound<Vec<u8>> {
    let first = match (&a, &b) {
        (Bound::Unbounded, _) => false,
        (_, Bound::Unbounded) => true,
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => {
            match x.cmp(y) {
                Ordering::Equal => matches!(a, Bound::Excluded(_)),
                order => order == inward,
            }
        }
    };
    if first { a } else { b }
}

/// Whether the second bound lies before the first one.
fn crosses(begin: &Bound<Vec<u8>>, end: &Bound<Vec<u8>>, reverse: bool) -> bool {
    let (
        Bound::Included(begin) | Bound::Excluded(begin),
        Bound::Included(end) | Bound::Excluded(end),
    ) = (begin, end)
    else {
        return false;
    };
    if reverse { begin < end } else { begin > end }
}

/// The first key after all keys that begin with `prefix`, if there is one.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte < 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
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
