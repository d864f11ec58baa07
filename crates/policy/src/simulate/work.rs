//! How long background work takes, and what ends.

use super::doing::{Doing, Flushed, What};
use super::setting::SECOND;
use super::state::Run;
use crate::pace::{Allowed, need, share};
use crate::pressure::Due;

/// So often, while a memtable is filled, it is looked whether scans have paid for something.
const SCANS_LOOK: f64 = 16.0;

impl Run {
    /// Whether a flush goes on: also one of memtables with no whole record, where a value is larger than they are.
    pub(super) fn is_flushing(&self) -> bool {
        let is_flush = |doing: &Doing| matches!(doing.what, What::Flush { .. });
        self.work.iter().any(is_flush)
    }

    /// Memtables that are being flushed.
    pub(super) fn flushing(&self) -> Flushed {
        let flush = self.work.iter().find_map(|doing| match doing.what {
            What::Flush { memtables, .. } => Some(memtables),
            What::Job(..) => None,
        });
        flush.unwrap_or_default()
    }

    /// Nanoseconds until something ends, while so much else uses the device.
    fn left(&self, doing: &Doing) -> f64 {
        if self.setting.device_per_s.is_infinite() {
            return 1.0;
        }
        let sharing = self.work.iter().filter(|other| other.device_bytes > 0.0);
        let sharing = sharing.count().max(1) as f64 + self.setting.clients;
        let rate = self.setting.device_per_s / sharing;
        let working = doing
            .processor_ns
            .max(doing.device_bytes / rate * SECOND)
            .max(1.0);
        match doing.is_on_device() {
            true => working / self.share,
            false => working,
        }
    }

    /// The part of their time that jobs work, as of now.
    fn share_of_jobs(&self) -> f64 {
        let options = &self.setting.options;
        if !options.compaction.rate_adapts {
            return 1.0;
        }
        let allowed = Allowed {
            due: Due::of(options),
            base_bytes: options.base_bytes(),
            table_bytes: options.level0_pm_bytes().unwrap_or(0),
        };
        let tables = self.store.pm_table_bytes();
        let need = need(&self.debt(), &self.slope, &allowed, tables);
        share(self.setting.clients, need)
    }

    /// Time passes.
    pub(super) fn advance(&mut self, mut nanos: f64) {
        let most = match self.setting.scanned_per_s > 0.0 {
            true => nanos / SCANS_LOOK,
            false => nanos,
        };
        while nanos > 0.0 {
            self.begin_what_is_due();
            self.share = self.share_of_jobs();
            let next = self.work.iter().map(|doing| self.left(doing));
            let step = next.fold(nanos.min(most), f64::min);
            self.active.bytes += self.active.per_ns * step;
            self.spend(step);
            nanos -= step;
        }
    }

    /// Time passes until something ends; returns how much.
    pub(super) fn advance_to_an_end(&mut self) -> f64 {
        self.share = self.share_of_jobs();
        let next = self.work.iter().map(|doing| self.left(doing));
        let step = next.fold(f64::INFINITY, f64::min);
        self.spend(step);
        self.begin_what_is_due();
        step
    }

    fn spend(&mut self, step: f64) {
        self.now_ns += step;
        self.scan(step);
        if self.work.iter().any(Doing::is_on_device) {
            self.outcome.job_ns += step;
        }
        let left: Vec<f64> = self.work.iter().map(|doing| self.left(doing)).collect();
        let mut ended = Vec::new();
        for (n, left) in left.into_iter().enumerate() {
            let rest = 1.0 - (step / left).min(1.0);
            let doing = &mut self.work[n];
            if doing.is_on_device() {
                self.outcome.job_bytes += doing.device_bytes * (1.0 - rest);
            }
            doing.device_bytes *= rest;
            doing.processor_ns *= rest;
            if rest < 1e-9 {
                ended.push(n);
            }
        }
        for n in ended.into_iter().rev() {
            let doing = self.work.remove(n);
            self.end(doing);
        }
    }

    /// Scans go on for so long.
    fn scan(&mut self, nanos: f64) {
        let keys = &self.store.keys;
        let every = keys.of_class.iter().sum::<f64>() * keys.cells() as f64;
        let sealed = self.sealed.iter().map(|sealed| sealed.table.entries);
        let active = self.active.bytes / self.setting.record.in_memtable() as f64;
        let entries = self.setting.scanned_per_s * nanos / SECOND;
        let collected = entries * (sealed.sum::<f64>() + active) / every;
        self.scanned += collected;
        self.outcome.scanned += collected;
    }

    fn end(&mut self, doing: Doing) {
        self.store.held = self
            .work
            .iter()
            .filter_map(|doing| doing.holds.clone())
            .collect();
        self.store.changes += 1;
        match doing.what {
            What::Flush { edits, .. } => {
                edits.into_iter().for_each(|edit| self.store.apply(edit));
                self.outcome.flushes += 1;
            }
            What::Job(edit) => self.store.apply(edit),
        }
    }
}
