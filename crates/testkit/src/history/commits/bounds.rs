//! How far one read saw each writer.

use super::versions::{Key, Writer};
use super::{Client, History, Moment, Outcome, Read, Stamp, Write};
use crate::history::Class;

/// The read saw the first `n` commits of a writer, for an `n` from `low` to `high`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub low: u32,
    pub high: u32,
    pub low_why: Why,
    pub high_why: Why,
}

/// What a bound follows from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// There are no other commits.
    End,
    /// Acknowledged before the read began, or begun after it.
    Time,
    /// It had to survive the crash.
    Durable,
    /// What was found at this key.
    Key(u32),
}

/// Why there is no such `n`.
pub(super) type Contradiction = (Class, String);

/// One read, with how far it saw each client.
pub(super) struct Reach<'h> {
    history: &'h History,
    keys: &'h [Key],
    pub bounds: Vec<Bound>,
}

impl<'h> Reach<'h> {
    pub fn new(history: &'h History, keys: &'h [Key]) -> Reach<'h> {
        Reach {
            history,
            keys,
            bounds: Vec::new(),
        }
    }

    /// Narrows the bounds of `read`, which saw `seen`.
    pub fn of(&mut self, read: &Read, seen: &[(u32, Option<Stamp>)]) -> Result<(), Contradiction> {
        self.by_moment(read);
        for &(key, stamp) in seen {
            if let Some(stamp) = stamp {
                self.found(key, stamp)?;
            }
        }
        // Each absence narrows by what the others left.
        loop {
            let before: u64 = self.width();
            for &(key, stamp) in seen {
                if stamp.is_none() {
                    self.absent(key)?;
                }
            }
            if self.width() == before {
                return Ok(());
            }
        }
    }

    fn width(&self) -> u64 {
        let widths = self.bounds.iter().map(|b| u64::from(b.high - b.low));
        widths.sum()
    }

    fn by_moment(&mut self, read: &Read) {
        let clients = self.history.clients.iter().enumerate();
        let bounds = clients.map(|(c, client)| {
            let (low, high, low_why, high_why) = match &read.moment {
                Moment::Live(began, ended) => {
                    let high = match *ended {
                        0 => client.last(),
                        ended => begun_before(client, ended),
                    };
                    (returned_before(client, *began), high, Why::Time, Why::Time)
                }
                Moment::Recovered(at_least) => {
                    let low = at_least.get(c).copied().unwrap_or(0);
                    (
                        low.max(client.before),
                        client.last(),
                        Why::Durable,
                        Why::End,
                    )
                }
            };
            Bound {
                low,
                high,
                low_why,
                high_why,
            }
        });
        self.bounds.clear();
        self.bounds.extend(bounds);
    }

    fn found(&mut self, key: u32, stamp: Stamp) -> Result<(), Contradiction> {
        let nobody = || (Class::Unwritten, format!("key {key} had {stamp}"));
        let client = usize::from(stamp.writer);
        let log = self.history.clients.get(client);
        let known = self.keys.get(key as usize);
        let earlier = log.is_none_or(|log| stamp.number <= log.before);
        if earlier {
            // Of an earlier history: what was there when this one began, or a ghost.
            let known = known.filter(|known| known.initial == Some(stamp));
            for writer in &known.ok_or_else(nobody)?.writers {
                self.before_first(key, writer)?;
            }
            return Ok(());
        }
        let log = log.expect("it is not earlier");
        if stamp.number > log.last() {
            return Err(nobody());
        }
        let puts = log.writes(stamp.number).contains(&Write { key, put: true });
        if !puts {
            return Err(nobody());
        }
        if matches!(log.get(stamp.number).outcome, Outcome::Failed(_)) {
            let story = format!("key {key} had {stamp}, which had failed");
            return Err((Class::AbortedRead, story));
        }
        let known = known.expect("somebody writes it");
        let writer = known.of(client).expect("it writes it");
        if writer.at(stamp.number).is_some_and(|version| !version.put) {
            let story = format!("key {key} had a value of {stamp}, which deletes it at last");
            return Err((Class::IntermediateRead, story));
        }
        self.raise(client, stamp.number, Why::Key(key))?;
        if let Some(next) = writer.next(stamp.number) {
            self.lower(client, next.number - 1, Why::Key(key))?;
        }
        // What others began after its end would have replaced it.
        let Some(ended) = log.get(stamp.number).outcome.acknowledged() else {
            return Ok(());
        };
        for other in known.writers.iter().filter(|w| w.client != client) {
            let begun = begun_before(&self.history.clients[other.client], ended);
            if let Some(next) = other.next(begun) {
                self.lower(other.client, next.number - 1, Why::Key(key))?;
            }
        }
        Ok(())
    }

    fn absent(&mut self, key: u32) -> Result<(), Contradiction> {
        let Some(known) = self.keys.get(key as usize) else {
            return Ok(());
        };
        match &known.writers[..] {
            [] if known.initial.is_none() => Ok(()),
            [] => Err(missing(key)),
            [writer] => self.absent_of_one(key, writer, known.initial.is_none()),
            writers => {
                let deletes = |w: &Writer| w.writes.iter().any(|version| !version.put);
                if writers.iter().any(deletes) {
                    let possible = self.unwritten(known) || self.deletes(known).next().is_some();
                    return if possible { Ok(()) } else { Err(missing(key)) };
                }
                if known.initial.is_some() {
                    return Err(missing(key));
                }
                writers.iter().try_for_each(|w| self.before_first(key, w))
            }
        }
    }

    /// The key has no value: nothing was written yet (if it had none before), or a delete is the last.
    fn absent_of_one(
        &mut self,
        key: u32,
        writer: &Writer,
        empty_before: bool,
    ) -> Result<(), Contradiction> {
        let Bound { low, high, .. } = self.bounds[writer.client];
        let writes = &writer.writes;
        // From the version at `low` on, the first that is none.
        let mut at = writer.up_to(low);
        let gone = |at: usize| match at.checked_sub(1) {
            None => empty_before,
            Some(last) => !writes[last].put,
        };
        if !gone(at) {
            at = (at + 1..=writes.len())
                .find(|&at| gone(at))
                .ok_or_else(|| missing(key))?;
            self.raise(writer.client, writes[at - 1].number, Why::Key(key))?;
        }
        // And from the version at `high` back.
        let at = writer.up_to(high);
        if !gone(at) {
            let last = (0..at)
                .rev()
                .find(|&at| gone(at))
                .ok_or_else(|| missing(key))?;
            self.lower(writer.client, writes[last].number - 1, Why::Key(key))?;
        }
        Ok(())
    }

    /// Whether the read may have seen no write to the key at all.
    fn unwritten(&self, known: &Key) -> bool {
        let none = |w: &Writer| w.up_to(self.bounds[w.client].low) == 0;
        known.initial.is_none() && known.writers.iter().all(none)
    }

    /// The writers whose last write to the key that the read saw may be a delete, and that delete if it
    /// can be only one.
    fn deletes<'k>(
        &'k self,
        known: &'k Key,
    ) -> impl Iterator<Item = (usize, Option<u32>)> + use<'k, 'h> {
        known.writers.iter().filter_map(|writer| {
            let Bound { low, high, .. } = self.bounds[writer.client];
            let from = writer.up_to(low).saturating_sub(1);
            let possible = &writer.writes[from..writer.up_to(high)];
            possible.iter().any(|version| !version.put).then(|| {
                let only = possible.len() == 1 && possible[0].number <= low;
                (writer.client, only.then(|| possible[0].number))
            })
        })
    }

    /// The commit whose write to `key` the read found there, if that is certain.
    pub fn source(&self, key: u32, stamp: Option<Stamp>) -> Option<(usize, u32)> {
        let known = self.keys.get(key as usize)?;
        match stamp {
            Some(stamp) => {
                let client = usize::from(stamp.writer);
                known.of(client)?.at(stamp.number)?;
                Some((client, stamp.number))
            }
            None if self.unwritten(known) => None,
            None => {
                let mut deletes = self.deletes(known);
                let (client, number) = deletes.next()?;
                let only = deletes.next().is_none();
                Some((client, number.filter(|_| only)?))
            }
        }
    }

    fn before_first(&mut self, key: u32, writer: &Writer) -> Result<(), Contradiction> {
        self.lower(writer.client, writer.writes[0].number - 1, Why::Key(key))
    }

    fn raise(&mut self, client: usize, low: u32, why: Why) -> Result<(), Contradiction> {
        let bound = &mut self.bounds[client];
        if low > bound.low {
            (bound.low, bound.low_why) = (low, why);
        }
        self.check(client)
    }

    fn lower(&mut self, client: usize, high: u32, why: Why) -> Result<(), Contradiction> {
        let bound = &mut self.bounds[client];
        if high < bound.high {
            (bound.high, bound.high_why) = (high, why);
        }
        self.check(client)
    }

    fn check(&self, client: usize) -> Result<(), Contradiction> {
        let Bound {
            low,
            high,
            low_why,
            high_why,
        } = self.bounds[client];
        if low <= high {
            return Ok(());
        }
        let writes = |key: u32| {
            let known = self
                .keys
                .get(key as usize)
                .and_then(|known| known.of(client));
            known.is_some_and(|writer| writer.at(low).is_some())
        };
        let class = match (low_why, high_why) {
            (Why::Key(_), Why::Key(key)) if writes(key) => Class::FracturedRead,
            (Why::Key(_), Why::Key(_)) => Class::Gap,
            (Why::Key(_), _) => Class::FutureRead,
            _ => Class::LostWrite,
        };
        let low_story = match low_why {
            Why::Key(key) => format!("was seen at key {key}"),
            Why::Durable => "had to survive".to_string(),
            Why::Time | Why::End => "had been acknowledged".to_string(),
        };
        let high_story = match high_why {
            Why::Key(key) => format!("at key {key} its commit {} was not", high + 1),
            _ => format!("its commit {} had not begun", high + 1),
        };
        let story = format!("commit {low} of client {client} {low_story}, but {high_story}");
        Err((class, story))
    }
}

fn missing(key: u32) -> Contradiction {
    let story = format!("key {key} had no value, which nothing explains");
    (Class::LostWrite, story)
}

/// The last of the client's commits that began before this step.
fn begun_before(client: &Client, step: u64) -> u32 {
    let count = client.commits.partition_point(|commit| commit.began < step);
    client.before + u32::try_from(count).expect("commits are numbered in 32 bits")
}

/// The last of the client's commits that must be over at this step.
fn returned_before(client: &Client, step: u64) -> u32 {
    let begun = begun_before(client, step);
    if begun == client.before {
        return begun;
    }
    let ended = client.get(begun).outcome.returned();
    begun - u32::from(ended.is_none_or(|ended| ended >= step))
}
