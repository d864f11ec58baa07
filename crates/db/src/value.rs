//! Values that were read.

use std::ops::Deref;

/// A value that was read. It outlives the handle that it came from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Value(Box<[u8]>);

impl Value {
    pub(crate) fn copy(bytes: &[u8]) -> Value {
        Value(bytes.into())
    }

    /// The bytes, without another copy.
    pub fn into_vec(self) -> Vec<u8> {
        self.0.into_vec()
    }
}

impl Deref for Value {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq<[u8]> for Value {
    fn eq(&self, other: &[u8]) -> bool {
        *self.0 == *other
    }
}
