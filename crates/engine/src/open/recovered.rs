//! Steps 2 and 3 of opening: the memtables are found again, and what they rely on is made durable (rule 3 of recovery; see
//! `recover`).

use std::path::Path;

use thermocline_base::Result;
use thermocline_base::budget::Account;
use thermocline_base::planted::{Bug, active};
use thermocline_env::{LockGuard, Storage};
use thermocline_halloc::{Space, Zone};
use thermocline_memtable::{ChainWriter, Descriptor, Memtable};
use thermocline_pm::RegionKind;
use thermocline_policy::seal;
use thermocline_version::{Manifest, State, Version};

use super::beside::named_since;
use super::named::Named;
use super::spec::{
    Beside, OpenedSpace, append_if_room, described, lost_records_max, open_space, replay_threads,
};
use crate::blobs::remove::{check_named, unreferenced};
use crate::close::has_strangers;
use crate::flush::{flushed_up_to, newest_in_tables};
use crate::partitions;
use crate::recover;
use crate::recover::found::{Found, Rebuilt, Staying};
use crate::replay::Known;
use crate::start::Start;
use crate::store::Elders;
use crate::sync::Arc;
use crate::wal::Loaded;
use crate::wal::logs::Wal;
use crate::write::writer::Writer;

/// The version that what was read belongs to. Of a store that is read beside a writer the manifest knows what was named meanwhile
/// from here on.
fn version_of(
    beside: Option<&Beside>,
    (storage, dir): (&Arc<dyn Storage>, &Path),
    (manifest, state): (&mut Manifest, &mut State),
) -> Result<Arc<Version>> {
    if let Some(beside) = beside {
        let since = named_since(beside, (storage, dir), state)?;
        manifest.learn(&since)?;
        state.apply(&since)?;
    }
    Ok(manifest.state().version().clone())
}

/// What a region, or logs, have of a store.
pub(super) struct Recovered {
    pub space: Arc<Space>,
    pub zones: Vec<Zone>,
    pub descriptors: Vec<Descriptor>,
    /// What was loaded from logs.
    pub loaded: Option<Loaded>,
    pub wal: Option<Wal>,
    pub found: Found,
    /// How the new incarnation begins.
    pub start: Start,
    pub rebuilt: Rebuilt,
    /// The newest seqno that tables have.
    pub in_tables: u64,
    /// Who reads on of earlier openings.
    pub elders: Elders,
    /// Whether somebody else holds the folder.
    pub strangers: bool,
    /// That of the manifest before anything is changed.
    pub version: Arc<Version>,
}

impl Recovered {
    /// Finds the chains that the manifest names, and indexes their records again. Nothing is written but what frees zones.
    /// The caller holds the store's `lock`.
    pub fn find(
        named: &mut Named,
        (dir, lock): (&Path, Option<&dyn LockGuard>),
        account: &Arc<Account>,
    ) -> Result<Recovered> {
        let Named {
            world,
            options,
            manifest,
            state,
            db_id,
            position,
            beside,
            ..
        } = named;
        let storage = world.env.storage.clone();
        let writes = !options.read_only;
        // Before anything is indexed. Whoever only reads keeps nothing, and drops nothing.
        let elders = Elders::meet(&storage, dir, (*db_id, position), lock.filter(|_| writes));
        let strangers = writes && has_strangers(&*storage, dir);
        let OpenedSpace {
            space,
            zones,
            loaded,
            logs,
        } = open_space((world, dir, options), state, account, beside.as_ref())?;
        *options = options
            .clone()
            .on_region(space.region().kind() != RegionKind::File);
        recover::check_witness(&space, state)?;
        let descriptors = described(&space, db_id, state, loaded.as_ref())?;
        let threads = replay_threads(options, world);
        let logged = loaded.as_ref();
        let mut found = recover::find(db_id, &space, &zones, state, &descriptors, logged, threads)?;
        if loaded.is_some() && found.unsealed() {
            // Rule 5: what was granted and never logged.
            found.next_base += lost_records_max(state);
        }
        let wal = logs.map(|logs| Wal::new(storage.clone(), logs, *db_id));
        let start = Start::decide(world, state, &found, &descriptors, db_id)?;
        let known = Known::of(state);
        let in_tables = newest_in_tables(state);
        let staying = Staying {
            memtables: &start.memtables,
            active: (start.active, start.chain),
            flushed: flushed_up_to(state),
        };
        let mut moments = elders.moments();
        if active(Bug::ReplayForgetsElders) {
            moments = &[];
        }
        let rebuilt = found.memtables(&space, staying, &known, account, (threads, moments))?;
        let version = version_of(beside.as_ref(), (&storage, dir), (manifest, state))?;
        check_named(&version, rebuilt.all())?;
        Ok(Recovered {
            space,
            zones,
            descriptors,
            loaded,
            wal,
            found,
            start,
            rebuilt,
            in_tables,
            elders,
            strangers,
            version,
        })
    }

    /// Makes durable what was found, and then seals it: one edit cuts the chains of the last incarnation and opens the
    /// new one, or says where that begins (`start`). Before it a crash finds what this open has found.
    pub fn keep(&mut self, named: &mut Named) -> Result<()> {
        let Named {
            world,
            options,
            manifest,
            state,
            ..
        } = named;
        let storage = &world.env.storage;
        self.found
            .repersist(&self.space, &self.zones, &mut self.descriptors)?;
        if let (Some(loaded), Some(wal)) = (&self.loaded, &self.wal) {
            wal.take_over(state)?;
            loaded.keep(&**storage, &self.found)?;
            wal.gather(state)?;
            // What an earlier process was about to begin with the id that is next.
            wal.sweep(state)?;
        }
        let mut log = None;
        if let Some(wal) = self.wal.as_ref().filter(|_| self.start.recorded()) {
            log = wal.begin_if_room(self.start.chain.id, self.start.nonce)?;
            if log.is_none() {
                self.start.name_later();
            }
        }
        let durable = self.start.record(world, manifest, &self.found, options)?;
        if self.start.recorded() {
            self.space.set_witness(self.start.witness())?;
        }
        if let Some((wal, log)) = self.wal.as_ref().zip(log) {
            wal.take_begun(log, self.start.recorded())?;
        }
        if durable {
            self.start.release_dropped(&self.space, &self.descriptors)?;
        }
        // What elders may read goes later, like all that is not needed any more.
        if let Some(edit) = unreferenced(&self.version, self.rebuilt.all())
            && !self.may_be_read()
            && !active(Bug::BlobForgottenAtOpen)
        {
            append_if_room(manifest, &edit)?;
        }
        if let Some(wal) = self.wal.as_ref().filter(|_| durable) {
            wal.let_go();
            wal.sweep(manifest.state())?;
        }
        for edit in partitions::missing(manifest.state(), options)? {
            append_if_room(manifest, &edit)?;
        }
        Ok(())
    }

    /// Whether somebody may read what nothing refers to any more.
    pub fn may_be_read(&self) -> bool {
        self.strangers || !self.elders.is_empty()
    }

    /// The last seqno that anything has.
    pub fn last_seqno(&self) -> u64 {
        self.found.last_seqno.max(self.in_tables)
    }

    /// Up to where all that was found is known to be durable.
    pub fn known_durable(&self, read_only: bool) -> u64 {
        match read_only {
            // It has persisted what it found.
            false => u64::MAX,
            true => self.found.known_durable().max(self.in_tables),
        }
    }

    /// Who writes from now on, into `active`, which may have so much.
    pub fn writer(&self, active: Arc<Memtable>, limits: seal::Limits) -> Writer {
        let start = &self.start;
        let mut descriptors = self.descriptors.iter().copied();
        let descriptor = descriptors.find(|d| d.memtable == start.active);
        let chain = ChainWriter::new(self.space.clone(), start.chain, start.segment);
        Writer::new(
            (active, limits),
            descriptor,
            chain,
            start.nonce,
            start.recorded(),
        )
    }
}
