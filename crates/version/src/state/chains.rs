//! How chains and generations come and go.

use super::{Chain, Cut, Impossible, State, at_least, must, next_of, possible_seqno};

impl State {
    fn chain(&self, id: u64) -> Option<&Chain> {
        let link = self.order.get(id)?;
        self.generations
            .get(&link.generation)?
            .chains
            .get(link.index)
    }

    pub(super) fn chain_mut(&mut self, id: u64) -> Option<&mut Chain> {
        let link = self.order.get(id)?;
        let generation = self.generations.get_mut(&link.generation)?;
        generation.chains.get_mut(link.index)
    }

    /// The chain after a dropped one may only be known to follow it (base seqno 0). It takes along
    /// where the dropped one ended, which must be known by now: the manifest would forget with
    /// which seqno it begins.
    pub(super) fn drop_generation(&mut self, id: u64) -> Result<(), Impossible> {
        let what = "dropped generation";
        let Some(dropped) = self.generations.remove(&id) else {
            return must(false, what, "one that exists", id);
        };
        for chain in &dropped.chains {
            let after = self.order.get(chain.id).and_then(|link| link.after);
            let of = |after: &u64| self.order.get(*after).map(|link| link.generation);
            let Some(after) = after.filter(|after| of(after) != Some(id)) else {
                continue;
            };
            let Some(follower) = self.chain_mut(after).filter(|c| c.base_seqno == 0) else {
                continue;
            };
            let Some(cut) = chain.cut else {
                let expected = format!("a cut of chain {}, which a later one follows", chain.id);
                return must(false, what, expected, "none");
            };
            follower.base_seqno = cut.last_seqno + 1;
        }
        for chain in &dropped.chains {
            self.order.remove(chain.id);
        }
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
        self.order.push(chain.id, generation, of.chains.len());
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
        let twice = self.order.get(chain.id).is_some();
        let owner = self.version.owns_pm_table(chain.id);
        must(!twice && !owner, "chain id", "one that is free", chain.id)?;
        if let Some(newest) = self.order.last() {
            let before = self.chain(newest).and_then(|chain| chain.cut);
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
        self.order.push(chain.id, generation, of.chains.len());
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
        let Some(link) = self.order.get(id) else {
            return must(false, "cut chain", "one that exists", id);
        };
        let before = link.before.and_then(|before| self.chain(before)?.cut);
        if let Some(follower) = link.after.and_then(|after| self.chain(after))
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
        let Some(chain) = self.chain_mut(id) else {
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
