//! Training: from the ends of blocks to the parts of an index.

use thermocline_base::numbers::len32;

use super::bits::BitWriter;
use super::boundaries::Boundaries;
use super::code::{Alphabet, occurring};
use super::fit::{self, Range};
use super::group::Group;
use super::grow::{self, Grown};
use super::handles;
use super::model::Model;
use super::parts::Parts;
use super::top::Top;
use super::work::Work;

struct Training<'a> {
    bounds: &'a Boundaries,
    alphabet: &'a Alphabet,
    models: Vec<Model>,
    corrections: BitWriter,
    /// Bits of corrections so far.
    at: u64,
    work: Work,
}

/// The parts of an index of these blocks. `None` if there are no blocks, they are not worth a model, or it
/// would be too much work.
pub(super) fn train(bounds: &Boundaries) -> Option<Parts> {
    if bounds.len() == 0 {
        return None;
    }
    let all: Vec<_> = (0..bounds.len()).map(|n| bounds.handle(n)).collect();
    let (frames, frame_bits) = handles::pack(&all)?;
    let occur = occurring(bounds.bytes());
    let alphabet = Alphabet::new(&occur);
    let mut training = Training {
        bounds,
        alphabet: &alphabet,
        models: Vec::new(),
        corrections: BitWriter::default(),
        at: 0,
        work: Work::new(bounds.len()),
    };
    let grown = grow::groups(bounds, &alphabet, &mut training.work)?;
    let groups: Option<Vec<Group>> = grown.into_iter().map(|g| training.group(g)).collect();
    let groups = groups?;
    let lows: Vec<&[u8]> = groups.iter().map(|group| &*group.low).collect();
    Some(Parts {
        blocks: len32(bounds.len()),
        occur,
        top: Top::train(&lows),
        groups,
        models: training.models,
        corrections: training.corrections.finish(),
        frames,
        frame_bits,
    })
}

impl Training<'_> {
    /// Fits the models of a group.
    fn group(&mut self, grown: Grown) -> Option<Group> {
        let Grown { first, end, code } = grown;
        let of = |key: &[u8]| code.of(self.alphabet, key).cast_signed();
        let range = |n: usize| -> Range {
            let above = of(self.bounds.last(n - 1).user_key) + 1;
            (above, of(self.bounds.first(n)).max(above))
        };
        let ranges: Vec<Range> = (first + 1..end).map(range).collect();
        self.work.spend(2 * ranges.len() * code.positions().len())?;
        let before = self.models.len();
        fit::models(
            &ranges,
            len32(first) + 1,
            &mut self.models,
            &mut self.corrections,
            &mut self.at,
            &mut self.work,
        )?;
        Some(Group {
            first: len32(first),
            blocks: len32(end - first),
            low: grow::low_of(self.bounds, first).into(),
            code,
            models: before..self.models.len(),
        })
    }
}
