use thermocline::records::fields;
use thermocline::{Db, TxnOptions};

use super::schema::{AMOUNT, STATE, money};
use super::*;
use crate::oltp::plan::OltpWorkload;

fn loaded(folder: &tempfile::TempDir) -> (Db, Orders) {
    let mut plan = OltpPlan::new(OltpWorkload::Orders);
    plan.orders.orders = 300;
    plan.orders.hot = 40;
    plan.orders.warm = 100;
    let db = Db::open(folder.path().join("db"), plan.options.clone()).unwrap();
    let orders = Orders::open(&db, &plan).unwrap();
    orders.load(&db, &plan, &Watch::new()).unwrap();
    (db, orders)
}

fn faults(orders: &Orders, db: &Db) -> Vec<u64> {
    let checks = orders.check(&db.snapshot()).unwrap();
    assert!(checks.iter().all(|check| check.checked > 0));
    checks.iter().map(|check| check.faults).collect()
}

#[test]
fn orders_live_and_what_is_broken_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (db, orders) = loaded(&folder);
    assert_eq!(faults(&orders, &db), [0; 5]);
    let watch = Watch::new();
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (db, orders, watch) = (&db, &orders, &watch);
            scope.spawn(move || {
                let options = match thread {
                    0 => TxnOptions::optimistic(),
                    _ => TxnOptions::pessimistic(),
                };
                let client = Client { db, options, watch };
                let mut tally = Tally::new(Orders::KINDS.len(), Orders::NOTES.len()).unwrap();
                let mut rng = Rng::of_part(3, thread);
                for _ in 0..400 {
                    let kind = orders.draw(&mut rng);
                    let done = orders.transact(&client, kind, &mut rng, &mut tally);
                    assert!(done.unwrap().is_some());
                }
                assert!(tally.notes[ROWS_READ] > 400);
            });
        }
    });
    assert_eq!(faults(&orders, &db), [0; 5]);
    for table in orders.tables.all() {
        let report = table.verify(&db.snapshot()).unwrap();
        assert_eq!(report.faults, Vec::<String>::new());
    }
    let tables = &orders.tables;
    let mut txn = db.transaction(TxnOptions::pessimistic()).unwrap();
    let one = fields![7, 0];
    tables
        .orders
        .update(&mut txn, &one, |row| row[AMOUNT] = money(1))
        .unwrap();
    tables
        .orders
        .update(&mut txn, &fields![8, 0], |row| row[STATE] = 1.into())
        .unwrap();
    tables.beside[4].delete(&mut txn, &one).unwrap();
    txn.commit().unwrap();
    assert_eq!(faults(&orders, &db), [1, 1, 1, 0, 1]);
    // An entry that is lost.
    let family = tables.events.family();
    let entry = family.prefix([2u8]).next().unwrap().unwrap().0;
    family.delete(&entry).unwrap();
    assert_eq!(faults(&orders, &db), [1, 1, 1, 1, 1]);
}

/// Tables that agree with each other say nothing of a transaction of which nothing is there.
#[test]
fn a_transaction_that_is_lost_as_a_whole_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (db, orders) = loaded(&folder);
    let watch = Watch::new();
    let client = Client {
        db: &db,
        options: TxnOptions::pessimistic(),
        watch: &watch,
    };
    let mut tally = Tally::new(Orders::KINDS.len(), Orders::NOTES.len()).unwrap();
    let mut rng = Rng::of_part(3, 0);
    // Counts that are of no transaction: it is as if that had left nothing.
    orders.expected.place();
    assert_eq!(faults(&orders, &db), [0, 0, 0, 0, 1]);
    orders.expected.advance();
    assert_eq!(faults(&orders, &db), [0, 0, 0, 0, 2]);
    // A run that goes on begins with what is there.
    orders.resume(&db).unwrap();
    assert_eq!(faults(&orders, &db), [0; 5]);
    for n in 0..20 {
        let kind = if n < 5 { PLACE } else { ADVANCE };
        let done = orders.transact(&client, kind, &mut rng, &mut tally);
        assert_eq!(done.unwrap(), Some(Outcome::Commit));
        assert_eq!(faults(&orders, &db), [0; 5]);
    }
    let placed = fields![304, 0];
    let mut txn = db.transaction(TxnOptions::pessimistic()).unwrap();
    for table in orders.tables.all() {
        let rows = table.prefix(&txn, &placed[..1]).unwrap();
        let rows: Vec<_> = rows.map(|row| row.unwrap()).collect();
        for row in rows {
            assert!(table.delete(&mut txn, &row[..2]).unwrap());
        }
    }
    txn.commit().unwrap();
    let lost = faults(&orders, &db);
    assert_eq!(lost[..4], [0; 4]);
    assert!(lost[4] > 0);
}

#[test]
fn recent_ones_are_drawn_more_often() {
    let mut rng = Rng::of_part(1, 1);
    let mut low = |theta| {
        let drawn = (0..10_000).map(|_| skewed(1000, theta, &mut rng));
        drawn.filter(|n| *n < 100).count()
    };
    let (even, skewed) = (low(0.0), low(0.8));
    assert!((800..1200).contains(&even), "{even}");
    // 0.1^(1 - 0.8) is 0.63.
    assert!((5900..6700).contains(&skewed), "{skewed}");
}
