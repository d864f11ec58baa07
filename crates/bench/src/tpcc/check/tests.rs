//! Each condition holds of what is loaded and of what the transactions do, and fails when one of them is broken on
//! purpose.

use thermocline::records::{Field, Table, fields};
use thermocline::{Db, Transaction, TxnOptions};

use super::*;
use crate::oltp::attempts::{Client, Outcome};
use crate::oltp::plan::{OltpPlan, OltpWorkload};
use crate::oltp::tally::Tally;
use crate::rng::Rng;
use crate::tpcc::schema::money;
use crate::tpcc::{DELIVERY, NEW_ORDER, PAYMENT, Tpcc};
use crate::watch::Watch;

/// Faults of each condition.
fn faults(tpcc: &Tpcc, db: &Db) -> Vec<u64> {
    let checks = tpcc.check(&db.snapshot()).unwrap();
    assert!(checks.iter().all(|check| check.checked > 0));
    checks.iter().map(|check| check.faults).collect()
}

fn loaded(folder: &tempfile::TempDir) -> (Db, Tpcc) {
    let mut plan = OltpPlan::new(OltpWorkload::Tpcc);
    plan.tpcc.shrink = 100;
    let db = Db::open(folder.path().join("db"), plan.options.clone()).unwrap();
    let tpcc = Tpcc::open(&db, &plan).unwrap();
    tpcc.load(&db, &plan, &Watch::new()).unwrap();
    (db, tpcc)
}

/// Something that a transaction leaves out or does twice.
type Broken = fn(&Tables, &mut Transaction) -> Result<()>;

/// Which conditions do not hold then.
const BROKEN: [([u64; 5], Broken); 7] = [
    // A payment that the warehouse does not get.
    ([1, 0, 0, 0, 0], |tables, txn| {
        let changed = tables.district.update(txn, &fields![1, 3], |row| {
            row[D_YTD] = money(units(row, D_YTD) + 1);
        });
        changed.map(drop)
    }),
    // An order that the district does not count.
    ([0, 1, 0, 0, 0], |tables, txn| {
        let row = fields![1, 4, 31u64, 1u64, 0u64, None::<u64>, 0u64, true];
        tables.orders.insert(txn, &row)
    }),
    // One that is counted and not there.
    ([0, 1, 0, 0, 1], |tables, txn| {
        let changed = tables.district.update(txn, &fields![1, 4], |row| {
            row[D_NEXT_O_ID] = (number(row, D_NEXT_O_ID) + 1).into();
        });
        changed.map(drop)
    }),
    // A delivery of the wrong one.
    ([0, 0, 1, 0, 1], |tables, txn| {
        tables.new_order.delete(txn, &fields![1, 5, 25]).map(drop)
    }),
    // A line that is lost, or one too many.
    ([0, 0, 0, 1, 0], |tables, txn| {
        tables
            .order_line
            .delete(txn, &fields![1, 6, 7, 2])
            .map(drop)
    }),
    ([0, 0, 0, 1, 0], |tables, txn| {
        let mut row = fields![1, 6, 7, 99u64, 1u64, 1u64, None::<u64>, 1i64];
        row.extend([money(1), Field::Text("x".into())]);
        tables.order_line.insert(txn, &row)
    }),
    // A district that is gone.
    ([1, 0, 0, 0, 1], |tables, txn| {
        tables.district.delete(txn, &fields![1, 9]).map(drop)
    }),
];

#[test]
fn conditions_hold_of_what_is_right_and_of_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (db, tpcc) = loaded(&folder);
    assert_eq!(faults(&tpcc, &db), [0; 5]);
    for (expected, broken) in BROKEN {
        let mut txn = db.transaction(TxnOptions::pessimistic()).unwrap();
        let before = db.snapshot();
        broken(&tpcc.tables, &mut txn).unwrap();
        txn.commit().unwrap();
        assert_eq!(faults(&tpcc, &db), expected);
        restore(&db, &tpcc.tables, &before);
    }
    assert_eq!(faults(&tpcc, &db), [0; 5]);
}

/// Makes the small tables what they were.
fn restore(db: &Db, tables: &Tables, before: &Snapshot) {
    let mut txn = db.transaction(TxnOptions::pessimistic()).unwrap();
    let all: [&Table; 5] = [
        &tables.warehouse,
        &tables.district,
        &tables.orders,
        &tables.new_order,
        &tables.order_line,
    ];
    for table in all {
        let key = table.schema().primary_key.len();
        let now = db.snapshot();
        let rows: Vec<_> = table
            .range(&now, ..)
            .unwrap()
            .map(|row| row.unwrap())
            .collect();
        for row in rows {
            if table.get(before, &row[..key]).unwrap().as_ref() != Some(&row) {
                table.delete(&mut txn, &row[..key]).unwrap();
            }
        }
        for row in table.range(before, ..).unwrap() {
            let row = row.unwrap();
            if table.get(&txn, &row[..key]).unwrap().as_ref() != Some(&row) {
                table.put(&mut txn, &row).unwrap();
            }
        }
    }
    txn.commit().unwrap();
}

/// Tables that agree with each other say nothing of a transaction of which nothing is there.
#[test]
fn a_transaction_that_is_lost_as_a_whole_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (db, tpcc) = loaded(&folder);
    let watch = Watch::new();
    let client = Client {
        db: &db,
        options: TxnOptions::pessimistic(),
        watch: &watch,
    };
    let mut tally = Tally::new(Tpcc::KINDS.len(), Tpcc::NOTES.len()).unwrap();
    let mut rng = Rng::of_part(5, 0);
    // Of an order its number is missing, and that it waits.
    for (kind, missing) in [(NEW_ORDER, 2), (PAYMENT, 1), (DELIVERY, 1)] {
        let before = db.snapshot();
        // Some orders roll back on purpose.
        let mut done = None;
        while done != Some(Outcome::Commit) {
            let by = (0, &mut rng);
            done = tpcc.transact(&client, kind, by, &mut tally).unwrap();
        }
        assert_eq!(faults(&tpcc, &db), [0; 5]);
        restore(&db, &tpcc.tables, &before);
        assert_eq!(faults(&tpcc, &db), [0, 0, 0, 0, missing], "{kind}");
        // A run that goes on begins with what is there.
        tpcc.resume(&db).unwrap();
        assert_eq!(faults(&tpcc, &db), [0; 5]);
    }
}

/// It would count as rolled back on purpose, and fast: what a store has lost would make it look better.
#[test]
fn a_transaction_that_misses_what_was_loaded_fails() {
    let folder = tempfile::tempdir().unwrap();
    let (db, tpcc) = loaded(&folder);
    let watch = Watch::new();
    let client = Client {
        db: &db,
        options: TxnOptions::pessimistic(),
        watch: &watch,
    };
    let mut tally = Tally::new(Tpcc::KINDS.len(), Tpcc::NOTES.len()).unwrap();
    let mut txn = db.transaction(TxnOptions::pessimistic()).unwrap();
    for d in 1..=10u64 {
        assert!(
            tpcc.tables
                .district
                .delete(&mut txn, &fields![1, d])
                .unwrap()
        );
    }
    txn.commit().unwrap();
    // All but deliveries, which look at no district.
    for kind in ["new_order", "payment", "stock_level"] {
        let number = Tpcc::KINDS.iter().position(|name| *name == kind).unwrap();
        let by = (0, &mut Rng::of_part(5, 0));
        let error = tpcc.transact(&client, number, by, &mut tally).unwrap_err();
        assert!(error.to_string().contains("district"), "{kind}: {error}");
    }
}

/// Several threads, both ways to lock: the conditions hold, and every index agrees with its rows.
#[test]
fn transactions_keep_the_conditions_and_the_indexes() {
    let folder = tempfile::tempdir().unwrap();
    let (db, tpcc) = loaded(&folder);
    let watch = Watch::new();
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (db, tpcc, watch) = (&db, &tpcc, &watch);
            scope.spawn(move || {
                let options = match thread {
                    0 => TxnOptions::optimistic(),
                    _ => TxnOptions::pessimistic(),
                };
                let client = Client { db, options, watch };
                let mut tally = Tally::new(Tpcc::KINDS.len(), Tpcc::NOTES.len()).unwrap();
                let mut rng = Rng::of_part(5, thread);
                for n in 0..150 {
                    let kind = n % Tpcc::KINDS.len();
                    let by = (thread, &mut rng);
                    let done = tpcc.transact(&client, kind, by, &mut tally).unwrap();
                    assert!(done.is_some());
                }
            });
        }
    });
    assert_eq!(faults(&tpcc, &db), [0; 5]);
    let tables = &tpcc.tables;
    for table in [
        &tables.customer,
        &tables.orders,
        &tables.history,
        &tables.stock,
    ] {
        let report = table.verify(&db.snapshot()).unwrap();
        assert_eq!(report.faults, Vec::<String>::new());
    }
}
