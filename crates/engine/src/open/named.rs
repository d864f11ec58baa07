//! Step 1 of opening: the manifest is read, and what it must name is there.

use std::path::Path;

use thermocline_base::options::Options;
use thermocline_base::{Error, Result};
use thermocline_catalog::files::removed_or_no_room;
use thermocline_env::direct::DeviceBytes;
use thermocline_exec::DirectStorage;
use thermocline_version::{Manifest, NO_REGION, Origins, State};

use super::spec::{Beside, refuse_other_kind, settled};
use crate::close::position::Position;
use crate::create::{lacks_region, make_missing_region, region_in_memory};
use crate::layout;
use crate::partitions;
use crate::sync::Arc;
use crate::world::World;

/// What the manifest of a database says.
pub(super) struct Named {
    pub world: World,
    /// As far as they are settled by what the database is.
    pub options: Options,
    pub manifest: Manifest,
    /// What goes to manifests.
    pub manifest_bytes: Arc<DeviceBytes>,
    /// What it said when it was read.
    pub state: State,
    pub db_id: [u8; 16],
    pub origins: Origins,
    /// Where the manifest ended when it was read.
    pub position: Position,
    /// If somebody else writes to the database: what it is read from.
    pub beside: Option<Beside>,
}

impl Named {
    /// Reads the manifest in `dir`. A region that it lacks is made, in memory if nothing is to be written.
    pub fn read(mut world: World, dir: &Path, options: Options) -> Result<Named> {
        let storage = world.env.storage.clone();
        let manifest_files = DirectStorage::buffered(storage.clone(), Arc::default());
        let manifest_bytes = manifest_files.counter().clone();
        let files = Arc::new(manifest_files);
        let (mut manifest, mut state) = Manifest::open(files, dir, options.read_only)?;
        let position = Position::of(manifest.path(), manifest.len());
        manifest.set_bytes_max(options.manifest.bytes_max);
        if let Some(region_id) = state.region_id() {
            refuse_other_kind(&options, dir, region_id == NO_REGION)?;
        }
        if !options.read_only {
            // Before they are remembered: with options that are refused the database would not open again.
            partitions::missing(&state, &options)?;
        }
        if lacks_region(&state) && state.db_id().is_some() {
            if options.read_only {
                (world, state) = region_in_memory(&world, dir, &options, &state)?;
            } else {
                make_missing_region(&world, dir, &options, &mut manifest)?;
                state = manifest.state().clone();
            }
        }
        if !options.read_only {
            // Beside a manifest it says nothing.
            removed_or_no_room(layout::forget_creation(&*storage, dir))?;
            thermocline_copies::forget_note(&*storage, dir)?;
        }
        let ids = state.db_id().zip(state.region_id()).zip(state.origins());
        let Some(((db_id, region_id), origins)) = ids else {
            return Err(Error::corruption(
                "the manifest does not begin with a creation",
                manifest.path().display().to_string(),
                0,
                "the ids of database and region",
                "none",
            ));
        };
        let options = settled(&world, dir, options, &state, &region_id)?;
        Ok(Named {
            world,
            options,
            manifest,
            manifest_bytes,
            state,
            db_id,
            origins,
            position,
            beside: None,
        })
    }
}
