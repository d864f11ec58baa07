//! What to run.

use std::path::PathBuf;

use serde::Serialize;
use thermocline::options::Emulation;
use thermocline::{Durability, Error, Isolation, Options, Result, TxnOptions};

use crate::plan::{THREADS_MAX, check_seconds, within};

/// Most warehouses, and most orders.
const WAREHOUSES_MAX: u64 = 100_000;
const ORDERS_MAX: u64 = 1 << 40;

/// Most sets of `randomtransaction`.
const SETS_MAX: u64 = 10_000;

/// Most that sizes can be divided by for a quick run.
const SHRINK_MAX: u64 = 100;

/// Seconds of a run that is given neither time nor number.
pub const DURATION: f64 = 30.0;

/// The workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OltpWorkload {
    /// TPC-C: orders of customers of warehouses.
    Tpcc,
    /// Orders that are placed, move through their states, and are looked up, less and less.
    Orders,
    /// db_bench's: a number is added to one key of each set.
    RandomTransaction,
}

impl OltpWorkload {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            OltpWorkload::Tpcc => "tpcc",
            OltpWorkload::Orders => "orders",
            OltpWorkload::RandomTransaction => "randomtransaction",
        }
    }

    /// The workload with this name, if it is one of these.
    pub fn parse(name: &str) -> Option<OltpWorkload> {
        let all = [
            OltpWorkload::Tpcc,
            OltpWorkload::Orders,
            OltpWorkload::RandomTransaction,
        ];
        all.into_iter().find(|workload| workload.name() == name)
    }
}

/// What TPC-C is run with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TpccSettings {
    /// Warehouses, each of about 100 MB.
    pub warehouses: u64,
    /// Whether terminals wait as users do: each thread is one, with a home and the keying and think times of the
    /// specification.
    pub think: bool,
    /// Customers, items and first orders are divided by this: 1, but for tests of the benchmark itself.
    pub shrink: u64,
}

/// What the workload of orders is run with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OrdersSettings {
    /// Orders that are there at the beginning, all of them old.
    pub orders: u64,
    /// Orders that are placed after one until it is finished: it is *hot* so long, and its state changes.
    pub hot: u64,
    /// Orders that are placed after one until it is *cold*. In between it is *warm*: looked up, and not changed.
    pub warm: u64,
    /// Of lookups the part that is of cold orders, in percent.
    pub cold_percent: f64,
    /// How much more often recent orders and active customers are chosen than others: theta of a zipfian distribution,
    /// from 0, which is uniform, to below 1.
    pub skew: f64,
    /// Bytes of the text that each row has.
    pub row_bytes: usize,
}

/// What `randomtransaction` is run with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SumsSettings {
    /// Keys of each set.
    pub keys: u64,
    /// Sets: a transaction changes one key of each.
    pub sets: u64,
}

/// One run, described.
#[derive(Debug, Clone, PartialEq)]
pub struct OltpPlan {
    /// What to do.
    pub workload: OltpWorkload,
    /// The database's folder; `None` for a temporary one that goes after the run.
    pub db: Option<PathBuf>,
    /// Use the database and the tables that are there.
    pub use_existing: bool,
    /// How long, in seconds; `None` for [`DURATION`], or for as long as `transactions` take.
    pub duration: Option<f64>,
    /// How many transactions, those that are rolled back on purpose included, instead of a time; with `duration`
    /// whichever comes first.
    pub transactions: Option<u64>,
    /// Threads, each of which makes one transaction after the other.
    pub threads: usize,
    /// When a commit counts as done.
    pub durability: Durability,
    /// Whether transactions lock nothing, and learn when they commit whether others were faster.
    pub optimistic: bool,
    /// Whether they are serializable, not only of one snapshot.
    pub serializable: bool,
    /// The seed of everything random.
    pub seed: u64,
    /// Wait for background work at the end.
    pub drain: bool,
    /// How the region is slowed down, for this run only.
    pub emulate: Emulation,
    /// Options of the store.
    pub options: Options,
    /// Of TPC-C.
    pub tpcc: TpccSettings,
    /// Of the workload of orders.
    pub orders: OrdersSettings,
    /// Of `randomtransaction`.
    pub sums: SumsSettings,
}

impl OltpPlan {
    /// The plan with every default.
    pub fn new(workload: OltpWorkload) -> OltpPlan {
        OltpPlan {
            workload,
            db: None,
            use_existing: false,
            duration: None,
            transactions: None,
            threads: 1,
            durability: Durability::Immediate,
            optimistic: false,
            serializable: false,
            seed: 42,
            drain: false,
            emulate: Emulation::None,
            options: Options::default(),
            tpcc: TpccSettings {
                warehouses: 1,
                think: false,
                shrink: 1,
            },
            orders: OrdersSettings {
                orders: 20_000,
                hot: 1000,
                warm: 10_000,
                cold_percent: 1.0,
                skew: 0.8,
                row_bytes: 100,
            },
            sums: SumsSettings {
                keys: 100_000,
                sets: 2,
            },
        }
    }

    /// Seconds after which the run ends; `None` if only the number of transactions ends it.
    pub(crate) fn seconds(&self) -> Option<f64> {
        match (self.duration, self.transactions) {
            (None, None) => Some(DURATION),
            (duration, _) => duration,
        }
    }

    /// How its transactions are made.
    pub(crate) fn txn_options(&self) -> TxnOptions {
        let options = match self.optimistic {
            true => TxnOptions::optimistic(),
            false => TxnOptions::pessimistic(),
        };
        let isolation = match self.serializable {
            true => Isolation::Serializable,
            false => Isolation::Snapshot,
        };
        options.isolation(isolation).durability(self.durability)
    }

    /// Its durability, locking and isolation in words.
    pub(crate) fn words(&self) -> [&'static str; 3] {
        [
            match self.durability {
                Durability::Immediate => "immediate",
                Durability::Buffered => "buffered",
            },
            match self.optimistic {
                true => "optimistic",
                false => "pessimistic",
            },
            match self.serializable {
                true => "serializable",
                false => "snapshot",
            },
        ]
    }

    /// Checks every value.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] naming the option and its limit.
    pub fn validate(&self) -> Result<()> {
        within("threads", self.threads as u64, 1, THREADS_MAX as u64)?;
        within(
            "transactions",
            self.transactions.unwrap_or(1),
            1,
            u64::MAX >> 1,
        )?;
        check_seconds("duration", self.duration)?;
        if self.use_existing && self.db.is_none() {
            return Err(wrong(
                "use-existing needs the database's folder: add --db DIR",
            ));
        }
        match self.workload {
            OltpWorkload::Tpcc => {
                within("warehouses", self.tpcc.warehouses, 1, WAREHOUSES_MAX)?;
                within("shrink", self.tpcc.shrink, 1, SHRINK_MAX)
            }
            OltpWorkload::Orders => self.orders.validate(),
            OltpWorkload::RandomTransaction => {
                within("num", self.sums.keys, 1, u64::MAX >> 1)?;
                within("sets", self.sums.sets, 1, SETS_MAX)
            }
        }
    }
}

impl OrdersSettings {
    fn validate(&self) -> Result<()> {
        within("orders", self.orders, 1, ORDERS_MAX)?;
        within("hot-orders", self.hot, 1, ORDERS_MAX)?;
        within("warm-orders", self.warm, self.hot, ORDERS_MAX)?;
        within("row-bytes", self.row_bytes as u64, 0, 1 << 20)?;
        if !(0.0..=100.0).contains(&self.cold_percent) {
            let got = self.cold_percent;
            return Err(wrong(&format!(
                "cold-percent lies between 0 and 100; {got} was given"
            )));
        }
        if !(0.0..1.0).contains(&self.skew) {
            let got = self.skew;
            return Err(wrong(&format!(
                "skew is at least 0 and below 1; {got} was given"
            )));
        }
        Ok(())
    }
}

fn wrong(what: &str) -> Error {
    Error::InvalidArgument(what.into())
}
