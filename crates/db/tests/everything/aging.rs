//! A family whose entries expire, in some of the histories on simulated machines: the calendar is set ahead there.
//!
//! What has expired may go or stay, and the model cannot say which. So whoever begins to read looks first: what is
//! missing must have expired, what is left of a value must be its newest parts, and from then on that is what the
//! model has. What was missing once may not come back, as long as nobody crashes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::history::History;
use crate::reading::{Ages, Content, head};

/// Its name. It is dropped and made again as others are.
pub const AGING: &str = "one";

/// When histories begin, in seconds.
pub const BEGIN: u64 = 10 * TTL;

/// In seconds: so many that no work on a simulated machine takes a noticeable part of them.
const TTL: u64 = 10_000_000;

/// What is that near its end may go.
const NEAR: u64 = TTL / 100;

/// The family's TTL in a history with this seed; 0 if it has none. No seed that found something else has one.
pub fn ttl(seed: u64) -> u64 {
    match seed % 8 == 5 || seed % 32 == 19 {
        true => TTL,
        false => 0,
    }
}

impl History {
    /// Ages of what is in a family that was just made.
    pub fn ages_of(&self, name: &str) -> Ages {
        let ttl = if name == AGING { self.ttl } else { 0 };
        Ages {
            time: self.calendar,
            ttl,
            ..Ages::default()
        }
    }

    /// Time passes: a little of it, much, or more than anything lives. Mostly it was noted before what was written until
    /// then, and often nobody reads who would keep a compaction from removing what has expired.
    pub fn grow_old(&mut self) {
        self.sync();
        if !self.rng.one_in(4) {
            let done = self.db().flush();
            self.fits(done);
        }
        self.calendar += *self.rng.pick(&[TTL / 50, TTL / 2, TTL + 1, TTL + 1]);
        self.tell(format!("it is {}", self.calendar));
        self.machine.set_calendar(self.calendar);
        for (_, content) in &mut self.now {
            content.ages.time = self.calendar;
        }
        if !self.rng.one_in(3) {
            self.readers_go();
            let done = match self.db().find_column_family(AGING) {
                Some(family) => family.compact::<&[u8]>(..),
                None => self.db().drain(),
            };
            self.fits(done);
        }
    }

    /// The model goes by what has gone.
    pub fn see_what_has_gone(&mut self) {
        let Some(i) = self
            .now
            .iter()
            .position(|(_, content)| content.ages.ttl > 0)
        else {
            return;
        };
        let family = self.db().find_column_family(AGING).expect("it was made");
        let found: BTreeMap<Vec<u8>, Vec<u8>> = family
            .iter()
            .map(|entry| entry.unwrap())
            .map(|(key, value)| (key, value.to_vec()))
            .collect();
        let content = &mut self.now[i].1;
        let keys: BTreeSet<&Vec<u8>> = found.keys().chain(content.map.keys()).collect();
        for key in &keys {
            let found = found.get(*key).map(Vec::as_slice);
            assert!(
                may_be(content, key, found),
                "{} is {:?}, and must be {:?}, whose parts are of {:?}; it is {}",
                head(key),
                found.map(head),
                content.map.get(*key).map(|value| head(value)),
                content.ages.parts.get(*key),
                content.ages.time,
            );
        }
        let before: usize = content.map.values().map(Vec::len).sum::<usize>() + content.map.len();
        let after: usize = found.values().map(Vec::len).sum::<usize>() + found.len();
        let parts = Arc::make_mut(&mut content.ages.parts);
        for (key, value) in &found {
            let parts = parts.get_mut(key).expect("it was written");
            while parts.iter().map(|(_, len)| len).sum::<usize>() > value.len() {
                parts.remove(0);
            }
        }
        content.map = Arc::new(found);
        self.gone += before - after;
    }
}

/// Whether a key may have this value: all of it, or, if the oldest parts have expired, the others.
pub fn may_be(content: &Content, key: &[u8], found: Option<&[u8]>) -> bool {
    let expected = content.map.get(key).map(Vec::as_slice);
    if found == expected {
        return true;
    }
    let (Some(expected), Some(parts)) = (expected, content.ages.parts.get(key)) else {
        return false;
    };
    let Ages { time, ttl, .. } = content.ages;
    let expired = parts.iter().take_while(|(of, _)| of + ttl <= time + NEAR);
    let expired = expired.count();
    let Some(found) = found else {
        return expired == parts.len();
    };
    let left = |gone: usize| parts[gone..].iter().map(|(_, len)| len).sum::<usize>();
    let mut left = (1..=expired.min(parts.len() - 1)).map(left);
    expected.ends_with(found) && left.any(|len| len == found.len())
}
