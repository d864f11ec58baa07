//! Figures as they are kept.

use std::collections::BTreeMap;
use std::path::Path;

use thermocline_testkit::explore::{is_tried, times};

use super::count::{Figures, bytes, on_the_machine};
use super::script::{Script, choose_scripts, scripts};
use super::table::as_csv;
use super::{Counts, count};
use crate::distribution::Distribution;
use crate::scratch::Scratch;
use crate::watch::Watch;
use crate::workload::Workload;

/// A figure may differ from what is kept by so much of it, and by so much in all.
const PART: f64 = 0.01;
const LEAST: f64 = 0.001;

fn kept_path() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/counts/kept.csv")
}

/// By script and column.
fn parse(csv: &str) -> BTreeMap<(String, String), f64> {
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap_or_default();
    let mut all = BTreeMap::new();
    for line in lines {
        for (column, figure) in header.iter().zip(&line).skip(1) {
            let at = (line[0].to_string(), column.to_string());
            all.insert(at, figure.parse().unwrap());
        }
    }
    all
}

/// What differs from what is kept, in words.
fn differences(kept: &str, now: &str) -> Vec<String> {
    let (kept, now) = (parse(kept), parse(now));
    let mut all = Vec::new();
    for (at, is) in &now {
        match kept.get(at) {
            None => all.push(format!("{}, {}: not kept, now {is}", at.0, at.1)),
            Some(was) if (is - was).abs() > (was * PART).max(LEAST) => {
                all.push(format!("{}, {}: was {was}, now {is}", at.0, at.1));
            }
            Some(_) => {}
        }
    }
    let gone = kept.keys().filter(|at| !now.contains_key(*at));
    all.extend(gone.map(|at| format!("{}, {}: kept, and not counted", at.0, at.1)));
    all
}

/// On threads of their own, two at a time.
fn all_figures() -> Vec<Figures> {
    let scripts = scripts();
    let figures = |script: &Script| bytes(script).unwrap();
    std::thread::scope(|scope| {
        let mut all = Vec::new();
        for pair in scripts.chunks(2) {
            let started: Vec<_> = pair.iter().map(|s| scope.spawn(|| figures(s))).collect();
            all.extend(started.into_iter().map(|thread| thread.join().unwrap()));
        }
        all
    })
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "kept figures are a file of the repository"
)]
fn no_count_has_risen_or_fallen() {
    let now = as_csv(&all_figures());
    if std::env::var_os("THERMOCLINE_REWRITE").is_some() {
        std::fs::write(kept_path(), now).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(kept_path()).unwrap();
    let differences = differences(&kept, &now);
    assert!(
        differences.is_empty(),
        "an operation counts otherwise:\n  {}\nTHERMOCLINE_REWRITE=1 writes the figures anew, if that is meant",
        differences.join("\n  ")
    );
}

#[test]
fn a_difference_is_told_and_a_small_one_is_not() {
    let kept = "cell,PM bytes,syncs\nput,100.0,0.0\nget,0.0,2.0\n";
    assert!(differences(kept, kept).is_empty());
    let near = "cell,PM bytes,syncs\nput,100.9,0.0005\nget,0.0,1.99\n";
    assert!(differences(kept, near).is_empty());
    for (other, word) in [
        (
            "cell,PM bytes,syncs\nput,102.0,0.0\nget,0.0,2.0\n",
            "put, PM bytes: was 100, now 102",
        ),
        ("cell,PM bytes,syncs\nput,98.0,0.0\nget,0.0,2.0\n", "now 98"),
        (
            "cell,PM bytes,syncs\nput,100.0,0.01\nget,0.0,2.0\n",
            "put, syncs",
        ),
        (
            "cell,PM bytes,syncs\nput,100.0,0.0\n",
            "get, syncs: kept, and not counted",
        ),
        (
            "cell,PM bytes,syncs\nput,100.0,0.0\nget,0.0,2.0\nscan,1.0,1.0\n",
            "scan, syncs: not kept",
        ),
    ] {
        let told = differences(kept, other);
        assert!(told.iter().any(|text| text.contains(word)), "{told:?}");
    }
}

/// What is counted is the same whoever runs it, and on which thread.
#[test]
fn counting_twice_gives_the_same() {
    let script = &choose_scripts(&["load-5x".into()]).unwrap()[0];
    let script = Script {
        keys: 12_000,
        ..script.clone()
    };
    let once = bytes(&script).unwrap();
    let again = std::thread::scope(|scope| scope.spawn(|| bytes(&script)).join().unwrap().unwrap());
    assert_eq!(once, again);
    assert!(once.pm_fences > 0.0 && once.ssd_bytes_written > 0.0 && once.syncs > 0.0);
}

/// The machine's files take the same operations, so instructions are those of what was counted.
#[test]
fn the_machine_takes_what_the_simulation_takes() {
    let folder = Scratch::new("counts-test").unwrap();
    for name in ["put-1k", "ycsb-e"] {
        let mut script = choose_scripts(&[name.to_string()]).unwrap().remove(0);
        script.ops = 20;
        on_the_machine(&script, folder.path(), None, |steps| steps.run()).unwrap();
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn tables_have_instructions_where_they_were_counted() {
    let scripts = choose_scripts(&["get-pm".into()]).unwrap();
    let folder = Scratch::new("counts-test").unwrap();
    let counts = count(&scripts, folder.path(), None, &Watch::new()).unwrap();
    let text = counts.to_string();
    match &counts.uncounted {
        Some(why) => assert!(text.contains(why.as_str()), "{text}"),
        None => assert!(
            counts.cells[0]
                .instructions
                .is_some_and(|count| count > 100.0)
        ),
    }
    let mut counted = Counts {
        uncounted: None,
        ..counts
    };
    counted.cells[0].instructions = Some(12_345.4);
    for table in [counted.to_string(), counted.markdown()] {
        assert!(
            table.contains("instructions") && table.contains("12,345"),
            "{table}"
        );
    }
    let error = choose_scripts(&["get".into()]).unwrap_err().to_string();
    assert!(
        error.contains("'get'") && error.contains("scan-pm"),
        "{error}"
    );
}

/// Bytes on the SSD for each byte that is overwritten, of data so many times as large as persistent memory. All of it is there
/// before.
fn overwritten(ratio: f64, distribution: Distribution) -> f64 {
    let mut script = choose_scripts(&["load-5x".into()]).unwrap().remove(0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "some thousands"
    )]
    let keys = (script.keys as f64 / 5.0 * ratio) as u64;
    (script.keys, script.ops) = (keys, keys * 3 / 2);
    (script.workload, script.distribution) = (Workload::UpdateRandom, distribution);
    let figures = bytes(&script).unwrap();
    figures.ssd_bytes_written / figures.user_bytes
}

/// What is written often stays in persistent memory, and what leaves it must not rewrite all of the SSD (decision 155). Keys that are
/// equally often written take no part in that, and what they write is written down; a long run sees that it is still so. All ratios:
/// `THERMOCLINE_EXPLORE=1 cargo test -p thermocline-bench --lib unlike_often -- --nocapture`.
#[test]
fn keys_that_are_written_unlike_often_write_half_as_much() {
    let ratios = [(8.0, 6.69), (10.0, 8.04)];
    let tried = ratios
        .iter()
        .enumerate()
        .filter(|(n, _)| is_tried(*n, ratios.len() as u64));
    for (_, &(ratio, written)) in tried {
        let zipfian = Distribution::Zipfian { theta: 0.99 };
        let (alike, unlike) = std::thread::scope(|scope| {
            let run = |of| scope.spawn(move || overwritten(ratio, of));
            let alike = times().map(|_| run(Distribution::Uniform));
            let unlike = run(zipfian).join().unwrap();
            let alike = alike.map(|thread| thread.join().unwrap());
            (alike.unwrap_or(written), unlike)
        });
        println!("{ratio:4} times: uniform {alike:.2}, zipfian 0.99 {unlike:.2}");
        let other = (alike - written).abs() / written;
        assert!(other <= 0.02, "{ratio}: {alike:.2}, once {written}");
        assert!(unlike <= 0.5 * alike, "{ratio}: {alike:.2}, {unlike:.2}");
    }
}
