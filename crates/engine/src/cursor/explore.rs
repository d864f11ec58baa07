//! Cursors of the background, which step over deleted keys before readers come there.
//!
//! A cursor that steps over a million deleted keys notes a gap (`gaps`), and the next one passes it. So that no reader is the first,
//! every so many deletes a key that was deleted is kept as a *probe*, and the first key of each range that was. A worker seeks it soon
//! after, in both directions, up to the next key with a value. What it steps over is a gap then, and where whole tables lie in it they go (`compact::deleted`).
//!
//! # What it costs
//! Each deleted key is stepped over once or twice, since gaps are passed, in pieces of [`EXPLORE_STEPS`]: a worker gives way to other tasks
//! between two of them. Where gaps cannot be noted (no DRAM is left, or writers hold their lock all the time) the same keys would be
//! stepped over again and again; so each delete pays for few steps, and who has used them up stops. Keys in random order meet keys
//! with values until few are left; so it looks once more when the store is idle.

use std::collections::VecDeque;

use thermocline_base::CfId;
use thermocline_memtable::Direction;
use thermocline_policy::tuning::{
    EXPLORE_EVERY, EXPLORE_PROBES, EXPLORE_STEPS, EXPLORE_STEPS_A_DELETE,
};

use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// Where to look for deleted keys, and how long.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    keys: Mutex<VecDeque<(CfId, Vec<u8>)>>,
    /// Deletes ever counted when it was last looked. Relaxed, as the next: they guard nothing.
    seen: AtomicU64,
    /// Steps that are left.
    steps: AtomicU64,
}

impl Probes {
    /// `more` deletes were counted after `before` others, `key` the last of them. Returns whether it is time to look.
    pub fn deleted(&self, (before, more): (u64, u64), cf: CfId, key: &[u8]) -> bool {
        if before / EXPLORE_EVERY == (before + more) / EXPLORE_EVERY {
            return false;
        }
        self.keep(cf, key);
        true
    }

    /// A range of keys from `key` on was deleted, in a memtable of so many records: those that it hides there are stepped over, too.
    pub fn range_deleted(&self, cf: CfId, key: &[u8], records: u64) {
        let steps = records.saturating_mul(EXPLORE_STEPS_A_DELETE);
        self.steps.fetch_max(steps, Ordering::Relaxed);
        self.keep(cf, key);
    }

    fn keep(&self, cf: CfId, key: &[u8]) {
        let mut keys = lock(&self.keys);
        if keys.len() == EXPLORE_PROBES {
            keys.pop_front();
        }
        keys.push_back((cf, key.to_vec()));
    }

    /// `all` deletes were counted: those since the last call pay for steps. Returns whether there are some.
    pub fn pay(&self, all: u64) -> bool {
        let since = all.saturating_sub(self.seen.swap(all, Ordering::Relaxed));
        let steps = since.saturating_mul(EXPLORE_STEPS_A_DELETE);
        self.steps.fetch_add(steps, Ordering::Relaxed) + steps > 0
    }

    /// Looks at each probe, as far as there are steps. `explore` steps over deleted keys from a key of a family on, at most so many, and
    /// returns how many they were. Returns whether there is more to look at.
    pub fn look(&self, explore: impl Fn(CfId, &[u8], Direction, u64) -> u64) -> bool {
        let keys: Vec<(CfId, Vec<u8>)> = lock(&self.keys).iter().cloned().collect();
        let mut more = false;
        for (cf, key) in keys {
            for direction in [Direction::Forward, Direction::Reverse] {
                let left = self.steps.load(Ordering::Relaxed);
                let most = left.min(EXPLORE_STEPS);
                let stepped = explore(cf, &key, direction, most);
                self.steps.fetch_sub(stepped.min(left), Ordering::Relaxed);
                more |= stepped > 0 && stepped >= most;
            }
        }
        let is_paid = self.steps.load(Ordering::Relaxed) > 0;
        if !more {
            self.steps.store(0, Ordering::Relaxed);
        }
        more && is_paid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CF: CfId = CfId::DEFAULT;

    #[test]
    fn deletes_pay_for_steps_and_who_finds_no_end_stops() {
        let probes = Probes::default();
        assert!(!probes.deleted((0, EXPLORE_EVERY - 1), CF, b"a"));
        assert!(!probes.pay(0));
        assert!(probes.deleted((EXPLORE_EVERY - 1, 1), CF, b"b"));
        assert!(probes.pay(10 * EXPLORE_EVERY));
        // One that steps over the same again and again.
        let mut rounds = 0;
        while probes.look(|_, key, _, most| {
            assert_eq!(key, b"b");
            most
        }) {
            rounds += 1;
        }
        assert!(rounds < 10, "{rounds}");
        assert!(!probes.pay(10 * EXPLORE_EVERY));
        // One that comes to an end has no steps left for another time.
        assert!(probes.pay(20 * EXPLORE_EVERY));
        assert!(!probes.look(|_, _, _, _| 3));
        assert!(!probes.pay(20 * EXPLORE_EVERY));
    }

    #[test]
    fn the_last_probes_are_kept() {
        let probes = Probes::default();
        for n in 0..20u8 {
            probes.range_deleted(CF, &[n], 5);
        }
        let seen = Mutex::new(Vec::new());
        assert!(!probes.look(|_, key, _, _| {
            lock(&seen).push(key[0]);
            0
        }));
        let mut seen = lock(&seen).clone();
        seen.dedup();
        assert_eq!(seen, (12..20).collect::<Vec<u8>>());
    }
}
