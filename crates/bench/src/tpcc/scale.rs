//! How large everything is.

/// Districts of a warehouse.
pub(super) const DISTRICTS: u64 = 10;

/// How large everything is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    pub warehouses: u64,
    pub items: u64,
    /// Of a district, and so many orders at first.
    pub customers: u64,
    /// Of these, those not delivered yet.
    pub new_orders: u64,
}
