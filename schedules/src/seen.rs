//! What a batch writes, and what somebody sees of all batches.
//!
//! The `n`-th batch of a writer sets its own key to `n`, a key that all writers share to the writer and
//! `n`, and a third key; and deletes that again if `n` is even, by a range or by itself, so that nobody
//! ever sees an even number there. Where it deletes by a range, so it does with its own key before it sets
//! that. All this in two families. Values may be filled up: then the batch is staged, or its values go into a
//! blob file.

use thermocline_base::{CfId, Result, WriteBatch};
use thermocline_engine::{Engine, Family, Snapshot};

use crate::oracle::{WRITERS, Writes};

const SHARED: &[u8] = b"shared";

fn own(writer: usize) -> Vec<u8> {
    format!("own {writer}").into_bytes()
}

fn sometimes(writer: usize) -> Vec<u8> {
    format!("sometimes {writer}").into_bytes()
}

fn value(writer: usize, n: u64) -> Vec<u8> {
    format!("{writer} {n}").into_bytes()
}

/// Without what a long value is filled up with.
fn parsed(value: &[u8]) -> (usize, u64) {
    let text = str::from_utf8(value).expect("values are text");
    let (writer, n) = text.split_once(' ').expect("values are two numbers");
    (writer.parse().unwrap(), n.trim_end().parse().unwrap())
}

/// What batches are like.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// Whether they delete by ranges, too: memtables with ranges are not merged.
    pub ranges: bool,
    /// Bytes of each value, at least.
    pub value_bytes: usize,
}

/// The `n`-th batch of a writer.
///
/// # Panics
/// Never: its keys and values are short.
pub fn batch(families: [Family; 2], writer: usize, n: u64, form: Form) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for family in families {
        let (own, third) = (own(writer), sometimes(writer));
        let mut value = value(writer, n);
        value.resize(value.len().max(form.value_bytes), b' ');
        let clear = |batch: &mut WriteBatch, key: &[u8]| {
            let behind = [key, &[0]].concat();
            batch.delete_range(family.id, key, Some(&behind)).unwrap();
        };
        if form.ranges && !n.is_multiple_of(4) {
            clear(&mut batch, &own);
        }
        batch.put(family.id, &own, &value).unwrap();
        batch.put(family.id, SHARED, &value).unwrap();
        batch.put(family.id, &third, &value).unwrap();
        match n % 4 {
            2 if form.ranges => clear(&mut batch, &third),
            0 | 2 => batch.delete(family.id, &third).unwrap(),
            _ => {}
        }
    }
    batch
}

/// What one moment of the store looks like: all batches up to it, each whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The last write of each writer.
    pub writes: Writes,
    /// Who wrote last.
    pub last: Option<(usize, u64)>,
}

/// A family's contents: of each writer its own key and the third, then the shared one.
#[derive(Debug, Default, PartialEq, Eq)]
struct Contents {
    own: [Option<(usize, u64)>; WRITERS],
    sometimes: [Option<(usize, u64)>; WRITERS],
    shared: Option<(usize, u64)>,
}

impl Contents {
    fn by_gets(get: impl Fn(&[u8]) -> Option<(usize, u64)>) -> Contents {
        Contents {
            own: std::array::from_fn(|writer| get(&own(writer))),
            sometimes: std::array::from_fn(|writer| get(&sometimes(writer))),
            shared: get(SHARED),
        }
    }

    fn by_cursor(snapshot: &Snapshot, family: Family, backwards: bool) -> Result<Contents> {
        let mut contents = Contents::default();
        let mut cursor = snapshot.cursor(family)?;
        let mut valid = if backwards {
            cursor.seek_to_last()?
        } else {
            cursor.seek_to_first()?
        };
        while valid {
            let found = parsed(cursor.value());
            let key = cursor.key();
            let place = (0..WRITERS).find_map(|writer| {
                let mine = key == own(writer);
                let third = key == sometimes(writer);
                (mine || third).then_some((writer, mine))
            });
            let place = match place {
                Some((writer, true)) => &mut contents.own[writer],
                Some((writer, false)) => &mut contents.sometimes[writer],
                None if key == SHARED => &mut contents.shared,
                None => panic!("a key that nobody wrote: {key:?}"),
            };
            assert_eq!(place.replace(found), None, "{key:?} comes twice");
            valid = if backwards {
                cursor.prev()?
            } else {
                cursor.next()?
            };
        }
        Ok(contents)
    }

    /// What the batches of this family add up to; the reader must see whole ones.
    fn seen(&self, who: &str) -> Seen {
        let write = |writer: usize| match self.own[writer] {
            None => 0,
            Some((by, n)) => {
                assert_eq!(by, writer, "{who}: {self:?}");
                n
            }
        };
        let writes: Writes = std::array::from_fn(write);
        for (writer, &n) in writes.iter().enumerate() {
            let third = (n % 2 == 1).then_some((writer, n));
            assert_eq!(
                self.sometimes[writer], third,
                "{who}: half a batch: {self:?}"
            );
        }
        // Every batch writes the shared key: its value is of the last one.
        match self.shared {
            None => assert_eq!(writes, [0; WRITERS], "{who}: half a batch: {self:?}"),
            Some((writer, n)) => assert_eq!(writes[writer], n, "{who}: half a batch: {self:?}"),
        }
        Seen {
            writes,
            last: self.shared,
        }
    }
}

impl Seen {
    /// What a snapshot shows, by point lookups.
    ///
    /// # Panics
    /// If that is not a moment: a batch in part.
    pub fn by_gets(snapshot: &Snapshot, families: [Family; 2], who: &str) -> Seen {
        let get = |cf: CfId, key: &[u8]| snapshot.get(cf, key, parsed).unwrap();
        Seen::of_both(
            families.map(|family| Contents::by_gets(|key| get(family.id, key))),
            who,
        )
    }

    /// What a snapshot shows, by cursors.
    ///
    /// # Panics
    /// As [`Seen::by_gets`].
    pub fn by_cursors(snapshot: &Snapshot, families: [Family; 2], back: bool, who: &str) -> Seen {
        Seen::of_both(
            families.map(|family| Contents::by_cursor(snapshot, family, back).unwrap()),
            who,
        )
    }

    fn of_both([one, other]: [Contents; 2], who: &str) -> Seen {
        assert_eq!(one, other, "{who}: the families differ");
        one.seen(who)
    }
}

/// What a snapshot shows of both families, byte for byte.
///
/// # Panics
/// If it cannot be read.
pub fn bytes_of(snapshot: &Snapshot, families: [Family; 2]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    for family in families {
        let mut cursor = snapshot.cursor(family).unwrap();
        let mut valid = cursor.seek_to_first().unwrap();
        while valid {
            all.push((cursor.key().to_vec(), cursor.value().to_vec()));
            valid = cursor.next().unwrap();
        }
    }
    all
}

/// Looks at a writer's third key now, outside of any snapshot.
///
/// # Panics
/// If it has a number that it never had, or cannot be read.
pub fn check_third(engine: &Engine, family: Family, writer: usize) {
    let found = engine.get(family.id, &sometimes(writer), parsed).unwrap();
    if let Some((by, n)) = found {
        assert!(by == writer && n % 2 == 1, "half a batch of {by}: {n}");
    }
}

/// The number that a writer's own key has now, outside of any snapshot.
///
/// # Panics
/// If it cannot be read.
pub fn own_now(engine: &Engine, family: Family, writer: usize) -> u64 {
    let found = engine.get(family.id, &own(writer), parsed).unwrap();
    found.map_or(0, |(by, n)| {
        assert_eq!(by, writer);
        n
    })
}
