//! How chains and generations come and go.

use super::{Chain, Cut, Impossible, State, at_least, must, next_of, possible_seqno};

impl State {
    pub(super) fn chain(&self, generation: u64, chain: u64) -> Option<&Chain> {
        let chains = &self.generations.get(&generation)?.chains;
        chains.iter().rfind(|c| c.id == chain)
    }

    pub(super) fn chain_mut(&mut self, place: usize) -> Option<&mut Chain> {
        let (chain, generation) = *self.order.get(place)?;
        let chains = &mut self.generations.get_mut(&generation)?.chains;
        chains.iter_mut().rfind(|c| c.id == chain)
    }

    /// The place of a chain in the order. Who asks mostly means one of the last.
    pub(super) fn place(&self, chain: u64) -> Option<usize> {
        self.order.iter().rposition(|(id, _)| *id == chain)
    }

    /// The chain after a dropped one may only be known to follow it (base seqno 0). It takes along
    /// where the dropped one ended, which must be known by now: the manifest would forget with
    /// which seqno it begins.
    pub(super) fn drop_generation(&mut self, id: u64) -> Result<(), Impossible> {
        let what = "dropped generation";
        let Some(dropped) = self.generations.remove(&id) else {
            return must(false, what, "one that exists", id);
        };
        for place in 1..self.order.len() {
            let ((before, of), (_, own)) = (self.order[place - 1], self.order[place]);
            let follower = self.chain_mut(place).filter(|c| c.base_seqno == 0);
            let Some(follower) = follower.filter(|_| of == id && own != id) else {
                continue;
            };
            let chain = dropped.chains.iter().find(|c| c.id == before);
            let Some(cut) = chain.and_then(|chain| chain.cut) else {
                let expected = format!("a cut of chain {before}, which a later one follows");
                return must(false, what, expected, "none");
            };
            follower.base_seqno = cut.last_seqno + 1;
        }
        self.order.retain(|(_, generation)| *generation != id);
        Ok(())
    }

    pub(super) fn open_chain(&mut self, generation: u64, chain: Chain) -> Result<(), Impossible> {
        possible_seqno(chain.base_seqno, "first seqno of a chain")?;
        let next = self.next;
        must(
            chain.id >= next.chain,
            "chain id",
            at_least(next.chain),
            chain.id,
        )?;
        let next_incarnation = self.next_incarnation(chain.incarnation)?;
        let next_chain = next_of(chain.id, "chain id")?;
        let Some(of) = self.generations.get_mut(&generation) else {
            return must(
                false,
                "generation of a chain",
                "one that exists",
                generation,
            );
        };
        let what = "generation of a chain";
        must(
            !of.is_staged(),
            what,
            "one that is not complete",
            generation,
        )?;
        self.next.chain = next_chain;
        self.next.incarnation = next.incarnation.max(next_incarnation);
        self.order.push((chain.id, generation));
        of.chains.push(chain);
        Ok(())
    }

    /// The incarnation after one of which a chain appears. Chains of the incarnation that was used
    /// last may still do.
    pub(super) fn next_incarnation(&self, incarnation: u32) -> Result<u32, Impossible> {
        let oldest = self.next.incarnation.saturating_sub(1);
        must(
            incarnation >= oldest,
            "incarnation",
            at_least(oldest),
            incarnation,
        )?;
        match incarnation.checked_add(1) {
            Some(next) => Ok(next),
            None => must(false, "incarnation", "below 2^32 - 1", incarnation).map(|()| 0),
        }
    }

    pub(super) fn adopt_chain(&mut self, generation: u64, chain: Chain) -> Result<(), Impossible> {
        let (base, last) = (chain.base_seqno, chain.cut.map_or(0, |cut| cut.last_seqno));
        possible_seqno(last, "last seqno of a chain")?;
        must(base > 0, "first seqno of a chain", at_least(1), base)?;
        must(last >= base, "last seqno of a chain", at_least(base), last)?;
        let twice = self.place(chain.id).is_some();
        let mut tables = self.version.pm_tables();
        let owner = tables.any(|(table, _)| table.meta.owner == chain.id);
        drop(tables);
        must(!twice && !owner, "chain id", "one that is free", chain.id)?;
        if let Some(newest) = self.order.len().checked_sub(1) {
            let before = self.chain_mut(newest).and_then(|chain| chain.cut);
            let least = before.map_or(u64::MAX, |cut| cut.last_seqno + 1);
            must(
                base >= least,
                "first seqno of a chain",
                at_least(least),
                base,
            )?;
        }
        let next_chain = next_of(chain.id, "chain id")?;
        let next_incarnation = self.next_incarnation(chain.incarnation)?;
        let what = "generation of a chain";
        let mut later = self.generations.range(generation..).skip(1);
        let newest = later.all(|(_, later)| later.chains.is_empty());
        must(newest, what, "one before which all others are", generation)?;
        let Some(of) = self.generations.get_mut(&generation) else {
            return must(false, what, "one that exists", generation);
        };
        must(of.chains.is_empty(), what, "one without chains", generation)?;
        self.next.chain = self.next.chain.max(next_chain);
        self.next.incarnation = self.next.incarnation.max(next_incarnation);
        self.order.push((chain.id, generation));
        of.chains.push(chain);
        Ok(())
    }

    pub(super) fn cut_chain(
        &mut self,
        id: u64,
        last_seqno: u64,
        end: u64,
    ) -> Result<(), Impossible> {
        possible_seqno(last_seqno, "last seqno of a chain")?;
        let what = "last seqno of a chain";
        let Some(place) = self.place(id) else {
            return must(false, "cut chain", "one that exists", id);
        };
        let before = place.checked_sub(1).and_then(|i| self.chain_mut(i)?.cut);
        if let Some(follower) = self.chain_mut(place + 1)
            && let (0, Some(cut)) = (follower.base_seqno, follower.cut)
        {
            let most = cut.last_seqno;
            must(
                last_seqno <= most,
                what,
                format!("at most {most}"),
                last_seqno,
            )?;
        }
        let Some(chain) = self.chain_mut(place) else {
            return must(false, "cut chain", "one that exists", id);
        };
        must(chain.cut.is_none(), "cut of a chain", "one", "a second one")?;
        let least = match chain.base_seqno {
            0 => before.map_or(0, |cut| cut.last_seqno),
            base => base - 1,
        };
        must(last_seqno >= least, what, at_least(least), last_seqno)?;
        chain.cut = Some(Cut { last_seqno, end });
        Ok(())
    }
}
