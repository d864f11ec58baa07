//! Write batches: changes that become visible and durable together or not at all.

use crate::error::{Error, Result};
use crate::limits;
use crate::seqno::{CfId, Kind};

/// What a change counts beside its key and value, in bytes.
const CHANGE_BYTES: usize = 16;

/// An ordered list of changes, applied as one. Later changes win over earlier ones of the same
/// key.
///
/// All keys and values lie in one buffer: filling a batch allocates rarely and clearing it keeps
/// the memory.
#[derive(Debug, Clone, Default)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    entries: Vec<Raw>,
}

#[derive(Debug, Clone, Copy)]
struct Raw {
    kind: Kind,
    cf: CfId,
    start: usize,
    key_len: usize,
    value_len: usize,
}

/// One change of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchEntry<'a> {
    /// What happens to the key.
    pub kind: Kind,
    /// The column family.
    pub cf: CfId,
    /// The user key; of a range delete the first key.
    pub key: &'a [u8],
    /// The value. It is empty for a delete, and the operand for a merge. For a range delete it is the first key
    /// behind the range, or empty if the range has no end. For a [`Kind::PutBlob`] it is the reference to the value.
    pub value: &'a [u8],
}

impl WriteBatch {
    /// An empty batch.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// A copy of checked changes.
    pub fn of<'a>(entries: impl Iterator<Item = BatchEntry<'a>>) -> WriteBatch {
        let mut batch = WriteBatch::new();
        for entry in entries {
            batch.append(entry.kind, entry.cf, entry.key, entry.value);
        }
        batch
    }

    /// Adds a put of `key` with `value`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the key or value is longer than the limit, or the batch would
    /// exceed [`limits::BATCH_BYTES_MAX`]. The batch is unchanged then.
    pub fn put(&mut self, cf: CfId, key: &[u8], value: &[u8]) -> Result<()> {
        check_key(key)?;
        check_value(value)?;
        self.push(Kind::Put, cf, key, value)
    }

    /// Adds a delete of `key`.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn delete(&mut self, cf: CfId, key: &[u8]) -> Result<()> {
        check_key(key)?;
        self.push(Kind::Delete, cf, key, &[])
    }

    /// Adds a merge of `operand` into the value of `key`. The caller checks before that the family has an operator,
    /// and that the operator takes the operand ([`crate::merge::check_operand`]).
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn merge(&mut self, cf: CfId, key: &[u8], operand: &[u8]) -> Result<()> {
        check_key(key)?;
        self.push(Kind::Merge, cf, key, operand)
    }

    /// Adds a delete of all keys from `start` to before `end`, in the order of bytes; without an `end`, of all keys
    /// from `start` on. It removes everything that was written before it, in this batch or earlier. If `start` and
    /// `end` are equal nothing is added.
    ///
    /// # Errors
    /// As [`WriteBatch::put`]; [`Error::InvalidArgument`] if `end` lies before `start`.
    pub fn delete_range(&mut self, cf: CfId, start: &[u8], end: Option<&[u8]>) -> Result<()> {
        match checked_range(start, end)? {
            Some(end) => self.push(Kind::RangeDelete, cf, start, end),
            None => Ok(()),
        }
    }

    /// Sets the metadata of `cf` to `blob`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the blob is longer than [`limits::METADATA_LEN_MAX`] or the batch
    /// would exceed [`limits::BATCH_BYTES_MAX`]. The batch is unchanged then.
    pub fn set_metadata(&mut self, cf: CfId, blob: &[u8]) -> Result<()> {
        if blob.len() > limits::METADATA_LEN_MAX {
            return Err(Error::InvalidArgument(format!(
                "the metadata of a column family has at most {} bytes; these have {}",
                limits::METADATA_LEN_MAX,
                blob.len()
            )));
        }
        self.push(Kind::Put, CfId::METADATA, &cf.metadata_key(), blob)
    }

    fn push(&mut self, kind: Kind, cf: CfId, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_more(key.len() + value.len(), 1)?;
        self.append(kind, cf, key, value);
        Ok(())
    }

    /// Checks that the batch could hold so many changes more, with so many bytes of keys and values.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if all of it would exceed [`limits::BATCH_BYTES_MAX`].
    pub fn check_more(&self, bytes: usize, entries: usize) -> Result<()> {
        let bytes = self.counted_len() + bytes + CHANGE_BYTES * entries;
        if bytes <= limits::BATCH_BYTES_MAX {
            return Ok(());
        }
        Err(Error::InvalidArgument(format!(
            "a batch holds at most {} bytes; this one would have {bytes}",
            limits::BATCH_BYTES_MAX
        )))
    }

    fn append(&mut self, kind: Kind, cf: CfId, key: &[u8], value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.entries.push(Raw {
            kind,
            cf,
            start,
            key_len: key.len(),
            value_len: value.len(),
        });
    }

    /// Adds a change that was checked, past any limit of the whole batch.
    pub fn push_checked(&mut self, entry: &BatchEntry<'_>) {
        self.append(entry.kind, entry.cf, entry.key, entry.value);
    }

    /// Reserves memory for that many more changes, and that many bytes of keys and values.
    pub fn reserve(&mut self, changes: usize, bytes: usize) {
        self.entries.reserve(changes);
        self.bytes.reserve(bytes);
    }

    /// Bytes of memory that the batch has.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Raw>()
    }

    /// Removes the changes behind the first `len`.
    pub fn truncate(&mut self, len: usize) {
        if let Some(first) = self.entries.get(len) {
            self.bytes.truncate(first.start);
            self.entries.truncate(len);
        }
    }

    fn change(&self, raw: &Raw) -> BatchEntry<'_> {
        let (key, rest) = self.bytes[raw.start..].split_at(raw.key_len);
        BatchEntry {
            kind: raw.kind,
            cf: raw.cf,
            key,
            value: &rest[..raw.value_len],
        }
    }

    /// The change with this number.
    ///
    /// # Panics
    /// If the batch has no such change.
    pub fn get(&self, number: usize) -> BatchEntry<'_> {
        self.change(&self.entries[number])
    }

    /// The changes, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = BatchEntry<'_>> + Clone {
        self.entries.iter().map(|raw| self.change(raw))
    }

    /// Number of changes.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of keys and values.
    pub fn data_len(&self) -> usize {
        self.bytes.len()
    }

    /// What counts against [`limits::BATCH_BYTES_MAX`]: bytes of keys and values, and 16 for each change.
    pub fn counted_len(&self) -> usize {
        self.bytes.len() + CHANGE_BYTES * self.entries.len()
    }

    /// Removes all changes; keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }
}

/// Checks a key against its limit.
///
/// # Errors
/// [`Error::InvalidArgument`] with the limit and the length.
pub fn check_key(key: &[u8]) -> Result<()> {
    if key.len() > limits::KEY_LEN_MAX {
        return Err(Error::InvalidArgument(format!(
            "a key has at most {} bytes; this one has {}",
            limits::KEY_LEN_MAX,
            key.len()
        )));
    }
    Ok(())
}

/// Checks a range of keys, and gives the value of a record of [`Kind::RangeDelete`] for it; `None` if no key lies
/// within.
///
/// # Errors
/// As [`check_key`], for either; [`Error::InvalidArgument`] if `end` lies before `start`.
pub fn checked_range<'a>(start: &[u8], end: Option<&'a [u8]>) -> Result<Option<&'a [u8]>> {
    check_key(start)?;
    let Some(end) = end else {
        return Ok(Some(&[]));
    };
    check_key(end)?;
    if end < start {
        return Err(Error::InvalidArgument(
            "the end of the range to delete lies before its start".to_string(),
        ));
    }
    Ok((start < end).then_some(end))
}

/// Checks a value against its limit.
///
/// # Errors
/// [`Error::InvalidArgument`] past [`limits::VALUE_LEN_MAX`].
pub fn check_value(value: &[u8]) -> Result<()> {
    if value.len() > limits::VALUE_LEN_MAX {
        return Err(Error::InvalidArgument(format!(
            "a value has at most {} bytes; this one has {}",
            limits::VALUE_LEN_MAX,
            value.len()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_that_fit_a_batch_each_may_not_fit_one_together() {
        // A mebibyte is left.
        let mut batch = WriteBatch::new();
        let value = vec![0; limits::VALUE_LEN_MAX];
        for left in [0, 0, 0, 1 << 20] {
            batch.put(CfId::DEFAULT, b"k", &value[left..]).unwrap();
        }
        let other = |len| {
            let mut other = WriteBatch::new();
            other.put(CfId::DEFAULT, b"", &value[..len]).unwrap();
            other
        };
        assert_eq!(batch.counted_len(), (1 << 30) - (1 << 20) + 4 + 16 * 4);
        let room = (1 << 20) - (4 + 16 * 5);
        let check = |other: WriteBatch| batch.check_more(other.data_len(), other.len());
        check(other(room)).unwrap();
        let error = check(other(room + 1)).unwrap_err();
        assert!(error.to_string().contains("1073741825"), "{error}");
        let alike = batch.put(CfId::DEFAULT, b"", &value[..=room]).unwrap_err();
        assert_eq!(alike.to_string(), error.to_string());
    }

    #[test]
    fn entries_come_back_in_order_and_whole() {
        let mut batch = WriteBatch::new();
        batch.put(CfId(3), b"", b"empty key").unwrap();
        batch.delete(CfId::DEFAULT, b"gone").unwrap();
        batch.put(CfId(3), b"k", b"").unwrap();
        let entries: Vec<_> = batch
            .iter()
            .map(|e| (e.kind, e.cf.0, e.key, e.value))
            .collect();
        let expected: Vec<(Kind, u16, &[u8], &[u8])> = vec![
            (Kind::Put, 3, b"", b"empty key"),
            (Kind::Delete, 0, b"gone", b""),
            (Kind::Put, 3, b"k", b""),
        ];
        assert_eq!(entries, expected);
    }

    #[test]
    fn changes_behind_a_number_go_and_others_stay() {
        let mut batch = WriteBatch::new();
        for key in [b"a", b"b", b"c"] {
            batch.put(CfId::DEFAULT, key, b"value").unwrap();
        }
        batch.truncate(3);
        assert_eq!((batch.len(), batch.data_len()), (3, 18));
        batch.truncate(1);
        batch.push_checked(&BatchEntry {
            kind: Kind::Delete,
            cf: CfId(3),
            key: b"d",
            value: b"",
        });
        assert_eq!((batch.len(), batch.data_len()), (2, 7));
        assert_eq!(
            (batch.get(0).key, batch.get(0).value),
            (&b"a"[..], &b"value"[..])
        );
        assert_eq!(
            (batch.get(1).kind, batch.get(1).key),
            (Kind::Delete, &b"d"[..])
        );
    }

    #[test]
    fn metadata_is_a_record_of_a_family_of_its_own() {
        let mut batch = WriteBatch::new();
        let longest = vec![1; limits::METADATA_LEN_MAX];
        batch.set_metadata(CfId(258), &longest).unwrap();
        let entry = batch.iter().next().unwrap();
        assert_eq!((entry.kind, entry.cf), (Kind::Put, CfId::METADATA));
        assert_eq!((entry.key, entry.value), (&[1, 2][..], &longest[..]));
        assert_eq!(CfId::of_metadata_key(entry.key), Some(CfId(258)));
        assert_eq!(CfId::of_metadata_key(b"one"), None);
        let error = batch.set_metadata(CfId(1), &[longest, vec![1]].concat());
        let error = error.unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::InvalidArgument);
        let text = error.to_string();
        assert!(text.contains("65536") && text.contains("65537"), "{text}");
        assert_eq!(batch.len(), 1);
        assert!(limits::COLUMN_FAMILIES_MAX <= usize::from(CfId::METADATA.0));
    }

    #[test]
    fn a_range_delete_says_where_it_ends_or_that_it_does_not() {
        let mut batch = WriteBatch::new();
        let cf = CfId::DEFAULT;
        batch.delete_range(cf, b"a", Some(b"b")).unwrap();
        batch.delete_range(cf, b"", None).unwrap();
        for (start, end) in [(&b""[..], &b""[..]), (b"k", b"k")] {
            batch.delete_range(cf, start, Some(end)).unwrap();
        }
        let entries: Vec<_> = batch.iter().map(|e| (e.kind, e.key, e.value)).collect();
        let kind = Kind::RangeDelete;
        assert_eq!(entries, [(kind, &b"a"[..], &b"b"[..]), (kind, b"", b"")]);
        let long = vec![0xff; limits::KEY_LEN_MAX + 1];
        for (start, end) in [
            (&b"b"[..], &b"a"[..]),
            (b"a", b""),
            (b"a", &long),
            (&long, &long),
        ] {
            let error = batch.delete_range(cf, start, Some(end)).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::InvalidArgument);
        }
        assert_eq!(batch.len(), 2);
    }

    #[test]
    fn past_a_limit_nothing_is_added_and_the_limit_is_named() {
        let mut batch = WriteBatch::new();
        let long = vec![0u8; limits::KEY_LEN_MAX + 1];
        let error = batch
            .put(CfId::DEFAULT, &long, b"")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("65535") && error.contains("65536"),
            "{error}"
        );
        // Zeros that nobody touches cost no memory.
        let big = vec![0u8; limits::VALUE_LEN_MAX + 1];
        let error = batch.put(CfId::DEFAULT, b"k", &big).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::InvalidArgument);
        assert!(batch.is_empty());
    }
}
