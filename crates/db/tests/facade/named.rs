//! What a caller is given has types that he can write down.

use std::sync::{Arc, Mutex};

use thermocline::merge::{Counter, MergeName};
use thermocline::options::AsyncIo;
use thermocline::{
    AsyncUse, CfOptions, ChangeFeed, ChangeGroup, CompactionReason, CostDecision, CostDecisions,
    CostEquation, CostThresholds, Db, Delay, Event, FamilyMap, FamilyPlan, FlushPlan, JobIoUse,
    Level0Plan, Metrics, Options, PartitionRate, Plan, PressureCause, Refused, Runtime,
    RuntimeMetrics, RuntimeOptions, SlicePlan, TableState, TtlPlan, UnitCosts,
};

/// What costs say of level 0, down to its last part.
fn slices(plan: &Level0Plan) -> Vec<(u16, Option<CostEquation>)> {
    let _: (UnitCosts, CostThresholds) = (plan.units, plan.thresholds);
    let equation = |decisions: CostDecisions| {
        let decision: Option<CostDecision> = decisions.due();
        decision.map(|decision| decision.equation)
    };
    let named = |slice: &SlicePlan| (slice.family, slice.decisions.and_then(equation));
    plan.slices.iter().map(named).collect()
}

#[test]
fn parts_of_reports_have_names() {
    let folder = tempfile::tempdir().unwrap();
    let runtime: Runtime = Runtime::new(RuntimeOptions::default()).unwrap();
    assert_eq!(runtime.options(), &RuntimeOptions::default());
    let events: Arc<Mutex<Vec<Event>>> = Arc::default();
    let heard = events.clone();
    let db = Db::builder(folder.path().join("db"))
        .options(Options::default())
        .runtime(&runtime)
        .listener(move |event: &Event| heard.lock().unwrap().push(event.clone()))
        .open()
        .unwrap();
    let counters = CfOptions::default().merge_operator(Counter::NAME);
    let name: Option<MergeName> = counters.merge_operator;
    assert_eq!(name.unwrap().as_str(), Counter::NAME);
    let counters = db.column_family("counters", counters).unwrap();
    counters.put("k", "v").unwrap();

    let mut feed: ChangeFeed = db.changes_since(0).unwrap();
    let group: ChangeGroup = feed.next().unwrap().unwrap();
    let change = group.changes().next().unwrap().unwrap();
    assert_eq!(
        (&*change.family, feed.position()),
        ("counters", group.last())
    );
    drop(feed);

    db.flush().unwrap();
    let map: Vec<FamilyMap> = db.map();
    let family = map.iter().find(|of| of.name.as_deref() == Some("counters"));
    let family: &FamilyMap = family.unwrap();
    let tables: &[TableState] = &family.tables;
    let _: &[PartitionRate] = &family.rates;
    assert_eq!((family.family, tables.len()), (change.family_id, 1));

    let plan: Plan = db.plan();
    let flush: &FlushPlan = &plan.flush;
    assert_eq!((flush.due, flush.because.clone()), (false, None));
    let of = |plan: &&FamilyPlan| plan.family == change.family_id;
    let ttl: Option<TtlPlan> = plan.families.iter().find(of).unwrap().ttl;
    assert_eq!(ttl.and_then(|ttl| ttl.expired), None::<u64>);
    // Disks differ.
    let delay: Option<Delay> = plan.delay;
    let _: Option<PressureCause> = delay.map(|delay| delay.cause);
    assert!(
        plan.level0
            .iter()
            .flat_map(slices)
            .all(|(family, _)| family == change.family_id)
    );

    let metrics: Metrics = db.metrics();
    let reasons: &[(CompactionReason, u64)] = &metrics.compaction.reasons;
    assert!(!reasons.is_empty());
    let shared: RuntimeMetrics = metrics.runtime.unwrap();
    assert_eq!(shared.stores, 1);
    // Systems differ.
    let (reads, jobs): (AsyncUse, JobIoUse) = (shared.async_reads, shared.job_io);
    let _: (Option<AsyncIo>, Option<Refused>) = (reads.way, jobs.refused);

    drop(counters);
    db.close().unwrap();
    let events = events.lock().unwrap();
    assert!(events.contains(&Event::ColumnFamilyCreated {
        name: "counters".into()
    }));
}
