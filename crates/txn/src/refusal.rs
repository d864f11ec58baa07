//! Why a transaction is refused something, in words that say what to do.

use std::time::Duration;

use thermocline_base::shown::shown;
use thermocline_base::{CfId, Error};

use crate::footprint::OneKey;
use crate::life::{Ended, TxnId};
use crate::locks::entry::{Holder, Mode};
use crate::locks::key::LockKey;
use crate::locks::table::Refused;

/// Transactions that a message names.
const NAMED_MAX: usize = 4;

/// The bytes under which a key is locked.
pub(crate) fn lock_key(key: &OneKey<'_>) -> LockKey {
    LockKey::new(key.cf.0.to_be_bytes(), key.key, key.hash)
}

/// The bytes between which a range is locked.
pub(crate) fn lock_range(cf: CfId, start: &[u8], end: Option<&[u8]>) -> (Vec<u8>, Vec<u8>) {
    let bytes = |cf: CfId, key: &[u8]| [&cf.0.to_be_bytes(), key].concat();
    let end = match end {
        Some(end) => bytes(cf, end),
        None => bytes(CfId(cf.0.saturating_add(1)), &[]),
    };
    (bytes(cf, start), end)
}

/// The family and the key that are locked under these bytes.
pub(crate) fn unlock_key(bytes: &[u8]) -> (CfId, &[u8]) {
    match bytes.split_first_chunk::<2>() {
        Some((cf, key)) => (CfId(u16::from_be_bytes(*cf)), key),
        None => (CfId::DEFAULT, bytes),
    }
}

/// Why a transaction may not go on.
pub(crate) fn ended(id: TxnId, why: Ended) -> Error {
    Error::Conflict(match why {
        Ended::Expired => format!(
            "transaction {id} was open longer than its expiration, and another one has taken a lock of it; nothing of \
             it was written: roll back and begin anew, with a longer expiration or less work"
        ),
        Ended::Broken => format!(
            "transaction {id} was rolled back to break a deadlock, and takes nothing any more; begin anew"
        ),
    })
}

fn named(ids: &[TxnId]) -> String {
    let some = ids.iter().take(NAMED_MAX);
    let some: Vec<String> = some.map(ToString::to_string).collect();
    let more = if ids.len() > NAMED_MAX { ", …" } else { "" };
    format!("{}{more}", some.join(", "))
}

fn holder(holder: &Holder, now_ns: u64) -> String {
    let held = Duration::from_nanos(now_ns.saturating_sub(holder.since_ns));
    let how = match holder.mode {
        Mode::Shared => "shared",
        Mode::Exclusive => "exclusively",
    };
    let who = match holder.who.name.get() {
        Some(name) => format!("prepared transaction '{}'", shown(name)),
        None => format!("transaction {}", holder.who.id),
    };
    format!("{who} ({how}, for {held:?})")
}

/// Why a lock was not got. `name` tells the name of a family.
pub(crate) fn refused(
    why: &Refused,
    id: TxnId,
    (timeout, now_ns): (Duration, u64),
    name: impl Fn(CfId) -> String,
) -> Error {
    match why {
        Refused::Deadlock(circle) => Error::Conflict(format!(
            "deadlock: transactions {} wait for each other; transaction {id}, the youngest, was rolled back to break \
             it: begin anew, and lock keys in the same order everywhere",
            named(circle)
        )),
        Refused::Closed => Error::Closed,
        Refused::TimedOut {
            key,
            holders,
            others,
        } => {
            let (cf, key) = unlock_key(key.bytes());
            let holders: Vec<String> = holders
                .iter()
                .take(NAMED_MAX)
                .map(|h| holder(h, now_ns))
                .collect();
            let kept = match (holders.is_empty(), others.is_empty()) {
                (false, _) => format!("it is locked by {}", holders.join(", ")),
                (true, false) => format!(
                    "transaction {} has locked a range with it, or asked for it before",
                    named(others)
                ),
                (true, true) => "others asked for it before, or have locked a range with it".into(),
            };
            Error::Busy(format!(
                "transaction {id} did not get the lock of key '{}' of column family '{}' within {timeout:?}: {kept}; \
                 try again, roll back, or set a longer lock_timeout",
                shown(key),
                name(cf)
            ))
        }
    }
}
