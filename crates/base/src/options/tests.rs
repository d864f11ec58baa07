//! Options are read, printed and checked alike.

use super::*;
use crate::codec::Codec;
use crate::index_kind::IndexKind;
use crate::size::parse_size;

#[test]
fn what_is_printed_reads_back() {
    let mut options = Options {
        dram: 3 << 20,
        pm: (1 << 30) + 1,
        pm_path: Some("/mnt/pmem/one two".into()),
        ..Options::default()
    };
    options.memtable.bytes_max = 12_345;
    options.read.verify_checksums = false;
    options.level0.shape = Some(Shape::Ssd);
    options.compaction.compression_last = Codec::Zstd;
    let mut again = Options::default();
    for (name, value) in options.effective() {
        again.set(name, &value).unwrap();
    }
    assert_eq!(options, again);
}

/// What is not remembered is as usual, so what is reads back as all of it.
#[test]
fn what_is_remembered_reads_back() {
    let mut options = Options::default();
    for (adapts, writers) in [(false, 8), (true, 8), (true, 3), (false, 3), (false, 8)] {
        options.compaction.rate_adapts = adapts;
        options.ssd.train_writers = writers;
        let mut again = Options::default();
        for (name, value) in options.remembered() {
            again.set(name, &value).unwrap();
        }
        assert_eq!(options, again);
        let more = options.effective().len() - options.remembered().len();
        assert_eq!(more, usize::from(!adapts) + usize::from(writers == 8));
    }
}

#[test]
fn a_preset_sets_its_options_and_others_override_them() {
    let mut options = Options::preset(Preset::GlobalIndex);
    assert_eq!(options.level0.merge_percent, 0);
    options.set("level0.merge_percent", "50").unwrap();
    let mut again = Options::default();
    for (name, value) in options.effective() {
        again.set(name, &value).unwrap();
    }
    assert_eq!(options, again);
    options.set("preset", "thermocline").unwrap();
    assert_eq!(options, Options::default());
    options.set("preset", "leveled").unwrap();
    assert_eq!(options, Options::preset(Preset::Leveled).settled());
    options.set("preset", "trident").unwrap();
    assert!(options.in_dram() && options.partition.cuts && options.level0.key_index);
    assert_eq!(options.ssd.index, IndexKind::Learned);
    options.set("preset", "thermocline").unwrap();
    assert_eq!(options, Options::default());
}

#[test]
fn what_holds_once_is_not_printed() {
    let once = Options {
        emulate: Emulation::Optane,
        region: RegionDemand::Shm,
        read_only: true,
        create_if_missing: false,
        ..Options::default()
    };
    assert_eq!(once.effective(), Options::default().effective());
}

#[test]
fn the_list_has_every_option_once_with_its_value_and_what_it_takes() {
    let options = Options {
        pm_path: Some("/mnt/pmem".into()),
        partition_keys: vec![b"m".to_vec()],
        ..Options::preset(Preset::FlatLsm)
    };
    let all = ListedOption::all(&options);
    let of = |name: &str| {
        let mut found = all.iter().filter(|one| one.name == name);
        let one = found.next().unwrap_or_else(|| panic!("{name}"));
        assert!(found.next().is_none(), "{name} is there twice");
        one
    };
    let effective = options.effective();
    for (name, value) in &effective {
        assert_eq!(of(name).value.as_ref(), Some(value), "{name}");
    }
    let set = all.iter().filter(|one| one.value.is_some());
    assert_eq!(set.count(), effective.len());
    for one in &all {
        assert_eq!(of(one.name), one);
        assert!(one.doc.ends_with('.') && !one.doc.contains('\n'), "{one:?}");
        if let Err(error) = Options::default().set(one.name, "?") {
            let known = !error.to_string().contains("there is no option");
            assert!(known, "{error}");
        }
    }
    for (name, takes) in [
        ("memtable.bytes_max", "0 to 64GiB"),
        ("memtable.idle_ms", "0 to 3600000 ms"),
        ("read.readahead", "1 to 4096"),
        ("ssd.direct", "true or false"),
        ("compaction.compression", "none, lz4 or zstd"),
    ] {
        assert_eq!(of(name).takes, takes);
    }
    // The limits that `validate` has.
    let limits = |name: &str| {
        let (least, most) = of(name).takes.split_once(" to ").unwrap();
        (parse_size(least).unwrap(), parse_size(most).unwrap())
    };
    assert_eq!(limits("dram"), (DRAM_MIN, DRAM_MAX));
    assert_eq!(limits("pm"), (PM_MIN, PM_MAX));
}

/// With a `dram` near 2^64 presets that keep their records there reserved no addresses at all, or panicked.
#[test]
fn budgets_have_limits_on_both_sides() {
    for preset in [Preset::Thermocline, Preset::Leveled, Preset::Trident] {
        let with = |dram: u64, pm: u64| {
            let options = Options {
                dram,
                pm,
                ..Options::preset(preset)
            };
            options.validate().map_err(|error| error.to_string())
        };
        for (dram, pm) in [(DRAM_MIN, PM_MAX), (DRAM_MAX, PM_MAX), (DRAM_MAX, 1 << 20)] {
            with(dram, pm).unwrap();
        }
        for dram in [0, DRAM_MIN - 1, DRAM_MAX + 1, u64::MAX - 4096, u64::MAX] {
            let error = with(dram, PM_MAX).unwrap_err();
            let limits = "dram lies between 1 MiB and 128 TiB; ";
            assert!(error.contains(limits), "{error}");
            // What lies beyond by a byte does not look as if it were the limit.
            assert!(!error.contains("; 1 MiB") && !error.contains("; 128 TiB"));
        }
        for pm in [0, PM_MIN - 1, PM_MAX + 1, u64::MAX] {
            let error = with(DRAM_MIN, pm).unwrap_err();
            let limits = "pm lies between 256 KiB and 128 TiB; ";
            assert!(error.contains(limits), "{error}");
        }
    }
}

/// Who gives little persistent memory has perhaps never heard of parts.
#[test]
fn less_than_the_first_part_is_refused_with_the_least_and_what_was_given() {
    let refused = |pm: u64, part: u64| {
        let mut options = Options {
            pm,
            ..Options::default()
        };
        options.pm_region.part_bytes_first = part;
        options
            .validate()
            .map_or_else(|e| e.to_string(), |()| String::new())
    };
    let default = Options::default().pm_region.part_bytes_first;
    for (pm, part, says) in [
        (
            PM_MIN,
            default,
            "pm is at least 1 MiB here, as large as the first part of a region; 256 KiB was given: give more, or set \
             pm.part_bytes_first to 256 KiB",
        ),
        ((1 << 20) - 1, default, "; 1048575 B was given"),
        ((1 << 20) - 1, default, "pm.part_bytes_first to 512 KiB"),
        (4 << 20, 3 << 20, "must be a power of two; 3 MiB was given"),
    ] {
        let error = refused(pm, part);
        assert!(error.contains(says), "{error}");
    }
    assert_eq!(refused(PM_MIN, PM_MIN), "");
    assert_eq!(refused(default, default), "");
}

#[test]
fn an_option_takes_each_word_that_the_list_names() {
    for one in ListedOption::all(&Options::default()) {
        let has_words = one.takes.contains(" or ") && one.name != "pm_path";
        let words = one.takes.replace(" or ", ", ");
        for word in words.split(", ").filter(|_| has_words) {
            Options::default().set(one.name, word).unwrap();
        }
    }
}

#[test]
fn nonsense_is_refused_with_the_limit() {
    let mut options = Options::default();
    for (name, value, says) in [
        ("memtable.bytes", "1", "memtable.bytes_max"),
        ("memtable.bytes_max", "12 apples", "a size like 64MiB"),
        ("memtable.bytes_max", "99999999TiB", "0 to 64GiB"),
        ("read.readahead", "-1", "a whole number, 1 to 4096"),
        ("memtable.idle_ms", "9e9", "milliseconds, 0 to 3600000 ms"),
        ("read.readahead", "0", "between 1 and 4096"),
        ("read.verify_checksums", "yes", "true or false"),
        (
            "level0.shape",
            "pyramid",
            "auto, immutables, global-index, ssd, pm-tables or tiered",
        ),
        ("compaction.compression", "brotli", "none, lz4 or zstd"),
        ("compaction.compression", "3", "none, lz4 or zstd"),
        ("preset", "d-compaction", "delayed compaction"),
        ("preset", "rocks", "there is no preset"),
        ("region", "optane", "dax"),
        ("pm_path", "", "empty"),
        ("wal_path", "", "empty"),
    ] {
        let error = options.set(name, value).unwrap_err().to_string();
        assert!(error.contains(says), "{name}={value}: {error}");
    }
    assert_eq!(options, Options::default());
    for bad in [
        Options {
            dram: 1,
            ..Options::default()
        },
        Options {
            pm: 1,
            ..Options::default()
        },
        Options {
            pm: 512 << 10,
            ..Options::default()
        },
        Options {
            wal_path: Some("logs".into()),
            ..Options::default()
        },
        Options {
            preset: Preset::Leveled,
            pm_path: Some("region".into()),
            ..Options::default()
        },
        Options {
            preset: Preset::Leveled,
            level0: Level0Options {
                shape: Some(Shape::Immutables),
                ..Level0Options::default()
            },
            ..Options::default()
        },
        Options {
            preset: Preset::Leveled,
            region: RegionDemand::Dax,
            ..Options::default()
        },
        Options {
            preset: Preset::Leveled,
            emulate: Emulation::Cxl,
            ..Options::default()
        },
    ] {
        assert!(bad.validate().is_err(), "{bad:?}");
    }
    Options::default().validate().unwrap();
}

#[test]
fn a_table_has_four_mib_at_least_where_that_is_a_sixteenth_of_persistent_memory() {
    let tables = |preset: Preset, pm: u64| {
        let mut options = Options::preset(preset).on_region(true);
        (options.pm, options.dram) = (pm << 20, pm << 18);
        options.table_bytes() >> 20
    };
    let own = |pm| tables(Preset::Thermocline, pm);
    assert_eq!([16, 32, 48, 64, 128].map(own), [2, 2, 3, 4, 4]);
    assert_eq!([256, 512, 1 << 13].map(own), [8, 16, 64]);
    // What stands for persistent memory is a quarter of `dram`.
    let leveled = |pm| tables(Preset::Leveled, pm);
    assert_eq!([64, 512, 1024].map(leveled), [2, 2, 4]);
}

#[test]
fn memtables_beside_tables_are_half_as_large_unless_that_is_said_or_they_are_as_large_as_can_be() {
    let sizes = |options: &Options| {
        let beside = |tables| options.memtable_bytes_beside(tables) >> 20;
        (beside(false), beside(true))
    };
    let mut options = Options {
        pm: 1 << 30,
        ..Options::default()
    };
    options.level0.shape = Some(Shape::Tiered);
    assert_eq!(sizes(&options), (64, 32));
    options.pm = 16 << 30;
    assert_eq!(sizes(&options), (256, 256));
    // There are places for 64: these are as large as they must be for all of it to be of use.
    options.pm = 64 << 30;
    assert_eq!(sizes(&options), (1 << 10, 1 << 10));
    options.pm = 1 << 50;
    assert_eq!(sizes(&options), (64 << 10, 64 << 10));
    options.pm = 1 << 30;
    options.memtable.bytes_max = 24 << 20;
    assert_eq!(sizes(&options), (24, 24));
    options.memtable.bytes_max = 0;
    options.level0.shape = Some(Shape::GlobalIndex);
    assert_eq!(sizes(&options), (128, 128));
}

/// What the texts of `memtable.bytes_max` and `compaction.base_bytes` say, for a gibibyte of persistent memory and one of DRAM.
#[test]
fn sizes_are_the_parts_that_the_options_name() {
    const PM: u64 = 1 << 30;
    let percent = |share: u64| PM / 100 * share;
    let of = |preset, shape: Option<Shape>| {
        let mut options = Options {
            pm: PM,
            ..Options::preset(preset)
        };
        options.level0.shape = shape.or(options.level0.shape);
        options
    };
    let own = |shape| of(Preset::Thermocline, Some(shape));
    let preset = |preset| of(preset, None);
    // The parts of a memtable, of the largest that can be set, and the base level.
    let cases = [
        (own(Shape::Tiered), 16, 8, 4 * (percent(65) / 2)),
        (own(Shape::PmTables), 8, 4, 4 * percent(65)),
        (own(Shape::GlobalIndex), 8, 4, 4 * percent(50)),
        (own(Shape::Immutables), 8, 4, 4 * percent(50)),
        (own(Shape::Ssd), 8, 4, 4 * (PM / 8)),
        (preset(Preset::PmBlade), 8, 4, 4 * percent(80)),
        (preset(Preset::FlatLsm), 6, 4, PM / 3 * 10),
        (preset(Preset::Leveled), 16, 16, 4 * (PM / 16)),
        (preset(Preset::Trident), 16, 16, 4 * (PM / 16)),
    ];
    for (mut options, memtable, largest, base) in cases {
        assert_eq!(options.memtable_bytes(), PM / memtable, "{options:?}");
        assert_eq!(options.base_bytes(), base, "{options:?}");
        options.memtable.bytes_max = PM;
        assert_eq!(options.memtable_bytes(), PM / largest, "{options:?}");
        options.flush.automatic = false;
        assert_eq!(options.memtable_bytes(), PM, "{options:?}");
    }
    let mut by_hand = own(Shape::Tiered);
    by_hand.flush.automatic = false;
    assert_eq!(by_hand.base_bytes(), 4 * (PM / 16));
    // Beside tables.
    assert_eq!(own(Shape::Tiered).memtable_bytes_beside(true), PM / 32);
}

#[test]
fn the_baseline_derives_its_sizes_from_dram() {
    let mut options = Options::default();
    options.set("preset", "leveled").unwrap();
    options.set("wal_path", "/mnt/pmem/logs").unwrap();
    options.validate().unwrap();
    assert_eq!(options.region_bytes_max(), 256 << 20);
    assert_eq!(options.memtable_bytes(), 64 << 20);
    options.dram = DRAM_MIN;
    assert_eq!(options.region_bytes_max(), 256 << 10);
    assert_eq!(options.memtable_bytes(), 64 << 10);
    options.memtable.bytes_max = 12_345;
    assert_eq!(options.memtable_bytes(), 12_345);
    options.memtable.bytes_max = 1 << 30;
    assert_eq!(options.memtable_bytes(), 64 << 10);
    assert_eq!(options.clone().settled().level0.shape(), Shape::Ssd);
    assert_eq!(Options::default().settled(), Options::default());
    let mut again = Options::default();
    for (name, value) in options.effective() {
        again.set(name, &value).unwrap();
    }
    assert_eq!(options, again);
}

#[test]
fn every_default_lies_in_its_range() {
    for row in Options::rows() {
        row.check(row.default).unwrap();
        assert!(!row.doc.is_empty());
    }
}

#[test]
fn preset_flat_lsm_has_the_sizes_of_the_paper() {
    let mut options = Options {
        pm: 12 << 30,
        ..Options::preset(Preset::FlatLsm)
    };
    assert_eq!(options.memtable_bytes(), 2 << 30);
    assert_eq!(options.base_bytes(), 40 << 30);
    assert_eq!(
        (options.flush.generations, options.compaction.levels),
        (4, 2)
    );
    assert_eq!(options.blob.value_bytes_min, 512);
    // Four wait before the share of their bytes is reached.
    assert!(4 * options.memtable_bytes() < options.pm / 100 * options.flush.pm_percent);
    options.compaction.base_bytes = 1 << 30;
    assert_eq!(options.base_bytes(), 1 << 30);
    options.set("preset", "thermocline").unwrap();
    let bytes = (options.pm, options.compaction.base_bytes);
    assert_eq!(
        (options.compaction.levels, options.flush.generations),
        (6, 0)
    );
    options.set("preset", "flat-lsm").unwrap();
    assert_eq!((options.pm, options.compaction.base_bytes), bytes);
}

/// Several may be set at once, and there are too many to look through for the one that was meant.
#[test]
fn what_is_refused_is_named_with_what_is_near() {
    let refused = |name: &str, value: &str| {
        let error = Options::default().set(name, value).unwrap_err();
        error.to_string()
    };
    for name in ["dram", "pm"] {
        let told = refused(name, "1GB");
        let says = format!("invalid argument: {name}: '1GB' is not a size: ");
        assert!(told.starts_with(&says), "{told}");
    }
    assert_eq!(
        refused("metrics.latency", "1"),
        "invalid argument: there is no option 'metrics.latency'; the options of its group are metrics.latency_every"
    );
    let told = refused("partition.key", "a");
    assert!(
        told.contains(" are partition.keys, partition.by, "),
        "{told}"
    );
    assert!(!told.contains("dram") && !told.contains("flush."), "{told}");
    for name in ["DRAM", "memtables.bytes_max", ""] {
        let told = refused(name, "1");
        let says = format!("there is no option '{name}'; the options are dram, pm, ");
        assert!(told.contains(&says) && told.contains("flush."), "{told}");
    }
}
