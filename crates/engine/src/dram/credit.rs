//! Writes that are known to fit the budgets of DRAM.

use std::collections::BTreeMap;

use thermocline_base::CfId;
use thermocline_policy::promise;

/// How far writes into a family may have been granted of which nobody has noted that: up to the last one, when it is asked.
const ANY: u64 = u64::MAX;

/// Writes that are known to fit the budgets.
#[derive(Debug, Default)]
pub(crate) struct Credit {
    pub(super) writes: u64,
    /// Records written without credit.
    pub(super) without: u64,
    /// The families that they are in, whichever each, and that the writes in flight are in; each with the last seqno
    /// that a write into it may have. (The promise of that write was the last one that was for the family. If it was
    /// refused after all, the seqno is too large, and the family stays longer than it need.)
    families: BTreeMap<CfId, u64>,
    /// Registered readers for which it was reckoned: with more, version lists are longer.
    pub(super) readers: usize,
    /// The same of groups in flight.
    pub(super) groups: u64,
}

impl Credit {
    /// Whether the promise was for this family.
    #[inline]
    pub(super) fn is_for(&self, cf: CfId) -> bool {
        self.families.contains_key(&cf)
    }

    /// The families that groups in flight may be in, and perhaps others.
    pub(super) fn families(&self) -> impl Iterator<Item = CfId> {
        self.families.keys().copied()
    }

    /// The families beside those of a write that a promise must be for: those in which groups may be in flight, where all
    /// up to `visible` have finished and all up to `granted` were granted; and the others, too, while all are few.
    pub(super) fn beside(
        &self,
        own: &BTreeMap<CfId, u64>,
        (visible, granted): (u64, u64),
    ) -> BTreeMap<CfId, u64> {
        let others = self
            .families
            .iter()
            .filter(|(cf, _)| !own.contains_key(*cf));
        let mut beside: BTreeMap<CfId, u64> =
            others.map(|(cf, last)| (*cf, granted.min(*last))).collect();
        if !promise::are_few(own.len() + beside.len()) {
            beside.retain(|_, last| *last > visible);
        }
        beside
    }

    /// A promise was made for a write into `own` families, up to seqno `last`, and for those `beside`.
    pub(super) fn promised_for(
        &mut self,
        own: impl Iterator<Item = CfId>,
        last: u64,
        beside: BTreeMap<CfId, u64>,
    ) {
        self.families = beside;
        self.families.extend(own.map(|cf| (cf, last)));
        if self.writes > 0 {
            // Into which of them the writes go that use it up nobody notes.
            self.families.values_mut().for_each(|last| *last = ANY);
        }
    }

    /// The next write reckons anew what it may take.
    pub fn spend(&mut self) {
        self.writes = 0;
    }
}

#[cfg(test)]
mod tests {
    use thermocline_policy::tuning::CREDIT;

    use super::*;

    fn own(families: std::ops::Range<u16>) -> BTreeMap<CfId, u64> {
        families.map(|cf| (CfId(cf), 1)).collect()
    }

    /// The families beside one more, of writes of which those up to `visible` have finished.
    fn beside(credit: &Credit, visible: u64, granted: u64) -> Vec<u16> {
        let beside = credit.beside(&own(1000..1001), (visible, granted));
        beside.keys().map(|cf| cf.0).collect()
    }

    #[test]
    fn families_are_forgotten_whose_writes_have_finished() {
        let mut credit = Credit::default();
        for cf in 0..100u16 {
            // Three writes are in flight at a time, each with one record.
            let granted = u64::from(cf);
            let visible = granted.saturating_sub(3);
            let own = own(cf..cf + 1);
            let beside = credit.beside(&own, (visible, granted));
            assert!(beside.len() <= 3, "{beside:?}");
            credit.promised_for(own.into_keys(), granted + 1, beside);
            let flying: Vec<u16> = (cf.saturating_sub(3)..=cf).collect();
            assert!(flying.iter().all(|cf| credit.is_for(CfId(*cf))));
        }
        let wide = own(0..50);
        let flying = credit.beside(&wide, (98, 100));
        let flying: Vec<u16> = flying.keys().map(|cf| cf.0).collect();
        assert_eq!(flying, [98, 99]);
    }

    #[test]
    fn a_promise_ahead_is_for_writes_into_all_its_families() {
        let mut credit = Credit {
            writes: CREDIT,
            ..Credit::default()
        };
        credit.promised_for(own(0..2).into_keys(), 1, BTreeMap::new());
        // Of the writes up to 40 any may have been into either.
        credit.spend();
        assert_eq!(beside(&credit, 39, 40), [0, 1]);
        let others = credit.beside(&own(10..20), (39, 40));
        assert_eq!(others.into_values().collect::<Vec<_>>(), [40, 40]);
        assert!(credit.beside(&own(10..20), (40, 40)).is_empty());
    }
}
