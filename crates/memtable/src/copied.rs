//! Items copied out of persistent memory, for who reads them when their memtable may have gone.
//!
//! A copy has all that it takes to read its records and to verify them: the item's bytes, where they lay, and
//! what their checksums start from. It holds no home: its memtable's zones may be given back, and written anew.
//! Of the region it keeps the mapping only, whose path errors name.
//!
//! 1. *Copied whole.* Who copies holds the home, so that nobody writes there meanwhile, and an item that a trail
//!    has found is complete (`trail`). A page that was lost reads as zeros: that is looked for after copying.
//! 2. *Verified.* Each record is verified when it is read, as it would be where it lay.

use thermocline_base::{CfId, FileId, Result};
use thermocline_pm::{PmOff, Region};

use crate::format::{ITEM_HEADER, RECORD_HEADER, RecordHeader};
use crate::home::{Home, Origin, bad, record_of};
use crate::record::RecordRef;
use crate::walk::ItemRef;

/// The copy of an item. See the [module](self).
#[derive(Debug)]
pub struct ItemCopy {
    region: Region,
    item: ItemRef,
    bytes: Box<[u8]>,
    origin: Origin,
    /// What its records' checksums start from.
    seed: u64,
}

impl Home {
    /// A copy of an item of this memtable.
    ///
    /// # Errors
    /// Those of media.
    pub fn copy_item(&self, item: &ItemRef) -> Result<ItemCopy> {
        let region = self.region();
        let len = usize::try_from(item.bytes).expect("an item fits into memory");
        let bytes = region.bytes(item.at, len)?.into();
        region.check_media()?;
        Ok(ItemCopy {
            region: region.clone(),
            item: *item,
            bytes,
            origin: self.origin(),
            seed: self.seed_of(item.first_seqno),
        })
    }
}

impl ItemCopy {
    /// The seqno of its first record.
    pub fn first_seqno(&self) -> u64 {
        self.item.first_seqno
    }

    /// The seqno behind its last record.
    pub fn next_seqno(&self) -> u64 {
        self.item.next_seqno()
    }

    /// Its records in their order, verified one by one.
    pub fn records(&self) -> ItemRecords<'_> {
        ItemRecords {
            copy: self,
            at: ITEM_HEADER,
            left: self.item.count,
        }
    }

    /// The blob files that its records refer to, as far as those can be read.
    pub fn blob_files(&self) -> impl Iterator<Item = FileId> {
        let sound = self.records().filter_map(Result::ok);
        sound.filter_map(|(_, record)| Some(record.blob()?.file))
    }

    /// The record that begins `at` bytes behind the item's first, and how many it takes.
    fn record(&self, at: usize) -> Result<(CfId, RecordRef<'_>, usize)> {
        let place = PmOff(self.item.at.0 + at as u64);
        let from = self.bytes.get(at..).unwrap_or_default();
        let beyond = || {
            bad(
                &self.region,
                place,
                "a record ends behind its item",
                "a record within its item",
                "its end beyond",
            )
        };
        let head = from.get(..RECORD_HEADER).ok_or_else(beyond)?;
        let head = RecordHeader::decode(head);
        let bytes = from.get(..head.len()).ok_or_else(beyond)?;
        let seqno = self.origin.seqno(&head);
        let record = record_of(&self.region, place, &head, seqno, bytes, Some(self.seed))?;
        Ok((CfId(head.cf), record, head.padded()))
    }
}

/// The records of an item, in their order.
#[derive(Debug)]
pub struct ItemRecords<'c> {
    copy: &'c ItemCopy,
    at: usize,
    left: u32,
}

impl<'c> Iterator for ItemRecords<'c> {
    type Item = Result<(CfId, RecordRef<'c>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        match self.copy.record(self.at) {
            Ok((cf, record, bytes)) => {
                self.at += bytes;
                Some(Ok((cf, record)))
            }
            Err(error) => {
                // Where the next one begins is not known.
                self.left = 0;
                Some(Err(error))
            }
        }
    }
}
