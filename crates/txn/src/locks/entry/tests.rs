use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use thermocline_testkit::Rng;

use crate::life::{Life, TxnId};
use crate::locks::entry::{Entry, Mode, Request};
use crate::locks::wake::{Verdict, Wake};
use crate::sync::Arc;

fn life(id: TxnId) -> Arc<Life> {
    Arc::new(Life::new(id, 0, u64::MAX))
}

/// An entry, and what somebody knows of it who is told of changes only.
#[derive(Default)]
struct Model {
    entry: Entry,
    waiting: BTreeMap<TxnId, (Mode, Arc<Wake>)>,
    told: BTreeMap<TxnId, Option<TxnId>>,
    arrivals: u64,
    last_granted: u64,
}

impl Model {
    fn tell(&mut self, places: Range<usize>) {
        self.told.extend(self.entry.aheads(places));
    }

    /// A new one comes, in plain rounds; in others it may hold the lock already, or have a range.
    fn enqueue(&mut self, rng: &mut Rng, plain: bool) {
        self.arrivals += 1;
        let holders = self.entry.holders();
        let readers = holders.filter(|holder| !holder.is_exclusive());
        let readers = readers.map(|holder| holder.who.id);
        let idle = readers.filter(|id| !self.waiting.contains_key(id));
        let idle: Vec<TxnId> = idle.collect();
        let (who, mode) = match !plain && !idle.is_empty() && rng.one_in(4) {
            true => (*rng.pick(&idle), Mode::Exclusive),
            false => (self.arrivals, *rng.pick(&[Mode::Shared, Mode::Exclusive])),
        };
        let range = (!plain && rng.one_in(6)).then(|| self.arrivals.saturating_sub(5));
        let wake: Arc<Wake> = Arc::default();
        let request = Request::new(&life(who), mode, self.arrivals, &wake);
        let moved = self.entry.enqueue(request, range);
        let own = self.entry.request(who).unwrap().ahead;
        self.told.insert(who, own);
        self.tell(moved);
        self.waiting.insert(who, (mode, wake));
    }

    fn withdraw(&mut self, rng: &mut Rng) {
        let all: Vec<TxnId> = self.waiting.keys().copied().collect();
        if all.is_empty() {
            return;
        }
        let who = *rng.pick(&all);
        let moved = self.entry.withdraw(who);
        self.tell(moved);
        self.waiting.remove(&who);
        self.told.remove(&who);
    }

    fn release(&mut self, rng: &mut Rng) {
        let holders = self.entry.holders();
        let all: Vec<TxnId> = holders.map(|holder| holder.who.id).collect();
        if !all.is_empty() {
            self.entry.release(*rng.pick(&all));
        }
    }

    fn grant(&mut self, plain: bool) {
        let mut gone = Vec::new();
        let moved = self.entry.grant(0, |_| false, |who| gone.push(who));
        self.tell(moved);
        for who in gone {
            let (mode, wake) = self.waiting.remove(&who).unwrap();
            self.told.remove(&who);
            assert_eq!(wake.look(), Verdict::Granted);
            assert_eq!(self.entry.mode_of(who), Some(mode));
            assert!(!plain || self.last_granted < who, "in turn");
            self.last_granted = who;
        }
    }

    fn check(&self) {
        let all = self.entry.aheads(0..self.waiting.len());
        let (mut ahead, mut count) = (None, 0);
        for (who, own) in all {
            assert_eq!((own, self.told[&who]), (ahead, ahead));
            if self.waiting[&who].0 == Mode::Exclusive {
                ahead = Some(who);
            }
            count += 1;
        }
        assert_eq!(count, self.waiting.len());
        assert_eq!(self.entry.is_waited_for(), count > 0);
        let holders = self.entry.holders().count();
        assert!(!self.entry.is_held_alone() || holders == 1);
    }
}

/// Whatever comes and goes, whoever is told of changes alone knows of each request who is next ahead and wants the lock alone.
#[test]
fn each_request_knows_who_is_ahead_and_changes_are_told() {
    for seed in 0..60 {
        let (mut rng, mut model, plain) = (Rng::new(seed), Model::default(), seed % 2 == 0);
        for _ in 0..200 {
            match rng.below(6) {
                0..3 => model.enqueue(&mut rng, plain),
                3 => model.withdraw(&mut rng),
                _ => model.release(&mut rng),
            }
            model.check();
            model.grant(plain);
            model.check();
        }
        while !model.entry.is_unused() {
            model.release(&mut rng);
            model.grant(plain);
            model.check();
        }
    }
}

#[test]
fn only_the_first_who_waits_is_told_when_to_look() {
    let told = |wake: &Wake| wake.sleep(u64::MAX, Some(Duration::ZERO)).1;
    let mut entry = Entry::held(&life(1), Mode::Shared, 0);
    entry.hold(&life(2), Mode::Shared, 0);
    let wakes: Vec<Arc<Wake>> = (0..3).map(|_| Arc::default()).collect();
    for (who, wake) in [3, 4].into_iter().zip(&wakes) {
        let moved = entry.enqueue(Request::new(&life(who), Mode::Exclusive, who, wake), None);
        assert!(moved.is_empty());
    }
    entry.look_at(7);
    assert_eq!((told(&wakes[0]), told(&wakes[1])), (7, u64::MAX));
    // A holder that wants it alone goes first. Whoever was first looks no more.
    let upgrade = Request::new(&life(1), Mode::Exclusive, 5, &wakes[2]);
    assert_eq!(entry.enqueue(upgrade, None), 1..2);
    assert_eq!(told(&wakes[0]), u64::MAX);
    entry.look_at(9);
    assert_eq!((told(&wakes[2]), told(&wakes[0])), (9, u64::MAX));
    entry.release(2);
    assert_eq!(entry.grant(0, |_| false, |_| ()), 0..1);
    assert_eq!(wakes[2].look(), Verdict::Granted);
    entry.look_at(7);
    assert_eq!((told(&wakes[0]), told(&wakes[1])), (7, u64::MAX));
}

/// All who wait are past their time when the key is free: each holds it who keeps nobody else from it, and no other one.
#[test]
fn who_is_granted_past_its_time_holds_nothing_that_others_wait_for() {
    const S: Mode = Mode::Shared;
    const X: Mode = Mode::Exclusive;
    let cases: [(&[Mode], &[TxnId]); 8] = [
        (&[S], &[2]),
        (&[X], &[2]),
        (&[S, S], &[2, 3]),
        (&[S, X], &[3]),
        (&[X, S], &[3]),
        (&[X, X, X], &[4]),
        // Who wanted it alone has gone, and those behind want it beside each other.
        (&[X, S, S], &[3, 4]),
        (&[S, X, S, S], &[4, 5]),
    ];
    for (modes, expected) in cases {
        let mut entry = Entry::held(&life(1), X, 0);
        let mut waiting = Vec::new();
        for (id, &mode) in (2..).zip(modes) {
            let (own, wake) = (Arc::new(Life::new(id, 0, 20)), Arc::default());
            let moved = entry.enqueue(Request::new(&own, mode, id, &wake), None);
            assert!(moved.is_empty());
            waiting.push((own, wake));
        }
        entry.release(1);
        entry.evict(30);
        entry.grant(30, |_| false, |_| ());
        let holders: Vec<TxnId> = entry.holders().map(|holder| holder.who.id).collect();
        assert_eq!(holders, expected, "{modes:?}");
        for (own, wake) in waiting {
            assert_eq!(wake.look(), Verdict::Granted);
            let goes_on = expected.contains(&own.id);
            assert_eq!(own.check().is_ok(), goes_on, "{} of {modes:?}", own.id);
        }
    }
}
