use std::sync::Arc;

use super::*;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

const MIB: u64 = 1 << 20;

fn opened(budget: &Arc<Budget>, limit: u64) -> Arc<Account> {
    let account = Account::new(budget.clone(), limit);
    account.opened();
    account
}

#[test]
fn one_of_two_gets_the_last_room() {
    let budget = Budget::new(16 * MIB);
    let (a, b) = (opened(&budget, 16 * MIB), opened(&budget, 16 * MIB));
    a.promise(8 * MIB, Spare::Keep).unwrap();
    assert_eq!(b.promise(8 * MIB, Spare::Keep), Err(Full::Budget));
    b.promise(7 * MIB, Spare::Keep).unwrap();
    // The last sixteenth is for deletes.
    assert_eq!(b.promise(7 * MIB + 1, Spare::Keep), Err(Full::Budget));
    b.promise(8 * MIB, Spare::Use).unwrap();
    assert_eq!(a.promise(8 * MIB + 1, Spare::Use), Err(Full::Budget));
    // A promise that was refused changes nothing.
    assert_eq!(
        (budget.held(), a.held(), b.held()),
        (16 * MIB, 8 * MIB, 8 * MIB)
    );
    b.promise(MIB, Spare::Keep).unwrap();
    a.promise(14 * MIB, Spare::Keep).unwrap();
    assert_eq!(a.promise(15 * MIB + 1, Spare::Keep), Err(Full::Account));
    drop(a);
    assert_eq!(budget.held(), MIB);
}

#[test]
fn what_is_given_back_stays_promised_until_the_next_promise() {
    let budget = Budget::new(MIB);
    let account = opened(&budget, MIB);
    account.promise(1000, Spare::Keep).unwrap();
    account.take(900).unwrap();
    account.give(400);
    assert_eq!((budget.used(), budget.held()), (500, 1000));
    // By another write under way, for instance.
    account.take(500).unwrap();
    assert_eq!((account.overdrawn(), budget.held()), (0, 1000));
    account.give(300);
    account.settle();
    assert_eq!((budget.used(), budget.held()), (700, 700));
    account.promise(800, Spare::Keep).unwrap();
    account.close();
    account.give(200);
    assert_eq!((budget.used(), budget.held()), (500, 500));
    account.give(500);
    assert_eq!((budget.used(), budget.held()), (0, 0));
}

#[test]
fn a_promise_that_was_too_small_is_told_and_fails_nothing() {
    let budget = Budget::new(1000);
    let account = opened(&budget, 1000);
    account.promise(900, Spare::Keep).unwrap();
    account.take(900).unwrap();
    account.take(200).unwrap();
    assert_eq!(
        (account.overdrawn(), account.held(), budget.held()),
        (200, 1100, 1100)
    );
    let other = opened(&budget, 1000);
    assert_eq!(other.promise(1, Spare::Use), Err(Full::Budget));
}

#[test]
fn opening_asks_the_budget_and_not_the_own_limit() {
    let budget = Budget::new(1000);
    let account = Account::new(budget.clone(), 10);
    account.take(600).unwrap();
    let late = Account::new(budget.clone(), 1 << 30);
    late.take(400).unwrap();
    let error = late.take(1).unwrap_err().to_string();
    assert!(
        error.contains("runtime") && error.contains("1000 B"),
        "{error}"
    );
    assert_eq!(
        (late.used(), budget.used(), budget.held()),
        (400, 1000, 1000)
    );
    account.opened();
    assert_eq!(account.promise(601, Spare::Use), Err(Full::Account));
    let error = account.full(Full::Account, "one more write").to_string();
    assert!(
        error.contains("dram allows") && !error.contains("runtime"),
        "{error}"
    );
}

#[test]
fn writes_ahead_leave_room_to_others() {
    let budget = Budget::new(16 * MIB);
    let mut accounts = Vec::new();
    for _ in 0..100 {
        let account = opened(&budget, 16 * MIB);
        assert!(!account.has_ample_room_for(2 * MIB));
        if account.has_ample_room_for(MIB) {
            account.promise(MIB, Spare::Keep).unwrap();
        }
        accounts.push(account);
    }
    assert!(
        budget.held() >= 4 * MIB && budget.held() <= 8 * MIB,
        "{budget:?}"
    );
    let alone = opened(&Budget::new(u64::MAX), 16 * MIB);
    assert!(alone.has_ample_room_for(15 * MIB) && !alone.has_ample_room_for(15 * MIB + 1));
}

/// Room for one is never promised to two, however closely they come.
#[test]
fn room_for_one_is_promised_to_one() {
    let budget = Budget::new(100);
    let behind = std::sync::atomic::AtomicI64::new(2);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let account = opened(&budget, 100);
                let mut got = 0;
                // Nobody stops before all have had it often.
                while behind.load(Ordering::Relaxed) > 0 {
                    if account.promise(60, Spare::Use).is_ok() {
                        let others = (0..20).any(|_| budget.held() > 100);
                        account.settle();
                        got += 1;
                        if got == 200_000 || others {
                            behind.fetch_sub(1, Ordering::Relaxed);
                        }
                        assert!(!others, "two have it");
                    }
                }
            });
        }
    });
}

/// Stores that promise, take and give back on threads of their own never use more than the limit,
/// in all.
#[test]
fn many_stores_stay_below_the_limit() {
    const LIMIT: u64 = 1 << 20;
    let budget = Budget::new(LIMIT);
    let stop = crate::sync::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stores: Vec<_> = (0..4u64)
            .map(|seed| {
                let budget = &budget;
                scope.spawn(move || {
                    let account = opened(budget, LIMIT / 2);
                    let (mut random, mut refused, mut have) = (seed, 0, 0);
                    for _ in 0..200_000 {
                        random = random
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        let bytes = random >> 46;
                        match random % 7 {
                            0 => account.settle(),
                            1 => {
                                let back = bytes.min(have);
                                account.give(back);
                                have -= back;
                            }
                            _ if account.promise(have + bytes, Spare::Keep).is_ok() => {
                                account.take(bytes).unwrap();
                                have += bytes;
                            }
                            _ => refused += 1,
                        }
                    }
                    assert_eq!((account.used(), account.overdrawn()), (have, 0));
                    account.give(have);
                    refused
                })
            })
            .collect();
        let (budget, stop) = (&budget, &stop);
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                assert!(budget.held() <= LIMIT && budget.used() <= LIMIT);
            }
        });
        let refused: Vec<u64> = stores.into_iter().map(|s| s.join().unwrap()).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(refused.iter().all(|&n| n > 0), "{refused:?}");
    });
    assert_eq!((budget.held(), budget.used()), (0, 0));
}

/// Something that can give back, in pieces.
#[derive(Debug, Default)]
struct Pieces(Mutex<Vec<Charge>>);

impl Pieces {
    fn of(account: &Arc<Account>) -> Arc<Pieces> {
        let pieces = Arc::new(Pieces::default());
        let weak = Arc::downgrade(&pieces);
        account.add_evicting(weak.clone());
        account.budget().add_evicting(weak);
        pieces
    }

    /// Takes pieces of 10 bytes, as long as there is room and it has fewer than `most`.
    fn fill(&self, account: &Arc<Account>, most: usize) -> usize {
        let mut all = lock(&self.0);
        while all.len() < most {
            match account.charge(10) {
                Some(charge) => all.push(charge),
                None => break,
            }
        }
        all.len()
    }
}

impl Evict for Pieces {
    fn evict(&self, bytes: u64) {
        let mut all = lock(&self.0);
        let pieces = usize::try_from(bytes.div_ceil(10)).unwrap();
        let left = all.len().saturating_sub(pieces);
        all.truncate(left);
    }
}

#[test]
fn what_is_charged_gets_what_promises_leave_and_gives_way_to_them() {
    let budget = Budget::new(1000);
    let (a, b) = (opened(&budget, 1000), opened(&budget, 500));
    let (of_a, of_b) = (Pieces::of(&a), Pieces::of(&b));
    a.promise(600, Spare::Keep).unwrap();
    a.take(100).unwrap();
    // What is promised counts, not what is used.
    assert_eq!(of_b.fill(&b, 10), 10);
    assert_eq!(of_a.fill(&a, 1000), 30);
    assert_eq!((budget.held(), budget.charged()), (600, 400));
    assert!(a.charge(1).is_none() && b.charge(1).is_none());
    // Room of the budget, of whoever is asked first; somewhat more than is needed.
    a.promise(700, Spare::Keep).unwrap();
    assert_eq!((a.held(), a.charged(), b.charged()), (700, 180, 100));
    // The own limit is not in others' way.
    b.promise(450, Spare::Use).unwrap_err();
    b.promise(120, Spare::Use).unwrap();
    let sum = budget.held() + budget.charged();
    assert!(sum <= 1000 && b.held() + b.charged() <= 500, "{budget:?}");
    // A charge makes others give way too, and nothing can make promises.
    let charge = a.charge_or_evict(100).unwrap();
    assert_eq!((charge.bytes(), a.over()), (100, 0));
    assert!(budget.held() + budget.charged() <= 1000, "{budget:?}");
    assert!(a.charge_or_evict(200).is_none());
    assert!(budget.held() + budget.charged() <= 1000, "{budget:?}");
    let mut over = a.charge_over(200);
    assert_eq!(a.over(), budget.held() + budget.charged() - 1000);
    over.grow_over(250);
    assert_eq!(over.bytes(), 250);
    drop((over, charge));
    drop((of_a, of_b));
    assert_eq!((budget.charged(), a.charged(), b.charged()), (0, 0, 0));
    a.promise(800, Spare::Keep).unwrap();
}

#[test]
fn a_promise_that_nobody_makes_room_for_changes_nothing() {
    let budget = Budget::new(1000);
    let account = opened(&budget, 1000);
    account.promise(100, Spare::Keep).unwrap();
    let charge = account.charge(800).unwrap();
    assert_eq!(account.promise(300, Spare::Use), Err(Full::Budget));
    assert_eq!((account.held(), budget.held()), (100, 100));
    account.promise(200, Spare::Use).unwrap();
    drop(charge);
    account.promise(300, Spare::Use).unwrap();
    // One that is being opened takes room from what is cached, too.
    let pieces = Pieces::of(&account);
    assert_eq!(pieces.fill(&account, 1000), 70);
    let late = Account::new(budget.clone(), 1000);
    late.take(400).unwrap();
    assert!(budget.held() + budget.charged() <= 1000, "{budget:?}");
    late.take(301).unwrap_err();
}

/// Stores that promise and charge on threads of their own: whoever has got room really has it.
#[test]
fn promises_and_charges_never_get_the_same_room() {
    const LIMIT: u64 = 1 << 16;
    let budget = Budget::new(LIMIT);
    // What they have got, counted by themselves: raised after, and lowered before.
    let have = [AtomicU64::new(0), AtomicU64::new(0)];
    let behind = std::sync::atomic::AtomicI64::new(2);
    std::thread::scope(|scope| {
        for me in 0..2usize {
            let (budget, have, behind) = (&budget, &have, &behind);
            scope.spawn(move || {
                let account = opened(budget, LIMIT);
                let mut random = me as u64;
                let mut refused = 0;
                // Nobody stops before both have been refused often.
                while behind.load(Ordering::Relaxed) > 0 {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    let bytes = random >> 48;
                    let (got, charge) = match me {
                        0 => (account.promise(bytes, Spare::Use).is_ok(), None),
                        _ => (false, account.charge(bytes)),
                    };
                    if !got && charge.is_none() {
                        refused += 1;
                        if refused == 2_000 {
                            behind.fetch_sub(1, Ordering::Relaxed);
                        }
                        continue;
                    }
                    have[me].store(bytes, Ordering::SeqCst);
                    let both = bytes + have[1 - me].load(Ordering::SeqCst);
                    if both > LIMIT {
                        behind.store(0, Ordering::Relaxed);
                    }
                    assert!(both <= LIMIT, "{both}");
                    have[me].store(0, Ordering::SeqCst);
                    drop(charge);
                    account.settle();
                }
            });
        }
    });
    assert_eq!((budget.held(), budget.charged()), (0, 0));
}

/// What a charge grows by was never asked for as memory that is kept: else there would be less than none of that, and no more for
/// anybody.
#[test]
fn of_a_kept_charge_that_has_grown_no_more_is_let_go_than_was_kept() {
    let budget = Budget::new(16 * MIB);
    let account = opened(&budget, 16 * MIB);
    let mut charge = account.charge_kept(6 * MIB).unwrap();
    charge.grow_over(9 * MIB);
    assert!(account.charge_kept(3 * MIB).is_none(), "half is kept");
    drop(account.charge_kept(2 * MIB).unwrap());
    drop(charge);
    assert_eq!(budget.charged(), 0);
    assert!(account.charge_kept(8 * MIB + 1).is_none());
    assert!(account.charge_kept(8 * MIB).is_some());
}
