//! The job that a level's size asks for.

use super::inputs;
use super::score::Scores;
use super::state::{Cursors, Job, PickOptions, State};

/// The next job, if there is one: that of the level with the highest score which can have one.
///
/// ```
/// use thermocline_base::{FileId, SeqNo};
/// use thermocline_base::KeyRange;
/// use thermocline_policy::pick::{Cursors, PickOptions, State, Table, pick};
/// let table = |file| Table {
///     file: FileId(file),
///     range: KeyRange::inclusive(b"a", b"m"),
///     bytes: 1 << 20,
///     smallest_seqno: SeqNo(file * 10),
///     largest_seqno: SeqNo(file * 10 + 9),
///     has_tombstones: false,
///     in_pm: false,
/// };
/// let levels = [vec![table(4), table(3), table(2), table(1)]];
/// let state = State { levels: &levels, running: &[] };
/// let job = pick(&state, &PickOptions::default(), &Cursors::default()).unwrap();
/// assert_eq!((job.from, job.to, job.inputs), (0, 6, vec![0, 1, 2, 3]));
/// // While it runs there is nothing else to do.
/// let state = State { levels: &levels, running: &[job.holds] };
/// assert!(pick(&state, &PickOptions::default(), &Cursors::default()).is_none());
/// ```
///
/// # Panics
/// If a level is deeper than the last one.
pub fn pick(state: &State<'_>, options: &PickOptions, cursors: &Cursors) -> Option<Job> {
    let scores = Scores::new(state, options);
    let mut due: Vec<_> = (0..options.last_level)
        .map(|n| (scores.score(n), n))
        .collect();
    due.retain(|(score, _)| *score >= 1.0);
    // Of equal ones the upper level first: what comes from it may be more for the lower.
    due.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut jobs = due.into_iter().map(|(_, level)| match level {
        0 => inputs::due_of_level0(state, options, scores.base_level(), &cursors.of(0)),
        _ => inputs::of_level(state, options, level, &cursors.of(level)),
    });
    jobs.find_map(|job| job)
}
