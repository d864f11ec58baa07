//! Families have compaction filters, which are asked while a compaction by hand runs, and let everything stay otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thermocline::filter::{CompactionFilter, Entry, Verdict};
use thermocline::{ColumnFamily, Db, DbBuilder};

use crate::reading::{Going, Map, head};
use crate::{NAMES, Run};

/// Whether filters do anything.
#[derive(Debug, Default, Clone)]
pub struct Switch(Arc<AtomicBool>);

#[derive(Debug)]
struct Filter(Switch);

/// What becomes of a value, by its length. What it is changed into stays.
fn filtered(value: &[u8]) -> Option<Vec<u8>> {
    match value.len() % 5 {
        1 => None,
        2 if value.len() < 100_000 => Some([value, b"+"].concat()),
        _ => Some(value.to_vec()),
    }
}

impl CompactionFilter for Filter {
    fn name(&self) -> &str {
        "model.lengths"
    }

    fn filter(&self, entry: &Entry<'_>) -> Result<Verdict, String> {
        if !self.0.0.load(Ordering::SeqCst) {
            return Ok(Verdict::Keep);
        }
        let value = entry.value()?;
        Ok(match filtered(&value) {
            None => Verdict::Remove,
            Some(other) if other.len() != value.len() => Verdict::Change(other),
            Some(_) => Verdict::Keep,
        })
    }
}

impl Switch {
    /// All families have filters.
    pub fn given(&self, builder: DbBuilder) -> DbBuilder {
        let names = NAMES.iter().chain([&"default"]);
        names.fold(builder, |builder, name| {
            builder.compaction_filter(name, Filter(self.clone()))
        })
    }
}

impl Run {
    /// Compacts while filters are asked. From then on the database has what it then has: of each value what was written, or
    /// what the filter makes of it. Readers from before see what they saw.
    pub fn compact_filtered(&mut self, family: &ColumnFamily) {
        self.filters.0.store(true, Ordering::SeqCst);
        family.compact::<&[u8]>(..).unwrap();
        self.filters.0.store(false, Ordering::SeqCst);
        // Jobs of other families may have asked, too.
        self.db().drain().unwrap();
        let db: Db = self.db().clone();
        for (name, content) in &mut self.families {
            let family = db.find_column_family(name).expect("it was made");
            let found = family.iter().map(|entry| {
                let (key, value) = entry.unwrap();
                (key.to_vec(), value.to_vec())
            });
            let now: Map = found.collect();
            assert!(now.keys().all(|key| content.map.contains_key(key)));
            for (key, written) in content.map.iter() {
                let found = now.get(key);
                let may_be = found == Some(written) || found == filtered(written).as_ref();
                assert!(may_be, "{}", head(key));
            }
            content.map = now.into();
            assert!(Going::all(family.iter(), content).take(&mut self.rng, usize::MAX));
        }
    }
}
