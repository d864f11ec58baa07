//! Blocks of a store's files, read while the store is closed.

use std::path::Path;

use thermocline::{Db, ErrorKind, Options};
use thermocline_bench::{DeviceReads, Distribution, Plan, Report, Watch, Workload, run};

/// Bytes of a block, by default.
const BLOCK: u64 = 4096;

fn plan(workload: Workload) -> Plan {
    Plan {
        num: 2000,
        reads: workload.loads_first().then_some(300),
        options: Options {
            dram: 32 << 20,
            pm: 4 << 20,
            ..Options::default()
        },
        ..Plan::new(workload)
    }
}

fn read(plan: &Plan) -> (Report, DeviceReads) {
    let report = run(plan, &Watch::new()).unwrap();
    let device = report.device.clone().expect("the device was read");
    (report, device)
}

fn filled(folder: &Path) -> Plan {
    let fill = Plan {
        db: Some(folder.join("db")),
        ..plan(Workload::FillRandom)
    };
    run(&fill, &Watch::new()).unwrap();
    Plan {
        use_existing: true,
        db: fill.db,
        ..plan(Workload::DeviceRead)
    }
}

#[test]
fn every_read_is_a_block_and_counts_as_read_from_the_ssd() {
    for (threads, async_depth, awaited) in
        [(1, 1, false), (4, 1, false), (1, 1, true), (2, 32, false)]
    {
        let plan = Plan {
            threads,
            async_depth,
            awaited,
            ..plan(Workload::DeviceRead)
        };
        let (report, device) = read(&plan);
        assert_eq!((report.ops, report.found), (300, None));
        assert_eq!(
            (report.threads, report.distribution.as_str()),
            (threads, "uniform")
        );
        assert_eq!(
            (device.read_bytes, report.ssd_bytes_read),
            (BLOCK, 300 * BLOCK)
        );
        assert_eq!(
            (report.user_bytes_written, report.ssd_bytes_written),
            (0, 0)
        );
        // All values lie in files, whatever kept them before.
        assert!(
            device.files > 0 && device.file_bytes > 2000 * 100,
            "{device:?}"
        );
        assert_eq!(device.way.is_some(), awaited || async_depth > 1);
        assert!(report.valid && !report.interrupted);
        assert!(report.to_string().contains("device alone"));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["device"]["read_bytes"], BLOCK);
    }
}

#[test]
fn larger_blocks_are_read_whole() {
    let mut plan = plan(Workload::DeviceRead);
    plan.options.set("compaction.block_bytes", "10000").unwrap();
    let (report, device) = read(&plan);
    let bytes = (device.read_bytes, report.ssd_bytes_read);
    assert_eq!(bytes, (3 * BLOCK, 300 * 3 * BLOCK));
}

#[test]
fn an_existing_store_is_read_as_it_is_and_opens_again() {
    let folder = tempfile::tempdir().unwrap();
    let device = filled(folder.path());
    let path = folder.path().join("db");
    // All of it lies in persistent memory.
    let error = run(&device, &Watch::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("compact"), "{error}");
    let db = Db::open(&path, device.options.clone()).unwrap();
    db.compact::<&str>(..).unwrap();
    db.close().unwrap();
    for seconds in [None, Some(0.01)] {
        let (report, _) = read(&Plan {
            duration: seconds,
            ..device.clone()
        });
        assert!(report.ops == 300 || seconds.is_some_and(|least| report.seconds >= least));
    }
    let db = Db::open(&path, device.options).unwrap();
    assert_eq!(db.iter().count(), 2000);
}

#[test]
fn other_workloads_say_nothing_of_the_device() {
    let report = run(&plan(Workload::ReadRandom), &Watch::new()).unwrap();
    let json = serde_json::to_value(&report).unwrap();
    assert!(report.device.is_none() && json.get("device").is_none());
}

#[test]
fn wrong_arguments_are_named() {
    let base = plan(Workload::DeviceRead);
    let wrong = [
        (
            Plan {
                batch: 2,
                ..base.clone()
            },
            "batch",
        ),
        (
            Plan {
                distribution: Some(Distribution::Latest),
                ..base.clone()
            },
            "distribution",
        ),
        (
            Plan {
                space: true,
                ..base.clone()
            },
            "space",
        ),
        (
            Plan {
                preload: true,
                ..base.clone()
            },
            "preload",
        ),
        (
            Plan {
                rate: Some(10.0),
                awaited: true,
                ..base.clone()
            },
            "awaited",
        ),
        (
            Plan {
                async_depth: 0,
                ..base.clone()
            },
            "async-depth",
        ),
        (
            Plan {
                use_existing: true,
                ..base
            },
            "--db",
        ),
    ];
    for (plan, names) in wrong {
        let error = run(&plan, &Watch::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains(names), "{error}");
    }
}
