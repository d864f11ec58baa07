//! A read that was asked for, and its way to a helper.

use std::sync::Arc;

use thermocline_base::Result;

use crate::helpers::{Helpers, Work};
use crate::pool::BufPool;
use crate::prepared::Wanted;
use crate::promise::Promise;
use crate::range::RangeBuf;

/// The promise to answer a read.
pub(crate) type ReadPromise = Promise<Result<RangeBuf>>;

/// A read that is to be made.
pub(crate) type Order = (Wanted, ReadPromise);

/// Has a helper make a read.
pub(crate) fn read_on(helpers: &Arc<Helpers>, pool: &BufPool, order: Order) {
    helpers.bring(work_of(pool, order));
}

/// The read as a piece of work, for any thread.
pub(crate) fn work_of(pool: &BufPool, (wanted, promise): Order) -> Work {
    let pool = pool.clone();
    Box::new(move || {
        if promise.is_wanted() {
            let answer = wanted.read(&pool);
            // It is not under way any more when it is answered.
            drop(wanted);
            promise.keep(answer);
        }
    })
}
