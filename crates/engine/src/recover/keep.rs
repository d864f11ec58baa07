//! Making durable what recovery keeps (rule 3 of recovery, `docs/durability.md`).
//!
//! # Readable is not durable
//! What an open reads comes from caches. The process before may have been killed before it persisted what it
//! stored, or a persist may have failed: of kind `file` the kernel tells of that once, and holds the pages
//! for clean from then on, though the device does not have them. Syncing them again writes nothing and
//! succeeds. So what an open builds on is either *known durable*, or *stored again* and then persisted, before the
//! first edit:
//!
//! | what is found | known durable, because | else |
//! |---|---|---|
//! | an item at or below a cut, a floor or a `published` | each of these was written when a persist of all up to there had succeeded; after one that fails none succeeds until the next open (`pm`), and `durable` stands still (`commit::ring`) | |
//! | an item behind those, that the walk accepts | | stored again, verified again, persisted |
//! | the headers of the zones of the last incarnation's chains | | stored again, persisted |
//! | the headers of the zones of earlier ones | the edit that cut them came behind a recovery that had done so, or a close | |
//! | part words, pools, descriptors, floors, witness | | the meta zone is stored again as a whole before it is read (`halloc`) |
//! | the header of a part | the part word counts it | |
//! | a PM table that an edit names | its fences had succeeded before the edit was written | |
//! | a record of the manifest, but for the last | the one behind it was written when its sync had succeeded | |
//! | the last record, and `CURRENT` | | written again, then synced (`version::manifest`) |
//! | a table, blob file or log that an edit names, and its name | file and folder were synced before the edit was written, and no edit is written once a sync of the folder has failed (`Catalog::edits`) | |
//! | frames of a log behind what is known durable | | written again, then synced (`wal::LogReader::keep`) |
//! | a log that another place has a copy of | | copied again (`wal::Wal::gather`) |
//! | what says whose logs are | | written again, then synced (`wal::OwnerFile::open`) |
//! | what no edit names | | removed, or passed over |
//!
//! Items are verified *after* they were stored again: until then the page may be dropped, as clean ones are, and
//! read anew from a device that does not have it. A dirty page stays. Where a second reading differs from
//! the first the open fails, and the next one decides on what there is.
//!
//! If storing again fails, so does the open, before any edit. The next one finds the same or less, and none of it
//! was promised to anybody by this one.

use thermocline_base::Result;
use thermocline_base::planted::{Bug, active};
use thermocline_halloc::{Space, Zone};
use thermocline_memtable::{Descriptor, SITE_REPERSIST, keep_again};

use super::{Found, corrupt};

impl Found {
    /// Rule 3: stores again and makes durable, before the first edit, everything that was kept and is not known
    /// to have been durable, the headers of the zones that it lies in, and the floors.
    pub fn repersist(
        &self,
        space: &Space,
        zones: &[Zone],
        descriptors: &mut [Descriptor],
    ) -> Result<()> {
        let Some(last) = self.incarnations.last() else {
            return Ok(());
        };
        if active(Bug::SkipRepersist) {
            return Ok(());
        }
        for (plan, end) in last.plans.iter().zip(&last.walk.chains) {
            let items = end.items.iter().enumerate();
            let items = items.flat_map(|(segment, items)| items.iter().map(move |i| (segment, i)));
            for (segment, item) in items {
                if item.next_seqno() > last.walk.known_durable + 1
                    && !keep_again(space.region(), plan, segment, item)?
                {
                    return Err(corrupt(space, "two reads of an item disagree", item.at));
                }
            }
        }
        space.region().fence(SITE_REPERSIST)?;
        let owners: Vec<u64> = last.plans.iter().map(|plan| plan.chain.id).collect();
        let relied: Vec<Zone> = zones
            .iter()
            .copied()
            .filter(|z| owners.contains(&z.owner))
            .collect();
        space.repersist(&relied)?;
        // By its floor a memtable counts as sealed, and the one behind it takes the writes.
        descriptors.iter_mut().try_for_each(|d| d.repersist(space))
    }
}
