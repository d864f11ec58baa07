//! Prepared transactions: the first half of a two-phase commit (Gray 1978; X/Open XA).
//!
//! A transaction that is *prepared* under a name survives crashes, and can be committed or rolled back later, by whoever
//! knows the name, in this process or a later one. From the time it is prepared its commit is refused by nobody.
//!
//! # Where it lies
//! In records of the engine's own family, beside the metadata of families ([`format`]): what it will write, and its
//! [`Claims`], which are the keys and ranges that nobody else may change meanwhile. *Preparing* is one batch that puts these
//! records. *Committing* is one batch with all changes of the transaction, and deletes of the records. *Rolling back* is
//! one batch with those deletes alone. So there is no state between, and no crash argument of its own: a batch is there
//! whole or not at all, in all families, staged ones included (`stage`), in records and in logs. Checkpoints, backups,
//! flushes, compactions and reclaiming treat them as records, which they are. They are in nobody's way in persistent
//! memory: they sink with the rest, however long the transaction stays prepared.
//!
//! # What is promised, and why
//! Let a transaction be prepared at seqno p and resolved at c > p.
//!
//! 1. *At p it could have been committed.* The same question is asked in the same hold of the writer's lock (`watch`).
//! 2. *Between p and c nothing of its claims changes.* Each write that is granted between is checked against the claims,
//!    under the writer's lock, whichever way it comes: single writes and groups (`write::env`), staged batches (`stage`),
//!    ingested tables (`ingest`), families that are dropped (`families`); `registry`, invariant 1, says that the claims are
//!    known exactly then. So by 1 and 2 nothing of its footprint changes between its snapshot and c: what `txn` proves of
//!    a commit at c holds, without another question.
//! 3. *Two that are prepared do not meet*: what one writes no other one has claimed (`registry`, invariant 2). So both can
//!    be committed, in either order.
//! 4. *Nobody sees its writes before c*: they are no records of their keys. At c they become visible as any batch.
//! 5. *Others read on.* Who has read what it will write, and commits before c, came before it. Who commits behind c has
//!    met its writes, which are noted at c as those of any batch (`commit::recent`).
//!
//! # An open
//! Before anybody writes, [`Preparer::load`] reads the claims of all, as of what is visible, and registers them. A commit that was
//! `Buffered` and is lost in a crash leaves the transaction prepared; whatever was written behind it is lost with it. A
//! store that is opened for reading registers nothing, and reads them when it is asked.
//!
//! # What older builds know
//! Before the first transaction is prepared the manifest says that there may be some
//! ([`Change::PreparedTransactions`](thermocline_version::Change)), for good: a build that does not know them would write
//! over claims, and does not open the database.
//!
//! # Room
//! A commit writes what was prepared once more, and needs as much room as any batch of that size. Where there is none
//! at the moment it says so, and the transaction is prepared as before: make room, or roll it back, which only deletes. That
//! the batch that resolves it keeps to the limits of a batch is checked before it is prepared.
//!
//! # Lock order
//! The registry's lock stands behind the writer's; behind it only the families' table.

pub(crate) mod claims;
pub(crate) mod format;
pub(crate) mod registry;

use std::time::Duration;

use thermocline_base::planted::{Bug, active};
use thermocline_base::{BatchEntry, CfId, Error, Kind, Result, SeqNo, WriteBatch, limits};
use thermocline_commit::recent::Footprint;
use thermocline_commit::{Durability, Entries, WriteOptions};
use thermocline_version::Change;

use crate::cursor::Cursor;
use crate::families::table::Family;
use crate::prepared::claims::Claims;
use crate::prepared::format::{Header, PART_BYTES, TAG};
use crate::prepared::registry::{Entry, Step, unknown};
use crate::store::{Inner, Moment, Preparer};
use crate::sync::{Arc, AtomicU64, Ordering};
use crate::watch::guard::Guarded;

/// A transaction that is prepared.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PreparedState {
    /// Its name.
    pub name: Vec<u8>,
    /// The column families that it writes or relies on.
    pub families: Vec<String>,
    /// How many changes it will make.
    pub changes: u64,
    /// How many keys and ranges nobody else may change meanwhile.
    pub claims: u64,
    /// Some of the keys: those first in order, at most [`CLAIMED_KEYS_TOLD`].
    pub keys: Vec<ClaimedKey>,
    /// What it takes at rest, in bytes.
    pub bytes: u64,
    /// How long it has been prepared, or how long the database has been open since, if that is less.
    pub held_for: Duration,
}

/// So many keys of a prepared transaction are told.
pub const CLAIMED_KEYS_TOLD: usize = 8;

/// A key that nobody else may change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimedKey {
    /// Its column family.
    pub family: String,
    /// The key.
    pub key: Vec<u8>,
    /// Whether the transaction writes it, and does not only rely on it.
    pub written: bool,
}

/// What becomes of a prepared transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// All of its changes happen.
    Commit,
    /// None does.
    RollBack,
}

/// The family with the records.
const OWN: Family = Family {
    id: CfId::METADATA,
    reverse: false,
};

/// One that is being read.
struct Reading {
    name: Vec<u8>,
    /// Of the parts with its claims.
    bytes: Vec<u8>,
    header: Header,
    parts: u64,
}

impl Reading {
    fn begin(name: &[u8], part: u32, bytes: &[u8]) -> Result<Reading> {
        if part != 0 {
            return Err(format::damaged(name, 0, "part", 0));
        }
        Ok(Reading {
            name: name.to_vec(),
            bytes: bytes.to_vec(),
            header: format::decode_header(name, bytes)?,
            parts: 1,
        })
    }

    fn go_on(&mut self, part: u32, bytes: &[u8]) -> Result<()> {
        if u64::from(part) != self.parts {
            let at = self.parts.saturating_mul(PART_BYTES as u64);
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            return Err(format::damaged(&self.name, at, "part", self.parts));
        }
        if self.parts < self.header.claims_parts() {
            self.bytes.extend_from_slice(bytes);
        }
        self.parts += 1;
        Ok(())
    }

    fn end(self, since_ns: u64) -> Result<Arc<Entry>> {
        let (name, header) = (self.name, self.header);
        let parts = u32::try_from(self.parts).unwrap_or(u32::MAX);
        if header.parts() != u64::from(parts) {
            return Err(format::damaged(&name, 8, "number of parts", header.parts()));
        }
        Ok(Arc::new(Entry {
            claims: format::decode_claims(&name, &header, &self.bytes)?,
            name: name.into(),
            changes: header.changes,
            bytes: header.bytes(),
            parts,
            since_ns,
            last: AtomicU64::new(0),
        }))
    }
}

impl Preparer {
    /// Prepares a transaction that makes `changes`, unless something of a footprint has changed since a moment. See
    /// [`Engine::prepare`](crate::Engine::prepare).
    pub fn prepare<'a>(
        &self,
        name: &[u8],
        (changes, claims): (impl Entries<'a>, Claims),
        (since, footprint): (SeqNo, Option<&dyn Footprint>),
    ) -> Result<SeqNo> {
        let common = &*self.common;
        common.check_writable()?;
        check_name(name)?;
        if changes.clone().any(|change| change.cf == CfId::METADATA) {
            return Err(Error::InvalidArgument(
                "a transaction that is prepared sets no metadata of column families; write that beside it".into(),
            ));
        }
        let bytes = format::encode(name, &claims, changes.clone());
        let deletes = deletes_of(name, &bytes, changes.clone())?;
        let entry = Arc::new(Entry {
            name: name.into(),
            claims,
            changes: changes.len() as u64,
            bytes: bytes.len() as u64,
            // Each was counted as one (`deletes_of`).
            parts: u32::try_from(deletes.len()).expect("a batch of 16 KiB a part has fewer"),
            since_ns: common.now_ns(),
            last: AtomicU64::new(0),
        });
        // Most refusals, before anything is written for it.
        common.prepared.check_new(&common.families, &entry)?;
        self.tell_manifest()?;
        let guard = Guarded::step((since, footprint), Step::Prepare(&entry));
        let durably = match active(Bug::PreparedWhenVisible) {
            true => Durability::Buffered,
            false => Durability::Immediate,
        };
        let durably = durably.into();
        // The parts are put as they lie in the whole.
        let parts = deletes.iter().zip(bytes.chunks(PART_BYTES));
        let puts = parts.map(|(part, value)| BatchEntry {
            kind: Kind::Put,
            value,
            ..part
        });
        self.inner()?.write_guarded(puts, durably, &guard)?;
        Ok(SeqNo(entry.last.load(Ordering::Relaxed)))
    }

    /// From now on the manifest says that there may be prepared transactions.
    fn tell_manifest(&self) -> Result<()> {
        let mut edits = self.common.catalog.edits();
        // Again: the store may have been closed meanwhile, and the manifest may be another opening's by now.
        self.common.check_writable()?;
        match edits.state().may_have_prepared() {
            true => Ok(()),
            false => edits.append(&Change::PreparedTransactions.into()),
        }
    }

    /// Commits a prepared transaction, or rolls it back: whichever has the name now, or the one whose preparation ended with
    /// a seqno. See [`Engine::resolve`](crate::Engine::resolve) and [`Engine::resolve_own`](crate::Engine::resolve_own).
    pub fn resolve(
        &self,
        (name, prepared): (&[u8], Option<SeqNo>),
        resolution: Resolution,
        mode: WriteOptions,
    ) -> Result<()> {
        let common = &*self.common;
        common.check_writable()?;
        let entry = common.prepared.find(name)?;
        if prepared.is_some_and(|last| last.0 != entry.last.load(Ordering::Relaxed)) {
            return Err(unknown(name));
        }
        // It may have been granted a moment ago, by another thread.
        let last = entry.last.load(Ordering::Relaxed);
        if !common.commits.ring.wait_visible(last) {
            common.check_open()?;
        }
        let mut batch = match resolution {
            Resolution::Commit => self.read_batch(&entry)?,
            Resolution::RollBack => WriteBatch::new(),
        };
        let first = u32::from(active(Bug::ResolvedStaysPrepared));
        for part in first..entry.parts {
            batch.delete(CfId::METADATA, &format::part_key(name, part))?;
        }
        let guard = Guarded::step((SeqNo::ZERO, None), Step::Resolve(&entry));
        self.inner()?.write_guarded(batch.iter(), mode, &guard)
    }

    /// The changes of a prepared transaction.
    fn read_batch(&self, entry: &Arc<Entry>) -> Result<WriteBatch> {
        self.read_parts(entry).map_err(|error| {
            // Somebody else may have resolved it meanwhile, and even prepared another one under its name: then nothing is
            // damaged.
            let (families, step) = (&self.common.families, Step::Resolve(entry));
            let stands = self.common.prepared.check(families, [].into_iter(), step);
            stands.err().unwrap_or(error)
        })
    }

    /// What the parts of this name hold now, which are those of `entry` as long as that is prepared.
    fn read_parts(&self, entry: &Entry) -> Result<WriteBatch> {
        let name = &*entry.name;
        let mut bytes = Vec::new();
        let mut cursor = self.own_cursor()?;
        for part in 0..entry.parts {
            let key = format::part_key(name, part);
            if !cursor.seek(&key)? || cursor.key() != key {
                return Err(format::damaged(name, bytes.len(), "part", part));
            }
            bytes.extend_from_slice(cursor.value());
        }
        let header = format::decode_header(name, &bytes)?;
        format::decode_batch(name, &header, &bytes)
    }

    fn inner(&self) -> Result<Arc<Inner>> {
        self.me.upgrade().ok_or(Error::Closed)
    }

    fn own_cursor(&self) -> Result<Cursor> {
        Ok(Cursor::of_engine(Moment::now(&self.inner()?), OWN))
    }

    /// Reads all that are prepared, as of now. Of each it keeps the claims, and not the changes.
    fn read_all(&self) -> Result<Vec<Arc<Entry>>> {
        if !self.common.catalog.edits().state().may_have_prepared() {
            return Ok(Vec::new());
        }
        let now_ns = self.common.now_ns();
        let mut cursor = self.own_cursor()?;
        let mut all = Vec::new();
        let mut reading: Option<Reading> = None;
        let mut found = cursor.seek(&[TAG])?;
        while found && cursor.key().first() == Some(&TAG) {
            // The metadata of families whose ids begin with that byte lies between.
            if let Some((name, part)) = format::of_key(cursor.key()) {
                let of_this = reading.take_if(|reading| reading.name == name);
                let next = match of_this {
                    Some(mut on) => {
                        on.go_on(part, cursor.value())?;
                        on
                    }
                    None => Reading::begin(name, part, cursor.value())?,
                };
                if let Some(before) = reading.replace(next) {
                    all.push(before.end(now_ns)?);
                }
            }
            found = cursor.next()?;
        }
        if let Some(last) = reading {
            all.push(last.end(now_ns)?);
        }
        Ok(all)
    }

    /// Registers all that an open has found. Nobody writes yet.
    pub fn load(&self) -> Result<()> {
        if self.common.options.read_only || active(Bug::OpenForgetsPrepared) {
            return Ok(());
        }
        for entry in self.read_all()? {
            self.common.prepared.insert(&entry);
        }
        Ok(())
    }

    /// See [`Engine::prepared`](crate::Engine::prepared).
    pub fn states(&self) -> Result<Vec<PreparedState>> {
        let common = &*self.common;
        if common.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        let all = match common.options.read_only {
            true => self.read_all()?,
            false => common.prepared.all(),
        };
        let now_ns = common.now_ns();
        let state = |entry: Arc<Entry>| {
            let families = entry.claims.families().into_iter();
            let keys = entry.claims.keys().take(CLAIMED_KEYS_TOLD);
            let keys = keys.map(|(cf, key, written)| ClaimedKey {
                family: common.families.told_name(cf),
                key: key.to_vec(),
                written,
            });
            PreparedState {
                name: entry.name.to_vec(),
                families: families.map(|cf| common.families.told_name(cf)).collect(),
                changes: entry.changes,
                claims: entry.claims.len() as u64,
                keys: keys.collect(),
                bytes: entry.bytes,
                held_for: Duration::from_nanos(now_ns.saturating_sub(entry.since_ns)),
            }
        };
        Ok(all.into_iter().map(state).collect())
    }

    /// See [`Engine::prepared_claims`](crate::Engine::prepared_claims).
    pub fn claims_of_all(&self) -> Vec<(Vec<u8>, Claims)> {
        let all = self.common.prepared.all().into_iter();
        all.map(|entry| (entry.name.to_vec(), entry.claims.clone()))
            .collect()
    }
}

fn check_name(name: &[u8]) -> Result<()> {
    let most = limits::PREPARED_NAME_LEN_MAX;
    match (1..=most).contains(&name.len()) {
        true => Ok(()),
        false => Err(Error::InvalidArgument(format!(
            "the name of a prepared transaction has 1 to {most} bytes; this one has {}",
            name.len()
        ))),
    }
}

/// What removes the parts of a transaction with these bytes. What puts them must fit a batch, and so must what commits it.
fn deletes_of<'a>(name: &[u8], bytes: &[u8], changes: impl Entries<'a>) -> Result<WriteBatch> {
    let mut deletes = WriteBatch::new();
    let fill = || -> Result<()> {
        for (n, _) in (0u32..).zip(bytes.chunks(PART_BYTES)) {
            deletes.delete(CfId::METADATA, &format::part_key(name, n))?;
        }
        // A put has the same key.
        deletes.check_more(bytes.len(), 0)?;
        let (count, lens) = (changes.len(), changes.map(|c| c.key.len() + c.value.len()));
        deletes.check_more(lens.sum(), count)
    };
    fill().map_err(|error| too_large(name, &error))?;
    Ok(deletes)
}

fn too_large(name: &[u8], error: &Error) -> Error {
    Error::InvalidArgument(format!(
        "transaction '{}' is too large to be prepared: its changes and the keys that it relies on, or its changes and what \
         forgets that it was prepared, exceed a batch ({error})",
        name.escape_ascii()
    ))
}

#[cfg(test)]
mod tests;
