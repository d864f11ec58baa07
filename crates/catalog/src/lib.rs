//! What exists in a store: the manifest and its versions, and the view that readers have of memtables and tables.
//!
//! The catalog does not know why something changes. Whoever changes something takes the [edits](Catalog::edits), looks
//! whether what it relies on is still so, and appends; the version follows under the same lock. The catalog calls nobody but
//! an [`Observer`], which says what an edit is to say of the time, and is told what was installed.
//!
//! # Vocabulary
//! - An *edit* is a change of the manifest. It is durable when [`Edits::append`] returns, and alone decides what exists.
//! - A *version* names the tables and partitions after an edit. The *current* one is that after the last edit.
//! - A *view* is what a reader sees: memtables, newest first, over the tables of a version.
//!
//! # Invariants
//! 1. *The manifest decides.* The current version is that of the manifest's state: both change under the lock of edits, the
//!    version behind the manifest.
//! 2. *A failed edit ends all edits*, unless nothing was written: whether it is durable is unknown. Versions are frozen
//!    then, so that no file is taken for obsolete, and the store is poisoned. Before each edit that is asked again, since a
//!    sync that has failed elsewhere may have covered what the edit names.
//! 3. *Views follow.* Whoever shows a view holds the writer's lock, so views change in the order of edits. A reader holds
//!    its view for a call, and with it all that the view leads to.
//!
//! # Locks
//! `manifest`, then `versions`; both are held while an edit is made durable. The current version and the view are read without
//! them, so that writers and readers wait for no sync of the manifest. Whoever holds either may take the locks of [`observe`](thermocline_observe); the observer is
//! told under the first and not under the second.
#![forbid(unsafe_code)]

mod edits;
pub mod files;
pub mod kept;
pub mod owned;
mod pins;
pub mod view;

pub use edits::{Catalog, Edits, Installed, Observer};
pub use pins::{Pinned, Pins};
pub use view::View;
