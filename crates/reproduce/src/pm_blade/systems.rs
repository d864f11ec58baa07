//! Kinds of stores that are compared: this engine's, by the paper's names for them.

use thermocline_base::options::Preset;

use crate::trial::System;

/// The paper's PMBlade: PM tables, merged in persistent memory when that pays.
pub(super) const PMBLADE: System = System {
    name: "pm-tables, internal compaction",
    preset: Preset::Thermocline,
    set: &[
        ("level0.shape", "pm-tables"),
        ("level0.internal", "corrected"),
    ],
};

/// PMBlade-PM: the same, never merged there but by hand, and level 0 leaves as a whole when it is full.
pub(super) const PMBLADE_PM: System = System {
    name: "pm-tables, none",
    preset: Preset::Thermocline,
    set: &[("level0.shape", "pm-tables"), ("level0.internal", "off")],
};

/// PMBlade-SSD.
pub(super) const PMBLADE_SSD: System = System {
    name: "level 0 on the SSD",
    preset: Preset::Thermocline,
    set: &[("level0.shape", "ssd")],
};

/// Sealed memtables that stay until there are many.
pub(super) const IMMUTABLES: System = System {
    name: "immutables",
    preset: Preset::Thermocline,
    set: &[("level0.shape", "immutables")],
};

/// In the place of RocksDB.
pub(super) const LEVELED: System = System {
    name: "leveled",
    preset: Preset::Leveled,
    set: &[],
};

/// This engine's own: sealed memtables with one index, and PM tables behind them.
pub(super) const TIERED: System = System {
    name: "tiered",
    preset: Preset::Thermocline,
    set: &[("level0.shape", "tiered")],
};

/// Sealed memtables with one index, and the SSD behind them.
pub(super) const GLOBAL_INDEX: System = System {
    name: "global-index",
    preset: Preset::Thermocline,
    set: &[("level0.shape", "global-index")],
};
