//! Jobs that move values out of blob files with much garbage, or out of small ones to join them (`collect`).
//!
//! A table that refers to victims is written anew where it stands: what is below stays below, and nothing else is read. One
//! of level 0 goes to the base level, with what is older, as level 0 is written anew nowhere else.

use super::jobs::job;
use super::score::Scores;
use super::state::{Job, PickOptions, Reason, State};
use crate::collect::Refers;

/// The next such job: of the tables of a family that refer to victims the one that refers to most there, that no
/// running job holds, and whose job has no more than `bytes_max` bytes, with what it moves; `None` if there is none.
///
/// # Panics
/// If a level is deeper than the last one, or has no such table.
pub fn pick_garbage<'r>(
    refers: impl Iterator<Item = &'r Refers>,
    state: &State<'_>,
    options: &PickOptions,
    bytes_max: u64,
) -> Option<Job> {
    let mut by_bytes: Vec<&Refers> = refers.filter(|of| of.bytes > 0).collect();
    by_bytes.sort_by_key(|of| (std::cmp::Reverse(of.bytes), of.level, of.place));
    by_bytes.into_iter().find_map(|of| {
        if state.is_held(of.level, &state.level(of.level).table(of.place)) {
            return None;
        }
        let to = match of.level {
            0 => Scores::new(state, options).base_level(),
            level => level,
        };
        let mut job = job(
            state,
            options,
            (of.level, to),
            vec![of.place],
            Reason::Garbage,
        )?;
        job.bytes = job.bytes.saturating_add(of.bytes);
        (job.bytes <= bytes_max).then_some(job)
    })
}

#[cfg(test)]
mod tests {
    use thermocline_base::{CfId, FileId, KeyRange, SeqNo};

    use super::super::levels::Table;
    use super::super::state::Held;
    use super::*;

    fn table(file: u64, first: &'static [u8], last: &'static [u8]) -> Table<'static> {
        Table {
            file: FileId(file),
            range: KeyRange::inclusive(first, last),
            bytes: 1 << 20,
            smallest_seqno: SeqNo(file * 10),
            largest_seqno: SeqNo(file * 10 + 9),
            entries: 1,
            deletes: 0,
            in_pm: false,
        }
    }

    fn refers(level: usize, place: usize, bytes: u64) -> Refers {
        Refers {
            family: CfId::DEFAULT,
            level,
            place,
            bytes,
        }
    }

    #[test]
    fn the_table_that_refers_to_most_is_written_anew_where_it_stands() {
        let levels = [
            vec![table(9, b"a", b"c")],
            vec![table(1, b"a", b"c"), table(2, b"d", b"f")],
            vec![table(3, b"a", b"z")],
        ];
        let options = PickOptions {
            last_level: 2,
            ..PickOptions::default()
        };
        let pick = |running: &[Held], of: &[Refers]| {
            let levels = &levels;
            let state = State { levels, running };
            pick_garbage(of.iter(), &state, &options, u64::MAX)
        };
        assert_eq!(pick(&[], &[]), None);
        assert_eq!(pick(&[], &[refers(1, 0, 0)]), None);
        let of = [refers(1, 0, 5), refers(1, 1, 7), refers(2, 0, 6)];
        let job = pick(&[], &of).unwrap();
        assert_eq!((job.from, job.to, &job.inputs[..]), (1, 1, &[1][..]));
        assert_eq!((job.reason, job.trivial), (Reason::Garbage, false));
        assert_eq!(job.bytes, (1 << 20) + 7);
        assert!(job.overlapped.is_empty());
        // While that runs, another one has its turn.
        let next = pick(std::slice::from_ref(&job.holds), &of).unwrap();
        assert_eq!((next.from, next.to, &next.inputs[..]), (2, 2, &[0][..]));
        let last = pick(&[job.holds, next.holds], &of).unwrap();
        assert_eq!((last.from, last.to, &last.inputs[..]), (1, 1, &[0][..]));
        // Where there is less room, one that fits.
        let state = State {
            levels: &levels,
            running: &[],
        };
        let within = |most: u64| pick_garbage(of.iter(), &state, &options, most);
        let fits = within((1 << 20) + 6).unwrap();
        assert_eq!((fits.from, &fits.inputs[..]), (2, &[0][..]));
        assert_eq!(within((1 << 20) + 4), None);
    }

    #[test]
    fn a_table_of_level_0_goes_to_the_base_level_with_what_is_older() {
        let levels = [
            vec![
                table(9, b"a", b"c"),
                table(8, b"b", b"d"),
                table(7, b"c", b"e"),
            ],
            vec![table(1, b"a", b"z")],
        ];
        let options = PickOptions {
            last_level: 1,
            ..PickOptions::default()
        };
        let state = State {
            levels: &levels,
            running: &[],
        };
        let of = [refers(0, 1, 5)];
        let job = pick_garbage(of.iter(), &state, &options, u64::MAX).unwrap();
        assert_eq!((job.from, job.to, &job.inputs[..]), (0, 1, &[1, 2][..]));
        assert_eq!(job.overlapped, [0]);
    }
}
