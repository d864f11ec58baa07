//! The groups and changes that a feed gives.

use std::borrow::Cow;
use std::collections::BTreeSet;

use thermocline_base::sync::Arc;
use thermocline_base::{CfId, Error, Kind, Result};
use thermocline_memtable::{ItemCopy, ItemRecords, RecordRef};

use super::chains::{Chains, FamilyNames, LongValues};

/// Batches that were committed together, all at one moment. A group is a copy in DRAM, as large as the batches were.
/// So it may be kept for as long as one likes, and be read when its memtable is gone or the store was closed. A group
/// with long values keeps their blob files. When the store is closed it keeps the folder with them: nobody opens that
/// for writing before the group goes.
#[derive(Debug, Clone)]
pub struct ChangeGroup(Arc<Copied>);

#[derive(Debug)]
struct Copied {
    families: Arc<dyn FamilyNames>,
    /// At least one.
    items: Vec<ItemCopy>,
    /// The blob files that the items refer to, if any does.
    long_values: Option<Box<dyn LongValues>>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<'g> {
    /// The change's place in the order of all changes.
    pub seqno: u64,
    /// The name of its column family.
    pub family: Arc<str>,
    /// The family's id, which tells it from a dropped family of the same name.
    pub family_id: u16,
    /// The change itself.
    pub op: ChangeOp<'g>,
}

/// The kind of a change, with its keys and values.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeOp<'g> {
    /// The key has this value.
    Put {
        /// The key.
        key: &'g [u8],
        /// The value; a long one was read from its blob file.
        value: Cow<'g, [u8]>,
    },
    /// An operand is merged into the value of the key, by the operator of its family. Each operand comes as it was
    /// written, even if it has been folded since.
    Merge {
        /// The key.
        key: &'g [u8],
        /// The operand.
        operand: &'g [u8],
    },
    /// The key has no value.
    Delete {
        /// The key.
        key: &'g [u8],
    },
    /// All keys of a range are deleted.
    DeleteRange {
        /// The bytewise lowest key of the range.
        from: &'g [u8],
        /// The first key bytewise behind it; `None` if all keys from `from` on are in it.
        to: Option<&'g [u8]>,
    },
    /// The family has this metadata.
    Metadata {
        /// The blob.
        value: &'g [u8],
    },
}

impl ChangeOp<'_> {
    /// The name of the kind, as the command line spells it.
    pub fn name(&self) -> &'static str {
        match self {
            ChangeOp::Put { .. } => "put",
            ChangeOp::Merge { .. } => "merge",
            ChangeOp::Delete { .. } => "delete",
            ChangeOp::DeleteRange { .. } => "delete_range",
            ChangeOp::Metadata { .. } => "metadata",
        }
    }
}

/// The changes of a group, in their order.
#[derive(Debug)]
pub struct Changes<'g> {
    group: &'g ChangeGroup,
    /// Items that have not been begun.
    items: std::slice::Iter<'g, ItemCopy>,
    records: Option<ItemRecords<'g>>,
    /// The family of the last change, and its name unless it was dropped.
    family: Option<(CfId, Option<Arc<str>>)>,
}

impl ChangeGroup {
    /// Copies these items, whose memtable the caller holds.
    pub(super) fn new(chains: &dyn Chains, items: Vec<ItemCopy>, has_blobs: bool) -> ChangeGroup {
        assert!(!items.is_empty(), "a group has a record");
        let mut files = BTreeSet::new();
        if has_blobs {
            files.extend(items.iter().flat_map(ItemCopy::blob_files));
        }
        let long_values = (!files.is_empty()).then(|| chains.hold_long_values(files));
        ChangeGroup(Arc::new(Copied {
            families: chains.names(),
            items,
            long_values,
        }))
    }

    /// The seqno of the group's first record.
    pub fn first(&self) -> u64 {
        self.0.items[0].first_seqno()
    }

    /// The seqno of the group's last record. The changes since this one are those behind the group.
    pub fn last(&self) -> u64 {
        self.0.items.last().map_or(0, |item| item.next_seqno() - 1)
    }

    /// The changes of the group, without those of dropped column families. Each is verified before it is given.
    pub fn changes(&self) -> Changes<'_> {
        Changes {
            group: self,
            items: self.0.items.iter(),
            records: None,
            family: None,
        }
    }
}

impl<'g> Changes<'g> {
    /// The name of a family, unless it was dropped.
    fn name_of(&mut self, cf: CfId) -> Option<Arc<str>> {
        if let Some((known, name)) = &self.family
            && *known == cf
        {
            return name.clone();
        }
        let name = self.group.0.families.name_of(cf);
        let name: Option<Arc<str>> = name.map(Into::into);
        self.family = Some((cf, name.clone()));
        name
    }

    /// `None` for a dropped family, whose blob files may be gone.
    fn change(&mut self, cf: CfId, record: &RecordRef<'g>) -> Result<Option<Change<'g>>> {
        let (key, value) = (record.key, record.value);
        let owner = match cf {
            CfId::METADATA => CfId::of_metadata_key(key),
            cf => Some(cf),
        };
        let named = owner.and_then(|owner| Some((owner, self.name_of(owner)?)));
        let Some((owner, family)) = named else {
            return Ok(None);
        };
        let op = match (cf, record.kind) {
            (CfId::METADATA, _) => ChangeOp::Metadata { value },
            (_, Kind::Delete) => ChangeOp::Delete { key },
            (_, Kind::Merge) => ChangeOp::Merge {
                key,
                operand: value,
            },
            (_, Kind::RangeDelete) => {
                let to = (!value.is_empty()).then_some(value);
                ChangeOp::DeleteRange { from: key, to }
            }
            _ => {
                let value = match record.blob() {
                    None => Cow::Borrowed(value),
                    Some(blob) => {
                        let held = self.group.0.long_values.as_ref();
                        // The group was said to have none.
                        let missing = || {
                            let what = "a record refers to a blob file that nobody has noted";
                            Error::corruption(what, "a change feed", 0, "no such record", blob)
                        };
                        Cow::Owned(held.ok_or_else(missing)?.read(cf, key, blob)?)
                    }
                };
                ChangeOp::Put { key, value }
            }
        };
        Ok(Some(Change {
            seqno: record.seqno.0,
            family,
            family_id: owner.0,
            op,
        }))
    }
}

impl<'g> Iterator for Changes<'g> {
    type Item = Result<Change<'g>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.records.as_mut().and_then(Iterator::next) {
                None => {
                    let item = self.items.next()?;
                    self.records = Some(item.records());
                }
                Some(Err(error)) => {
                    self.items = [].iter();
                    return Some(Err(error));
                }
                Some(Ok((cf, record))) => {
                    if let Some(change) = self.change(cf, &record).transpose() {
                        if change.is_err() {
                            // A caller that goes on after the error must not apply the rest without this change.
                            (self.items, self.records) = ([].iter(), None);
                        }
                        return Some(change);
                    }
                }
            }
        }
    }
}
