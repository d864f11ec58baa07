//! Space in persistent memory (LogFree §3.4 calls it Halloc).
//!
//! Two pools, because a storage engine has two kinds of persistent allocation:
//!
//! - **Zones** ([`Space`]): large pieces of fixed size, attached to an owner, filled front to back,
//!   released all at once. All records live in zones.
//! - **Object pools** ([`ObjectPool`]): arrays of small fixed-size objects with a persistent free
//!   list that needs no log: get → initialise and persist → commit.
//!
//! # Who decides what exists
//! The manifest alone. A zone header says whom the zone was last attached to; whether that owner
//! still exists, only the caller knows. So releasing a zone writes nothing: an owner that the
//! manifest no longer names owns nothing, and opening returns its zones to the free ones.
//!
//! # Invariants
//! 1. **Attach before grant.** Both copies of a zone's header, and through them the attachment, are
//!    durable before the first byte of the zone is granted. A lost header would lose what was
//!    acknowledged in it.
//! 2. **Generations only rise.** Each attachment has a generation above every earlier one of the
//!    region, so bytes of an earlier life of the zone are never taken for a record: items carry it.
//!    Of two valid copies the newer is right (a crash between writing them leaves the older
//!    behind). A zone that is made wider keeps its generation, and the first copy is the newer. The zones that it
//!    gets have seen no later attachment: an open does not see what generations lie within a run.
//! 3. **Disjoint.** Live zones never overlap: an attachment of several adjacent zones (a *run*) owns
//!    them all, and whatever headers lie inside a run are its owner's bytes, never headers.
//! 4. **Parts are counted last.** A part of the region exists when the superblock's part word counts
//!    it; the word is written, in two copies, after the part's bytes and header are durable.
//! 5. **A free object is never committed and a committed one never free.** The commit bit and the
//!    free-list link of an object share one 8-byte word, so both change in one atomic store. An
//!    object that is neither committed nor reachable from the list was being allocated or released
//!    at the crash; opening returns it.
//! 6. **Witness.** The region remembers which chain was recorded last in the manifest: its id and a
//!    hash of its nonce, in a checked word of two copies, written after the edit and before the
//!    first grant. So a manifest that lost its last edit, or an older or other copy of it, is
//!    noticed, though the chain may own no zone yet; and so is an older copy of the region that lacks two chains that one
//!    opening has named.
//! 7. **Reserve.** Ordinary attachments leave one zone free, for deletes and seals when the region
//!    is full.
//!
//! # Crash argument
//! *Attach*: (a) header copy A durable, (b) copy B durable, then the caller grants. Before (a) the
//! zone has its old header, whose owner the manifest does not name (or none). Between (a) and (b)
//! the newer copy wins; nothing was granted yet, the zone is empty, the owner has one empty zone
//! more. *Widen* ([`Space::widen`]): a run gets the free zones right behind it. Its header is written again in place, with
//! the generation that it had and a longer run, copy A first; then the caller grants. While A is written B is durable
//! and says the old run, with all that was granted so far; once A is durable B may be torn. So at any time one copy is
//! whole. In between A counts, and the zones behind are empty: what lies there is of other owners or generations. If the
//! crash takes A back, they are free, as nothing was granted in them. An open that stores both again keeps to that order.
//! *Grow*: `pm` makes zeroed bytes durable, then the part header's copies, then the part word
//! A, then B; the larger valid word wins, and with word A torn, B still says the old count: the part
//! does not exist and is made again. Where the words differ, opening writes both again before anything
//! is attached: a kill leaves word A readable before it is durable. *Give back*: the part word forgets parts of which no
//! zone is attached, copy by copy, and only when both are durable the file is cut. In between the larger word wins, and
//! its parts are all there; after it the file may be longer than its parts, as after a growth that was interrupted, and
//! what lies there is zeroed when the region grows again, or goes back with the next that is given back. Generations
//! that were used there alone may be used again: never in a zone that has seen them. *Object pools*: see `pool`.
//!
//! # What an open may rely upon
//! A word that was read need not be durable: the process before was killed before its persist, or saw that
//! persist fail, and after a failed sync the kernel holds for clean what the device does not have (kind
//! `file`; `pm` has the argument). Whatever an open builds on is therefore *stored again*, and persisted,
//! before the first thing that needs it:
//!
//! 1. The meta zone (superblock, part words, object pools with their objects, floors, witness), all of it, before
//!    any of it is read. So what is read is durable. In between a crash leaves of each word what was durable or
//!    what was read; those differ only by steps that were under way when the process before ended, each of
//!    one word or one checked copy, and each of which may come or not: the same states as a crash then.
//! 2. The header of a part is durable if the part word counts it (invariant 4): the word was stored only when the
//!    header's persist had succeeded.
//! 3. The headers of zones that hold what recovery keeps: [`Space::repersist`]. Those of others were durable when
//!    the manifest named what lies in them. Copies that differ are stored one behind the other: the first alone may be
//!    what is not durable.
//!
//! # Rot
//! Superblock and part headers lie twice, and one sound copy serves. No crash leaves one copy unsound (`doubled` has the
//! argument), so one that is has rotted: a check names it ([`Space::rotten_copies`]), and an open that may write writes it
//! again from the other one.
#![deny(unsafe_code)]

mod copied;
#[expect(unsafe_code, reason = "stores rotten copies again")]
mod doubled;
mod format;
#[expect(unsafe_code, reason = "stores headers and the part word")]
mod part;
#[expect(unsafe_code, reason = "stores words of the free list")]
mod pool;
#[expect(
    unsafe_code,
    reason = "stores headers of zones, the superblock and the witness"
)]
mod space;

pub use copied::{Owners, RegionCopy};
pub use format::{FORMAT_VERSION, META_BYTES_MIN, ZONE_HEADER_BYTES};
pub use part::Zone;
pub use pool::ObjectPool;
pub use space::{Lacks, Pieces, Reserve, Space, SpaceSpec, SpaceUse, Witness};

thermocline_base::sites! {
    /// The superblock and the empty pools are durable. Also of a copy of the superblock that had rotted.
    SITE_FORMAT = "halloc: region formatted";
    /// The meta zone that an open found is durable, whatever the process before has seen fail.
    SITE_META_KEPT = "halloc: meta zone kept";
    /// The header of a new part is durable. Also of a copy of any part's header that had rotted.
    SITE_PART = "halloc: part header durable";
    /// The part word counts a new part.
    SITE_PARTS_WORD = "halloc: part counted";
    /// One copy of the witness word is durable: the region knows the newest chain.
    SITE_WITNESS = "halloc: witness durable";
    /// One copy of a zone header is durable: the zone belongs to its owner.
    SITE_ATTACH = "halloc: zone attached";
    /// One copy of a zone's header is durable again: the zones behind it belong to its owner, too.
    SITE_WIDEN = "halloc: zone made wider";
    /// The free list begins behind the object that was taken.
    SITE_POOL_GET = "halloc: object taken";
    /// An object is committed.
    SITE_POOL_COMMIT = "halloc: object committed";
    /// An object is no longer committed.
    SITE_POOL_RELEASE = "halloc: object released";
    /// A released object is back on the free list.
    SITE_POOL_LINK = "halloc: object linked";
}

/// Every durability site of this crate.
pub const SITES: &[thermocline_base::Site] = ALL;
