//! TridentKV's experiments (`PAPERS.md`): with data that is deleted in large parts, figures 21 to 23, §4.5; with indexes that are
//! trained while many write, figures 19 and 20, §4.3; and a claim of ours about reads that are awaited (§3.4).
//!
//! Where parts are deleted, the paper compares its partitions with a column family for each part, and with neither, where
//! every key is deleted. Here ranges are deleted, too, and trident also goes without the techniques that have figures of
//! their own. In this engine the contrast of the paper need not show: what a range delete or many point deletes hide goes
//! by itself (decisions 152 and 162), and presets share all of that.

mod awaited;
mod fluctuation;
mod layout;
mod memory;
mod reading;
mod space;
mod store;
mod systems;
mod training;

pub(crate) use awaited::Awaited;
pub(crate) use fluctuation::Fluctuation;
pub(crate) use memory::Memory;
pub(crate) use space::Space;
pub(crate) use training::Training;
