//! Values that were read: copied, or where they lie in persistent memory.
//!
//! A small value is copied: that costs less than holding on to it. A larger one is *pinned*: it names
//! its record and holds its memtable, whose zones are given back only when nobody holds it any more. So
//! it outlives the call, the snapshot, and the store's handle. What is pinned cannot be reclaimed; once
//! pins exceed a share of the region everything is copied, so that values that somebody forgot cannot keep
//! the region full. `stat` tells which memtables are pinned, and by how much.
//!
//! A pinned value was verified when it was read, and its bytes never change. What can still happen to it
//! is what happens to a mapping: the device loses the page. [`Value::verify`] looks again.

use std::ops::Deref;

use thermocline_base::Result;
use thermocline_base::size::index;
use thermocline_catalog::{Pinned, Pins};
use thermocline_memtable::{Home, RecordRef};
use thermocline_pm::PmOff;

use crate::snapshot::hit::Hit;
use crate::store::Reads;
use crate::sync::Arc;

/// A value that was read. It outlives the handle that it came from.
#[derive(Debug, Clone)]
pub struct Value(Held);

#[derive(Debug, Clone)]
enum Held {
    Copied(Box<[u8]>),
    /// Read from a blob file, into memory of its own.
    Read(Arc<Vec<u8>>),
    Pinned(Pin),
    /// In a table in persistent memory.
    Table(TablePin),
}

/// A value in a table in persistent memory, which it holds.
#[derive(Debug)]
struct TablePin {
    value: thermocline_level0::Pinned,
    /// Of the store.
    pins: Arc<Pinned>,
}

impl TablePin {
    fn new(value: thermocline_level0::Pinned, pins: &Arc<Pinned>) -> TablePin {
        let bytes = value.len() as u64;
        pins.add(bytes);
        value.table().pinned(bytes, 0);
        let pins = pins.clone();
        TablePin { value, pins }
    }
}

impl Clone for TablePin {
    fn clone(&self) -> TablePin {
        TablePin::new(self.value.clone(), &self.pins)
    }
}

impl Drop for TablePin {
    fn drop(&mut self) {
        let bytes = self.value.len() as u64;
        self.pins.sub(bytes);
        self.value.table().pinned(0, bytes);
    }
}

/// A value where it lies.
#[derive(Debug)]
struct Pin {
    home: Arc<Home>,
    record: PmOff,
    at: PmOff,
    len: usize,
    /// Of the store.
    pins: Arc<Pinned>,
}

impl Pin {
    fn new(home: &Arc<Home>, record: &RecordRef<'_>, pins: &Arc<Pinned>) -> Pin {
        let (len, bytes) = (record.value.len(), record.value.len() as u64);
        pins.add(bytes);
        home.pinned(bytes, 0);
        Pin {
            home: home.clone(),
            record: record.at,
            at: record.value_at(),
            len,
            pins: pins.clone(),
        }
    }

    fn bytes(&self) -> &[u8] {
        let bytes = self.home.region().bytes(self.at, self.len);
        bytes.unwrap_or_else(|_| unreachable!("it was read there, and stays while it is held"))
    }
}

impl Clone for Pin {
    fn clone(&self) -> Pin {
        let bytes = self.len as u64;
        self.pins.add(bytes);
        self.home.pinned(bytes, 0);
        Pin {
            home: self.home.clone(),
            pins: self.pins.clone(),
            ..*self
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let bytes = self.len as u64;
        self.pins.sub(bytes);
        self.home.pinned(0, bytes);
    }
}

impl Value {
    /// A copy of `bytes`.
    pub fn copy(bytes: &[u8]) -> Value {
        Value(Held::Copied(bytes.into()))
    }

    /// These bytes.
    pub fn owned(bytes: Vec<u8>) -> Value {
        Value(Held::Copied(bytes.into()))
    }

    /// The bytes, copied if they are pinned.
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Held::Copied(bytes) => bytes.into_vec(),
            Held::Read(bytes) => Arc::unwrap_or_clone(bytes),
            Held::Pinned(pin) => pin.bytes().to_vec(),
            Held::Table(pin) => pin.value.to_vec(),
        }
    }

    /// Whether it lies in persistent memory, and keeps its place there from being used again.
    pub fn is_pinned(&self) -> bool {
        matches!(self.0, Held::Pinned(_) | Held::Table(_))
    }

    /// Checks the checksum of a pinned value's record again; a copy is always sound.
    ///
    /// # Errors
    /// [`Error::Corruption`](thermocline_base::Error::Corruption) or [`Error::Io`](thermocline_base::Error::Io) naming region and
    /// offset: the device has lost the page.
    pub fn verify(&self) -> Result<()> {
        match &self.0 {
            Held::Copied(_) | Held::Read(_) => Ok(()),
            Held::Pinned(pin) => pin.home.record(pin.record, true).map(drop),
            Held::Table(pin) => pin.value.verify(),
        }
    }
}

impl Reads {
    /// A value that was found, and verified: pinned if that pays and may be, else copied. From a
    /// table it is copied: to pin it would keep its block, which the cache no longer counted. One from a blob
    /// file keeps the memory that it was read into, which clones share.
    pub fn value(&self, pins: &Pins, hit: Hit<'_>) -> Value {
        let pins = pins.pinned();
        let (memtable, record) = match hit {
            Hit::Record(memtable, record) => (memtable, record),
            Hit::Block(value) => return Value::copy(value),
            Hit::Pm(value) => return self.value_in_table(pins, value),
            Hit::Made(value) => return Value(Held::Read(Arc::new(value))),
        };
        if !self.may_pin(pins, record.value.len()) {
            return Value::copy(record.value);
        }
        match memtable.home_of(record.at) {
            Ok(home) => Value(Held::Pinned(Pin::new(home, record, pins))),
            Err(_) => Value::copy(record.value),
        }
    }

    fn value_in_table(&self, pins: &Arc<Pinned>, value: thermocline_level0::Pinned) -> Value {
        match self.may_pin(pins, value.len()) {
            true => Value(Held::Table(TablePin::new(value, pins))),
            false => Value::copy(&value),
        }
    }

    /// Whether a value of so many bytes is to be pinned. By its bytes it is known where somebody holds one.
    fn may_pin(&self, pins: &Pinned, len: usize) -> bool {
        let read = &self.common.options.read;
        let most = self.common.space.region().len() / 100 * read.pins_percent_max;
        len > 0 && len >= index(read.pin_bytes_min) && pins.bytes() + len as u64 <= most
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Held::Copied(bytes) => bytes,
            Held::Read(bytes) => bytes,
            Held::Pinned(pin) => pin.bytes(),
            Held::Table(pin) => &pin.value,
        }
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        **self == **other
    }
}

impl Eq for Value {}

impl std::hash::Hash for Value {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl PartialEq<[u8]> for Value {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}
