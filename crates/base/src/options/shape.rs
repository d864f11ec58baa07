//! What each shape of level 0 means, one row for each.

/// The future of sealed memtables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// They stay in persistent memory until they are flushed, each with its own index, into the level below level 0
    /// (FlatLSM §4.3).
    Immutables,
    /// They stay there, and get one index in common.
    GlobalIndex,
    /// They are flushed as soon as they are sealed.
    Ssd,
    /// They are flushed as soon as they are sealed, into tables in persistent memory.
    PmTables,
    /// They stay there, and get one index in common, until they are flushed into tables in persistent memory.
    Tiered,
}

/// What a shape means for decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Capabilities {
    merges_indexes: bool,
    keeps_memtables_sealed: bool,
    keeps_tables_in_pm: bool,
    evacuates_by_range: bool,
    sinks: bool,
    rewrites: bool,
}

impl Shape {
    /// All of them, by their places among [`SHAPES`](crate::options::SHAPES).
    pub const ALL: [Shape; 5] = [
        Shape::Immutables,
        Shape::GlobalIndex,
        Shape::Ssd,
        Shape::PmTables,
        Shape::Tiered,
    ];

    const fn capabilities(self) -> Capabilities {
        let none = Capabilities {
            merges_indexes: false,
            keeps_memtables_sealed: false,
            keeps_tables_in_pm: false,
            evacuates_by_range: false,
            sinks: false,
            rewrites: false,
        };
        match self {
            Shape::Immutables => Capabilities {
                keeps_memtables_sealed: true,
                sinks: true,
                rewrites: true,
                ..none
            },
            Shape::GlobalIndex => Capabilities {
                merges_indexes: true,
                keeps_memtables_sealed: true,
                rewrites: true,
                ..none
            },
            Shape::Ssd => none,
            Shape::PmTables => Capabilities {
                keeps_tables_in_pm: true,
                ..none
            },
            Shape::Tiered => Capabilities {
                merges_indexes: true,
                keeps_memtables_sealed: true,
                keeps_tables_in_pm: true,
                evacuates_by_range: true,
                ..none
            },
        }
    }

    /// Whether sealed memtables get one index in common.
    pub const fn merges_indexes(self) -> bool {
        self.capabilities().merges_indexes
    }

    /// Whether sealed memtables stay for a while before they are flushed.
    pub const fn keeps_memtables_sealed(self) -> bool {
        self.capabilities().keeps_memtables_sealed
    }

    /// Whether all tables of level 0 are to lie in persistent memory.
    pub const fn keeps_tables_in_pm(self) -> bool {
        self.capabilities().keeps_tables_in_pm
    }

    /// Whether a flush is cut into ranges of keys, each of which stays in persistent memory or leaves it.
    pub const fn evacuates_by_range(self) -> bool {
        self.capabilities().evacuates_by_range
    }

    /// Whether a flush merges what it takes with the level below level 0, range by range, and leaves nothing in level 0.
    pub const fn sinks(self) -> bool {
        self.capabilities().sinks
    }

    /// Whether a flush of mostly dead memtables writes the live rest into persistent memory, though other flushes go
    /// to the SSD.
    pub const fn rewrites(self) -> bool {
        self.capabilities().rewrites
    }
}
