//! Each planted bug of this crate is caught by the test that is responsible for it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use thermocline_base::planted::{self, Bug};
use thermocline_sst::WriteOptions;

use crate::{blobs, crash, damage, learned, model};

/// Whether `check` fails with the bug, and only with it.
fn catches(bug: Bug, check: impl Fn()) {
    check();
    let planted = planted::plant(bug);
    let caught = catch_unwind(AssertUnwindSafe(&check)).is_err();
    drop(planted);
    assert!(caught, "{bug:?} was not caught");
}

#[test]
fn a_checksum_that_is_not_compared_is_caught_by_flipped_bits() {
    catches(Bug::SkipBlockChecksum, || {
        damage::flip_every_bit(WriteOptions::default());
    });
}

#[test]
fn checksums_without_a_place_are_caught_by_swapped_blocks_and_values() {
    catches(Bug::ChecksumIgnoresPlace, || {
        assert!(damage::swapped_blocks_are_found());
    });
    catches(Bug::ChecksumIgnoresPlace, || {
        assert!(blobs::swapped_values_are_found());
    });
}

#[test]
fn a_forgotten_sync_is_caught_by_crashes() {
    catches(Bug::ForgetTableSync, || {
        crash::crash_while_writing(1, 60);
    });
    catches(Bug::ForgetTableSync, || {
        crash::crash_while_appending(1);
    });
}

#[test]
fn a_separator_without_a_seqno_is_caught_by_the_model() {
    catches(Bug::SeparatorForgetsSeqno, || {
        model::random_tables(0..60);
    });
}

#[test]
fn a_run_that_is_not_followed_is_caught_by_versions_over_blocks() {
    catches(Bug::LearnedRunForgotten, || {
        learned::versions_over_blocks(0..30);
    });
}

#[test]
fn a_code_without_order_is_caught_by_keys_of_all_kinds() {
    catches(Bug::CodeIgnoresOrder, || {
        learned::all_kinds(0..1);
    });
}

#[test]
fn a_leaking_part_is_caught_by_the_model() {
    catches(Bug::PartLeaksBehindLimit, || {
        model::random_tables(0..60);
    });
}

#[test]
fn a_tombstone_that_covers_its_end_is_caught_by_the_model() {
    catches(Bug::TombstoneCoversEnd, || {
        model::random_tables(0..60);
    });
}
