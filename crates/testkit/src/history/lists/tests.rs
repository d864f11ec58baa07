//! Hand-made histories with each anomaly and without, and drawn ones against a search of all orders.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::history::serial::{Choices, Effect, Operation, explains};
use crate::history::{Class, CycleKind, Order};

/// What a transaction does to one key: the list that it read, and what it appended.
type Part<'a> = (u32, &'a [u64], &'a [u64]);

/// A history of four clients.
struct Made(Vec<Client>);

impl Made {
    fn new() -> Made {
        Made(vec![Client::default(); 4])
    }

    fn txn(self, client: usize, steps: (u64, u64), parts: &[Part<'_>]) -> Made {
        self.ended(client, steps.0, Outcome::Acknowledged(steps.1), parts)
    }

    fn ended(mut self, c: usize, began: u64, outcome: Outcome, parts: &[Part<'_>]) -> Made {
        let client = &mut self.0[c];
        let txn = client.begin(began);
        for &(key, list, elements) in parts {
            client.read(txn, key, list);
            for &element in elements {
                client.append(txn, key, element);
            }
        }
        client.end(txn, outcome);
        self
    }

    fn classes(self) -> Vec<Class> {
        let report = check(&self.0);
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

/// One transaction that puts 1 into key 1 and 2 into key 2.
fn base() -> Made {
    Made::new().txn(0, (1, 10), &[(1, &[], &[1]), (2, &[], &[2])])
}

#[test]
fn what_a_store_may_answer_passes() {
    base()
        .txn(1, (2, 3), &[(1, &[], &[]), (2, &[], &[])])
        .passes();
    base()
        .txn(1, (2, 3), &[(1, &[1], &[]), (2, &[2], &[])])
        .passes();
    base()
        .txn(1, (11, 20), &[(1, &[1], &[3, 4])])
        .txn(2, (12, 13), &[(1, &[1], &[]), (2, &[2], &[])])
        .txn(3, (14, 30), &[(1, &[1, 3, 4], &[5])])
        .passes();
    // Failed, or in flight for ever.
    for outcome in [Outcome::Failed(12), Outcome::Unknown] {
        base()
            .ended(1, 11, outcome, &[(1, &[1], &[3])])
            .txn(2, (50, 51), &[(1, &[1], &[])])
            .passes();
    }
    base()
        .ended(1, 11, Outcome::Unknown, &[(1, &[1], &[3])])
        .txn(2, (50, 51), &[(1, &[1, 3], &[])])
        .passes();
}

#[test]
fn each_anomaly_is_found_and_named() {
    base()
        .txn(1, (11, 12), &[(1, &[1, 9], &[])])
        .has(Class::Unwritten);
    base()
        .txn(1, (11, 12), &[(1, &[1, 2], &[])])
        .has(Class::Unwritten);
    base()
        .ended(1, 11, Outcome::Failed(12), &[(1, &[1], &[3])])
        .txn(2, (12, 13), &[(1, &[1, 3], &[])])
        .has(Class::AbortedRead);
    let twice = Made::new().txn(0, (1, 10), &[(1, &[], &[1, 2])]);
    let classes = twice.txn(1, (2, 3), &[(1, &[1], &[])]).classes();
    assert_eq!(classes[0], Class::IntermediateRead);
    base()
        .txn(1, (11, 12), &[(1, &[1, 1], &[])])
        .has(Class::Duplicate);
    let classes = base()
        .txn(1, (2, 40), &[(1, &[], &[3])])
        .txn(2, (3, 30), &[(1, &[3], &[])])
        .txn(3, (11, 20), &[(1, &[1], &[])])
        .classes();
    assert_eq!(classes[0], Class::Divergent);
    base()
        .txn(1, (11, 20), &[(1, &[1], &[3])])
        .txn(2, (12, 21), &[(1, &[1], &[4])])
        .has(Class::LostUpdate);
}

#[test]
fn cycles_have_their_names() {
    let data = |kind| Class::Cycle(kind, Order::Data);
    // G0: two writers in two orders. (The first does not read; a store cannot tell.)
    let mut made = Made::new();
    for (c, began, first, second) in [(0, 1, 1, 2), (1, 2, 3, 4)] {
        let txn = made.0[c].begin(began);
        made.0[c].append(txn, 1, first);
        made.0[c].append(txn, 2, second);
        made.0[c].end(txn, Outcome::Acknowledged(10 + began));
    }
    made.txn(2, (13, 14), &[(1, &[1, 3], &[]), (2, &[4, 2], &[])])
        .has(data(CycleKind::G0));
    // G1c: each saw what the other wrote.
    Made::new()
        .txn(0, (1, 10), &[(1, &[], &[1]), (2, &[2], &[])])
        .txn(1, (2, 11), &[(2, &[], &[2]), (1, &[1], &[])])
        .has(data(CycleKind::G1c));
    Made::new()
        .txn(0, (1, 2), &[(1, &[1], &[1])])
        .has(data(CycleKind::G1c));
    // G-single: half of a batch.
    base()
        .txn(1, (2, 3), &[(1, &[1], &[]), (2, &[], &[])])
        .has(data(CycleKind::GSingle));
    // G-single: a write came between a transaction's read and its own write.
    Made::new()
        .txn(0, (1, 10), &[(1, &[], &[1])])
        .txn(1, (2, 9), &[(1, &[], &[2])])
        .txn(2, (11, 12), &[(1, &[1, 2], &[])])
        .has(data(CycleKind::GSingle));
    // G-nonadjacent: a long fork.
    Made::new()
        .txn(0, (1, 20), &[(1, &[], &[1])])
        .txn(1, (2, 21), &[(2, &[], &[2])])
        .txn(2, (3, 22), &[(1, &[1], &[]), (2, &[], &[])])
        .txn(3, (4, 23), &[(1, &[], &[]), (2, &[2], &[])])
        .has(data(CycleKind::GNonadjacent));
    // G2-item: each missed what the other wrote.
    Made::new()
        .txn(0, (1, 10), &[(1, &[], &[1]), (2, &[], &[])])
        .txn(1, (2, 11), &[(2, &[], &[2]), (1, &[], &[])])
        .has(data(CycleKind::G2Item));
}

#[test]
fn cycles_need_sessions_or_time_only_where_they_must() {
    let single = |order| Class::Cycle(CycleKind::GSingle, order);
    // A stale read, of another client and of one's own write.
    base()
        .txn(1, (11, 12), &[(1, &[], &[])])
        .has(single(Order::RealTime));
    base()
        .txn(0, (11, 12), &[(1, &[], &[])])
        .has(single(Order::Session));
    // Back in time.
    base()
        .txn(1, (2, 3), &[(1, &[1], &[])])
        .txn(1, (4, 5), &[(1, &[], &[])])
        .has(single(Order::Session));
    base()
        .txn(1, (2, 3), &[(1, &[1], &[])])
        .txn(2, (4, 5), &[(1, &[], &[])])
        .has(single(Order::RealTime));
    // A lost append that nobody ever saw.
    base()
        .txn(1, (11, 20), &[(1, &[1], &[3])])
        .txn(2, (21, 22), &[(1, &[1], &[])])
        .has(single(Order::RealTime));
    // What was seen before it began.
    let future = Made::new().txn(1, (1, 2), &[(1, &[1], &[])]);
    let future = future.txn(0, (3, 4), &[(1, &[], &[1])]);
    future.has(Class::Cycle(CycleKind::G1c, Order::RealTime));
}

const CLIENTS: usize = 3;
const KEYS: u32 = 3;

type State = BTreeMap<u32, Vec<u64>>;

/// What a client is in the midst of: its call has begun, or has taken effect.
enum Doing {
    Nothing,
    /// With the keys that it has locked.
    Write(TxnId, Vec<u32>, bool),
    Read(TxnId, bool),
}

fn list(state: &State, key: u32) -> &[u64] {
    state.get(&key).map_or(&[], Vec::as_slice)
}

/// A history of a store that does one thing after the other.
fn draw(choices: &mut Choices) -> Vec<Client> {
    let mut clients = vec![Client::default(); CLIENTS];
    let mut doing: Vec<Doing> = (0..CLIENTS).map(|_| Doing::Nothing).collect();
    let mut state = State::new();
    let mut locked: Vec<u32> = Vec::new();
    let (mut step, mut operations, mut element) = (0, 0, 0);
    while choices.left() {
        step += 1;
        let c = choices.below(CLIENTS);
        let client = &mut clients[c];
        doing[c] = match std::mem::replace(&mut doing[c], Doing::Nothing) {
            Doing::Nothing if operations == 9 => break,
            Doing::Nothing if choices.one_in(2) => {
                operations += 1;
                Doing::Read(client.begin(step), false)
            }
            Doing::Nothing => {
                let keys: Vec<u32> = (0..KEYS).filter(|_| choices.one_in(2)).collect();
                if keys.is_empty() || keys.iter().any(|key| locked.contains(key)) {
                    continue;
                }
                operations += 1;
                locked.extend(&keys);
                Doing::Write(client.begin(step), keys, false)
            }
            Doing::Write(txn, keys, false) => {
                let fails = choices.one_in(12);
                for &key in &keys {
                    client.read(txn, key, list(&state, key));
                    for _ in 0..1 + choices.below(2) {
                        element += 1;
                        client.append(txn, key, element);
                        if !fails {
                            state.entry(key).or_default().push(element);
                        }
                    }
                }
                if fails {
                    step += 1;
                    client.end(txn, Outcome::Failed(step));
                    locked.retain(|key| !keys.contains(key));
                    Doing::Nothing
                } else {
                    Doing::Write(txn, keys, true)
                }
            }
            Doing::Write(txn, keys, true) => {
                client.end(txn, Outcome::Acknowledged(step));
                locked.retain(|key| !keys.contains(key));
                Doing::Nothing
            }
            Doing::Read(txn, false) => {
                for key in 0..KEYS {
                    if choices.one_in(2) {
                        client.read(txn, key, list(&state, key));
                    }
                }
                Doing::Read(txn, true)
            }
            Doing::Read(txn, true) => {
                client.end(txn, Outcome::Acknowledged(step));
                Doing::Nothing
            }
        };
    }
    clients
}

/// Makes a read wrong: it sees what another saw of the key, or an element less or more.
fn spoil(clients: &mut [Client], choices: &mut Choices) {
    for _ in 0..1 + choices.below(2) {
        let c = choices.below(CLIENTS);
        if clients[c].reads.is_empty() {
            continue;
        }
        let r = choices.below(clients[c].reads.len());
        let (key, txn) = (clients[c].reads[r].key, clients[c].reads[r].txn);
        let mut other = clients[c].list(&clients[c].reads[r]).to_vec();
        match choices.below(3) {
            0 => drop(other.pop()),
            1 => other.push(1 + choices.below(20) as u64),
            _ => {
                let reads = clients.iter().flat_map(|client| {
                    let reads = client.reads.iter().filter(|read| read.key == key);
                    reads.map(|read| client.list(read).to_vec())
                });
                let reads: Vec<Vec<u64>> = reads.collect();
                other.clone_from(&reads[choices.below(reads.len())]);
            }
        }
        // As if it had been noted like this.
        clients[c].read(txn, key, &other);
        clients[c].reads.swap_remove(r);
        rebuild(&mut clients[c]);
    }
}

/// Notes all reads again: the longest lists are those of reads that are still there.
fn rebuild(client: &mut Client) {
    let before = client.clone();
    client.longest.clear();
    client.strange.clear();
    client.reads.clear();
    for read in &before.reads {
        client.read(read.txn, read.key, before.list(read));
    }
}

/// The same history for the search of all orders.
fn operations(clients: &[Client]) -> Vec<Operation<State>> {
    let mut all = Vec::new();
    for client in clients {
        for (t, txn) in client.txns.iter().enumerate() {
            let of_txn = |id: TxnId| id.0 as usize == t;
            let reads = client.reads.iter().filter(|read| of_txn(read.txn));
            let reads: Vec<(u32, Vec<u64>)> = reads
                .map(|read| (read.key, client.list(read).to_vec()))
                .collect();
            let appends: Vec<Append> = client
                .appends
                .iter()
                .copied()
                .filter(|append| of_txn(append.txn))
                .collect();
            let fits = move |state: &State| reads.iter().all(|(key, l)| list(state, *key) == l);
            let only_reads: Effect<State> = Box::new({
                let fits = fits.clone();
                move |state| fits(state)
            });
            let happens: Effect<State> = Box::new(move |state| {
                let fit = fits(state);
                for append in &appends {
                    state.entry(append.key).or_default().push(append.element);
                }
                fit
            });
            all.push(Operation {
                began: txn.began,
                ended: txn.outcome.returned(),
                effects: match txn.outcome {
                    Outcome::Acknowledged(_) => vec![happens],
                    Outcome::Failed(_) => vec![only_reads],
                    Outcome::Unknown => vec![happens, only_reads],
                },
            });
        }
    }
    all
}

fn choices() -> impl Strategy<Value = Choices> {
    proptest::collection::vec(any::<u32>(), 0..160).prop_map(|v| Choices(v.into_iter()))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn one_thing_after_the_other_always_passes(mut choices in choices()) {
        let clients = draw(&mut choices);
        let report = check(&clients);
        prop_assert!(report.found == 0, "{report}{clients:#?}");
    }

    #[test]
    fn what_is_found_is_wrong_and_what_is_wrong_is_found(
        mut choices in choices(),
        spoiling in proptest::collection::vec(any::<u32>(), 0..12),
    ) {
        let mut clients = draw(&mut choices);
        spoil(&mut clients, &mut Choices(spoiling.into_iter()));
        let report = check(&clients);
        let sound = explains(&operations(&clients), State::new());
        prop_assert_eq!(report.found == 0, sound, "{}{:#?}", report, clients);
    }
}
