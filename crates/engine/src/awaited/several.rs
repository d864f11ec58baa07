//! Several keys at once. What memory does not answer of them is read together: of those whose tables are asked, round by
//! round (`tables::together`); long values, as many as the device takes at once; and what other threads do for a future
//! has begun with all keys before any is awaited. Each key has its answer, or its own error.

use thermocline_base::{CfId, Result};
use thermocline_tables::{LongValue, Search, read_values, wait_for_all, wait_for_all_async};

use super::{Begun, Found, PendingRead, Place, Rest};
use crate::store::Moment;
use crate::value::Value;

/// Several keys, once memory was asked.
struct BegunAll {
    /// What memory has answered: of each key, in their order. What waits has `None` here.
    values: Vec<Result<Option<Value>>>,
    /// What is left to do, and of the how manieth key.
    waiting: Vec<(usize, Place, Rest)>,
}

/// The how manieth key, and what will be its value.
type Pending = (usize, PendingRead<Option<Value>>);

impl BegunAll {
    fn at<'a>(moment: &Moment, keys: impl ExactSizeIterator<Item = (CfId, &'a [u8])>) -> BegunAll {
        let mut waiting = Vec::new();
        let mut values = Vec::with_capacity(keys.len());
        for (at, key) in keys.enumerate() {
            values.push(match Begun::at(moment, key) {
                Ok(Begun::Answer(value)) => Ok(value),
                Ok(Begun::Waits(place, rest)) => {
                    waiting.push((at, place, rest));
                    Ok(None)
                }
                Err(error) => Err(error),
            });
        }
        BegunAll { values, waiting }
    }

    /// The searches of those whose tables are to be asked, in their order.
    fn searches<'a>(&'a self, key: impl Fn(usize) -> &'a [u8]) -> Vec<Search<'a>> {
        let search = |(at, place, rest): &'a (usize, Place, Rest)| match rest {
            Rest::Tables(tables, seqno) => Some(Search::new((place.cf, key(*at)), *seqno, tables)),
            Rest::Long(..) | Rest::Operands(..) => None,
        };
        self.waiting.iter().filter_map(search).collect()
    }

    /// The long values to which records refer, in their order.
    fn long_values<'a>(&'a self, key: impl Fn(usize) -> &'a [u8]) -> Vec<Result<Vec<u8>>> {
        let long = |(at, place, rest): &'a (usize, Place, Rest)| match rest {
            Rest::Long(_, blob) => Some(LongValue {
                files: place.files(),
                of: (place.cf, key(*at)),
                blob: *blob,
            }),
            Rest::Tables(..) | Rest::Operands(..) => None,
        };
        let long: Vec<_> = self.waiting.iter().filter_map(long).collect();
        read_values(&long)
    }

    /// Has other threads do what is no search. Searches alone are left.
    fn begin_others(&mut self, keys: &[(CfId, Vec<u8>)]) -> Vec<Pending> {
        let mut others = Vec::new();
        for (at, place, rest) in std::mem::take(&mut self.waiting) {
            match rest {
                Rest::Tables(..) => self.waiting.push((at, place, rest)),
                Rest::Long(..) | Rest::Operands(..) => {
                    let read = Begun::Waits(place, rest).finish(keys[at].1.clone());
                    others.push((at, PendingRead::begin(read)));
                }
            }
        }
        others
    }
}

/// See [`Snapshot::values`](crate::Snapshot::values).
pub(crate) fn values(moment: &Moment, keys: &[(CfId, &[u8])]) -> Vec<Result<Option<Value>>> {
    let begun = BegunAll::at(moment, keys.iter().copied());
    if begun.waiting.is_empty() {
        return begun.values;
    }
    let mut answers = wait_for_all(begun.searches(|at| keys[at].1)).into_iter();
    let mut long = begun.long_values(|at| keys[at].1).into_iter();
    let BegunAll {
        mut values,
        waiting,
    } = begun;
    for (at, place, rest) in waiting {
        let key = keys[at].1;
        values[at] = match rest {
            Rest::Tables(..) => answers
                .next()
                .unwrap_or(Ok(None))
                .and_then(|answer| place.settled(answer, key)),
            Rest::Long(memtable, blob) => long
                .next()
                .unwrap_or_else(|| place.long(key, blob))
                .and_then(|value| place.found_above(&memtable, Some(value))),
            Rest::Operands(memtable) => place
                .folded(key)
                .and_then(|value| place.found_above(&memtable, value)),
        };
    }
    values
}

/// See [`Snapshot::values_async`](crate::Snapshot::values_async).
pub(crate) fn values_async(
    moment: &Moment,
    keys: Vec<(CfId, Vec<u8>)>,
) -> PendingRead<Vec<Option<Value>>> {
    let mut begun = BegunAll::at(moment, keys.iter().map(|(cf, key)| (*cf, &**key)));
    let mut others = begun.begin_others(&keys);
    PendingRead::begin(async move {
        let answers = wait_for_all_async(begun.searches(|at| &keys[at].1)).await;
        let mut values = begun.values;
        for ((at, place, _), answer) in begun.waiting.into_iter().zip(answers) {
            let found = answer.and_then(|answer| place.found_below(answer));
            values[at] = match found {
                Ok(Found::Value(value)) => Ok(value),
                Ok(Found::Operand) => {
                    let fold = fold(place, keys[at].1.clone());
                    others.push((at, PendingRead::begin(fold)));
                    Ok(None)
                }
                Err(error) => Err(error),
            };
        }
        for (at, read) in others {
            values[at] = read.await;
        }
        // The error of the first key is told, whichever key meets one first.
        values.into_iter().collect()
    })
}

/// The value of a key whose newest entry in tables is an operand.
async fn fold(place: Place, key: Vec<u8>) -> Result<Option<Value>> {
    let value = place.folded_elsewhere(key).await?;
    Ok(place.made(value))
}
