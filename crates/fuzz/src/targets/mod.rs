//! What reads bytes.

mod api;
mod backup;
mod blobs;
mod current;
mod digest;
mod edit;
mod items;
mod log;
mod manifest;
mod names;
mod note;
mod options;
mod pm_table;
mod refusal;
mod region;
mod store;
mod table;
mod world;

use crate::target::Target;

/// All of them.
pub const ALL: &[Target] = &[
    table::TARGET,
    blobs::TARGET,
    pm_table::TARGET,
    manifest::TARGET,
    edit::TARGET,
    current::TARGET,
    items::TARGET,
    log::TARGET,
    region::TARGET,
    names::TARGET,
    options::TARGET,
    backup::TARGET,
    note::TARGET,
    store::TARGET,
    api::TARGET,
];
