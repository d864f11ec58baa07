use super::*;

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
