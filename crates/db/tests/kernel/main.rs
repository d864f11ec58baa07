//! Faults between the process and the kernel, and what the store makes of them.
//!
//! A child process, this binary itself, uses a store above a library (`shim/`) that stands between it and the kernel:
//! it counts calls, lets one fail, and behaves as Linux does after that (an error of a sync is told once to each
//! open file, the pages are clean, the disk does not have them). Then the process ends or is ended, another one goes
//! on, the power is cut, and a last process without faults checks:
//! nothing acknowledged is lost and nothing torn ([`oracle`]); the store opens; it takes writes; `verify` is content.
//!
//! A *point* is a call by its kind and number, in a process that makes a store or in one that recovers it, with an
//! error, once or for ever. A run without faults says how many calls there are. The usual runs take a sample of points,
//! a long one each of them:
//!
//! ```text
//! THERMOCLINE_EXPLORE=20 cargo test -p thermocline --test kernel -- --nocapture   sixty times as many
//! THERMOCLINE_KERNEL=all cargo test -p thermocline --test kernel -- --nocapture   each point
//! THERMOCLINE_SEED=1000031 cargo test -p thermocline --test kernel -- --nocapture that story alone
//! ```
//!
//! Apart from that, a kernel that refuses `io_uring` is shown to make no difference ([`denied`]).
//!
//! What threads do in the background is not in the seed: a story that fails may need a few runs to fail again.
#![expect(
    clippy::disallowed_methods,
    reason = "tests look at files from outside"
)]
#![cfg(target_os = "linux")]

mod child;
mod denied;
mod device;
mod oracle;
mod plan;
mod planted;
mod run;
mod stories;
mod work;

use thermocline_testkit::explore::explored;

use crate::stories::{made_twice, stories, stories_in};
use crate::work::Shape;

/// Not a test of its own: what the child does when a parent has started it.
#[test]
fn child() {
    if let Ok(task) = std::env::var(child::TASK) {
        child::run(&child::Task::parse(&task));
    }
}

#[test]
fn a_tiered_store_survives_its_disk() {
    stories(Shape::Tiered, true);
}

#[test]
fn a_global_index_survives_its_disk() {
    stories(Shape::GlobalIndex, true);
}

#[test]
fn tables_in_persistent_memory_survive_their_disk() {
    stories(Shape::PmTables, true);
}

#[test]
fn immutables_survive_their_disk() {
    stories(Shape::Immutables, true);
}

#[test]
fn level_0_on_a_disk_survives_it() {
    stories(Shape::Ssd, true);
}

#[test]
fn logs_survive_their_disk() {
    stories(Shape::Leveled, true);
}

#[test]
fn a_store_that_is_begun_twice_is_made() {
    for shape in [Shape::Tiered, Shape::Leveled] {
        stories_in(shape, true, made_twice(explored(24, 120)));
    }
}

#[test]
fn stores_in_shared_memory_survive_faults() {
    for shape in [Shape::Tiered, Shape::PmTables, Shape::GlobalIndex] {
        stories(shape, false);
    }
}

#[test]
fn others_in_shared_memory_survive_faults() {
    for shape in [Shape::Immutables, Shape::Ssd] {
        stories(shape, false);
    }
}
