//! The sources of committing that depend on nothing else.

#[expect(dead_code, reason = "the models use parts of the sources")]
#[path = "../../src/commit/bucket.rs"]
pub(crate) mod bucket;
#[expect(dead_code, reason = "the models use parts of the sources")]
#[path = "../../src/commit/ring.rs"]
pub(crate) mod ring;
