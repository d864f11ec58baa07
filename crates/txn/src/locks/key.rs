//! The key of a lock: a family's number in two bytes, and a key of that family.

use crate::sync::Arc;

/// Bytes of keys that need no memory of their own.
const SHORT_MAX: usize = 22;

/// The bytes, and their hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LockKey {
    /// Of equal keys it is equal.
    hash: u64,
    bytes: Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Bytes {
    /// How many, and behind them nothing but zeros.
    Short(u8, [u8; SHORT_MAX]),
    /// More than those.
    Long(Arc<[u8]>),
}

impl LockKey {
    /// The key of the bytes of `family` and `key`, whose hash this is.
    pub fn new(family: [u8; 2], key: &[u8], hash: u64) -> LockKey {
        let len = family.len() + key.len();
        let bytes = match u8::try_from(len) {
            Ok(short) if len <= SHORT_MAX => {
                let mut bytes = [0; SHORT_MAX];
                bytes[..2].copy_from_slice(&family);
                bytes[2..len].copy_from_slice(key);
                Bytes::Short(short, bytes)
            }
            _ => Bytes::Long([&family, key].concat().into()),
        };
        LockKey { hash, bytes }
    }

    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Short(len, bytes) => &bytes[..usize::from(*len)],
            Bytes::Long(bytes) => bytes,
        }
    }

    pub fn hash(&self) -> u64 {
        self.hash
    }
}

impl std::hash::Hash for LockKey {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl std::borrow::Borrow<[u8]> for InOrder {
    fn borrow(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// A key that is told from others by its bytes alone, and lies in their order.
#[derive(Debug, Clone)]
pub(crate) struct InOrder(pub LockKey);

impl PartialEq for InOrder {
    fn eq(&self, other: &InOrder) -> bool {
        self.0.bytes() == other.0.bytes()
    }
}

impl Eq for InOrder {}

impl PartialOrd for InOrder {
    fn partial_cmp(&self, other: &InOrder) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for InOrder {
    fn cmp(&self, other: &InOrder) -> std::cmp::Ordering {
        self.0.bytes().cmp(other.0.bytes())
    }
}
