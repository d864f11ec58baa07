//! Every workload on a small store: what it counts, and what its JSON holds.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thermocline::options::Emulation;
use thermocline::{Db, ErrorKind, Options};
use thermocline_bench::{Distribution, Latencies, Operation, Plan, Report, Watch, Workload, run};

/// The fields that scripts rely on.
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
    "stalls",
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

/// As `plan`, where many writes are quick if the machine has such a place.
fn on_shm(workload: Workload) -> Plan {
    let mut plan = plan(workload);
    plan.options.pm_path = Some("/dev/shm".into()).filter(|path: &PathBuf| path.is_dir());
    plan
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

/// Operations of each kind; of the only kind where there is one.
fn count(report: &Report, kind: Operation) -> u64 {
    match &report.ops_by_kind {
        Some(kinds) => kinds[&kind],
        None => report.ops,
    }
}

#[test]
fn every_workload_counts_its_operations() {
    for threads in [1, 3] {
        for workload in Workload::ALL {
            let report = run_one(&Plan {
                threads,
                reads: workload.loads_first().then_some(700),
                scan_length: workload.scans().then_some(5),
                ..on_shm(workload)
            });
            let name = report.workload;
            let expected = if workload.loads_first() { 700 } else { 500 };
            assert_eq!(report.ops, expected, "{name}");
            let kinds = workload.operations();
            let of = |wanted: fn(Operation) -> bool| -> u64 {
                let kinds = kinds.iter().filter(|kind| wanted(**kind));
                kinds.map(|kind| count(&report, *kind)).sum()
            };
            // As in db_bench, the writes beside the reads are not operations of the workload.
            let beside = match workload {
                Workload::ReadWhileWriting => count(&report, Operation::Write),
                _ => 0,
            };
            assert_eq!(of(|_| true), expected + beside, "{name}");
            assert_eq!(report.ops_by_kind.is_some(), kinds.len() > 1, "{name}");
            let found = match workload {
                Workload::ReadMissing => Some(0),
                _ if !workload.finds() => None,
                _ => Some(of(Operation::finds)),
            };
            assert_eq!(report.found, found, "{name}");
            let written = match workload {
                Workload::DeleteRandom => 700 * 16,
                _ => 116 * of(|kind| !matches!(kind, Operation::Read | Operation::Scan)),
            };
            assert_eq!(report.user_bytes_written, written, "{name}");
            assert!(report.valid && !report.interrupted, "{name}");
        }
    }
}

/// Every workload on the baseline, with logs beside the database or elsewhere, which go with it.
#[test]
fn every_workload_runs_on_the_baseline() {
    let shm = Path::new("/dev/shm");
    // Other tests of this process may have their folders there, without logs; and one that was killed and had its number both.
    let process = format!("thermocline-scratch-{}-", std::process::id());
    let left = || -> BTreeSet<PathBuf> {
        let all = shm.read_dir().into_iter().flatten().flatten();
        let own = all.filter(|entry| entry.file_name().to_string_lossy().starts_with(&process));
        let logs = own.map(|entry| entry.path().join("000001.log"));
        logs.filter(|log| log.exists()).collect()
    };
    let before = left();
    for (n, workload) in (0..).zip(Workload::ALL) {
        let mut plan = plan(workload);
        plan.reads = workload.loads_first().then_some(700);
        plan.drain = true;
        plan.options.set("preset", "leveled").unwrap();
        plan.options.wal_path = (n % 2 == 0 && shm.is_dir()).then(|| shm.into());
        let report = run_one(&plan);
        let name = report.workload;
        assert_eq!((&*report.preset, report.region_kind), ("leveled", "dram"));
        assert!(report.ops >= 500 && report.valid, "{name}");
        let pm = (report.pm_bytes_written, report.pm_lines_written_back);
        assert_eq!(pm, (0, 0), "{name}");
        assert!(
            report.wal_bytes_written >= report.user_bytes_written,
            "{name}"
        );
        let logs_count = report.ssd_bytes_written >= report.wal_bytes_written;
        assert!(logs_count || plan.options.wal_path.is_some(), "{name}");
    }
    assert_eq!(left(), before);
}

#[test]
fn mixes_are_what_they_say() {
    use Operation::{Insert, Read, ReadModifyWrite, Scan, Update, Write};
    const OPS: u32 = 6000;
    for (workload, mix) in [
        (Workload::ReadRandomWriteRandom, [(Read, 0.9), (Write, 0.1)]),
        (Workload::YcsbA, [(Read, 0.5), (Update, 0.5)]),
        (Workload::YcsbB, [(Read, 0.95), (Update, 0.05)]),
        (Workload::YcsbD, [(Read, 0.95), (Insert, 0.05)]),
        (Workload::YcsbE, [(Scan, 0.95), (Insert, 0.05)]),
        (Workload::YcsbF, [(Read, 0.5), (ReadModifyWrite, 0.5)]),
    ] {
        for threads in [1, 2] {
            let report = run_one(&Plan {
                threads,
                reads: Some(u64::from(OPS)),
                scan_length: workload.scans().then_some(2),
                ..on_shm(workload)
            });
            for (kind, part) in mix {
                let expected = f64::from(OPS) * part;
                let error = (f64::from(OPS) * part * (1.0 - part)).sqrt();
                let got = count(&report, kind) as f64;
                assert!(
                    (got - expected).abs() < 4.0 * error,
                    "{}: {got} of {kind:?} instead of {expected}",
                    report.workload
                );
            }
        }
    }
}

/// The values of each thread have a seed of their own: of the largest one that of the second thread was a panic.
#[test]
fn the_largest_seed_is_one_like_any_other() {
    for workload in [
        Workload::FillRandom,
        Workload::ReadWhileWriting,
        Workload::YcsbA,
    ] {
        let report = run_one(&Plan {
            num: 50,
            threads: 2,
            seed: u64::MAX,
            ..plan(workload)
        });
        assert_eq!((report.ops, report.seed), (50, u64::MAX), "{workload:?}");
    }
}

#[test]
fn inserts_add_keys_and_the_latest_are_read() {
    for workload in [Workload::YcsbD, Workload::YcsbE] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let plan = Plan {
            db: Some(path.clone()),
            threads: 3,
            reads: Some(2000),
            scan_length: workload.scans().then_some(3),
            ..plan(workload)
        };
        let mut inserted = count(&run_one(&plan), Operation::Insert);
        // A second run that began at `num` again would overwrite what the first one has added.
        let again = Plan {
            use_existing: true,
            ..plan.clone()
        };
        inserted += count(&run_one(&again), Operation::Insert);
        let db = Db::open(&path, plan.options).unwrap();
        let last = db.iter().next_back().unwrap().unwrap().0;
        assert_eq!(db.iter().count() as u64, 500 + inserted);
        assert_eq!(last[..8], (499 + inserted).to_be_bytes());
    }
}

#[test]
fn scans_have_every_length_up_to_the_longest() {
    let scans = |scan_length| {
        let report = run_one(&Plan {
            num: 2000,
            reads: Some(1500),
            scan_length,
            ..on_shm(Workload::YcsbE)
        });
        let scans = count(&report, Operation::Scan);
        report.entries.unwrap() as f64 / scans as f64
    };
    assert_eq!(scans(Some(1)), 1.0);
    // Uniform lengths from 1 to 100, as in YCSB: 50.5 on average, less near the last key.
    let average = scans(None);
    assert!((44.0..54.0).contains(&average), "{average}");
}

#[test]
fn deletes_take_keys_away() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    for batch in [1, 7] {
        let plan = Plan {
            db: Some(path.clone()),
            reads: Some(200),
            batch,
            distribution: Some(Distribution::Sequential),
            ..plan(Workload::DeleteRandom)
        };
        run_one(&plan);
        let db = Db::open(&path, plan.options).unwrap();
        let left: Vec<Vec<u8>> = db.iter().map(|entry| entry.unwrap().0).collect();
        assert_eq!(left.len(), 300);
        assert_eq!(left[0][..8], 200u64.to_be_bytes());
        drop(db);
        thermocline_bench::scratch::remove(&path).unwrap();
    }
}

#[test]
fn several_keys_are_read_at_once() {
    let report = run_one(&Plan {
        batch: 64,
        reads: Some(1000),
        ..plan(Workload::MultiReadRandom)
    });
    assert_eq!((report.ops, report.found), (1000, Some(1000)));
    assert_eq!(report.batch, 64);
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
        scan_length: Some(500),
        distribution: Some(Distribution::Sequential),
        ..plan(Workload::SeekRandom)
    });
    // Seek i reads from key i to the end.
    assert_eq!(report.entries, Some((0..50).map(|i| 500 - i).sum()));
}

#[test]
fn a_duration_ends_a_run() {
    for workload in [
        Workload::ReadRandom,
        Workload::Overwrite,
        Workload::ReadSeq,
        Workload::ReadWhileWriting,
        Workload::DeleteRandom,
        Workload::MultiReadRandom,
        Workload::YcsbE,
    ] {
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
fn whichever_comes_first_of_operations_and_most_seconds_ends_a_run() {
    let limited = |reads: u64, seconds: f64| {
        run_one(&Plan {
            reads: Some(reads),
            seconds_max: Some(seconds),
            settle: true,
            ..plan(Workload::YcsbB)
        })
    };
    assert_eq!(limited(300, 1e6).ops, 300);
    let cut = limited(u64::MAX >> 1, 0.01);
    assert!(cut.ops > 0 && cut.seconds >= 0.01);
}

#[test]
fn a_stopped_run_reports_what_it_did() {
    let watch = Watch::new();
    watch.stop();
    let plan = Plan {
        drain: true,
        ..plan(Workload::FillSeq)
    };
    let report = run(&plan, &watch).unwrap();
    assert!(report.interrupted && report.ops > 0 && report.ops < 500);
    assert!(!report.drained.waited, "somebody wants it to end");
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
        let latencies = ["avg", "p50", "p90", "p95", "p99", "p999", "max"];
        let kinds: Vec<&str> = workload
            .operations()
            .into_iter()
            .map(Operation::name)
            .collect();
        if kinds.len() == 1 {
            assert_eq!(inner("latency_us"), latencies);
        } else {
            assert_eq!(inner("latency_us"), kinds);
            assert_eq!(inner("ops_by_kind"), kinds);
            for kind in kinds {
                let kind = json["latency_us"][kind].as_object().unwrap();
                assert!(kind.keys().eq(latencies) && kind.values().all(Value::is_number));
            }
        }
        assert_eq!(
            inner("hits"),
            ["memtable", "global_index", "pm_table", "block_cache", "ssd"]
        );
        assert_eq!(inner("drained"), ["waited", "level0_bytes"]);
        assert_eq!(json["found"].is_null(), !workload.finds());
        assert_eq!(json["valid"], Value::Bool(true));
    }
}

#[test]
fn latencies_are_ordered() {
    for (workload, kinds) in [(Workload::FillRandom, 1), (Workload::YcsbF, 2)] {
        let latencies = run_one(&plan(workload)).latency_us;
        assert_eq!(matches!(latencies, Latencies::One(_)), kinds == 1);
        let rows = latencies.rows();
        assert_eq!(rows.len(), kinds);
        for (_, l) in rows {
            assert!(l.p50 <= l.p90 && l.p90 <= l.p99 && l.p99 <= l.p999);
            assert!(l.p999 <= l.max && l.avg > 0.0 && l.avg <= l.max);
        }
    }
}

/// Reads are not held back. A report that has the longest delay since the opening tells one of the load for theirs: that writes
/// so much that the region grows, and the first write waits for the manifest.
#[test]
fn delays_of_the_load_are_none_of_the_reads() {
    for workload in [Workload::ReadRandom, Workload::DeviceRead] {
        let report = run_one(&Plan {
            num: 4_000,
            value_size: 1024,
            ..on_shm(workload)
        });
        assert_eq!(
            (report.stall_count, report.stall_ms_max),
            (0, 0.0),
            "{}",
            report.workload
        );
    }
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
            seconds_max: Some(0.0),
            ..base.clone()
        },
        Plan {
            rate: Some(0.0),
            ..base.clone()
        },
        Plan {
            rate: Some(1000.0),
            async_depth: 2,
            ..plan(Workload::ReadRandom)
        },
        Plan {
            duration: Some(1.0),
            seconds_max: Some(1.0),
            ..base.clone()
        },
        Plan {
            settle: true,
            ..plan(Workload::FillSeq)
        },
        Plan {
            use_existing: true,
            ..base.clone()
        },
        Plan {
            distribution: Some(Distribution::Latest),
            ..plan(Workload::FillSeq)
        },
        Plan {
            distribution: Some(Distribution::Latest),
            ..plan(Workload::YcsbLoad)
        },
        Plan {
            batch: 2,
            ..plan(Workload::YcsbA)
        },
        Plan {
            batch: 2,
            ..plan(Workload::ReadWhileWriting)
        },
    ];
    for plan in invalid {
        let error = run(&plan, &Watch::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    for workload in [Workload::FillSeq, Workload::MultiReadRandom] {
        let deep = Plan {
            async_depth: 2,
            ..plan(workload)
        };
        let error = run(&deep, &Watch::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("async-depth"), "{error}");
        let awaited = Plan {
            async_depth: 1,
            awaited: true,
            ..deep
        };
        let error = run(&awaited, &Watch::new()).unwrap_err();
        assert!(error.to_string().contains("awaited"), "{error}");
    }
    let (reads, scan_length) = (Some(300), Some(20));
    for workload in [
        Workload::FillSeq,
        Workload::Overwrite,
        Workload::YcsbLoad,
        Workload::ReadSeq,
        Workload::YcsbA,
    ] {
        let plan = plan(workload);
        let scans = Plan {
            scan_length,
            ..plan.clone()
        };
        let error = scans.validate().unwrap_err();
        assert!(error.to_string().contains("scan-length"), "{error}");
        let counted = Plan { reads, ..plan }.validate();
        if workload.loads_first() {
            counted.unwrap();
            continue;
        }
        let error = counted.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("reads"), "{error}");
    }
    let preloaded = Plan {
        reads,
        preload: true,
        ..plan(Workload::Overwrite)
    };
    preloaded.validate().unwrap();
    let error = Workload::parse("fillrandon").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("fillrandom"));
}

#[test]
fn several_reads_under_way_find_what_one_after_another_finds() {
    for workload in [
        Workload::ReadRandom,
        Workload::ReadMissing,
        Workload::SeekRandom,
    ] {
        for (depth, threads) in [(1, 1), (2, 1), (32, 2), (5000, 1)] {
            let plan = Plan {
                async_depth: depth,
                awaited: depth == 1,
                threads,
                ..plan(workload)
            };
            let report = run(&plan, &Watch::new()).unwrap();
            let right = match workload {
                Workload::ReadMissing => 0,
                _ => report.ops,
            };
            assert_eq!(report.found, Some(right), "{depth}");
        }
    }
}
