//! The view in which a cursor moves.

use std::ops::Deref;

use thermocline_base::{CfId, Result, SeqNo};
use thermocline_catalog::View;

use crate::holds::Reading;
use crate::partitions::rates::counters::PartitionRates;
use crate::store::{Inner, Moment};
use crate::sync::Arc;

/// A moment, and the view in which the cursor reads it.
#[derive(Debug)]
pub(super) struct Place {
    moment: Moment,
    pub view: Lease,
    /// The value of [`Holds::asked`](crate::holds::Holds::asked) when the newest view was last compared.
    asked: u64,
}

/// A view, unless it was taken away, and the moment of a later opening if the view is that opening's.
#[derive(Debug, Default)]
pub(super) struct Lease {
    pub view: Option<Arc<View>>,
    by: Option<Moment>,
}

impl Lease {
    /// Takes the view away if it `is_past`.
    pub fn take_if(&mut self, is_past: &dyn Fn(&View) -> bool) -> Option<Lease> {
        let past = self.view.as_ref().is_some_and(|view| is_past(view));
        past.then(|| std::mem::take(self))
    }
}

impl Deref for Lease {
    type Target = View;

    fn deref(&self) -> &View {
        let view = self.view.as_deref();
        view.expect("a cursor that moves has renewed its place, under the lock of its seat")
    }
}

impl Place {
    pub fn new(moment: Moment) -> Place {
        Place {
            moment,
            view: Lease::default(),
            asked: 0,
        }
    }

    /// The store that has the view.
    pub fn inner(&self) -> &Arc<Inner> {
        self.view.by.as_ref().unwrap_or(&self.moment).inner()
    }

    pub fn seqno(&self) -> SeqNo {
        self.moment.seqno()
    }

    /// Where reads are counted.
    pub fn rates(&self) -> &PartitionRates {
        &self.inner().common.rates
    }

    /// Makes sure that there is a view of family `cf`, and that it keeps no retired memtable or table. Returns whether
    /// the view is another one now. All views show the same at the moment's seqno (`snapshot`).
    ///
    /// # Errors
    /// See [`Moment::view`].
    #[inline]
    pub fn renew(&mut self, cf: CfId) -> Result<bool> {
        let asked = self.moment.inner().reads.holds.asked();
        match self.view.view.is_some() && asked == self.asked {
            true => Ok(false),
            false => self.look(cf, asked),
        }
    }

    #[cold]
    fn look(&mut self, cf: CfId, asked: u64) -> Result<bool> {
        let Reading { view: newest, by } = self.moment.view(cf)?;
        self.asked = asked;
        let stays = self.view.view.as_ref();
        if stays.is_some_and(|view| !view.is_past(&newest)) {
            return Ok(false);
        }
        self.view = Lease {
            view: Some(Arc::clone(&newest)),
            by,
        };
        Ok(true)
    }
}
