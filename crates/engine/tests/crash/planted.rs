//! Bugs planted on purpose: each must be caught. The same explorations without a bug find nothing
//! (`states`), and where a test here builds its own images it first shows that they are harmless.

use std::ops::Bound;

use thermocline_base::CfId;
use thermocline_base::planted::{Bug, plant};
use thermocline_engine::Durability;

use crate::check::{caught, write_on};
use crate::explore::{PASSES, Planted, caught_by, caught_in};
use crate::life::{Life, options};
use crate::oracle::{Expect, Op};
use crate::pm_tables::in_pm;
use crate::raw::{HERE, Raw};
use crate::snapshot::Snapshot;

fn in_work(bug: Bug) -> Planted {
    Planted {
        work: Some(bug),
        ..Planted::default()
    }
}

fn in_recovery(bug: Bug) -> Planted {
    Planted {
        recovery: Some(bug),
        ..Planted::default()
    }
}

fn caught_in_work(workload: &str, bug: Bug) {
    caught_in(PASSES, workload, in_work(bug), |_| true);
}

fn caught_in_recovery(workload: &str, bug: Bug) {
    caught_in(PASSES, workload, in_recovery(bug), |_| true);
}

#[test]
fn a_feed_ahead_of_what_is_durable_is_caught() {
    caught_in_work("followed", Bug::FeedAheadOfDurable);
}

#[test]
fn an_open_that_forgets_what_is_prepared_is_caught() {
    caught_in_recovery("prepared", Bug::OpenForgetsPrepared);
}

#[test]
fn a_transaction_that_is_prepared_and_not_durable_is_caught() {
    caught_in_work("prepared-lives", Bug::PreparedWhenVisible);
}

#[test]
fn a_resolution_that_leaves_it_prepared_is_caught() {
    caught_in_work("prepared", Bug::ResolvedStaysPrepared);
}

#[test]
fn a_skipped_flush_is_caught() {
    caught_in_work("points", Bug::SkipFlush);
}

#[test]
fn a_table_whose_name_is_not_durable_is_caught() {
    caught_in_work("sinking", Bug::NameBeforeSync);
}

#[test]
fn a_table_in_persistent_memory_that_is_named_too_early_is_caught() {
    // It does harm once the edit is durable.
    caught_by("pm-tables", in_work(Bug::NameTableUnpersisted), |point| {
        point.site.0 == "manifest: edit durable"
    });
}

#[test]
fn taking_away_and_bringing_what_was_merged_by_two_edits_is_caught() {
    // It does harm between the two.
    caught_by(
        "pm-tables-merged",
        in_work(Bug::InternalInTwoEdits),
        |point| point.site.0 == "manifest: edit durable",
    );
}

#[test]
fn merging_a_part_and_forgetting_the_rest_is_caught() {
    // Whoever reads notices: without any crash.
    caught_by(
        "pm-tables-merged",
        in_work(Bug::InternalForgetsRest),
        |_| false,
    );
}

#[test]
fn taking_what_is_evacuated_for_flushed_is_caught() {
    caught_by("evacuated", in_recovery(Bug::EvacuatedIsFlushed), |point| {
        point.site.0 == "manifest: edit durable"
    });
}

#[test]
fn forgetting_how_far_memtables_are_evacuated_is_caught() {
    caught_by("evacuated", in_recovery(Bug::FrontForgotten), |point| {
        point.site.0 == "manifest: edit durable"
    });
}

#[test]
fn rewriting_and_leaving_an_older_memtable_behind_is_caught() {
    // Whoever reads notices: without any crash.
    caught_by("rewritten", in_work(Bug::RewriteLeavesOlder), |_| false);
}

#[test]
fn unlinking_what_is_still_named_is_caught() {
    // It does harm until the edit is durable.
    caught_by("sinking", in_work(Bug::UnlinkBeforeEdit), |point| {
        point.site.0 == "manifest: edit durable"
    });
}

#[test]
fn forgetting_what_lies_below_is_caught() {
    // It does harm once the edit is durable.
    caught_by("sinking", in_work(Bug::CompactionForgetsBelow), |point| {
        point.site.0 == "manifest: edit durable"
    });
}

#[test]
fn a_split_that_forgets_parts_is_caught() {
    caught_in_work("partitions", Bug::SplitForgetsParts);
}

#[test]
fn a_blob_file_that_is_not_synced_is_caught() {
    caught_in_work("blobs-flying", Bug::ForgetTableSync);
}

#[test]
fn tables_and_blob_files_that_are_not_synced_are_caught() {
    caught_in_work("apart", Bug::ForgetTableSync);
}

#[test]
fn a_blob_file_whose_name_is_not_durable_is_caught() {
    caught_in_work("blobs-flying", Bug::NameBeforeSync);
}

#[test]
fn a_blob_file_that_no_edit_names_is_caught() {
    caught_in_work("blobs-flying", Bug::BlobUnnamed);
}

#[test]
fn removing_a_blob_file_that_a_memtable_needs_is_caught() {
    caught_in_work("blobs", Bug::BlobForgetsMemtables);
}

#[test]
fn a_skipped_fence_is_caught() {
    caught_in_work("points", Bug::SkipFence);
}

#[test]
fn publishing_before_persisting_is_caught() {
    caught_in_work("points", Bug::PublishBeforePersist);
}

#[test]
fn a_forgotten_sync_of_the_folder_is_caught() {
    // It does harm where the old manifest is removed; the way there is long.
    caught_by("manifest", in_work(Bug::ForgetDirFsync), |point| {
        point.site.0.starts_with("env:")
    });
}

#[test]
fn keeping_the_incarnation_is_caught() {
    caught_in_recovery("points", Bug::KeepIncarnation);
}

#[test]
fn not_persisting_again_what_is_kept_is_caught() {
    caught_in_recovery("points", Bug::SkipRepersist);
}

#[test]
fn writing_before_the_cut_is_recorded_is_caught() {
    caught_in_recovery("points", Bug::AcceptBeforeSeal);
}

#[test]
fn a_drop_that_is_not_recorded_is_caught() {
    caught_in_work("families", Bug::DropUnrecorded);
}

#[test]
fn a_drop_that_outlives_what_was_before_is_caught() {
    caught_in_work("families", Bug::DropBeforeDurable);
}

#[test]
fn a_replay_that_forgets_drops_is_caught() {
    caught_in_recovery("families", Bug::ReplayForgetsDrops);
}

#[test]
fn a_replay_that_forgets_metadata_is_caught() {
    caught_in_recovery("families", Bug::ReplayForgetsMetadata);
}

#[test]
fn a_replay_that_forgets_range_tombstones_is_caught() {
    caught_in_recovery("ranges-flying", Bug::ReplayForgetsTombstones);
}

#[test]
fn a_merge_that_forgets_deletes_is_caught() {
    // It does harm when the memtable with the delete has been dropped.
    caught_by("merges", in_work(Bug::MergeDropsDeletes), |point| {
        point.site.0.starts_with("manifest:")
    });
}

#[test]
fn dropping_a_memtable_whose_range_tombstone_is_needed_is_caught() {
    // It does harm once the edit is durable.
    caught_by("ranges", in_work(Bug::TombstonesNeverNeeded), |point| {
        point.site.0 == "manifest: edit durable"
    });
}

#[test]
fn dropping_tables_for_a_tombstone_that_is_not_durable_is_caught() {
    // It does harm once the edit is durable.
    caught_by("dropped", in_work(Bug::DeletedBeforeDurable), |point| {
        point.site.0 == "manifest: edit durable"
    });
}

#[test]
fn an_operand_that_hides_what_is_below_is_caught() {
    caught_in_work("operands", Bug::OperandHides);
    caught_in_recovery("operands", Bug::OperandHides);
}

#[test]
fn a_filter_that_uncovers_what_is_older_is_caught() {
    caught_in_work("filters", Bug::FilterUncovers);
}

#[test]
fn a_write_time_that_speaks_of_what_is_written_later_is_caught() {
    caught_in_work("ttl", Bug::TimesAhead);
}

#[test]
fn giving_a_descriptor_back_before_the_edit_is_caught() {
    // It does harm until the edit is durable.
    caught_by("overwrites", in_work(Bug::ReleaseBeforeEdit), |point| {
        point.site.0 == "manifest: edit durable"
    });
}

#[test]
fn naming_a_table_that_was_not_synced_is_caught() {
    caught_in_work("flushes", Bug::ForgetTableSync);
}

#[test]
fn a_log_that_is_not_synced_is_caught() {
    caught_in_work("logged-points", Bug::ForgetLogSync);
}

#[test]
fn a_chain_that_is_named_before_its_log_is_made_is_caught() {
    caught_in_work("logged-points", Bug::LogAfterName);
}

#[test]
fn a_log_that_goes_before_the_edit_that_drops_it_is_caught() {
    caught_in_work("logged-flushes", Bug::RetireLogBeforeEdit);
}

#[test]
fn not_syncing_again_what_is_kept_of_a_log_is_caught() {
    caught_in_recovery("logged-points", Bug::SkipRepersist);
}

#[test]
fn writing_before_the_cut_of_a_log_is_recorded_is_caught() {
    caught_in_recovery("logged-points", Bug::AcceptBeforeSeal);
}

#[test]
fn a_memtable_in_tables_that_takes_writes_again_is_caught() {
    caught_in_recovery("logged-flushes", Bug::FloorForgetsTables);
}

#[test]
fn range_deletes_that_a_replay_of_logs_forgets_are_caught() {
    caught_in_recovery("logged-ranges", Bug::ReplayForgetsTombstones);
}

#[test]
fn committing_a_staged_batch_that_is_not_written_back_is_caught() {
    caught_in_work("staged", Bug::AdoptUnpersisted);
}

/// Runs `story` without the bug, which must come out right, and with it, which must not.
fn only_with(bug: Bug, story: impl Fn() -> Result<(), String>) {
    caught(&story).unwrap();
    let _bug = plant(bug);
    let why = caught(&story).expect_err("the bug does harm");
    println!("{bug:?}: {why}");
}

fn put(key: &[u8]) -> Op {
    Op::put(0, key, [key[0]; 100])
}

fn three() -> Vec<Op> {
    [b"one", b"two", b"six"].map(|key| put(key)).to_vec()
}

/// A value is read in place in a table that has gone from the version: its zones are not written again.
#[test]
fn a_table_in_persistent_memory_that_goes_though_somebody_reads_it_is_caught() {
    only_with(Bug::PmTableForgetsReaders, || {
        let mut options = options();
        in_pm(&mut options);
        let mut life = Life::fresh(&options, 18);
        let told = |error: thermocline_base::Error| error.to_string();
        life.open().map_err(told)?;
        let engine = life.engine();
        life.run(&Op::put(0, b"key", [7; 1100])).map_err(told)?;
        engine.flush().map_err(told)?;
        let pinned = engine.value(CfId::DEFAULT, b"key").map_err(told)?;
        let pinned = pinned.filter(|value| value.is_pinned());
        let pinned = pinned.expect("it lies in a table in persistent memory");
        let is_there = || match *pinned == [7; 1100] {
            true => Ok(()),
            false => Err("somebody else's bytes are where the value was".to_string()),
        };
        life.run(&Op::delete(0, b"key")).map_err(told)?;
        engine.flush().map_err(told)?;
        let everything = (Bound::Unbounded, Bound::Unbounded);
        engine.compact(CfId::DEFAULT, everything).map_err(told)?;
        // Every zone that is free is used again.
        for n in 0..2000u32 {
            let put = Op::put(0, &n.to_be_bytes(), [8; 1000]);
            life.run(&put).map_err(told)?;
            if n % 50 == 0 {
                engine.flush().map_err(told)?;
                is_there()?;
            }
        }
        is_there()
    });
}

/// An older memtable comes back with what tables have forgotten, and so must the younger one that hid it.
#[test]
fn dropping_a_flushed_memtable_before_an_older_one_is_caught() {
    only_with(Bug::DropFlushedFirst, || {
        let mut life = Life::fresh(&options(), 17);
        let told = |error: thermocline_base::Error| error.to_string();
        life.open().map_err(told)?;
        let engine = life.engine();
        life.run(&Op::put(0, b"key", [7; 1100])).map_err(told)?;
        // Whoever holds this keeps its memtable.
        let pinned = engine.value(CfId::DEFAULT, b"key").map_err(told)?;
        assert!(pinned.as_ref().is_some_and(|value| value.is_pinned()));
        engine.flush().map_err(told)?;
        life.run(&Op::delete(0, b"key")).map_err(told)?;
        engine.flush().map_err(told)?;
        let everything = (Bound::Unbounded, Bound::Unbounded);
        engine.compact(CfId::DEFAULT, everything).map_err(told)?;
        let now = Snapshot::of(&life, HERE);
        drop(pinned);
        now.life(&now.newest(), &options(), 2).recover().map(drop)
    });
}

/// Rule 1: of two items in flight in two zones the second is kept and the first is not.
#[test]
fn a_walk_over_a_gap_is_caught() {
    only_with(Bug::WalkAcceptsGap, || {
        let mut raw = Raw::after(&three(), 11);
        raw.append(&put(b"lost"), 3, false);
        raw.next_zone();
        raw.append(&put(b"kept"), 3, true);
        raw.crash(1).recover().map(drop)
    });
}

/// Rule 2: an item in the middle rots. Without the bug that is an error, and nothing is lost
/// silently.
#[test]
fn a_cut_below_published_is_caught() {
    only_with(Bug::CutBelowPublished, || {
        let raw = Raw::after(&three(), 12);
        raw.life.pm.rot(raw.items[1].at.0 + 60, 4);
        match raw.crash(1).recover() {
            Err(why) if why.contains("though it was durable") => Ok(()),
            other => Err(format!("the rot in the middle gave {other:?}")),
        }
    });
}

/// Rule 4's other half: the items of the process before must not follow those of the next.
#[test]
fn an_item_of_an_earlier_incarnation_that_returns_is_caught() {
    only_with(Bug::KeepIncarnation, || {
        let mut raw = Raw::after(&three(), 13);
        raw.append(&put(b"lost"), 3, false);
        raw.append(&put(b"kept"), 3, true);
        let mut second = raw.crash(1);
        second.recover()?;
        // Of the size of the lost item, so that the kept one lies right behind it.
        let done = second.run(&put(b"mine"));
        assert!(done.map_err(|error| error.to_string())?);
        let now = Snapshot::of(&second, HERE);
        let mut third = now.life(&now.oldest(), &options(), 2);
        third.recover().map(drop)
    });
}

/// An item as it would lie there from an earlier life of the zone.
#[test]
fn an_item_of_an_earlier_zone_generation_is_caught() {
    only_with(Bug::StaleZoneGeneration, || {
        let mut raw = Raw::after(&three(), 14);
        raw.segment.zone_generation -= 1;
        raw.append(&put(b"stale"), 3, true);
        raw.crash(1).recover().map(drop)
    });
}

/// Rule 5: a reader saw a write that a crash took back; its seqno must not return.
#[test]
fn a_seqno_given_out_again_is_caught() {
    only_with(Bug::ReuseSeqnos, || {
        let mut first = Life::fresh(&options(), 15);
        first.open().map_err(|error| error.to_string())?;
        for op in three() {
            first.run(&op).map_err(|error| error.to_string())?;
        }
        let before = Snapshot::of(&first, HERE);
        let skipped = plant(Bug::SkipFlush);
        let seen = first.run(&put(b"seen"));
        drop(skipped);
        seen.map_err(|error| error.to_string())?;
        let after = Snapshot::of(&first, HERE);
        assert!(after.expect.seen > before.expect.seen);
        let mut second = after.life(&after.oldest(), &options(), 2);
        // Nobody was told that the write is durable.
        second.expect(&Expect {
            seen: after.expect.seen,
            ..before.expect
        });
        second.recover()?;
        write_on(&second, after.expect.seen)
    });
}

/// Rule 6: the second of two items in flight is persisted first.
#[test]
fn an_acknowledgement_out_of_order_is_caught() {
    only_with(Bug::AckOutOfOrder, || {
        let mut life = Life::fresh(&options(), 16);
        life.open().unwrap();
        for op in three() {
            assert!(life.run(&op).unwrap());
        }
        let (lost, kept) = (put(b"lost"), put(b"kept"));
        let first = life.begin(&lost, Durability::Immediate);
        let second = life.begin(&kept, Durability::Immediate);
        life.carry(second, Durability::Immediate);
        let now = Snapshot::of(&life, HERE);
        life.carry(first, Durability::Immediate);
        let mut next = now.life(&now.oldest(), &options(), 1);
        next.expect(&now.expect);
        next.recover().map(drop)
    });
}
