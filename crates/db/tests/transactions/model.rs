//! Random transactions of all kinds, several open at a time on one thread, beside plain writes, flushes and compactions,
//! against maps. What each sees is its own writes over the map as it was at its snapshot, exactly, whichever way it looks.
//! It commits exactly if nothing that it depends on was changed since.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use thermocline::merge::{Append, MergeOperator};
use thermocline::{
    CfOptions, ColumnFamily, ErrorKind, Isolation, Savepoint, Transaction, TxnOptions, Value,
};
use thermocline_testkit::explore::{explored, side_by_side};
use thermocline_testkit::{Replay, Rng, seeds};

use crate::{Store, open};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The second family descends.
const FAMILIES: usize = 2;
const STEPS: usize = 600;
const OPEN_MAX: usize = 4;

/// A key, or the keys between two.
#[derive(Clone, Debug)]
struct Span(Vec<u8>, Option<Vec<u8>>);

impl Span {
    fn key(key: &[u8]) -> Span {
        Span(key.to_vec(), Some([key, &[0]].concat()))
    }

    fn meets(&self, other: &Span) -> bool {
        self.1.as_ref().is_none_or(|end| other.0 < *end)
            && other.1.as_ref().is_none_or(|end| self.0 < *end)
    }
}

/// A savepoint; what the transaction had written and hidden then, and how much of `written` there was.
type Then = (Savepoint, [Map; FAMILIES], [Vec<Span>; FAMILIES], usize);

/// A transaction, and what it ought to see.
struct Open {
    txn: Transaction,
    base: [Map; FAMILIES],
    own: [Map; FAMILIES],
    /// What it has deleted, or put.
    hidden: [Vec<Span>; FAMILIES],
    /// What must not have changed, and what need not have changed but may count.
    strict: Vec<(usize, Span)>,
    loose: Vec<(usize, Span)>,
    /// What it has written, and not taken back: that must not have changed either.
    written: Vec<(usize, Span)>,
    /// How many changes there had been.
    since: usize,
    serializable: bool,
    savepoints: Vec<Then>,
}

impl Open {
    fn visible(&self, family: usize) -> Map {
        let mut map = self.base[family].clone();
        let hidden = &self.hidden[family];
        map.retain(|key, _| !hidden.iter().any(|span| span.meets(&Span::key(key))));
        map.extend(self.own[family].clone());
        map
    }

    fn depends(&mut self, family: usize, span: &Span) {
        self.strict.push((family, span.clone()));
        self.loose.push((family, span.clone()));
    }

    fn writes(&mut self, family: usize, span: &Span) {
        self.written.push((family, span.clone()));
    }

    fn is_written(&self, family: usize, key: &[u8]) -> bool {
        let mut hidden = self.hidden[family].iter();
        self.own[family].contains_key(key) || hidden.any(|span| span.meets(&Span::key(key)))
    }

    fn delete(&mut self, family: usize, span: &Span) {
        self.own[family].retain(|key, _| !span.meets(&Span::key(key)));
        self.hidden[family].push(span.clone());
    }
}

struct Model {
    store: Store,
    families: Vec<ColumnFamily>,
    now: [Map; FAMILIES],
    changes: Vec<(usize, Span)>,
    open: Vec<Open>,
    rng: Rng,
    committed: u64,
    refused: u64,
}

fn key(rng: &mut Rng) -> Vec<u8> {
    let len = rng.below(3);
    (0..len)
        .map(|_| *rng.pick(&[0, b'a', b'b', 0xff]))
        .collect()
}

impl Model {
    fn new(seed: u64) -> Model {
        let store = open();
        let names = ["first", "second"];
        let families = (0..FAMILIES).map(|family| {
            let options = CfOptions::default().reverse(family == 1);
            let options = options.merge_operator(Append::new("").name());
            store.column_family(names[family], options).unwrap()
        });
        Model {
            families: families.collect(),
            store,
            now: Default::default(),
            changes: Vec::new(),
            open: Vec::new(),
            rng: Rng::new(seed),
            committed: 0,
            refused: 0,
        }
    }

    /// A range in the family's order, and by bytes.
    fn range(&mut self, family: usize) -> (Bounds, Span) {
        let mut ends = [key(&mut self.rng), key(&mut self.rng)];
        ends.sort();
        let [low, high] = ends;
        let whole = self.rng.one_in(12);
        let (start, end) = match whole {
            true => (Vec::new(), None),
            false => (low.clone(), Some(high.clone())),
        };
        let bounds = match whole {
            true => (Bound::Unbounded, Bound::Unbounded),
            false if family == 0 => (Bound::Included(low), Bound::Excluded(high)),
            // From above down: without the higher one, with the lower one.
            false => (Bound::Excluded(high), Bound::Included(low)),
        };
        (bounds, Span(start, end))
    }

    fn step(&mut self) {
        match self.rng.below(40) {
            0..4 if self.open.len() < OPEN_MAX => self.begin(),
            0..4 => self.commit(),
            4..8 => self.write_plainly(),
            8 => self.store.flush().unwrap(),
            9 if self.rng.one_in(4) => self.store.compact::<&str>(..).unwrap(),
            _ if self.open.is_empty() => self.begin(),
            _ => {
                let at = self.rng.below(self.open.len());
                let mut open = self.open.swap_remove(at);
                if self.work(&mut open) {
                    self.open.push(open);
                }
            }
        }
    }

    fn begin(&mut self) {
        let kinds = [TxnOptions::pessimistic(), TxnOptions::optimistic()];
        let serializable = self.rng.one_in(2);
        let level = match serializable {
            true => Isolation::Serializable,
            false => Isolation::Snapshot,
        };
        let options = self.rng.pick(&kinds).isolation(level);
        let options = options.lock_timeout(Duration::ZERO);
        let mut txn = self.store.transaction(options).unwrap();
        txn.take_snapshot().unwrap();
        self.open.push(Open {
            txn,
            base: self.now.clone(),
            own: Default::default(),
            hidden: Default::default(),
            strict: Vec::new(),
            loose: Vec::new(),
            written: Vec::new(),
            since: self.changes.len(),
            serializable,
            savepoints: Vec::new(),
        });
    }

    fn write_plainly(&mut self) {
        let family = self.rng.below(FAMILIES);
        let name = key(&mut self.rng);
        let cf = &self.families[family];
        let span = match self.rng.below(16) {
            2..6 => {
                let operand = self.rng.next_u64().to_be_bytes();
                cf.merge(&name, operand).unwrap();
                let value = self.now[family].entry(name.clone()).or_default();
                value.extend(operand);
                self.changes.push((family, Span::key(&name)));
                return;
            }
            0 => {
                let (bounds, span) = self.range(family);
                self.families[family].delete_range(bounds).unwrap();
                if span.1.as_ref().is_some_and(|end| *end <= span.0) {
                    return;
                }
                span
            }
            1 => {
                cf.delete(&name).unwrap();
                Span::key(&name)
            }
            _ => {
                let value = self.rng.next_u64().to_be_bytes();
                cf.put(&name, value).unwrap();
                self.now[family].insert(name.clone(), value.to_vec());
                self.changes.push((family, Span::key(&name)));
                return;
            }
        };
        self.now[family].retain(|key, _| !span.meets(&Span::key(key)));
        self.changes.push((family, span));
    }

    fn has_changed(&self, since: usize, family: usize, span: &Span) -> bool {
        let mut changes = self.changes[since..].iter();
        changes.any(|(of, change)| *of == family && change.meets(span))
    }

    /// A step that may be refused: because somebody else has a lock, or because of a change. Nothing has happened then.
    fn refused(&self, open: &Open, family: usize, span: &Span, error: &thermocline::Error) {
        match error.kind() {
            ErrorKind::Busy => assert!(!self.open.is_empty(), "{error}"),
            ErrorKind::Conflict => {
                assert!(self.has_changed(open.since, family, span), "{error}");
            }
            _ => panic!("{error}"),
        }
    }

    /// A step of a transaction. Returns whether it goes on.
    fn work(&mut self, open: &mut Open) -> bool {
        let family = self.rng.below(FAMILIES);
        let name = key(&mut self.rng);
        let cf = self.families[family].clone();
        let span = Span::key(&name);
        match self.rng.below(24) {
            0..2 if !open.serializable => self.read_several(open),
            0..4 => match self.read(open, &cf, &name) {
                Ok(found) => {
                    let expected = open.visible(family).remove(&name);
                    assert_eq!(found.as_deref(), expected.as_deref());
                    match open.serializable {
                        true if !open.is_written(family, &name) => open.depends(family, &span),
                        // What it has merged itself is merged into what there was.
                        true => open.loose.push((family, span)),
                        false => {}
                    }
                }
                Err(error) => self.refused(open, family, &span, &error),
            },
            20..22 => {
                let operand = self.rng.next_u64().to_be_bytes();
                match open.txn.merge_cf(&cf, &name, operand) {
                    Ok(()) => {
                        let mut value = open.visible(family).remove(&name).unwrap_or_default();
                        value.extend(operand);
                        open.writes(family, &span);
                        open.own[family].insert(name, value);
                    }
                    Err(error) => self.refused(open, family, &span, &error),
                }
            }
            4..7 => match self.read_to_rely_on(open, &cf, &name) {
                Ok(found) => {
                    let expected = open.visible(family).remove(&name);
                    assert_eq!(found.as_deref(), expected.as_deref());
                    open.depends(family, &span);
                }
                Err(error) => self.refused(open, family, &span, &error),
            },
            7..10 => {
                let value = self.rng.next_u64().to_be_bytes();
                match open.txn.put_cf(&cf, &name, value) {
                    Ok(()) => {
                        open.writes(family, &span);
                        open.own[family].insert(name, value.to_vec());
                    }
                    Err(error) => self.refused(open, family, &span, &error),
                }
            }
            10..12 => match open.txn.delete_cf(&cf, &name) {
                Ok(()) => {
                    open.writes(family, &span);
                    open.delete(family, &span);
                }
                Err(error) => self.refused(open, family, &span, &error),
            },
            12 => {
                let (bounds, span) = self.range(family);
                match open.txn.delete_range_cf(&cf, bounds) {
                    Ok(()) if span.1.as_ref().is_some_and(|end| *end <= span.0) => {}
                    Ok(()) => {
                        open.writes(family, &span);
                        open.delete(family, &span);
                    }
                    Err(error) => self.refused(open, family, &span, &error),
                }
            }
            13..17 => self.scan(open, family, &cf),
            17 => {
                let savepoint = open.txn.savepoint();
                let (own, hidden) = (open.own.clone(), open.hidden.clone());
                let then = (savepoint, own, hidden, open.written.len());
                open.savepoints.push(then);
            }
            18 if !open.savepoints.is_empty() => {
                let at = self.rng.below(open.savepoints.len());
                open.savepoints.truncate(at + 1);
                let (savepoint, own, hidden, written) = &open.savepoints[at];
                open.txn.rollback_to(*savepoint).unwrap();
                open.written.truncate(*written);
                (open.own, open.hidden) = (own.clone(), hidden.clone());
            }
            // Dropped.
            19 if self.rng.one_in(4) => return false,
            _ => {}
        }
        true
    }

    /// Reads a key, alone or as one of several.
    fn read(
        &mut self,
        open: &Open,
        cf: &ColumnFamily,
        name: &[u8],
    ) -> thermocline::Result<Option<Value>> {
        match self.rng.one_in(2) {
            true => open.txn.get_cf(cf, name),
            false => Ok(open.txn.multi_get_cf([(cf, name)])?.pop().flatten()),
        }
    }

    /// Reads a key that is not to be changed before the transaction ends.
    fn read_to_rely_on(
        &mut self,
        open: &mut Open,
        cf: &ColumnFamily,
        name: &[u8],
    ) -> thermocline::Result<Option<Value>> {
        match self.rng.one_in(3) {
            true => open.txn.get_for_share_cf(cf, name),
            false => open.txn.get_for_update_cf(cf, name),
        }
    }

    /// Reads several keys of both families, of which none is locked.
    fn read_several(&mut self, open: &Open) {
        let count = self.rng.below(8);
        let draw = |_| (self.rng.below(FAMILIES), key(&mut self.rng));
        let keys: Vec<(usize, Vec<u8>)> = (0..count).map(draw).collect();
        let named = keys.iter().map(|(at, key)| (&self.families[*at], key));
        let found = open.txn.multi_get_cf(named).unwrap();
        let visible = [open.visible(0), open.visible(1)];
        let expected = keys.iter().map(|(at, key)| visible[*at].get(key).cloned());
        let found = found
            .iter()
            .map(|value| value.as_deref().map(<[u8]>::to_vec));
        assert!(found.eq(expected));
    }

    fn scan(&mut self, open: &mut Open, family: usize, cf: &ColumnFamily) {
        let (bounds, span) = self.range(family);
        let map = open.visible(family);
        let is_empty = span.1.as_ref().is_some_and(|end| *end <= span.0);
        let mut expected: Vec<_> = match is_empty {
            true => Vec::new(),
            false => {
                let end = span.1.clone().map_or(Bound::Unbounded, Bound::Excluded);
                map.range((Bound::Included(span.0.clone()), end)).collect()
            }
        };
        if family == 1 {
            expected.reverse();
        }
        let mut scan = open.txn.range_cf(cf, bounds);
        let mut expected = expected.into_iter();
        let most = match self.rng.one_in(2) {
            true => usize::MAX,
            false => self.rng.below(4),
        };
        let (both, mut begun, mut ended) = (self.rng.one_in(3), false, false);
        for n in 0.. {
            if n == most {
                break;
            }
            begun = true;
            let back = both && self.rng.one_in(2);
            let (found, expected) = match back {
                true => (scan.next_back(), expected.next_back()),
                false => (scan.next(), expected.next()),
            };
            match found {
                Some(Err(error)) => return self.refused(open, family, &span, &error),
                found => {
                    let found = found.map(Result::unwrap);
                    let found = found.as_ref().map(|(key, value)| (key, &**value));
                    assert_eq!(found, expected.map(|(key, value)| (key, &**value)));
                    if found.is_none() {
                        ended = true;
                        break;
                    }
                }
            }
        }
        drop(scan);
        if open.serializable && !is_empty {
            // A pessimistic one has locked all of it, though it may have looked at nothing.
            open.loose.push((family, span.clone()));
            if begun && ended {
                open.strict.push((family, span));
            }
        }
    }

    fn commit(&mut self) {
        let at = self.rng.below(self.open.len());
        let open = self.open.swap_remove(at);
        let changed = |all: &[(usize, Span)]| {
            let mut all = all.iter().chain(&open.written);
            all.any(|(family, span)| self.has_changed(open.since, *family, span))
        };
        let (strict, loose) = (changed(&open.strict), changed(&open.loose));
        let is_empty = open.txn.is_empty();
        match open.txn.commit() {
            Ok(()) => {
                assert!(is_empty || !strict, "it depends on what has changed");
                self.committed += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                assert!(!is_empty && loose, "{error}");
                self.refused += 1;
                return;
            }
        }
        for (family, now) in self.now.iter_mut().enumerate() {
            let hidden = &open.hidden[family];
            now.retain(|key, _| !hidden.iter().any(|span| span.meets(&Span::key(key))));
            now.extend(open.own[family].clone());
            let spans = hidden.iter().cloned();
            let spans = spans.chain(open.own[family].keys().map(|key| Span::key(key)));
            self.changes.extend(spans.map(|span| (family, span)));
        }
    }

    fn check(&self) {
        for (family, now) in self.now.iter().enumerate() {
            let found: Map = self.families[family]
                .iter()
                .map(|entry| entry.map(|(key, value)| (key, value.to_vec())).unwrap())
                .collect();
            assert_eq!(found, *now);
        }
    }
}

#[test]
fn transactions_see_and_do_what_maps_say() {
    let most = explored(100, 400);
    let models = side_by_side(&seeds(0..most), |&seed| {
        let _replay = Replay::new("-p thermocline --test transactions model", seed);
        let mut model = Model::new(seed);
        for _ in 0..STEPS {
            model.step();
        }
        model.check();
        (model.committed, model.refused)
    });
    let committed: u64 = models.iter().map(|(committed, _)| committed).sum();
    let refused: u64 = models.iter().map(|(_, refused)| refused).sum();
    println!("{committed} transactions were committed, {refused} refused");
    assert!(committed > refused / 20 && refused > committed / 20);
}
