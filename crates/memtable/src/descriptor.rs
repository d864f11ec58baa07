//! Memtable descriptors: one object of the descriptor pool for every memtable that exists.
//!
//! A descriptor holds the memtable's id, written once, and its **floor**: the memtable's last
//! seqno, written when it is sealed and only after `durable` has reached it. An item at or below the
//! floor that is missing or bad is corruption; without the floor the end of the last chain could be
//! mistaken for a torn tail. Two copies on lines of their own, persisted one after the other, so
//! that one survives a torn write and a rotten line.

use thermocline_base::Result;
use thermocline_base::checksum::hash64;
use thermocline_halloc::{ObjectPool, Space};
use thermocline_pm::{PmOff, Region};

use crate::format::{
    FLOOR_COPIES, decode_descriptor, decode_floor, encode_descriptor, encode_floor,
};
use crate::{SITE_DESCRIPTOR, SITE_FLOOR};

/// The descriptor of a live memtable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// The memtable's number.
    pub memtable: u64,
    /// Its last seqno, if it is sealed.
    pub floor: Option<u64>,
    /// Whether both copies of the floor say so.
    whole: bool,
    index: u32,
    seed: u64,
}

impl Descriptor {
    /// Makes the descriptor of a memtable that the manifest names. `None` if the pool is full.
    ///
    /// # Errors
    /// A failed persist.
    pub fn create(space: &Space, db_id: &[u8; 16], memtable: u64) -> Result<Option<Descriptor>> {
        let pool = space.descriptors();
        let Some(index) = pool.get()? else {
            return Ok(None);
        };
        let seed = hash64(db_id);
        let at = pool.object(index);
        let mut object = vec![0; thermocline_base::size::index(pool.object_bytes())];
        object[..64].copy_from_slice(&encode_descriptor(memtable, seed, at.0));
        // SAFETY: the pool has just given the object out, and it is not committed yet.
        unsafe { space.region().write(at, &object) };
        space
            .region()
            .persist(at, pool.object_bytes(), SITE_DESCRIPTOR)?;
        pool.commit(index)?;
        Ok(Some(Descriptor {
            memtable,
            floor: None,
            whole: true,
            index,
            seed,
        }))
    }

    /// Reads all committed descriptors.
    ///
    /// # Errors
    /// Corruption, naming the region and offset.
    pub fn read_all(space: &Space, db_id: &[u8; 16]) -> Result<Vec<Descriptor>> {
        let pool = space.descriptors();
        pool.committed()
            .into_iter()
            .map(|i| Descriptor::read(space.region(), pool, i, db_id))
            .collect()
    }

    fn read(
        region: &Region,
        pool: &ObjectPool,
        index: u32,
        db_id: &[u8; 16],
    ) -> Result<Descriptor> {
        let seed = hash64(db_id);
        let at = pool.object(index);
        let damaged = |what: &str, at: u64| {
            thermocline_base::Error::corruption(
                format!("{what} of a memtable is damaged"),
                region.path().display().to_string(),
                at,
                "a matching checksum",
                "none",
            )
        };
        let memtable = decode_descriptor(region.bytes(at, 64)?, seed, at.0)
            .ok_or_else(|| damaged("the descriptor", at.0))?;
        let mut floor = None;
        let (mut sound, mut torn) = (0, 0);
        for copy in FLOOR_COPIES.map(|c| at.plus(c)) {
            let bytes = region.bytes(copy, 64)?;
            match decode_floor(bytes, seed, copy.0) {
                Some(found) => {
                    floor = floor.max(Some(found));
                    sound += 1;
                }
                None if bytes[..16].iter().all(|&b| b == 0) => {}
                None => torn += 1,
            }
        }
        // One torn copy is a crash while the floor was written: copy A torn and B not begun. Both
        // damaged is not a crash.
        if floor.is_none() && torn == FLOOR_COPIES.len() {
            return Err(damaged("the floor", at.0 + FLOOR_COPIES[0]));
        }
        Ok(Descriptor {
            memtable,
            floor,
            whole: floor.is_none() || sound == FLOOR_COPIES.len(),
            index,
            seed,
        })
    }

    /// Records the memtable's last seqno, which must be durable.
    ///
    /// # Errors
    /// A failed persist.
    pub fn set_floor(&mut self, space: &Space, floor: u64) -> Result<()> {
        let at = space.descriptors().object(self.index);
        for copy in FLOOR_COPIES.map(|c| at.plus(c)) {
            let word = encode_floor(floor, self.seed, copy.0);
            // SAFETY: floors are read by an open alone, before it writes any.
            unsafe { space.region().write(copy, &word) };
            space.region().persist(copy, 16, SITE_FLOOR)?;
        }
        self.floor = Some(floor);
        self.whole = true;
        Ok(())
    }

    /// Makes a floor that was found durable, before anything is built on it (rule 3 of recovery): a
    /// killed process may have stored copy A and not persisted it. Copy B is stored only after
    /// copy A is durable, so a floor of which both copies are there needs nothing.
    ///
    /// # Errors
    /// A failed persist.
    pub fn repersist(&mut self, space: &Space) -> Result<()> {
        match self.floor {
            Some(floor) if !self.whole => self.set_floor(space, floor),
            _ => Ok(()),
        }
    }

    /// Where the floor lies.
    pub fn floor_at(&self, space: &Space) -> PmOff {
        let object = space.descriptors().object(self.index);
        object.plus(FLOOR_COPIES[0])
    }

    /// Gives the descriptor back: the manifest no longer names its memtable.
    ///
    /// # Errors
    /// A failed persist.
    pub fn release(self, space: &Space) -> Result<()> {
        space.descriptors().release(self.index)
    }
}

#[cfg(test)]
mod tests {
    use thermocline_testkit::golden;

    use super::*;

    #[test]
    fn the_bytes_of_a_descriptor_are_those_of_version_1() {
        let seed = hash64(&[1; 16]);
        let head = encode_descriptor(6, seed, 2048);
        let floor = encode_floor(77, seed, 2048 + FLOOR_COPIES[0]);
        let text = golden::annotate(
            &[&head[..], &floor[..]].concat(),
            &[
                (4, "magic"),
                (4, "version"),
                (8, "memtable"),
                (4, "crc"),
                (44, "zeros to the line"),
                (8, "floor, copy A: seqno"),
                (4, "crc"),
                (4, "zeros"),
            ],
        );
        golden::check(
            "descriptor",
            include_str!("../tests/golden/descriptor-v1.txt"),
            &text,
        );
    }
}
