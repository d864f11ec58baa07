//! What leaves a store and comes into it as a whole: tables, checkpoints, backups, changes.

use std::collections::BTreeSet;

use thermocline::{Backups, CfOptions, Db, Durability, ErrorKind, Options};
use thermocline_engine::IngestWriter;

use crate::draw;
use crate::history::{History, State, same};
use crate::reading::{Content, Going, head};

impl History {
    /// One or two tables made elsewhere, with deletes and deleted ranges.
    pub fn ingest(&mut self) {
        let (i, family) = self.family();
        let mut after = self.now[i].1.clone();
        let keys: BTreeSet<Vec<u8>> = (0..self.rng.below(40)).map(|_| self.key()).collect();
        let mut paths = Vec::new();
        let keys: Vec<Vec<u8>> = keys.into_iter().collect();
        for part in keys.chunks((keys.len() / 2).max(1)) {
            let name = self.name("table");
            let path = self.machine.path(&name);
            let mut table = IngestWriter::create(&self.machine.env(), &path).unwrap();
            // First what is deleted, then what the table itself has.
            if let [first, .., last] = part
                && self.rng.one_in(2)
            {
                table.delete_range(first, last).unwrap();
                after.map().retain(|key, _| key < first || key >= last);
            }
            for key in part {
                let value = self.value();
                if self.rng.one_in(4) {
                    table.delete(key).unwrap();
                    after.map().remove(key);
                } else {
                    table.put(key, &value).unwrap();
                    after.write(key.clone(), value, false);
                }
            }
            table.finish().unwrap();
            paths.push(path);
        }
        self.tell(format!("ingest {} tables into {i}", paths.len()));
        let ingested = family.ingest(&paths).unwrap();
        assert_eq!(ingested.entries, keys.len() as u64);
        self.now[i].1 = after;
        if !paths.is_empty() {
            self.settled();
        }
    }

    /// A family's table, brought into a store of its own.
    pub fn export(&mut self) {
        let (i, family) = self.family();
        self.see_what_has_gone();
        let content = self.now[i].1.clone();
        let name = self.name("exported");
        let path = self.machine.path(&name);
        self.tell(format!("export {i}"));
        match family.export::<&[u8]>(.., &path) {
            Ok(exported) => assert_eq!(exported.entries, content.map.len() as u64),
            Err(error) => {
                assert!(content.map.is_empty(), "{error}");
                return;
            }
        }
        let name = self.name("elsewhere");
        let options = draw::fresh(&mut self.rng, &self.machine, &name);
        let db = self.machine.open(&name, &options).unwrap();
        let order = CfOptions::default().reverse(content.reverse);
        let copy = db.column_family("copy", order).unwrap();
        copy.ingest(&[&path]).unwrap();
        assert!(Going::all(copy.iter(), &content).take(&mut self.rng, usize::MAX));
        drop(copy);
        db.close().unwrap();
        self.machine.remove(&name);
    }

    /// A checkpoint, or a backup that is restored: it opens, with other options, and holds the same.
    pub fn copy(&mut self) {
        let name = self.name("copy");
        let path = self.machine.path(&name);
        self.tell(format!("copy {name}"));
        if self.machine.is_simulated() || self.rng.one_in(2) {
            self.db().checkpoint(&path).unwrap();
        } else {
            let backups = Backups::new(self.machine.path("backups"));
            backups.create(self.db()).unwrap();
            backups.restore(None, &path).unwrap();
            let most = backups.list().unwrap();
            if most.len() > 3 {
                backups.delete(most[self.rng.below(most.len())].id).unwrap();
                assert_eq!(backups.verify().unwrap().faults, []);
            }
        }
        let options = self.copied_with();
        let db = self.machine.open(&name, &options).unwrap();
        self.see_what_has_gone();
        same(&db, &self.now, &mut self.rng);
        db.put("the copy's", "own").unwrap();
        db.close().unwrap();
        self.machine.remove(&name);
    }

    /// Options of a copy: its region lies in its folder, or its logs do.
    fn copied_with(&mut self) -> Options {
        let mut options = draw::redrawn(&mut self.rng, &self.options);
        options.pm_path = None;
        options.wal_path = None;
        options
    }

    /// A second store takes over what was written since the last time, or begins anew.
    ///
    /// No change says that something has expired: of a store where that happens, none follows.
    pub fn follow(&mut self) {
        if self.ttl > 0 {
            return self.copy();
        }
        let Some((name, options, since)) = self.follower.take() else {
            return self.begin_following();
        };
        let db = self.machine.open(&name, &options).unwrap();
        self.sync_all();
        match take_over(self.db(), &db, since) {
            Some(position) => {
                self.tell(format!("followed from {since} to {position}"));
                same_but_families(&db, &self.now);
                db.close().unwrap();
                let options = draw::redrawn(&mut self.rng, &options);
                self.follower = Some((name, options, position));
            }
            None => {
                self.tell("changes are gone");
                db.close().unwrap();
                self.machine.remove(&name);
                self.begin_following();
            }
        }
    }

    fn sync_all(&mut self) {
        self.db().sync().unwrap();
        self.settled();
    }

    fn begin_following(&mut self) {
        self.sync_all();
        let name = self.name("follower");
        self.tell(format!("begin {name}"));
        let since = self.db().snapshot().seqno();
        self.db().checkpoint(self.machine.path(&name)).unwrap();
        let options = self.copied_with();
        self.follower = Some((name, options, since));
    }
}

/// Up to where `to` has what `from` has; nothing if changes are gone.
fn take_over(from: &Db, to: &Db, since: u64) -> Option<u64> {
    let gone = |error: thermocline::Error| {
        assert_eq!(error.kind(), ErrorKind::ChangesGone, "{error}");
    };
    let mut feed = from.changes_since(since).map_err(gone).ok()?;
    // Making and dropping families is no change.
    let names = from.column_families();
    for name in to.column_families() {
        if !names.contains(&name) {
            to.drop_column_family(&name).unwrap();
        }
    }
    for name in &names {
        let order = from.find_column_family(name).unwrap().options();
        if let Some(there) = to.find_column_family(name)
            && (there.options() != order || name != "default")
        {
            // It may be another one of that name: what it had is not told.
            return None;
        }
        to.column_family(name, order).unwrap();
    }
    for group in feed.by_ref() {
        let group = group.map_err(gone).ok()?;
        let mut batch = to.batch();
        for change in group.changes() {
            let change = change.unwrap();
            let cf = to.find_column_family(&change.family).unwrap();
            batch.apply(&cf, &change);
        }
        batch.commit(Durability::Buffered).unwrap();
    }
    to.sync().unwrap();
    Some(feed.position().max(since))
}

/// That `db` holds this; families may have come in another order.
fn same_but_families(db: &Db, state: &State) {
    assert_eq!(db.column_families().len(), state.len());
    for (name, content) in state {
        let Content { map, metadata, .. } = content;
        let family = db.find_column_family(name).unwrap();
        let entries = family.iter().map(|entry| entry.unwrap());
        let found: Vec<(Vec<u8>, Vec<u8>)> = entries.map(|(k, v)| (k, v.to_vec())).collect();
        assert_eq!(found.len(), map.len(), "{name}");
        for (key, value) in found {
            assert!(map.get(&key) == Some(&value), "{name}: {}", head(&key));
        }
        assert!(family.metadata().unwrap().as_deref() == metadata.as_deref());
    }
}
