//! Tables in persistent memory: how edits add and remove them, and what is refused.

use std::sync::Arc;

use thermocline_base::{FileId, PmFamily, PmTableMeta, SeqNo, limits};

use super::Version;
use super::named::{PmTotals, TableDifference};
use crate::impossible::{Impossible, must, possible_seqno};
use crate::pm_table::PmTableInfo;
use crate::table::{BlobBytes, Level, Place, TableRef};

impl Version {
    /// A table in persistent memory.
    pub fn pm_table(&self, file: FileId) -> Option<&Arc<PmTableInfo>> {
        self.pm.get(file).map(|entry| &entry.table)
    }

    /// Every table in persistent memory, by number, and the references to it.
    pub fn pm_tables(
        &self,
    ) -> impl Iterator<Item = (&Arc<PmTableInfo>, &[(Place, Arc<TableRef>)])> {
        let entries = self.pm.iter();
        entries.map(|entry| (&entry.table, &entry.references[..]))
    }

    /// How many they are.
    pub fn pm_table_count(&self) -> usize {
        self.pm.len()
    }

    /// Those to which this version does not refer as `before` does, by number: such to which something refers now, or nothing any
    /// more, and such whose references are others. The cost is as that of [`Version::tables_since`].
    pub fn pm_tables_since<'a>(
        &'a self,
        before: &'a Version,
    ) -> impl Iterator<Item = TableDifference<'a>> {
        self.pm.since(&before.pm)
    }

    /// What they come to. Edits keep it: whoever asks adds nothing up.
    pub fn pm_totals(&self) -> PmTotals {
        self.pm.totals()
    }

    /// Whether these zones are a table's.
    pub(crate) fn owns_pm_table(&self, owner: u64) -> bool {
        self.pm.owns(owner)
    }

    /// Names a table in persistent memory.
    pub(crate) fn add_pm_table(&mut self, table: &Arc<PmTableInfo>) -> Result<(), Impossible> {
        let (file, meta) = (table.file, &table.meta);
        check_meta(file, meta)?;
        let free = self.file(file).is_none() && self.pm.get(file).is_none();
        must(
            free,
            "number of an added PM table",
            "one that is free",
            file,
        )?;
        let free = !self.owns_pm_table(meta.owner);
        let what = "owner of an added PM table";
        must(free, what, "one that is free", meta.owner)?;
        let (added, what) = (self.pm.add(table), "zones of a PM table");
        must(added, what, "sums below 2^64", meta.zone_bytes)
    }

    /// Names a table in persistent memory no longer.
    pub(crate) fn remove_pm_table(&mut self, file: FileId) -> Result<(), Impossible> {
        let what = "removed PM table";
        let Some(entry) = self.pm.get(file) else {
            return must(false, what, "one that exists", file);
        };
        let count = entry.references.len();
        let got = format_args!("{count} to PM table {file}");
        must(count == 0, what, "no references to it", got)?;
        self.pm.remove(file);
        Ok(())
    }

    /// Whether a reference to a table in persistent memory may be added.
    pub(super) fn check_pm_reference(
        &self,
        place: Place,
        table: &TableRef,
    ) -> Result<(), Impossible> {
        let what = "reference to a PM table";
        let entry = self.pm.get(table.file);
        let Some((entry, family)) = entry.and_then(|e| Some((e, e.table.meta.family(place.cf)?)))
        else {
            return must(false, what, "a family that it has", place);
        };
        must(
            place.level == Level::ZERO,
            "level of a PM table",
            Level::ZERO.0,
            place,
        )?;
        let own = (table.smallest_seqno, table.largest_seqno);
        let (smallest, largest) = family.seqnos;
        let range = &family.range;
        must(
            own == family.seqnos && table.range.is_within(range),
            what,
            format_args!("{range}, seqnos {smallest} to {largest}"),
            format_args!("{table} in {place}"),
        )?;
        let known = |blob: &BlobBytes| {
            let mut of_table = entry.table.meta.blobs.iter();
            of_table.any(|of| of.file == blob.file && blob.bytes <= of.bytes)
        };
        if let Some(blob) = table.blobs.iter().find(|blob| !known(blob)) {
            let (file, bytes) = (blob.file, blob.bytes);
            return must(
                false,
                "blob files of a reference to a PM table",
                "what the table says of them, at most",
                format_args!("{bytes} bytes of blob file {file} in {place}"),
            );
        }
        let mut others = entry.references.iter();
        let meets = |(at, other): &&(Place, Arc<TableRef>)| {
            at.cf == place.cf && other.range.overlaps(&table.range)
        };
        match others.find(meets) {
            None => Ok(()),
            Some((at, other)) => must(
                false,
                what,
                format_args!("keys outside of {other} in {at}"),
                format_args!("{table} in {place}"),
            ),
        }
    }
}

/// What a table in persistent memory says for itself.
fn check_meta(file: FileId, table: &PmTableMeta) -> Result<(), Impossible> {
    let what = "zones of a PM table";
    let (bytes, zone_bytes) = (table.bytes, table.zone_bytes);
    must(table.zones > 0, what, "one at least", file)?;
    let most = format_args!("at most {zone_bytes}");
    must(bytes <= zone_bytes, "bytes of a PM table", most, bytes)?;
    let ascend = table.families.windows(2).all(|two| two[0].cf < two[1].cf);
    let some = ascend && !table.families.is_empty();
    must(some, "families of a PM table", "some, ascending", file)?;
    table.families.iter().try_for_each(check_family)?;
    let sum = |of: fn(&PmFamily) -> u64| {
        let all = table.families.iter().map(of);
        all.fold(0u64, u64::saturating_add)
    };
    let entries = sum(|family| family.entries);
    must(
        entries == table.entries,
        "entries of a PM table",
        entries,
        table.entries,
    )?;
    let ranges = sum(|family| family.range_tombstones);
    let own = table.range_tombstones;
    must(ranges == own, "range tombstones of a PM table", ranges, own)?;
    let seqnos = table.families.iter().map(|family| family.seqnos);
    let seqnos = seqnos.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let shown = |(a, b): (SeqNo, SeqNo)| format!("{a} to {b}");
    must(
        seqnos == Some(table.seqnos),
        "seqnos of a PM table",
        seqnos.map(shown).unwrap_or_default(),
        shown(table.seqnos),
    )?;
    let ascend = table.blobs.windows(2).all(|two| two[0].file < two[1].file);
    must(ascend, "blob files of a PM table", "each once, by id", file)
}

fn check_family(family: &PmFamily) -> Result<(), Impossible> {
    let (range, cf) = (&family.range, family.cf.0);
    let what = "key range of a family in a PM table";
    must(!range.is_empty(), what, "one that holds keys", cf)?;
    let longest = range.first.len().max(range.last.len());
    let most = limits::KEY_LEN_MAX;
    must(longest <= most, "length of a PM table's key", most, longest)?;
    let (smallest, largest) = family.seqnos;
    possible_seqno(largest.0, "largest seqno of a PM table")?;
    let what = "seqnos of a family in a PM table";
    must(smallest <= largest, what, "smallest before largest", cf)?;
    let entries = family.entries;
    let special = family.deletes.checked_add(family.merges);
    let within = special.is_some_and(|special| special <= entries);
    must(
        within,
        "deletes and merges of a PM table",
        format_args!("at most {entries}"),
        format_args!("{} and {}", family.deletes, family.merges),
    )?;
    let all = entries.checked_add(family.range_tombstones);
    must(
        all.is_some_and(|all| all > 0),
        "entries of a PM table",
        "at least 1, below 2^64",
        entries,
    )
}
