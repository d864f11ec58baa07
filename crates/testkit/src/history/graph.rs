//! Directed graphs of what must lie before what, and their strongly connected parts.

use std::collections::VecDeque;

/// Why one node lies before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edge {
    /// A version was replaced by the other's.
    WriteWrite,
    /// A version was seen by the other.
    WriteRead,
    /// A version that the other replaced was seen.
    ReadWrite,
    /// One client's operations.
    Session,
    /// It returned before the other began.
    Time,
}

/// A graph that is built once: the edges of a node lie together.
#[derive(Debug)]
pub(super) struct Graph {
    /// Where the edges of each node begin in `edges`; one more than there are nodes.
    starts: Vec<u32>,
    edges: Vec<(u32, Edge)>,
}

impl Graph {
    /// # Panics
    /// If there are 2^32 edges or more.
    pub fn new(nodes: usize, from_to: &[(u32, u32, Edge)]) -> Graph {
        let mut starts = vec![0u32; nodes + 1];
        for &(from, _, _) in from_to {
            starts[from as usize + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] = starts[node]
                .checked_add(starts[node + 1])
                .expect("a history has less than 2^32 edges");
        }
        let mut next = starts.clone();
        let mut edges = vec![(0, Edge::Time); from_to.len()];
        for &(from, to, edge) in from_to {
            let at = &mut next[from as usize];
            edges[*at as usize] = (to, edge);
            *at += 1;
        }
        Graph { starts, edges }
    }

    pub fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    pub fn edges(&self, node: u32) -> &[(u32, Edge)] {
        let (from, to) = (self.starts[node as usize], self.starts[node as usize + 1]);
        &self.edges[from as usize..to as usize]
    }

    /// The strongly connected parts of more than one node, and single nodes with an edge to
    /// themselves, among `within` and over the edges that `follow` allows. (Tarjan's, with a stack of
    /// its own, since a history is deeper than a thread's.)
    pub fn knots(
        &self,
        within: impl Iterator<Item = u32>,
        follow: impl Fn(u32, Edge) -> bool,
    ) -> Vec<Vec<u32>> {
        let mut search = Search {
            graph: self,
            follow,
            numbers: vec![NEW; self.nodes()],
            lows: vec![0; self.nodes()],
            open: Vec::new(),
            calls: Vec::new(),
            next: 0,
            knots: Vec::new(),
        };
        for root in within {
            if search.numbers[root as usize] == NEW {
                search.from(root);
            }
        }
        search.knots
    }

    /// A shortest way from `from` to `to` of at least one edge, as nodes with the edge that leaves
    /// each, over the edges that `follow` allows.
    pub fn way(
        &self,
        from: u32,
        to: u32,
        follow: impl Fn(u32, Edge) -> bool,
    ) -> Option<Vec<(u32, Edge)>> {
        let mut came: std::collections::HashMap<u32, (u32, Edge)> = Default::default();
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for &(next, edge) in self.edges(node) {
                if !follow(next, edge) || came.contains_key(&next) {
                    continue;
                }
                came.insert(next, (node, edge));
                if next == to {
                    let mut way = Vec::new();
                    let mut at = to;
                    while way.is_empty() || at != from {
                        let (before, edge) = came[&at];
                        way.push((before, edge));
                        at = before;
                    }
                    way.reverse();
                    return Some(way);
                }
                queue.push_back(next);
            }
        }
        None
    }
}

/// Not numbered yet.
const NEW: u32 = u32::MAX;
/// In a part that is complete.
const DONE: u32 = u32::MAX - 1;

struct Search<'g, F> {
    graph: &'g Graph,
    follow: F,
    /// The order in which nodes were met; [`DONE`] once their part is complete.
    numbers: Vec<u32>,
    /// The lowest number known to be reachable.
    lows: Vec<u32>,
    /// Nodes met whose part is not complete.
    open: Vec<u32>,
    /// The way to the node at hand: node, and how many of its edges were taken.
    calls: Vec<(u32, usize)>,
    next: u32,
    knots: Vec<Vec<u32>>,
}

impl<F: Fn(u32, Edge) -> bool> Search<'_, F> {
    fn enter(&mut self, node: u32) {
        self.numbers[node as usize] = self.next;
        self.lows[node as usize] = self.next;
        self.next += 1;
        self.open.push(node);
        self.calls.push((node, 0));
    }

    fn from(&mut self, root: u32) {
        self.enter(root);
        while let Some((node, taken)) = self.calls.last_mut() {
            let node = *node;
            let Some(&(next, edge)) = self.graph.edges(node).get(*taken) else {
                self.calls.pop();
                self.leave(node);
                continue;
            };
            *taken += 1;
            if !(self.follow)(next, edge) {
                continue;
            }
            match self.numbers[next as usize] {
                NEW => self.enter(next),
                DONE => {}
                number => self.lower(node, number),
            }
        }
    }

    fn lower(&mut self, node: u32, low: u32) {
        let own = &mut self.lows[node as usize];
        *own = low.min(*own);
    }

    fn leave(&mut self, node: u32) {
        let low = self.lows[node as usize];
        if let Some(&(caller, _)) = self.calls.last() {
            self.lower(caller, low);
        }
        if low != self.numbers[node as usize] {
            return;
        }
        let from = self.open.iter().rposition(|&n| n == node);
        let part = self
            .open
            .split_off(from.expect("a node stays open until it is left"));
        for &n in &part {
            self.numbers[n as usize] = DONE;
        }
        let follow = &self.follow;
        let to_itself = |n: u32| {
            let edges = self.graph.edges(n);
            edges.iter().any(|&(to, edge)| to == n && follow(to, edge))
        };
        if part.len() > 1 || to_itself(part[0]) {
            self.knots.push(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn knots_are_what_reaches_itself() {
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let small = |n| u32::try_from(n).unwrap();
            let nodes = 1 + rng.below(12);
            let mut edges = Vec::new();
            let mut reach = vec![vec![false; nodes]; nodes];
            for _ in 0..rng.below(3 * nodes) {
                let (from, to) = (rng.below(nodes), rng.below(nodes));
                reach[from][to] = true;
                edges.push((small(from), small(to), Edge::WriteWrite));
            }
            for via in 0..nodes {
                for from in 0..nodes {
                    for to in 0..nodes {
                        reach[from][to] |= reach[from][via] && reach[via][to];
                    }
                }
            }
            let graph = Graph::new(nodes, &edges);
            let mut found = vec![None; nodes];
            for (k, knot) in graph
                .knots(0..small(graph.nodes()), |_, _| true)
                .iter()
                .enumerate()
            {
                for &node in knot {
                    assert_eq!(found[node as usize].replace(k), None);
                }
            }
            for a in 0..nodes {
                assert_eq!(found[a].is_some(), reach[a][a], "seed {seed}");
                for b in 0..nodes {
                    let together = found[a].is_some() && found[a] == found[b];
                    assert_eq!(together, reach[a][b] && reach[b][a], "seed {seed}");
                    let way = graph.way(small(a), small(b), |_, _| true);
                    assert_eq!(way.is_some(), reach[a][b], "seed {seed}");
                }
            }
        }
    }

    #[test]
    fn a_chain_of_a_million_needs_no_deep_stack() {
        let nodes = 1_000_000;
        let mut edges: Vec<_> = (1..nodes).map(|n| (n - 1, n, Edge::Time)).collect();
        let graph = Graph::new(nodes as usize, &edges);
        assert!(graph.knots(0..nodes, |_, _| true).is_empty());
        edges.push((nodes - 1, 0, Edge::ReadWrite));
        let graph = Graph::new(nodes as usize, &edges);
        let knots = graph.knots(0..nodes, |_, _| true);
        assert_eq!(knots.len(), 1);
        assert_eq!(knots[0].len(), nodes as usize);
        assert!(
            graph
                .knots(0..nodes, |_, edge| edge == Edge::Time)
                .is_empty()
        );
        assert_eq!(graph.way(0, 0, |_, _| true).unwrap().len(), nodes as usize);
    }
}
