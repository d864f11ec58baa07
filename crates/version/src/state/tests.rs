use super::*;
use crate::edit::StoredRate;
use crate::format;
use crate::job_done::{JOBS_KEPT, JobDone};
use crate::table::PartitionId;
use crate::write_times::WriteTime;
use thermocline_base::{SeqNo, limits};

fn created() -> Change {
    Change::Created {
        db_id: [1; 16],
        region_id: [2; 16],
    }
}

fn family(id: u16, name: &str) -> Change {
    Change::ColumnFamilyCreated {
        id,
        name: name.into(),
    }
}

fn family_options(id: u16, options: &[(&str, &str)]) -> Change {
    let own = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    Change::ColumnFamilyOptions {
        id,
        options: options.iter().map(own).collect(),
    }
}

fn chain(chain: u64, memtable: u64, incarnation: u32, base_seqno: u64) -> Change {
    Change::ChainOpened {
        chain,
        memtable,
        incarnation,
        nonce: 9,
        base_seqno,
        start: None,
    }
}

fn cut(chain: u64, last_seqno: u64) -> Change {
    Change::ChainCut {
        chain,
        last_seqno,
        end: 77,
    }
}

fn next(chain: u64, memtable: u64, cf: u32, incarnation: u32) -> Change {
    Change::NextIds(NextIds {
        chain,
        memtable,
        cf,
        incarnation,
        file: 0,
    })
}

/// As [`example`] has them, but for files.
fn next_file(file: u64) -> Change {
    Change::NextIds(NextIds {
        chain: 13,
        memtable: 5,
        cf: 6,
        incarnation: 3,
        file,
    })
}

fn after(changes: &[Change]) -> State {
    let mut state = State::default();
    for change in changes {
        state.apply(&change.clone().into()).unwrap();
    }
    state
}

/// Families 0 and 5, memtables 3 and 4, chains 10 (cut at 100) and 11 in 3, 12 in 4.
fn example() -> State {
    after(&[
        created(),
        family(0, "default"),
        family(3, "gone"),
        family(5, "orders"),
        Change::ColumnFamilyDropped { id: 3 },
        Change::MemtableCreated { id: 3 },
        chain(10, 3, 1, 1),
        cut(10, 100),
        chain(11, 3, 2, 0),
        Change::MemtableCreated { id: 4 },
        chain(12, 4, 2, 0),
    ])
}

#[test]
fn the_state_is_the_sum_of_the_edits() {
    let state = example();
    assert_eq!(state.db_id(), Some([1; 16]));
    assert_eq!(state.region_id(), Some([2; 16]));
    let families: Vec<_> = state.families().iter().collect();
    assert_eq!(
        families,
        [(&0, &"default".to_string()), (&5, &"orders".to_string())]
    );
    assert_eq!(state.family_id("orders"), Some(5));
    assert_eq!(state.family_id("gone"), None);
    let chains: Vec<_> = state.chains().map(|(m, c)| (m, c.id, c.cut)).collect();
    let end = Some(Cut {
        last_seqno: 100,
        end: 77,
    });
    assert_eq!(chains, [(3, 10, end), (3, 11, None), (4, 12, None)]);
    let expected = NextIds {
        chain: 13,
        memtable: 5,
        cf: 6,
        incarnation: 3,
        file: 0,
    };
    assert_eq!(state.next_ids(), expected);
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let cases: Vec<(&str, Change)> = vec![
        ("creation", created()),
        ("column family id", family(5, "other")),
        ("column family id", family(3, "dropped before")),
        ("column family's name", family(6, "orders")),
        ("column family id", family(u16::MAX, "the engine's own")),
        ("column family with options", family_options(3, &[])),
        (
            "column family with options",
            family_options(6, &[("a", "")]),
        ),
        (
            "length of a column family's name",
            family(6, &"x".repeat(256)),
        ),
        (
            "dropped column family",
            Change::ColumnFamilyDropped { id: 3 },
        ),
        (
            "dropped column family",
            Change::ColumnFamilyDropped { id: 0 },
        ),
        ("memtable id", Change::MemtableCreated { id: 4 }),
        ("memtable id", Change::MemtableCreated { id: u64::MAX }),
        ("dropped memtable", Change::MemtableDropped { id: 2 }),
        ("dropped memtable", Change::MemtableDropped { id: 3 }),
        ("chain id", chain(12, 4, 2, 0)),
        ("chain id", chain(u64::MAX, 4, 2, 0)),
        ("memtable of a chain", chain(13, 5, 2, 0)),
        ("incarnation", chain(13, 4, 1, 0)),
        ("incarnation", chain(13, 4, u32::MAX, 0)),
        ("cut chain", cut(13, 5)),
        ("cut chain", cut(u64::MAX, 5)),
        ("cut of a chain", cut(10, 100)),
        ("last seqno of a chain", cut(11, 99)),
        ("last seqno of a chain", cut(11, u64::MAX)),
        ("next chain id", next(12, 5, 6, 3)),
        ("next memtable id", next(13, 4, 6, 3)),
        ("next column family id", next(13, 5, 5, 3)),
        ("next column family id", next(13, 5, 65_537, 3)),
        ("next incarnation", next(13, 5, 6, 2)),
        ("next chain id", next(1 << 63, 5, 6, 3)),
        ("next memtable id", next(13, u64::MAX, 6, 3)),
        ("next file id", next_file(1 << 63)),
        ("next file id", next_file(u64::MAX)),
        ("memtable id", Change::MemtableCreated { id: (1 << 63) - 1 }),
        ("chain id", chain((1 << 63) - 1, 4, 2, 0)),
    ];
    let state = example();
    for (what, change) in cases {
        let mut touched = state.clone();
        // Behind a change that can be, so that half an edit would show.
        let edit = VersionEdit::from(Change::Options(vec![("a".into(), "b".into())]));
        let error = touched.apply(&edit.with(change.clone())).unwrap_err();
        let text = error.to_string();
        let begins = format!("corruption in the manifest at offset 0: {what} (");
        assert!(text.starts_with(&begins), "{change:?}: {text}");
        assert_eq!(touched, state, "{change:?}");
    }
    let mut empty = State::default();
    assert!(empty.apply(&family(0, "default").into()).is_err());
}

#[test]
fn used_ids_stay_used_after_a_snapshot() {
    let mut state = example();
    for change in [
        cut(11, 200),
        Change::ColumnFamilyDropped { id: 5 },
        Change::MemtableDropped { id: 3 },
        cut(12, 300),
        Change::MemtableDropped { id: 4 },
    ] {
        state.apply(&change.into()).unwrap();
    }
    let mut again = State::default();
    for edit in state.snapshot() {
        again.apply(&edit).unwrap();
    }
    assert_eq!(again, state);
    for reuse in [
        family(5, "orders"),
        Change::MemtableCreated { id: 4 },
        chain(12, 4, 2, 0),
    ] {
        assert!(again.apply(&reuse.into()).is_err());
    }
}

#[test]
fn options_are_the_familys_and_go_with_it() {
    let mut state = example();
    let reverse = [("reverse".to_string(), "true".to_string())];
    assert_eq!(state.family_options(5), []);
    let edit = VersionEdit::from(family(6, "late"))
        .with(family_options(6, &[("reverse", "false"), ("a", "b")]))
        .with(family_options(6, &[("reverse", "true")]));
    state.apply(&edit).unwrap();
    assert_eq!(state.family_options(6), reverse);
    assert_eq!(state.family_options(5), []);
    let again = |state: &State| {
        let mut again = State::default();
        for edit in state.snapshot() {
            again.apply(&edit).unwrap();
        }
        again
    };
    assert_eq!(again(&state), state);
    let mut cleared = state.clone();
    cleared.apply(&family_options(6, &[]).into()).unwrap();
    assert_eq!(cleared.family_options(6), []);
    assert_eq!(again(&cleared), cleared);
    // Another family of that name begins anew.
    let edit = VersionEdit::from(Change::ColumnFamilyDropped { id: 6 }).with(family(7, "late"));
    state.apply(&edit).unwrap();
    assert_eq!(state.family_options(6), []);
    assert_eq!(state.family_options(7), []);
    assert_eq!(again(&state), state);
}

/// Names and options of families are the same memory before and after an edit that is of none, and an edit copies them once.
#[test]
fn families_are_copied_when_one_changes_and_once() {
    let mut state = example();
    let at = |state: &State| Arc::as_ptr(&state.families);
    let before = state.clone();
    for change in [
        Change::Options(vec![("a".into(), "b".into())]),
        Change::MemtableCreated { id: 5 },
        chain(13, 5, 2, 0),
        next(14, 6, 6, 3),
        Change::FlushedUpTo { seqno: 7 },
    ] {
        state.apply(&change.into()).unwrap();
        assert_eq!(at(&state), at(&before));
    }
    let copy = state.copied(state.version().clone(), vec![], [3; 16], [4; 16]);
    assert_eq!(at(&copy.unwrap()), at(&before));
    for (first, more) in [
        (family(6, "late"), family_options(6, &[("reverse", "true")])),
        (family_options(5, &[("a", "b")]), family(6, "late")),
        (Change::ColumnFamilyDropped { id: 5 }, family(6, "orders")),
    ] {
        let mut after = state.clone();
        after.apply_in_place(&first.into()).unwrap();
        let copied = at(&after);
        assert_ne!(copied, at(&state));
        after.apply_in_place(&more.into()).unwrap();
        assert_eq!(at(&after), copied);
        assert_eq!(state.families, before.families);
    }
}

#[test]
fn the_last_jobs_are_in_a_snapshot() {
    let mut state = example();
    let job = |n| {
        Change::JobDone(Arc::new(JobDone {
            work: "flush".into(),
            inputs: n,
            ..JobDone::default()
        }))
    };
    for n in 0..2 * JOBS_KEPT as u64 {
        state.apply_in_place(&job(n).into()).unwrap();
    }
    let kept: Vec<u64> = state.jobs_done().iter().map(|job| job.inputs).collect();
    assert_eq!(kept.len(), JOBS_KEPT);
    assert_eq!(kept.last(), Some(&(2 * JOBS_KEPT as u64 - 1)));
    let mut again = State::default();
    for edit in state.snapshot() {
        again.apply(&edit).unwrap();
    }
    assert_eq!(again, state);
}

#[test]
fn a_chain_inherits_where_the_one_before_it_ended() {
    let mut state = example();
    let edit = VersionEdit::from(cut(11, 250)).with(Change::MemtableDropped { id: 3 });
    state.apply(&edit).unwrap();
    let chains: Vec<_> = state.chains().map(|(_, c)| (c.id, c.base_seqno)).collect();
    assert_eq!(chains, [(12, 251)]);
    // Nobody follows the last chain.
    state
        .apply(&Change::MemtableDropped { id: 4 }.into())
        .unwrap();
    assert_eq!(state.chains().count(), 0);
}

#[test]
fn a_large_state_takes_several_records_each_within_the_limit() {
    let mut state = example();
    for id in 6..3000 {
        let name = format!("{id}-{}", "x".repeat(200));
        let edit = VersionEdit::from(family(id, &name));
        state.apply_in_place(&edit).unwrap();
    }
    let snapshot: Vec<_> = state.snapshot().collect();
    assert!(snapshot.len() > 2);
    let mut again = State::default();
    for edit in snapshot {
        let len = format::encode_edit(&edit).len();
        assert!((1..=format::SNAPSHOT_EDIT_LEN).contains(&len));
        again.apply_in_place(&edit).unwrap();
    }
    assert_eq!(again, state);
    assert!(State::default().snapshot().next().is_none());
}

fn adopted(chain: u64, memtable: u64, base_seqno: u64, last_seqno: u64) -> Change {
    Change::ChainAdopted {
        chain,
        memtable,
        incarnation: 1,
        nonce: 9,
        base_seqno,
        last_seqno,
        end: 77,
    }
}

/// Two batches are staged; the one whose chain was reserved last is committed first.
fn with_staged() -> State {
    after(&[
        created(),
        Change::MemtableCreated { id: 1 },
        chain(1, 1, 1, 1),
        next(4, 2, 0, 2),
        Change::MemtableCreated { id: 2 },
        cut(1, 10),
        adopted(3, 2, 11, 20),
        Change::MemtableCreated { id: 3 },
        chain(4, 3, 1, 0),
        cut(4, 30),
        Change::MemtableCreated { id: 4 },
        adopted(2, 4, 31, 40),
        Change::MemtableCreated { id: 5 },
        chain(5, 5, 1, 0),
    ])
}

#[test]
fn an_adopted_chain_follows_those_before_it_whatever_its_id_is() {
    let state = with_staged();
    let order = |state: &State| -> Vec<(u64, u64, u64)> {
        let chains = state.chains();
        chains.map(|(m, c)| (m, c.id, c.base_seqno)).collect()
    };
    let all = [(1, 1, 1), (2, 3, 11), (3, 4, 0), (4, 2, 31), (5, 5, 0)];
    assert_eq!(order(&state), all);
    assert!(state.memtables()[&2].is_staged() && !state.memtables()[&3].is_staged());
    let ids = state.next_ids();
    assert_eq!((ids.chain, ids.memtable), (6, 6));
    // A switch of the manifest keeps all of it.
    let again = {
        let mut again = State::default();
        let mut edits = state.snapshot();
        edits
            .all(|edit| again.apply(&edit).is_ok())
            .then_some(())
            .unwrap();
        again
    };
    assert_eq!(again, state);
    // Whoever followed a chain that goes begins behind its cut.
    let mut state = state;
    for id in [2, 4] {
        let dropped = Change::MemtableDropped { id };
        state.apply(&dropped.into()).unwrap();
    }
    assert_eq!(order(&state), [(1, 1, 1), (3, 4, 21), (5, 5, 41)]);
}

#[test]
fn an_adoption_that_cannot_be_is_refused() {
    let before = |changes: &[Change]| {
        let mut state = with_staged();
        for change in changes {
            state.apply(&change.clone().into()).unwrap();
        }
        state
    };
    let cut5 = [cut(5, 50), Change::MemtableCreated { id: 6 }];
    let cases: &[(&[Change], Change, &str)] = &[
        // The chain before has no cut.
        (&cut5[1..], adopted(6, 6, 51, 60), "first seqno"),
        (&cut5, adopted(6, 6, 50, 60), "first seqno"),
        (&cut5, adopted(6, 6, 0, 60), "first seqno"),
        (&cut5, adopted(6, 6, 51, 50), "last seqno"),
        (&cut5, adopted(6, 6, 51, u64::MAX), "last seqno"),
        (&cut5, adopted(5, 6, 51, 60), "chain id"),
        (&cut5, adopted(6, 7, 51, 60), "memtable"),
        // One that has a chain, or an older one.
        (&cut5, adopted(6, 5, 51, 60), "memtable"),
        // A chain behind a batch in its memtable.
        (&[], chain(6, 4, 1, 0), "memtable"),
    ];
    for (first, change, what) in cases {
        let mut state = before(first);
        let same = state.clone();
        let error = state.apply(&change.clone().into()).unwrap_err();
        assert!(format!("{error:?}").contains(what), "{change:?}: {error:?}");
        assert_eq!(state, same, "{change:?}");
    }
    before(&cut5).apply(&adopted(6, 6, 51, 60).into()).unwrap();
}

/// Else the manifest could not be read any more behind its next switch, which writes a snapshot.
#[test]
fn an_adopted_chain_comes_to_stand_behind_none_that_may_reach_over_it() {
    let dropped = Change::MemtableDropped { id: 2 };
    let with = |first: &[Change]| {
        let mut changes = vec![
            created(),
            Change::MemtableCreated { id: 1 },
            Change::MemtableCreated { id: 2 },
            Change::MemtableCreated { id: 3 },
        ];
        changes.extend_from_slice(first);
        changes.extend([cut(2, 20), adopted(3, 3, 21, 30)]);
        after(&changes)
    };
    // The first chain has no end, or one behind the beginning of the adopted one.
    let open = with(&[chain(1, 1, 1, 1), chain(2, 2, 1, 0)]);
    let long = with(&[chain(1, 1, 1, 1), cut(1, 100), chain(2, 2, 1, 5)]);
    for mut state in [open, long] {
        let same = state.clone();
        let error = state.apply(&dropped.clone().into()).unwrap_err();
        assert!(format!("{error:?}").contains("first seqno"), "{error:?}");
        assert_eq!(state, same);
    }
    let mut state = with(&[chain(1, 1, 1, 1), cut(1, 20), chain(2, 2, 1, 5)]);
    state.apply(&dropped.into()).unwrap();
    let mut again = State::default();
    state
        .snapshot()
        .for_each(|edit| again.apply(&edit).unwrap());
    assert_eq!(again, state);
}

/// Whether a later memtable has chains is known without a look at all later ones.
#[test]
fn adoptions_before_many_memtables_without_chains() {
    let many = 100_000;
    let mut state = after(&[created()]);
    for id in 1..=many {
        let created = Change::MemtableCreated { id };
        state.apply_in_place(&created.into()).unwrap();
    }
    for id in 1..=many {
        let adopts = adopted(id, id, 2 * id, 2 * id + 1);
        state.apply_in_place(&adopts.into()).unwrap();
    }
    assert_eq!(state.chains().count() as u64, many);
    // One that was dropped does not count any more.
    let newest = Change::MemtableDropped { id: many };
    state.apply_in_place(&newest.into()).unwrap();
    let other = Change::MemtableDropped { id: many - 2 };
    state.apply_in_place(&other.into()).unwrap();
    let created = Change::MemtableCreated { id: many + 1 };
    state.apply_in_place(&created.into()).unwrap();
    let adopts = adopted(many + 1, many + 1, 4 * many, 4 * many);
    state.apply_in_place(&adopts.into()).unwrap();
    assert_eq!(state.chains().count() as u64, many - 1);
}

/// A copy takes files over, knows whose they are, and is read back as it was.
#[test]
fn a_copy_knows_who_wrote_its_files() {
    let mut state = after(&[created(), family(0, "default"), family(3, "three")]);
    let ids = |file| {
        let ids = NextIds {
            file,
            chain: 9,
            memtable: 8,
            cf: 4,
            incarnation: 7,
        };
        VersionEdit::from(Change::NextIds(ids))
    };
    state.apply(&ids(5)).unwrap();
    state
        .apply(&Change::MemtableCreated { id: 8 }.into())
        .unwrap();
    let file = FileId(4);
    state
        .apply(&Change::BlobFileAdded { file, bytes: 1 }.into())
        .unwrap();
    let done = Change::JobDone(Arc::default());
    state.apply(&done.into()).unwrap();
    let options = vec![("a".to_string(), "b".to_string())];
    let of = |from: &State, id: u8| {
        let version = from.version().clone();
        from.copied(version, options.clone(), [id; 16], [id + 1; 16])
    };
    assert!(of(&state, 1).is_err(), "its own id");
    let mut copy = of(&state, 3).unwrap();
    assert_eq!(
        (copy.db_id(), copy.region_id()),
        (Some([3; 16]), Some([4; 16]))
    );
    assert!(copy.memtables().is_empty() && copy.chains().next().is_none());
    assert_eq!(copy.families(), state.families());
    assert_eq!(
        (copy.next_ids(), copy.options()),
        (state.next_ids(), &options[..])
    );
    assert_eq!(copy.version(), state.version());
    assert_eq!(copy.jobs_done().iter().count(), 1);
    // A copy that makes no file, and one of it that does.
    let other = of(&copy, 5).unwrap();
    let whose = |state: &State, file| state.origins().unwrap().of(FileId(file))[0];
    assert_eq!([whose(&other, 4), whose(&other, 5)], [1, 5]);
    let more = NextIds {
        file: 7,
        ..copy.next_ids()
    };
    copy.apply(&Change::NextIds(more).into()).unwrap();
    let third = of(&copy, 6).unwrap();
    assert_eq!([4, 5, 6, 7].map(|file| whose(&third, file)), [1, 3, 3, 6]);
    for state in [copy, other, third] {
        let mut again = State::default();
        state
            .snapshot()
            .for_each(|edit| again.apply(&edit).unwrap());
        assert_eq!(again, state);
    }
}

#[test]
fn bounds_of_inherited_files_ascend_and_come_first() {
    let inherited = |below, id| Change::FilesInherited {
        below,
        db_id: [id; 16],
    };
    let refused = |changes: &[Change]| {
        let mut state = after(&[created()]);
        let ids = NextIds {
            file: 9,
            ..state.next_ids()
        };
        state.apply(&Change::NextIds(ids).into()).unwrap();
        let edit = VersionEdit {
            changes: changes.to_vec(),
        };
        state.apply(&edit).is_err()
    };
    assert!(!refused(&[inherited(1, 7), inherited(9, 8)]));
    assert!(refused(&[inherited(0, 7)]));
    assert!(refused(&[inherited(10, 7)]), "ids that are not reserved");
    assert!(refused(&[inherited(5, 7), inherited(5, 8)]));
    assert!(refused(&[inherited(5, 1)]), "the database itself");
    let file = FileId(1);
    assert!(refused(&[
        Change::BlobFileAdded { file, bytes: 1 },
        inherited(5, 7)
    ]));
}

#[test]
fn what_is_flushed_is_kept_and_never_goes_back() {
    let mut state = after(&[created()]);
    let flushed = |seqno| VersionEdit::from(Change::FlushedUpTo { seqno });
    state.apply(&flushed(7)).unwrap();
    state.apply(&flushed(7)).unwrap();
    assert!(state.apply(&flushed(6)).is_err());
    assert!(state.apply(&flushed(1 << 63)).is_err());
    let mut again = State::default();
    state
        .snapshot()
        .for_each(|edit| again.apply(&edit).unwrap());
    assert_eq!((again.flushed_up_to(), &again), (7, &state));
    let mut bytes = Vec::new();
    format::encode_change(&Change::FlushedUpTo { seqno: 7 }, &mut bytes);
    assert_eq!(bytes, [0x93, 8, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn an_evacuation_goes_forward_and_ends() {
    let mut state = after(&[created(), Change::FlushedUpTo { seqno: 4 }]);
    let evacuated = |above, up_to, cf, key: &[u8]| Change::Evacuated {
        above,
        up_to,
        cf: CfId(cf),
        key: key.into(),
    };
    let refused = |state: &State, change: Change| state.clone().apply(&change.into()).is_err();
    for wrong in [
        evacuated(3, 9, 0, b"m"),
        evacuated(9, 9, 0, b"m"),
        evacuated(4, 1 << 63, 0, b"m"),
        evacuated(4, 9, 0, &[0; limits::KEY_LEN_MAX + 1]),
    ] {
        assert!(refused(&state, wrong));
    }
    assert_eq!(state.evacuation(), None);
    for (cf, key) in [(0, &b"m"[..]), (0, b"m\0"), (3, b"")] {
        let further = evacuated(4, 9, cf, key);
        state.apply(&further.clone().into()).unwrap();
        assert!(refused(&state, further), "not further than before");
        let reached = state.evacuation().unwrap();
        assert_eq!((reached.cf.0, &*reached.key), (cf, key));
    }
    assert!(refused(&state, evacuated(4, 10, 7, b"")), "others");
    assert!(refused(&state, evacuated(5, 9, 7, b"")), "others");
    assert!(
        refused(&state, Change::FlushedUpTo { seqno: 8 }),
        "not all of them"
    );
    let mut again = State::default();
    let snapshot = state.snapshot();
    snapshot.for_each(|edit| again.apply(&edit).unwrap());
    assert_eq!(again, state);
    // A copy has no memtables.
    let copy = state.copied(state.version().clone(), vec![], [9; 16], [8; 16]);
    assert_eq!(copy.unwrap().evacuation(), None);
    let ended = Change::FlushedUpTo { seqno: 9 };
    state.apply(&ended.into()).unwrap();
    assert_eq!((state.evacuation(), state.flushed_up_to()), (None, 9));
    state.apply(&evacuated(9, 11, 0, b"a").into()).unwrap();
}

/// The bytes, which are never to change.
#[test]
fn golden_of_evacuations() {
    let change = Change::Evacuated {
        above: 0x0102,
        up_to: 0x0304,
        cf: CfId(5),
        key: Box::from(*b"m\0"),
    };
    let mut bytes = Vec::new();
    format::encode_change(&change, &mut bytes);
    let body = b"\x02\x01\0\0\0\0\0\0\x04\x03\0\0\0\0\0\0\x05\0m\0";
    assert_eq!(bytes, [&[0x99, 20, 0, 0, 0][..], body].concat());
}

#[test]
fn that_values_may_be_long_is_never_forgotten_but_by_copies() {
    let mut state = after(&[created()]);
    assert!(!state.has_long_values());
    for _ in 0..2 {
        state.apply(&Change::LongValues.into()).unwrap();
    }
    let mut again = State::default();
    let snapshot = state.snapshot();
    snapshot.for_each(|edit| again.apply(&edit).unwrap());
    assert!(again.has_long_values() && again == state);
    // A copy has no records.
    let copy = state.copied(state.version().clone(), vec![], [9; 16], [8; 16]);
    assert!(!copy.unwrap().has_long_values());
    let mut bytes = Vec::new();
    format::encode_change(&Change::LongValues, &mut bytes);
    assert_eq!(bytes, [0x98, 0, 0, 0, 0]);
}

#[test]
fn that_transactions_may_be_prepared_is_never_forgotten() {
    let mut state = after(&[created()]);
    assert!(!state.may_have_prepared());
    state.apply(&Change::PreparedTransactions.into()).unwrap();
    let mut again = State::default();
    let snapshot = state.snapshot();
    snapshot.for_each(|edit| again.apply(&edit).unwrap());
    assert!(again.may_have_prepared() && again == state);
    let copy = state.copied(state.version().clone(), vec![], [9; 16], [8; 16]);
    assert!(copy.unwrap().may_have_prepared());
    let mut bytes = Vec::new();
    format::encode_change(&Change::PreparedTransactions, &mut bytes);
    assert_eq!(bytes, [0x9b, 0, 0, 0, 0]);
}

#[test]
fn write_times_are_kept_and_copied_and_rise() {
    let mut state = after(&[created()]);
    let times = |pairs: &[(u64, u64)]| {
        let pairs = pairs.iter().map(|&(seqno, unix_s)| WriteTime {
            seqno: SeqNo(seqno),
            unix_s,
        });
        VersionEdit::from(Change::WriteTimes(pairs.collect()))
    };
    state.apply(&times(&[(5, 100), (9, 110)])).unwrap();
    let before = state.clone();
    // All of an edit or nothing.
    state.apply(&times(&[(10, 120), (11, 120)])).unwrap_err();
    assert_eq!(state, before);
    state.apply(&times(&[(10, 120)])).unwrap();
    assert_eq!(state.write_times().pairs().len(), 3);
    let mut again = State::default();
    let snapshot = state.snapshot();
    snapshot.for_each(|edit| again.apply(&edit).unwrap());
    assert_eq!(again, state);
    let copy = state.copied(state.version().clone(), vec![], [9; 16], [8; 16]);
    assert_eq!(copy.unwrap().write_times(), state.write_times());
    // A full list, of which one has gone, is what it was.
    for n in 0..600 {
        state.apply(&times(&[(100 + n, 1000 + n * n)])).unwrap();
    }
    let mut again = State::default();
    let snapshot = state.snapshot();
    snapshot.for_each(|edit| again.apply(&edit).unwrap());
    assert_eq!(again, state);
}

/// The bytes, which are never to change.
#[test]
fn golden_of_write_times() {
    let time = WriteTime {
        seqno: SeqNo(0x0102),
        unix_s: 0x0304,
    };
    let mut bytes = Vec::new();
    format::encode_change(&Change::WriteTimes([time].into()), &mut bytes);
    let expected = [
        &[0x9c, 20, 0, 0, 0, 1, 0, 0, 0][..],
        &[2, 1, 0, 0, 0, 0, 0, 0, 4, 3, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(bytes, expected.concat());
}

/// The bytes, which are never to change.
#[test]
fn golden_of_values_in_blob_files() {
    let change = Change::BlobValues {
        file: FileId(0x0102),
        bytes: 0x0304,
    };
    let mut bytes = Vec::new();
    format::encode_change(&change, &mut bytes);
    let body = b"\x02\x01\0\0\0\0\0\0\x04\x03\0\0\0\0\0\0";
    assert_eq!(bytes, [&[0xb0, 16, 0, 0, 0][..], body].concat());
}

/// The bytes, which are never to change.
#[test]
fn golden_of_inherited_files() {
    let change = Change::FilesInherited {
        below: 0x0102,
        db_id: *b"0123456789abcdef",
    };
    let mut bytes = Vec::new();
    format::encode_change(&change, &mut bytes);
    let body = b"\x02\x01\0\0\0\0\0\x000123456789abcdef";
    assert_eq!(bytes, [&[0x92, 24, 0, 0, 0][..], body].concat());
}

#[test]
fn rates_are_those_of_partitions_that_exist() {
    let cf = CfId(0);
    let partition = |id: u32| Change::PartitionCreated {
        cf,
        partition: PartitionId(id),
        start: vec![u8::try_from(id).unwrap()].into(),
    };
    let rate = |cf: u16, id: u32| StoredRate {
        cf: CfId(cf),
        partition: PartitionId(id),
        reads: 7,
        writes: 0,
        updates: u64::from(id),
    };
    let mut state = after(&[
        created(),
        family(0, "default"),
        family(5, "orders"),
        partition(1),
        partition(2),
    ]);
    let told = [
        rate(0, 0),
        rate(0, 1),
        rate(0, 2),
        rate(0, 3),
        rate(5, 0),
        rate(6, 0),
    ];
    state
        .apply(&Change::PartitionRates(told.into()).into())
        .unwrap();
    assert_eq!(
        state.rates(),
        [rate(0, 0), rate(0, 1), rate(0, 2), rate(5, 0)]
    );
    let mut again = State::default();
    state
        .snapshot()
        .for_each(|edit| again.apply(&edit).unwrap());
    assert_eq!(again, state);
    // Ids are given out again.
    let removed = Change::PartitionRemoved {
        cf,
        partition: PartitionId(1),
        start: [1].into(),
    };
    state.apply(&removed.into()).unwrap();
    state.apply(&partition(1).into()).unwrap();
    assert_eq!(state.rates(), [rate(0, 0), rate(0, 2), rate(5, 0)]);
    state
        .apply(&Change::ColumnFamilyDropped { id: 5 }.into())
        .unwrap();
    assert_eq!(state.rates(), [rate(0, 0), rate(0, 2)]);
    // All of them are told at once.
    state
        .apply(&Change::PartitionRates([rate(0, 2)].into()).into())
        .unwrap();
    assert_eq!(state.rates(), [rate(0, 2)]);
    let mut bytes = Vec::new();
    format::encode_change(
        &Change::PartitionRates([rate(0x0102, 3)].into()),
        &mut bytes,
    );
    let numbers = [7, 0, 3].map(u64::to_le_bytes).concat();
    assert_eq!(bytes[..15], *b"\x01\x22\0\0\0\x01\0\0\0\x02\x01\x03\0\0\0");
    assert_eq!(bytes[15..], numbers);
}

#[test]
fn golden_of_partitions() {
    let (cf, partition, start) = (CfId(0x0102), PartitionId(0x0304_0506), Box::from(*b"m\0"));
    let body = b"\x02\x01\x06\x05\x04\x03m\0";
    let created = Change::PartitionCreated {
        cf,
        partition,
        start: Box::clone(&start),
    };
    let removed = Change::PartitionRemoved {
        cf,
        partition,
        start,
    };
    for (change, tag) in [(created, 0x91), (removed, 0x96)] {
        let mut bytes = Vec::new();
        format::encode_change(&change, &mut bytes);
        assert_eq!(bytes, [&[tag, 8, 0, 0, 0][..], body].concat());
    }
}
