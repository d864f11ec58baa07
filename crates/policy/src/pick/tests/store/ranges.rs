//! Ranges of a flush that take tables along; and splits, which cut tables and hold no more than a key.

use thermocline_testkit::Rng;

use super::super::super::{Along, Held, PickOptions, State, Table, depth, pick_along};
use super::{Id, OwnedTable, Store};
use thermocline_base::KeyRange;

/// A range of a flush that takes tables along.
#[derive(Debug)]
pub struct Flushing {
    pub picked: Along,
    /// That of what was picked, and of each input of level 0 all of it there.
    pub holds: Vec<Held>,
    from: Vec<u8>,
    /// If something lies behind.
    to: Option<Vec<u8>>,
    /// What was written.
    new: OwnedTable,
    inputs: Vec<Id>,
    overlapped: Vec<Id>,
    /// How many of the inputs reach out of the range.
    pub cut: usize,
}

impl Flushing {
    /// What it will replace.
    pub fn takes(&self) -> impl Iterator<Item = &Id> {
        self.inputs.iter().chain(&self.overlapped)
    }
}

/// Of level 0 what overlaps the range, as places.
fn of_range(level0: &[Table<'_>], range: &KeyRange<&[u8]>) -> Vec<usize> {
    let places = 0..level0.len();
    places
        .filter(|n| level0[*n].range.overlaps(range))
        .collect()
}

/// Of these places those that may be merged above the others: by age, newest first, what has no seqnos in common
/// with what is older, while all of it `may` be taken.
fn newest_of(
    level0: &[Table<'_>],
    places: &[usize],
    may: impl Fn(&Table<'_>) -> bool,
) -> Vec<usize> {
    let mut by_age = places.to_vec();
    by_age.sort_by_key(|n| std::cmp::Reverse(level0[*n].largest_seqno));
    let (mut top, mut group) = (Vec::new(), Vec::new());
    for (i, n) in by_age.iter().enumerate() {
        group.push(*n);
        let oldest = group.iter().map(|n| level0[*n].smallest_seqno).min();
        let next = by_age.get(i + 1).map(|n| level0[*n].largest_seqno);
        if oldest > next {
            if !group.iter().all(|n| may(&level0[*n])) {
                break;
            }
            top.append(&mut group);
        }
    }
    top.sort_unstable();
    top
}

impl Store {
    /// Begins a range of a flush, and looks at what it takes along. If that is nothing, it is there at once.
    pub fn begin_range(&mut self, options: &PickOptions, rng: &mut Rng) {
        assert!(self.flushing.is_none(), "one flush at a time");
        let (low, len) = (rng.below(200), 1 + rng.below(self.width()));
        let from = match rng.one_in(8) {
            true => Vec::new(),
            false => vec![u8::try_from(low).unwrap()],
        };
        let to = u8::try_from(low + len).ok().map(|key| vec![key]);
        let mut new = self.written_to(rng, low..(low + len).min(256));
        if let (Some(end), Some(to)) = (&mut new.end, &to) {
            *end = to.clone().min(end.clone());
        }
        let about = match rng.one_in(2) {
            true => new.meta().bytes,
            false => rng.below(400) as u64,
        };
        let must = rng.one_in(2);
        let tables = self.levels.iter().flatten();
        let largest = tables.map(|table| table.meta().range.last.to_vec()).max();
        let last = largest.unwrap_or_default().max(from.clone());
        let range: KeyRange<&[u8]> = match &to {
            Some(to) => KeyRange::until(&from, to),
            None => KeyRange::inclusive(&from, &last),
        };
        let picked = self.with_state(|state| {
            let picked = pick_along(state, options, &range, about, must);
            self.check_along(state, options, (&range, must), picked.as_ref());
            picked
        });
        let Some(picked) = picked else {
            return self.stands_on_top(new);
        };
        let inputs = picked.inputs.iter().map(|n| self.levels[0][*n].meta());
        let inputs: Vec<_> = inputs.map(|table| table.range).collect();
        let whole = |range: &KeyRange<&[u8]>| Held {
            levels: 0..=0,
            range: range.owned(),
            seqnos: Held::ANY_AGE,
            stays: true,
            rests: false,
        };
        let own = std::iter::once(picked.holds.clone());
        let reaches = |table: &&KeyRange<&[u8]>| table.hull(range) != range;
        self.flushing = Some(Flushing {
            holds: inputs.iter().map(whole).chain(own).collect(),
            cut: inputs.iter().filter(reaches).count(),
            inputs: self.ids(0, &picked.inputs),
            overlapped: self.ids(picked.to, &picked.overlapped),
            picked,
            new,
            from,
            to,
        });
    }

    /// Looks at what a range takes along, beside what running jobs take.
    fn check_along(
        &self,
        state: &State<'_>,
        options: &PickOptions,
        (range, must): (&KeyRange<&[u8]>, bool),
        picked: Option<&Along>,
    ) {
        let level0 = state.level0();
        let all = of_range(level0, range);
        let may = |table: &Table<'_>| {
            table.in_pm && !state.running.iter().any(|held| held.may_take(table))
        };
        let top = newest_of(level0, &all, may);
        let files: Vec<_> = all.iter().filter(|n| !level0[**n].in_pm).collect();
        let files: Vec<_> = files.into_iter().map(|n| level0[*n]).collect();
        let fits = depth(&files) < options.level0_tables;
        let Some(picked) = picked else {
            // To level 0 it takes what it can.
            let oldest = top.iter().map(|n| level0[*n].smallest_seqno).min();
            let meets = |held: &Held| {
                let above = held.seqnos.end() < &oldest.unwrap();
                held.meets(&(0..=0), range) && !above
            };
            let may = !top.is_empty() && (fits || must);
            assert!(!may || state.running.iter().any(meets), "{range:?} {top:?}");
            return;
        };
        for held in state.running {
            assert!(!held.collides(&picked.holds), "{picked:?} {held:?}");
        }
        assert_eq!(picked.holds.levels, 0..=picked.to);
        let lower = picked.overlapped.iter();
        let lower = lower.map(|n| state.level(picked.to).table(*n).range);
        let hull = lower.fold(*range, KeyRange::hull);
        assert_eq!(picked.holds.range, hull.owned());
        let overlapped = self.ids(picked.to, &picked.overlapped);
        let takes = [self.ids(0, &picked.inputs), overlapped].concat();
        assert!(
            self.taken_by_jobs().all(|id| !takes.contains(id)),
            "{picked:?}"
        );
        if picked.to == 0 {
            assert!(!picked.inputs.is_empty() && picked.overlapped.is_empty());
            assert_eq!(picked.inputs, top);
            assert!(fits || must);
            let is_input = |n: &&usize| picked.inputs.contains(n);
            let others = all.iter().filter(|n| !is_input(n));
            let newest = others.map(|n| level0[*n].largest_seqno).max();
            for input in picked.inputs.iter().map(|n| &level0[*n]) {
                assert!(
                    input.in_pm && newest < Some(input.smallest_seqno),
                    "{picked:?}"
                );
            }
            return;
        }
        assert_eq!(picked.inputs, all);
        assert!((1..picked.to).all(|level| state.level(level).is_empty()));
        let lower = state.level(picked.to).iter().enumerate();
        let lower = lower.filter(|(_, table)| table.range.overlaps(range));
        let lower: Vec<_> = lower.map(|(n, _)| n).collect();
        assert_eq!(picked.overlapped, lower);
    }

    /// Ends the range that takes tables along: what it takes goes, but for what of level 0 lies outside, and its
    /// outputs come.
    pub fn end_range(&mut self, rng: &mut Rng) {
        let flushing = self.flushing.take().expect("it was begun");
        self.note_written(&flushing.new);
        let (from, to) = (&flushing.from, flushing.to.as_ref());
        let cut = |table: OwnedTable| -> [Option<OwnedTable>; 3] {
            let [before, rest] = table.cut_at(from);
            let cut = |table: OwnedTable| match to {
                Some(to) => table.cut_at(to),
                None => [Some(table), None],
            };
            let [within, behind] = rest.map_or([None, None], cut);
            [before, within, behind]
        };
        let mut parts = [Vec::new(), vec![flushing.new], Vec::new()];
        let mut rests = Vec::new();
        for table in self.remove(0, &flushing.inputs) {
            let [before, within, behind] = cut(table);
            rests.extend([before, behind].into_iter().flatten());
            parts[1].push(within.expect("it overlaps the range"));
        }
        self.stand_by_age(rests);
        for table in self.remove(flushing.picked.to, &flushing.overlapped) {
            for (part, piece) in parts.iter_mut().zip(cut(table)) {
                part.extend(piece);
            }
        }
        for part in parts {
            let outputs = self.merged(part, rng);
            match flushing.picked.to {
                0 => self.stand_by_age(outputs),
                level => self.stand_by_keys(level, outputs),
            }
        }
    }

    /// Holds a key where tables reach over it, if nobody has it there.
    pub fn begin_split(&mut self, rng: &mut Rng) {
        let key = vec![u8::try_from(rng.below(256)).unwrap()];
        let reaches = |table: &OwnedTable| {
            let range = table.meta().range;
            range.first < &key[..] && range.contains(&key)
        };
        let levels = (0..self.levels.len()).filter(|n| self.levels[*n].iter().any(reaches));
        let at = |level: usize| Held {
            levels: level..=level,
            range: KeyRange::inclusive(&key, &key).owned(),
            seqnos: Held::ANY_AGE,
            stays: true,
            rests: false,
        };
        let holds: Vec<Held> = levels.map(at).collect();
        let free = |held: &Held| {
            self.with_state(|state| !state.running.iter().any(|other| other.collides(held)))
        };
        if holds.iter().all(free) {
            self.splits.push((key, holds));
        }
    }

    /// Cuts the tables.
    pub fn end_split(&mut self, n: usize) {
        let (key, holds) = self.splits.swap_remove(n);
        for level in holds.iter().map(|held| *held.levels.start()) {
            let tables = std::mem::take(&mut self.levels[level]).into_iter();
            let parts = tables.flat_map(|table| table.cut_at(&key));
            self.levels[level] = parts.flatten().collect();
        }
    }
}
