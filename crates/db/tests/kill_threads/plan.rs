//! What each thread writes, as a function of the seed.

use thermocline::{Batch, CfOptions, ColumnFamily, Commit, Db, Durability, Result};
use thermocline_testkit::Rng;
use thermocline_testkit::history::commits::{Stamp, Write};

pub(crate) const THREADS: usize = 8;
const OWN: usize = 12;
const SHARED: usize = 10;
/// Keys with names; behind them, as two more, come the metadata of the families.
const NAMED: usize = (THREADS * (1 + OWN) + SHARED).next_multiple_of(2);
pub(crate) const KEYS: usize = NAMED + FAMILIES.len();
/// The families; the keys of the second descend.
const FAMILIES: [&str; 2] = ["default", "other"];

/// How an operation is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// By itself, or as a batch.
    Durability(Durability),
    /// As a batch; not waited for.
    Asynchronous,
    /// As a batch that is waited for.
    Awaited,
    /// Writes nothing, and makes all before it durable.
    Sync,
}

/// One operation.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub stamp: Stamp,
    pub writes: Vec<Write>,
    how: How,
    batch: bool,
    values: u64,
}

fn small(n: usize) -> u32 {
    u32::try_from(n).expect("keys and threads are few")
}

/// The operation of this number of a thread in a store.
pub(crate) fn operation(seed: u64, store: usize, thread: usize, number: u32) -> Operation {
    let stream = seed ^ (store as u64) << 56 ^ (thread as u64) << 48;
    let mut rng = Rng::new(stream ^ u64::from(number).wrapping_mul(0x1000_0001));
    rng.next_u64();
    let own = |rng: &mut Rng| small(THREADS + thread * OWN + rng.below(OWN));
    let mut writes = Vec::new();
    let batch = rng.one_in(2);
    if batch {
        writes.push(Write {
            key: small(thread),
            put: true,
        });
        for _ in 0..rng.below(8) {
            let shared = rng.one_in(3);
            let key = match shared {
                true => small(THREADS * (1 + OWN) + rng.below(SHARED)),
                false => own(&mut rng),
            };
            let put = !rng.one_in(6);
            writes.push(Write { key, put });
        }
        if rng.one_in(4) {
            let key = small(NAMED + rng.below(FAMILIES.len()));
            writes.push(Write { key, put: true });
        }
    } else {
        let put = !rng.one_in(3);
        let key = own(&mut rng);
        writes.push(Write { key, put });
    }
    let how = match rng.below(8) {
        _ if rng.one_in(50) => {
            writes.clear();
            How::Sync
        }
        0..3 => How::Durability(Durability::Immediate),
        3 if batch => How::Asynchronous,
        4 if batch => How::Awaited,
        _ => How::Durability(Durability::Buffered),
    };
    Operation {
        stamp: Stamp {
            writer: u16::try_from(thread).expect("threads are few"),
            number,
        },
        writes,
        how,
        batch,
        values: rng.next_u64(),
    }
}

pub(crate) fn families(db: &Db) -> Vec<ColumnFamily> {
    let family = |(i, name): (usize, &&str)| {
        let options = CfOptions::default().reverse(i == 1);
        db.column_family(name, options).unwrap()
    };
    FAMILIES.iter().enumerate().map(family).collect()
}

/// The families that are there.
pub(crate) fn families_found(db: &Db) -> Vec<Option<ColumnFamily>> {
    let family = |name: &&str| db.find_column_family(name);
    FAMILIES.iter().map(family).collect()
}

pub(crate) fn family(key: u32) -> usize {
    key as usize % FAMILIES.len()
}

/// The metadata of a family, as a key.
pub(crate) fn metadata(family: usize) -> u32 {
    small(NAMED + family)
}

/// The name of a key that has one.
pub(crate) fn name(key: u32) -> Vec<u8> {
    format!("key {key:04}").into_bytes()
}

pub(crate) fn key(name: &[u8]) -> u32 {
    let number = name.strip_prefix(b"key ").map(String::from_utf8_lossy);
    let key = number.and_then(|number| number.parse().ok());
    key.filter(|&key| (key as usize) < NAMED)
        .unwrap_or_else(|| panic!("nobody wrote a key {:?}", String::from_utf8_lossy(name)))
}

/// The stamp, and bytes that follow from it.
fn value(stamp: Stamp, rng: &mut Rng) -> Vec<u8> {
    let mut value = stamp.to_bytes().to_vec();
    let len = match rng.below(25) {
        0 => rng.below(12_000),
        _ => rng.below(300),
    };
    value.resize(value.len() + len, value[7]);
    value
}

pub(crate) fn stamp(value: &[u8]) -> Stamp {
    let stamp = Stamp::from_bytes(value).expect("a value begins with a stamp");
    assert!(value[8..].iter().all(|&b| b == value[7]), "a torn value");
    stamp
}

impl Operation {
    /// Writes it; returns whether it is durable, and the commit if that goes on.
    pub fn write(&self, db: &Db, families: &[ColumnFamily]) -> Result<(bool, Option<Commit>)> {
        if self.how == How::Sync {
            db.sync()?;
            return Ok((true, None));
        }
        let mut rng = Rng::new(self.values);
        let mut batch = db.batch();
        if !self.batch
            && let How::Durability(durability) = self.how
        {
            let [write] = self.writes[..] else {
                unreachable!("more than one write is a batch")
            };
            let (family, name) = (&families[family(write.key)], name(write.key));
            match write.put {
                true => family.put_with(name, value(self.stamp, &mut rng), durability)?,
                false => family.delete_with(name, durability)?,
            }
            return Ok((durability == Durability::Immediate, None));
        }
        self.fill(&mut batch, families, &mut rng);
        match self.how {
            How::Durability(durability) => {
                batch.commit(durability)?;
                Ok((durability == Durability::Immediate, None))
            }
            How::Asynchronous => Ok((false, Some(batch.commit_async()?))),
            How::Awaited => {
                batch.commit_async()?.wait()?;
                Ok((true, None))
            }
            How::Sync => unreachable!("it writes nothing"),
        }
    }

    /// Whether it sets its thread's own key, as all batches do.
    pub fn ticks(&self) -> bool {
        self.writes.iter().any(|write| write.key < small(THREADS))
    }

    fn fill(&self, batch: &mut Batch, families: &[ColumnFamily], rng: &mut Rng) {
        for write in &self.writes {
            let family = &families[family(write.key)];
            let name = name(write.key);
            match write.put {
                true if write.key as usize >= NAMED => {
                    batch.set_metadata_cf(family, value(self.stamp, rng))
                }
                true => batch.put_cf(family, name, value(self.stamp, rng)),
                false => batch.delete_cf(family, name),
            };
        }
    }
}
