//! Each planted bug of this crate is caught by the test that is responsible for it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use thermocline_base::planted::{self, Bug};

use crate::{crash, damage, faults};

/// Whether `check` fails with the bug, and only with it.
fn catches(bug: Bug, check: impl Fn()) {
    check();
    let planted = planted::plant(bug);
    let caught = catch_unwind(AssertUnwindSafe(&check)).is_err();
    drop(planted);
    assert!(caught, "{bug:?} was not caught");
}

#[test]
fn a_forgotten_sync_is_caught_by_crashes() {
    catches(Bug::ForgetLogSync, || {
        crash::crash_while_appending(1);
    });
}

#[test]
fn a_checksum_that_is_not_compared_is_caught_by_flipped_bits() {
    catches(Bug::SkipFrameChecksum, damage::flip_every_bit);
}

#[test]
fn trusting_the_cache_after_a_failed_sync_is_caught() {
    catches(
        Bug::TrustCacheAfterFailedSync,
        faults::keep_after_a_failed_sync,
    );
}
