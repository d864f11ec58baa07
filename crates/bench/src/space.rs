//! How much of the SSD a store takes while a run goes on, beside what lives in it.
//!
//! A thread looks when the measured part begins, then every second, and the last look comes at the end, behind the background
//! work that the run waits for. It reads the store's folder: a file that nobody needs takes room until it is removed, and
//! so does one that is being written, but the store's own numbers have neither.
//!
//! What lives is what a user would have if each key was there once. It is known where all keys are loaded first and none
//! is added or deleted, and where every key is written once.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use serde::Serialize;
use thermocline::size::format_size;
use thermocline::{Db, Result};
use thermocline_env::{Env, Storage};

use crate::clock::{Duration, Instant, now};
use crate::plan::Plan;
use crate::watch::Watch;

/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// A folder that changes under each of so many looks is counted as it was found.
const TRIES: usize = 4;

/// What was found at one moment, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SpaceSample {
    /// Seconds since the measured part began.
    pub seconds: f64,
    /// Operations that were done by then.
    pub ops: u64,
    /// Tables, blob files and manifests in the store's folder: those too that are being written, or wait to be removed.
    pub ssd_bytes: u64,
    /// Tables and blob files that the store names, as `stat` counts them.
    pub named_bytes: u64,
    /// The part of blob files that the store knows to be garbage.
    pub garbage_bytes: u64,
    /// Keys and values that live, wherever they lie; `None` where that is not known.
    pub live_bytes: Option<u64>,
}

impl SpaceSample {
    /// Bytes on the SSD for each byte that lives; `None` where nothing lives, or that is not known.
    pub fn ratio(&self) -> Option<f64> {
        let live = self.live_bytes.filter(|live| *live > 0)?;
        Some(self.ssd_bytes as f64 / live as f64)
    }

    /// Whether there is more than so many bytes for each hundred that live; `None` as above.
    fn is_above(&self, percent: u64) -> Option<bool> {
        let live = self.live_bytes.filter(|live| *live > 0)?;
        Some(u128::from(self.ssd_bytes) * 100 > u128::from(live) * u128::from(percent))
    }
}

/// What a run took of the SSD over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Space {
    /// `blob.space_percent_max`, by which the store bounds the garbage that it knows of in blob files.
    pub limit_percent: u64,
    /// The most bytes on the SSD at any look.
    pub ssd_bytes_max: u64,
    /// Those bytes for each byte that lived then; `None` where that is not known.
    pub ratio: Option<f64>,
    /// Looks that found more on the SSD than the limit allows of what lived then; `None` where that is not known.
    pub looks_above: Option<usize>,
    /// All looks, in their order.
    pub samples: Vec<SpaceSample>,
}

impl Space {
    fn of(limit_percent: u64, samples: Vec<SpaceSample>) -> Space {
        let most = samples.iter().max_by_key(|sample| sample.ssd_bytes);
        let (ssd_bytes_max, ratio) = most.map_or((0, None), |most| (most.ssd_bytes, most.ratio()));
        let above = samples
            .iter()
            .filter_map(|sample| sample.is_above(limit_percent));
        let above: Vec<bool> = above.collect();
        let looks_above = above.iter().filter(|is_above| **is_above).count();
        Space {
            limit_percent,
            ssd_bytes_max,
            ratio,
            looks_above: (!above.is_empty()).then_some(looks_above),
            samples,
        }
    }

    /// As a table for people has it.
    pub(crate) fn rows(&self) -> Vec<(String, String)> {
        let most = format_size(self.ssd_bytes_max);
        let limit = self.limit_percent as f64 / 100.0;
        let looks = self.samples.len();
        let text = match (self.ratio, self.looks_above) {
            (Some(ratio), Some(0)) => format!(
                "{most} at most, {ratio:.2} for each byte that lives; never above the limit of {limit:.2} ({looks} looks)"
            ),
            (Some(ratio), Some(above)) => format!(
                "{most} at most, {ratio:.2} for each byte that lives; ABOVE the limit of {limit:.2} in {above} of {looks} looks"
            ),
            _ => format!(
                "{most} at most; how much lives is not known of this run (of overwrite it is with --preload)"
            ),
        };
        vec![("room on the SSD".to_string(), text)]
    }
}

/// Does `work` here while another thread looks. Returns what the work did, and what was seen to its end.
pub(crate) fn sampled<R>(
    (db, folder): (&Db, &Path),
    (plan, watch): (&Plan, &Watch),
    work: impl FnOnce() -> R,
) -> (R, Result<Space>) {
    let looks = &Looks {
        db,
        folder,
        plan,
        watch,
        storage: Env::real().storage,
        begun: now(),
    };
    let (ends, ended) = channel();
    let (done, samples) = std::thread::scope(|scope| {
        let sampler = scope.spawn(move || looks.until(&ended));
        let done = work();
        // The thread ends with its sender, which a panic of the work drops, too.
        drop(ends);
        let samples = match sampler.join() {
            Ok(samples) => samples,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        (done, samples)
    });
    let space = samples.and_then(|mut samples| {
        samples.push(looks.look()?);
        let limit_percent = plan.options.blob.space_percent_max;
        Ok(Space::of(limit_percent, samples))
    });
    (done, space)
}

/// Where to look.
struct Looks<'a> {
    db: &'a Db,
    folder: &'a Path,
    plan: &'a Plan,
    watch: &'a Watch,
    storage: Arc<dyn Storage>,
    begun: Instant,
}

impl Looks<'_> {
    fn until(&self, ended: &Receiver<()>) -> Result<Vec<SpaceSample>> {
        let mut samples = vec![self.look()?];
        while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
            samples.push(self.look()?);
        }
        Ok(samples)
    }

    fn look(&self) -> Result<SpaceSample> {
        let ops = self.watch.snapshot().done;
        let ssd_bytes = files_bytes(&*self.storage, self.folder)?;
        let metrics = self.db.metrics();
        let tables: u64 = metrics.levels.iter().map(|level| level.bytes).sum();
        Ok(SpaceSample {
            seconds: (now() - self.begun).as_secs_f64(),
            ops,
            ssd_bytes,
            named_bytes: tables + metrics.blobs.bytes,
            garbage_bytes: metrics.blobs.garbage_bytes,
            live_bytes: self.plan.live_bytes(ops),
        })
    }
}

/// Bytes of the tables, blob files and manifests in a folder.
fn files_bytes(storage: &dyn Storage, folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for _ in 0..TRIES {
        let mut is_whole = true;
        bytes = 0;
        for name in storage.list(folder)? {
            if !is_data(&name) {
                continue;
            }
            match folder.join(&name).symlink_metadata() {
                Ok(metadata) => bytes += metadata.len(),
                // It has gone since, or a table has its name now: that one was not counted.
                Err(_) => is_whole = false,
            }
        }
        if is_whole {
            break;
        }
    }
    Ok(bytes)
}

/// Whether a file of that name holds data or says what exists. A region and logs may lie in the same folder.
fn is_data(name: &str) -> bool {
    let kind = Path::new(name).extension().and_then(OsStr::to_str);
    name.starts_with("MANIFEST-") || matches!(kind, Some("sst" | "blob" | "part"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;

    fn sample(ssd_bytes: u64, live_bytes: Option<u64>) -> SpaceSample {
        SpaceSample {
            seconds: 1.0,
            ops: 1,
            ssd_bytes,
            named_bytes: ssd_bytes,
            garbage_bytes: 0,
            live_bytes,
        }
    }

    #[test]
    fn the_largest_look_counts_and_those_above_the_limit_are_told() {
        let samples = [100, 131, 130, 150, 90].map(|ssd| sample(ssd, Some(100)));
        let space = Space::of(130, samples.to_vec());
        assert_eq!((space.ssd_bytes_max, space.looks_above), (150, Some(2)));
        assert_eq!(space.ratio, Some(1.5));
        let text = space.rows().remove(0).1;
        assert!(text.contains("ABOVE") && text.contains("2 of 5"), "{text}");
        let space = Space::of(150, samples.to_vec());
        assert!(space.rows()[0].1.contains("never above the limit of 1.50"));
    }

    #[test]
    fn nothing_is_said_of_what_is_not_known() {
        let space = Space::of(130, vec![sample(100, None), sample(50, Some(0))]);
        assert_eq!((space.ssd_bytes_max, space.ratio), (100, None));
        assert_eq!(space.looks_above, None);
        assert!(space.rows()[0].1.contains("--preload"));
    }

    /// A panic of who looks would be one of the run.
    #[test]
    fn of_more_keys_than_there_can_be_as_much_lives_as_can_be_counted() {
        let plan = Plan {
            num: u64::MAX >> 1,
            use_existing: true,
            db: Some("db".into()),
            space: true,
            ..Plan::new(Workload::ReadRandom)
        };
        plan.validate().unwrap();
        assert_eq!(plan.live_bytes(0), Some(u64::MAX));
    }

    #[test]
    fn what_is_no_data_does_not_count() {
        for name in [
            "000007.sst",
            "000007.blob",
            "000007-0f.part",
            "MANIFEST-000002",
        ] {
            assert!(is_data(name), "{name}");
        }
        for name in ["CURRENT", "LOCK", "region", "000001.log", "sst"] {
            assert!(!is_data(name), "{name}");
        }
    }
}
