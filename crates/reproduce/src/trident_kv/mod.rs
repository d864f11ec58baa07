//! TridentKV (`PAPERS.md`).

pub(crate) mod drops;
