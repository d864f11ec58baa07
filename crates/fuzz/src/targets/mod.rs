//! What reads bytes.

mod api;
mod backup;
mod blobs;
mod current;
mod edit;
mod items;
mod log;
mod manifest;
mod names;
mod options;
mod pm_table;
mod region;
mod store;
mod table;
mod world;

use thermocline_base::checksum::hash64_seeded;
use thermocline_base::{Error, ErrorKind};

use crate::{Answer, Target};

/// All of them.
pub const ALL: &[Target] = &[
    table::TARGET,
    blobs::TARGET,
    pm_table::TARGET,
    manifest::TARGET,
    edit::TARGET,
    current::TARGET,
    items::TARGET,
    log::TARGET,
    region::TARGET,
    names::TARGET,
    options::TARGET,
    backup::TARGET,
    store::TARGET,
    api::TARGET,
];

/// An error of reading `len` bytes: it names a place within, or a newer version.
fn refused(error: &Error, len: usize) -> Answer {
    match error {
        Error::Corruption { place, offset, .. } => {
            assert!(!place.is_empty(), "{error}");
            assert!(*offset <= len as u64, "{error}: {offset} of {len}");
        }
        _ => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
    }
    Answer::Refused
}

/// A hash of everything that was read.
#[derive(Debug, Default)]
struct Digest(u64);

impl Digest {
    fn add(&mut self, bytes: &[u8]) {
        self.0 = hash64_seeded(bytes, self.0 ^ bytes.len() as u64);
    }

    fn number(&mut self, n: u64) {
        self.add(&n.to_le_bytes());
    }
}
