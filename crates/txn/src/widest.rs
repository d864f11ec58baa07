//! Of many ranges the one that has a key, if any has.
//!
//! Each read of a transaction asks that of the ranges that it has deleted, and each lock of those that it has locked. There
//! may be thousands.

use thermocline_base::CfId;

/// A range: its family, where it begins, and the first key behind it; none if it has no end.
pub(crate) type Bounds<'a> = (CfId, &'a [u8], Option<&'a [u8]>);

/// Ranges by their numbers, in order, without those that lie within others. So none ends before one that begins before it,
/// and of those that begin at a key or before it the last one reaches the furthest.
#[derive(Debug, Default)]
pub(crate) struct Widest(Vec<usize>);

/// Whether what ends at `end` reaches as far as what ends at `other`.
fn reaches(end: Option<&[u8]>, other: Option<&[u8]>) -> bool {
    end.is_none_or(|end| other.is_some_and(|other| other <= end))
}

impl Widest {
    /// One more range. `of` gives each by its number.
    pub fn add<'a>(&mut self, number: usize, of: impl Fn(usize) -> Bounds<'a>) {
        let (cf, start, end) = of(number);
        let before = |n: &usize| (of(*n).0, of(*n).1) < (cf, start);
        let at = self.0.partition_point(before);
        // The one before it, or one that begins where it does.
        let around = [at.checked_sub(1), Some(at)];
        let mut around = around.into_iter().flatten().filter_map(|i| self.0.get(i));
        let has_it = |n: &usize| {
            let (own, begin, own_end) = of(*n);
            own == cf && begin <= start && reaches(own_end, end)
        };
        if around.any(has_it) {
            return;
        }
        let is_within = |n: &&usize| of(**n).0 == cf && reaches(end, of(**n).2);
        let within = self.0[at..].iter().take_while(is_within).count();
        drop(self.0.splice(at..at + within, [number]));
    }

    /// Of the ranges of a family that begin at `key` or before it, the one that reaches the furthest.
    pub fn last_at<'a>(
        &self,
        (cf, key): (CfId, &[u8]),
        of: impl Fn(usize) -> Bounds<'a>,
    ) -> Option<Bounds<'a>> {
        self.last(cf, |begin| begin <= key, of)
    }

    /// Of the ranges of a family that begin before `end`, if there is one, the one that reaches the furthest.
    pub fn last_before<'a>(
        &self,
        (cf, end): (CfId, Option<&[u8]>),
        of: impl Fn(usize) -> Bounds<'a>,
    ) -> Option<Bounds<'a>> {
        self.last(cf, |begin| end.is_none_or(|end| begin < end), of)
    }

    /// The last one of a family that begins where `is_it` says, which is so of all before it.
    fn last<'a>(
        &self,
        cf: CfId,
        is_it: impl Fn(&[u8]) -> bool,
        of: impl Fn(usize) -> Bounds<'a>,
    ) -> Option<Bounds<'a>> {
        let behind = self.0.partition_point(|n| {
            let (own, begin, _) = of(*n);
            own < cf || own == cf && is_it(begin)
        });
        let last = of(*self.0.get(behind.checked_sub(1)?)?);
        (last.0 == cf).then_some(last)
    }

    /// Has none any more.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Bytes of memory that it has.
    pub fn capacity(&self) -> usize {
        self.0.capacity() * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use thermocline_testkit::Rng;

    use super::*;

    #[test]
    fn the_one_that_is_found_has_the_key_if_any_has() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let byte = |rng: &mut Rng| u8::try_from(rng.below(30)).unwrap();
            let mut all: Vec<(CfId, [u8; 1], Option<[u8; 1]>)> = Vec::new();
            let mut widest = Widest::default();
            for number in 0..rng.below(40) {
                let cf = CfId(u16::from(rng.one_in(2)));
                let (start, end) = (byte(&mut rng), byte(&mut rng));
                // Some have no key.
                let end = (!rng.one_in(10)).then_some([end]);
                all.push((cf, [start], end));
                let of = |n: usize| (all[n].0, &all[n].1[..], all[n].2.as_ref().map(|e| &e[..]));
                widest.add(number, of);
                for key in 0..30u8 {
                    let has = |(own, start, end): Bounds<'_>| {
                        own == cf && *start <= [key][..] && end.is_none_or(|end| [key][..] < *end)
                    };
                    let any = (0..=number).any(|n| has(of(n)));
                    let found = widest.last_at((cf, &[key][..]), of).is_some_and(has);
                    assert_eq!(found, any, "{seed}: {key} {all:?}");
                }
            }
        }
    }

    #[test]
    fn what_lies_within_another_is_left_out() {
        let all = [b"cd", b"ab", b"ef", b"af", b"bc", b"ax"];
        let of = |n: usize| (CfId(1), &all[n][..1], Some(&all[n][1..]));
        let mut widest = Widest::default();
        let counts = [0, 1, 2, 3, 4, 5].map(|n| {
            widest.add(n, of);
            widest.0.len()
        });
        assert_eq!(counts, [1, 2, 3, 1, 1, 1]);
    }
}
