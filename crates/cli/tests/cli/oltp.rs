//! `bench tpcc`, `bench orders` and `bench randomtransaction`, from outside.

use serde_json::Value;

use crate::support::Store;

/// Runs a benchmark; its report.
fn report(store: &Store, arguments: &[&str]) -> Value {
    let all = [&["bench"], arguments, &["--json"]].concat();
    let run = store.run(&all);
    assert_eq!(run.code, 0, "{}", run.err);
    serde_json::from_str(&run.out).unwrap()
}

/// What every such report says: all was done that was counted, and everything is true that must be.
fn check(report: &Value, kinds: &[&str], asked: usize) {
    let count = |value: &Value| value.as_u64().unwrap();
    let mut ops = 0;
    for name in kinds {
        let kind = &report["kinds"][name];
        ops += count(&kind["committed"]) + count(&kind["rolled_back"]);
        assert!(count(&kind["committed"]) > 0, "{name}: {report:#}");
        let latency = ["p50", "p95", "p99"].map(|at| kind["latency_us"][at].as_f64().unwrap());
        assert!(0.0 < latency[0] && latency[0] <= latency[1] && latency[1] <= latency[2]);
        let told = match kinds.len() {
            1 => &report["latency_us"],
            _ => &report["latency_us"][name],
        };
        assert_eq!(told, &kind["latency_us"]);
        for cause in ["conflict", "deadlock", "lock_timeout", "retries"] {
            count(&kind["aborts"][cause]);
        }
    }
    assert_eq!(count(&report["ops"]), ops);
    // As other workloads say it.
    for field in ["pm_media_bytes_written", "stall_ms_max", "dram_index_bytes"] {
        assert!(report[field].is_number(), "{field}");
    }
    // A script that reads the reports of all workloads finds these, with or without a value.
    let members = report.as_object().unwrap();
    for field in ["num", "key_size", "value_size", "distribution"] {
        assert!(members.contains_key(field), "{field}");
    }
    let seconds = report["ops_by_second"].as_array().unwrap();
    assert_eq!(seconds.iter().map(count).sum::<u64>(), ops);
    let checks = report["checks"].as_array().unwrap();
    assert_eq!(checks.len(), asked);
    for check in checks {
        assert!(
            count(&check["checked"]) > 0 && count(&check["faults"]) == 0,
            "{check:#}"
        );
    }
    assert_eq!(report["valid"], true);
    let found: u64 = report["hits"]
        .as_object()
        .unwrap()
        .values()
        .map(count)
        .sum();
    assert!(found > 0);
}

#[test]
fn tpcc_keeps_its_conditions() {
    let store = Store::new();
    let begin = [
        "tpcc",
        "--shrink",
        "20",
        "--warehouses",
        "2",
        "--threads",
        "2",
        "--db",
        "DB",
    ];
    let kinds = [
        "new_order",
        "payment",
        "order_status",
        "delivery",
        "stock_level",
    ];
    let first = report(&store, &[&begin[..], &["--transactions", "3000"]].concat());
    check(&first, &kinds, 5);
    assert!(first["kinds"]["new_order"]["rolled_back"].as_u64().unwrap() > 0);
    assert!(
        first["counts"]["order_lines_from_remote_warehouses"]
            .as_u64()
            .unwrap()
            > 0
    );
    // Again, on what is there, with transactions of the other kind.
    let more = [
        "--use-existing",
        "--optimistic",
        "--serializable",
        "--transactions",
        "1000",
    ];
    let second = report(&store, &[&begin[..], &more].concat());
    check(&second, &kinds, 5);
    assert_eq!(second["loaded_rows"], 0);
    let other = [
        "bench",
        "tpcc",
        "--shrink",
        "20",
        "--db",
        "DB",
        "--use-existing",
    ];
    let run = store.run(&other);
    assert!(
        run.code == 1 && run.is_one_sentence_naming("2 warehouses"),
        "{}",
        run.err
    );
}

#[test]
fn orders_keep_their_conditions() {
    let store = Store::new();
    let begin = [
        "orders",
        "--threads",
        "2",
        "--transactions",
        "3000",
        "--orders",
        "500",
        "--hot-orders",
        "50",
    ];
    let more = [
        "--warm-orders",
        "200",
        "--cold-percent",
        "20",
        "--skew",
        "0.5",
        "--db",
        "DB",
    ];
    let kinds = ["place", "advance", "by_customer", "by_merchant", "detail"];
    let first = report(&store, &[&begin[..], &more].concat());
    check(&first, &kinds, 5);
    assert!(first["counts"]["lookups_of_cold_orders"].as_u64().unwrap() > 0);
    let second = report(&store, &[&begin[..], &more, &["--use-existing"]].concat());
    check(&second, &kinds, 5);
    let text = store.run(&["bench", "orders", "--orders", "100", "--transactions", "50"]);
    assert_eq!(text.code, 0, "{}", text.err);
    for word in ["by-customer", "p95", "found in", "in each second"] {
        assert!(text.out.contains(word), "{}", text.out);
    }
    assert_eq!(store.names(), ["db"]);
}

#[test]
fn sums_stay_equal() {
    let store = Store::new();
    // So few keys that threads meet.
    let begin = ["randomtransaction", "--num", "20", "--sets", "3"];
    let more = ["--threads", "2", "--transactions", "2000", "--db", "DB"];
    let first = report(&store, &[&begin[..], &more].concat());
    check(&first, &["add"], 2);
    assert_eq!(first["settings"]["sets"], 3);
    let sizes = ["num", "key_size", "value_size"].map(|size| first[size].as_u64());
    assert_eq!(sizes, [Some(20), Some(16), Some(8)]);
    assert_eq!(first["distribution"], "uniform");
    assert_eq!(first["checks"][0]["checked"], 3);
    let again = ["--use-existing", "--optimistic"];
    let second = report(&store, &[&begin[..], &more, &again].concat());
    check(&second, &["add"], 2);
    // A sum that is wrong is told, and the run fails.
    let (key, value) = ("00000001000000000000000000000000", "00000000000f4240");
    let put = store.run(&["put", "DB", "--hex", key, value]);
    assert_eq!(put.code, 0, "{}", put.err);
    let run = store.run(&[&["bench"], &begin[..], &more, &["--use-existing"]].concat());
    assert!(
        run.code == 1 && run.is_one_sentence_naming("the same sum"),
        "{}",
        run.err
    );
}

#[test]
fn wrong_arguments_are_named() {
    let store = Store::new();
    let cases: [(&[&str], &str); 16] = [
        (&["tpcc", "--warehouses", "0"], "warehouses"),
        (&["tpcc", "--shrink", "1000"], "shrink"),
        (&["tpcc", "--skew", "0.5"], "--skew is an option of orders"),
        (&["tpcc", "--num", "7"], "--num"),
        (&["tpcc", "--duration", "0"], "duration"),
        (&["tpcc", "--duration", "1e9"], "below 1000000000"),
        (&["tpcc", "--transactions", "0"], "transactions"),
        (
            &["orders", "--warehouses", "2"],
            "--warehouses is an option of tpcc",
        ),
        (&["orders", "--skew", "1"], "skew"),
        (&["orders", "--sets", "2"], "--sets is an option of random"),
        (&["randomtransaction", "--sets", "0"], "sets"),
        (&["randomtransaction", "--value-size", "7"], "--value-size"),
        (&["orders", "--cold-percent", "101"], "cold-percent"),
        (&["orders", "--hot-orders", "20000"], "warm-orders"),
        (&["orders", "--use-existing"], "--db"),
        (&["fillseq", "--optimistic"], "--optimistic"),
    ];
    for (arguments, word) in cases {
        let run = store.run(&[&["bench"], arguments].concat());
        assert_eq!(run.code, 2, "{arguments:?}: {}", run.err);
        assert!(
            run.is_one_sentence_naming(word),
            "{arguments:?}: {}",
            run.err
        );
    }
}
