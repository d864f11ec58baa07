//! The view in which a cursor moves.

use std::ops::Deref;

use thermocline_base::{CfId, Result, SeqNo};
use thermocline_catalog::View;

use crate::partitions::PartitionRates;
use crate::snapshot::Moment;
use crate::store::Inner;
use crate::sync::Arc;

/// A moment, and the view in which it is looked at.
#[derive(Debug)]
pub(super) struct Place {
    moment: Moment,
    pub view: Lease,
    /// What [`Holds::asked`](crate::holds::Holds::asked) was when it was last looked at the newest view.
    asked: u64,
}

/// A view that may have been taken.
#[derive(Debug, Default)]
pub(super) struct Lease(pub Option<Arc<View>>);

impl Deref for Lease {
    type Target = View;

    fn deref(&self) -> &View {
        let view = self.0.as_deref();
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

    pub fn inner(&self) -> &Arc<Inner> {
        self.moment.inner()
    }

    pub fn seqno(&self) -> SeqNo {
        self.moment.seqno()
    }

    /// Where reads are counted.
    pub fn rates(&self) -> &PartitionRates {
        &self.inner().rates
    }

    /// Sees to it that there is a view of family `cf`, and none that keeps what was retired.
    /// Returns whether it is another one now. They all show the same at its seqno (`snapshot`).
    ///
    /// # Errors
    /// See [`Moment::view`].
    #[inline]
    pub fn renew(&mut self, cf: CfId) -> Result<bool> {
        let asked = self.inner().holds.asked();
        match self.view.0.is_some() && asked == self.asked {
            true => Ok(false),
            false => self.look(cf, asked),
        }
    }

    #[cold]
    fn look(&mut self, cf: CfId, asked: u64) -> Result<bool> {
        let newest = self.moment.view(cf)?;
        self.asked = asked;
        let stays = self.view.0.as_ref();
        if stays.is_some_and(|view| !view.is_past(&newest)) {
            return Ok(false);
        }
        self.view.0 = Some(Arc::clone(&newest));
        Ok(true)
    }
}
