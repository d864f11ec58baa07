//! Coroutines and block I/O: aligned buffers, transfers past the page cache, and reads and writes that go on while a job
//! works.
//!
//! | what | how |
//! |---|---|
//! | memory that a device can read and write itself | [`AlignedBuf`], from a [`BufPool`] |
//! | a block of a file, in one read | [`read_range`] |
//! | several reads at once, from any files | [`BatchReader`] |
//! | reads that a task awaits | [`AsyncReader`] |
//! | reads and writes of a job while it works | [`JobIo`] |
//! | syncs that nobody waits for once a store is closed | [`JobIo::until_closed`] |
//! | coroutines of a job on one thread | [`weave`] |
//! | bytes from anywhere, written directly | [`write_range`] |
//! | all files of a crate that knows nothing of alignment | [`DirectStorage`] |
//! | the same through the page cache, but counted | [`DirectStorage::buffered`] |
//!
//! # What always holds
//!
//! 1. **Aligned.** An [`AlignedBuf`] begins at a multiple of [`PAGE_BYTES`], and so much memory as
//!    its capacity, whole pages, lies behind its beginning. All of it is initialised at all times.
//! 2. **Only what was read.** [`read_range`] gives exactly the bytes that were asked for and read
//!    now: bytes that an earlier user of the buffer left are never in it, and a read that came up
//!    short is an error that names file and offset.
//! 3. **Nothing beyond.** [`write_range`] writes the bytes given and no padding, so a file is never
//!    longer than what was written to it, at no instant: whole units directly, the rest as the
//!    file's last piece ([`File::write_tail`](thermocline_env::File::write_tail)), after which that
//!    handle goes on through the page cache.
//! 4. **Bounded.** A [`BufPool`] keeps at most so many idle bytes as it was told. A transfer takes
//!    a buffer of at most [`PIECE_BYTES`], for a read that does not lie aligned a unit more, except a
//!    [`read_range`] of more, and the reads of a batch.
//! 5. **No promise lost.** A file of a [`DirectStorage`] keeps what [`thermocline_env::Storage`]
//!    promises; what it refuses in addition is a write at an offset that is no multiple of the
//!    unit, as long as the file is transferred directly.
//!
//! # Rejected
//!
//! - *Memory by `alloc` with a layout*: saves up to a page per buffer that the allocator pays for
//!   alignment anyway, and costs unsafe code. A buffer here is plain memory, a page longer than
//!   needed.
#![deny(unsafe_code)]

mod aligned;
mod asynchronous;
mod batch;
mod budget;
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the kernel is handed memory to read into")]
mod flights;
mod helpers;
mod job_io;
mod order;
#[cfg(target_os = "linux")]
mod poller;
mod pool;
mod prepared;
mod promise;
mod range;
#[cfg_attr(
    not(any(target_os = "linux", test)),
    expect(dead_code, reason = "nothing is tried elsewhere")
)]
mod refusal;
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the kernel is handed memory to read into")]
mod ring;
mod storage;
mod sync;
#[cfg(target_os = "linux")]
mod tries;
mod under_way;
mod weave;

pub use aligned::{AlignedBuf, PAGE_BYTES};
pub use asynchronous::{AsyncReader, AsyncUse, Reading, Running};
pub use batch::{BatchRead, BatchReader};
pub use job_io::{Behind, Closing, Coming, JobIo, JobIoUse, PIECES_MAX, Turn, Written};
pub use pool::{BufPool, PooledBuf};
pub use range::{PIECE_BYTES, RangeBuf, read_range, write_range};
pub use refusal::Refused;
pub use storage::DirectStorage;
pub use under_way::{Counted, UnderWay};
pub use weave::{Coroutine, rest, weave};

// Named here, and not in the unit: loom's models include that by path (`tests/loom`), and these tests cannot run there.
#[cfg(test)]
#[path = "budget/tests.rs"]
mod budget_tests;
