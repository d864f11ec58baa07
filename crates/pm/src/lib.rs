//! Bytes that persist: regions of persistent memory and the primitives on them.
//!
//! # What a region is
//! A [`Region`] is one mapped range of bytes that outlives the process, addressed by [`PmOff`]
//! (offsets, never addresses, are kept at rest). Its kind says what "outlives" means:
//!
//! | kind | persists by | survives |
//! |---|---|---|
//! | `dax` | write-back + fence of CPU caches on a `MAP_SYNC` mapping | power loss |
//! | `file` | `msync` of the touched pages of an ordinary file | power loss |
//! | `shm` | write-back + fence, on tmpfs | the process only; reported as *emulated* |
//! | `sim` | a simulator that forgets what was not persisted | whatever a test decides |
//! | `shadow` | a model of caches in front of a file | the process only, which takes the rest with it |
//! | `dram` | nothing: flush and fence do nothing and count as nothing | nothing |
//!
//! `dram` is plain memory in a region's place, for stores that make durable what they write in a log
//! instead (the baseline of the field, which all else is compared with). It is empty whenever it is
//! opened, and it has no page that could go.
//!
//! Of a region to which another process writes there can be a copy, of the same kind, for reading only
//! ([`Copying`]): plain memory, too, with as much of the other's bytes as was asked for.
//!
//! # The persistence model
//! Hardware promises that an aligned 8-byte store is atomic, and nothing else: a 64-byte line that
//! was not **both** written back ([`Region::flush`]) **and** fenced ([`Region::fence`], by the same
//! thread) may hold any mixture of old and new 8-byte words after a crash (`Torn8`). *Persist* means
//! flush + fence. `sim` implements exactly that model and every crash test builds on it; `shadow` puts
//! it before a file, so that killing a real process with real threads loses what it had not
//! persisted.
//!
//! A flush takes in what *any* thread stored to the line before, so one thread may persist another's
//! plain stores. Non-temporal stores it does not: they are covered by their own thread's fence alone
//! (`sim` has the argument).
//!
//! # A sync that fails
//! Of kind `file` a persist can fail: the kernel could not write a page, tells of it once (by `msync`, or by the
//! sync of a growth, in whoever's call), and holds the page for clean from then on. It reads as it was stored,
//! the device does not have it, and the next sync succeeds without writing it. `ENOSPC` and `EDQUOT` are no
//! exceptions: a file system that allocates late says so when it writes back. (One that a signal ends has not failed: it is
//! made again.) So
//!
//! - after a failed sync no fence of this region succeeds any more ([`Region::fence`]), and whoever uses it
//!   poisons the store. Only a growth that was refused *before* its sync is no more than a full device;
//! - who opens a region stores again what it relies upon and cannot know to be durable
//!   ([`Region::flush_again`]), before it flushes it.
//!
//! `sim` fails syncs in that way. With `dax` and `shm` there is no such failure: a line stays in the caches until
//! it is written back.
//!
//! # Invariants
//! 1. **One door.** No code outside this crate writes to a region's bytes. There is no `&mut [u8]`.
//! 2. **Bounds.** Every access is checked against the region's current length; an offset read from
//!    damaged bytes yields [`thermocline_base::Error::Corruption`], never a stray access.
//! 3. **Published bytes do not change.** [`Region::bytes`] hands out shared slices. Whoever writes a
//!    range has not published its offset yet, and whoever releases a range waits until nobody can
//!    hold a slice of it. No type can say so, since slices leave no trace: all that stores is `unsafe`,
//!    and each caller (`halloc`, `memtable`, `level0`) says why nobody reads there. Words that do
//!    change while others look are accessed only by [`Region::store_u64`] and [`Region::load_u64`].
//! 4. **The mapping never moves.** The address range for the largest size is reserved at open;
//!    growing maps more of it.
//! 5. **Death of a page is an error, not a death of the process.** A truncated file or a media
//!    error raises SIGBUS; the handler (`sigbus`) maps a zero page over the fault and marks the
//!    region *faulted*. Readers ask [`Region::check_media`] after they have copied or verified
//!    bytes and before they act on them.
//!
//! # Why msync for `file`
//! Measured with `examples/persist_spike.rs` (1,088-byte appends, each durable, ext4 on a virtual
//! SSD): mmap + msync 9.6-11.5 K/s over a file initialised in 4 KiB writes, also after reopening
//! (9.0-10.3 K/s); a DRAM image written with `O_DIRECT|O_DSYNC` 12.0-13.5 K/s. The image would cost
//! DRAM for every zone being written and a second way of reading, for a quarter more appends; the
//! mapping is one mechanism for all kinds. A file initialised in 1 MiB writes moves 1 MiB to the
//! device per sync and does 4-5 K/s, so regions are initialised in 4 KiB writes.
//!
//! # Vocabulary
//! *flush*: start writing back the lines of a range. *fence*: wait for this thread's write-backs.
//! *persist*: both. *non-temporal*: a store that bypasses the cache and needs only the fence.
//! *media unit*: 256 bytes, what Optane-like media write at once.
#![deny(unsafe_code)]

mod counters;
mod cpu;
mod emulate;
mod map;
mod off;
mod region;
mod shadow;
mod sigbus;
pub mod sim;
mod writer;

pub use counters::PmCounters;
pub use off::{LINE, PmOff};
pub use region::{Copying, Place, Region, RegionKind, RegionSpec};
pub use shadow::Shadow;
pub use sim::SimPm;
pub use thermocline_base::options::Emulation;
pub use writer::ActingWriter;

thermocline_base::sites! {
    /// The region's file exists under its name, with its first bytes initialised.
    SITE_CREATE = "pm: region file created";
    /// New bytes at the end of the region are initialised and belong to the file.
    SITE_GROW = "pm: region grown";
}

/// Every durability site of this crate.
pub const SITES: &[thermocline_base::Site] = ALL;
