//! PM tables, written and read in every way there is, beside a model; damaged; and crashed while they are
//! written.

mod calls;
mod crash;
mod damage;
mod golden;
mod model;
mod world;
