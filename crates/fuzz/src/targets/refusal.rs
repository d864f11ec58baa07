//! What an error must say.

use thermocline_base::{Error, ErrorKind};

use crate::target::Answer;

/// An error of reading `len` bytes: it names a place within, or a newer version.
pub(super) fn refused(error: &Error, len: usize) -> Answer {
    match error {
        Error::Corruption { place, offset, .. } => {
            assert!(!place.is_empty(), "{error}");
            assert!(*offset <= len as u64, "{error}: {offset} of {len}");
        }
        _ => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
    }
    Answer::Refused
}
