//! What was set aside of families that were dropped.

use thermocline_base::CfId;
use thermocline_catalog::View;

use crate::sync::{Arc, Mutex};

/// What is left of a family.
#[derive(Debug)]
pub(crate) struct Relic {
    pub cf: CfId,
    /// The number of its drop.
    pub number: u64,
    pub view: Arc<View>,
}

/// What was set aside, by whoever may hold it beyond the store's end.
pub(crate) type Relics = Mutex<Vec<Relic>>;

impl Relic {
    /// What is read in it.
    pub fn view(&self) -> &View {
        &self.view
    }
}
