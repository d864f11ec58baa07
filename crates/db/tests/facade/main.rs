//! The facade, looked at from outside.
//!
//! One program, since each one more is linked, and has its copy of all that is generic. Alone stay `kill`,
//! `working_folder`, which changes what the process has in common, and what is large (the folders here).

mod awaited;
mod beside;
mod commits;
mod endurance;
mod feed;
mod filters;
mod full;
mod latency;
mod level0;
mod merge;
mod named;
mod partitions;
mod pinned;
mod runtime;
mod staged;
mod threads;
