//! Hand-made histories with each anomaly and without, and drawn ones against a search of all orders.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::history::serial::{Choices, Effect, Operation, explains};
use crate::history::{Class, CycleKind, Order};

fn put(key: u32) -> Write {
    Write { key, put: true }
}

fn stamp(writer: u16, number: u32) -> Option<Stamp> {
    Some(Stamp { writer, number })
}

/// A history of three clients, of whom only what is told differs.
struct Made(Vec<Client>);

impl Made {
    fn new() -> Made {
        Made((0..3).map(|writer| Client::new(writer, 0)).collect())
    }

    fn commit(mut self, client: usize, steps: (u64, u64), writes: &[Write]) -> Made {
        self.0[client].commit(steps.0, writes.iter().copied());
        self.0[client].end(Outcome::Acknowledged(steps.1));
        self
    }

    fn ends(mut self, client: usize, outcome: Outcome) -> Made {
        self.0[client].end(outcome);
        self
    }

    fn read(mut self, client: usize, steps: (u64, u64), saw: &[(u32, Option<Stamp>)]) -> Made {
        let read = self.0[client].read(steps.0);
        self.0[client].moment(read, steps.1);
        for &(key, stamp) in saw {
            self.0[client].saw(read, key, stamp);
        }
        self
    }

    fn recovered(mut self, at_least: Vec<u32>, saw: &[(u32, Option<Stamp>)]) -> Made {
        let read = self.0[2].recovered(at_least);
        for &(key, stamp) in saw {
            self.0[2].saw(read, key, stamp);
        }
        self
    }

    fn history(self) -> History {
        History {
            clients: self.0,
            ..History::default()
        }
    }

    fn classes(self) -> Vec<Class> {
        let report = check(&self.history());
        assert_eq!(report.found, report.anomalies.len() as u64);
        report.anomalies.into_iter().map(|a| a.class).collect()
    }

    fn passes(self) {
        assert_eq!(self.classes(), []);
    }

    fn has(self, class: Class) {
        assert_eq!(self.classes(), [class]);
    }
}

#[test]
fn what_a_store_may_answer_passes() {
    // Overlapping: seen or not. Acknowledged: seen. A held snapshot: as it was.
    let base = || Made::new().commit(0, (1, 10), &[put(1), put(2)]);
    base().read(1, (2, 3), &[(1, None), (2, None)]).passes();
    let both = [(1, stamp(0, 1)), (2, stamp(0, 1))];
    base().read(1, (2, 3), &both).passes();
    base().read(1, (11, 12), &both).passes();
    base()
        .read(1, (9, 12), &[(1, stamp(0, 1)), (1, stamp(0, 1))])
        .passes();
    // Writers of one key in either order, as long as all agree.
    let two = || base().commit(1, (2, 9), &[put(1), put(3)]);
    two()
        .read(
            2,
            (11, 12),
            &[(1, stamp(1, 1)), (2, stamp(0, 1)), (3, stamp(1, 1))],
        )
        .passes();
    two()
        .read(
            2,
            (11, 12),
            &[(1, stamp(0, 1)), (2, stamp(0, 1)), (3, stamp(1, 1))],
        )
        .passes();
    // Deletes.
    let gone = || base().commit(0, (11, 20), &[Write { key: 1, put: false }]);
    gone()
        .read(1, (21, 22), &[(1, None), (2, stamp(0, 1))])
        .passes();
    gone()
        .read(1, (12, 13), &[(1, None), (2, stamp(0, 1))])
        .passes();
    gone().read(1, (12, 13), &both).passes();
    // In flight for ever, and failed.
    base()
        .ends(0, Outcome::Unknown)
        .read(1, (90, 91), &both)
        .passes();
    base()
        .ends(0, Outcome::Unknown)
        .read(1, (90, 91), &[(1, None), (2, None)])
        .passes();
    base()
        .ends(0, Outcome::Failed(12))
        .read(1, (90, 91), &[(1, None), (2, None)])
        .passes();
}

#[test]
fn each_anomaly_is_found_and_named() {
    let base = || Made::new().commit(0, (1, 2), &[put(1), put(2)]);
    let again = || base().commit(0, (5, 10), &[put(1), put(2)]);
    base()
        .read(1, (3, 4), &[(7, stamp(0, 1))])
        .has(Class::Unwritten);
    base()
        .read(1, (3, 4), &[(1, stamp(0, 9))])
        .has(Class::Unwritten);
    base()
        .read(1, (3, 4), &[(1, stamp(9, 1))])
        .has(Class::Unwritten);
    let failed = base()
        .commit(0, (3, 4), &[put(1)])
        .ends(0, Outcome::Failed(12));
    failed
        .read(1, (5, 6), &[(1, stamp(0, 2))])
        .has(Class::AbortedRead);
    let twice = [put(1), Write { key: 1, put: false }];
    let twice = Made::new().commit(0, (1, 4), &twice);
    twice
        .read(1, (2, 3), &[(1, stamp(0, 1))])
        .has(Class::IntermediateRead);
    let half = [(1, stamp(0, 2)), (2, stamp(0, 1))];
    again().read(1, (6, 7), &half).has(Class::FracturedRead);
    let gap = again().commit(0, (11, 20), &[put(3)]);
    gap.read(1, (6, 13), &[(3, stamp(0, 3)), (1, stamp(0, 1))])
        .has(Class::Gap);
    base().read(1, (3, 4), &[(1, None)]).has(Class::LostWrite);
    again()
        .read(1, (11, 12), &[(2, stamp(0, 1))])
        .has(Class::LostWrite);
    again()
        .read(1, (3, 4), &[(2, stamp(0, 2))])
        .has(Class::FutureRead);
    let two_answers = [(1, stamp(0, 1)), (1, stamp(0, 2))];
    again()
        .read(1, (6, 7), &two_answers)
        .has(Class::Unrepeatable);
    // Nobody deleted it at last.
    Made::new()
        .commit(0, (1, 2), &[put(1)])
        .commit(1, (3, 4), &[Write { key: 1, put: false }])
        .commit(1, (5, 6), &[put(1)])
        .read(2, (7, 8), &[(1, None)])
        .has(Class::LostWrite);
    // A delete that did not happen, and one that nobody made.
    let gone = || base().commit(0, (5, 6), &[Write { key: 1, put: false }]);
    gone()
        .read(1, (7, 8), &[(1, stamp(0, 1))])
        .has(Class::LostWrite);
    gone().read(1, (7, 8), &[(2, None)]).has(Class::LostWrite);
}

#[test]
fn orders_that_cannot_be_are_cycles() {
    let single = |order| Class::Cycle(CycleKind::GSingle, order);
    let two = || {
        Made::new()
            .commit(0, (1, 9), &[put(1)])
            .commit(1, (2, 10), &[put(2)])
    };
    // A long fork: two reads disagree on which came first.
    two()
        .read(2, (3, 4), &[(1, stamp(0, 1)), (2, None)])
        .read(2, (5, 6), &[(1, stamp(0, 1)), (2, stamp(1, 1))])
        .passes();
    let mut fork = two().read(2, (3, 20), &[(1, stamp(0, 1)), (2, None)]);
    fork.0.push(Client::new(3, 0));
    let fork = fork.read(3, (3, 20), &[(2, stamp(1, 1)), (1, None)]);
    fork.has(Class::Cycle(CycleKind::GNonadjacent, Order::Data));
    // A client that goes back in time.
    two()
        .read(2, (3, 4), &[(1, stamp(0, 1))])
        .read(2, (5, 6), &[(1, None)])
        .has(single(Order::RealTime));
    // The cause is missing: client 1 wrote after client 0 was acknowledged.
    Made::new()
        .commit(0, (2, 3), &[put(1)])
        .commit(1, (4, 20), &[put(2)])
        .read(2, (1, 19), &[(2, stamp(1, 1)), (1, None)])
        .has(single(Order::RealTime));
    // Two batches, of which each replaced the other.
    let all = [put(1), put(2)];
    Made::new()
        .commit(0, (1, 9), &[&all[..], &[put(3)]].concat())
        .commit(1, (2, 10), &[&all[..], &[put(4)]].concat())
        .read(
            2,
            (11, 12),
            &[
                (1, stamp(0, 1)),
                (2, stamp(1, 1)),
                (3, stamp(0, 1)),
                (4, stamp(1, 1)),
            ],
        )
        .has(Class::Cycle(CycleKind::G0, Order::Data));
    // A write to a shared key that was acknowledged before another began comes back.
    Made::new()
        .commit(0, (1, 2), &[put(1)])
        .commit(1, (3, 4), &[put(1)])
        .read(2, (5, 6), &[(1, stamp(0, 1))])
        .has(Class::LostWrite);
}

#[test]
fn a_crash_takes_from_the_end_only() {
    // Two writers; client 1 began its commit after the first of client 0 was acknowledged.
    let base = || {
        Made::new()
            .commit(0, (1, 2), &[put(1)])
            .commit(1, (3, 4), &[put(2)])
            .commit(0, (5, 6), &[put(1)])
    };
    let saw = |first, second| [(1, first), (2, second)];
    base().recovered(vec![0, 0], &saw(None, None)).passes();
    base()
        .recovered(vec![0, 0], &saw(stamp(0, 1), None))
        .passes();
    base()
        .recovered(vec![0, 0], &saw(stamp(0, 1), stamp(1, 1)))
        .passes();
    base()
        .recovered(vec![2, 1], &saw(stamp(0, 2), stamp(1, 1)))
        .passes();
    let gap = Class::Cycle(CycleKind::GSingle, Order::RealTime);
    base()
        .recovered(vec![0, 0], &saw(None, stamp(1, 1)))
        .has(gap);
    base()
        .recovered(vec![0, 0], &saw(stamp(0, 2), None))
        .has(gap);
    // What was durable.
    base()
        .recovered(vec![1, 0], &saw(None, None))
        .has(Class::LostWrite);
    base()
        .recovered(vec![0, 1], &saw(None, stamp(1, 1)))
        .has(gap);
}

#[test]
fn what_an_earlier_history_left_is_seen_until_it_is_replaced() {
    let mut client = Client::new(0, 7);
    client.commit(1, [put(1)]);
    client.end(Outcome::Acknowledged(2));
    let history = |saw: &[(u32, Option<Stamp>)], steps: (u64, u64)| {
        let mut client = client.clone();
        let read = client.read(steps.0);
        client.moment(read, steps.1);
        for &(key, stamp) in saw {
            client.saw(read, key, stamp);
        }
        let initial = [(1, stamp(0, 6).unwrap()), (2, stamp(0, 3).unwrap())];
        let report = check(&History {
            clients: vec![client],
            initial: initial.into(),
        });
        report.anomalies.first().map(|a| a.class)
    };
    assert_eq!(history(&[(1, stamp(0, 8)), (2, stamp(0, 3))], (3, 4)), None);
    assert_eq!(history(&[(1, stamp(0, 6))], (3, 4)), Some(Class::LostWrite));
    assert_eq!(history(&[(1, stamp(0, 5))], (3, 4)), Some(Class::Unwritten));
    assert_eq!(history(&[(2, stamp(0, 2))], (3, 4)), Some(Class::Unwritten));
    assert_eq!(history(&[(2, None)], (3, 4)), Some(Class::LostWrite));
    assert_eq!(history(&[(3, stamp(0, 3))], (3, 4)), Some(Class::Unwritten));
}

#[test]
fn stamps_go_through_bytes() {
    for stamp in [stamp(0, 1), stamp(65_535, u32::MAX), stamp(3, 1 << 20)] {
        assert_eq!(Stamp::from_bytes(&stamp.unwrap().to_bytes()), stamp);
    }
    assert_eq!(Stamp::from_bytes(b"short"), None);
    assert_eq!(Stamp::from_bytes(b"a long text"), None);
}

/// Which histories are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Keys have one writer each and are not deleted; reads see some of them.
    Own,
    /// Keys have all writers; every commit also sets its writer's own key, and reads see all keys.
    Shared,
    /// Keys have all writers, deletes; reads see some of them.
    Any,
}

const CLIENTS: usize = 3;
const KEYS: usize = 4;

type State = BTreeMap<u32, Stamp>;

/// What a client is in the midst of: its call has begun, or has taken effect.
enum Doing {
    Nothing,
    Commit(Vec<Write>, bool),
    Read(ReadId, bool),
}

/// A history of a store that does one thing after the other.
fn draw(mode: Mode, choices: &mut Choices) -> History {
    let mut clients: Vec<Client> = (0..3).map(|writer| Client::new(writer, 0)).collect();
    let mut doing: Vec<Doing> = (0..CLIENTS).map(|_| Doing::Nothing).collect();
    let mut state = State::new();
    let (mut step, mut operations) = (0, 0);
    while choices.left() {
        step += 1;
        let c = choices.below(CLIENTS);
        let client = &mut clients[c];
        doing[c] = match std::mem::replace(&mut doing[c], Doing::Nothing) {
            Doing::Nothing if operations == 9 => break,
            Doing::Nothing if choices.one_in(2) => {
                operations += 1;
                Doing::Read(client.read(step), false)
            }
            Doing::Nothing => {
                operations += 1;
                let writes = draw_writes(mode, c, choices);
                client.commit(step, writes.iter().copied());
                if choices.one_in(12) {
                    step += 1;
                    client.end(Outcome::Failed(step));
                    Doing::Nothing
                } else {
                    Doing::Commit(writes, false)
                }
            }
            Doing::Commit(writes, false) => {
                let stamp = Stamp {
                    writer: u16::try_from(c).unwrap(),
                    number: client.last(),
                };
                for write in &writes {
                    match write.put {
                        true => state.insert(write.key, stamp),
                        false => state.remove(&write.key),
                    };
                }
                Doing::Commit(writes, true)
            }
            Doing::Commit(_, true) => {
                client.end(Outcome::Acknowledged(step));
                Doing::Nothing
            }
            Doing::Read(read, false) => {
                for key in 0..u32::try_from(KEYS + CLIENTS).unwrap() {
                    if mode == Mode::Shared || choices.one_in(2) {
                        client.saw(read, key, state.get(&key).copied());
                    }
                }
                Doing::Read(read, true)
            }
            Doing::Read(read, true) => {
                client.moment(read, step);
                Doing::Nothing
            }
        };
    }
    History {
        clients,
        ..History::default()
    }
}

fn draw_writes(mode: Mode, client: usize, choices: &mut Choices) -> Vec<Write> {
    let small = |n: usize| u32::try_from(n).unwrap();
    let mut writes = Vec::new();
    for _ in 0..1 + choices.below(3) {
        let key = match mode {
            Mode::Own => client + CLIENTS * choices.below(2),
            Mode::Shared | Mode::Any => choices.below(KEYS),
        };
        let put = mode != Mode::Any || !choices.one_in(3);
        writes.push(Write {
            key: small(key),
            put,
        });
    }
    if mode == Mode::Shared {
        writes.push(put(small(KEYS + client)));
    }
    writes
}

/// Makes reads wrong: what one saw goes to another, or becomes something else.
fn spoil(history: &mut History, choices: &mut Choices) {
    for _ in 0..1 + choices.below(2) {
        let c = choices.below(CLIENTS);
        let count = history.clients[c].seen.len();
        if count == 0 {
            continue;
        }
        let i = choices.below(count);
        let key = history.clients[c].seen[i].key;
        // Some other answer for that key.
        let seen = history.clients.iter().flat_map(|client| &client.seen);
        let seen = seen.filter(|seen| seen.key == key).map(|seen| seen.stamp);
        let written = history.clients.iter().flat_map(|client| {
            (client.before + 1..=client.last()).filter_map(move |number| {
                let writes = client.writes(number).iter().any(|write| write.key == key);
                writes.then_some(Some(Stamp {
                    writer: client.writer,
                    number,
                }))
            })
        });
        let now = history.clients[c].seen[i].stamp;
        let others: Vec<_> = seen
            .chain(written)
            .chain([None])
            .filter(|&s| s != now)
            .collect();
        if others.is_empty() {
            continue;
        }
        let other = others[choices.below(others.len())];
        history.clients[c].seen[i].stamp = other;
    }
}

/// The same history for the search of all orders.
fn operations(history: &History) -> Vec<Operation<State>> {
    let mut all = Vec::new();
    for client in &history.clients {
        for number in client.before + 1..=client.last() {
            let commit = client.get(number);
            let writes = client.writes(number).to_vec();
            let stamp = Stamp {
                writer: client.writer,
                number,
            };
            let happens: Effect<State> = Box::new(move |state| {
                for write in &writes {
                    match write.put {
                        true => state.insert(write.key, stamp),
                        false => state.remove(&write.key),
                    };
                }
                true
            });
            let nothing: Effect<State> = Box::new(|_| true);
            all.push(Operation {
                began: commit.began,
                ended: commit.outcome.returned(),
                effects: match commit.outcome {
                    Outcome::Acknowledged(_) => vec![happens],
                    Outcome::Failed(_) => vec![nothing],
                    Outcome::Unknown => vec![happens, nothing],
                },
            });
        }
        for (r, read) in client.reads.iter().enumerate() {
            let Moment::Live(began, ended) = read.moment else {
                panic!("none is recovered")
            };
            let seen: Vec<Seen> = client
                .seen
                .iter()
                .copied()
                .filter(|s| s.read.0 as usize == r)
                .collect();
            let fits: Effect<State> = Box::new(move |state| {
                seen.iter()
                    .all(|seen| state.get(&seen.key).copied() == seen.stamp)
            });
            all.push(Operation {
                began,
                ended: (ended > 0).then_some(ended),
                effects: vec![fits],
            });
        }
    }
    all
}

fn choices() -> impl Strategy<Value = Choices> {
    proptest::collection::vec(any::<u32>(), 0..160).prop_map(|v| Choices(v.into_iter()))
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Own), Just(Mode::Shared), Just(Mode::Any)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_thing_after_the_other_always_passes(mode in mode(), mut choices in choices()) {
        let history = draw(mode, &mut choices);
        let report = check(&history);
        prop_assert!(report.found == 0, "{report}{history:#?}");
    }

    #[test]
    fn what_is_found_is_wrong_and_what_is_wrong_is_found(
        mode in mode(),
        mut choices in choices(),
        spoiling in proptest::collection::vec(any::<u32>(), 0..12),
    ) {
        let mut history = draw(mode, &mut choices);
        spoil(&mut history, &mut Choices(spoiling.into_iter()));
        let report = check(&history);
        let sound = explains(&operations(&history), State::new());
        if report.found > 0 {
            prop_assert!(!sound, "found, though there is an order: {report}{history:#?}");
        } else if mode != Mode::Any {
            prop_assert!(sound, "not found, though there is no order: {history:#?}");
        }
    }
}
