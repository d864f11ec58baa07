//! The drivers of a [`Search`]: they fetch what it needs, and hand it in. One waits for each read, one is a future; those
//! of several searches at once are in `together`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thermocline_base::{CfId, Error, Result, SeqNo};
use thermocline_env::File;
use thermocline_exec::{RangeBuf, Reading, Running};
use thermocline_sst::{Block, BlockHandle};

use crate::Tables;
use crate::files::TableFiles;
use crate::open::OpenTable;
use crate::search::{Answer, Next, Search};

/// What a search needed.
pub(crate) enum Fetched {
    Table(Arc<OpenTable>),
    Block(Arc<Block>),
    /// And whether it was read.
    Blob(Vec<u8>, bool),
}

/// What other threads fetch for a search.
pub(crate) enum Fetching {
    Table(Running<Result<Arc<OpenTable>>>, PathBuf),
    Block(Reading, Arc<OpenTable>, BlockHandle),
    /// A block of a file that could not be opened while others are.
    Alone(Running<Result<Arc<Block>>>, PathBuf),
    Blob(Running<Result<(Vec<u8>, bool)>>, PathBuf),
}

impl Search<'_> {
    /// What the newest entry of `key` at or below `seqno` says, as this thread finds it. A call of its own: a search
    /// takes much of the stack, and most gets need none.
    ///
    /// # Errors
    /// Those of reading.
    #[inline(never)]
    pub fn at_once(key: (CfId, &[u8]), seqno: SeqNo, tables: &Arc<Tables>) -> Result<Answer> {
        Search::new(key, seqno, tables).wait()
    }

    /// Drives it to its end on this thread, which waits for each read.
    ///
    /// # Errors
    /// Those of reading.
    pub fn wait(mut self) -> Result<Answer> {
        let mut next = self.start()?;
        loop {
            next = match next {
                Next::Found(answer) => return Ok(answer),
                Next::Block(handle) => {
                    let at = self.at();
                    let (block, read) = fetch(&self.tables().files, at, handle)?;
                    self.block(block, read)?
                }
                other => {
                    let fetched = self.fetch_other(other)?;
                    self.supply(fetched)?
                }
            };
        }
    }

    /// Drives it to its end while nobody waits: other threads read, and wake the task. What lies in memory is found at
    /// the first poll. It is borrowed, since a future that owns it has it twice: as it came, and as it goes on.
    ///
    /// # Errors
    /// As [`Search::wait`].
    pub async fn wait_async(&mut self) -> Result<Answer> {
        let mut next = self.start()?;
        loop {
            next = match self.advance(next)? {
                Next::Found(answer) => return Ok(answer),
                needed => {
                    let fetched = self.begin(needed).fetched().await?;
                    self.supply(fetched)?
                }
            };
        }
    }

    /// Goes on as far as what it needs is in the cache.
    pub(crate) fn advance(&mut self, mut next: Next) -> Result<Next> {
        while let Next::Block(handle) = next {
            let at = self.at();
            let Some(block) = at.source.cache().find(&at.table, handle) else {
                break;
            };
            next = self.block(block, false)?;
        }
        if let Next::Blob(blob) = next
            && let Some(value) = self
                .tables()
                .files
                .cache()
                .find_value((self.cf, self.key), blob)
        {
            next = self.blob(value, false);
        }
        Ok(next)
    }

    /// Fetches on this thread what is no block.
    ///
    /// # Panics
    /// If nothing else is needed.
    #[cold]
    pub(crate) fn fetch_other(&self, needed: Next) -> Result<Fetched> {
        let files = &self.tables().files;
        match needed {
            Next::Table(handle) => handle.open(files).map(Fetched::Table),
            Next::Blob(blob) => {
                let (value, read) = files.find_or_read_blob(self.cf, self.key, blob)?;
                Ok(Fetched::Blob(value, read))
            }
            Next::Block(_) | Next::Found(_) => unreachable!("drivers see to both themselves"),
        }
    }

    /// Has fetched what is needed.
    ///
    /// # Panics
    /// If nothing is.
    pub(crate) fn begin(&self, needed: Next) -> Fetching {
        let files = &self.tables().files;
        let reader = files.async_reader();
        match needed {
            Next::Block(handle) => read_block(files, self.at(), handle),
            Next::Table(handle) => {
                let (files, path) = (files.clone(), files.path(handle.file));
                Fetching::Table(reader.run(move || handle.open(&files)), path)
            }
            Next::Blob(blob) => {
                let (cf, key) = (self.cf, self.key.to_vec());
                let path = files.blob_path(blob.file);
                // They keep the file, though nobody may wait any more.
                let tables = self.tables().clone();
                let read = move || tables.files.find_or_read_blob(cf, &key, blob);
                Fetching::Blob(reader.run(read), path)
            }
            Next::Found(_) => unreachable!("a search that has found needs nothing"),
        }
    }

    /// Goes on with what was needed.
    pub(crate) fn supply(&mut self, fetched: Fetched) -> Result<Next> {
        match fetched {
            Fetched::Table(open) => self.opened(open),
            Fetched::Block(block) => self.block(block, true),
            Fetched::Blob(value, read) => Ok(self.blob(value, read)),
        }
    }
}

/// Has a block read that is not in the cache. Files stay open while they are read, so one that cannot be opened now is
/// tried again by a helper, in its turn.
pub(crate) fn read_block(files: &TableFiles, at: &Arc<OpenTable>, handle: BlockHandle) -> Fetching {
    let (reader, at) = (files.async_reader(), at.clone());
    let len = usize::try_from(handle.len).expect("addresses have 32 bits or more");
    if let Ok(file) = at.file.now() {
        let reading = reader.read(files.async_io(), file, handle.offset, len);
        return Fetching::Block(reading, at, handle);
    }
    let path = at.file.path().to_path_buf();
    let fetch = move || Ok(at.source.fetch(&at.table, handle)?.0);
    Fetching::Alone(reader.run(fetch), path)
}

/// A block, and whether this thread has read it: then it counted as a read of a client while it was under way.
pub(crate) fn fetch(
    files: &TableFiles,
    at: &OpenTable,
    handle: BlockHandle,
) -> Result<(Arc<Block>, bool)> {
    let begins = || files.reader().one_under_way();
    at.source.fetch_while(&at.table, handle, begins)
}

/// A block, from its bytes as they were read. It is kept in the cache.
pub(crate) fn decoded(at: &OpenTable, handle: BlockHandle, bytes: &RangeBuf) -> Result<Arc<Block>> {
    let block = at.table.decode(handle, &**bytes)?;
    Ok(at.source.cache().keep(&at.table, handle, block))
}

impl Fetching {
    pub async fn fetched(self) -> Result<Fetched> {
        Ok(match self {
            Fetching::Block(reading, at, handle) => {
                let bytes = reading.await?;
                Fetched::Block(decoded(&at, handle, &bytes)?)
            }
            Fetching::Alone(running, path) => Fetched::Block(done(running.await, &path)?),
            Fetching::Table(running, path) => Fetched::Table(done(running.await, &path)?),
            Fetching::Blob(running, path) => {
                let (value, read) = done(running.await, &path)?;
                Fetched::Blob(value, read)
            }
        })
    }
}

/// The outcome of what another thread has done with a file, unless it has panicked.
fn done<T>(outcome: Option<Result<T>>, path: &Path) -> Result<T> {
    outcome.unwrap_or_else(|| {
        let source = io::Error::other("the thread that read has panicked");
        Err(Error::io("read", path, source))
    })
}
