//! Who waits for whom.
//!
//! A transaction waits for one lock at a time, and all that it waits for must end before it goes on. So a circle of
//! waits is a deadlock, and there is none without a circle. Whoever begins to wait, or waits for one more, looks for a
//! circle through himself: the last wait that closes a circle finds it.
//!
//! # The victim
//! The youngest transaction of the circle gives up: the one that began last. So the oldest of all is never a victim, and
//! each transaction becomes the oldest in time.

use std::collections::HashMap;

use crate::life::TxnId;
use crate::locks::wake::Wake;
use crate::sync::{Arc, Mutex, lock};

#[derive(Debug)]
struct Waiting {
    wake: Arc<Wake>,
    /// Sorted: thousands may share what one wants alone, and each that ends changes it.
    for_whom: Vec<TxnId>,
}

/// The graph. Its lock comes behind those of stripes, and before those of verdicts.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    waiting: Mutex<HashMap<TxnId, Waiting>>,
}

impl Graph {
    /// `who` begins to wait. Where that closes a circle, the youngest in it is told to give up; it may be `who`.
    pub fn wait(&self, who: TxnId, wake: &Arc<Wake>, mut for_whom: Vec<TxnId>) {
        for_whom.sort_unstable();
        let mut waiting = lock(&self.waiting);
        let wake = Arc::clone(wake);
        waiting.insert(who, Waiting { wake, for_whom });
        break_circles(&mut waiting, who);
    }

    /// A waiting transaction waits for these now. If there is one more, as for [`Graph::wait`].
    pub fn update(&self, who: TxnId, mut for_whom: Vec<TxnId>) {
        for_whom.sort_unstable();
        let mut waiting = lock(&self.waiting);
        let Some(own) = waiting.get_mut(&who) else {
            return;
        };
        let mut before = own.for_whom.iter();
        let grows = !for_whom.iter().all(|one| before.any(|other| other == one));
        own.for_whom = for_whom;
        if grows {
            break_circles(&mut waiting, who);
        }
    }

    /// It waits no more.
    pub fn done(&self, who: TxnId) {
        lock(&self.waiting).remove(&who);
    }

    /// For whom a transaction waits.
    pub fn blockers(&self, who: TxnId) -> Vec<TxnId> {
        let waiting = lock(&self.waiting);
        let own = waiting.get(&who).map(|waiting| waiting.for_whom.clone());
        own.unwrap_or_default()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        lock(&self.waiting).len()
    }
}

/// Has the youngest of each circle through `who` give up.
fn break_circles(waiting: &mut HashMap<TxnId, Waiting>, who: TxnId) {
    while let Some(circle) = circle_of(waiting, who) {
        let youngest = circle.iter().copied().max().unwrap_or(who);
        // Whoever was granted meanwhile waits no more: his entry is just not taken out yet.
        if let Some(gone) = waiting.remove(&youngest) {
            gone.wake.sacrifice(circle);
        }
    }
}

/// A circle of waits through `who`, beginning with it.
fn circle_of(waiting: &HashMap<TxnId, Waiting>, who: TxnId) -> Option<Vec<TxnId>> {
    // Who led to whom: each is visited once.
    let mut from: HashMap<TxnId, TxnId> = HashMap::new();
    let mut left = vec![who];
    while let Some(at) = left.pop() {
        let next = waiting.get(&at).map_or(&[][..], |w| &w.for_whom);
        for &next in next {
            if next == who {
                let mut circle = vec![at];
                let mut back = at;
                while back != who {
                    back = from[&back];
                    circle.push(back);
                }
                circle.reverse();
                return Some(circle);
            }
            if let std::collections::hash_map::Entry::Vacant(free) = from.entry(next) {
                free.insert(at);
                left.push(next);
            }
        }
    }
    None
}
