//! Reading values, and going over all records of a blob file.

use std::sync::Arc;

use thermocline_base::checksum::Hasher64;
use thermocline_base::numbers::len_of;
use thermocline_base::planted::{Bug, active};
use thermocline_base::{BlobRef, CfId, Error, Result, limits};
use thermocline_env::File;

use super::format::{BLOB_HEADER_LEN, RECORD_ALIGN, RECORD_HEADER_LEN, RecordHeader, check_header};
use crate::format::coding::{Unreadable, damaged};
use crate::identity::Identity;
use crate::verify::Verified;

/// A blob file that is open for reading. Like a [`crate::Table`] it does no I/O.
#[derive(Debug, Clone)]
pub struct BlobFile {
    name: String,
    identity: Identity,
}

impl BlobFile {
    /// Of the file `name` (for errors), which begins with `header` ([`BLOB_HEADER_LEN`] bytes) and
    /// should be `identity`.
    ///
    /// # Errors
    /// [`Error::Corruption`] if it is not that file, [`Error::Unsupported`] if a newer version wrote
    /// it.
    pub fn new(identity: Identity, name: String, header: &[u8]) -> Result<BlobFile> {
        let checked = match header.try_into() {
            Ok(header) => check_header(header, &identity),
            Err(_) => Err(damaged(
                "header of a blob file",
                0,
                BLOB_HEADER_LEN,
                header.len(),
            )),
        };
        checked.map_err(|e| e.into_error(&name, 0))?;
        Ok(BlobFile { name, identity })
    }

    /// Reads the header of `file`, which should be `identity`.
    ///
    /// # Errors
    /// As [`BlobFile::new`]; those of reading.
    pub fn open(file: &dyn File, identity: Identity) -> Result<BlobFile> {
        // Of a file that is shorter, what there is: that is damage, and a read that fell short is not.
        let len = file.len()?.min(BLOB_HEADER_LEN as u64);
        let mut header = vec![0; usize::try_from(len).expect("at most a header")];
        file.read_exact_at(&mut header, 0)?;
        BlobFile::new(identity, file.path().display().to_string(), &header)
    }

    /// The part of the file that [`BlobFile::decode`] takes: offset and length in bytes.
    ///
    /// # Errors
    /// [`Error::Corruption`] if no such value can be in this file, whose length is `file_len`: so what
    /// is read is never longer than the file.
    pub fn span(&self, blob: BlobRef, file_len: u64) -> Result<(u64, u64)> {
        let len = RECORD_HEADER_LEN as u64 + u64::from(blob.len);
        let end = blob.offset.checked_add(len);
        let wrong = |what: &str, expected: String, got: String| {
            Err(Error::corruption(
                what,
                &self.name,
                blob.offset,
                expected,
                got,
            ))
        };
        if blob.file != self.identity.file {
            let (own, other) = (self.identity.file.to_string(), blob.file.to_string());
            return wrong("file of a blob", own, other);
        }
        let first = BLOB_HEADER_LEN as u64;
        if blob.offset < first || !blob.offset.is_multiple_of(RECORD_ALIGN) {
            let expected = format!("a multiple of {RECORD_ALIGN} from {first}");
            return wrong("place of a blob", expected, blob.offset.to_string());
        }
        if end.is_none_or(|end| end > file_len) || len_of(blob.len) > limits::VALUE_LEN_MAX {
            return wrong(
                "end of a blob",
                format!("within {file_len}"),
                blob.to_string(),
            );
        }
        Ok((blob.offset, len))
    }

    /// The value of `blob` from the bytes that lie at its [`BlobFile::span`].
    ///
    /// # Errors
    /// [`Error::Corruption`] if they are not what was written there.
    pub fn decode(&self, blob: BlobRef, stored: &[u8]) -> Result<Vec<u8>> {
        let header = self.checked(blob, stored)?;
        self.value_of(header, blob, stored)
    }

    /// The header of the record at `at`, and its bytes, in `file`, whose records end at `end`: this one does not reach over that.
    fn header_at(
        &self,
        file: &dyn File,
        at: u64,
        end: u64,
    ) -> Result<(RecordHeader, [u8; RECORD_HEADER_LEN])> {
        let damage = |e: Unreadable| e.into_error(&self.name, at);
        let room = end - at;
        // Of a file that was cut: that is damage, and a read that fell short is not.
        if room < RECORD_HEADER_LEN as u64 {
            return Err(damage(damaged("blob record", 0, RECORD_HEADER_LEN, room)));
        }
        let mut stored = [0; RECORD_HEADER_LEN];
        file.read_exact_at(&mut stored, at)?;
        let header = RecordHeader::decode(&stored, self.identity.blob_seed(), at);
        let header = header.map_err(damage)?;
        if header.len() > room {
            return Err(damage(damaged(
                "length of a blob record",
                12,
                room,
                header.len(),
            )));
        }
        Ok((header, stored))
    }

    /// The header of the value's record, which has been compared with the value.
    fn checked(&self, blob: BlobRef, stored: &[u8]) -> Result<RecordHeader> {
        let seed = self.identity.blob_seed();
        let checked = || {
            let Some(header) = stored.first_chunk() else {
                return Err(damaged(
                    "length of a blob record",
                    0,
                    RECORD_HEADER_LEN,
                    stored.len(),
                ));
            };
            let header = RecordHeader::decode(header, seed, blob.offset)?;
            let lens = [len_of(header.value_len), stored.len() - RECORD_HEADER_LEN];
            if lens != [len_of(blob.len); 2] {
                let got = format!("{} of {}", lens[1], lens[0]);
                return Err(damaged("length of a blob", 12, blob.len, got));
            }
            header.check_value(&stored[RECORD_HEADER_LEN..], seed, blob.offset)?;
            Ok(header)
        };
        checked().map_err(|e: Unreadable| e.into_error(&self.name, blob.offset))
    }

    fn value_of(&self, header: RecordHeader, blob: BlobRef, stored: &[u8]) -> Result<Vec<u8>> {
        let value = header.value_of(&stored[RECORD_HEADER_LEN..]);
        value.map_err(|e| e.into_error(&self.name, blob.offset))
    }

    /// As [`BlobFile::span`], of what [`BlobFile::decode_of`] takes: with the key, of so many bytes, behind the value. Of a file
    /// that was cut, what there is.
    ///
    /// # Errors
    /// As [`BlobFile::span`].
    pub fn span_with_key(
        &self,
        blob: BlobRef,
        key_len: usize,
        file_len: u64,
    ) -> Result<(u64, u64)> {
        let (offset, len) = self.span(blob, file_len)?;
        Ok((offset, (len + key_len as u64).min(file_len - offset)))
    }

    /// As [`BlobFile::decode`], of the value that a record of `key` in the family `cf` refers to: the file says whose each of its
    /// values is. `stored` lies at [`BlobFile::span_with_key`].
    ///
    /// # Errors
    /// As [`BlobFile::decode`]; [`Error::Corruption`] if the value is another's.
    pub fn decode_of(&self, of: (CfId, &[u8]), blob: BlobRef, stored: &[u8]) -> Result<Vec<u8>> {
        let header = self.checked_of(of, blob, stored)?;
        self.value_of(header, blob, record_of(blob, stored).0)
    }

    /// As [`BlobFile::checked`], of the value of that key, with the key behind it.
    fn checked_of(
        &self,
        (cf, key): (CfId, &[u8]),
        blob: BlobRef,
        stored: &[u8],
    ) -> Result<RecordHeader> {
        let (record, behind) = record_of(blob, stored);
        let header = self.checked(blob, record)?;
        let is_own = header.cf == cf && usize::from(header.key_len) == key.len() && behind == key;
        if !is_own && !active(Bug::BlobOfAnyKey) {
            return Err(Error::corruption(
                "whose value a blob is",
                &self.name,
                blob.offset,
                format!("key {} of family {}", key.escape_ascii(), cf.0),
                "another's",
            ));
        }
        Ok(header)
    }
}

/// The record of a value, and what lies behind it.
fn record_of(blob: BlobRef, stored: &[u8]) -> (&[u8], &[u8]) {
    stored.split_at(stored.len().min(RECORD_HEADER_LEN + len_of(blob.len)))
}

/// Reads the value of `blob` from `file`, which is `opened`. Allocates no more than the file is long.
///
/// # Errors
/// [`Error::Corruption`] if it is not what was written there; those of reading.
pub fn read_blob(opened: &BlobFile, file: &dyn File, blob: BlobRef) -> Result<Vec<u8>> {
    let (offset, len) = opened.span(blob, file.len()?)?;
    let mut stored = vec![0; usize::try_from(len).expect("a value fits into memory")];
    file.read_exact_at(&mut stored, offset)?;
    opened.decode(blob, &stored)
}

/// As [`read_blob`], of the value that a record of `key` in the family `cf` refers to: the blob file says whose each of
/// its values is. In one read, too.
///
/// # Errors
/// As [`read_blob`]; [`Error::Corruption`] if the value is another's.
pub fn read_blob_of(
    opened: &BlobFile,
    file: &dyn File,
    (cf, key): (CfId, &[u8]),
    blob: BlobRef,
) -> Result<Vec<u8>> {
    let (offset, len) = opened.span_with_key(blob, key.len(), file.len()?)?;
    let mut stored = vec![0; usize::try_from(len).expect("a value fits into memory")];
    file.read_exact_at(&mut stored, offset)?;
    let header = opened.checked_of((cf, key), blob, &stored)?;
    if header.is_compressed() {
        return opened.value_of(header, blob, record_of(blob, &stored).0);
    }
    // Where it is: a long value is not there twice.
    stored.truncate(RECORD_HEADER_LEN + len_of(blob.len));
    stored.drain(..RECORD_HEADER_LEN);
    Ok(stored)
}

/// A record of a blob file, without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobEntry {
    /// The column family.
    pub cf: CfId,
    /// The user key.
    pub key: Vec<u8>,
    /// Where the value lies.
    pub blob: BlobRef,
}

/// Goes over the records of a blob file in order, without reading values. Behind a fault of a header it ends: where the next
/// record begins is not known then.
#[derive(Debug)]
pub struct BlobRecords<'a> {
    opened: &'a BlobFile,
    file: &'a dyn File,
    at: u64,
    end: u64,
}

impl<'a> BlobRecords<'a> {
    /// Of `file`, which is `opened`, up to `end`: a length up to which it was synced, as
    /// [`super::BlobMeta::bytes`] says it.
    pub fn new(opened: &'a BlobFile, file: &'a dyn File, end: u64) -> BlobRecords<'a> {
        BlobRecords {
            opened,
            file,
            at: BLOB_HEADER_LEN as u64,
            end,
        }
    }

    fn record(&mut self) -> Result<BlobEntry> {
        let (opened, at) = (self.opened, self.at);
        // Unless the header is right, nothing follows.
        self.at = self.end;
        let (header, _) = opened.header_at(self.file, at, self.end)?;
        self.at = at + header.len();
        let damage = |e: Unreadable| e.into_error(&opened.name, at);
        let key_len = usize::from(header.key_len);
        let padding = usize::try_from(header.len() - header.used()).expect("less than eight");
        let mut key = vec![0; key_len + padding];
        let key_at = RECORD_HEADER_LEN as u64 + u64::from(header.value_len);
        self.file.read_exact_at(&mut key, at + key_at)?;
        if key.drain(key_len..).any(|b| b != 0) {
            let behind = usize::try_from(header.used()).expect("a record fits into memory");
            return Err(damage(damaged(
                "zeros behind a blob record",
                behind,
                0,
                "others",
            )));
        }
        let seed = opened.identity.blob_seed();
        header.check_key(&key, seed, at).map_err(damage)?;
        Ok(BlobEntry {
            cf: header.cf,
            key,
            blob: BlobRef {
                file: opened.identity.file,
                offset: at,
                len: header.value_len,
            },
        })
    }
}

impl Iterator for BlobRecords<'_> {
    type Item = Result<BlobEntry>;

    fn next(&mut self) -> Option<Result<BlobEntry>> {
        (self.at < self.end).then(|| self.record())
    }
}

/// The XXH3-64 of the headers of all records, one behind the other, of the blob file in `file`, which should be
/// `identity` and have `bytes` bytes: they have the checksums of keys and values, so no other such file
/// has the same. (A CRC would be: each header ends with its own.) Values are not read.
///
/// # Errors
/// As [`BlobFile::open`]; [`Error::Corruption`] of a header, or if the last record does not end there.
pub fn hash_record_headers(file: &dyn File, identity: Identity, bytes: u64) -> Result<u64> {
    let opened = BlobFile::open(file, identity)?;
    let (mut hash, mut at) = (Hasher64::new(), BLOB_HEADER_LEN as u64);
    while at < bytes {
        let (header, stored) = opened.header_at(file, at, bytes)?;
        hash.add(&stored);
        at += header.len();
    }
    Ok(hash.value())
}

/// Reads the whole blob file in `file`, which should be `identity` and have `bytes` bytes, and checks
/// every checksum. Errors of reading are faults too.
pub fn verify_blobs(file: &Arc<dyn File>, identity: Identity, bytes: u64) -> Verified {
    verify_blobs_with(file, identity, bytes, &mut |_| {})
}

/// As [`verify_blobs`]; and behind each record it tells `passed` how many bytes that had, or all that are left where nobody knows.
pub fn verify_blobs_with(
    file: &Arc<dyn File>,
    identity: Identity,
    bytes: u64,
    passed: &mut dyn FnMut(u64),
) -> Verified {
    let mut verified = Verified::default();
    let opened = BlobFile::open(&**file, identity).and_then(|opened| {
        let len = file.len()?;
        match len == bytes {
            true => Ok(opened),
            false => Err(Error::corruption(
                "length of the file",
                &opened.name,
                0,
                bytes,
                len,
            )),
        }
    });
    match opened {
        Err(e) => verified.note(e),
        Ok(opened) => {
            let mut records = BlobRecords::new(&opened, &**file, bytes);
            let mut at = records.at;
            while let Some(record) = records.next() {
                verified.blocks += 1;
                match record.and_then(|entry| {
                    read_blob_of(&opened, &**file, (entry.cf, &entry.key), entry.blob)?;
                    Ok(entry.blob)
                }) {
                    Ok(blob) => {
                        verified.entries += 1;
                        verified.value_bytes += u64::from(blob.len);
                    }
                    Err(e) => verified.note(e),
                }
                passed(records.at - at);
                at = records.at;
            }
        }
    }
    verified
}
