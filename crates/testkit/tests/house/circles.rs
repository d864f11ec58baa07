//! Sets of modules that use each other.

use std::collections::BTreeSet;

/// The sets of two and more, in a graph given by where its edges lead.
pub(crate) fn circles(uses: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let reach: Vec<BTreeSet<usize>> = (0..uses.len()).map(|from| reached(uses, from)).collect();
    let mut left: BTreeSet<usize> = (0..uses.len()).collect();
    let mut circles = Vec::new();
    while let Some(first) = left.pop_first() {
        let mutual = |other: &usize| reach[first].contains(other) && reach[*other].contains(&first);
        let others: Vec<usize> = left.iter().copied().filter(mutual).collect();
        others.iter().for_each(|other| {
            left.remove(other);
        });
        if !others.is_empty() {
            circles.push([vec![first], others].concat());
        }
    }
    circles
}

fn reached(uses: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let (mut seen, mut todo) = (BTreeSet::new(), vec![from]);
    while let Some(at) = todo.pop() {
        todo.extend(uses[at].iter().filter(|to| seen.insert(**to)));
    }
    seen
}

#[test]
fn circles_are_found() {
    let graph = |edges: &[&[usize]]| -> Vec<BTreeSet<usize>> {
        edges
            .iter()
            .map(|to| to.iter().copied().collect())
            .collect()
    };
    assert_eq!(
        circles(&graph(&[&[1], &[2], &[]])),
        Vec::<Vec<usize>>::new()
    );
    assert_eq!(
        circles(&graph(&[&[1], &[0, 2], &[3], &[2], &[4]])),
        [[0, 1], [2, 3]]
    );
    assert_eq!(circles(&graph(&[&[1], &[2], &[0]])), [[0, 1, 2]]);
}
