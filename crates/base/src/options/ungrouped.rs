//! The options that are in no group: budgets, places, names and keys, each of which is read in its own way.

/// An option that is in no group.
pub(in crate::options) struct Ungrouped {
    /// The name that [`Options::set`](crate::options::Options::set) takes.
    pub name: &'static str,
    /// What it takes, in words.
    pub takes: &'static str,
    /// Its meaning in short; the field of [`Options`](crate::options::Options) says all.
    pub doc: &'static str,
}

/// All of them.
pub(in crate::options) const UNGROUPED: &[Ungrouped] = &[
    Ungrouped {
        name: "dram",
        takes: "1MiB to 128TiB",
        doc: "Most DRAM that the store uses for indexes and caches. A limit, not a reservation.",
    },
    Ungrouped {
        name: "pm",
        takes: "256KiB to 128TiB",
        doc: "Most persistent memory that the store uses. A limit, not a reservation.",
    },
    Ungrouped {
        name: "preset",
        takes: "thermocline, global-index, pm-blade, flat-lsm, leveled or trident",
        doc: "The named set that the other options start from.",
    },
    Ungrouped {
        name: "pm_path",
        takes: "a file or a folder",
        doc: "Where persistent memory lies, if not in the database's folder.",
    },
    Ungrouped {
        name: "wal_path",
        takes: "a folder",
        doc: "With presets `leveled` and `trident`: where logs lie, if not in the database's folder.",
    },
    Ungrouped {
        name: "region",
        takes: "any, dax, file or shm",
        doc: "The kind of region without which an opening is refused. It is not remembered.",
    },
    Ungrouped {
        name: "emulate",
        takes: "none, optane or cxl",
        doc: "How the region is slowed down for an experiment. It is not remembered.",
    },
    Ungrouped {
        name: "partition.keys",
        takes: "keys that ascend, with commas between",
        doc: "Where each column family is divided, if `partition.by` is `keys`.",
    },
];
