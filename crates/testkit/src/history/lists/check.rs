//! The verdict on a history of lists.

use super::versions::Versions;
use super::{Client, small};
use crate::history::Report;
use crate::history::cycle::report_cycles;
use crate::history::graph::{Edge, Graph};
use crate::history::time::real_time;

/// Looks for anomalies; the module says how. Each client's transactions are in the order in which
/// they began.
///
/// ```
/// use thermocline_testkit::history::lists::{Client, Outcome, check};
/// use thermocline_testkit::history::{Class, Clock, CycleKind, Order};
/// let clock = Clock::default();
/// let (mut writer, mut reader) = (Client::default(), Client::default());
/// let read = reader.begin(clock.step());
/// let write = writer.begin(clock.step());
/// for key in [1, 2] {
///     writer.read(write, key, &[]);
///     writer.append(write, key, 10 + u64::from(key));
/// }
/// writer.end(write, Outcome::Acknowledged(clock.step()));
/// reader.read(read, 1, &[11]);
/// reader.read(read, 2, &[]);
/// reader.end(read, Outcome::Acknowledged(clock.step()));
/// let report = check(&[writer, reader]);
/// let read_skew = Class::Cycle(CycleKind::GSingle, Order::Data);
/// assert_eq!(report.anomalies[0].class, read_skew);
/// ```
///
/// # Panics
/// If an element was appended twice.
pub fn check(clients: &[Client]) -> Report {
    let mut report = Report::default();
    let versions = Versions::new(clients, &mut report);
    let mut from = vec![0];
    for client in clients {
        from.push(from[from.len() - 1] + small(client.txns.len()));
    }
    let operations = from[clients.len()];
    let mut edges = Vec::new();
    overwrites(&versions, &from, &mut edges);
    for (c, client) in clients.iter().enumerate() {
        depends(&versions, &from, c, client, &mut edges);
        edges.extend((from[c] + 1..from[c + 1]).map(|n| (n - 1, n, Edge::Session)));
        report.observations += client.reads.len() as u64;
    }
    let spans: Vec<_> = clients
        .iter()
        .zip(&from)
        .flat_map(|(client, &from)| {
            let txns = (from..).zip(&client.txns);
            txns.map(|(node, txn)| (txn.began, txn.outcome.returned(), node))
        })
        .collect();
    let mut nodes = operations;
    real_time(&spans, &mut nodes, &mut edges);
    report.operations = u64::from(operations);
    report.edges = edges.len() as u64;
    let graph = Graph::new(nodes as usize, &edges);
    drop(edges);
    let tell = |node: u32| {
        let c = from.partition_point(|&first| first <= node) - 1;
        let n = node - from[c];
        let txn = &clients[c].txns[n as usize];
        match txn.outcome.acknowledged() {
            Some(ended) => {
                let began = txn.began;
                format!("transaction {n} of client {c} at steps {began} to {ended}")
            }
            None => format!("transaction {n} of client {c} from step {}", txn.began),
        }
    };
    report_cycles(&graph, operations, tell, &mut report);
    report
}

/// The writer of each version before the writer of the next.
fn overwrites(versions: &Versions, from: &[u32], edges: &mut Vec<(u32, u32, Edge)>) {
    for list in versions.keys.values() {
        let writers = list
            .iter()
            .filter_map(|element| writer(versions, from, *element));
        let mut last = None;
        for writer in writers {
            if let Some(last) = last.replace(writer).filter(|&last| last != writer) {
                edges.push((last, writer, Edge::WriteWrite));
            }
        }
    }
}

/// Each reader behind the writer of what it saw and before the writer of what came next.
fn depends(
    versions: &Versions,
    from: &[u32],
    c: usize,
    client: &Client,
    edges: &mut Vec<(u32, u32, Edge)>,
) {
    for read in &client.reads {
        let me = from[c] + read.txn.0;
        let (list, all) = (client.list(read), &versions.keys[&read.key]);
        let seen = list.last().and_then(|&last| writer(versions, from, last));
        if let Some(seen) = seen {
            // Its own element, too: it is read before it is appended.
            edges.push((seen, me, Edge::WriteRead));
        }
        if !all.starts_with(list) {
            // Divergent, as was reported: what came next is not known.
            continue;
        }
        let next = all
            .get(list.len())
            .and_then(|&next| writer(versions, from, next));
        if let Some(next) = next.filter(|&next| next != me) {
            edges.push((me, next, Edge::ReadWrite));
        }
    }
}

fn writer(versions: &Versions, from: &[u32], element: u64) -> Option<u32> {
    let origin = versions.origins.get(&element)?;
    Some(from[origin.client] + origin.append.txn.0)
}
