//! Every workload on a small store: what it counts, and what its JSON holds.

use std::path::Path;

use serde_json::Value;
use thermocline::options::Emulation;
use thermocline::{Db, ErrorKind, Options};
use thermocline_bench::{Distribution, Plan, Report, Watch, Workload, run};

/// The fields of the contract in interface.md.
const FIELDS: &[&str] = &[
    "workload",
    "preset",
    "durability",
    "threads",
    "num",
    "key_size",
    "value_size",
    "distribution",
    "region_kind",
    "emulate",
    "seed",
    "ops",
    "seconds",
    "ops_per_sec",
    "latency_us",
    "found",
    "user_bytes_written",
    "pm_bytes_written",
    "pm_media_bytes_written",
    "pm_lines_written_back",
    "pm_fences",
    "ssd_bytes_written",
    "ssd_bytes_read",
    "write_amplification_ssd",
    "write_amplification_pm",
    "drained",
    "stall_ms",
    "stall_ms_max",
    "stall_count",
    "cpu_seconds",
    "rss_bytes_max",
    "dram_index_bytes",
    "hits",
];

fn plan(workload: Workload) -> Plan {
    Plan {
        num: 500,
        seed: 9,
        options: Options {
            dram: 64 << 20,
            pm: 64 << 20,
            ..Options::default()
        },
        ..Plan::new(workload)
    }
}

fn run_one(plan: &Plan) -> Report {
    run(plan, &Watch::new()).unwrap_or_else(|e| panic!("{}: {e}", plan.workload.name()))
}

fn filled(folder: &Path) -> Plan {
    let plan = Plan {
        db: Some(folder.join("db")),
        ..plan(Workload::FillRandom)
    };
    run_one(&plan);
    Plan {
        use_existing: true,
        ..plan
    }
}

#[test]
fn every_workload_counts_its_operations() {
    for threads in [1, 3] {
        for workload in Workload::ALL {
            let report = run_one(&Plan {
                threads,
                reads: Some(700),
                scan_length: 5,
                ..plan(workload)
            });
            let name = report.workload;
            let expected = if workload.reads() { 700 } else { 500 };
            assert_eq!(report.ops, expected, "{name}");
            let found = match workload {
                _ if !workload.reads() => None,
                Workload::ReadMissing => Some(0),
                _ => Some(700),
            };
            assert_eq!(report.found, found, "{name}");
            let written = if workload.reads() { 0 } else { 500 * 116 };
            assert_eq!(report.user_bytes_written, written, "{name}");
            assert!(report.valid && !report.interrupted, "{name}");
        }
    }
}

#[test]
fn the_fills_write_every_key_once() {
    for workload in [Workload::FillSeq, Workload::FillRandom] {
        for (threads, batch) in [(1, 1), (3, 7)] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("db");
            let plan = Plan {
                db: Some(path.clone()),
                threads,
                batch,
                ..plan(workload)
            };
            run_one(&plan);
            let db = Db::open(&path, plan.options).unwrap();
            let keys: Vec<Vec<u8>> = db.iter().map(|entry| entry.unwrap().0).collect();
            let expected: Vec<Vec<u8>> = (0..500u64)
                .map(|i| [&i.to_be_bytes()[..], b"00000000"].concat())
                .collect();
            assert_eq!(keys, expected);
        }
    }
}

#[test]
fn every_distribution_only_hits() {
    let folder = tempfile::tempdir().unwrap();
    let existing = filled(folder.path());
    for distribution in ["uniform", "zipfian", "zipfian:0.5", "latest", "sequential"] {
        let report = run_one(&Plan {
            workload: Workload::ReadRandom,
            distribution: Some(Distribution::parse(distribution).unwrap()),
            reads: Some(300),
            ..existing.clone()
        });
        assert_eq!(report.found, Some(300), "{distribution}");
        assert_eq!(report.distribution, distribution);
    }
}

#[test]
fn seeks_read_their_entries() {
    let report = run_one(&Plan {
        reads: Some(50),
        scan_length: 500,
        distribution: Some(Distribution::Sequential),
        ..plan(Workload::SeekRandom)
    });
    // Seek i reads from key i to the end.
    assert_eq!(report.entries, Some((0..50).map(|i| 500 - i).sum()));
}

#[test]
fn a_duration_ends_a_run() {
    for workload in [Workload::ReadRandom, Workload::Overwrite, Workload::ReadSeq] {
        let report = run_one(&Plan {
            duration: Some(0.01),
            ..plan(workload)
        });
        assert!(report.ops > 0 && report.seconds >= 0.01);
    }
    let report = run_one(&Plan {
        duration: Some(1e6),
        ..plan(Workload::FillRandom)
    });
    assert_eq!(report.ops, 500);
}

#[test]
fn a_stopped_run_reports_what_it_did() {
    let watch = Watch::new();
    watch.stop();
    let report = run(&plan(Workload::FillSeq), &watch).unwrap();
    assert!(report.interrupted && report.ops > 0 && report.ops < 500);
}

#[test]
fn the_json_has_every_field_of_the_contract() {
    for workload in Workload::ALL {
        let json = serde_json::to_value(run_one(&plan(workload))).unwrap();
        for field in FIELDS {
            assert!(json.get(field).is_some(), "{}: no {field}", workload.name());
        }
        for field in FIELDS
            .iter()
            .filter(|f| f.contains("bytes") || f.contains("sec"))
        {
            assert!(json[field].is_number(), "{field}");
        }
        let inner = |field: &str| -> Vec<String> {
            json[field]
                .as_object()
                .map(|object| object.keys().cloned().collect())
                .unwrap_or_default()
        };
        assert_eq!(
            inner("latency_us"),
            ["avg", "p50", "p90", "p99", "p999", "max"]
        );
        assert_eq!(
            inner("hits"),
            ["memtable", "global_index", "pm_table", "block_cache", "ssd"]
        );
        assert_eq!(inner("drained"), ["waited", "level0_bytes"]);
        assert_eq!(json["found"].is_null(), !workload.reads());
        assert_eq!(json["valid"], Value::Bool(true));
    }
}

#[test]
fn latencies_are_ordered() {
    let latency = run_one(&plan(Workload::FillRandom)).latency_us;
    assert!(latency.p50 <= latency.p90 && latency.p90 <= latency.p99);
    assert!(latency.p99 <= latency.p999 && latency.p999 <= latency.max);
    assert!(latency.avg > 0.0 && latency.avg <= latency.max);
}

#[test]
fn an_existing_database_is_not_overwritten_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let existing = filled(folder.path());
    let unasked = Plan {
        use_existing: false,
        ..existing
    };
    let error = run(&unasked, &Watch::new()).unwrap_err();
    assert!(error.to_string().contains("--use-existing"), "{error}");
}

#[test]
fn emulation_lasts_for_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let existing = filled(folder.path());
    assert_eq!(run_one(&existing).emulate, "none");
    for (emulate, name) in [(Emulation::Optane, "optane"), (Emulation::Cxl, "cxl")] {
        let report = run_one(&Plan {
            emulate,
            reads: Some(50),
            workload: Workload::ReadRandom,
            ..existing.clone()
        });
        assert_eq!((report.emulate.as_str(), report.found), (name, Some(50)));
        let path = folder.path().join("db");
        let stored = Db::stored_options(&path).unwrap().unwrap();
        assert_eq!(stored.emulate, Emulation::None);
        let db = Db::open(&path, stored).unwrap();
        assert_eq!(db.metrics().emulate, "none");
    }
}

#[test]
fn nonsense_and_missing_parts_are_refused() {
    let base = plan(Workload::ReadRandom);
    let invalid = [
        Plan {
            num: 0,
            ..base.clone()
        },
        Plan {
            threads: 0,
            ..base.clone()
        },
        Plan {
            key_size: 7,
            ..base.clone()
        },
        Plan {
            key_size: 70_000,
            ..base.clone()
        },
        Plan {
            batch: 0,
            ..base.clone()
        },
        Plan {
            compressible: 0.0,
            ..base.clone()
        },
        Plan {
            compressible: 1.5,
            ..base.clone()
        },
        Plan {
            duration: Some(-1.0),
            ..base.clone()
        },
        Plan {
            use_existing: true,
            ..base.clone()
        },
        Plan {
            distribution: Some(Distribution::Latest),
            ..plan(Workload::FillSeq)
        },
    ];
    for plan in invalid {
        let error = run(&plan, &Watch::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    let unsupported = [Plan {
        async_depth: 2,
        ..base.clone()
    }];
    for plan in unsupported {
        let error = run(&plan, &Watch::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    for name in ["ycsb-a", "tpcc", "readwhilewriting", "multireadrandom"] {
        assert_eq!(
            Workload::parse(name).unwrap_err().kind(),
            ErrorKind::Unsupported
        );
    }
    let error = Workload::parse("fillrandon").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("fillrandom"));
}
