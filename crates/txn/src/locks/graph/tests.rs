use crate::life::TxnId;
use crate::locks::graph::Graph;
use crate::locks::wake::{Verdict, Wake};
use crate::sync::Arc;

fn victim(wake: &Wake) -> Option<Vec<TxnId>> {
    match wake.look() {
        Verdict::Victim(circle) => Some(circle),
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
