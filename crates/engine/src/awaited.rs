//! Reads that nobody waits for: futures, and several keys at once.
//!
//! A get goes by stages (TridentKV §3.4). The first one, memory, is done at once by whoever calls: memtables, tables in
//! persistent memory, open tables and cached blocks answer without a switch between threads. Then come, as far as they
//! are not at hand, the table itself with its filter and the top of its index, an index block, and a data block
//! (`tables::search`), which other threads read (`exec::AsyncReader`). What has no such stages, a long value or the
//! operands of a key, another thread reads from beginning to end. Of several keys all are on their way before one is
//! awaited (`several`).
//!
//! # Why it answers as a get does
//! 1. *One view.* Memtables and tables are those of one view, which is loaded as a get loads it. What memory did not
//!    have is sought in the tables of that view, however long that takes: an entry that was flushed meanwhile was in a
//!    memtable of the view, and was found there.
//! 2. *Held is what it needs.* A future holds the tables of the view, and by them the version, whose files are not
//!    obsolete; or, of a long value, the memtable that refers to it (`blobs`, 4). It holds what views hold of the folder, so
//!    that it reads on when the store is closed. It does not keep the store open. One that is kept and not
//!    polled keeps all that, as a get would that never returns.
//! 3. *At a moment* the seqno stays registered, since the future has a clone of the moment, and a hold of its own
//!    ([`Entered`]): whoever has asked may let go of his snapshot, and a family that is dropped then is read on. A get of
//!    what is newest looks at the seqno that is visible once memory has been asked, as ever. Operands are collected at a
//!    registered moment (`operands`, 1).
//!
//! # Dropping
//! A future has no part of a read that is under way (`exec::asynchronous`, 2), and holds no lock between two polls.

mod several;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use thermocline_base::{BlobRef, CfId, Error, Kind, Result, SeqNo};
use thermocline_catalog::{Pins, View};
use thermocline_memtable::{Lookup, Memtable};
use thermocline_tables::{Answer, Search, TableFiles, TableValue, Tables};

use crate::holds::Entered;
use crate::operands;
use crate::snapshot::hit::Hit;
use crate::store::{Inner, Moment};
use crate::sync::{Arc, Ordering};
use crate::value::Value;
pub(crate) use several::{values, values_async};

type Boxed<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// A read that has begun. It is a future, of any executor: memory has answered already, or reads are on their way.
///
/// As long as it waits, it holds the files that it reads, and they cannot be removed. It does not keep the database
/// open. To drop it gives the read up.
#[must_use = "what was read is in the future's answer"]
pub struct PendingRead<T>(State<T>);

enum State<T> {
    Done(Option<Result<T>>),
    Reading(Boxed<T>),
}

/// Has work done on the threads that read for futures.
#[derive(Debug, Clone)]
pub struct Elsewhere(Arc<TableFiles>);

impl Elsewhere {
    pub(crate) fn new(files: &Arc<TableFiles>) -> Elsewhere {
        Elsewhere(files.clone())
    }

    /// Has `work` done, and begins at once. If nobody wants any more what it comes to, it may be dropped undone.
    ///
    /// # Errors
    /// The future's answer has those of the work, and one if that has panicked.
    pub fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> PendingRead<T> {
        PendingRead::begin(self.clone().done(work))
    }

    /// As [`Elsewhere::run`], for who awaits it anyway.
    pub(crate) async fn done<T: Send + 'static>(
        self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let running = self.0.async_reader().run(work);
        running.await.unwrap_or_else(|| {
            let source = std::io::Error::other("the thread that read has panicked");
            Err(Error::io("read", &self.0.dir, source))
        })
    }
}

/// Where a read looks, and at which moment.
#[derive(Clone)]
pub(crate) struct Place {
    store: Arc<Inner>,
    /// `None` for what is newest.
    moment: Option<Arc<Entered>>,
    pins: Arc<Pins>,
    cf: CfId,
}

/// What is left to do when memory was asked, and had no answer.
pub(crate) enum Rest {
    /// To read a long value that a record of this memtable refers to.
    Long(Arc<Memtable>, BlobRef),
    /// To collect operands, the newest of which lies in this memtable.
    Operands(Arc<Memtable>),
    /// To ask the tables.
    Tables(Arc<Tables>, SeqNo),
}

/// A get, once memory was asked.
pub(crate) enum Begun {
    /// Memory has answered.
    Answer(Option<Value>),
    /// Something is left to do there.
    Waits(Place, Rest),
}

/// What memory says of a key, in `view`: where it has no answer, what is left to do. The loop stands in `Reads::find`, too:
/// one that both share hands records on, which costs a get three in a hundred of its instructions (decision 151).
#[inline]
fn ask_memory<'m>(
    (store, pins): (&Inner, &Arc<Pins>),
    view: &'m View,
    key: (CfId, &[u8]),
    lookup: impl Fn(&'m Memtable) -> Result<Lookup<'m>>,
    seqno: impl FnOnce() -> SeqNo,
) -> Result<std::result::Result<Option<Value>, Rest>> {
    let reads = &store.reads;
    let memtables = reads.memtables_for(view, key);
    for (before, memtable) in memtables.iter().enumerate() {
        let record = match lookup(memtable)? {
            Lookup::Absent => continue,
            Lookup::Covered => {
                reads.has_asked(before + 1);
                return Ok(Ok(None));
            }
            Lookup::Record(record) => record,
        };
        reads.has_asked(before + 1);
        let value = match (record.kind, record.blob()) {
            (Kind::Put, _) => Some(reads.value(pins, Hit::Record(memtable, &record))),
            (Kind::PutBlob, Some(blob)) => {
                // Before the reference is believed.
                store.common.space.region().check_media()?;
                return Ok(Err(Rest::Long(memtable.clone(), blob)));
            }
            (Kind::Merge, _) => return Ok(Err(Rest::Operands(memtable.clone()))),
            _ => None,
        };
        reads.settle(memtable, value.is_some())?;
        return Ok(Ok(value));
    }
    reads.has_asked(memtables.len());
    if view.tables.is_empty() {
        return Ok(Ok(None));
    }
    Ok(Err(Rest::Tables(view.tables.clone(), seqno())))
}

impl Begun {
    /// Of the newest value of a key.
    pub fn latest(inner: &Arc<Inner>, (cf, key): (CfId, &[u8])) -> Result<Begun> {
        let verify = inner.common.options.read.verify_checksums;
        let view = inner.common.catalog.view();
        let pins = view.pins()?;
        // As `Engine::get`: behind the view.
        inner.common.check_family(cf)?;
        let visible = inner.common.commits.ring.visible_mark();
        let asked = ask_memory(
            (&**inner, pins),
            &view,
            (cf, key),
            |memtable| memtable.get_latest(cf, key, visible, verify),
            || SeqNo(visible.load(Ordering::SeqCst)),
        )?;
        let place = |moment| Place {
            store: inner.clone(),
            moment,
            pins: pins.clone(),
            cf,
        };
        Ok(match asked {
            Ok(value) => Begun::Answer(value),
            Err(rest) => {
                // Operands are looked for once more when they are folded: no later than now, and though the store be closed.
                let may_fold = match rest {
                    Rest::Operands(..) => true,
                    Rest::Tables(..) => inner.common.families.has_operator(cf),
                    Rest::Long(..) => false,
                };
                let moment = may_fold.then(|| Entered::new(Moment::now(inner)));
                Begun::Waits(place(moment), rest)
            }
        })
    }

    /// Of the value that a key had at a moment.
    pub fn at(moment: &Moment, (cf, key): (CfId, &[u8])) -> Result<Begun> {
        moment.check(cf)?;
        let reading = moment.view(cf)?;
        let store = reading.inner_for(moment);
        let pins = reading.pins()?;
        let verify = moment.inner().common.options.read.verify_checksums;
        let seqno = moment.seqno();
        let lookup = |memtable| Memtable::get(memtable, cf, key, seqno, verify);
        let asked = ask_memory((&**store, pins), &reading, (cf, key), lookup, || seqno)?;
        let place = || Place {
            store: store.clone(),
            moment: Some(Entered::new(moment.clone())),
            pins: pins.clone(),
            cf,
        };
        Ok(match asked {
            Ok(value) => Begun::Answer(value),
            Err(rest) => Begun::Waits(place(), rest),
        })
    }

    /// What is left, while nobody waits.
    async fn finish(self, key: Vec<u8>) -> Result<Option<Value>> {
        let (place, rest) = match self {
            Begun::Answer(value) => return Ok(value),
            Begun::Waits(place, rest) => (place, rest),
        };
        match rest {
            Rest::Long(memtable, blob) => {
                let there = place.clone();
                // It keeps the blob file, though nobody may wait any more.
                let kept = memtable.clone();
                let read = move || {
                    let value = there.long(&key, blob);
                    drop(kept);
                    value
                };
                let value = place.elsewhere(read).await?;
                place.found_above(&memtable, Some(value))
            }
            Rest::Operands(memtable) => {
                let value = place.folded_elsewhere(key).await?;
                place.found_above(&memtable, value)
            }
            Rest::Tables(tables, seqno) => {
                let answer = {
                    let mut search = Search::new((place.cf, &key), seqno, &tables);
                    search.wait_async().await?
                };
                place.finish_below(answer, key).await
            }
        }
    }
}

/// What tables have found.
enum Found {
    Value(Option<Value>),
    Operand,
}

impl Place {
    /// A record has led to this value, or to none.
    fn found_above(&self, memtable: &Memtable, value: Option<Vec<u8>>) -> Result<Option<Value>> {
        self.store.reads.settle(memtable, value.is_some())?;
        Ok(self.made(value))
    }

    /// Tables have answered.
    fn found_below(&self, answer: Answer) -> Result<Found> {
        let reads = &self.store.reads;
        let value = answer.flatten();
        reads.settle_below(value.is_some());
        let hit = |hit| Found::Value(Some(reads.value(&self.pins, hit)));
        Ok(match value {
            None => Found::Value(None),
            Some(TableValue::Block(value)) => hit(Hit::Block(&value)),
            Some(TableValue::Blob(value)) => hit(Hit::Made(value)),
            Some(TableValue::Pm(value)) => {
                let found = hit(Hit::Pm(value));
                self.store.common.space.region().check_media()?;
                found
            }
            Some(TableValue::Operand) => Found::Operand,
        })
    }

    /// The value of a key about which tables have answered, on this thread.
    fn settled(&self, answer: Answer, key: &[u8]) -> Result<Option<Value>> {
        match self.found_below(answer)? {
            Found::Value(value) => Ok(value),
            Found::Operand => Ok(self.made(self.folded(key)?)),
        }
    }

    async fn finish_below(&self, answer: Answer, key: Vec<u8>) -> Result<Option<Value>> {
        match self.found_below(answer)? {
            Found::Value(value) => Ok(value),
            Found::Operand => Ok(self.made(self.folded_elsewhere(key).await?)),
        }
    }

    fn made(&self, value: Option<Vec<u8>>) -> Option<Value> {
        let value = value?;
        Some(self.store.reads.value(&self.pins, Hit::Made(value)))
    }

    fn files(&self) -> &Arc<TableFiles> {
        &self.store.common.catalog.table_files
    }

    /// The long value of a key.
    fn long(&self, key: &[u8], blob: BlobRef) -> Result<Vec<u8>> {
        self.files().read_blob(self.cf, key, blob)
    }

    /// The value of a key with operands.
    fn folded(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let moment = match &self.moment {
            Some(entered) => entered.moment().clone(),
            None => Moment::now(&self.store),
        };
        // As `Engine::get`: behind the moment.
        moment.check(self.cf)?;
        let view = moment.view(self.cf)?;
        let common = &view.inner_for(&moment).common;
        operands::folded(common, &view, (self.cf, key), moment.seqno())
    }

    async fn folded_elsewhere(&self, key: Vec<u8>) -> Result<Option<Vec<u8>>> {
        let there = self.clone();
        self.elsewhere(move || there.folded(&key)).await
    }

    /// Has another thread do it.
    async fn elsewhere<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        Elsewhere::new(self.files()).done(work).await
    }
}

impl PendingRead<Option<Value>> {
    pub(crate) fn one(begun: Result<Begun>, key: &[u8]) -> PendingRead<Option<Value>> {
        match begun {
            Err(error) => PendingRead::done(Err(error)),
            Ok(Begun::Answer(value)) => PendingRead::done(Ok(value)),
            Ok(begun) => PendingRead::begin(begun.finish(key.to_vec())),
        }
    }
}

impl<T> PendingRead<T> {
    /// One that has its answer.
    pub fn done(answer: Result<T>) -> PendingRead<T> {
        PendingRead(State::Done(Some(answer)))
    }

    /// Takes `read` as far as it comes, so that its reads are on their way.
    fn begin(read: impl Future<Output = Result<T>> + Send + 'static) -> PendingRead<T> {
        let mut read: Boxed<T> = Box::pin(read);
        // Whoever polls it next leaves a waker of his own.
        match read.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => PendingRead::done(answer),
            Poll::Pending => PendingRead(State::Reading(read)),
        }
    }
}

impl<T: Unpin> Future for PendingRead<T> {
    type Output = Result<T>;

    /// # Panics
    /// If it has given its answer before.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        match &mut self.0 {
            State::Done(answer) => {
                let answer = answer.take();
                Poll::Ready(answer.expect("a future is not polled when it has answered"))
            }
            State::Reading(read) => {
                let answer = std::task::ready!(read.as_mut().poll(context));
                self.0 = State::Done(None);
                Poll::Ready(answer)
            }
        }
    }
}

impl<T> std::fmt::Debug for PendingRead<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let done = matches!(self.0, State::Done(_));
        f.debug_struct("PendingRead").field("done", &done).finish()
    }
}

#[cfg(test)]
mod tests;
