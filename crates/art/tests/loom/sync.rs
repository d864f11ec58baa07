//! Loom in the place of `src/sync.rs`.

pub(crate) use thermocline_testkit::loom::{
    AtomicPtr, AtomicU64, Mutex, Ordering, fence, fence_after_rmw, hint, lock, thread,
};
