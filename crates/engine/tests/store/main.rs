//! One store, looked at from outside.
//!
//! One program, since each one more is linked, and has its copy of all that is generic. Alone stay what must
//! be alone in its process (`device_bytes`) and what is large (the folders here).

mod after_close;
mod awaited;
mod beside;
mod blocked;
mod budget;
mod closing;
mod disk_full;
mod events;
mod few_descriptors;
mod held;
mod larger;
mod many;
mod meanwhile;
mod no_threads;
mod one_of_each;
mod room;
mod shadow;
mod small_dram;
