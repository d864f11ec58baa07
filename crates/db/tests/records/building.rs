//! Indexes that are added and dropped beside writers, and cut short anywhere.
//!
//! [`Hooked`] is a store that lets a test do something before each transaction of an opening, and before each commit of
//! one: so every order in which an opening and another writer can take turns is tried, on one thread. The same places
//! are where an opening is cut short.

use std::cell::{Cell, RefCell};
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use thermocline::records::{Schema, Store, Table, Type, fields};
use thermocline::{
    ColumnFamily, Db, Error, Options, Result, Snapshot, Transaction, TxnOptions, limits,
};
use thermocline_base::planted::{Bug, plant};
use thermocline_testkit::Rng;

use super::{begin, check, open, options};

/// What is done at each place, told its number.
type Hook = Rc<dyn Fn(usize) -> Result<()>>;

thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    static PLACES: Cell<usize> = const { Cell::new(0) };
}

fn place() -> Result<()> {
    let number = PLACES.replace(PLACES.get() + 1);
    let hook = HOOK.with_borrow(Clone::clone);
    hook.map_or(Ok(()), |hook| hook(number))
}

/// Runs `work` with a hook; returns how many places there were, too.
fn hooked<T>(hook: impl Fn(usize) -> Result<()> + 'static, work: impl FnOnce() -> T) -> (T, usize) {
    PLACES.set(0);
    HOOK.set(Some(Rc::new(hook)));
    let done = work();
    HOOK.set(None);
    (done, PLACES.get())
}

struct Hooked(Db);

impl Store for Hooked {
    type Family = ColumnFamily;
    type Reader = Snapshot;
    type Writer = Transaction;

    fn find_family(&self, name: &str) -> Result<Option<ColumnFamily>> {
        Store::find_family(&self.0, name)
    }

    fn make_family(&self, name: &str) -> Result<ColumnFamily> {
        Store::make_family(&self.0, name)
    }

    fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }

    fn transaction(&self, locks: bool) -> Result<Transaction> {
        place()?;
        let options = match locks {
            true => TxnOptions::pessimistic().lock_timeout(Duration::ZERO),
            false => TxnOptions::optimistic(),
        };
        self.0.transaction(options)
    }

    fn commit(txn: Transaction) -> Result<()> {
        place()?;
        txn.commit()
    }
}

/// Rows enough for three chunks of a pass.
const ROWS: u64 = 600;

fn plain() -> Schema {
    Schema::new("t")
        .column("id", Type::U64)
        .column("code", Type::U64)
        .column("group", Type::U64)
        .primary_key(["id"])
}

fn indexed() -> Schema {
    plain().unique("code", ["code"]).index("group", ["group"])
}

fn fill(db: &Db, table: &Table) {
    let mut txn = begin(db);
    for id in 0..ROWS {
        // Even ids, so that others fit between.
        table
            .insert(&mut txn, &fields![2 * id, 10_000 + id, id % 7])
            .unwrap();
    }
    txn.commit().unwrap();
}

/// A writer's transaction on some rows, not committed yet. Codes are never given twice, so
/// nothing that the writer does is refused as a duplicate in a store that is right.
fn written(
    db: &Db,
    table: &Table,
    (rng, fresh): (&mut Rng, &Cell<u64>),
    options: TxnOptions,
) -> Result<Transaction> {
    let mut txn = db.transaction(options.lock_timeout(Duration::ZERO))?;
    for _ in 0..1 + rng.below(3) {
        let id = rng.next_u64() % (2 * ROWS);
        let code = fresh.replace(fresh.get() + 1);
        match rng.below(4) {
            0 => drop(table.delete(&mut txn, &fields![id])?),
            1 => drop(table.put(&mut txn, &fields![id, code, id % 5])?),
            2 => drop(table.update(&mut txn, &fields![id], |row| row[2] = (id % 3).into())?),
            _ => {
                // The code moves from one row to another.
                let Some(row) = table.get_for_update(&mut txn, &fields![id])? else {
                    continue;
                };
                table.delete(&mut txn, &fields![id])?;
                table.put(&mut txn, &[(id ^ 1).into(), row[1].clone(), row[2].clone()])?;
            }
        }
    }
    Ok(txn)
}

/// Whether a transaction went through, or others were faster.
fn went_through<T>(answer: Result<T>) -> Option<T> {
    match answer {
        Ok(done) => Some(done),
        Err(Error::Conflict(_) | Error::Busy(_)) => None,
        Err(error) => panic!("{error}"),
    }
}

/// One opening that adds two indexes, with writes at every place.
fn beside_writers(seed: u64) {
    let home = open();
    let db = home.db.clone();
    let table = Table::open(&db, plain()).unwrap();
    fill(&db, &table);
    let (rng, fresh) = (RefCell::new(Rng::new(seed)), Cell::new(1_000_000));
    let (writer, handle) = (db.clone(), table.clone());
    // One that stays open from place to place. It locks nothing, so the opening need not wait for it.
    let open_one = RefCell::new(None::<Transaction>);
    let hook = move |_| {
        let mut rng = rng.borrow_mut();
        if rng.one_in(3) {
            open_one.take().map(|txn| went_through(txn.commit()));
        }
        let optimistic = TxnOptions::optimistic();
        for _ in 0..rng.below(6) {
            let options = *rng.pick(&[TxnOptions::pessimistic(), optimistic]);
            let txn = written(&writer, &handle, (&mut rng, &fresh), options);
            went_through(txn.and_then(Transaction::commit));
        }
        let txn = written(&writer, &handle, (&mut rng, &fresh), optimistic);
        open_one.borrow_mut().get_or_insert(txn.unwrap());
        Ok(())
    };
    let (opened, places) = hooked(hook, || Table::open(&Hooked(db.clone()), indexed()));
    let opened = opened.unwrap();
    assert!(places > 12, "{places}");
    check(&db, &opened);
    check(&db, &table);
    let rows = table.range(&db.snapshot(), ..).unwrap().count();
    let by_code = opened.index("code").unwrap();
    assert_eq!(by_code.keys(&db.snapshot(), ..).unwrap().count(), rows);
}

#[test]
fn an_index_that_is_added_beside_writers_has_every_row() {
    for seed in 0..thermocline_testkit::explore::explored(10, 300) {
        beside_writers(seed);
    }
}

/// A transaction that has written rows and is open keeps the schema from changing, or is refused when it commits.
#[test]
fn a_schema_does_not_change_below_open_transactions() {
    let home = open();
    let db = home.db.clone();
    let table = Table::open(&db, plain()).unwrap();
    let mut txn = begin(&db);
    table.insert(&mut txn, &fields![1, 1, 1]).unwrap();
    let (answer, _) = hooked(|_| Ok(()), || Table::open(&Hooked(db.clone()), indexed()));
    assert!(matches!(answer, Err(Error::Busy(_))), "{answer:?}");
    txn.commit().unwrap();

    let mut txn = db.transaction(TxnOptions::optimistic()).unwrap();
    table.insert(&mut txn, &fields![2, 2, 2]).unwrap();
    let opened = Table::open(&db, indexed()).unwrap();
    let answer = txn.commit();
    assert!(matches!(answer, Err(Error::Conflict(_))), "{answer:?}");
    check(&db, &opened);
}

/// Rows are written between the two steps of dropping an index, and their transaction stays open, or is prepared. It is named,
/// and loses nothing; the next call goes on.
#[test]
fn an_index_is_not_dropped_below_open_transactions() {
    for prepares in [false, true] {
        let home = open();
        let db = home.db.clone();
        let table = Table::open(&db, indexed()).unwrap();
        fill(&db, &table);
        let (writer, handle) = (db.clone(), table.clone());
        let open_one = Rc::new(RefCell::new(None::<Transaction>));
        let kept = Rc::clone(&open_one);
        let hook = move |number: usize| {
            // The first step has two places.
            if number != 2 {
                return Ok(());
            }
            let mut txn = begin(&writer);
            handle.insert(&mut txn, &fields![1, 1, 1])?;
            match prepares {
                true => drop(txn.prepare("half")?),
                false => drop(kept.replace(Some(txn))),
            }
            Ok(())
        };
        let drop_one = || Table::drop_index(&Hooked(db.clone()), "t", "code");
        let (answer, _) = hooked(hook, drop_one);
        let why = match answer {
            Err(Error::Busy(why)) => why,
            other => panic!("{other:?}"),
        };
        match open_one.take() {
            Some(txn) => {
                let holder = format!("transaction {} (shared", txn.id());
                assert!(why.contains(&holder), "{why}");
                txn.commit().unwrap();
            }
            None => {
                assert!(why.contains("prepared transaction 'half'"), "{why}");
                db.commit_prepared("half").unwrap();
            }
        }
        assert!(Table::drop_index(&db, "t", "code").unwrap());
        let rows = table.range(&db.snapshot(), ..).unwrap().count();
        assert_eq!(rows as u64, ROWS + 1);
        check(&db, &table);
    }
}

/// Who declares a table as it is opens it beside open transactions, though the entries of a dropped index are there still.
#[test]
fn entries_of_a_dropped_index_keep_nobody_from_opening() {
    let home = open();
    let db = home.db.clone();
    let table = Table::open(&db, indexed()).unwrap();
    fill(&db, &table);
    let (writer, handle) = (db.clone(), table.clone());
    let open_one = Rc::new(RefCell::new(None::<Transaction>));
    let kept = Rc::clone(&open_one);
    let hook = move |number: usize| {
        // The first step has two places.
        if number == 2 {
            let mut txn = begin(&writer);
            handle.insert(&mut txn, &fields![1, 1, 1])?;
            drop(kept.replace(Some(txn)));
        }
        Ok(())
    };
    let drop_one = || Table::drop_index(&Hooked(db.clone()), "t", "code");
    let (answer, _) = hooked(hook, drop_one);
    assert!(matches!(answer, Err(Error::Busy(_))), "{answer:?}");
    let txn = open_one.take().expect("it is open");
    let declared = || plain().index("group", ["group"]);
    let opened = Table::open(&Hooked(db.clone()), declared()).unwrap();
    let mut other = begin(&db);
    opened.insert(&mut other, &fields![3, 3, 1]).unwrap();
    other.commit().unwrap();
    check(&db, &opened);
    // Who declares the index anew needs its place.
    let again = Table::open(&Hooked(db.clone()), indexed());
    assert!(matches!(again, Err(Error::Busy(_))), "{again:?}");
    txn.commit().unwrap();
    let opened = Table::open(&db, declared()).unwrap();
    // It is gone.
    assert!(!Table::drop_index(&db, "t", "code").unwrap());
    let rows = opened.range(&db.snapshot(), ..).unwrap().count();
    assert_eq!(rows as u64, ROWS + 2);
    check(&db, &opened);
}

/// They keep nobody from opening it either who has opened the database for reading only, and cannot take them away.
#[test]
fn entries_of_a_dropped_index_are_passed_over_where_nothing_is_written() {
    let home = open();
    let table = Table::open(&home.db, indexed()).unwrap();
    fill(&home.db, &table);
    let (writer, handle) = (home.db.clone(), table.clone());
    let open_one = Rc::new(RefCell::new(None::<Transaction>));
    let kept = Rc::clone(&open_one);
    let hook = move |number: usize| {
        // The first step has two places.
        if number == 2 {
            let mut txn = begin(&writer);
            handle.insert(&mut txn, &fields![1, 1, 1])?;
            drop(kept.replace(Some(txn)));
        }
        Ok(())
    };
    let drop_one = || Table::drop_index(&Hooked(home.db.clone()), "t", "code");
    let (answer, _) = hooked(hook, drop_one);
    assert!(matches!(answer, Err(Error::Busy(_))), "{answer:?}");
    drop(open_one.take());
    let path = home.db.path().to_path_buf();
    home.db.clone().close().unwrap();

    let options = Options {
        read_only: true,
        ..options()
    };
    let db = Db::open(path, options).unwrap();
    let opened = Table::open(&db, plain().index("group", ["group"])).unwrap();
    let rows = opened.range(&db.snapshot(), ..).unwrap().count();
    assert_eq!(rows as u64, ROWS);
    let by_group = opened.index("group").unwrap();
    let keys = by_group.keys(&db.snapshot(), ..).unwrap().count();
    assert_eq!(keys as u64, ROWS);
    check(&db, &opened);
    // Who declares more hears that nothing is written.
    let again = Table::open(&db, indexed());
    assert!(matches!(again, Err(Error::InvalidArgument(_))), "{again:?}");
}

/// What a store without room says: a budget of it is used up, or the disk is full.
const NO_ROOM: [fn() -> Error; 2] = [
    || Error::OutOfSpace("planned".into()),
    || {
        let full = io::ErrorKind::StorageFull.into();
        Error::io("write", Path::new("planned"), full)
    },
];

/// Nor do they where there is no room for the write that takes them away, in whatever part of it that is said. What is no
/// matter of room is told.
#[test]
fn entries_of_a_dropped_index_are_passed_over_where_there_is_no_room() {
    let home = open();
    let db = home.db.clone();
    let table = Table::open(&db, indexed()).unwrap();
    fill(&db, &table);
    // The first step has two places.
    let cut_short = |number: usize| match number {
        2 => Err(Error::Closed),
        _ => Ok(()),
    };
    let drop_one = || Table::drop_index(&Hooked(db.clone()), "t", "code");
    let (answer, _) = hooked(cut_short, drop_one);
    assert!(matches!(answer, Err(Error::Closed)), "{answer:?}");

    let declared = || plain().index("group", ["group"]);
    let open_it = || Table::open(&Hooked(db.clone()), declared());
    // That step has three.
    for last in 0..3 {
        for no_room in NO_ROOM {
            let hook = move |number: usize| match number == last {
                true => Err(no_room()),
                false => Ok(()),
            };
            let (opened, places) = hooked(hook, open_it);
            check(&db, &opened.unwrap());
            assert_eq!(places, last + 1);
        }
    }
    let (opened, _) = hooked(|_| Err(Error::Closed), open_it);
    assert!(matches!(opened, Err(Error::Closed)), "{opened:?}");
    // So is who declares more.
    let open_more = || Table::open(&Hooked(db.clone()), indexed());
    let (opened, _) = hooked(|_| Err(NO_ROOM[0]()), open_more);
    assert!(matches!(opened, Err(Error::OutOfSpace(_))), "{opened:?}");
    // There is room again.
    let opened = Table::open(&db, declared()).unwrap();
    assert!(!Table::drop_index(&db, "t", "code").unwrap());
    let rows = opened.range(&db.snapshot(), ..).unwrap().count();
    assert_eq!(rows as u64, ROWS);
    check(&db, &opened);
}

/// An index that two rows keep from being added is dropped, and somebody writes rows meanwhile. The error says why it is not
/// there, and the next opening takes the rest away.
#[test]
fn an_index_that_is_refused_says_why_beside_open_transactions() {
    let home = open();
    let db = home.db.clone();
    let table = Table::open(&db, plain()).unwrap();
    let mut txn = begin(&db);
    for id in [2, 4] {
        table.insert(&mut txn, &fields![id, 7, 0]).unwrap();
    }
    txn.commit().unwrap();
    let (writer, handle) = (db.clone(), table.clone());
    let open_one = Rc::new(RefCell::new(None::<Transaction>));
    let kept = Rc::clone(&open_one);
    let hook = move |number: usize| {
        // Two places store the schema, one is that of the chunk, and two say that the index is to be dropped.
        if number == 5 {
            let mut txn = begin(&writer);
            handle.insert(&mut txn, &fields![1, 1, 1])?;
            drop(kept.replace(Some(txn)));
        }
        Ok(())
    };
    let (answer, _) = hooked(hook, || Table::open(&Hooked(db.clone()), indexed()));
    assert!(matches!(answer, Err(Error::Duplicate(_))), "{answer:?}");
    let txn = open_one.take().expect("it is open");
    txn.commit().unwrap();
    let opened = Table::open(&db, plain().index("group", ["group"])).unwrap();
    check(&db, &opened);
    let by_group = opened.index("group").unwrap();
    assert_eq!(by_group.keys(&db.snapshot(), ..).unwrap().count(), 3);
}

/// Where there is no room to take the rest of it away, the error says why it is not there all the same.
#[test]
fn an_index_that_is_refused_says_why_where_there_is_no_room() {
    let home = open();
    let db = home.db.clone();
    let table = Table::open(&db, plain()).unwrap();
    let mut txn = begin(&db);
    for id in [2, 4] {
        table.insert(&mut txn, &fields![id, 7, 0]).unwrap();
    }
    txn.commit().unwrap();
    for no_room in NO_ROOM {
        // Two places store the schema, one is that of the chunk, and two say that the index is to be dropped.
        let hook = move |number: usize| match number {
            5.. => Err(no_room()),
            _ => Ok(()),
        };
        let (answer, places) = hooked(hook, || Table::open(&Hooked(db.clone()), indexed()));
        assert!(matches!(answer, Err(Error::Duplicate(_))), "{answer:?}");
        assert_eq!(places, 6);
        let opened = Table::open(&db, plain().index("group", ["group"])).unwrap();
        check(&db, &opened);
    }
}

/// A row whose code another row takes over while the unique index is built: one that the pass is past takes it from one
/// that the pass has not come to.
fn taken_over() {
    let home = open();
    let db = home.db.clone();
    let table = Table::open(&db, plain()).unwrap();
    fill(&db, &table);
    let (writer, handle) = (db.clone(), table.clone());
    let steps = Cell::new(0);
    let hook = move |_| {
        // Storing the schema has two places, and so has the first chunk.
        if steps.replace(steps.get() + 1) != 4 {
            return Ok(());
        }
        for row in [fields![1, 10_400, 0], fields![800, 77_777, 0]] {
            let mut txn = begin(&writer);
            handle.put(&mut txn, &row)?;
            txn.commit()?;
        }
        Ok(())
    };
    let (opened, _) = hooked(hook, || Table::open(&Hooked(db.clone()), indexed()));
    check(&db, &opened.unwrap());
}

#[test]
fn a_write_takes_only_its_own_entry_away() {
    taken_over();
}

/// A row that is too long for an index has no entry there. So it can be changed and deleted while that is built.
#[test]
fn a_row_that_is_too_long_for_an_index_goes_while_that_is_built() {
    let home = open();
    let db = home.db.clone();
    let before = Schema::new("t")
        .column("id", Type::U64)
        .column("note", Type::Text)
        .primary_key(["id"]);
    let table = Table::open(&db, before.clone()).unwrap();
    let long = "x".repeat(limits::KEY_LEN_MAX);
    let mut txn = begin(&db);
    for (id, note) in [(1, long.as_str()), (2, long.as_str()), (3, "short")] {
        table.insert(&mut txn, &fields![id, note]).unwrap();
    }
    txn.commit().unwrap();
    let (writer, handle) = (db.clone(), table.clone());
    let hook = move |number: usize| {
        // Storing the schema has two places. Then the first chunk has its keys, and no transaction yet.
        if number != 2 {
            return Ok(());
        }
        let mut txn = begin(&writer);
        handle.delete(&mut txn, &fields![1])?;
        handle.update(&mut txn, &fields![2], |row| row[1] = "y".into())?;
        txn.commit()
    };
    let after = before.unique("by_note", ["note"]);
    let (opened, _) = hooked(hook, || Table::open(&Hooked(db.clone()), after));
    let opened = opened.unwrap();
    check(&db, &opened);
    let by_note = opened.index("by_note").unwrap();
    assert_eq!(by_note.keys(&db.snapshot(), ..).unwrap().count(), 2);
}

/// While a pass is on its way its index is dropped, and another of the same name is begun, with other columns. The rest of
/// the pass gives that no entries.
#[test]
fn a_pass_adds_nothing_to_another_index_of_the_same_name() {
    let home = open();
    let db = home.db.clone();
    let table = Table::open(&db, plain()).unwrap();
    fill(&db, &table);
    let by_group = || plain().index("one", ["group"]);
    let other = db.clone();
    let hook = move |number: usize| match number {
        // Storing the schema has two places, and so has the first chunk.
        4 => {
            assert!(Table::drop_index(&other, "t", "one")?);
            // Cut short before its first chunk.
            let opened = Table::open(&Hooked(other.clone()), by_group());
            assert!(matches!(opened, Err(Error::Closed)), "{opened:?}");
            Ok(())
        }
        // Behind the two of storing the other schema.
        7 => Err(Error::Closed),
        _ => Ok(()),
    };
    let by_code = plain().index("one", ["code"]);
    let (opened, _) = hooked(hook, || Table::open(&Hooked(db.clone()), by_code));
    assert!(
        matches!(opened, Err(Error::InvalidArgument(_))),
        "{opened:?}"
    );
    let opened = Table::open(&db, by_group()).unwrap();
    check(&db, &opened);
    let one = opened.index("one").unwrap();
    let entries = one.keys(&db.snapshot(), ..).unwrap().count();
    assert_eq!(entries as u64, ROWS);
}

#[test]
fn what_is_planted_is_noticed() {
    let unnoticed = |bug, work: fn()| {
        let planted = || {
            let _bug = plant(bug);
            work();
        };
        std::panic::catch_unwind(planted).is_ok()
    };
    assert!(!unnoticed(Bug::BuildTakesOthers, taken_over));
    let below = a_schema_does_not_change_below_open_transactions as fn();
    assert!(!unnoticed(Bug::SchemaUnshared, below));
    assert!(!unnoticed(Bug::SchemaUnshared, || (0..60).for_each(beside_writers)));
    assert!(!unnoticed(Bug::ReadyBeforeBuilt, || beside_writers(0)));
}

/// An opening that is cut short at any place leaves a table that is right, and the next one goes on.
#[test]
fn an_opening_that_is_cut_short_goes_on() {
    let cut = |at: usize, from: &dyn Fn() -> Schema, to: &dyn Fn(&Hooked) -> Result<Table>| {
        let home = open();
        let db = home.db.clone();
        let table = Table::open(&db, from()).unwrap();
        fill(&db, &table);
        let stop = move |number| match number == at {
            true => Err(Error::Closed),
            false => Ok(()),
        };
        let (answer, places) = hooked(stop, || to(&Hooked(db.clone())));
        assert_eq!(answer.is_err(), at < places, "{answer:?}");
        check(&db, &table);
        // What was there before goes on, whatever the schema is now.
        let mut txn = begin(&db);
        table.put(&mut txn, &fields![1, 1, 1]).unwrap();
        table.delete(&mut txn, &fields![2]).unwrap();
        txn.commit().unwrap();
        check(&db, &table);
        let (opened, _) = hooked(|_| Ok(()), || to(&Hooked(db.clone())));
        check(&db, &opened.unwrap());
        places
    };
    let add = |store: &Hooked| Table::open(store, indexed());
    let mut at = 0;
    while cut(at, &plain, &add) > at {
        at += 1;
    }
    assert!(at > 12, "{at}");
    let drop_one = |store: &Hooked| {
        Table::drop_index(store, "t", "code")?;
        Table::open(store, plain().index("group", ["group"]))
    };
    let mut at = 0;
    while cut(at, &indexed, &drop_one) > at {
        at += 1;
    }
    assert!(at >= 4, "{at}");
}
