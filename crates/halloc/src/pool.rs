//! Object pools: persistent arrays of small fixed-size objects, allocated without a log (LogFree
//! §3.4.1).
//!
//! Each object has an index word: its commit bit and, while it is free, the link to the next free
//! object, in one checked word. A head word begins the free list.
//!
//! # Crash argument
//! - **get**: the head moves behind the object, durably. A crash from here on finds an object that is
//!   neither committed nor reachable.
//! - The caller initialises and persists the object's bytes.
//! - **commit**: one 8-byte store sets the bit. Before it the object is nobody's, after it it is
//!   whole.
//! - **release**: one store clears the bit and links the object to the head; then the head moves to
//!   it. A crash between finds it neither committed nor reachable.
//!
//! Opening walks the list and returns what is neither committed nor reachable (the *sweep*).

use thermocline_base::sync::{Mutex, lock};
use thermocline_base::{Error, Result, Site};
use thermocline_pm::{PmOff, Region};

use crate::format::{checked_word, damaged, narrow, read_checked_word};
use crate::{SITE_FORMAT, SITE_POOL_COMMIT, SITE_POOL_GET, SITE_POOL_LINK, SITE_POOL_RELEASE};

const COMMITTED: u32 = 1 << 31;

/// Where a pool lies.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PoolPlace {
    pub head: u64,
    pub objects: u64,
    pub object_bytes: u64,
    pub count: u32,
}

impl PoolPlace {
    fn word(&self, index: u32) -> u64 {
        self.head + 64 + u64::from(index) * 8
    }
}

/// A persistent array of small objects with a free list.
#[derive(Debug)]
pub struct ObjectPool {
    region: Region,
    seed: u64,
    place: PoolPlace,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// One more than the first free object, 0 at the end of the list.
    head: u32,
    words: Vec<u32>,
}

impl ObjectPool {
    /// Writes an empty pool. The caller's format step makes it durable together with the rest.
    pub(crate) fn format(region: &Region, seed: u64, place: PoolPlace) -> Result<()> {
        let word = |at: u64, payload| {
            // SAFETY: the region is being made; nobody reads it yet.
            unsafe { region.write(PmOff(at), &checked_bytes(payload, seed, at)) }
        };
        word(place.head, 1);
        for i in 0..place.count {
            let next = if i + 1 < place.count { i + 2 } else { 0 };
            word(place.word(i), next);
        }
        let len = place.word(place.count) - place.head;
        region.persist(PmOff(place.head), len, SITE_FORMAT)
    }

    /// Reads the pool, and unless the region is read-only returns leaked objects to the list.
    pub(crate) fn open(region: &Region, seed: u64, place: PoolPlace) -> Result<ObjectPool> {
        let read = |at: u64| {
            let word = region.load_u64(PmOff(at))?;
            read_checked_word(word, seed, at)
                .ok_or_else(|| damaged("a word of an object pool", region.path(), at))
        };
        let head = read(place.head)?;
        let words = (0..place.count)
            .map(|i| read(place.word(i)))
            .collect::<Result<Vec<_>>>()?;
        let mut reachable = vec![false; words.len()];
        let mut next = head;
        while next != 0 {
            let i = next as usize - 1;
            if i >= words.len() || reachable[i] || words[i] & COMMITTED != 0 {
                return Err(Error::corruption(
                    "the free list of an object pool is not a list of free objects",
                    region.path().display().to_string(),
                    place.head,
                    "distinct free objects",
                    format!("object {i}"),
                ));
            }
            reachable[i] = true;
            next = words[i];
        }
        let leaked: Vec<u32> = (0..place.count)
            .filter(|&i| words[i as usize] & COMMITTED == 0 && !reachable[i as usize])
            .collect();
        let state = Mutex::new(State { head, words });
        let pool = ObjectPool {
            region: region.clone(),
            seed,
            place,
            state,
        };
        if !region.is_read_only() {
            for index in leaked {
                pool.link(index)?;
            }
        }
        Ok(pool)
    }

    /// Takes a free object; `None` if all are taken. It is leaked until committed.
    ///
    /// # Errors
    /// A failed persist.
    pub fn get(&self) -> Result<Option<u32>> {
        let mut state = lock(&self.state);
        if state.head == 0 {
            return Ok(None);
        }
        let index = state.head - 1;
        let next = state.words[index as usize];
        self.store(self.place.head, next, SITE_POOL_GET)?;
        state.head = next;
        Ok(Some(index))
    }

    /// Declares an object whole: from here on it survives.
    ///
    /// # Errors
    /// A failed persist.
    pub fn commit(&self, index: u32) -> Result<()> {
        let mut state = lock(&self.state);
        self.store(self.place.word(index), COMMITTED, SITE_POOL_COMMIT)?;
        state.words[index as usize] = COMMITTED;
        Ok(())
    }

    /// Whether an object is committed.
    pub fn check(&self, index: u32) -> bool {
        lock(&self.state).words[index as usize] & COMMITTED != 0
    }

    /// Gives a committed object back.
    ///
    /// # Errors
    /// A failed persist.
    pub fn release(&self, index: u32) -> Result<()> {
        assert!(self.check(index), "object {index} is released twice");
        self.link(index)
    }

    fn link(&self, index: u32) -> Result<()> {
        let mut state = lock(&self.state);
        let next = state.head;
        self.store(self.place.word(index), next, SITE_POOL_RELEASE)?;
        state.words[index as usize] = next;
        self.store(self.place.head, index + 1, SITE_POOL_LINK)?;
        state.head = index + 1;
        Ok(())
    }

    fn store(&self, at: u64, payload: u32, site: Site) -> Result<()> {
        let word = checked_word(payload, self.seed, at);
        // SAFETY: a word of the list, which only this pool touches, and only as a word.
        unsafe { self.region.store_u64(PmOff(at), word, site) };
        self.region.persist(PmOff(at), 8, site)
    }

    /// Where an object's bytes lie.
    pub fn object(&self, index: u32) -> PmOff {
        PmOff(self.place.objects + u64::from(index) * self.place.object_bytes)
    }

    /// Bytes of one object.
    pub fn object_bytes(&self) -> u64 {
        self.place.object_bytes
    }

    /// The committed objects.
    pub fn committed(&self) -> Vec<u32> {
        let state = lock(&self.state);
        let all = 0..narrow(state.words.len() as u64).unwrap_or(0);
        all.filter(|&i| state.words[i as usize] & COMMITTED != 0)
            .collect()
    }

    /// Objects on the free list.
    pub fn free(&self) -> usize {
        let state = lock(&self.state);
        let mut n = 0;
        let mut next = state.head;
        while next != 0 {
            n += 1;
            next = state.words[next as usize - 1];
        }
        n
    }
}

fn checked_bytes(payload: u32, seed: u64, at: u64) -> [u8; 8] {
    checked_word(payload, seed, at).to_le_bytes()
}
