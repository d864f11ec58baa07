//! Arguments of benchmarks of transactions.

use clap::Args;

/// Options of `bench tpcc`, `bench orders` and `bench randomtransaction`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of tpcc, orders and randomtransaction")]
pub(crate) struct OltpArgs {
    /// tpcc: warehouses, each of about 100 MB; 1 unless given
    #[arg(long, value_name = "W")]
    pub warehouses: Option<u64>,
    /// tpcc: each thread is a terminal, with keying and thinking times
    #[arg(long)]
    pub think: bool,
    /// tpcc: fewer customers and items, to try the benchmark itself
    #[arg(long, value_name = "N", hide = true)]
    pub shrink: Option<u64>,
    /// orders: orders that are there at the beginning; 20000 unless given
    #[arg(long, value_name = "N")]
    pub orders: Option<u64>,
    /// orders: an order changes until so many others were placed; 1000 unless given
    #[arg(long, value_name = "N")]
    pub hot_orders: Option<u64>,
    /// orders: an order is looked up often until so many others were placed; 10000 unless given
    #[arg(long, value_name = "N")]
    pub warm_orders: Option<u64>,
    /// orders: the part of lookups that is of older orders, in percent; 1 unless given
    #[arg(long, value_name = "PERCENT")]
    pub cold_percent: Option<f64>,
    /// orders: how much more often recent orders and active customers are chosen, from 0 to below 1; 0.8 unless given
    #[arg(long, value_name = "THETA")]
    pub skew: Option<f64>,
    /// orders: bytes of the text in each row; 100 unless given
    #[arg(long, value_name = "BYTES")]
    pub row_bytes: Option<usize>,
    /// randomtransaction: sets of --num keys, of each of which a transaction changes one; 2 unless given
    #[arg(long, value_name = "N")]
    pub sets: Option<u64>,
    /// End after so many transactions instead of a time
    #[arg(long, value_name = "N")]
    pub transactions: Option<u64>,
    /// Lock nothing, and learn at the commit whether others were faster
    #[arg(long)]
    pub optimistic: bool,
    /// Serializable transactions, not of one snapshot only
    #[arg(long)]
    pub serializable: bool,
}

impl OltpArgs {
    /// The options that were given, by name, with the workload that they are of; none for all.
    pub(crate) fn given(&self) -> Vec<(&'static str, Option<&'static str>)> {
        let (tpcc, orders) = (Some("tpcc"), Some("orders"));
        let sums = Some("randomtransaction");
        let all = [
            (self.warehouses.is_some(), "--warehouses", tpcc),
            (self.think, "--think", tpcc),
            (self.shrink.is_some(), "--shrink", tpcc),
            (self.orders.is_some(), "--orders", orders),
            (self.hot_orders.is_some(), "--hot-orders", orders),
            (self.warm_orders.is_some(), "--warm-orders", orders),
            (self.cold_percent.is_some(), "--cold-percent", orders),
            (self.skew.is_some(), "--skew", orders),
            (self.row_bytes.is_some(), "--row-bytes", orders),
            (self.sets.is_some(), "--sets", sums),
            (self.transactions.is_some(), "--transactions", None),
            (self.optimistic, "--optimistic", None),
            (self.serializable, "--serializable", None),
        ];
        let given = all.into_iter().filter(|(given, _, _)| *given);
        given.map(|(_, name, of)| (name, of)).collect()
    }
}
