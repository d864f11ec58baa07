//! Two transactions that want the same: one is refused, and succeeds when it begins anew.

use thermocline::{Db, Error, Transaction, TxnOptions};

use crate::fail::{Failure, Outcome};
use crate::tour::story::Story;

/// How many seats are left on the train to Zürich.
const SEATS: &str = "seats/CH/Zürich";
/// At first.
const SEATS_FIRST: u64 = 10;

/// Takes a seat in a transaction, which is still to be committed.
fn take_seat(db: &Db) -> Outcome<Transaction> {
    let mut txn = db.transaction(TxnOptions::optimistic())?;
    let left = txn.get_for_update(SEATS)?;
    let left = left.as_deref().and_then(|left| left.try_into().ok());
    let left = left.map_or(0, u64::from_be_bytes);
    txn.put(SEATS, left.saturating_sub(1).to_be_bytes())?;
    Ok(txn)
}

/// Tells of them.
pub(super) fn tell(story: &mut Story<'_>, db: &Db) -> Outcome {
    story.chapter("Transact")?;
    db.put(SEATS, SEATS_FIRST.to_be_bytes())?;
    let (first, second) = (take_seat(db)?, take_seat(db)?);
    first.commit()?;
    story.say(&format!(
        "Two transactions have read that {SEATS_FIRST} seats are left, and each takes one. Neither locks anything. The \
         first is committed; the second would overwrite what it never saw, so it is refused:"
    ))?;
    match second.commit() {
        Err(refused @ Error::Conflict(_)) => story.show(&refused.to_string())?,
        other => {
            return Err(Failure::Failed(format!(
                "the tour's second transaction was not refused: {other:?}"
            )));
        }
    }
    take_seat(db)?.commit()?;
    let left = db.get(SEATS)?;
    if left.as_deref() != Some(&(SEATS_FIRST - 2).to_be_bytes()[..]) {
        return Err(Failure::Failed(format!(
            "the tour's transactions took other than two of {SEATS_FIRST} seats"
        )));
    }
    db.delete(SEATS)?;
    story.say(&format!(
        "Begun anew it reads {}, and is committed: {} are left, and no seat was sold twice.",
        SEATS_FIRST - 1,
        SEATS_FIRST - 2
    ))?;
    story.value("transactions_refused", 1);
    Ok(())
}
