//! Which versions of a key a flush writes. See [`flush`](super) for why that is enough.

use thermocline_art::Moments;
use thermocline_base::{Kind, SeqNo};

/// What becomes of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It is written.
    Keep,
    /// Before it a tombstone of this seqno is written, which was answered with `Drop`.
    KeepAfterDelete(SeqNo),
    /// It is not written.
    Drop,
}

/// Decides version by version, by key and then newest first.
pub(crate) struct Retain<'a> {
    moments: &'a dyn Moments,
    /// Whether tables below may have a key.
    below: &'a dyn Fn(&[u8]) -> bool,
    key: Option<Vec<u8>>,
    /// The oldest version of the key so far that is no merge operand.
    base: Option<SeqNo>,
    /// A tombstone that is needed only if an older version is written.
    waits: Option<SeqNo>,
}

impl<'a> Retain<'a> {
    pub fn new(moments: &'a dyn Moments, below: &'a dyn Fn(&[u8]) -> bool) -> Retain<'a> {
        Retain {
            moments,
            below,
            key: None,
            base: None,
            waits: None,
        }
    }

    /// Whether the key is another one than that of the last decision.
    pub fn is_new(&self, key: &[u8]) -> bool {
        self.key.as_deref() != Some(key)
    }

    pub fn decide(&mut self, key: &[u8], seqno: SeqNo, kind: Kind) -> Decision {
        if self.is_new(key) {
            let own = self.key.get_or_insert_default();
            own.clear();
            own.extend_from_slice(key);
            (self.base, self.waits) = (None, None);
        }
        let newer = self.base;
        if kind != Kind::Merge {
            self.base = Some(seqno);
        }
        // Equal seqnos are one version, met twice.
        if newer.is_some_and(|newer| newer <= seqno || !self.moments.any_in(seqno, newer)) {
            return Decision::Drop;
        }
        if kind == Kind::Delete && !(self.below)(key) {
            // Of two that wait the older one says all that both did.
            self.waits = Some(seqno);
            return Decision::Drop;
        }
        match self.waits.take() {
            Some(delete) => Decision::KeepAfterDelete(delete),
            None => Decision::Keep,
        }
    }
}
