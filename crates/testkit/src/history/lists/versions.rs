//! The order of the versions of each key.

use std::collections::{HashMap, HashSet};

use super::{Append, Client, List, Outcome, Read, small};
use crate::history::{Class, Report};

/// An element and who appended it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    pub client: usize,
    pub append: Append,
    /// Whether its transaction appended another behind it to the same key.
    pub intermediate: bool,
    pub outcome: Outcome,
}

/// What is known of all lists.
#[derive(Debug, Default)]
pub(super) struct Versions {
    pub origins: HashMap<u64, Origin>,
    /// The elements of each key in the order of versions.
    pub keys: HashMap<u32, Vec<u64>>,
}

/// How long the list was that a transaction (client, number) read of a key.
type Priors = HashMap<(usize, u32, u32), usize>;

impl Versions {
    /// # Panics
    /// If an element was appended twice: then the test is wrong, not the store.
    pub fn new(clients: &[Client], report: &mut Report) -> Versions {
        let mut versions = Versions::default();
        versions.note_origins(clients);
        for client in clients {
            for (&key, list) in &client.longest {
                let longest = versions.keys.entry(key).or_default();
                if list.len() > longest.len() {
                    longest.clone_from(list);
                }
            }
        }
        versions.compare(clients, report);
        versions.check_elements(clients, report);
        versions.add_unseen(clients, report);
        versions
    }

    fn note_origins(&mut self, clients: &[Client]) {
        for (c, client) in clients.iter().enumerate() {
            let mut last: HashMap<(u32, u32), u64> = HashMap::new();
            for &append in &client.appends {
                let origin = Origin {
                    client: c,
                    append,
                    intermediate: false,
                    outcome: client.txns[append.txn.0 as usize].outcome,
                };
                let before = self.origins.insert(append.element, origin);
                assert!(
                    before.is_none(),
                    "element {} was used twice",
                    append.element
                );
                let before = last.insert((append.txn.0, append.key), append.element);
                if let Some(before) = before.and_then(|before| self.origins.get_mut(&before)) {
                    before.intermediate = true;
                }
            }
        }
    }

    /// All lists of a key are beginnings of its longest.
    fn compare(&self, clients: &[Client], report: &mut Report) {
        for (c, client) in clients.iter().enumerate() {
            for (key, list) in &client.longest {
                self.diverges(c, *key, list, report);
            }
            let strange = client.reads.iter();
            for read in strange.filter(|read| matches!(read.list, List::Strange(_))) {
                self.diverges(c, read.key, client.list(read), report);
            }
        }
    }

    fn diverges(&self, client: usize, key: u32, list: &[u64], report: &mut Report) {
        let longest = &self.keys[&key];
        let Some(at) = list.iter().zip(longest).position(|(a, b)| a != b) else {
            return;
        };
        report.add(Class::Divergent, || {
            let (here, there) = (list[at], longest[at]);
            format!("key {key} had {here} at place {at} for client {client}, and {there} elsewhere")
        });
    }

    fn check_elements(&self, clients: &[Client], report: &mut Report) {
        for (key, list) in &self.keys {
            self.check_list(*key, list, report);
        }
        for client in clients {
            for read in &client.reads {
                if matches!(read.list, List::Strange(_)) {
                    self.check_list(read.key, client.list(read), report);
                }
                self.check_end(read, client.list(read), report);
            }
        }
    }

    fn check_list(&self, key: u32, list: &[u64], report: &mut Report) {
        let mut places = HashMap::new();
        for (at, &element) in list.iter().enumerate() {
            if let Some(before) = places.insert(element, at) {
                report.add(Class::Duplicate, || {
                    format!("key {key} had {element} at places {before} and {at}")
                });
            }
            match self.origins.get(&element) {
                Some(origin) if origin.append.key == key => {
                    if matches!(origin.outcome, Outcome::Failed(_)) {
                        report.add(Class::AbortedRead, || {
                            format!("key {key} had {element}, whose append had failed")
                        });
                    }
                }
                _ => report.add(Class::Unwritten, || {
                    format!("key {key} had {element}, which nobody appended there")
                }),
            }
        }
    }

    fn check_end(&self, read: &Read, list: &[u64], report: &mut Report) {
        let origin = list.last().and_then(|last| self.origins.get(last));
        if origin.is_some_and(|o| o.intermediate && o.append.key == read.key) {
            report.add(Class::IntermediateRead, || {
                let (key, last) = (read.key, list[list.len() - 1]);
                format!("key {key} ended with {last}, which its own batch appends to")
            });
        }
    }

    /// Appends that are in no list seen, though their transaction took effect, since it was acknowledged
    /// or another of its elements was seen: behind the list that it read.
    fn add_unseen(&mut self, clients: &[Client], report: &mut Report) {
        let priors = priors(clients);
        let seen: HashSet<u64> = self.keys.values().flatten().copied().collect();
        let origins = seen.iter().filter_map(|element| self.origins.get(element));
        let happened: HashSet<(usize, u32)> = origins
            .map(|origin| (origin.client, origin.append.txn.0))
            .collect();
        // Of each transaction and key, with the length of the list that it read.
        let mut unseen: Vec<(usize, u32, Append)> = Vec::new();
        for (c, client) in clients.iter().enumerate() {
            for append in client.appends.iter().filter(|a| !seen.contains(&a.element)) {
                let txn = append.txn.0;
                let outcome = client.txns[txn as usize].outcome;
                let took_effect = outcome.acknowledged().is_some() || happened.contains(&(c, txn));
                if let Some(&prior) = priors.get(&(c, txn, append.key)).filter(|_| took_effect) {
                    unseen.push((prior, small(c), *append));
                }
            }
        }
        // Stable, so that the appends of one transaction stay in their order.
        unseen.sort_by_key(|&(prior, ..)| prior);
        let mut extended: HashMap<u32, (u32, Append, usize)> = HashMap::new();
        for (prior, client, append) in unseen {
            let list = self.keys.entry(append.key).or_default();
            let own = extended
                .get(&append.key)
                .filter(|(c, before, _)| (*c, before.txn) == (client, append.txn));
            if prior == list.len() || own.is_some_and(|own| own.2 == prior) {
                list.push(append.element);
                extended.insert(append.key, (client, append, prior));
            } else {
                report.add(Class::LostUpdate, || {
                    let (key, element, other) = (append.key, append.element, list.get(prior));
                    let other = other.map_or("another".to_string(), u64::to_string);
                    format!(
                        "key {key}: {element} of client {client} was appended to {prior} elements \
                         and acknowledged; so was {other}, and the first is gone"
                    )
                });
            }
        }
    }
}

fn priors(clients: &[Client]) -> Priors {
    let mut priors = Priors::new();
    for (c, client) in clients.iter().enumerate() {
        for read in &client.reads {
            priors.insert((c, read.txn.0, read.key), client.list(read).len());
        }
    }
    priors
}
