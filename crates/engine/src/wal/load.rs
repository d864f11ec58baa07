//! Putting what logs have back into a region: steps 1 and 3 of recovery ([`super`]).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use thermocline_base::planted::{Bug, active};
use thermocline_base::{Error, Result, SeqNo};
use thermocline_env::Storage;
use thermocline_halloc::{Reserve, Space, Zone};
use thermocline_memtable::{
    Chain, ChainWriter, Descriptor, ItemBuilder, ItemImage, Persist, Segment, item_bytes,
};
use thermocline_pm::{PmOff, RegionKind};
use thermocline_policy::tuning::{LOADED_ITEM_TIMES, LOADED_PARTS};
use thermocline_version::{MemtableEntry, State};
use thermocline_wal::{HEADER_BYTES, LogId, LogReader, frame_bytes};

use super::LogDirs;
use crate::recover::found::Found;
use crate::sync::Arc;

/// What was loaded.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// By owner and ordinal.
    pub zones: Vec<Zone>,
    /// Where chains begin that share a zone with the one before.
    pub starts: BTreeMap<u64, u64>,
    logs: BTreeMap<u64, LoadedLog>,
}

#[derive(Debug)]
struct LoadedLog {
    path: PathBuf,
    id: LogId,
    items: Vec<LoadedItem>,
}

/// An item, where it is and where it was.
#[derive(Debug, Clone, Copy)]
struct LoadedItem {
    at: PmOff,
    first: u64,
    /// The seqno behind its last.
    next: u64,
    /// Begin and end of its frame in the log.
    from: u64,
    to: u64,
}

/// The chain whose log is being loaded.
struct Load<'a> {
    space: &'a Space,
    chain: Chain,
    writer: ChainWriter,
    builder: ItemBuilder,
    /// Nothing behind it is loaded.
    cut: Option<u64>,
}

impl Loaded {
    /// Loads the logs of all chains that the manifest names into `space`, which is empty.
    ///
    /// # Errors
    /// [`Error::Corruption`] of a log that is missing or not what it should be; [`Error::OutOfSpace`] if
    /// they hold more than fits; those of the storage.
    pub fn load(
        storage: &dyn Storage,
        dirs: &LogDirs,
        db_id: &[u8; 16],
        state: &State,
        space: &Arc<Space>,
    ) -> Result<Loaded> {
        check_unknown(storage, dirs, db_id, state)?;
        let mut loaded = Loaded::default();
        let mut rest: Option<(u64, Segment)> = None;
        for (memtable, entry) in state.chains() {
            let id = LogId {
                db_id: *db_id,
                log: entry.id,
                nonce: entry.nonce,
            };
            let Some(path) = dirs.find(storage, db_id, entry.id)? else {
                return Err(dirs.missing(db_id, entry.id));
            };
            let chain = Chain::new(
                db_id,
                entry.id,
                entry.incarnation,
                entry.nonce,
                entry.base_seqno,
            );
            let chain = if entry.staged { chain.staged() } else { chain };
            // Zones go with their memtable.
            let start = rest.filter(|(of, s)| *of == memtable && s.from < s.to);
            let start = start.map(|(_, segment)| segment);
            if let Some(start) = start {
                loaded.starts.insert(entry.id, start.from.0);
            }
            let mut load = Load {
                space,
                chain,
                writer: ChainWriter::new(space.clone(), chain, start),
                builder: ItemBuilder::default(),
                cut: entry.cut.map(|cut| cut.last_seqno),
            };
            let mut reader = LogReader::open(storage, &path)?;
            reader.expect(&id)?;
            let items = load.log(&mut reader).map_err(|error| match error {
                Error::OutOfSpace(_) => Error::OutOfSpace(format!(
                    "log {} and those before it hold more than memtables may have, a quarter of dram; \
                     raise dram to what it was",
                    path.display()
                )),
                other => other,
            })?;
            loaded.zones.extend_from_slice(load.writer.zones());
            rest = load.writer.rest().map(|segment| (memtable, segment));
            loaded.logs.insert(entry.id, LoadedLog { path, id, items });
        }
        loaded.zones.sort_unstable_by_key(|z| (z.owner, z.ordinal));
        Ok(loaded)
    }

    /// Gives descriptors the floors that they had, as far as that can be known (invariant 5). `flushed` is
    /// the last seqno in a table.
    pub fn find_floors(
        &self,
        space: &Space,
        state: &State,
        flushed: u64,
        descriptors: &mut [Descriptor],
    ) -> Result<()> {
        let mut follows = false;
        let taken = self.taken(state, flushed);
        for (id, memtable) in state.memtables().iter().rev() {
            let mut items = self.items_of(memtable);
            let in_tables = taken.contains(id) && items.any(|item| item.next > item.first);
            let last = self.items_of(memtable).map(|item| item.next - 1).max();
            let own = descriptors.iter_mut().find(|d| d.memtable == *id);
            if (follows || in_tables && !active(Bug::FloorForgetsTables))
                && !memtable.is_staged()
                && let Some(descriptor) = own
            {
                descriptor.set_floor(space, last.unwrap_or(0))?;
            }
            // What recovery takes for used (`recover::check_floors`): an item that only covers an idle
            // store, or a base, says as much as a record does.
            let based = memtable.chains.iter().any(|chain| chain.base_seqno != 0);
            follows |= last.is_some() || based;
        }
        Ok(())
    }

    /// The memtables of which tables have all keys, or some, as the manifest and tables tell by their bases (`flush`, 2, and
    /// `flush::evacuate`, 4), and perhaps others without records. `flushed` is the last seqno in a table.
    fn taken(&self, state: &State, flushed: u64) -> BTreeSet<u64> {
        let up_to = state.evacuation().map_or(flushed, |going| going.up_to);
        let mut taken = BTreeSet::new();
        let (mut before, mut last_memtable) = (0u64, None);
        for (memtable, chain) in state.chains() {
            // A chain that follows another one begins behind it.
            let base = match chain.base_seqno {
                0 => before.saturating_add(1),
                base => base,
            };
            // The first chain of a memtable has its base.
            if last_memtable.replace(memtable) != Some(memtable) && base <= up_to {
                taken.insert(memtable);
            }
            let log = self.logs.get(&chain.id);
            let items = log.into_iter().flat_map(|log| &log.items);
            let last = items.map(|item| item.next - 1).max();
            let end = chain.cut.map(|cut| cut.last_seqno).or(last);
            before = end.unwrap_or(0).max(base - 1);
        }
        taken
    }

    fn items_of(&self, memtable: &MemtableEntry) -> impl Iterator<Item = &LoadedItem> {
        let logs = memtable
            .chains
            .iter()
            .filter_map(|chain| self.logs.get(&chain.id));
        logs.flat_map(|log| &log.items)
    }

    /// The error, with file and offset in the log in place of those in a region that is gone: of the frame
    /// behind the last item that lies before the place.
    pub fn locate(&self, error: Error) -> Error {
        match error {
            Error::Corruption {
                what,
                place,
                offset,
                expected,
                got,
            } if place == RegionKind::Dram.name() => {
                let all = self.logs.values();
                let all = all.flat_map(|log| log.items.iter().map(move |item| (item, log)));
                let before = all.filter(|(item, _)| item.at.0 < offset);
                let (place, offset) = match before.max_by_key(|(item, _)| item.at) {
                    Some((item, log)) => (log.path.display().to_string(), item.to),
                    None => match self.logs.values().next() {
                        Some(log) => (log.path.display().to_string(), HEADER_BYTES),
                        None => (place, offset),
                    },
                };
                Error::corruption(what, place, offset, expected, got)
            }
            other => other,
        }
    }

    /// Makes durable what was found and is not known to be (step 3).
    pub fn keep(&self, storage: &dyn Storage, found: &Found) -> Result<()> {
        let Some(last) = found.incarnations.last() else {
            return Ok(());
        };
        if active(Bug::SkipRepersist) {
            return Ok(());
        }
        let known = SeqNo(last.walk.known_durable);
        for (plan, end) in last.plans.iter().zip(&last.walk.chains) {
            let Some(log) = self.logs.get(&plan.chain.id) else {
                continue;
            };
            let kept = end.items.iter().flatten();
            let kept = kept.filter(|item| item.next_seqno() > known.0 + 1);
            // Both are in the order in which they were written.
            let mut loaded = log.items.iter();
            let kept = kept.filter_map(|item| loaded.find(|l| l.at == item.at));
            let span = kept.fold(None, |span: Option<(u64, u64)>, item| {
                let (from, to) = span.unwrap_or((item.from, item.to));
                Some((from.min(item.from), to.max(item.to)))
            });
            if let (Some((from, to)), None) = (span, plan.cut) {
                LogReader::keep(storage, &log.path, &log.id, from, to)?;
            }
        }
        Ok(())
    }
}

impl Load<'_> {
    fn log(&mut self, reader: &mut LogReader) -> Result<Vec<LoadedItem>> {
        let mut items = Vec::new();
        let path = reader.path().display().to_string();
        while let Some(frame) = reader.next_frame()? {
            let (from, to) = (frame.at, frame.at + frame_bytes(frame.payload.len() as u64));
            let mut rest = frame.payload;
            while !rest.is_empty() {
                let image = ItemImage::read(rest);
                let image = image.filter(|(image, _)| image.chain == self.chain.id);
                let Some((image, behind)) = image else {
                    return Err(Error::corruption(
                        "a frame of a log carries something else than items of its chain",
                        path,
                        from,
                        format!("items of chain {}", self.chain.id),
                        "other bytes",
                    ));
                };
                rest = behind;
                if let Some((at, first, next)) = self.item(&image)? {
                    items.push(LoadedItem {
                        at,
                        first,
                        next,
                        from,
                        to,
                    });
                }
            }
        }
        Ok(items)
    }

    /// Sees to it that an item fits; beyond what memtables may have if need be, a little at a time: other
    /// rests of zones stay unused than when it was written, and what fitted then must fit.
    fn ensure(&mut self, bytes: u64) -> Result<()> {
        loop {
            let limit = self.space.limit();
            match self.writer.ensure(bytes, Reserve::Use) {
                Err(Error::OutOfSpace(_)) if limit < self.space.region().capacity() => {
                    self.space
                        .set_limit(limit + (limit / LOADED_PARTS).max(LOADED_ITEM_TIMES * bytes));
                }
                other => return other.map(drop),
            }
        }
    }

    /// Stores an item. Returns where, its first seqno and the one behind its last.
    fn item(&mut self, image: &ItemImage<'_>) -> Result<Option<(PmOff, u64, u64)>> {
        let first = match self.chain.staged {
            true => (self.chain.base - 1).saturating_add(image.first_seqno),
            false => image.first_seqno,
        };
        if self.cut.is_some_and(|cut| first > cut) {
            return Ok(None);
        }
        let entries = image.entries.iter().copied();
        let bytes = item_bytes(entries.clone());
        self.ensure(bytes)?;
        let grant = self.writer.grant(bytes);
        self.builder.store(
            self.space.region(),
            &grant,
            entries,
            image.first_seqno,
            image.published,
            Persist::Deferred,
        )?;
        let next = first.saturating_add(image.entries.len() as u64);
        Ok(Some((grant.at(), first, next)))
    }
}

/// A log whose chain was not given out yet, and that has frames: the manifest has lost the edit that names
/// it.
fn check_unknown(
    storage: &dyn Storage,
    dirs: &LogDirs,
    db_id: &[u8; 16],
    state: &State,
) -> Result<()> {
    let next = state.next_ids().chain;
    for (chain, path) in dirs.list(storage, db_id)? {
        if chain < next {
            continue;
        }
        // One that was being made, or was about to be used again.
        let Ok(mut reader) = LogReader::open(storage, &path) else {
            continue;
        };
        let own = reader.id().log == chain && reader.id().db_id == *db_id;
        if own && reader.next_frame()?.is_some() {
            return Err(Error::corruption(
                "a log belongs to a chain that the manifest does not know yet: the manifest was cut short",
                path.display().to_string(),
                0,
                format!("chains below {next}"),
                format!("chain {chain}"),
            ));
        }
    }
    Ok(())
}
