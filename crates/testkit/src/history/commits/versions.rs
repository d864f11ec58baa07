//! Who wrote a key, and when.

use super::{History, Outcome, Stamp};

/// All writes to one key.
#[derive(Debug, Default)]
pub(super) struct Key {
    /// What it had before the history.
    pub initial: Option<Stamp>,
    pub writers: Vec<Writer>,
}

/// The writes of one client to one key, in order, but for those that failed.
#[derive(Debug)]
pub(super) struct Writer {
    pub client: usize,
    pub writes: Vec<Version>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Version {
    /// Of the commit.
    pub number: u32,
    pub put: bool,
}

impl Writer {
    /// How many of the writes are among the first `number` commits.
    pub fn up_to(&self, number: u32) -> usize {
        self.writes
            .partition_point(|version| version.number <= number)
    }

    /// The last write among the first `number` commits.
    pub fn last(&self, number: u32) -> Option<Version> {
        Some(self.writes[self.up_to(number).checked_sub(1)?])
    }

    /// The first write behind the first `number` commits.
    pub fn next(&self, number: u32) -> Option<Version> {
        self.writes.get(self.up_to(number)).copied()
    }

    /// The write of this very commit.
    pub fn at(&self, number: u32) -> Option<Version> {
        self.last(number).filter(|version| version.number == number)
    }
}

impl Key {
    pub fn of(&self, client: usize) -> Option<&Writer> {
        self.writers.iter().find(|writer| writer.client == client)
    }
}

/// The keys of a history, by number.
pub(super) fn keys(history: &History) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    let mut key_of = |key: u32, act: &mut dyn FnMut(&mut Key)| {
        let key = key as usize;
        if keys.len() <= key {
            keys.resize_with(key + 1, Key::default);
        }
        act(&mut keys[key]);
    };
    for (&key, &stamp) in &history.initial {
        key_of(key, &mut |key| key.initial = Some(stamp));
    }
    for (client, log) in history.clients.iter().enumerate() {
        for number in log.before + 1..=log.last() {
            if matches!(log.get(number).outcome, Outcome::Failed(_)) {
                continue;
            }
            for write in log.writes(number) {
                let version = Version {
                    number,
                    put: write.put,
                };
                key_of(write.key, &mut |key| add(key, client, version));
            }
        }
    }
    keys
}

fn add(key: &mut Key, client: usize, version: Version) {
    let at = key
        .writers
        .iter()
        .position(|writer| writer.client == client);
    let at = at.unwrap_or_else(|| {
        let writes = Vec::new();
        key.writers.push(Writer { client, writes });
        key.writers.len() - 1
    });
    let writes = &mut key.writers[at].writes;
    match writes.last_mut() {
        // Twice in one batch.
        Some(last) if last.number == version.number => *last = version,
        _ => writes.push(version),
    }
}
