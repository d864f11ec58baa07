//! Several searches that go on together: what all of them need next is read at once.
//!
//! They go in rounds. In each round every search goes on as far as blocks are in the cache; then the blocks that are
//! needed are read at the same time, each once, however many searches need it. So keys that lie in tables of one depth
//! take the time of one key, or not much more, as far as the device can read at once.
//!
//! So it is with values in blob files, but for those that are longer than a table may hold. Such a value is read alone, to where its caller
//! gets it: read with others, it would be in memory twice, and so would as many of them as go together.
//!
//! An error is the answer of those searches that it is of, and of no other. A block that cannot be read is read alone
//! again for each of them, so the error is the one that a search alone would have met.

use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_base::limits::VALUE_INLINE_MAX;
use thermocline_base::numbers::len_of;
use thermocline_base::{BlobRef, CfId, FileId, Result};
use thermocline_exec::BatchRead;
use thermocline_policy::tuning::SEARCHES_TOGETHER;
use thermocline_sst::{Block, BlockHandle};

use crate::drive::{Fetched, decoded, fetch, read_block};
use crate::files::TableFiles;
use crate::open::OpenTable;
use crate::search::{Answer, Next, Search};

/// One of the searches.
struct One<'a> {
    search: Search<'a>,
    /// `None` while it waits for a block.
    next: Option<Result<Next>>,
}

/// A block, and who needs it.
struct Shared {
    at: Arc<OpenTable>,
    handle: BlockHandle,
    by: Vec<usize>,
}

/// What the searches need.
#[derive(Default)]
struct Needed {
    /// By file and offset.
    blocks: BTreeMap<(FileId, u64), Shared>,
    /// Values in blob files, and of which search each is.
    values: Vec<(usize, BlobRef)>,
    /// Those that need something else, and what.
    others: Vec<(usize, Next)>,
}

/// Drives all of them to their ends on this thread. The answers have their order.
pub fn wait_for_all(searches: Vec<Search<'_>>) -> Vec<Result<Answer>> {
    let mut answers = Vec::with_capacity(searches.len());
    for mut some in groups(searches) {
        while let Some(Needed {
            blocks,
            values,
            others,
        }) = needed(&mut some)
        {
            for (n, next) in others {
                let fetched = some[n].search.fetch_other(next);
                some[n].supply(fetched);
            }
            hand_values_out(&mut some, &values);
            read_at_once(&mut some, blocks.into_values().collect());
        }
        answers.extend(some.into_iter().map(One::answer));
    }
    answers
}

/// As [`wait_for_all`], while nobody waits: other threads read, and wake the task.
pub async fn wait_for_all_async(searches: Vec<Search<'_>>) -> Vec<Result<Answer>> {
    let mut answers = Vec::with_capacity(searches.len());
    for mut some in groups(searches) {
        while let Some(Needed {
            blocks,
            values,
            others,
        }) = needed(&mut some)
        {
            // All of it is on its way before any is awaited.
            let of_blocks = blocks.into_values().map(|shared| {
                let files = &some[shared.by[0]].search.tables().files;
                (read_block(files, &shared.at, shared.handle), shared)
            });
            let of_blocks: Vec<_> = of_blocks.collect();
            let values = values.into_iter();
            let values = values.map(|(n, blob)| (n, Next::Blob(blob)));
            let of_others = others.into_iter().chain(values);
            let of_others = of_others.map(|(n, next)| (n, some[n].search.begin(next)));
            let of_others: Vec<_> = of_others.collect();
            for (reading, shared) in of_blocks {
                match reading.fetched().await {
                    Ok(Fetched::Block(block)) => share(&mut some, &shared, &block),
                    _ => {
                        for &n in &shared.by {
                            let files = &some[n].search.tables().files;
                            let again = read_block(files, &shared.at, shared.handle);
                            some[n].supply(again.fetched().await);
                        }
                    }
                }
            }
            for (n, fetching) in of_others {
                some[n].supply(fetching.fetched().await);
            }
        }
        answers.extend(some.into_iter().map(One::answer));
    }
    answers
}

/// The searches, begun when their group's turn comes.
fn groups(searches: Vec<Search<'_>>) -> impl Iterator<Item = Vec<One<'_>>> {
    let mut rest = searches.into_iter();
    std::iter::from_fn(move || {
        let some = rest.by_ref().take(SEARCHES_TOGETHER).map(One::begin);
        let some: Vec<_> = some.collect();
        (!some.is_empty()).then_some(some)
    })
}

impl<'a> One<'a> {
    fn begin(mut search: Search<'a>) -> One<'a> {
        let next = Some(search.start());
        One { search, next }
    }

    fn supply(&mut self, fetched: Result<Fetched>) {
        self.next = Some(fetched.and_then(|fetched| self.search.supply(fetched)));
    }

    fn answer(self) -> Result<Answer> {
        match self.next {
            Some(Ok(Next::Found(answer))) => Ok(answer),
            Some(Err(error)) => Err(error),
            _ => unreachable!("rounds go on as long as a search needs something"),
        }
    }
}

/// Takes all as far as they come without reading; `None` when all have their answers.
fn needed(some: &mut [One<'_>]) -> Option<Needed> {
    let mut needed = Needed::default();
    for (n, one) in some.iter_mut().enumerate() {
        let next = match one.next.take() {
            Some(Ok(next)) => one.search.advance(next),
            settled => {
                one.next = settled;
                continue;
            }
        };
        match next {
            Ok(Next::Block(handle)) => {
                let at = one.search.at();
                let key = (at.table.properties().identity.file, handle.offset);
                let shared = needed.blocks.entry(key).or_insert_with(|| Shared {
                    at: at.clone(),
                    handle,
                    by: Vec::new(),
                });
                shared.by.push(n);
            }
            Ok(Next::Blob(blob)) => needed.values.push((n, blob)),
            Ok(next @ Next::Table(_)) => needed.others.push((n, next)),
            settled => one.next = Some(settled),
        }
    }
    let Needed {
        blocks,
        values,
        others,
    } = &needed;
    let is_done = blocks.is_empty() && values.is_empty() && others.is_empty();
    (!is_done).then_some(needed)
}

/// Hands a block to all that need it.
fn share(some: &mut [One<'_>], shared: &Shared, block: &Arc<Block>) {
    for &n in &shared.by {
        some[n].supply(Ok(Fetched::Block(block.clone())));
    }
}

/// A value in a blob file that a record in memory refers to.
pub struct LongValue<'a> {
    /// Where it lies. Who asks for the value keeps the file.
    pub files: &'a Arc<TableFiles>,
    /// The key that has it.
    pub of: (CfId, &'a [u8]),
    /// What the record says.
    pub blob: BlobRef,
}

/// The values, in their order: what is not in the cache is read at the same time, as for searches.
///
/// # Errors
/// Each answer those of [`TableFiles::read_blob`].
pub fn read_values(values: &[LongValue<'_>]) -> Vec<Result<Vec<u8>>> {
    let mut answers = Vec::with_capacity(values.len());
    let of_one_store = values.chunk_by(|a, b| Arc::ptr_eq(a.files, b.files));
    for some in of_one_store.flat_map(|all| all.chunks(SEARCHES_TOGETHER)) {
        let files = some[0].files;
        let cached = some.iter().map(|v| files.cache().find_value(v.of, v.blob));
        let cached: Vec<_> = cached.collect();
        let missing = some.iter().zip(&cached).filter(|(_, c)| c.is_none());
        let missing: Vec<_> = missing.map(|(v, _)| (v.of, v.blob)).collect();
        let mut read = values_at_once(files, &missing).into_iter();
        for (value, cached) in some.iter().zip(cached) {
            let found = cached.or_else(|| read.next().flatten());
            let (cf, key) = value.of;
            answers.push(match found {
                Some(found) => Ok(found),
                None => files.read_blob(cf, key, value.blob),
            });
        }
    }
    answers
}

/// Reads values of searches with one call, and hands them out.
fn hand_values_out(some: &mut [One<'_>], values: &[(usize, BlobRef)]) {
    let Some((first, _)) = values.first() else {
        return;
    };
    let files = some[*first].search.tables().files.clone();
    let wanted = values.iter().map(|(n, blob)| {
        let Search { cf, key, .. } = some[*n].search;
        ((cf, key), *blob)
    });
    let wanted: Vec<_> = wanted.collect();
    let found = values_at_once(&files, &wanted);
    for ((n, blob), value) in values.iter().zip(found) {
        let fetched = match value {
            Some(value) => Ok(Fetched::Blob(value, true)),
            None => some[*n].search.fetch_other(Next::Blob(*blob)),
        };
        some[*n].supply(fetched);
    }
}

/// Reads values with one call, each of a key. Of one that cannot be read with the others there is none: it says why when
/// it is read alone. Nor is there of one that is too long for that.
fn values_at_once(files: &TableFiles, values: &[((CfId, &[u8]), BlobRef)]) -> Vec<Option<Vec<u8>>> {
    let wanted = values.iter().map(|((_, key), blob)| {
        if len_of(blob.len) > VALUE_INLINE_MAX {
            return None;
        }
        let of = files.open_blobs(blob.file).ok()?;
        let file = of.file.now().ok()?;
        let (at, len) = of.opened.span_with_key(*blob, key.len(), of.len).ok()?;
        Some((of, file, at, usize::try_from(len).ok()?))
    });
    let wanted: Vec<_> = wanted.collect();
    let reads = wanted
        .iter()
        .flatten()
        .map(|(_, file, offset, len)| BatchRead {
            file: &**file,
            offset: *offset,
            len: *len,
        });
    let reads: Vec<_> = reads.collect();
    let mut answers = files.reader().read(&reads).into_iter();
    drop(reads);
    let found = wanted.into_iter().zip(values).map(|(wanted, (key, blob))| {
        let (of, ..) = wanted?;
        let bytes = answers.next()?.ok()?;
        let value = of.opened.decode_of(*key, *blob, &bytes).ok()?;
        files.cache().keep_value(*key, *blob, &value);
        Some(value)
    });
    found.collect()
}

/// Reads all of them with one call, and hands them out.
fn read_at_once(some: &mut [One<'_>], blocks: Vec<Shared>) {
    let Some(first) = blocks.first() else {
        return;
    };
    let tables = some[first.by[0]].search.tables();
    // Those that do not open say so when they are read alone.
    let files: Vec<_> = blocks
        .iter()
        .map(|shared| shared.at.file.now().ok())
        .collect();
    let reads = blocks.iter().zip(&files).filter_map(|(shared, file)| {
        Some(BatchRead {
            file: &**file.as_ref()?,
            offset: shared.handle.offset,
            len: usize::try_from(shared.handle.len).ok()?,
        })
    });
    let reads: Vec<_> = reads.collect();
    let mut answers = tables.files.reader().read(&reads).into_iter();
    let found = blocks.iter().zip(&files).map(|(shared, file)| {
        let bytes = file.as_ref().and_then(|_| answers.next()?.ok())?;
        decoded(&shared.at, shared.handle, &bytes).ok()
    });
    let found: Vec<_> = found.collect();
    // What is read alone may need their descriptors.
    drop(reads);
    drop(files);
    for (shared, block) in blocks.iter().zip(found) {
        match block {
            Some(block) => share(some, shared, &block),
            None => {
                for &n in &shared.by {
                    let fetched = fetch(&tables.files, &shared.at, shared.handle);
                    some[n].supply(fetched.map(|(block, _)| Fetched::Block(block)));
                }
            }
        }
    }
}
