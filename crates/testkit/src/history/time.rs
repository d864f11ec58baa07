//! Real time as edges.

use super::graph::Edge;

/// Adds edges that lead from each operation that returned to every operation that began later: not
/// one for each such pair, but over nodes of their own that stand for moments, one after the other.
/// `spans` are the first step, the last (if it returned) and the node of each operation; moments are
/// numbered from `nodes`, which is moved on.
pub(super) fn real_time(
    spans: &[(u64, Option<u64>, u32)],
    nodes: &mut u32,
    edges: &mut Vec<(u32, u32, Edge)>,
) {
    let mut begins: Vec<(u64, u32)> = spans.iter().map(|s| (s.0, s.2)).collect();
    let ends = spans.iter().filter_map(|s| Some((s.1?, s.2)));
    let mut ends: Vec<(u64, u32)> = ends.collect();
    begins.sort_unstable();
    ends.sort_unstable();
    let mut moment = None;
    let mut ends = ends.into_iter().peekable();
    for (began, node) in begins {
        if ends.peek().is_some_and(|&(ended, _)| ended < began) {
            let next = *nodes;
            *nodes += 1;
            if let Some(last) = moment.replace(next) {
                edges.push((last, next, Edge::Time));
            }
            while let Some((_, ended)) = ends.next_if(|&(ended, _)| ended < began) {
                edges.push((ended, next, Edge::Time));
            }
        }
        if let Some(moment) = moment {
            edges.push((moment, node, Edge::Time));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::Graph;
    use super::*;
    use crate::Rng;

    #[test]
    fn later_is_reached_and_nothing_else() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let count = 1 + u32::try_from(rng.below(10)).unwrap();
            let spans: Vec<_> = (0..count)
                .map(|node| {
                    let began = rng.below(20) as u64;
                    let ended = (!rng.one_in(5)).then(|| began + 1 + rng.below(6) as u64);
                    (began, ended, node)
                })
                .collect();
            let (mut nodes, mut edges) = (count, Vec::new());
            real_time(&spans, &mut nodes, &mut edges);
            let graph = Graph::new(nodes as usize, &edges);
            for &(_, ended, a) in &spans {
                for &(began, _, b) in &spans {
                    let later = ended.is_some_and(|ended| ended < began);
                    let way = graph.way(a, b, |_, _| true);
                    assert_eq!(way.is_some(), later, "seed {seed}");
                }
            }
        }
    }
}
