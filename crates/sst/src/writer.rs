//! Writing a table.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use thermocline_base::blob_ref::encode_blob_ref;
use thermocline_base::numbers::{len_of, len32};
use thermocline_base::{BlobRef, CfId, Error, FileId, Kind, RangeTombstone, Result, SeqNo, limits};
use thermocline_env::meter::Meter;
use thermocline_env::{File, Storage};

use crate::blob::{BLOB_HEADER_LEN, RECORD_ALIGN, RECORD_HEADER_LEN};
use crate::block::build::BlockBuilder;
use crate::compress::Compressor;
use crate::filter::FilterBuilder;
use crate::format::entry::TAG_BLOB;
use crate::format::footer::Footer;
use crate::format::trailer::Sealing;
use crate::format::{
    BLOB_FILES_MAX, INDEX_LEN_MAX, TOMBSTONES_LEN_MAX, TRAILER_LEN, properties as format,
};
use crate::handle::BlockKind;
use crate::identity::Identity;
use crate::indexing::Indexing;
use crate::key::{InternalKey, KeyRef, shown};
use crate::keys::{KeysBuilder, TableKeys};
use crate::options::WriteOptions;
use crate::output::Output;
use crate::placement::Placement;
use crate::properties::{BlobUse, Properties};
use crate::sites;
use crate::tombstones::encode;
use crate::value::Value;

/// A finished table: what an edit needs to name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableMeta {
    /// Bytes of the file.
    pub bytes: u64,
    /// Everything else, as the table itself says it.
    pub properties: Properties,
}

/// Writes one table, entry by entry, in order.
///
/// Memory: one data block, one index block and the root (for a learned index the ends of all data blocks, up to
/// 8 MiB), 256 KiB of output, 8 bytes for each distinct
/// user key, and prefix of such (for the filter, up to [`FILTER_KEYS_MAX`](crate::FILTER_KEYS_MAX)), the keys if they are collected, what Zstandard keeps where that compresses, and the range tombstones. If it is dropped
/// before [`TableWriter::finish`], or anything fails, the file is incomplete and never opens as a
/// table; removing it is the caller's.
pub struct TableWriter {
    out: Output,
    placement: Placement,
    options: WriteOptions,
    seed: u64,
    compressor: Compressor,
    data: BlockBuilder,
    index: Indexing,
    last: Option<InternalKey>,
    filter: FilterBuilder,
    /// None unless they are collected.
    keys: Option<KeysBuilder>,
    tombstones: Vec<u8>,
    last_tombstone: Option<InternalKey>,
    /// Of the last range tombstone.
    last_end: Vec<u8>,
    blobs: BTreeMap<FileId, (u64, u64)>,
    properties: Properties,
}

impl fmt::Debug for TableWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableWriter")
            .field("out", &self.out)
            .field("properties", &self.properties)
            .finish_non_exhaustive()
    }
}

fn refused<T>(why: String) -> Result<T> {
    Err(Error::InvalidArgument(why))
}

impl TableWriter {
    /// Makes the file `path`, which must not exist, for the table `identity` of the family `cf`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for options that [`WriteOptions::validate`] refuses; those of the
    /// file system.
    pub fn create(
        storage: &dyn Storage,
        path: &Path,
        identity: Identity,
        cf: CfId,
        options: WriteOptions,
    ) -> Result<TableWriter> {
        options.validate()?;
        let mut properties = Properties::empty(identity, cf);
        properties.creation = options.creation;
        properties.codec = options.compression.codec();
        properties.block_bytes = len32(options.block_bytes);
        properties.restart_interval = options.restart_interval;
        let filter = FilterBuilder::new(options.filter, options.prefix_len);
        properties.prefix_len = filter.prefix_len();
        Ok(TableWriter {
            compressor: Compressor::new(options.compression)?,
            out: Output::create(storage, path, options.write_bytes)?,
            placement: Placement::default(),
            seed: identity.table_seed(),
            data: BlockBuilder::new(&[], usize::from(options.restart_interval)),
            index: Indexing::new(options.index, options.index_block_bytes),
            last: None,
            filter,
            keys: None,
            tombstones: Vec::new(),
            last_tombstone: None,
            last_end: Vec::new(),
            blobs: BTreeMap::new(),
            properties,
            options,
        })
    }

    /// The same; `meter` counts from now on how long writing takes.
    #[must_use]
    pub fn metered(mut self, meter: Arc<Meter>) -> TableWriter {
        self.out.metered(meter);
        self
    }

    /// The same, with the file that `wrap` makes of its own. Nothing of it is written yet.
    #[must_use]
    pub fn through(mut self, wrap: impl FnOnce(Arc<dyn File>) -> Arc<dyn File>) -> TableWriter {
        self.out.wrap(wrap);
        self
    }

    /// The same; it collects its keys for [`TableWriter::finish_with_keys`], as long as they take at most `most` bytes.
    #[must_use]
    pub fn with_keys(mut self, most: u64) -> TableWriter {
        self.keys = Some(KeysBuilder::new(most));
        self
    }

    /// About how many bytes the file would have if it were finished now: for callers that cut tables
    /// by size.
    pub fn bytes(&self) -> u64 {
        let memory = self.data.len() + self.index.len() + self.tombstones.len() + self.filter.len();
        self.out.len() + memory as u64
    }

    /// About how many bytes of memory it takes now: for callers that keep a budget. What
    /// [`TableWriter::finish`] takes for a moment, to build the filter, is in it.
    pub fn memory(&self) -> u64 {
        let filter = self.filter.memory();
        let blocks = 2 * self.data.len() + self.index.memory() + self.tombstones.capacity();
        let keys = self.keys.as_ref().map_or(0, KeysBuilder::memory);
        let own = size_of::<TableWriter>() + self.out.memory() + self.compressor.memory();
        (own + filter + keys + blocks) as u64
    }

    /// Bytes that are collected before they are written.
    pub fn write_bytes(&self) -> usize {
        self.options.write_bytes
    }

    /// Whether the table nears a limit of its format, or has as many keys as a filter takes. It can only
    /// if keys are long or millions, range tombstones many, or values spread over thousands of blob
    /// files: the caller finishes it and begins another, as when it is large enough.
    pub fn is_full(&self) -> bool {
        self.filter.is_full()
            || self.index.root_len() > INDEX_LEN_MAX / 2
            || self.tombstones.len() > TOMBSTONES_LEN_MAX / 2
            || self.blobs.len() > BLOB_FILES_MAX / 2
    }

    /// Entries and range tombstones so far.
    pub fn entries(&self) -> u64 {
        self.properties.entries + self.properties.range_tombstones
    }

    /// Adds an entry. Puts, deletes and merges come in the order of [`KeyRef`]s, strictly; range
    /// tombstones too, but in a sequence of their own, by their starts: a [`Kind::RangeDelete`] has
    /// its end as inline value.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an entry that is out of order, too long, or cannot be (the
    /// seqno [`SeqNo::MAX`], a delete with a value, an empty range, a blob where none can be), or if the table becomes too large
    /// for its format; the entry is not added then, and others may follow. Errors of the file system,
    /// naming the file; nothing can follow then.
    pub fn add(&mut self, key: KeyRef<'_>, kind: Kind, value: Value<'_>) -> Result<()> {
        self.out.check()?;
        check_key(key)?;
        let (blob_bytes, blob);
        let (bytes, flag) = match value {
            Value::Inline(bytes) => {
                blob = None;
                (bytes, 0)
            }
            Value::Blob(to) => {
                check_blob(to)?;
                blob_bytes = encode_blob_ref(to);
                blob = Some(to);
                (&blob_bytes[..], TAG_BLOB)
            }
        };
        match (kind, blob) {
            (Kind::RangeDelete, None) => return self.add_range(key, bytes),
            (Kind::Delete, None) if bytes.is_empty() => {}
            (Kind::Put | Kind::Merge, _) => {}
            (_, Some(to)) => return refused(format!("a {kind:?} cannot have {to} as its value")),
            (_, None) => {
                let len = bytes.len();
                return refused(format!(
                    "a {kind:?} cannot have a value, and has {len} bytes"
                ));
            }
        }
        if bytes.len() > limits::VALUE_INLINE_MAX {
            let (max, len) = (limits::VALUE_INLINE_MAX, bytes.len());
            let key = shown(key.user_key);
            return refused(format!(
                "a value in a table has at most {max} bytes, and that of {key} has {len}"
            ));
        }
        self.check_order(&self.last, key)?;
        if let Some(to) = blob
            && self.blobs.len() == BLOB_FILES_MAX
            && !self.blobs.contains_key(&to.file)
        {
            return refused(format!(
                "a table refers to at most {BLOB_FILES_MAX} blob files"
            ));
        }
        self.make_room(key, bytes)?;
        if self.data.count() == 0 {
            self.index.begin_block(key.user_key);
        }
        self.data.add(key, kind as u8 | flag, bytes);
        if let Some(to) = blob {
            let used = self.blobs.entry(to.file).or_default();
            used.0 += 1;
            used.1 += u64::from(to.len);
        } else {
            self.properties.value_bytes += bytes.len() as u64;
        }
        self.count(key, kind);
        Ok(())
    }

    fn check_order(&self, last: &Option<InternalKey>, key: KeyRef<'_>) -> Result<()> {
        match last {
            Some(last) if last.as_ref() >= key => {
                // Whoever writes a table outside of a database knows of no seqnos.
                let at = |of: SeqNo| match key.seqno == last.seqno {
                    true => String::new(),
                    false => format!(" at {of}"),
                };
                refused(format!(
                    "{}{} must not be written after {}{} to {}: keys ascend strictly",
                    shown(key.user_key),
                    at(key.seqno),
                    shown(&last.user_key),
                    at(last.seqno),
                    self.out.file().path().display()
                ))
            }
            _ => Ok(()),
        }
    }

    fn count(&mut self, key: KeyRef<'_>, kind: Kind) {
        let p = &mut self.properties;
        p.entries += 1;
        p.deletes += u64::from(kind == Kind::Delete);
        p.merges += u64::from(kind == Kind::Merge);
        p.key_bytes += key.user_key.len() as u64;
        p.cover(key, key);
        if self
            .last
            .as_ref()
            .is_none_or(|last| last.user_key != key.user_key)
        {
            p.user_keys += 1;
            self.filter.add(key.user_key, self.seed);
        }
        if self
            .keys
            .as_mut()
            .is_some_and(|keys| !keys.add(key.user_key))
        {
            self.keys = None;
        }
        let last = self.last.get_or_insert_default();
        last.user_key.clear();
        last.user_key.extend_from_slice(key.user_key);
        last.seqno = key.seqno;
    }

    fn add_range(&mut self, start: KeyRef<'_>, end: &[u8]) -> Result<()> {
        check_key(KeyRef::new(end, start.seqno))?;
        if start.user_key >= end {
            let (start, end) = (shown(start.user_key), shown(end));
            return refused(format!("the range from {start} to {end} is empty"));
        }
        self.check_order(&self.last_tombstone, start)?;
        let tombstone = RangeTombstone {
            start: start.user_key,
            end,
            seqno: start.seqno,
        };
        let last = self.last_tombstone.as_ref().map(|last| RangeTombstone {
            start: &last.user_key[..],
            end: &self.last_end,
            seqno: last.seqno,
        });
        let before = self.tombstones.len();
        encode(tombstone, last, &mut self.tombstones);
        if self.tombstones.len() > TOMBSTONES_LEN_MAX {
            self.tombstones.truncate(before);
            return refused(format!(
                "the range tombstones of a table take at most {TOMBSTONES_LEN_MAX} bytes"
            ));
        }
        self.properties.range_tombstones += 1;
        self.properties.cover(start, KeyRef::new(end, SeqNo::MAX));
        self.last_tombstone = Some(start.to_owned());
        self.last_end.clear();
        self.last_end.extend_from_slice(end);
        Ok(())
    }

    /// Ends the data block if the entry does not fit into it.
    fn make_room(&mut self, key: KeyRef<'_>, value: &[u8]) -> Result<()> {
        let room = self.options.block_bytes.saturating_sub(TRAILER_LEN);
        let fits = self.data.count() == 0
            || self.data.len_with(key.user_key.len(), value.len()) <= room
            || self.data.len_with_entry(key, value) <= room;
        if fits {
            return Ok(());
        }
        // What ends the table adds to the root once or twice more.
        if self.index.root_len() + 4 * limits::KEY_LEN_MAX > INDEX_LEN_MAX {
            return refused(format!(
                "the root of a table's index takes at most {INDEX_LEN_MAX} bytes"
            ));
        }
        self.end_block(Some(key.user_key))
    }

    /// Writes the data block; `next` is the user key of the entry behind it.
    fn end_block(&mut self, next: Option<&[u8]>) -> Result<()> {
        let TableWriter {
            data,
            compressor,
            out,
            placement,
            seed,
            ..
        } = self;
        let handle = data.finish(|payload| {
            let sealing = Sealing::new(BlockKind::Data, payload, compressor);
            placement.write(out, BlockKind::Data, sealing, *seed)
        })?;
        self.properties.data_blocks += 1;
        self.properties.data_bytes += u64::from(handle.len);
        if let Some(keys) = &mut self.keys {
            keys.end_block(handle);
        }
        let TableWriter {
            index,
            compressor,
            out,
            placement,
            seed,
            last,
            ..
        } = self;
        let last = last.as_ref().expect("the block has an entry");
        index.end_block(last.as_ref(), next, handle, |payload| {
            let sealing = Sealing::new(BlockKind::Index, payload, compressor);
            placement.write(out, BlockKind::Index, sealing, *seed)
        })
    }

    /// Completes the table and makes its bytes durable. Its *name* is made durable by the caller, with
    /// one [`Storage::sync_dir`] at [`sites::FILE_NAMED`] for all files that it makes, before an edit
    /// names them.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if an earlier call failed; those of the file system, naming the file.
    pub fn finish(self) -> Result<TableMeta> {
        Ok(self.finish_with_keys()?.0)
    }

    /// As [`TableWriter::finish`]; and its keys, if they were collected and have found room.
    ///
    /// # Errors
    /// As there.
    pub fn finish_with_keys(mut self) -> Result<(TableMeta, Option<TableKeys>)> {
        self.out.check()?;
        if self.data.count() > 0 {
            self.end_block(None)?;
        }
        let has_tombstones = self.properties.range_tombstones > 0;
        let keys = self.keys.take().map(|keys| keys.finish(has_tombstones));
        let blobs = self.blobs.iter().map(|(&file, &(values, bytes))| BlobUse {
            file,
            values,
            bytes,
        });
        self.properties.blobs = blobs.collect();
        let TableWriter {
            mut out,
            mut compressor,
            seed,
            index,
            mut placement,
            mut properties,
            ..
        } = self;
        let mut plain = Compressor::plain();
        let (root, used) = index.finish(out.len(), |payload| {
            let sealing = Sealing::new(BlockKind::Index, payload, &mut compressor);
            placement.write(&mut out, BlockKind::Index, sealing, seed)
        })?;
        properties.index = used;
        let data_end = out.len();
        let blocks_crc = Cell::new(placement.crc());
        let mut put = |kind, payload: &[u8], compressor: &mut Compressor| {
            let mut sealing = Sealing::new(kind, payload, compressor);
            sealing.finish(seed, out.len());
            blocks_crc.set(sealing.sum(blocks_crc.get()));
            for part in sealing.parts() {
                out.append(part)?;
            }
            Ok::<u32, Error>(len32(sealing.len()))
        };
        let filter_len = match self.filter.finish() {
            Some(filter) => put(BlockKind::Filter, &filter, &mut plain)?,
            None => 0,
        };
        let tombstones_len = match &self.tombstones[..] {
            [] => 0,
            payload => put(BlockKind::RangeTombstones, payload, &mut compressor)?,
        };
        let index_len = put(BlockKind::Index, &root, &mut compressor)?;
        properties.blocks_crc = Some(blocks_crc.get());
        let payload = format::encode(&properties);
        let properties_len = put(BlockKind::Properties, &payload, &mut compressor)?;
        let bytes = out.len() + crate::format::FOOTER_LEN as u64;
        let footer = Footer {
            identity: properties.identity,
            file_len: bytes,
            data_end,
            filter_len,
            tombstones_len,
            index_len,
            properties_len,
        };
        out.append(&footer.encode())?;
        out.sync(sites::TABLE_WRITTEN)?;
        Ok((TableMeta { bytes, properties }, keys))
    }
}

/// Whether a blob file can have such a value.
fn check_blob(to: BlobRef) -> Result<()> {
    let (first, align) = (BLOB_HEADER_LEN as u64, RECORD_ALIGN);
    if to.offset < first || !to.offset.is_multiple_of(align) {
        return refused(format!(
            "a value in a blob file lies at a multiple of {align} from {first} on, not as {to}"
        ));
    }
    let max = limits::VALUE_LEN_MAX;
    if len_of(to.len) > max {
        return refused(format!(
            "a value in a blob file has at most {max} bytes, not {to}"
        ));
    }
    let len = RECORD_HEADER_LEN as u64 + u64::from(to.len);
    if to.offset.checked_add(len).is_none() {
        return refused(format!("no file has {to}"));
    }
    Ok(())
}

fn check_key(key: KeyRef<'_>) -> Result<()> {
    let (max, len) = (limits::KEY_LEN_MAX, key.user_key.len());
    if len > max {
        return refused(format!("a key has at most {max} bytes, not {len}"));
    }
    if key.seqno == SeqNo::MAX {
        return refused(format!("no entry has the seqno {}", key.seqno));
    }
    Ok(())
}
