//! The order of the chains: the one in which the manifest came to know them, which is that of their seqnos.

use std::collections::BTreeMap;

/// All chains, oldest first. A list whose places are found by the chain's id, however many there are. (Ids ascend,
/// but for those of chains that were adopted.)
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Order {
    links: BTreeMap<u64, Link>,
    first: Option<u64>,
    last: Option<u64>,
}

/// Where a chain stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Link {
    /// The number of its memtable, and which of that memtable's chains it is.
    pub memtable: u64,
    pub index: usize,
    /// The chains beside it.
    pub before: Option<u64>,
    pub after: Option<u64>,
}

impl Order {
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    pub fn get(&self, chain: u64) -> Option<&Link> {
        self.links.get(&chain)
    }

    /// The newest chain.
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    /// Every chain, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Link)> {
        let after = |(_, link): &(u64, &Link)| self.with(link.after);
        std::iter::successors(self.with(self.first), after)
    }

    fn with(&self, chain: Option<u64>) -> Option<(u64, &Link)> {
        let chain = chain?;
        Some((chain, self.links.get(&chain)?))
    }

    /// Appends a chain that is not there yet: the `index`-th of a memtable.
    pub fn push(&mut self, chain: u64, memtable: u64, index: usize) {
        let before = self.last.replace(chain);
        match before.and_then(|before| self.links.get_mut(&before)) {
            Some(before) => before.after = Some(chain),
            None => self.first = Some(chain),
        }
        let link = Link {
            memtable,
            index,
            before,
            after: None,
        };
        self.links.insert(chain, link);
    }

    pub fn remove(&mut self, chain: u64) {
        let Some(Link { before, after, .. }) = self.links.remove(&chain) else {
            return;
        };
        match before.and_then(|before| self.links.get_mut(&before)) {
            Some(before) => before.after = after,
            None => self.first = after,
        }
        match after.and_then(|after| self.links.get_mut(&after)) {
            Some(after) => after.before = before,
            None => self.last = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(order: &Order) -> Vec<u64> {
        let all: Vec<u64> = order.iter().map(|(chain, _)| chain).collect();
        let back = |chain: &u64| order.get(*chain).and_then(|link| link.before);
        let mut back: Vec<u64> = std::iter::successors(order.last(), back).collect();
        back.reverse();
        assert_eq!(all, back);
        all
    }

    #[test]
    fn any_chain_may_go() {
        for gone in [1, 7, 5, 9] {
            let mut order = Order::default();
            for chain in [1, 7, 5, 9] {
                order.push(chain, 3, 0);
            }
            assert_eq!(read(&order), [1, 7, 5, 9]);
            order.remove(gone);
            let left = [1, 7, 5, 9].into_iter().filter(|chain| *chain != gone);
            assert_eq!(read(&order), left.collect::<Vec<_>>());
            order.push(gone, 4, 1);
            assert_eq!(order.last(), Some(gone));
            [1, 5, 7, 9].iter().for_each(|chain| order.remove(*chain));
            assert_eq!(order, Order::default());
        }
    }
}
