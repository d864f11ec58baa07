//! Write-ahead logs: what makes writes durable where records are kept in plain memory
//! (shape `ssd`).
//!
//! That is how the field does it, and so the baseline that the rest is compared with: every write
//! goes to the device twice, once into the log and once into a table. It is built to be as good as it
//! can be.
//!
//! # What a log is
//! A file with a header that says whose it is, and **frames**: each carries one **payload**, bytes that
//! are durable together or not at all, with checksums that start from the log's seed and the frame's
//! offset. [`LogWriter`] appends, [`LogReader`] finds what is there. A log knows nothing of what its
//! payloads mean, nor does it decide what is cut: it gives every valid frame that the file has, and
//! the caller, who knows the order of writes, judges what is missing between them.
//!
//! # Invariants
//! 1. **Whose it is.** The header is durable before anybody names the log, and is never written again: it
//!    has a page of its own. So a log that is named and has no sound header of its own is damaged.
//! 2. **Nothing of an earlier life.** The seed comes from database, log and a random number, and ids of logs
//!    are never reused. A file that is used again for another log ([`LogWriter::reuse`]) is full of
//!    frames, and none of them verifies.
//! 3. **What was synced stays.** A write begins at the page of the end and writes again what is on that
//!    page. Those bytes are the same as before, and the device writes sectors whole: whichever sectors
//!    a crash leaves old, what was there before is there.
//! 4. **After a failure nothing is written any more.** What is durable is unknown then, and a later sync
//!    might succeed without what the failed one had to write.
//!
//! # Crash argument of an append
//! Frames that were appended are written with the next [`LogWriter::sync`], or where they are many some before it
//! ([`LogWriter::write_out`]), then synced. A crash before the
//! sync ends leaves any mixture of old and new sectors behind the old end: frames whose checksums
//! hold, which are whole, and others, which are not given to anybody. A torn frame may lie before a
//! whole one; that is the caller's to see ([`Frame::at`] tells where each lies). After the sync all are
//! there.
//!
//! # How it is written
//! Measured on the machines of this project (1 KiB appends, each durable, virtual SSD): appending with
//! `fdatasync` 3 K/s, because each sync also writes the new length; overwriting what was allocated and
//! written before, with `fdatasync`, 6.2 K/s; directly and synchronously 6.8 K/s. So a log is grown ahead
//! of its end by zeros that double up to [`GROWTH_BYTES_MAX`]; a log that is not needed any more is used
//! again as it is; and pages go to the device directly, where the file system allows that, from aligned
//! memory.
//!
//! # Rejected
//! - *Padding each write to a page*, so that no page is written twice: the device moves a page for each sync
//!   either way, and the log of small writes would be forty times as long.
//! - *Space reserved without writing it* (`fallocate`): the first write to such an extent has to change
//!   metadata, which costs what was to be saved.
//! - *A record of 32 KiB blocks with fragments*, as elsewhere: it bounds how much of a log one bad length can
//!   hide. Here every 16 bytes behind a bad frame are tried ([`LogReader`]), and nothing is hidden.
#![forbid(unsafe_code)]

mod format;
mod owner;
mod reader;
mod writer;

pub use format::{FORMAT_VERSION, FRAME_HEADER, HEADER_BYTES, LogId, Owner, frame_bytes};
pub use owner::OwnerFile;
pub use reader::{Frame, LogReader, may_be_log_of};
pub use writer::{GROWTH_BYTES_MAX, LogWriter};

thermocline_base::sites! {
    /// A new log has its header, durably.
    SITE_LOG_MADE = "wal: log made";
    /// The name of a log is durable.
    SITE_LOG_NAMED = "wal: log named";
    /// Frames up to here are durable.
    SITE_FRAMES = "wal: frames durable";
    /// What recovery keeps is durable, even if a killed process had not synced it.
    SITE_KEPT = "wal: kept frames durable";
    /// Whose the logs in a folder are, and the newest chain of their database.
    SITE_OWNER = "wal: owner durable";
}

/// Every durability site of this crate.
pub const SITES: &[thermocline_base::Site] = ALL;
