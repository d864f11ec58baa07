//! Room on the SSD, looked at while a run goes on.

use std::path::PathBuf;

use thermocline::{Durability, ErrorKind, Options};
use thermocline_bench::{Plan, Report, Space, Watch, Workload, run};

/// Keys, of 16 bytes.
const KEYS: u64 = 4000;

/// Bytes of a key with its value.
const ENTRY: u64 = 16 + 1024;

/// On a store with more data than persistent memory, so that there is something on the SSD.
fn plan(workload: Workload) -> Plan {
    Plan {
        num: KEYS,
        value_size: 1024,
        durability: Durability::Buffered,
        drain: true,
        space: true,
        options: Options {
            dram: 32 << 20,
            pm: 2 << 20,
            pm_path: Some("/dev/shm".into()).filter(|path: &PathBuf| path.is_dir()),
            ..Options::default()
        },
        ..Plan::new(workload)
    }
}

fn run_one(plan: &Plan) -> (Report, Space) {
    let report = run(plan, &Watch::new()).unwrap();
    let space = report.space.clone().expect("the plan asks for it");
    (report, space)
}

#[test]
fn an_overwrite_of_what_was_loaded_knows_what_lives() {
    let mut plan = plan(Workload::Overwrite);
    (plan.preload, plan.settle, plan.reads) = (true, true, Some(6000));
    plan.options.set("blob.value_bytes_min", "512").unwrap();
    plan.options.set("blob.space_percent_max", "140").unwrap();
    let (report, space) = run_one(&plan);
    assert_eq!((report.ops, space.limit_percent), (6000, 140));
    // One at the beginning, and one at the end.
    assert!(space.samples.len() >= 2);
    let live = Some(KEYS * ENTRY);
    assert!(space.samples.iter().all(|sample| sample.live_bytes == live));
    assert!(space.samples.is_sorted_by_key(|sample| sample.ops));
    assert!(
        space
            .samples
            .is_sorted_by(|one, next| one.seconds <= next.seconds)
    );
    let last = space.samples.last().unwrap();
    assert_eq!(last.ops, 6000);
    // Whatever is named lies in the folder.
    assert!(
        last.named_bytes > 0 && last.named_bytes <= last.ssd_bytes,
        "{last:?}"
    );
    let most = space.samples.iter().map(|sample| sample.ssd_bytes).max();
    assert_eq!(most, Some(space.ssd_bytes_max));
    assert!(space.ratio.is_some() && space.looks_above.is_some());
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["space"]["limit_percent"], 140);
    assert_eq!(json["space"]["samples"][0]["live_bytes"], KEYS * ENTRY);
    assert!(report.to_string().contains("room on the SSD"));
}

#[test]
fn what_lives_is_told_where_it_is_known() {
    let (_, space) = run_one(&plan(Workload::FillRandom));
    let last = space.samples.last().unwrap();
    assert_eq!(last.live_bytes, Some(KEYS * ENTRY));
    for workload in [Workload::Overwrite, Workload::YcsbD, Workload::DeleteRandom] {
        let (_, space) = run_one(&Plan {
            reads: workload.loads_first().then_some(100),
            ..plan(workload)
        });
        let is_unknown = space.ratio.is_none() && space.looks_above.is_none();
        assert!(is_unknown, "{}", workload.name());
    }
    let quiet = Plan {
        space: false,
        ..plan(Workload::FillRandom)
    };
    let report = run(&quiet, &Watch::new()).unwrap();
    let json = serde_json::to_value(&report).unwrap();
    assert!(report.space.is_none() && json.get("space").is_none());
}

#[test]
fn keys_are_loaded_first_where_nothing_else_does_so() {
    let loaded = |workload| Plan {
        preload: true,
        ..plan(workload)
    };
    for workload in [Workload::FillRandom, Workload::ReadRandom] {
        let error = run(&loaded(workload), &Watch::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("preload"), "{error}");
    }
    let existing = Plan {
        db: Some("nowhere".into()),
        use_existing: true,
        ..loaded(Workload::Overwrite)
    };
    let error = existing.validate().unwrap_err();
    assert!(error.to_string().contains("use-existing"), "{error}");
}
