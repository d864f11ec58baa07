//! A process whose threads write rows is killed, and the table compared with what it had reported.
//!
//! Each thread has rows of its own, and moves through numbered steps: step `n` writes the row `n % 50` with values that
//! follow from `n`, and deletes another one. It reports a step that was committed. So of each thread the table must have
//! exactly the effects of all reported steps, and possibly of one more.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use thermocline::records::{Field, Row, Schema, Table, Type, fields};
use thermocline::{Db, TxnOptions};
use thermocline_testkit::Rng;

use super::{check, options};

const CHILD: &str = "THERMOCLINE_RECORDS_CHILD";
const THREADS: usize = 3;
const ROWS: u64 = 50;

fn schema() -> Schema {
    Schema::new("steps")
        .column("thread", Type::U64)
        .column("row", Type::U64)
        .column("step", Type::U64)
        .nullable("text", Type::Text)
        .primary_key(["thread", "row"])
        .unique("by_step", ["step", "thread"])
        .index("by_text", ["text"])
}

/// What a step puts, and which row it deletes.
fn step(thread: u64, number: u64) -> (Row, u64) {
    let text = (!number.is_multiple_of(3)).then(|| format!("text {}", number % 11));
    (
        fields![thread, number % ROWS, number, text],
        number * 7 % ROWS,
    )
}

fn apply(rows: &mut BTreeMap<u64, Row>, thread: u64, number: u64) {
    let (row, gone) = step(thread, number);
    rows.remove(&gone);
    rows.insert(number % ROWS, row);
}

/// Not a test by itself: what the killed process runs.
#[test]
fn child() {
    let Ok(text) = std::env::var(CHILD) else {
        return;
    };
    let (path, next) = text.split_once('\n').unwrap();
    let db = Db::open(Path::new(path), options()).unwrap();
    let table = Table::open(&db, schema()).unwrap();
    let next: Vec<u64> = next.split(' ').map(|n| n.parse().unwrap()).collect();
    std::thread::scope(|scope| {
        for (thread, first) in (0..).zip(next) {
            let (db, table) = (&db, &table);
            scope.spawn(move || {
                for number in first.. {
                    let (row, gone) = step(thread, number);
                    let options = match number % 2 {
                        0 => TxnOptions::pessimistic(),
                        _ => TxnOptions::optimistic(),
                    };
                    let mut txn = db.transaction(options).unwrap();
                    table.delete(&mut txn, &fields![thread, gone]).unwrap();
                    table.put(&mut txn, &row).unwrap();
                    txn.commit().unwrap();
                    let line = format!("@{thread} {number}\n");
                    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
}

/// Runs a child until it has reported so many steps. Returns the last one of each thread.
fn run(path: &Path, next: &[u64], reports: usize) -> Vec<Option<u64>> {
    let next: Vec<String> = next.iter().map(u64::to_string).collect();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::child", "--nocapture", "--test-threads=1"])
        .env(CHILD, format!("{}\n{}", path.display(), next.join(" ")))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut last = vec![None; next.len()];
    let mut seen = 0;
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).unwrap() == 0 {
            break;
        }
        // A line without its end was cut by the kill; the rest is the test harness's.
        let Some((_, rest)) = line
            .strip_suffix('\n')
            .and_then(|line| line.split_once('@'))
        else {
            continue;
        };
        let (thread, number) = rest.split_once(' ').unwrap();
        last[thread.parse::<usize>().unwrap()] = Some(number.parse().unwrap());
        seen += 1;
        if seen == reports {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(seen >= reports, "the child ended by itself");
    last
}

#[test]
fn rows_and_indexes_agree_after_kills() {
    let home = super::home();
    let path = home.path().join("db");
    let mut rng = Rng::new(7);
    let mut next = vec![0; THREADS];
    let mut rows: Vec<BTreeMap<u64, Row>> = vec![BTreeMap::new(); THREADS];
    for _ in 0..thermocline_testkit::explore::explored(4, 60) {
        let last = run(&path, &next, 1 + rng.below(400));
        let db = Db::open(&path, options()).unwrap();
        let table = Table::open(&db, schema()).unwrap();
        check(&db, &table);
        let each = next.iter_mut().zip(&mut rows).zip(last);
        for (thread, ((next, rows), last)) in (0u64..).zip(each) {
            if let Some(last) = last {
                (*next..=last).for_each(|number| apply(rows, thread, number));
                *next = last + 1;
            }
            let now = db.snapshot();
            let there = table.prefix(&now, &fields![thread]).unwrap();
            let there: BTreeMap<u64, Row> = there
                .map(|row| row.unwrap())
                .map(|row| (row[1].as_u64().unwrap(), row))
                .collect();
            if there != *rows {
                // One step more, which had not been reported.
                apply(rows, thread, *next);
                *next += 1;
            }
            assert_eq!(there, *rows, "thread {thread}, step {next}");
            let by_step = table.index("by_step").unwrap();
            for row in rows.values() {
                let found = by_step.get(&db.snapshot(), &[row[2].clone(), Field::U64(thread)]);
                assert_eq!(found.unwrap().as_ref(), Some(row));
            }
        }
    }
}
