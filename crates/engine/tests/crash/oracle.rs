//! What a store may hold: the plain model, and what a crash at an instant may leave of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use thermocline_base::{CfId, WriteBatch};
use thermocline_engine::{Claims, Durability, Engine};

/// One change of one key.
#[derive(Debug, Clone)]
pub struct Change {
    pub cf: u16,
    pub key: Vec<u8>,
    /// `None` deletes.
    pub value: Option<Arc<[u8]>>,
}

impl Change {
    /// The metadata of a family, which is a record like any other.
    pub fn metadata(cf: u16, blob: impl Into<Arc<[u8]>>) -> Change {
        Change {
            cf: CfId::METADATA.0,
            key: CfId(cf).metadata_key().to_vec(),
            value: Some(blob.into()),
        }
    }

    fn add_to(&self, batch: &mut WriteBatch) {
        let (cf, key) = (CfId(self.cf), &self.key);
        match &self.value {
            Some(value) => batch.put(cf, key, value).unwrap(),
            None => batch.delete(cf, key).unwrap(),
        }
    }

    /// The family that it belongs to.
    fn owner(cf: u16, key: &[u8]) -> u16 {
        match CfId(cf) {
            CfId::METADATA => CfId::of_metadata_key(key).expect("an id").0,
            other => other.0,
        }
    }
}

/// One change of a batch that also deletes ranges.
#[derive(Debug, Clone)]
pub enum Step {
    Change(Change),
    /// An operand is appended.
    Merge {
        cf: u16,
        key: Vec<u8>,
        operand: Vec<u8>,
    },
    /// All keys from one up to another one, or without end.
    Clear {
        cf: u16,
        from: Vec<u8>,
        to: Option<Vec<u8>>,
    },
}

/// What a caller asks for, all of it or nothing.
#[derive(Debug, Clone)]
pub enum Op {
    Write(Vec<Change>),
    Steps(Vec<Step>),
    Family(String),
    /// A family whose keys descend.
    Descending(String),
    /// A family whose operands are appended.
    Merging(String),
    Drop(String),
    /// A transaction is prepared under a name.
    Prepare(String, Vec<Step>),
    Commit(String),
    RollBack(String),
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
        changes.iter().for_each(|change| change.add_to(&mut batch));
        batch
    }

    /// The batch of a write with range deletes.
    pub fn batch_of(steps: &[Step]) -> WriteBatch {
        let mut batch = WriteBatch::new();
        for step in steps {
            match step {
                Step::Change(change) => change.add_to(&mut batch),
                Step::Merge { cf, key, operand } => batch.merge(CfId(*cf), key, operand).unwrap(),
                Step::Clear { cf, from, to } => {
                    batch.delete_range(CfId(*cf), from, to.as_deref()).unwrap();
                }
            }
        }
        batch
    }
}

/// A family that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Family {
    pub id: u16,
    pub name: String,
    pub reverse: bool,
}

/// A transaction that is prepared.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// What it will do. A store does not show it.
    pub steps: Vec<Step>,
    pub claims: Claims,
}

impl PartialEq for Prepared {
    fn eq(&self, other: &Prepared) -> bool {
        self.claims == other.claims
    }
}

/// The contents of a store.
#[derive(Debug, Clone)]
pub struct Model {
    pub families: Vec<Family>,
    pub data: BTreeMap<(u16, Vec<u8>), Arc<[u8]>>,
    pub prepared: BTreeMap<String, Prepared>,
    /// No family ever had this id. A store does not show it.
    pub next: u16,
}

impl PartialEq for Model {
    fn eq(&self, other: &Model) -> bool {
        self.families == other.families
            && self.data == other.data
            && self.prepared == other.prepared
    }
}

impl Default for Model {
    fn default() -> Model {
        Model {
            families: vec![Family {
                id: 0,
                name: "default".into(),
                reverse: false,
            }],
            data: BTreeMap::new(),
            prepared: BTreeMap::new(),
            next: 1,
        }
    }
}

impl Model {
    /// The id of the family of this name.
    pub fn id(&self, name: &str) -> Option<u16> {
        Some(self.families.iter().find(|f| f.name == name)?.id)
    }

    fn make(&mut self, name: &str, reverse: bool) {
        if self.id(name).is_some() {
            return;
        }
        self.families.push(Family {
            id: self.next,
            name: name.into(),
            reverse,
        });
        self.next += 1;
    }

    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Family(name) | Op::Merging(name) => self.make(name, false),
            Op::Descending(name) => self.make(name, true),
            Op::Drop(name) => {
                let id = self.id(name);
                self.families.retain(|f| Some(f.id) != id);
                self.data
                    .retain(|(cf, key), _| Some(Change::owner(*cf, key)) != id);
            }
            Op::Write(changes) => changes.iter().for_each(|change| self.change(change)),
            Op::Steps(steps) => steps.iter().for_each(|step| self.step(step)),
            Op::Prepare(name, steps) => {
                let (steps, claims) = (steps.clone(), Claims::of(Op::batch_of(steps).iter()));
                self.prepared
                    .insert(name.clone(), Prepared { steps, claims });
            }
            Op::Commit(name) => {
                let prepared = self.prepared.remove(name).expect("it is prepared");
                prepared.steps.iter().for_each(|step| self.step(step));
            }
            Op::RollBack(name) => drop(self.prepared.remove(name)),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Change(change) => self.change(change),
            Step::Merge { cf, key, operand } => self.merge((*cf, key.clone()), operand),
            Step::Clear { cf, from, to } => self.data.retain(|(of, key), _| {
                of != cf || key < from || to.as_ref().is_some_and(|to| key >= to)
            }),
        }
    }

    fn change(&mut self, change: &Change) {
        let key = (change.cf, change.key.clone());
        match &change.value {
            Some(value) => self.data.insert(key, value.clone()),
            None => self.data.remove(&key),
        };
    }

    fn merge(&mut self, key: (u16, Vec<u8>), operand: &[u8]) {
        let before = self.data.get(&key).map_or(&[][..], |value| value);
        let value = [before, operand].concat();
        self.data.insert(key, value.into());
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
        if self.prepared != found.prepared {
            return format!("prepared {:?}, found {:?}", self.prepared, found.prepared);
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
    /// The last seqno that a change feed has given.
    pub fed: u64,
    /// Whether the database must exist.
    pub exists: bool,
}

impl Default for Expect {
    fn default() -> Expect {
        Expect {
            allowed: vec![Arc::new(Model::default())],
            seen: 0,
            fed: 0,
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
    /// With everything that is durable, and no more.
    expect: Expect,
    /// Writes that were granted behind that, in the order of their grants, with their last seqnos:
    /// a crash keeps a prefix of them.
    flying: VecDeque<(Op, u64)>,
    /// What a call does right now, behind all of them.
    in_flight: Option<Op>,
    /// The last seqno granted before it.
    granted: u64,
    /// The last seqno of a write whose caller was told that it is durable.
    told: u64,
    engine: Option<Engine>,
}

impl Tracker {
    pub fn new(expect: Expect) -> Tracker {
        Tracker {
            expect,
            flying: VecDeque::new(),
            in_flight: None,
            granted: 0,
            told: 0,
            engine: None,
        }
    }

    /// What a crash now may leave.
    pub fn expect(&mut self) -> Expect {
        let shown = self.engine.as_ref().map_or(0, |engine| engine.visible().0);
        self.expect.seen = self.expect.seen.max(shown);
        let durable = self.durable();
        while self
            .flying
            .front()
            .is_some_and(|(_, last)| *last <= durable)
        {
            if let Some((op, _)) = self.flying.pop_front() {
                self.settle(&op);
            }
        }
        let mut expect = self.expect.clone();
        let mut model = expect.allowed[0].clone();
        // A write that the store calls durable stays, whether or not its caller knows.
        let settled = self.in_flight.is_some() && durable > self.granted;
        for op in self.flying.iter().map(|(op, _)| op).chain(&self.in_flight) {
            let with = Arc::new(model.with(op));
            if *with != *model {
                expect.allowed.push(with.clone());
                model = with;
            }
        }
        if settled {
            expect.allowed = vec![model];
        }
        expect
    }

    fn durable(&self) -> u64 {
        let durable = self.engine.as_ref().map_or(0, |engine| engine.durable().0);
        durable.max(self.told)
    }

    /// The oldest write that was not known to be durable is.
    fn settle(&mut self, op: &Op) {
        self.expect.allowed = vec![Arc::new(self.expect.allowed[0].with(op))];
    }

    /// A write was granted, and has not finished.
    pub fn granted(&mut self, op: &Op, last: u64) {
        self.flying.push_back((op.clone(), last));
        self.granted = last;
    }

    /// A change feed has given everything up to this seqno.
    pub fn fed(&mut self, last: u64) {
        self.expect.fed = self.expect.fed.max(last);
    }

    /// The caller of a write was told that it is durable.
    pub fn told(&mut self, last: u64) {
        self.told = self.told.max(last);
    }

    pub fn opened(&mut self, engine: &Engine) {
        self.engine = Some(engine.clone());
        (self.granted, self.told) = (engine.visible().0, 0);
        self.expect.exists = true;
    }

    /// The store has been read: it holds exactly this.
    pub fn holds(&mut self, model: &Arc<Model>) {
        self.expect.allowed = vec![model.clone()];
        self.flying.clear();
    }

    pub fn begin(&mut self, op: &Op) {
        self.in_flight = Some(op.clone());
    }

    /// The operation in flight was refused without effect, or acknowledged: as durable, with all
    /// before it, or as visible.
    pub fn end(&mut self, done: Option<Durability>) {
        let visible = self.engine.as_ref().map_or(0, |engine| engine.visible().0);
        if let (Some(op), Some(durability)) = (self.in_flight.take(), done) {
            self.granted(&op, visible);
            if durability == Durability::Immediate {
                self.told(visible);
            }
        }
        self.expect();
    }

    /// The store was closed, and if that went well everything is durable.
    pub fn closed(&mut self, well: bool) {
        if well {
            self.told(self.granted);
        }
        self.expect();
        self.engine = None;
    }
}
