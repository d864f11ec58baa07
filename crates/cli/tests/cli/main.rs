//! The built program from outside: every command on right and wrong input.

mod at_work;
mod bench_page;
mod beside;
mod commands;
mod copies;
mod damaged;
mod load;
mod oltp;
mod plan;
mod prepared;
mod suite;
mod support;
mod untouched;
