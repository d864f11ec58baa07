use crate::life::TxnId;
use crate::locks::entry::Mode;
use crate::locks::graph::{Graph, InTheWay, Wait};
use crate::locks::key::LockKey;
use crate::locks::wake::{Verdict, Wake};
use crate::sync::Arc;

fn victim(wake: &Wake) -> Option<Vec<TxnId>> {
    match wake.look() {
        Verdict::Victim(circle) => Some(circle),
        _ => None,
    }
}

fn key(number: u64) -> LockKey {
    LockKey::new([0, 1], &number.to_be_bytes(), number)
}

/// These hold a key, shared.
fn hold(graph: &Graph, number: u64, holders: impl IntoIterator<Item = TxnId>) {
    let way = InTheWay {
        holders: holders.into_iter().collect(),
        ..InTheWay::default()
    };
    graph.set(&key(number), Some(way));
}

/// One who wants a key alone.
fn alone(number: u64, arrival: u64, ahead: Option<TxnId>) -> Wait {
    Wait {
        key: key(number),
        mode: Mode::Exclusive,
        arrival,
        ahead,
    }
}

/// `who` waits for these: they hold the key of its number.
fn wait(graph: &Graph, who: TxnId, wake: &Arc<Wake>, for_whom: &[TxnId]) {
    hold(graph, who, for_whom.iter().copied());
    graph.wait(who, wake, alone(who, 0, None));
}

#[test]
fn the_youngest_of_a_circle_gives_up_and_nobody_else() {
    let graph = Graph::default();
    let wakes: Vec<Arc<Wake>> = (0..5).map(|_| Arc::default()).collect();
    // 1 → 4 → 2 → 1, and 3 and 0 wait for those, outside the circle.
    wait(&graph, 1, &wakes[1], &[4]);
    wait(&graph, 3, &wakes[3], &[1, 4]);
    wait(&graph, 4, &wakes[4], &[2]);
    wait(&graph, 0, &wakes[0], &[3]);
    assert!(wakes.iter().all(|wake| victim(wake).is_none()));
    wait(&graph, 2, &wakes[2], &[1]);
    let circle = victim(&wakes[4]).unwrap();
    assert_eq!(circle, [2, 1, 4]);
    let others = [0, 1, 2, 3];
    assert!(others.iter().all(|&i| victim(&wakes[i]).is_none()));
    assert_eq!(graph.len(), 4);
    // With it gone there is no circle, until somebody new closes one.
    let again = Arc::default();
    wait(&graph, 4, &again, &[]);
    hold(&graph, 4, [5]);
    assert_eq!(graph.blockers(4), [5]);
    assert!(victim(&again).is_none());
    hold(&graph, 4, [5, 2]);
    assert_eq!(victim(&again).unwrap(), [2, 1, 4]);
}

#[test]
fn several_circles_are_all_broken_and_who_was_granted_counts_for_none() {
    let graph = Graph::default();
    let wakes: Vec<Arc<Wake>> = (0..4).map(|_| Arc::default()).collect();
    wait(&graph, 2, &wakes[2], &[1]);
    wait(&graph, 3, &wakes[3], &[1]);
    // It has its lock already, and is about to leave.
    assert!(wakes[3].grant());
    wait(&graph, 1, &wakes[1], &[2, 3]);
    assert!(victim(&wakes[2]).is_some() && victim(&wakes[3]).is_none());
    assert!(victim(&wakes[1]).is_none());
}

#[test]
fn who_waits_waits_for_holders_earlier_ranges_and_who_is_ahead() {
    let graph = Graph::default();
    let wake = Arc::default();
    let way = |is_alone| InTheWay {
        holders: vec![7],
        is_alone,
        ranges: vec![(5, 10), (9, 11), (12, 2)],
    };
    let shared = |ahead| Wait {
        mode: Mode::Shared,
        ..alone(0, 13, ahead)
    };
    graph.set(&key(0), Some(way(false)));
    graph.wait(1, &wake, alone(0, 7, None));
    graph.wait(2, &wake, alone(0, 20, Some(1)));
    graph.wait(3, &wake, shared(Some(2)));
    graph.wait(7, &wake, alone(0, 11, None));
    assert_eq!(graph.blockers(1), [7, 10]);
    // Not for themselves: one has a range with the key, and one holds it.
    assert_eq!(graph.blockers(2), [1, 7, 10, 11]);
    assert_eq!(graph.blockers(7), [10, 11]);
    // Who wants to read waits for a holder who has it alone.
    assert_eq!(graph.blockers(3), [2]);
    graph.set(&key(0), Some(way(true)));
    assert_eq!(graph.blockers(3), [2, 7]);
    graph.set(&key(0), None);
    assert_eq!(graph.blockers(3), [2]);
    assert!(victim(&wake).is_none());
}

/// Each of two who hold a key waits until the other one has let it go: whoever looks holds the key that it waits for.
#[test]
fn holders_that_want_a_key_alone_are_a_circle() {
    let graph = Graph::default();
    let wakes: Vec<Arc<Wake>> = (0..3).map(|_| Arc::default()).collect();
    hold(&graph, 0, [1, 2]);
    graph.wait(1, &wakes[1], alone(0, 3, None));
    graph.wait(2, &wakes[2], alone(0, 4, Some(1)));
    assert_eq!(victim(&wakes[2]).unwrap(), [2, 1]);
    assert!(victim(&wakes[1]).is_none());
}

/// Many wait for many: to wait at the end costs nothing, a search visits each once, and of a circle through the last one
/// nobody in between is a victim.
#[test]
fn a_search_among_many_who_wait_for_many_visits_each_once() {
    const MANY: u64 = 200;
    let graph = Graph::default();
    // Those who wait are younger than who holds, and the last one is the oldest of them.
    let (last, young) = (MANY + 1, MANY + 2..3 * MANY);
    hold(&graph, 0, 1..=MANY);
    let wakes: Vec<Arc<Wake>> = young.clone().map(|_| Arc::default()).collect();
    let begun = graph.steps();
    for (who, wake) in young.clone().zip(&wakes) {
        let ahead = (who > young.start).then(|| who - 1);
        graph.wait(who, wake, alone(0, who, ahead));
    }
    let wake = Arc::default();
    graph.wait(last, &wake, alone(0, 4 * MANY, Some(3 * MANY - 1)));
    assert!(graph.steps() - begun <= 10);
    // One who has nothing that they want, and for whom another one waits, looks at all of them.
    let others: [Arc<Wake>; 2] = Default::default();
    wait(&graph, 5 * MANY, &others[0], &[5 * MANY + 1]);
    let begun = graph.steps();
    wait(&graph, 5 * MANY + 1, &others[1], &[last]);
    let steps = graph.steps() - begun;
    let few = usize::try_from(20 * MANY).unwrap();
    assert!(steps <= few, "{steps}");
    // One who holds the key closes a circle.
    wait(&graph, 1, &Arc::default(), &[last]);
    assert_eq!(victim(&wake).unwrap(), [1, last]);
    let mut all = wakes.iter().chain(&others);
    assert!(all.all(|wake| victim(wake).is_none()));
}

#[test]
fn one_who_leaves_a_queue_costs_no_search() {
    let graph = Graph::default();
    let wake = Arc::default();
    hold(&graph, 0, [9]);
    graph.wait(1, &wake, alone(0, 1, None));
    for who in 2..=5 {
        graph.wait(who, &wake, alone(0, who, Some(who - 1)));
    }
    let begun = graph.steps();
    graph.follow([(4, Some(2))].into_iter());
    graph.done(3);
    assert!(graph.steps() - begun <= 2);
    assert_eq!(graph.blockers(4), [2, 9]);
    assert_eq!(graph.len(), 4);
}

#[test]
fn who_waits_when_the_graph_is_closed_is_told_and_so_is_who_comes_later() {
    let graph = Graph::default();
    let wakes: Vec<Arc<Wake>> = (0..4).map(|_| Arc::default()).collect();
    wait(&graph, 1, &wakes[1], &[3]);
    wait(&graph, 2, &wakes[2], &[1]);
    assert!(wakes[2].grant());
    graph.close();
    wait(&graph, 3, &wakes[3], &[1]);
    let verdicts = wakes[1..].iter().map(|wake| wake.look());
    let expected = [Verdict::Closed, Verdict::Granted, Verdict::Closed];
    assert!(verdicts.eq(expected));
    assert_eq!(graph.len(), 0);
}
