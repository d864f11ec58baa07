//! Loom models of committing and of reading the past: every interleaving of a few threads, and every
//! value that the memory model lets a load return.
//!
//! **What is checked is what is shipped.** The sources are included by path, and reach atomics and
//! locks through `crate::sync`, which is loom's here (`thermocline_testkit::loom`). Around them the
//! models put what the engine has there, as small as it can be: an index of one key, a list of what
//! was persisted.
//!
//! Where a proof rests on the order of sequentially consistent accesses, a model is run with both
//! of their classic compilations ([`check_sc`]). Every model prints how many executions it has.

#[expect(dead_code, reason = "the models use parts of the sources")]
#[path = "../../src/bucket.rs"]
mod bucket;
#[expect(dead_code, reason = "the models use parts of the sources")]
#[path = "../../src/readers.rs"]
mod readers;
#[expect(dead_code, reason = "the models use parts of the sources")]
#[path = "../../src/ring.rs"]
mod ring;
mod sync;

mod followers;
mod marks;
mod moments;

use thermocline_testkit::explore::side_by_side;
use thermocline_testkit::loom::{SeqCst, check};

/// Explores all executions of a model in which no sequential consistency is needed.
fn check_any(name: &str, preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    check(name, Some(preemptions), SeqCst::Weaker, model);
}

/// Explores all executions of a model, with a fence before and with one after each sequentially
/// consistent access: at the same time, since the longest model comes last.
fn check_sc(name: &str, preemptions: usize, model: fn()) {
    side_by_side(&[SeqCst::FenceBefore, SeqCst::FenceAfter], |&seq_cst| {
        let name = format!("{name} ({seq_cst:?})");
        check(&name, Some(preemptions), seq_cst, model)
    });
}
