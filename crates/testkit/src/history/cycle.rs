//! From a knot of operations to one cycle with a name.

use super::anomaly::{Class, CycleKind, Order, Report};
use super::graph::{Edge, Graph};

/// How many nodes of a knot a short cycle is looked for at.
const STARTS_MAX: usize = 24;
/// How many reads that missed a write a cycle with only one of them is looked for at.
const MISSES_MAX: usize = 400;

/// Looks for knots and reports of each one cycle, of the gravest kind. Nodes from `operations` on are
/// moments; `tell` describes an operation.
pub(super) fn report_cycles(
    graph: &Graph,
    operations: u32,
    tell: impl Fn(u32) -> String,
    report: &mut Report,
) {
    let nodes = u32::try_from(graph.nodes()).expect("nodes are numbered in 32 bits");
    let knots = graph.knots(0..nodes, |_, _| true);
    let mut knot_of = vec![u32::MAX; graph.nodes()];
    for (number, knot) in (0..).zip(&knots) {
        for &node in knot {
            knot_of[node as usize] = number;
        }
    }
    for (number, knot) in (0..).zip(&knots) {
        if !report.has_room() {
            report.found += 1;
            continue;
        }
        let inside = |node: u32| knot_of[node as usize] == number;
        let cycle = gravest(graph, knot, inside);
        report.add(name(&cycle), || story(&cycle, operations, &tell));
    }
}

type Cycle = Vec<(u32, Edge)>;

/// The kinds are looked for one after the other, each first without the order of sessions and of real
/// time, which say less about the data.
fn gravest(graph: &Graph, knot: &[u32], inside: impl Fn(u32) -> bool + Copy) -> Cycle {
    let data = |edge| !matches!(edge, Edge::Session | Edge::Time);
    let session = |edge| edge != Edge::Time;
    let orders: [&dyn Fn(Edge) -> bool; 3] = [&data, &session, &|_| true];
    for order in orders {
        let kinds: [&dyn Fn(Edge) -> bool; 2] = [
            &|edge| !matches!(edge, Edge::WriteRead | Edge::ReadWrite),
            &|edge| edge != Edge::ReadWrite,
        ];
        for kind in kinds {
            let follow = |node, edge| inside(node) && order(edge) && kind(edge);
            if let Some(cycle) = shortest(graph, knot, follow) {
                return cycle;
            }
        }
        let follow = |node, edge| inside(node) && order(edge);
        if let Some(cycle) = single(graph, knot, follow) {
            return cycle;
        }
        if let Some(cycle) = shortest(graph, knot, follow) {
            return cycle;
        }
    }
    unreachable!("a knot has a cycle")
}

/// A short cycle over the edges allowed, if there is one.
fn shortest(graph: &Graph, knot: &[u32], follow: impl Fn(u32, Edge) -> bool) -> Option<Cycle> {
    let parts = graph.knots(knot.iter().copied(), &follow);
    let part = parts.first()?;
    let ways = part.iter().take(STARTS_MAX);
    let ways = ways.filter_map(|&node| graph.way(node, node, &follow));
    ways.min_by_key(Vec::len)
}

/// A cycle with exactly one read that missed a write.
fn single(graph: &Graph, knot: &[u32], follow: impl Fn(u32, Edge) -> bool) -> Option<Cycle> {
    let misses = knot.iter().flat_map(|&node| {
        let edges = graph.edges(node).iter();
        edges.filter_map(move |&(to, edge)| (edge == Edge::ReadWrite).then_some((node, to)))
    });
    let misses = misses.filter(|&(_, to)| follow(to, Edge::ReadWrite));
    misses.take(MISSES_MAX).find_map(|(from, to)| {
        let back = |node, edge| edge != Edge::ReadWrite && follow(node, edge);
        let mut cycle = vec![(from, Edge::ReadWrite)];
        cycle.extend(graph.way(to, from, back)?);
        Some(cycle)
    })
}

fn name(cycle: &Cycle) -> Class {
    let has = |edge| cycle.iter().any(|&(_, e)| e == edge);
    let order = match (has(Edge::Time), has(Edge::Session)) {
        (true, _) => Order::RealTime,
        (false, true) => Order::Session,
        (false, false) => Order::Data,
    };
    // Moments are no steps of their own.
    let misses: Vec<bool> = cycle.iter().map(|&(_, e)| e == Edge::ReadWrite).collect();
    let count = misses.iter().filter(|&&miss| miss).count();
    let adjacent = (0..misses.len()).any(|i| misses[i] && misses[(i + 1) % misses.len()]);
    let kind = match count {
        0 if has(Edge::WriteRead) => CycleKind::G1c,
        0 => CycleKind::G0,
        1 => CycleKind::GSingle,
        _ if adjacent => CycleKind::G2Item,
        _ => CycleKind::GNonadjacent,
    };
    Class::Cycle(kind, order)
}

fn story(cycle: &Cycle, operations: u32, tell: impl Fn(u32) -> String) -> String {
    let mut cycle = cycle.clone();
    if let Some(first) = cycle.iter().position(|&(node, _)| node < operations) {
        cycle.rotate_left(first);
    }
    let mut told = String::new();
    // Moments are passed over.
    for &(node, edge) in cycle.iter().filter(|&&(node, _)| node < operations) {
        let why = match edge {
            Edge::WriteWrite => "was overwritten by",
            Edge::WriteRead => "was seen by",
            Edge::ReadWrite => "did not see",
            Edge::Session => "was followed in its session by",
            Edge::Time => "returned before the beginning of",
        };
        told.push_str(&format!("{}, which {why} ", tell(node)));
    }
    told.push_str("the first");
    told
}
