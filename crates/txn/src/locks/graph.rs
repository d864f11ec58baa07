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
    for_whom: Vec<TxnId>,
}

/// The graph. Its lock comes behind those of stripes, and before those of verdicts.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    waiting: Mutex<HashMap<TxnId, Waiting>>,
}

impl Graph {
    /// `who` begins to wait. Where that closes a circle, the youngest in it is told to give up; it may be `who`.
    pub fn wait(&self, who: TxnId, wake: &Arc<Wake>, for_whom: Vec<TxnId>) {
        let mut waiting = lock(&self.waiting);
        let wake = Arc::clone(wake);
        waiting.insert(who, Waiting { wake, for_whom });
        break_circles(&mut waiting, who);
    }

    /// A waiting transaction waits for these now. If there is one more, as for [`Graph::wait`].
    pub fn update(&self, who: TxnId, for_whom: Vec<TxnId>) {
        let mut waiting = lock(&self.waiting);
        let Some(own) = waiting.get_mut(&who) else {
            return;
        };
        let grows = for_whom.iter().any(|one| !own.for_whom.contains(one));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn victim(wake: &Wake) -> Option<Vec<TxnId>> {
        match wake.look() {
            crate::locks::wake::Verdict::Victim(circle) => Some(circle),
            _ => None,
        }
    }

    #[test]
    fn the_youngest_of_a_circle_gives_up_and_nobody_else() {
        let graph = Graph::default();
        let wakes: Vec<Arc<Wake>> = (0..5).map(|_| Arc::default()).collect();
        // 1 → 4 → 2 → 1, and 3 and 0 wait for those, outside the circle.
        graph.wait(1, &wakes[1], vec![4]);
        graph.wait(3, &wakes[3], vec![1, 4]);
        graph.wait(4, &wakes[4], vec![2]);
        graph.wait(0, &wakes[0], vec![3]);
        assert!(wakes.iter().all(|wake| victim(wake).is_none()));
        graph.wait(2, &wakes[2], vec![1]);
        let circle = victim(&wakes[4]).unwrap();
        assert_eq!(circle, [2, 1, 4]);
        let others = [0, 1, 2, 3];
        assert!(others.iter().all(|&i| victim(&wakes[i]).is_none()));
        assert_eq!(graph.len(), 4);
        // With it gone there is no circle, until somebody new closes one.
        let again = Arc::default();
        graph.wait(4, &again, vec![]);
        graph.update(4, vec![5]);
        assert_eq!(graph.blockers(4), [5]);
        assert!(victim(&again).is_none());
        graph.update(4, vec![2]);
        assert_eq!(victim(&again).unwrap(), [4, 2, 1]);
    }

    #[test]
    fn several_circles_are_all_broken_and_who_was_granted_counts_for_none() {
        let graph = Graph::default();
        let wakes: Vec<Arc<Wake>> = (0..4).map(|_| Arc::default()).collect();
        graph.wait(2, &wakes[2], vec![1]);
        graph.wait(3, &wakes[3], vec![1]);
        // It has its lock already, and is about to leave.
        assert!(wakes[3].grant());
        graph.wait(1, &wakes[1], vec![2, 3]);
        assert!(victim(&wakes[2]).is_some() && victim(&wakes[3]).is_none());
        assert!(victim(&wakes[1]).is_none());
    }
}
