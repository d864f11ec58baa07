//! Random edits, possible and impossible, against a model that is written differently: plain lists
//! and flags, no maps by id, no shortcuts.

use proptest::prelude::*;
use thermocline_base::{CfId, ErrorKind, Steps};
use thermocline_env::Storage;
use thermocline_testkit::explore::explored;
use thermocline_version::{Change, Manifest, NextIds, PartitionId, State, VersionEdit, format};

use crate::common::{created, dir, fresh, storage};
use crate::pm_tables;
use crate::tables::{self, ModelTables};

#[derive(Clone, Default)]
pub struct Model {
    families: Vec<(u16, String, bool)>,
    /// Every change of options, newest last.
    options: Vec<(u16, Vec<(String, String)>)>,
    memtables: Vec<(u64, bool)>,
    chains: Vec<ModelChain>,
    /// What `NextIds` has set, apart from what was used.
    reserved: NextIds,
    pub tables: ModelTables,
    /// Family, id and start of each.
    partitions: Vec<(u16, u32, Vec<u8>)>,
}

#[derive(Clone)]
struct ModelChain {
    id: u64,
    memtable: u64,
    incarnation: u32,
    base: u64,
    cut: Option<u64>,
    staged: bool,
}

impl Model {
    fn next(&self) -> NextIds {
        let after = |ids: &mut dyn Iterator<Item = u64>| ids.map(|id| id + 1).max().unwrap_or(0);
        let r = self.reserved;
        let cf = after(&mut self.families.iter().map(|f| u64::from(f.0)));
        let incarnation = after(&mut self.chains.iter().map(|c| u64::from(c.incarnation)));
        NextIds {
            chain: r.chain.max(after(&mut self.chains.iter().map(|c| c.id))),
            memtable: r
                .memtable
                .max(after(&mut self.memtables.iter().map(|m| m.0))),
            cf: r.cf.max(u32::try_from(cf).unwrap()),
            incarnation: r.incarnation.max(u32::try_from(incarnation).unwrap()),
            file: r.file,
        }
    }

    fn alive(&self, memtable: u64) -> bool {
        self.memtables.contains(&(memtable, true))
    }

    /// Applies a change; `None` if it cannot be.
    fn apply(mut self, change: &Change) -> Option<Model> {
        let next = self.next();
        let possible = match change {
            Change::Created { .. } => false,
            Change::Options(_) => true,
            Change::ColumnFamilyCreated { id, name } => {
                let taken = self
                    .families
                    .iter()
                    .any(|(_, n, alive)| *alive && n == name);
                self.families.push((*id, name.clone(), true));
                u32::from(*id) >= next.cf && !taken
            }
            Change::ColumnFamilyDropped { id } => {
                let found = self.families.iter_mut().find(|f| f.0 == *id && f.2);
                let found = found.filter(|_| *id != 0).map(|f| f.2 = false);
                self.partitions.retain(|p| p.0 != *id);
                found.is_some() && self.tables.apply(change, &[], 0)
            }
            Change::ColumnFamilyOptions { id, options } => {
                self.options.push((*id, options.clone()));
                self.families.iter().any(|f| f.0 == *id && f.2)
            }
            Change::MemtableCreated { id } => {
                self.memtables.push((*id, true));
                *id >= next.memtable
            }
            Change::MemtableDropped { id } => self.drop_memtable(*id),
            Change::ChainOpened {
                chain,
                memtable,
                incarnation,
                base_seqno,
                ..
            } => {
                let alive = self.alive(*memtable);
                let of = |c: &ModelChain| c.memtable == *memtable && c.staged;
                let complete = self.chains.iter().any(of);
                self.chains.push(ModelChain {
                    id: *chain,
                    memtable: *memtable,
                    incarnation: *incarnation,
                    base: *base_seqno,
                    cut: None,
                    staged: false,
                });
                alive && !complete && *chain >= next.chain && incarnation + 1 >= next.incarnation
            }
            Change::ChainAdopted {
                chain,
                memtable,
                incarnation,
                base_seqno,
                last_seqno,
                ..
            } => {
                let alive = |c: &&ModelChain| self.alive(c.memtable);
                let newest = self.chains.iter().rfind(alive);
                let follows = newest.is_none_or(|c| c.cut.is_some_and(|cut| *base_seqno > cut));
                let mut there = self.chains.iter().filter(alive);
                let possible = self.alive(*memtable)
                    && there.all(|c| c.id != *chain && c.memtable < *memtable)
                    && self
                        .tables
                        .pm
                        .iter()
                        .all(|table| table.meta.owner != *chain)
                    && follows
                    && *base_seqno > 0
                    && *last_seqno >= *base_seqno
                    && incarnation + 1 >= next.incarnation;
                self.chains.push(ModelChain {
                    id: *chain,
                    memtable: *memtable,
                    incarnation: *incarnation,
                    base: *base_seqno,
                    cut: Some(*last_seqno),
                    staged: true,
                });
                possible
            }
            Change::ChainCut {
                chain, last_seqno, ..
            } => self.cut(*chain, *last_seqno),
            Change::NextIds(to) => {
                self.reserved = *to;
                to.chain >= next.chain
                    && to.memtable >= next.memtable
                    && to.cf >= next.cf
                    && to.cf <= 65_536
                    && to.incarnation >= next.incarnation
                    && to.file >= next.file
            }
            Change::FilesInherited { .. }
            | Change::FlushedUpTo { .. }
            | Change::Evacuated { .. }
            | Change::LongValues
            | Change::PreparedTransactions
            | Change::WriteTimes(_)
            | Change::PartitionRates(_)
            | Change::JobDone(_) => unreachable!("not drawn"),
            Change::PmTableAdded { table } => {
                let alive = |c: &ModelChain| self.alive(c.memtable) && c.id == table.meta.owner;
                let owns = table.meta.owner < next.chain && !self.chains.iter().any(alive);
                owns && self.tables.apply(change, &[], next.file)
            }
            Change::PmTableRemoved { .. } => self.tables.apply(change, &[], next.file),
            Change::PartitionCreated {
                cf,
                partition,
                start,
            } => {
                let mut of_family = self.partitions.iter().filter(|p| p.0 == cf.0);
                let free = of_family.all(|p| p.1 != partition.0 && *p.2 != **start);
                self.partitions.push((cf.0, partition.0, start.to_vec()));
                let alive = self.families.iter().any(|f| f.0 == cf.0 && f.2);
                alive && free && partition.0 != 0 && !start.is_empty()
            }
            Change::PartitionRemoved {
                cf,
                partition,
                start,
            } => {
                let before = self.partitions.len();
                let gone = (cf.0, partition.0, start.to_vec());
                self.partitions.retain(|p| *p != gone);
                self.partitions.len() < before
            }
            Change::TableAdded { .. }
            | Change::TableRemoved { .. }
            | Change::BlobFileAdded { .. }
            | Change::BlobValues { .. }
            | Change::BlobFileRemoved { .. } => {
                let families = self.families.iter().filter(|f| f.2);
                let families: Vec<u16> = families.map(|f| f.0).collect();
                self.tables.apply(change, &families, next.file)
            }
        };
        possible.then_some(self)
    }

    fn drop_memtable(&mut self, id: u64) -> bool {
        let Some(at) = self.memtables.iter().position(|m| *m == (id, true)) else {
            return false;
        };
        self.memtables[at].1 = false;
        let alive: Vec<bool> = self.chains.iter().map(|c| self.alive(c.memtable)).collect();
        // Each survivor directly behind a chain that goes now.
        let older = self.chains.clone();
        let pairs = older.iter().zip(self.chains.iter_mut().zip(alive).skip(1));
        for (before, (chain, alive)) in pairs {
            if before.memtable == id && alive && chain.base == 0 {
                match before.cut {
                    Some(cut) => chain.base = cut + 1,
                    None => return false,
                }
            }
        }
        // An adopted chain begins behind the end of the one before it, whichever that is.
        let alive = |c: &&ModelChain| self.alive(c.memtable);
        let chains: Vec<_> = self.chains.iter().filter(alive).collect();
        let follows = |a: &ModelChain, b: &ModelChain| a.cut.is_some_and(|cut| b.base > cut);
        let mut pairs = chains.windows(2);
        pairs.all(|two| !two[1].staged || follows(two[0], two[1]))
    }

    fn cut(&mut self, id: u64, last: u64) -> bool {
        // An adopted chain may have the id of one that is gone, if nobody reserved it.
        let Some(at) = self.chains.iter().rposition(|c| c.id == id) else {
            return false;
        };
        let alive: Vec<bool> = self.chains.iter().map(|c| self.alive(c.memtable)).collect();
        let before = at
            .checked_sub(1)
            .map(|i| self.chains[i].cut.filter(|_| alive[i]));
        let least = match self.chains[at].base {
            0 => before.flatten().unwrap_or(0),
            base => base - 1,
        };
        let most = self.chains.get(at + 1).filter(|c| c.base == 0);
        let most = most.and_then(|c| c.cut).unwrap_or(u64::MAX - 1);
        let possible = alive[at] && self.chains[at].cut.is_none() && last >= least && last <= most;
        self.chains[at].cut = Some(last);
        possible
    }

    fn agrees(&self, state: &State) -> bool {
        let families: Vec<_> = self.families.iter().filter(|f| f.2).collect();
        let families = families.iter().map(|f| (f.0, f.1.clone()));
        let chains: Vec<_> = self
            .chains
            .iter()
            .filter(|c| self.alive(c.memtable))
            .collect();
        let chains = chains
            .iter()
            .map(|c| (c.memtable, c.id, c.incarnation, c.base, c.cut, c.staged));
        let got = state.chains().map(|(memtable, c)| {
            let cut = c.cut.map(|cut| cut.last_seqno);
            (memtable, c.id, c.incarnation, c.base_seqno, cut, c.staged)
        });
        let alive = self.memtables.iter().filter(|m| m.1).map(|m| m.0);
        let named = state
            .families()
            .iter()
            .map(|(id, name)| (*id, name.clone()));
        let options = self.families.iter().filter(|f| f.2).all(|f| {
            let newest = self.options.iter().rfind(|(id, _)| *id == f.0);
            newest.map_or(&[][..], |(_, options)| options) == state.family_options(f.0)
        });
        let divided = state.version().divided().flat_map(|(cf, partitions)| {
            let all = partitions.iter().skip(1);
            all.map(move |p| (cf.0, p.start.to_vec(), p.id.0))
        });
        let mut partitions: Vec<_> = self.partitions.iter().collect();
        partitions.sort_by_key(|p| (p.0, &p.2));
        let partitions = partitions.iter().map(|p| (p.0, p.2.clone(), p.1));
        families.eq(named)
            && partitions.eq(divided)
            && options
            && chains.eq(got)
            && alive.eq(state.memtables().keys().copied())
            && self.next() == state.next_ids()
    }
}

/// Small numbers, so that collisions are common.
fn change() -> impl Strategy<Value = Change> {
    let name = "[ab]{1,2}";
    prop_oneof![
        1 => Just(created().changes[0].clone()),
        2 => prop::collection::vec((name, name), 0..3).prop_map(Change::Options),
        6 => (0u16..20, name).prop_map(|(id, name)| Change::ColumnFamilyCreated { id, name }),
        3 => (0u16..20).prop_map(|id| Change::ColumnFamilyDropped { id }),
        3 => (0u16..20, prop::collection::vec((name, name), 0..2))
            .prop_map(|(id, options)| Change::ColumnFamilyOptions { id, options }),
        8 => (0u64..20).prop_map(|id| Change::MemtableCreated { id }),
        4 => (0u64..20).prop_map(|id| Change::MemtableDropped { id }),
        14 => (0u64..30, 0u64..20, 0u32..6, 0u64..3, any::<(u64, Option<u64>)>()).prop_map(
            |(chain, memtable, incarnation, base_seqno, (nonce, start))| Change::ChainOpened {
                chain,
                memtable,
                incarnation,
                nonce,
                base_seqno,
                start,
            }
        ),
        8 => (0u64..30, 0u64..6, any::<u64>()).prop_map(|(chain, last_seqno, end)| {
            Change::ChainCut {
                chain,
                last_seqno,
                end,
            }
        }),
        5 => (0u64..30, 0u64..20, 0u32..6, 0u64..8, (0u64..4, any::<u64>())).prop_map(
            |(chain, memtable, incarnation, base_seqno, (records, end))| Change::ChainAdopted {
                chain,
                memtable,
                incarnation,
                nonce: end ^ chain,
                base_seqno,
                last_seqno: (base_seqno + records).saturating_sub(1),
                end,
            }
        ),
        1 => (0u64..30, 0u64..20, 0u32..20, 0u32..6, 0u64..14).prop_map(
            |(chain, memtable, cf, incarnation, file)| {
                Change::NextIds(NextIds {
                    chain,
                    memtable,
                    cf,
                    incarnation,
                    file,
                })
            }
        ),
        8 => (0u16..3, 0u32..5, "[ab]{0,2}").prop_map(|(cf, id, start)| {
            Change::PartitionCreated {
                cf: CfId(cf),
                partition: PartitionId(id),
                start: start.as_bytes().into(),
            }
        }),
        4 => (0u16..3, 0u32..5, "[ab]{0,2}").prop_map(|(cf, id, start)| {
            Change::PartitionRemoved {
                cf: CfId(cf),
                partition: PartitionId(id),
                start: start.as_bytes().into(),
            }
        }),
        10 => tables::change(),
        2 => pm_tables::change(),
    ]
}

fn edits() -> impl Strategy<Value = Vec<VersionEdit>> {
    let edit = prop::collection::vec(change(), 1..3);
    prop::collection::vec(edit.prop_map(|changes| VersionEdit { changes }), 1..60)
}

/// A third of so many cases, or in a plain run a tenth of them.
pub fn config(cases: u32) -> ProptestConfig {
    let cases = explored(u64::from(cases / 10), u64::from(cases / 3));
    ProptestConfig {
        cases: u32::try_from(cases).unwrap_or(u32::MAX),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// The database as it was created, with eight ids of files.
pub fn begun() -> (VersionEdit, Model) {
    let reserved = NextIds {
        cf: 1,
        file: 8,
        chain: 6,
        ..NextIds::default()
    };
    let mut model = Model::default();
    model.families.push((0, "default".into(), true));
    model.reserved = reserved;
    (created().with(Change::NextIds(reserved)), model)
}

/// Applies the edit to the state and to the model, which must agree.
pub fn apply(
    state: &mut State,
    model: &mut Model,
    edit: &VersionEdit,
) -> Result<bool, TestCaseError> {
    let decoded = format::decode_edit(&format::encode_edit(edit)).unwrap();
    prop_assert_eq!(&decoded, edit);
    let before = state.clone();
    let expected = edit.changes.iter().try_fold(model.clone(), Model::apply);
    // Only debug builds ask for the law of age.
    let aged = |after: &Model| after.tables.kept_age(&model.tables, edit);
    let expected = expected.filter(|after| !cfg!(debug_assertions) || aged(after));
    let answer = state.apply(edit);
    prop_assert_eq!(
        answer.is_ok(),
        expected.is_some(),
        "{:?}: {:?}",
        edit,
        answer
    );
    match expected {
        Some(next) => *model = next,
        None => prop_assert_eq!(&*state, &before),
    }
    prop_assert!(model.agrees(state), "{:?}", edit);
    Ok(answer.is_ok())
}

pub fn check_snapshot(state: &State) -> Result<(), TestCaseError> {
    let mut again = State::default();
    for part in state.snapshot() {
        again.apply(&part).unwrap();
    }
    prop_assert_eq!(&again, state);
    Ok(())
}

proptest! {
    #![proptest_config(config(1500))]

    #[test]
    fn the_state_takes_and_refuses_what_the_model_does(edits in edits()) {
        let mut state = State::default();
        let (first, mut model) = begun();
        state.apply(&first).unwrap();
        for edit in &edits {
            apply(&mut state, &mut model, edit)?;
            model.tables.check(state.version())?;
            check_snapshot(&state)?;
        }
    }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn the_manifest_keeps_every_edit_that_it_took(edits in edits(), bytes_max in 300u64..3000) {
        let fs = fresh();
        let mut manifest = Manifest::create(storage(&fs), dir(), &begun().0).unwrap();
        manifest.set_bytes_max(bytes_max);
        let mut state = manifest.state().clone();
        for (n, edit) in edits.iter().enumerate() {
            match state.apply(edit) {
                Ok(()) => manifest.append(edit).unwrap(),
                Err(_) => {
                    let error = manifest.append(edit).unwrap_err();
                    prop_assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                }
            }
            prop_assert_eq!(manifest.state(), &state);
            if n % 8 == 7 {
                let cut = fs.image_none(Steps::new());
                let (_, read) = Manifest::open(storage(&cut), dir(), true).unwrap();
                prop_assert_eq!(&read, &state);
                drop(manifest);
                let opened = Manifest::open(storage(&fs), dir(), false).unwrap();
                prop_assert_eq!(&opened.1, &state);
                manifest = opened.0;
                manifest.set_bytes_max(bytes_max);
            }
        }
        // Two names: the log and CURRENT.
        prop_assert_eq!(fs.list(dir()).unwrap().len(), 2);
    }
}
