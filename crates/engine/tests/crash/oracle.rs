//! What a store may hold: the plain model, and what a crash at an instant may leave of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use thermocline_base::{CfId, WriteBatch};
use thermocline_engine::Engine;

/// One change of one key.
#[derive(Debug, Clone)]
pub struct Change {
    pub cf: u16,
    pub key: Vec<u8>,
    /// `None` deletes.
    pub value: Option<Arc<[u8]>>,
}

/// What a caller asks for, all of it or nothing.
#[derive(Debug, Clone)]
pub enum Op {
    Write(Vec<Change>),
    Family(String),
}

impl Op {
    pub fn put(cf: u16, key: &[u8], value: impl Into<Arc<[u8]>>) -> Op {
        Op::Write(vec![Change {
            cf,
            key: key.to_vec(),
            value: Some(value.into()),
        }])
    }

    pub fn delete(cf: u16, key: &[u8]) -> Op {
        Op::Write(vec![Change {
            cf,
            key: key.to_vec(),
            value: None,
        }])
    }

    /// The batch of a write.
    pub fn batch(changes: &[Change]) -> WriteBatch {
        let mut batch = WriteBatch::new();
        for change in changes {
            let (cf, key) = (CfId(change.cf), &change.key);
            match &change.value {
                Some(value) => batch.put(cf, key, value).unwrap(),
                None => batch.delete(cf, key).unwrap(),
            }
        }
        batch
    }
}

/// The contents of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    pub families: Vec<String>,
    pub data: BTreeMap<(u16, Vec<u8>), Arc<[u8]>>,
}

impl Default for Model {
    fn default() -> Model {
        Model {
            families: vec!["default".into()],
            data: BTreeMap::new(),
        }
    }
}

impl Model {
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Family(name) => {
                if !self.families.contains(name) {
                    self.families.push(name.clone());
                }
            }
            Op::Write(changes) => {
                for change in changes {
                    let key = (change.cf, change.key.clone());
                    match &change.value {
                        Some(value) => self.data.insert(key, value.clone()),
                        None => self.data.remove(&key),
                    };
                }
            }
        }
    }

    pub fn with(&self, op: &Op) -> Model {
        let mut model = self.clone();
        model.apply(op);
        model
    }

    /// Where two models differ, in words.
    pub fn difference(&self, found: &Model) -> String {
        if self.families != found.families {
            return format!("families {:?}, found {:?}", self.families, found.families);
        }
        let keys = self.data.keys().chain(found.data.keys());
        for key in keys {
            let (want, got) = (self.data.get(key), found.data.get(key));
            if want != got {
                let shape = |v: Option<&Arc<[u8]>>| {
                    v.map_or("none".to_string(), |v| {
                        format!("{} bytes {:?}", v.len(), &v[..v.len().min(8)])
                    })
                };
                let (want, got) = (shape(want), shape(got));
                return format!("key {key:?} should have {want}, has {got}");
            }
        }
        "nothing".into()
    }
}

/// What may be found after a crash at one instant.
#[derive(Debug, Clone)]
pub struct Expect {
    /// One of these must be found: with and without the operation in flight.
    pub allowed: Vec<Arc<Model>>,
    /// The highest seqno that any reader of any earlier life was shown.
    pub seen: u64,
    /// Whether the database must exist.
    pub exists: bool,
}

impl Default for Expect {
    fn default() -> Expect {
        Expect {
            allowed: vec![Arc::new(Model::default())],
            seen: 0,
            exists: false,
        }
    }
}

impl Expect {
    /// The model among those allowed that was found, or what is wrong with it.
    pub fn accept(&self, found: &Model) -> Result<Arc<Model>, String> {
        if let Some(model) = self.allowed.iter().find(|m| ***m == *found) {
            return Ok(model.clone());
        }
        let why: Vec<String> = self.allowed.iter().map(|m| m.difference(found)).collect();
        Err(format!("not what was acknowledged: {}", why.join("; or ")))
    }
}

/// Follows a running store: what was acknowledged and what is in flight.
#[derive(Debug)]
pub struct Tracker {
    expect: Expect,
    in_flight: Option<Op>,
    engine: Option<Engine>,
    visible: u64,
}

impl Tracker {
    pub fn new(expect: Expect) -> Tracker {
        Tracker {
            expect,
            in_flight: None,
            engine: None,
            visible: 0,
        }
    }

    /// What a crash now may leave.
    pub fn expect(&mut self) -> Expect {
        let shown = self.engine.as_ref().map_or(0, |engine| engine.visible().0);
        self.expect.seen = self.expect.seen.max(shown);
        let mut expect = self.expect.clone();
        if let Some(op) = &self.in_flight {
            let with = Arc::new(expect.allowed[0].with(op));
            if shown > self.visible {
                // A reader may have seen it: it must stay.
                expect.allowed = vec![with];
            } else if *with != *expect.allowed[0] {
                expect.allowed.push(with);
            }
        }
        expect
    }

    pub fn opened(&mut self, engine: &Engine) {
        self.engine = Some(engine.clone());
        self.visible = engine.visible().0;
        self.expect.exists = true;
    }

    /// The store has been read: it holds exactly this.
    pub fn holds(&mut self, model: &Arc<Model>) {
        self.expect.allowed = vec![model.clone()];
    }

    pub fn begin(&mut self, op: &Op) {
        self.in_flight = Some(op.clone());
    }

    /// The operation in flight was acknowledged, or refused without effect.
    pub fn end(&mut self, done: bool) {
        if let Some(op) = self.in_flight.take()
            && done
        {
            self.expect.allowed = vec![Arc::new(self.expect.allowed[0].with(&op))];
        }
        self.visible = self.engine.as_ref().map_or(0, |engine| engine.visible().0);
        self.expect.seen = self.expect.seen.max(self.visible);
    }

    pub fn closed(&mut self) {
        self.engine = None;
    }
}
