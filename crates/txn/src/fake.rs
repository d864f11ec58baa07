//! A store in memory, for tests of what transactions do with theirs.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use thermocline_base::bounds::{is_behind, is_below};
use thermocline_base::merge::MergeOperator;
use thermocline_base::{CfId, Error, Result, SeqNo};
use thermocline_engine::{
    Claims, Entries, Family, Footprint, PreparedState, Resolution, WriteOptions,
};

use crate::store::{Moment, Place, Store, Which};
use crate::sync::Arc;

type Stored = BTreeMap<Vec<u8>, Vec<u8>>;

/// Is called when something is asked.
type OnAsked = OnceLock<Box<dyn Fn() + Send + Sync>>;

/// Entries that never change: what is written is nowhere.
#[derive(Default)]
pub(crate) struct Fake {
    pub entries: Arc<Stored>,
    /// How often a value was looked at.
    pub values: Arc<AtomicUsize>,
    /// When a family is named.
    pub on_name: Arc<OnAsked>,
    /// When a transaction is to be prepared.
    pub on_prepare: Arc<OnAsked>,
}

#[derive(Debug, Clone)]
pub(crate) struct At {
    entries: Arc<Stored>,
    values: Arc<AtomicUsize>,
}

pub(crate) struct Here {
    at: At,
    key: Option<Vec<u8>>,
}

impl Store for Fake {
    type Moment = At;

    fn moment(&self) -> Result<At> {
        Ok(At {
            entries: Arc::clone(&self.entries),
            values: Arc::clone(&self.values),
        })
    }

    fn write<'a>(&self, _: impl Entries<'a>, _: WriteOptions) -> Result<()> {
        Ok(())
    }

    fn prepare<'a>(
        &self,
        _: &[u8],
        _: (impl Entries<'a>, Claims),
        _: Option<(&At, &dyn Footprint)>,
    ) -> Result<SeqNo> {
        if let Some(on_prepare) = self.on_prepare.get() {
            on_prepare();
        }
        Ok(SeqNo(1))
    }

    fn resolve(&self, _: Which<'_>, _: Resolution, _: WriteOptions) -> Result<()> {
        Ok(())
    }

    fn prepared(&self) -> Result<Vec<PreparedState>> {
        Ok(Vec::new())
    }

    fn prepared_claims(&self) -> Vec<(Vec<u8>, Claims)> {
        Vec::new()
    }

    fn now_ns(&self) -> u64 {
        1
    }

    fn tick_ns(&self) -> u64 {
        1
    }

    fn family_name(&self, cf: CfId) -> String {
        if let Some(on_name) = self.on_name.get() {
            on_name();
        }
        format!("family {}", cf.0)
    }

    fn merge_operator(&self, _: CfId) -> Result<Arc<dyn MergeOperator>> {
        Err(Error::InvalidArgument("there is none".into()))
    }

    fn memory_max(&self) -> u64 {
        64 << 20
    }
}

impl Moment for At {
    type Value = Box<[u8]>;
    type Place = Here;

    fn seqno(&self) -> SeqNo {
        SeqNo(1)
    }

    fn get(&self, _: CfId, key: &[u8]) -> Result<Option<Box<[u8]>>> {
        Ok(self.entries.get(key).map(|value| value.as_slice().into()))
    }

    fn values(&self, keys: &[(CfId, &[u8])]) -> Vec<Result<Option<Box<[u8]>>>> {
        keys.iter().map(|(cf, key)| self.get(*cf, key)).collect()
    }

    fn place(&self, _: Family) -> Result<Here> {
        let at = self.clone();
        Ok(Here { at, key: None })
    }

    fn value(bytes: &[u8]) -> Box<[u8]> {
        bytes.into()
    }

    fn check(&self, _: &dyn Footprint) -> Result<()> {
        Ok(())
    }

    fn write<'a>(&self, _: impl Entries<'a>, _: WriteOptions, _: &dyn Footprint) -> Result<()> {
        Ok(())
    }
}

impl Place for Here {
    fn seek(&mut self, from: Bound<&[u8]>, until: Bound<&[u8]>, ascending: bool) -> Result<bool> {
        let entries = &self.at.entries;
        let first = match ascending {
            true => entries.range::<[u8], _>((from, Bound::Unbounded)).next(),
            false => entries
                .range::<[u8], _>((Bound::Unbounded, from))
                .next_back(),
        };
        let is_within = |key: &[u8]| match ascending {
            true => !is_behind(key, until),
            false => !is_below(key, until),
        };
        let key = first.map(|(key, _)| key.clone());
        self.key = key.filter(|key| is_within(key));
        Ok(self.key.is_some())
    }

    fn step(&mut self, until: Bound<&[u8]>, ascending: bool) -> Result<bool> {
        match self.key.take() {
            Some(key) => self.seek(Bound::Excluded(&key[..]), until, ascending),
            None => Ok(false),
        }
    }

    fn key(&self) -> &[u8] {
        self.key.as_deref().expect("it is at a key")
    }

    fn value(&self) -> &[u8] {
        self.at.values.fetch_add(1, Ordering::Relaxed);
        &self.at.entries[self.key()]
    }
}
