//! What a store says about itself while it works: events, delay of writers, latency, counters, and which tables reads
//! ask in vain. Whoever does something reports it here; nobody here asks back.
//!
//! | question | module |
//! |---|---|
//! | what can happen, and who is told? | [`event`], [`events`] |
//! | how long were writers held up, and by what? | [`stall`], [`cause`] |
//! | how long do operations take? | [`latency`] |
//! | how often was what done? | [`count`] |
//! | which tables do reads ask in vain? | [`charged`] |
//! | has a persist failed? | [`poison`] |
//!
//! No lock here is held while another room is called: events are delivered by a [`events::Courier`], which the
//! runtime is.
#![forbid(unsafe_code)]

pub mod cause;
pub mod charged;
pub mod count;
pub mod event;
pub mod events;
pub mod latency;
pub mod poison;
pub mod stall;
