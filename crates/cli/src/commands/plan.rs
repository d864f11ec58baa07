//! `plan`: what a store would do, by the model of `policy`.

use serde_json::{Value, json};
use thermocline::options::{Options, Preset};
use thermocline::size::format_size;
use thermocline::{Error, limits};
use thermocline_policy::simulate::{
    BATCH_BYTES, Bound, Demand, Forecast, Record, Setting, Spread, forecast,
};

use crate::args::{PlanArgs, SpreadArg};
use crate::commands::waiting::waited;
use crate::fail::{Failure, Outcome};
use crate::output::Output;
use crate::progress::Known;

/// The model has so many ranges of keys, each with a key at least.
const RECORDS_MIN: u64 = 10_000;

/// The largest store that it was looked at with.
const DATA_MAX: u64 = 1 << 50;

/// So many records fit a memtable at least.
const RECORDS_OF_MEMTABLE: u64 = 16;

/// Options that a model has no use for: it lies nowhere, and has no region that could be slowed down.
const UNUSED: [&str; 4] = ["pm_path", "wal_path", "region", "emulate"];

/// Says what may be expected.
pub(crate) fn plan(args: &PlanArgs, output: &mut Output) -> Outcome {
    let demand = demand(args)?;
    let model = || forecast(&demand);
    let forecast = waited("planning", output, || Known::Nothing, model);
    if output.json {
        return output.document(&as_json(&demand, &forecast));
    }
    output.line(&heading(&demand))?;
    output.line("")?;
    for (name, text) in rows(&demand, &forecast) {
        output.line(&format!("  {name:<20} {text}"))?;
    }
    output.line("")?;
    output.line(&verdict(&demand, &forecast))?;
    output.note("These are figures of a model; docs/plan.md says how right it is.")
}

/// Refuses what has an option of its own, and what would change nothing.
fn check_set(set: &[(String, String)]) -> Outcome {
    let own = ["preset", "pm", "dram"];
    for (name, value) in set {
        if own.contains(&name.as_str()) {
            return Err(Failure::Usage(format!(
                "give --{name} {value} instead of --set {name}={value}"
            )));
        }
        if UNUSED.contains(&name.as_str()) {
            return Err(Failure::Usage(format!(
                "a plan opens no store, so --set {name}={value} would change nothing; leave it out"
            )));
        }
    }
    Ok(())
}

fn demand(args: &PlanArgs) -> Outcome<Demand> {
    let preset = Preset::parse(&args.preset).map_err(Failure::usage)?;
    let mut options = Setting::options(preset, args.pm, args.dram);
    check_set(&args.set)?;
    for (name, value) in &args.set {
        options.set(name, value).map_err(Failure::usage)?;
    }
    let options = options.settled().on_region(true);
    options.validate().map_err(Failure::usage)?;
    let record = Record {
        key_bytes: args.key_size,
        value_bytes: args.value_size,
    };
    check(args, &options, &record)?;
    Ok(Demand {
        options,
        data_bytes: args.data,
        record,
        writes_per_s: args.writes,
        reads_per_s: args.reads as f64,
        device_per_s: args.device,
        skew: args.skew,
        spread: match args.spread {
            SpreadArg::Keys => Spread::Keys,
            SpreadArg::Ranges => Spread::Ranges,
        },
        processors: usize::from(args.processors),
    })
}

fn check(args: &PlanArgs, options: &Options, record: &Record) -> Outcome {
    let refused = |why: String| Err(Failure::usage(Error::InvalidArgument(why)));
    let longest = limits::KEY_LEN_MAX as u64;
    if args.key_size == 0 || args.key_size > longest {
        return refused(format!(
            "--key-size lies between 1 and {longest}; {} was given",
            args.key_size
        ));
    }
    let inline = options.blob.inline_bytes_max;
    if args.value_size > inline {
        return refused(format!(
            "--value-size is at most {}, since longer values go into blob files, which the model leaves out; {} was given",
            format_size(inline),
            format_size(args.value_size)
        ));
    }
    let apart = options.blob.value_bytes_min;
    if apart > 0 && args.value_size >= apart {
        return refused(format!(
            "--value-size is below {}, since longer values go into blob files, which the model leaves out (--set \
             blob.value_bytes_min=0 keeps them in tables); {} was given",
            format_size(apart),
            format_size(args.value_size)
        ));
    }
    let memtable = options.memtable_bytes();
    if record.in_memtable() * RECORDS_OF_MEMTABLE > memtable {
        return refused(format!(
            "a memtable of {} has no room for {RECORDS_OF_MEMTABLE} such records: give more --pm, or smaller values",
            format_size(memtable)
        ));
    }
    let least = RECORDS_MIN * record.user();
    if args.data < least || args.data > DATA_MAX {
        return refused(format!(
            "--data lies between {} ({RECORDS_MIN} such records) and {}; {} was given",
            format_size(least),
            format_size(DATA_MAX),
            format_size(args.data)
        ));
    }
    Ok(())
}

fn heading(demand: &Demand) -> String {
    let options = &demand.options;
    let ratio = demand.data_bytes as f64 / options.region_bytes_max() as f64;
    let memory = match options.in_dram() {
        true => format!(
            "{} of DRAM, of which memtables have {}",
            format_size(options.dram),
            format_size(options.region_bytes_max())
        ),
        false => format!(
            "{} of persistent memory and {} of DRAM",
            format_size(options.pm),
            format_size(options.dram)
        ),
    };
    format!(
        "{} of data on {memory} ({ratio:.1} times that), {} written, skew {}, preset {}",
        format_size(demand.data_bytes),
        rate(demand.writes_per_s),
        demand.skew,
        options.preset.name()
    )
}

/// In the units that devices are sold by.
fn rate(bytes_per_s: f64) -> String {
    match bytes_per_s {
        b if b >= 1e9 => format!("{:.2} GB/s", b / 1e9),
        b if b >= 1e6 => format!("{:.1} MB/s", b / 1e6),
        b => format!("{:.1} kB/s", b / 1e3),
    }
}

fn percent(part: f64) -> String {
    match part * 100.0 {
        p if p >= 10.0 => format!("{p:.0} %"),
        p => format!("{p:.1} %"),
    }
}

fn rows(demand: &Demand, forecast: &Forecast) -> Vec<(&'static str, String)> {
    let (ideal, felt) = (&forecast.ideal, &forecast.felt);
    let options = &demand.options;
    let log = match forecast.logged > 0.0 {
        true => format!(", and {:.1} of its log at least", forecast.logged),
        false => String::new(),
    };
    let mut rows = vec![
        (
            "write amplification",
            format!(
                "{:.1} bytes of tables on the SSD for each byte written{log}",
                forecast.write_amplification
            ),
        ),
        (
            "SSD",
            format!(
                "{} written, {} read by background work: {} of {}",
                rate(forecast.ssd_written_per_s),
                rate(forecast.ssd_read_per_s),
                percent(forecast.device_used),
                rate(demand.device_per_s)
            ),
        ),
        (
            "resident",
            format!(
                "{} of all keys are in persistent memory or memtables; so is what {} of writes go to",
                percent(ideal.resident_keys),
                percent(ideal.resident_writes)
            ),
        ),
    ];
    if !options.in_dram() {
        let bytes = |bytes: f64| format!("{:.1} GiB", bytes / f64::from(1 << 30));
        rows.push((
            "persistent memory",
            format!(
                "{} of tables on average, {} in use at most, of {}",
                bytes(felt.pm_table_bytes),
                bytes(felt.pm_bytes_max as f64),
                format_size(options.pm)
            ),
        ));
    }
    rows.push((
        "DRAM",
        format!(
            "{} for indexes at most, of {}",
            format_size(felt.index_bytes_max),
            format_size(options.dram)
        ),
    ));
    rows.push(("delay", delay(forecast)));
    rows.push((
        "processors",
        format!(
            "{:.1} busy with background work, of {} and one for flushes",
            forecast.processors_busy, demand.processors
        ),
    ));
    rows
}

fn delay(forecast: &Forecast) -> String {
    let felt = &forecast.felt;
    let wait = felt.wait_ns_max(BATCH_BYTES) / 1e6;
    let share = felt.held_ns / 1e9 / felt.seconds.max(f64::MIN_POSITIVE);
    match wait {
        wait if wait < 0.05 => "none".to_string(),
        wait => format!(
            "a write of {} waits {wait:.1} ms at most; writers are held back for {} of the time",
            format_size(BATCH_BYTES),
            percent(share)
        ),
    }
}

/// What limits, as a sentence.
fn verdict(demand: &Demand, forecast: &Forecast) -> String {
    let most = rate(forecast.writes_per_s_max);
    let asked = rate(demand.writes_per_s);
    match forecast.bound {
        Bound::Device => format!(
            "The SSD limits: {asked} of writes would need more than it does, and {most} are the most that it carries."
        ),
        Bound::Processors => format!(
            "Processors limit: {asked} of writes would keep {:.1} busy; about {most} can be had with those there are.",
            forecast.processors_busy
        ),
        Bound::Memory => "Persistent memory limits: it fills in bursts faster than background work empties it, and \
             writers wait for that. More of it, or a lower rate, shortens the waits."
            .to_string(),
        Bound::Levels => format!(
            "Levels limit: so much waits for compaction at times that writers are held back. At about {most} the {} would \
             be used in full.",
            forecast.full_first.name()
        ),
        Bound::Dram => format!(
            "DRAM limits: {} of {} flushes begin because indexes have their share of it, before persistent memory is used. \
             It carries the load all the same.",
            forecast.ideal.flushes_for_dram, forecast.ideal.flushes
        ),
        Bound::Nothing => format!(
            "Nothing limits at this rate. At about {most} the {} would be used in full.",
            forecast.full_first.name()
        ),
    }
}

fn as_json(demand: &Demand, forecast: &Forecast) -> Value {
    let (ideal, felt) = (&forecast.ideal, &forecast.felt);
    json!({
        "preset": demand.options.preset.name(),
        "data_bytes": demand.data_bytes,
        "pm_bytes": demand.options.pm,
        "dram_bytes": demand.options.dram,
        "writes_bytes_per_s": demand.writes_per_s,
        "reads_per_s": demand.reads_per_s,
        "device_bytes_per_s": demand.device_per_s,
        "skew": demand.skew,
        "key_size": demand.record.key_bytes,
        "value_size": demand.record.value_bytes,
        "write_amplification_ssd": forecast.write_amplification,
        "log_amplification": forecast.logged,
        "ssd_written_bytes_per_s": forecast.ssd_written_per_s,
        "ssd_read_bytes_per_s": forecast.ssd_read_per_s,
        "device_used": forecast.device_used,
        "resident_keys": ideal.resident_keys,
        "resident_writes": ideal.resident_writes,
        "pm_table_bytes": felt.pm_table_bytes,
        "pm_bytes_max": felt.pm_bytes_max,
        "dram_index_bytes_max": felt.index_bytes_max,
        "wait_ms_max": felt.wait_ns_max(BATCH_BYTES) / 1e6,
        "stall_ms_max": felt.stall_ns_max / 1e6,
        "written_bytes_per_s": felt.written_per_s(),
        "processors_busy": forecast.processors_busy,
        "writes_bytes_per_s_max": forecast.writes_per_s_max,
        "limit": forecast.bound.name(),
    })
}
