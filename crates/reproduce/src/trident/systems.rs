//! Kinds of stores that are compared, and how a part of their keys goes.

use thermocline_base::options::Preset;

use crate::trial::System;

/// How a partition goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Way {
    /// Every key is deleted by itself.
    Deletes,
    /// Its range is deleted.
    Range,
    /// The engine is told to drop it.
    Partition,
    /// It is a column family of its own, which is dropped.
    Family,
}

/// A kind of store, and the way in which its partitions go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contender {
    pub system: System,
    pub way: Way,
}

impl Contender {
    pub fn name(&self) -> &'static str {
        self.system.name
    }

    /// Whether it is what the paper proposes.
    pub fn is_trident(&self) -> bool {
        self.name() == TRIDENT.name()
    }
}

/// The paper's store without partitions.
pub(super) const DELETES: Contender = Contender {
    system: System {
        name: "leveled, a delete for each key",
        preset: Preset::Leveled,
        set: &[],
    },
    way: Way::Deletes,
};

pub(super) const RANGES: Contender = Contender {
    system: System {
        name: "leveled, delete_range",
        ..DELETES.system
    },
    way: Way::Range,
};

/// With all that the paper proposes. The length of prefixes is [`super::layout::PREFIX_BYTES`].
pub(super) const TRIDENT: Contender = Contender {
    system: System {
        name: "trident, drop_partition",
        preset: Preset::Trident,
        set: &[("partition.by", "prefix"), ("partition.prefix_len", "4")],
    },
    way: Way::Partition,
};

/// Partitions alone: cuts of tables and the index of keys have figures of their own.
pub(super) const PLAIN: Contender = Contender {
    system: System {
        name: "trident without cuts and key index",
        preset: Preset::Trident,
        set: &[
            ("partition.by", "prefix"),
            ("partition.prefix_len", "4"),
            ("partition.cuts", "false"),
            ("level0.key_index", "false"),
        ],
    },
    way: Way::Partition,
};

/// The paper's own rival.
pub(super) const FAMILIES: Contender = Contender {
    system: System {
        name: "leveled, a column family each",
        ..DELETES.system
    },
    way: Way::Family,
};

pub(super) const ALL: [&Contender; 5] = [&DELETES, &RANGES, &TRIDENT, &PLAIN, &FAMILIES];
