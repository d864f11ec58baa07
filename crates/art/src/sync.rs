//! What this crate uses of [`thermocline_base::sync`], under a path of its own: the models of
//! `tests/loom` include these sources and have loom in this module's place.

pub(crate) use thermocline_base::sync::{
    AtomicBool, AtomicPtr, AtomicU64, Mutex, Ordering, fence, fence_after_rmw, hint, lock, thread,
};
