//! What claims keep out, piece by piece. Crashes are explored by `tests/crash`, all ways into a store by the facade's tests.

use std::path::Path;

use thermocline_base::{CfId, Error, ErrorKind, SeqNo, WriteBatch};
use thermocline_version::State;

use crate::families::table::{Families, Given};
use crate::prepared::claims::Claims;
use crate::prepared::format::{PART_BYTES, part_key};
use crate::prepared::registry::{Entry, Registry, Step};
use crate::sync::{Arc, AtomicU64};
use crate::tests::{Machine, options, world};
use crate::{Durability, Engine, Resolution, Runtime, RuntimeOptions, Setup};

const CF: CfId = CfId(3);

/// A change, or something that is relied on.
#[derive(Debug, Clone, Copy)]
enum Part {
    Write(&'static str),
    Delete(&'static str, Option<&'static str>),
    Read(&'static str),
    ReadRange(&'static str, Option<&'static str>),
}
use Part::{Delete, Read, ReadRange, Write};

fn batch_of(parts: &[Part]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for part in parts {
        match *part {
            Write(key) => batch.put(CF, key.as_bytes(), b"v").unwrap(),
            Delete(from, to) => {
                let to = to.map(str::as_bytes);
                batch.delete_range(CF, from.as_bytes(), to).unwrap();
            }
            Read(_) | ReadRange(..) => {}
        }
    }
    batch
}

fn entry(name: &str, parts: &[Part]) -> Arc<Entry> {
    let mut claims = Claims::of(batch_of(parts).iter());
    for part in parts {
        match *part {
            Read(key) => claims.read(CF, key.as_bytes()),
            ReadRange(from, to) => {
                claims.read_range(CF, from.as_bytes(), to.map(str::as_bytes));
            }
            Write(_) | Delete(..) => {}
        }
    }
    Arc::new(Entry {
        name: name.as_bytes().into(),
        claims,
        changes: 1,
        bytes: 1,
        parts: 1,
        since_ns: 0,
        last: AtomicU64::new(0),
    })
}

fn families() -> Families {
    Families::of(&State::default(), Given::default()).unwrap()
}

/// Parts of which each pair is tried.
const PARTS: &[Part] = &[
    Write("b"),
    Write("d"),
    Delete("b", Some("d")),
    Delete("d", None),
    Delete("a", Some("b")),
    Read("b"),
    Read("c"),
    ReadRange("a", Some("c")),
    ReadRange("c", None),
    ReadRange("b", Some("b")),
];

/// Keys that tell ranges apart.
const KEYS: &[&str] = &["a", "ab", "b", "bb", "c", "cc", "d", "dd"];

fn has(part: Part, key: &str) -> bool {
    match part {
        Write(own) | Read(own) => own == key,
        Delete(from, to) | ReadRange(from, to) => from <= key && to.is_none_or(|to| key < to),
    }
}

fn writes(part: Part) -> bool {
    matches!(part, Write(_) | Delete(..))
}

/// By looking at each key.
fn meet(one: Part, two: Part) -> bool {
    KEYS.iter().any(|key| has(one, key) && has(two, key))
}

fn refuses(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("'one'"), "{error}");
    assert!(error.to_string().contains("roll_back_prepared"), "{error}");
}

#[test]
fn each_change_and_each_claim_meets_just_the_claims_that_it_must() {
    let families = families();
    let (mut kept_out, mut let_in) = (0, 0);
    for &held in PARTS {
        let registry = Registry::default();
        let one = entry("one", &[held]);
        registry.check_new(&families, &one).unwrap();
        registry.granted(Step::Prepare(&one), SeqNo(7));
        for &part in PARTS {
            // Whoever writes, without being prepared, and who only reads is asked nothing.
            let batch = batch_of(&[part]);
            let checked = registry.check(&families, batch.iter(), Step::Keep);
            assert_eq!(checked.is_err(), writes(part) && meet(held, part));
            // Who wants to be prepared beside it.
            let two = entry("two", &[part]);
            let claimed = registry.check_new(&families, &two);
            let unlike = writes(held) || writes(part);
            assert_eq!(
                claimed.is_err(),
                unlike && meet(held, part),
                "{held:?} {part:?}"
            );
            match claimed {
                Ok(()) => let_in += 1,
                Err(error) => {
                    refuses(&error);
                    kept_out += 1;
                }
            }
            // In another family everything goes.
            let mut elsewhere = WriteBatch::new();
            elsewhere.delete_range(CfId(4), b"", None).unwrap();
            registry
                .check(&families, elsewhere.iter(), Step::Keep)
                .unwrap();
        }
        assert_eq!(
            registry.check_family(&families, CF).is_err(),
            !matches!(held, ReadRange("b", Some("b")))
        );
        registry.check_family(&families, CfId(4)).unwrap();
        registry.granted(Step::Resolve(&one), SeqNo(8));
        let all = batch_of(&[Delete("", None)]);
        registry.check(&families, all.iter(), Step::Keep).unwrap();
        assert!(registry.all().is_empty());
    }
    assert!(kept_out > 20 && let_in > 20, "{kept_out} {let_in}");
}

#[test]
fn of_several_readers_of_a_key_each_keeps_writers_out_until_it_goes() {
    let (families, registry) = (families(), Registry::default());
    let (one, two) = (entry("one", &[Read("b")]), entry("two", &[Read("b")]));
    for reader in [&one, &two] {
        registry
            .check(&families, [].into_iter(), Step::Prepare(reader))
            .unwrap();
        registry.granted(Step::Prepare(reader), SeqNo(1));
    }
    let write = batch_of(&[Write("b")]);
    let refused = || registry.check(&families, write.iter(), Step::Keep);
    assert!(refused().is_err());
    registry.granted(Step::Resolve(&two), SeqNo(2));
    refuses(&refused().unwrap_err());
    registry.granted(Step::Resolve(&one), SeqNo(3));
    refused().unwrap();
}

#[test]
fn a_name_is_of_one_transaction_at_a_time_and_each_is_resolved_once() {
    let (families, registry) = (families(), Registry::default());
    let (first, again) = (entry("one", &[Write("b")]), entry("one", &[Write("z")]));
    let check = |step: Step<'_>| registry.check(&families, [].into_iter(), step);
    assert!(check(Step::Resolve(&first)).is_err());
    registry.granted(Step::Prepare(&first), SeqNo(1));
    let error = check(Step::Prepare(&again)).unwrap_err();
    assert!(error.to_string().contains("prepared already"), "{error}");
    // Another one of its name is not this one.
    let error = check(Step::Resolve(&again)).unwrap_err();
    assert!(
        error.to_string().contains("no prepared transaction"),
        "{error}"
    );
    check(Step::Resolve(&first)).unwrap();
    registry.granted(Step::Resolve(&first), SeqNo(2));
    assert!(check(Step::Resolve(&first)).is_err());
    check(Step::Prepare(&again)).unwrap();
}

/// While a commit reads what it is to make, somebody else may end the transaction and prepare another one under its name.
#[test]
fn parts_of_another_one_of_its_name_are_no_damage() {
    let engine = Engine::open(world(), Path::new("/db"), options()).unwrap();
    let prepare = |value: &[u8]| {
        let mut batch = WriteBatch::new();
        batch.put(CfId::DEFAULT, b"k", value).unwrap();
        let what = (batch.iter(), Claims::of(batch.iter()));
        engine.prepare(b"one", what, None).unwrap();
    };
    let resolve = |resolution| engine.resolve(b"one", resolution, Durability::Immediate);
    let preparer = &engine.inner.preparer;
    // In one part, and in two.
    let (short, long) = (vec![1u8; 10], vec![2u8; PART_BYTES]);
    for (first, second) in [(&short, &long), (&long, &short)] {
        prepare(first);
        let entry = engine.inner.common.prepared.find(b"one").unwrap();
        let batch = preparer.read_batch(&entry).unwrap();
        assert_eq!(batch.get(0).value, first.as_slice());
        let is_gone = || {
            let error = preparer.read_batch(&entry).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            let text = error.to_string();
            assert!(text.contains("no prepared transaction"), "{text}");
        };
        resolve(Resolution::RollBack).unwrap();
        is_gone();
        prepare(second);
        is_gone();
        resolve(Resolution::Commit).unwrap();
        let found = engine.get(CfId::DEFAULT, b"k", |value| value == second.as_slice());
        assert_eq!(found.unwrap(), Some(true));
    }
}

/// An open that fails at what is prepared ends as a close does: its runtime forgets it, and who came before reads on and
/// keeps nobody from the next open.
#[test]
fn an_open_that_finds_a_damaged_one_leaves_nothing_behind() {
    let (world, runtime) = (world(), Runtime::new(RuntimeOptions::default()).unwrap());
    let open = || {
        let setup = Setup {
            runtime: Some(runtime.clone()),
            ..Setup::default()
        };
        Engine::open_with(world.clone(), Path::new("/db"), options(), setup)
    };
    let engine = open().unwrap();
    let mut batch = WriteBatch::new();
    batch.put(CfId::DEFAULT, b"k", b"v").unwrap();
    let what = (batch.iter(), Claims::of(batch.iter()));
    engine.prepare(b"one", what, None).unwrap();
    engine
        .resolve(b"one", Resolution::Commit, Durability::Immediate)
        .unwrap();
    // A part without the one before it.
    let mut rotten = WriteBatch::new();
    rotten
        .put(CfId::METADATA, &part_key(b"two", 1), b"rotten")
        .unwrap();
    engine.write(rotten.iter(), Durability::Immediate).unwrap();
    let before = engine.snapshot();
    drop(engine);
    for _ in 0..3 {
        let error = open().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert_eq!(runtime.metrics().stores, 0);
        let found = before.get(CfId::DEFAULT, b"k", <[u8]>::to_vec);
        assert_eq!(found.unwrap().as_deref(), Some(&b"v"[..]));
    }
}

/// Whoever prepares has looked whether the store is open before he has encoded the batch. By then it may have been closed, and opened again.
#[test]
fn who_prepares_beside_closing_writes_nothing_into_the_manifest_of_the_next_opening() {
    let machine = Machine::new(1 << 20);
    let open = || Engine::open(machine.world(), Path::new("/db"), options()).unwrap();
    let closed = open();
    closed.close().unwrap();
    let next = open();
    let manifest = next
        .inner
        .common
        .catalog
        .edits()
        .manifest_path()
        .to_path_buf();
    let before = machine.fs.contents(&manifest).unwrap();
    let told = closed.inner.preparer.tell_manifest();
    assert_eq!(machine.fs.contents(&manifest).unwrap(), before);
    assert_eq!(told.unwrap_err().kind(), ErrorKind::Closed);
    // It takes the place that nobody has taken from it.
    let mut batch = WriteBatch::new();
    batch.put(CfId::DEFAULT, b"k", b"v").unwrap();
    let what = (batch.iter(), Claims::of(batch.iter()));
    next.prepare(b"one", what, None).unwrap();
    next.close().unwrap();
    let names = open().prepared().unwrap().into_iter();
    assert!(names.map(|of| of.name).eq([b"one".to_vec()]));
}
