//! Bugs planted on purpose: each must be caught. The same explorations without a bug find nothing
//! (`states`), and where a test here builds its own images it first shows that they are harmless.

use thermocline_base::planted::Bug;

use crate::explore::{Outcome, Planted, explore};
use crate::workload::named;

fn caught_by(workload: &str, planted: Planted) -> Outcome {
    let outcome = explore(named(workload), 7, planted, None);
    assert!(
        !outcome.violations.is_empty(),
        "{planted:?} was not caught: {:?}",
        outcome.stats
    );
    outcome
}

fn caught_in_work(workload: &str, bug: Bug) {
    let work = Some(bug);
    caught_by(
        workload,
        Planted {
            work,
            ..Planted::default()
        },
    );
}

fn caught_in_recovery(workload: &str, bug: Bug) {
    let recovery = Some(bug);
    caught_by(
        workload,
        Planted {
            recovery,
            ..Planted::default()
        },
    );
}

#[test]
fn a_skipped_flush_is_caught() {
    caught_in_work("points", Bug::SkipFlush);
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
    caught_in_work("manifest", Bug::ForgetDirFsync);
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
