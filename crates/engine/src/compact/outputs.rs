//! Jobs of a store: where they write, how they are driven, and what becomes of what they have made (`jobs`).

use thermocline_base::blob_ref::BLOB_REF_LEN;
use thermocline_base::planted::{Bug, active};
use thermocline_base::size::index;
use thermocline_base::{CfId, FileId, Result};
use thermocline_env::meter::Meter;
use thermocline_jobs::sink::{Apart, PmHome, TableSink};
use thermocline_jobs::source::Input;
use thermocline_jobs::{Outputs, Part, Recipe, run_parts};
use thermocline_sst::sites;
use thermocline_tables::{ValuesInOrder, Writes};

use crate::compact::shape::compression;
use crate::store::Making;

impl Making {
    /// Writes what stays of `inputs`, which are given newest first, into `sink`. `pace` is called from time to time,
    /// with the bytes of outputs so far, and may end it: it looks whether the store still is as it must be.
    ///
    /// # Errors
    /// Those of reading and writing, of `pace`; [`thermocline_base::Error::Busy`] for an entry that is not settled. The
    /// caller lets go of the outputs ([`Making::release`]) in every case.
    pub fn write_outputs<'a>(
        &self,
        inputs: Vec<Input<'a>>,
        recipe: Recipe<'a>,
        sink: &'a mut dyn TableSink,
        pace: &mut dyn FnMut(u64) -> Result<()>,
        outputs: &mut Outputs,
    ) -> Result<()> {
        let whole = Part {
            inputs,
            recipe,
            sink,
        };
        self.write(vec![whole], None, pace, outputs)
    }

    /// As [`Making::write_outputs`], in parts, which are given in the order of keys. `meter` counts what is waited for.
    ///
    /// # Errors
    /// As [`Making::write_outputs`].
    pub fn write_parts(
        &self,
        parts: Vec<Part<'_>>,
        meter: &Meter,
        pace: &mut dyn FnMut(u64) -> Result<()>,
        outputs: &mut Outputs,
    ) -> Result<()> {
        self.write(parts, Some(meter), pace, outputs)
    }

    fn write(
        &self,
        parts: Vec<Part<'_>>,
        meter: Option<&Meter>,
        pace: &mut dyn FnMut(u64) -> Result<()>,
        outputs: &mut Outputs,
    ) -> Result<()> {
        let files = &self.common.catalog.table_files;
        let staged = files.staged().zip(meter);
        let written = run_parts(parts, staged, files.work(), pace, outputs);
        if !outputs.blobs.is_empty() {
            self.sweeper.blobs.note_any();
        }
        // What it worked with is given back, and whoever lacks that need not wait until its edit is durable.
        self.common.room.note();
        written
    }

    /// Which values of a family a job writes apart from its tables. Operands are merged into values that lie in tables, so
    /// a family with a merge operator keeps them there.
    pub fn apart<'a>(
        &self,
        cf: CfId,
        victims: Vec<FileId>,
        read: &'a ValuesInOrder<'a>,
    ) -> Apart<'a> {
        let options = &self.common.options.blob;
        let merges = self.common.families.has_operator(cf);
        let bytes_min = match options.value_bytes_min {
            0 => usize::MAX,
            _ if merges || cf == CfId::METADATA => usize::MAX,
            // A reference is no longer than what it stands for.
            least => index(least).max(BLOB_REF_LEN),
        };
        Apart {
            bytes_min,
            inline_max: index(options.inline_bytes_max),
            compression: compression(options.compression),
            file_bytes: options.file_bytes,
            victims,
            writes: Writes::Whole,
            read,
        }
    }

    /// Where tables in persistent memory go.
    pub fn pm_home<'a>(&'a self, next_owner: &'a dyn Fn() -> Result<u64>) -> PmHome<'a> {
        PmHome {
            space: &self.common.space,
            catalog: &self.common.catalog,
            db_id: self.common.db_id,
            next_owner,
        }
    }

    /// Makes the names of all outputs durable.
    pub fn sync_names(&self, outputs: &mut Outputs) -> Result<()> {
        if outputs.files().is_empty() || active(Bug::NameBeforeSync) {
            return Ok(());
        }
        let storage = &self.common.world.env.storage;
        let begun = self.common.now_ns();
        let synced = storage.sync_dir(&self.common.dir, sites::FILE_NAMED);
        outputs.stages.syncing += self.common.since(begun);
        // What is durable of the folder is unknown, and asking again might not tell.
        synced.map_err(|error| self.common.poison.poison_if_sync(error))
    }

    /// Ends the pins: the edit is installed, or there will be none and the files are obsolete.
    pub fn release(&self, outputs: &Outputs) {
        self.common
            .catalog
            .unpin_files(outputs.files().iter().copied());
        self.sweeper.release_made(&outputs.pm);
    }
}
