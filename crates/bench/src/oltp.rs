//! Workloads of transactions: TPC-C and the life of orders, on tables of records; and sums that stay equal, on keys.
//!
//! A run opens a store as [`crate::run`] does, makes and fills the tables, unless it is told to use what is there, and
//! runs transactions of several *kinds* on all threads for a time. A transaction that is refused since others were
//! faster is made again with the same input, as a client would do; its latency is that of all attempts together. What was
//! refused is counted by cause. At the end the workload checks what must be true of its tables.
//!
//! | module | what |
//! |---|---|
//! | `plan` | [`OltpPlan`]: what to run |
//! | `tally` | what was done, by kind and by second |
//! | `attempts` | a transaction, made until it goes through |
//! | `report` | [`OltpReport`]: the answer |
//!
//! [`run_oltp`](crate::run_oltp) runs one.

pub(crate) mod attempts;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod tally;

pub use plan::{DURATION, OltpPlan, OltpWorkload, OrdersSettings, SumsSettings, TpccSettings};
pub use report::{Aborts, Check, KindReport, OltpReport};
