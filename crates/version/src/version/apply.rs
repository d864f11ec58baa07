//! How an edit changes a version, and what it refuses; and a version with a part of what it names, for copies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thermocline_base::{CfId, FileId, SeqNo, limits};

use super::named::{BlobFile, FileEntry, Named, PmTables, TableFile};
use super::{LevelTables, Version};
use crate::impossible::{Impossible, must, possible_seqno};
use crate::partitions::Partitions;
use crate::table::{BlobBytes, Level, PartitionId, Place, TableRef};

impl Version {
    /// Adds a reference in a family that exists.
    pub(crate) fn add_table(
        &mut self,
        place: Place,
        table: &Arc<TableRef>,
    ) -> Result<(), Impossible> {
        check_place(place)?;
        check_table(table)?;
        match self.pm.get(table.file).is_some() {
            true => self.check_pm_reference(place, table)?,
            false => self.check_file(place, table)?,
        }
        self.check_blobs(table)?;
        self.add_to_level(place, table)?;
        // From here on nothing is refused.
        self.count_reference(place, table);
        Ok(())
    }

    /// Counts a reference that stands in its level by its file, and by the blob files to which it refers. Those
    /// are named, and so is a table in persistent memory.
    fn count_reference(&mut self, place: Place, table: &Arc<TableRef>) {
        for blob in &table.blobs {
            if let Some(file) = self.blob_mut(blob.file) {
                file.references += 1;
                file.referenced_bytes += blob.bytes;
            }
        }
        let insert = |references: &mut Vec<(Place, Arc<TableRef>)>| {
            // Several families of a PM table may begin with the same key.
            let first = (&*table.range.first, place);
            let key = |(at, other): &(Place, Arc<TableRef>)| (&*other.range.first, *at) < first;
            let at = references.partition_point(key);
            references.insert(at, (place, Arc::clone(table)));
        };
        if self.pm.change_references(table.file, insert) {
            return;
        }
        let position = self.position(table.file);
        match self.files.get_mut(position) {
            Some(FileEntry {
                id,
                named: Named::Table(file),
            }) if *id == table.file => insert(&mut file.references),
            _ => {
                let file = TableFile {
                    cf: place.cf,
                    bytes: table.file_bytes,
                    seqnos: (table.smallest_seqno, table.largest_seqno),
                    references: vec![(place, Arc::clone(table))],
                };
                let named = Named::Table(file);
                let id = table.file;
                self.files.insert(position, FileEntry { id, named });
            }
        }
    }

    fn add_to_level(&mut self, place: Place, table: &Arc<TableRef>) -> Result<(), Impossible> {
        if self.families.find(&place.cf).is_none() {
            self.families.set(place.cf, Arc::default());
        }
        let family = self.families.find_mut(&place.cf);
        let family = Arc::make_mut(family.expect("it is there by now"));
        let index = usize::from(place.level.0);
        for missing in family.levels.len()..=index {
            let level = Level(u8::try_from(missing).expect("no more than the deepest level"));
            family.levels.push(Arc::new(LevelTables::new(level)));
        }
        let added = Arc::make_mut(&mut family.levels[index]).add(place, Arc::clone(table));
        if added.is_err() {
            self.forget_empty(place.cf);
        }
        added
    }

    /// Removes the reference to `file` at `place` whose range begins with `smallest`.
    pub(crate) fn remove_table(
        &mut self,
        place: Place,
        file: FileId,
        smallest: &[u8],
    ) -> Result<(), Impossible> {
        let found = self.references(file).iter();
        let mut found = found.filter(|(at, table)| *at == place && *table.range.first == *smallest);
        let Some((_, table)) = found.next().cloned() else {
            let what = "removed table";
            let got = format!(
                "table {file} from \"{}\" on in {place}",
                smallest.escape_ascii()
            );
            return must(false, what, "one that exists", got);
        };
        self.remove_from_level(place, &table);
        self.forget_reference(place, &table);
        Ok(())
    }

    /// Removes all references of a family, and its partitions.
    pub(crate) fn drop_family(&mut self, cf: CfId) {
        let tables: Vec<_> = self
            .tables_of(cf)
            .map(|(at, table)| (at, Arc::clone(table)))
            .collect();
        self.families.take(&cf);
        self.partitions.take(&cf);
        for (place, table) in tables {
            self.forget_reference(place, &table);
        }
    }

    pub(super) fn remove_from_level(&mut self, place: Place, table: &TableRef) {
        let family = self.families.find_mut(&place.cf).map(Arc::make_mut);
        let level = family.and_then(|f| f.levels.get_mut(usize::from(place.level.0)));
        Arc::make_mut(level.expect("a reference stands in its level")).remove(table);
        self.forget_empty(place.cf);
    }

    /// Forgets the levels of a family from the deepest one up as far as there is nothing.
    fn forget_empty(&mut self, cf: CfId) {
        let Some(family) = self.families.find_mut(&cf) else {
            return;
        };
        let family = Arc::make_mut(family);
        while family.levels.last().is_some_and(|level| level.is_empty()) {
            family.levels.pop();
        }
        if family.levels.is_empty() {
            self.families.take(&cf);
        }
    }

    /// Makes a partition of a family that exists.
    pub(crate) fn create_partition(
        &mut self,
        cf: CfId,
        id: PartitionId,
        start: &[u8],
    ) -> Result<(), Impossible> {
        self.change_partitions(cf, |partitions| partitions.create(id, start))
    }

    /// Gives a partition's keys to the one before it.
    pub(crate) fn remove_partition(
        &mut self,
        cf: CfId,
        id: PartitionId,
        start: &[u8],
    ) -> Result<(), Impossible> {
        self.change_partitions(cf, |partitions| partitions.remove(id, start))
    }

    /// A family that has one alone needs none to be kept.
    fn change_partitions(
        &mut self,
        cf: CfId,
        change: impl FnOnce(&mut Partitions) -> Result<(), Impossible>,
    ) -> Result<(), Impossible> {
        if self.partitions.find(&cf).is_none() {
            self.partitions.set(cf, Partitions::default());
        }
        let partitions = self.partitions.find_mut(&cf);
        let partitions = partitions.expect("they were set above, if they were not there");
        let changed = change(partitions);
        if partitions.len() == 1 {
            self.partitions.take(&cf);
        }
        changed
    }

    /// Forgets a reference by its file, and what it referred to.
    pub(super) fn forget_reference(&mut self, place: Place, table: &TableRef) {
        for blob in &table.blobs {
            if let Some(file) = self.blob_mut(blob.file) {
                file.references -= 1;
                file.referenced_bytes -= blob.bytes;
            }
        }
        // Parts of one table do not overlap, so they begin with different keys.
        let same = |other: &TableRef| other.range.first == table.range.first;
        let stays = |(at, other): &(Place, Arc<TableRef>)| *at != place || !same(other);
        let forget = |references: &mut Vec<(Place, Arc<TableRef>)>| references.retain(stays);
        if self.pm.change_references(table.file, forget) {
            return;
        }
        let position = self.position(table.file);
        let entry = self.files.get_mut(position);
        let Some(Named::Table(file)) = entry.map(|entry| &mut entry.named) else {
            unreachable!("a reference's file is named");
        };
        file.references.retain(stays);
        if file.references.is_empty() {
            self.files.remove(position);
        }
    }

    /// This version without tables in persistent memory, and the references that it lacks for that: those
    /// to such tables, and, since data must not be moved past it, of the level 0 in which those stand all
    /// that is newer than the oldest of them.
    pub fn without_pm_tables(&self) -> (Version, Vec<(Place, Arc<TableRef>)>) {
        let mut oldest: BTreeMap<Place, SeqNo> = BTreeMap::new();
        for (place, table) in self.pm.iter().flat_map(|entry| &entry.references) {
            let oldest = oldest.entry(*place).or_insert(SeqNo::MAX);
            *oldest = table.smallest_seqno.min(*oldest);
        }
        let taken: Vec<(Place, Arc<TableRef>)> = oldest
            .into_iter()
            .flat_map(|(place, oldest)| {
                let newer = self.newer_than_any(place, oldest).into_iter();
                newer.map(move |table| (place, table))
            })
            .collect();
        let mut version = self.clone();
        for (place, table) in &taken {
            version.remove_from_level(*place, table);
            version.forget_reference(*place, table);
        }
        version.pm = PmTables::default();
        (version, taken)
    }

    /// This version with the tables of these families alone, and the blob files that they refer to. The cost is that of
    /// what stays.
    pub(crate) fn with_only(&self, families: &[CfId]) -> Version {
        let mut only = Version {
            front: self.front.clone(),
            ..Version::default()
        };
        for cf in families {
            if let Some(partitions) = self.partitions.find(cf) {
                only.partitions.set(*cf, partitions.clone());
            }
            let Some(family) = self.family(*cf) else {
                continue;
            };
            if only.families.set(*cf, Arc::clone(family)).is_some() {
                // It was named twice.
                continue;
            }
            for (place, table) in self.tables_of(*cf) {
                only.name_as(self, table);
                only.count_reference(place, table);
            }
        }
        only
    }

    /// This version, but it names only `tables`, whether they lie in files or in persistent memory, and the blob files that they refer
    /// to. Levels and partitions are as they are.
    pub(crate) fn naming_only<'t>(&self, tables: impl Iterator<Item = &'t TableRef>) -> Version {
        let files = tables.flat_map(|table| {
            let blobs = table.blobs.iter().map(|blob| blob.file);
            blobs.chain([table.file])
        });
        let files: BTreeSet<FileId> = files.collect();
        let pm = self.pm.only(&files);
        let entries = files.into_iter().filter_map(|file| self.entry(file));
        Version {
            files: entries.cloned().collect(),
            pm,
            ..self.clone()
        }
    }

    /// Names what a reference of `whole` refers to, as that does, but without the references to it.
    fn name_as(&mut self, whole: &Version, table: &TableRef) {
        for blob in &table.blobs {
            let id = blob.file;
            if self.blob_file(id).is_none()
                && let Some(of) = whole.blob_file(id)
            {
                let named = Named::Blob(BlobFile {
                    references: 0,
                    referenced_bytes: 0,
                    ..of
                });
                self.files
                    .insert(self.position(id), FileEntry { id, named });
            }
        }
        if self.pm.get(table.file).is_none()
            && let Some(of) = whole.pm.get(table.file)
        {
            let added = self.pm.add(&of.table);
            debug_assert!(added, "all of them were counted");
        }
    }

    /// The tables of a level 0 that are not wholly older than `oldest`, nor than any of those: tables that were
    /// written together (an evacuation) lie beside each other, each with seqnos of its own, some in files.
    fn newer_than_any(&self, place: Place, mut oldest: SeqNo) -> Vec<Arc<TableRef>> {
        let all = || self.level(place).into_iter().flat_map(|l| l.iter());
        loop {
            let newer = all().filter(|table| table.largest_seqno >= oldest);
            let newer: Vec<_> = newer.cloned().collect();
            let least = newer.iter().map(|table| table.smallest_seqno).min();
            match least.filter(|least| *least < oldest) {
                Some(least) => oldest = least,
                None => return newer,
            }
        }
    }

    /// Names a blob file.
    pub(crate) fn add_blob_file(&mut self, id: FileId, bytes: u64) -> Result<(), Impossible> {
        let what = "added blob file";
        let free = self.file(id).is_none() && self.pm_table(id).is_none();
        must(free, what, "a file id that is free", id)?;
        let named = Named::Blob(BlobFile {
            bytes,
            value_bytes: None,
            references: 0,
            referenced_bytes: 0,
        });
        self.files
            .insert(self.position(id), FileEntry { id, named });
        Ok(())
    }

    /// Notes how many bytes of a blob file are values.
    pub(crate) fn set_blob_values(&mut self, id: FileId, bytes: u64) -> Result<(), Impossible> {
        let what = "blob file of which values are counted";
        let Some(blob) = self.blob_mut(id) else {
            return must(false, what, "one that exists", id);
        };
        let known = blob.value_bytes.is_some();
        must(!known, what, "one of which none were counted", id)?;
        let (least, most) = (blob.referenced_bytes, blob.bytes);
        let wish = format_args!("{least} to {most}");
        let possible = (least..=most).contains(&bytes);
        must(possible, "bytes of values in a blob file", wish, bytes)?;
        blob.value_bytes = Some(bytes);
        Ok(())
    }

    /// Names a blob file no longer.
    pub(crate) fn remove_blob_file(&mut self, id: FileId) -> Result<(), Impossible> {
        let what = "removed blob file";
        let Some(blob) = self.blob_file(id) else {
            return must(false, what, "one that exists", id);
        };
        let (count, bytes) = (blob.references, blob.referenced_bytes);
        let got = format_args!("{count}, to {bytes} bytes of blob file {id}");
        must(count == 0, what, "no references to it", got)?;
        self.files.remove(self.position(id));
        Ok(())
    }

    fn blob_mut(&mut self, id: FileId) -> Option<&mut BlobFile> {
        match self.files.get_mut(self.position(id)) {
            Some(FileEntry {
                id: found,
                named: Named::Blob(blob),
            }) if *found == id => Some(blob),
            _ => None,
        }
    }

    /// Whether the file is new, or one of which another part may be referred to.
    fn check_file(&self, place: Place, table: &TableRef) -> Result<(), Impossible> {
        let what = "file of an added table";
        let file = match self.entry(table.file).map(|entry| &entry.named) {
            None => return Ok(()),
            Some(Named::Table(file)) => file,
            Some(Named::Blob(_)) => {
                let got = format!("blob file {}", table.file);
                return must(false, what, "a table", got);
            }
        };
        let seqnos = (table.smallest_seqno, table.largest_seqno);
        let one = file.cf == place.cf && file.bytes == table.file_bytes && file.seqnos == seqnos;
        let mut others = file.references.iter();
        let other = match one {
            true => others.find(|(_, other)| other.range.overlaps(&table.range)),
            false => others.next(),
        };
        let Some((at, other)) = other else {
            return Ok(());
        };
        let wish = match one {
            true => "keys outside of",
            false => "the family, size and seqnos of",
        };
        must(
            false,
            what,
            format!("{wish} {other} in {at}"),
            format!("{table} in {place}"),
        )
    }

    fn check_blobs(&self, table: &TableRef) -> Result<(), Impossible> {
        let what = "blob reference of an added table";
        let ascend = table.blobs.windows(2).all(|two| two[0].file < two[1].file);
        must(ascend, what, "each blob file once, by id", table)?;
        for &BlobBytes { file, bytes } in &table.blobs {
            let Some(blob) = self.blob_file(file) else {
                let got = format!("file {file} in {table}");
                return must(false, what, "a blob file that exists", got);
            };
            let all = blob.value_bytes.unwrap_or(blob.bytes);
            let room = all - blob.referenced_bytes;
            must(
                bytes <= room,
                what,
                format_args!("at most {room} more bytes of blob file {file}"),
                format_args!("{bytes} in {table}"),
            )?;
        }
        Ok(())
    }
}

fn check_place(place: Place) -> Result<(), Impossible> {
    let (whole, deepest) = (PartitionId::WHOLE, Level::MAX.0);
    let what = "partition of a table";
    must(place.partition == whole, what, whole.0, place)?;
    let most = format_args!("at most {deepest}");
    must(place.level.0 <= deepest, "level of a table", most, place)
}

/// What a reference says for itself.
fn check_table(table: &TableRef) -> Result<(), Impossible> {
    let range = &table.range;
    must(
        !range.is_empty(),
        "key range of a table",
        "one that holds keys",
        table,
    )?;
    let longest = range.first.len().max(range.last.len());
    let most = limits::KEY_LEN_MAX;
    must(longest <= most, "length of a table's key", most, longest)?;
    let closed = table.limited_above && !range.open;
    must(
        !closed,
        "key range of a part of a table",
        "one before its limit",
        table,
    )?;
    possible_seqno(table.largest_seqno.0, "largest seqno of a table")?;
    let (smallest, largest) = (table.smallest_seqno, table.largest_seqno);
    must(
        smallest <= largest,
        "seqnos of a table",
        "smallest before largest",
        table,
    )?;
    let (bytes, file_bytes) = (table.bytes, table.file_bytes);
    let what = "bytes of a table";
    match table.is_part() {
        true => must(
            bytes <= file_bytes,
            what,
            format_args!("at most {file_bytes}"),
            bytes,
        )?,
        false => must(bytes == file_bytes, what, file_bytes, bytes)?,
    }
    let (entries, deletes) = (table.entries, table.deletes);
    must(
        deletes <= entries,
        "deletes of a table",
        format_args!("at most {entries}"),
        deletes,
    )
}
