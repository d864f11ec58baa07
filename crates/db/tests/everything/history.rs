//! One history: a store, what must be in it, and everybody who holds something of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use thermocline::limits::KEY_LEN_MAX;
use thermocline::merge::{Append, MergeOperator};
use thermocline::{CfOptions, ColumnFamily, Db, DbBuilder, Durability, ErrorKind, Options, Result};
use thermocline_testkit::Rng;

use crate::aging::{self, AGING};
use crate::draw;
use crate::machine::{Crash, Machine};
use crate::reading::{Content, Going, Held, Then, head};

/// All families by name, in the order in which they were made.
pub type State = Vec<(String, Content)>;

pub const STORE: &str = "store";

/// Families come back: more are made than there are names.
const NAMES: &[&str] = &["one", "two", "three"];

/// Numbered keys, of which a burst writes many.
const NUMBERED: usize = 1500;
/// Readers of each kind that are held at a time, at most.
const READERS_MAX: usize = 6;
/// Who keeps persistent memory that nobody can give back: it names them.
const DROPPED: &str = "readers from before a family was dropped";
/// Of what differs, a failure tells so much.
const DIFFERENCES_TOLD: usize = 8;

pub struct History {
    pub rng: Rng,
    pub machine: Machine,
    pub options: Options,
    pub db: Option<Db>,
    pub now: State,
    /// What the store may hold after a crash, if not all: as of every write since something was durable.
    earlier: Vec<State>,
    cursors: Vec<Held>,
    scans: Vec<Going>,
    thens: Vec<Then>,
    /// Handles of lives that are over.
    kept: Vec<Kept>,
    /// Ends a callback that waits.
    blocked: Option<Sender<()>>,
    /// A second store that follows this one, and up to where.
    pub follower: Option<(String, Options, u64)>,
    /// How many names of files and copies were given out.
    names: usize,
    /// Whether families have a merge operator, one that appends, and some of their writes are operands.
    merges: bool,
    /// For how many seconds what is in the family [`AGING`] lives; 0 if for ever.
    pub ttl: u64,
    /// What the calendar of the machine says, in seconds, if it is a simulated one.
    pub calendar: u64,
    /// How much of that family was seen to have gone.
    pub gone: usize,
    /// Whether some of these may have come before a family was dropped.
    reads_dropped: bool,
    /// Whether writes may be refused for want of room on the disk.
    is_full: bool,
    /// What was done, for a failure to tell.
    pub told: Vec<String>,
}

/// What somebody forgot to drop: none of it reads.
#[expect(dead_code, reason = "it is only held")]
enum Kept {
    Db(Db),
    Batch(thermocline::Batch),
    Family(ColumnFamily),
}

impl History {
    pub fn new(seed: u64) -> History {
        let mut rng = Rng::new(seed);
        let machine = match seed % 2 {
            0 => Machine::real(),
            _ => Machine::simulated(seed),
        };
        let options = draw::fresh(&mut rng, &machine, STORE);
        let mut history = History {
            rng,
            machine,
            options,
            db: None,
            now: vec![("default".into(), Content::default())],
            earlier: Vec::new(),
            cursors: Vec::new(),
            scans: Vec::new(),
            thens: Vec::new(),
            kept: Vec::new(),
            blocked: None,
            follower: None,
            names: 0,
            merges: seed & 2 == 0,
            ttl: aging::ttl(seed),
            calendar: aging::BEGIN,
            gone: 0,
            reads_dropped: false,
            is_full: false,
            told: Vec::new(),
        };
        history.machine.set_calendar(aging::BEGIN);
        history.open();
        let own = history.own_options();
        history.db().column_family("default", own).unwrap();
        if history.ttl > 0 {
            history.make_one(AGING);
        }
        history
    }

    /// Those of a new family.
    fn own_options(&self) -> CfOptions {
        match self.merges {
            true => CfOptions::default().merge_operator(Append::new("").name()),
            false => CfOptions::default(),
        }
    }

    pub fn open(&mut self) {
        self.tell(format!("open {:?}", self.options));
        self.db = Some(self.opened());
    }

    fn opened(&mut self) -> Db {
        let ttl = Duration::from_secs(self.ttl);
        let with_ttl = |db: DbBuilder| match ttl {
            Duration::ZERO => db,
            _ => db.ttl(AGING, ttl),
        };
        let db = self.machine.open_with(STORE, &self.options, with_ttl);
        db.unwrap()
    }

    pub fn tell(&mut self, what: impl Into<String>) {
        let what = what.into();
        if std::env::var_os("THERMOCLINE_TELL").is_some() {
            eprintln!("{what}");
        }
        self.told.push(what);
    }

    pub fn db(&self) -> &Db {
        self.db.as_ref().expect("it is open")
    }

    /// A name that nothing has had.
    pub fn name(&mut self, of: &str) -> String {
        self.names += 1;
        format!("{of}-{}", self.names)
    }

    pub fn key(&mut self) -> Vec<u8> {
        match self.rng.below(12) {
            0 => vec![],
            1 => vec![*self.rng.pick(&[0, b'k', 0xff]); 1 + self.rng.below(5)],
            2 => vec![*self.rng.pick(&[0, b'k', 0xff]); KEY_LEN_MAX - self.rng.below(2)],
            3 => vec![b'n', self.rng.next_u64().to_le_bytes()[0]],
            _ => self.numbered(),
        }
    }

    fn numbered(&mut self) -> Vec<u8> {
        format!("key/{:04}", self.rng.below(NUMBERED)).into_bytes()
    }

    pub fn value(&mut self) -> Vec<u8> {
        let len = match self.rng.below(100) {
            0..5 => 0,
            5 => self.rng.below(30_000),
            6..12 => self.rng.below(6000),
            _ => self.rng.below(500),
        };
        let fill = self.rng.next_u64().to_le_bytes();
        fill.iter().copied().cycle().take(len).collect()
    }

    pub fn family(&mut self) -> (usize, ColumnFamily) {
        let i = self.rng.below(self.now.len());
        let family = self.db().find_column_family(&self.now[i].0);
        (i, family.expect("it was made"))
    }

    fn durability(&mut self) -> Durability {
        match self.rng.below(3) {
            0 => Durability::Buffered,
            _ => Durability::Immediate,
        }
    }

    /// What is there now is durable.
    pub fn settled(&mut self) {
        self.earlier.clear();
    }

    /// A write has ended: all of it is there, or, where the disk may be full, nothing.
    fn wrote(&mut self, after: State, durability: Durability, done: Result<()>) {
        if !self.fits(done) {
            return;
        }
        self.earlier.push(std::mem::replace(&mut self.now, after));
        if durability == Durability::Immediate {
            self.settled();
        }
    }

    /// Whether it was done; it must be, unless the disk is full.
    pub fn fits(&mut self, done: Result<()>) -> bool {
        match done {
            Ok(()) => true,
            Err(error) if self.reads_dropped && error.to_string().contains(DROPPED) => {
                // What such readers see stays where it lies. Without them nothing is refused any more.
                assert_eq!(error.kind(), ErrorKind::OutOfSpace, "{error}");
                self.tell(format!("refused: {error}"));
                self.readers_go();
                false
            }
            Err(error) => {
                assert!(self.is_full && error.is_no_room(), "{error}");
                self.tell(format!("refused: {error}"));
                false
            }
        }
    }

    pub fn readers_go(&mut self) {
        self.cursors.clear();
        self.scans.clear();
        self.thens.clear();
        self.reads_dropped = false;
    }

    pub fn step(&mut self) {
        match self.rng.below(200) {
            0..40 => self.put(),
            40..52 => self.delete(),
            52..58 => self.delete_range(),
            58..80 => self.batch(),
            80..92 => self.burst(),
            92..110 => self.get(),
            110..120 => self.begin_scan(),
            120..126 => self.begin_cursor(),
            126..142 => self.move_cursor(),
            142..156 => self.go_on_scanning(),
            156..158 => self.make_family(),
            158 => self.drop_family(),
            159..163 => self.take_snapshot(),
            163..168 => self.look_back(),
            168..178 => self.move_down(),
            178..181 => self.ingest(),
            181..183 => self.export(),
            183..185 => self.copy(),
            185..188 => self.follow(),
            188..190 => self.sync(),
            190 => self.call_back(),
            191 => self.forget_one(),
            192 => self.end(),
            193..195 => self.fill_disk(),
            195..200 if self.ttl > 0 => self.grow_old(),
            _ => self.put(),
        }
    }

    fn put(&mut self) {
        let (i, family) = self.family();
        let (key, value, durability) = (self.key(), self.value(), self.durability());
        self.tell(format!("put {i} {} {}", head(&key), value.len()));
        let merges = self.is_operand(&value);
        let done = match merges {
            true => family.merge_with(&key, &value, durability),
            false => family.put_with(&key, &value, durability),
        };
        let mut after = self.now.clone();
        after[i].1.write(key, value, merges);
        self.wrote(after, durability, done);
    }

    /// Whether a value is merged, and not put. Nothing is drawn for it.
    fn is_operand(&self, value: &[u8]) -> bool {
        self.merges && value.first().is_some_and(|first| first % 3 == 0)
    }

    fn delete(&mut self) {
        let (i, family) = self.family();
        let (key, durability) = (self.key(), self.durability());
        self.tell(format!("delete {i} {}", head(&key)));
        let done = family.delete_with(&key, durability);
        let mut after = self.now.clone();
        after[i].1.map().remove(&key);
        self.wrote(after, durability, done);
    }

    /// Two bounds in the family's order; mostly with few keys between them.
    fn range(&mut self, i: usize) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let begin = match self.rng.below(8) {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(self.key()),
            _ => Bound::Included(self.key()),
        };
        let most = *self.rng.pick(&[1, 3, 30, 400]);
        let content = &self.now[i].1;
        let from = content.between(begin.as_ref().map(Vec::as_slice), Bound::Unbounded);
        let last = from.into_iter().take(most).next_back();
        let end = match last {
            Some((key, _)) if self.rng.one_in(2) => Bound::Included(key),
            Some((key, _)) if begin != Bound::Excluded(key.clone()) => Bound::Excluded(key),
            _ => Bound::Unbounded,
        };
        (begin, end)
    }

    fn delete_range(&mut self) {
        let (i, family) = self.family();
        let (range, durability) = (self.range(i), self.durability());
        self.tell(format!("delete range {i} {:?}", ends(&range)));
        let done = family.delete_range_with(range.clone(), durability);
        let mut after = self.now.clone();
        assert!(after[i].1.delete_range(&range));
        self.wrote(after, durability, done);
    }

    fn batch(&mut self) {
        let mut batch = self.db().batch();
        let mut after = self.now.clone();
        for _ in 0..self.rng.below(12) {
            let (i, family) = self.family();
            let key = self.key();
            match self.rng.below(12) {
                0..3 => {
                    batch.delete_cf(&family, &key);
                    after[i].1.map().remove(&key);
                }
                3 => {
                    let range = self.range(i);
                    assert!(after[i].1.delete_range(&range));
                    batch.delete_range_cf(&family, range);
                }
                4 => {
                    let blob = vec![b'm'; self.rng.below(200)];
                    batch.set_metadata_cf(&family, &blob);
                    after[i].1.metadata = Some(blob.into());
                }
                _ => {
                    let value = self.value();
                    let merges = self.is_operand(&value);
                    match merges {
                        true => batch.merge_cf(&family, &key, &value),
                        false => batch.put_cf(&family, &key, &value),
                    };
                    after[i].1.write(key, value, merges);
                }
            }
        }
        if self.rng.one_in(10) {
            // Never committed; sometimes never dropped.
            self.kept.push(Kept::Batch(batch));
            return;
        }
        let durability = self.durability();
        self.tell(format!("batch of {}, {durability:?}", batch.len()));
        let done = batch.commit(durability);
        self.wrote(after, durability, done);
    }

    /// Two buffered writes, and behind them a durable one that adds nothing.
    fn commit_nothing(&mut self) {
        for key in [b"nothing/1", b"nothing/2"] {
            let done = self.db().put_with(key, b"", Durability::Buffered);
            let mut after = self.now.clone();
            after[0].1.map().insert(key.to_vec(), Vec::new());
            self.wrote(after, Durability::Buffered, done);
        }
        self.tell("commit nothing");
        let done = self.db().batch().commit(Durability::Immediate);
        if self.fits(done) {
            self.settled();
        }
    }

    /// Many keys, so that memtables are sealed, flushed and compacted.
    fn burst(&mut self) {
        let (i, family) = self.family();
        let (keys, bytes) = (50 + self.rng.below(400), 50 + self.rng.below(900));
        self.tell(format!("burst {i} of {keys} with {bytes}"));
        let deletes = self.rng.one_in(3);
        for _ in 0..keys {
            let key = self.numbered();
            if deletes && self.rng.one_in(2) {
                let done = family.delete_with(&key, Durability::Buffered);
                if self.fits(done) {
                    self.now[i].1.map().remove(&key);
                }
                continue;
            }
            let fill = self.rng.next_u64().to_le_bytes();
            let value: Vec<u8> = fill.iter().copied().cycle().take(bytes).collect();
            let merges = self.is_operand(&value);
            let done = match merges {
                true => family.merge_with(&key, &value, Durability::Buffered),
                false => family.put_with(&key, &value, Durability::Buffered),
            };
            if self.fits(done) {
                self.now[i].1.write(key, value, merges);
            }
        }
        self.sync();
    }

    pub fn sync(&mut self) {
        let done = self.db().sync();
        if self.fits(done) {
            self.settled();
        }
    }

    fn get(&mut self) {
        self.see_what_has_gone();
        for _ in 0..8 {
            let ((i, family), key) = (self.family(), self.key());
            let got = family.get(&key).unwrap();
            let expected = self.now[i].1.map.get(&key).map(|v| &v[..]);
            assert!(got.as_deref() == expected, "{i}: {}", head(&key));
            self.now[i].1.check_metadata(family.metadata());
        }
        let asked: Vec<_> = (0..5).map(|_| (self.family(), self.key())).collect();
        let keys = asked.iter().map(|((_, family), key)| (family, key));
        let got = self.db().multi_get_cf(keys).unwrap();
        for (((i, _), key), got) in asked.iter().zip(&got) {
            let expected = self.now[*i].1.map.get(key).map(|v| &v[..]);
            assert!(got.as_deref() == expected, "{i}: {}", head(key));
        }
    }

    fn begin_scan(&mut self) {
        self.see_what_has_gone();
        let (i, family) = self.family();
        let range = self.range(i);
        let scan = family.range(range.clone());
        let ends = (range.0.as_ref(), range.1.as_ref());
        let left = self.now[i]
            .1
            .between(ends.0.map(Vec::as_slice), ends.1.map(Vec::as_slice));
        self.scans.push(Going { scan, left });
        if self.scans.len() > READERS_MAX {
            self.scans.remove(0);
        }
    }

    fn go_on_scanning(&mut self) {
        if self.scans.is_empty() {
            return;
        }
        let s = self.rng.below(self.scans.len());
        let most = *self.rng.pick(&[1, 10, 1000]);
        if self.scans[s].take(&mut self.rng, most) {
            self.scans.swap_remove(s);
        }
    }

    fn begin_cursor(&mut self) {
        self.see_what_has_gone();
        let (i, family) = self.family();
        self.cursors.push(Held {
            cursor: family.cursor().unwrap(),
            content: self.now[i].1.clone(),
            at: None,
        });
        if self.cursors.len() > READERS_MAX {
            self.cursors.remove(0);
        }
    }

    fn move_cursor(&mut self) {
        if self.cursors.is_empty() {
            return;
        }
        let c = self.rng.below(self.cursors.len());
        for _ in 0..self.rng.below(30) {
            let key = self.key();
            self.cursors[c].step(&mut self.rng, &key);
        }
    }

    fn make_family(&mut self) {
        let name = *self.rng.pick(NAMES);
        if !self.now.iter().any(|(there, _)| there == name) {
            self.make_one(name);
        }
    }

    fn make_one(&mut self, name: &str) {
        let reverse = self.rng.one_in(2);
        self.tell(format!("make {name}, reverse {reverse}"));
        let options = self.own_options().reverse(reverse);
        let made = self.db().column_family(name, options);
        if !self.fits(made.map(drop)) {
            return;
        }
        let content = Content {
            reverse,
            ages: self.ages_of(name),
            ..Content::default()
        };
        self.now.push((name.into(), content));
    }

    pub fn drop_family(&mut self) {
        if self.now.len() < 2 {
            return;
        }
        let i = 1 + self.rng.below(self.now.len() - 1);
        let name = self.now[i].0.clone();
        self.tell(format!("drop {name}"));
        let done = self.db().drop_column_family(&name);
        if !self.fits(done) {
            return;
        }
        self.now.remove(i);
        let readers = self.cursors.len() + self.scans.len() + self.thens.len();
        self.reads_dropped |= readers > 0;
        // All that was granted before is durable.
        self.settled();
    }

    fn take_snapshot(&mut self) {
        self.see_what_has_gone();
        let now = self.db().snapshot();
        let each = |(name, content): &(String, Content)| {
            let family = self.db().find_column_family(name).expect("it was made");
            (now.column_family(&family).unwrap(), content.clone())
        };
        let then = Then(self.now.iter().map(each).collect());
        self.thens.push(then);
        if self.thens.len() > 4 {
            self.thens.remove(self.rng.below(4));
        }
    }

    fn look_back(&mut self) {
        let key = self.key();
        for then in &self.thens {
            then.check(&mut self.rng, &key);
        }
    }

    /// Data goes down, all of it or a range.
    fn move_down(&mut self) {
        let (i, family) = self.family();
        let what = self.rng.below(6);
        self.tell(format!("move down {what}"));
        let done = match what {
            0 | 1 => self.db().flush(),
            2 => family.compact::<&[u8]>(..),
            3 => family.compact(self.range(i)),
            4 => {
                // A merge inside persistent memory may find no room.
                let merged = family.compact_level0();
                let kind = merged.map_err(|error| error.kind()).err();
                assert!(kind.is_none_or(|kind| kind == ErrorKind::OutOfSpace));
                Ok(())
            }
            _ => self.db().drain(),
        };
        self.fits(done);
    }

    /// Asks for a callback that waits, if none does; all that follow wait behind it.
    fn call_back(&mut self) {
        if self.machine.is_simulated() {
            // Without threads callbacks are called where the commit is.
            return;
        }
        let mut batch = self.db().batch();
        let key = self.key();
        batch.put(&key, b"called back");
        if self.blocked.is_none() && self.rng.one_in(2) {
            self.tell("a callback waits");
            let (sender, receiver) = channel();
            self.blocked = Some(sender);
            let wait = move |outcome: thermocline::Result<()>| {
                outcome.unwrap();
                // An error says that the history went on.
                let _ = receiver.recv();
            };
            batch.commit_with_callback(wait).unwrap();
        } else if self.blocked.is_some() {
            // No one can wait for a callback behind the one that waits.
            self.blocked = None;
            return;
        } else {
            batch.commit_async().unwrap().wait().unwrap();
        }
        self.earlier.push(self.now.clone());
        self.now[0].1.map().insert(key, b"called back".to_vec());
        self.sync();
    }

    fn forget_one(&mut self) {
        if !self.kept.is_empty() {
            let k = self.rng.below(self.kept.len());
            self.kept.swap_remove(k);
        }
    }

    /// The store is closed or crashes, and opened again with other options.
    pub fn end(&mut self) {
        // Some things are of interest as the last thing before the end.
        match self.rng.below(8) {
            0 => self.ingest(),
            1 => self.copy(),
            2 => self.drop_family(),
            3 => self.move_down(),
            4 => self.commit_nothing(),
            _ => {}
        }
        self.end_life();
    }

    fn end_life(&mut self) {
        self.blocked = None;
        let crash = *self
            .rng
            .pick(&[None, Some(Crash::Kill), Some(Crash::PowerCut)]);
        match crash.filter(|_| self.machine.is_simulated()) {
            None => self.close(),
            Some(how) => self.crash(how),
        }
        if self.rng.one_in(4) {
            self.verify();
        }
        let earlier = std::mem::take(&mut self.options);
        self.options = draw::redrawn(&mut self.rng, &earlier);
        if self.rng.one_in(6) {
            self.read_only();
        }
        self.open();
        self.compare();
        if self.rng.one_in(2) {
            self.readers_go();
        }
    }

    /// For some steps the disk has little room, or none: what is refused leaves nothing behind, what was there
    /// is read, the store is closed or killed and opened again. With room once more, nothing is refused any more.
    fn fill_disk(&mut self) {
        let left = *self.rng.pick(&[0, 5000, 100_000, 400_000]);
        if !self.machine.leave_on_disk(Some(left)) {
            return;
        }
        self.tell(format!("the disk has {left} bytes left"));
        self.is_full = true;
        for _ in 0..self.rng.below(25) {
            match self.rng.below(20) {
                0..4 => self.put(),
                4..6 => self.delete(),
                6..8 => self.delete_range(),
                8..11 => self.batch(),
                11..13 => self.burst(),
                13 => self.make_family(),
                14 => self.drop_family(),
                15..18 => self.move_down(),
                18 => self.end_life(),
                _ => self.get(),
            }
        }
        self.machine.leave_on_disk(None);
        self.tell("the disk has room again");
        self.is_full = false;
        self.put();
        self.sync();
        self.compare();
    }

    fn close(&mut self) {
        let db = self.db.take().expect("it is open");
        let how = self.rng.below(4);
        self.tell(format!("close {how}"));
        match how {
            // The last handle closes it, if nobody else has one.
            0 if self.kept.is_empty() && self.cursors.is_empty() && self.scans.is_empty() => {
                drop(db);
            }
            1 => {
                let family = db
                    .find_column_family("default")
                    .expect("it is always there");
                self.kept.push(Kept::Family(family));
                db.close().unwrap();
            }
            2 => {
                self.kept.push(Kept::Db(db.clone()));
                db.close().unwrap();
            }
            _ => db.close().unwrap(),
        }
        if self.kept.len() > 4 {
            self.kept.remove(0);
        }
        // What is held goes on reading.
        for held in &mut self.cursors {
            held.step(&mut self.rng, b"key/0700");
        }
        for then in &self.thens {
            then.check(&mut self.rng, b"key/0700");
        }
        self.settled();
    }

    fn crash(&mut self, how: Crash) {
        self.tell(format!("{how:?}"));
        let machine = self.machine.crashed(how, &mut self.rng);
        // The old one goes on for itself; nobody looks any more.
        self.readers_go();
        self.kept.clear();
        self.db = None;
        self.machine = machine;
        self.db = Some(self.opened());
        self.find();
        self.db.take().expect("it is open").close().unwrap();
    }

    /// Which of the moments since the last durable one is there. Families are made durably.
    fn find(&mut self) {
        let found = contents(self.db());
        let names: Vec<&String> = self.now.iter().map(|(name, _)| name).collect();
        assert!(
            found
                .keys()
                .eq(names.iter().copied().collect::<BTreeSet<_>>())
        );
        let moments = self.earlier.drain(..).chain([self.now.clone()]);
        let moments: Vec<State> = moments.collect();
        let at = |moment: &State| -> State {
            let each = |(name, now): &(String, Content)| {
                let is_it = |(n, c): &&(String, Content)| n == name && c.reverse == now.reverse;
                let then = moment.iter().find(is_it);
                let none = Content {
                    reverse: now.reverse,
                    ages: self.ages_of(name),
                    ..Content::default()
                };
                (
                    name.clone(),
                    then.map_or(none, |(_, content)| content.clone()),
                )
            };
            self.now.iter().map(each).collect()
        };
        let mut possible = moments.iter().rev().map(at);
        let state = possible.find(|state| differences(&found, state).next().is_none());
        self.now = state.unwrap_or_else(|| {
            let moments: Vec<State> = moments.iter().map(at).collect();
            panic!("{}", none_is_there(&found, &moments))
        });
    }

    fn verify(&mut self) {
        let faults = self.machine.verify(STORE, &self.options);
        assert!(faults.is_empty(), "{faults:?}");
    }

    fn read_only(&mut self) {
        self.options.read_only = true;
        self.open();
        self.compare();
        self.db.take().expect("it is open").close().unwrap();
        self.options.read_only = false;
    }

    /// Everything that is there is what must be.
    pub fn compare(&mut self) {
        self.see_what_has_gone();
        let db = self.db.take().expect("it is open");
        same(&db, &self.now, &mut self.rng);
        self.db = Some(db);
    }
}

/// That `db` holds just this.
pub fn same(db: &Db, state: &State, rng: &mut Rng) {
    let names: Vec<&String> = state.iter().map(|(name, _)| name).collect();
    assert!(db.column_families().iter().eq(names));
    for (name, content) in state {
        let family = db.find_column_family(name).unwrap();
        assert_eq!(family.options().reverse, Some(content.reverse));
        assert!(Going::all(family.iter(), content).take(rng, usize::MAX));
        content.check_metadata(family.metadata());
    }
}

type Found = BTreeMap<String, (BTreeMap<Vec<u8>, Vec<u8>>, Option<Vec<u8>>)>;

fn contents(db: &Db) -> Found {
    let family = |name: String| {
        let family = db.find_column_family(&name).unwrap();
        let entries = family.iter().map(|entry| entry.unwrap());
        let map = entries.map(|(key, value)| (key, value.to_vec())).collect();
        let metadata = family.metadata().unwrap().map(|blob| blob.to_vec());
        (name, (map, metadata))
    };
    db.column_families().into_iter().map(family).collect()
}

/// What is in a store and not in `state`, or the other way round: one line each.
fn differences<'a>(found: &'a Found, state: &'a State) -> impl Iterator<Item = String> + 'a {
    state.iter().flat_map(move |(name, content)| {
        let (map, metadata) = &found[name];
        let blob = metadata.as_deref() != content.metadata.as_deref();
        let blob = blob.then(|| format!("{name}: other metadata"));
        let keys: BTreeSet<&Vec<u8>> = map.keys().chain(content.map.keys()).collect();
        let keys = keys.into_iter().filter_map(move |key| {
            let [found, expected] = [map.get(key), content.map.get(key)];
            let [is, must] = [found, expected]
                .map(|value| value.map_or_else(|| "absent".into(), |value| head(value)));
            let line = || format!("{name}: {} is {is}, must be {must}", head(key));
            let found = found.map(Vec::as_slice);
            (!aging::may_be(content, key, found)).then(line)
        });
        blob.into_iter().chain(keys)
    })
}

/// Says how the nearest of the moments differs from what was found.
fn none_is_there(found: &Found, moments: &[State]) -> String {
    let each = moments.iter().map(|moment| differences(found, moment));
    let each = each.map(Iterator::collect::<Vec<String>>).enumerate();
    let (nearest, lines) = each
        .min_by_key(|(_, lines)| lines.len())
        .expect("there is always the last one");
    let (count, of) = (lines.len(), moments.len());
    let lines = lines[..count.min(DIFFERENCES_TOLD)].join("\n  ");
    format!("none of {of} moments is there; moment {nearest} differs least, by {count}:\n  {lines}")
}

pub fn ends(range: &(Bound<Vec<u8>>, Bound<Vec<u8>>)) -> [String; 2] {
    let end = |bound: &Bound<Vec<u8>>| match bound {
        Bound::Included(key) => format!("[{}", head(key)),
        Bound::Excluded(key) => format!("({}", head(key)),
        Bound::Unbounded => "all".into(),
    };
    [end(&range.0), end(&range.1)]
}
