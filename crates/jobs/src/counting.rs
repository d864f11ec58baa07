//! What a job reads, counted by partition.

use thermocline_base::SeqNo;
use thermocline_policy::cost::Counts;
use thermocline_version::{PartitionId, Partitions};

/// Counts the records of a merge, which come in the order of keys, by partition.
#[derive(Debug)]
pub struct Counting<'a> {
    partitions: &'a Partitions,
    /// Records that are newer are new, and so are writes; `None` if there are none.
    writes: Option<SeqNo>,
    /// The partition of the last record, and where it ends.
    current: Option<(PartitionId, Option<&'a [u8]>)>,
    counts: Counts,
    all: Vec<(PartitionId, Counts)>,
}

impl<'a> Counting<'a> {
    /// Of a flush if there are `writes`, which are newer than this; else of a compaction.
    pub fn new(partitions: &'a Partitions, writes: Option<SeqNo>) -> Counting<'a> {
        Counting {
            partitions,
            writes,
            current: None,
            counts: Counts::default(),
            all: Vec::new(),
        }
    }

    /// The next record, which stays or was replaced.
    #[inline]
    pub fn meet(&mut self, key: &[u8], seqno: SeqNo, stays: bool) {
        let within = self
            .current
            .is_some_and(|(_, end)| end.is_none_or(|end| key < end));
        if !within {
            self.go_to(key);
        }
        if self.writes.is_some_and(|before| seqno > before) {
            self.counts.writes += 1.0;
        }
        if !stays {
            self.counts.updates += 1.0;
        }
    }

    fn go_to(&mut self, key: &[u8]) {
        self.end();
        let partition = self.partitions.of(key);
        self.current = Some((partition.id, partition.end));
    }

    fn end(&mut self) {
        let counts = std::mem::take(&mut self.counts);
        if let Some((id, _)) = self.current.take()
            && counts != Counts::default()
        {
            self.all.push((id, counts));
        }
    }

    /// What was counted.
    pub fn into_counts(mut self) -> Vec<(PartitionId, Counts)> {
        self.end();
        self.all
    }
}

#[cfg(test)]
mod tests {
    use thermocline_base::CfId;
    use thermocline_version::{Change, State, VersionEdit};

    use super::*;

    /// A family with partitions from these letters on, with ids from 1.
    fn divided(starts: &[u8]) -> State {
        let created = Change::Created {
            db_id: [1; 16],
            region_id: [2; 16],
        };
        let family = Change::ColumnFamilyCreated {
            id: 0,
            name: "default".into(),
        };
        let mut edit = VersionEdit::new().with(created).with(family);
        for (id, start) in (1..).zip(starts) {
            edit = edit.with(Change::PartitionCreated {
                cf: CfId::DEFAULT,
                partition: PartitionId(id),
                start: [*start].into(),
            });
        }
        let mut state = State::default();
        state.apply(&edit).unwrap();
        state
    }

    #[test]
    fn a_merge_counts_each_record_in_its_partition() {
        let state = divided(b"dm");
        let counted = |writes: bool, keys: &[(&[u8], bool)]| {
            let mut counting = Counting::new(
                state.version().partitions(CfId::DEFAULT),
                writes.then_some(SeqNo(3)),
            );
            keys.iter()
                .for_each(|(key, stays)| counting.meet(key, SeqNo(4), *stays));
            if !keys.is_empty() {
                // What was written before, and is merged with it.
                counting.meet(keys[0].0, SeqNo(3), true);
            }
            let all = counting.into_counts();
            let shown = |(id, c): &(PartitionId, Counts)| (id.0, c.writes, c.updates);
            all.iter().map(shown).collect::<Vec<_>>()
        };
        let keys: [(&[u8], bool); 6] = [
            (b"a", true),
            (b"a", false),
            (b"d", true),
            (b"lzz", false),
            (b"m", true),
            (b"zz", true),
        ];
        assert_eq!(
            counted(true, &keys),
            [(0, 2.0, 1.0), (1, 2.0, 1.0), (2, 2.0, 0.0)]
        );
        assert_eq!(counted(false, &keys), [(0, 0.0, 1.0), (1, 0.0, 1.0)]);
        assert_eq!(counted(true, &keys[4..]), [(2, 2.0, 0.0)]);
        assert_eq!(counted(true, &[]), []);
    }
}
