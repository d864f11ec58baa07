//! Which keys a partition has, and which partitions go.

use thermocline_base::size::index;

/// Bytes of a key that say which partition it belongs to: its number, the most significant byte first.
pub(super) const PREFIX_BYTES: usize = 4;

/// Bits of an index behind the number of its partition.
const ENTRY_BITS: u32 = 32;

/// An entry of a partition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct At {
    pub partition: u64,
    /// Its number within the partition.
    pub entry: u64,
}

impl At {
    /// Of which its key is made: so keys begin with the number of their partition.
    pub fn index(self) -> u64 {
        (self.partition << ENTRY_BITS) | self.entry
    }
}

/// Partitions of as many entries each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub partitions: u64,
    /// In each of them.
    pub entries: u64,
}

impl Layout {
    /// As many keys as go into partitions of the same size.
    pub fn new(keys: u64, partitions: u64) -> Layout {
        Layout {
            partitions,
            entries: keys / partitions,
        }
    }

    pub fn keys(self) -> u64 {
        self.partitions * self.entries
    }

    /// The `n`th of all entries.
    pub fn at(self, n: u64) -> At {
        At {
            partition: n / self.entries,
            entry: n % self.entries,
        }
    }
}

/// What the keys of a partition begin with.
pub(super) fn prefix(partition: u64) -> [u8; PREFIX_BYTES] {
    let number = u32::try_from(partition).expect("an experiment has at most 10,000 partitions");
    number.to_be_bytes()
}

/// How those that go lie among the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Arrangement {
    /// Side by side, with others before and behind them.
    Neighbours,
    /// Beside each of them there are two that stay.
    Scattered,
}

/// Steps between those that go one after the other. It shares no factor with the numbers of partitions here.
const STRIDE: u64 = 7;

impl Arrangement {
    pub const BOTH: [Arrangement; 2] = [Arrangement::Neighbours, Arrangement::Scattered];

    pub fn name(self) -> &'static str {
        match self {
            Arrangement::Neighbours => "neighbours",
            Arrangement::Scattered => "scattered",
        }
    }

    /// Half of the partitions, in the order in which they go.
    fn goers(self, partitions: u64) -> Vec<u64> {
        let half = partitions / 2;
        let nth = |n: u64| match self {
            Arrangement::Neighbours => partitions / 4 + n,
            Arrangement::Scattered => 2 * (n * STRIDE % half) + 1,
        };
        (0..half).map(nth).collect()
    }
}

/// Which partitions go, and which stay to the end.
#[derive(Debug, Clone)]
pub(super) struct Course {
    partitions: u64,
    goers: Vec<u64>,
    pub stayers: Vec<u64>,
    /// Those that stay, right before one that goes with the first.
    pub edges: Vec<u64>,
}

impl Course {
    /// The smallest share of them that goes is `first`, in percent.
    pub fn new(partitions: u64, arrangement: Arrangement, first: u64) -> Course {
        let mut course = Course {
            partitions,
            goers: arrangement.goers(partitions),
            stayers: Vec::new(),
            edges: Vec::new(),
        };
        let stays = |partition: &u64| !course.goers.contains(partition);
        let stayers: Vec<u64> = (0..partitions).filter(stays).collect();
        let before = course.gone(first).iter().filter_map(|at| at.checked_sub(1));
        let edges: Vec<u64> = before.filter(stays).collect();
        (course.stayers, course.edges) = (stayers, edges);
        course
    }

    /// Those that are gone when so many percent of all are; at most half of them.
    pub fn gone(&self, percent: u64) -> &[u64] {
        &self.goers[..index(self.partitions * percent / 100)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_go_lie_between_those_that_stay() {
        for partitions in [10, 20, 1000] {
            for arrangement in Arrangement::BOTH {
                let course = Course::new(partitions, arrangement, 10);
                let gone = course.gone(50);
                let mut all = [gone, &course.stayers].concat();
                all.sort_unstable();
                assert!(all.iter().copied().eq(0..partitions), "{course:?}");
                assert_eq!(gone.len(), index(partitions / 2));
                assert!(gone.starts_with(course.gone(10)) && !course.gone(10).is_empty());
                // Behind what a scan from an edge passes over there are keys that stay.
                assert!(!course.edges.is_empty());
                for edge in &course.edges {
                    assert!(course.gone(10).contains(&(edge + 1)));
                    assert!(course.stayers.iter().any(|at| *at > edge + 1));
                }
                let touch = gone.iter().any(|at| gone.contains(&(at + 1)));
                assert_eq!(touch, arrangement == Arrangement::Neighbours);
            }
        }
    }

    #[test]
    fn keys_begin_with_their_partition() {
        let layout = Layout::new(1005, 10);
        assert_eq!((layout.entries, layout.keys()), (100, 1000));
        for n in [0, 99, 100, 999] {
            let at = layout.at(n);
            assert_eq!(at.partition * layout.entries + at.entry, n);
            assert!(at.index().to_be_bytes().starts_with(&prefix(at.partition)));
        }
    }
}
