//! How large the index of a table is, and how long a search in it takes, learned against binary:
//! `cargo run --release -p thermocline-sst --features examples --example index`.
//!
//! By kind of keys and size of values, tables of up to 100,000 entries and 64 MiB in a temporary folder. A
//! search leads from a key to a data block, which is not read; lower index blocks are in a cache of blocks. Each
//! key that is sought is in the table. Of real cities there are some 5,000 names. *one level* is a binary index whose
//! blocks are so large that there is only a root, which no cache stands before.

use std::collections::BTreeSet;
use std::path::Path;

use thermocline_base::{CfId, FileId, Kind, Result, SeqNo};
use thermocline_env::{Env, OpenMode};
use thermocline_sst::{
    BlockCache, BlockHandle, BlockKind, BlockSource, IndexKind, IndexUse, KeyRef, Move, SyncCursor,
    Table, TablePart, TableWriter, Value, WriteOptions, open_table,
};
use thermocline_testkit::{Rng, cities};

const ENTRIES_MAX: usize = 100_000;
const BYTES_MAX: usize = 64 << 20;
const SEARCHES: usize = 200_000;

type Keys = BTreeSet<Vec<u8>>;

fn random(rng: &mut Rng, len: usize) -> Vec<u8> {
    (0..len).map(|_| rng.next_u64().to_le_bytes()[0]).collect()
}

fn city(rng: &mut Rng) -> Vec<u8> {
    let first = [
        "Alten", "Bad ", "Ober", "Saint-", "Santa ", "New ", "Port ", "Wald", "Neu",
    ];
    let stem = [
        "berg", "hausen", "ville", "mar", "ton", "furt", "lin", "dorf", "estre", "ova",
    ];
    let last = ["", "", " am Main", "-sur-Mer", " del Norte", "stadt", "a"];
    let stems: String = (0..=rng.below(5)).map(|_| *rng.pick(&stem)).collect();
    [*rng.pick(&first), &stems, *rng.pick(&last)]
        .concat()
        .into_bytes()
}

fn url(rng: &mut Rng) -> Vec<u8> {
    let parts = [
        "catalogue/furniture/tables",
        "catalogue/lamps",
        "account/orders",
        "help",
    ];
    let (part, page, id) = (rng.pick(&parts), rng.below(40), rng.below(200_000));
    format!("https://www.example.com/shop/en/{part}/page/{page}/item?id={id}").into_bytes()
}

fn uuid(rng: &mut Rng) -> Vec<u8> {
    let hex: String = random(rng, 16).iter().map(|b| format!("{b:02x}")).collect();
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
    .into_bytes()
}

fn kinds(count: usize) -> Vec<(&'static str, Keys)> {
    let of = |make: &dyn Fn(&mut Rng, usize) -> Vec<u8>| -> Keys {
        let mut rng = Rng::new(1);
        (0..count).map(|n| make(&mut rng, n)).collect()
    };
    let two_tables = |rng: &mut Rng, n: usize| match n % 2 {
        0 => format!("orders/{:010}", rng.below(1 << 30)).into_bytes(),
        _ => [b"stock/", &random(rng, 8)[..]].concat(),
    };
    let real_cities = cities().take(count).map(|name| name.as_bytes().to_vec());
    vec![
        (
            "numbers in order",
            of(&|_, n| format!("{n:016}").into_bytes()),
        ),
        (
            "numbers, 1 % gaps",
            of(&|_, n| format!("{:016}", n + n / 100 * 9000).into_bytes()),
        ),
        (
            "numbers, drawn",
            of(&|rng, _| format!("{:016}", rng.below(1 << 40)).into_bytes()),
        ),
        (
            "numbers, half of them",
            of(&|rng, _| format!("{:016}", rng.below(2 * count)).into_bytes()),
        ),
        ("random bytes", of(&|rng, _| random(rng, 16))),
        ("UUIDs", of(&|rng, _| uuid(rng))),
        ("cities", of(&|rng, _| city(rng))),
        ("real cities", real_cities.collect()),
        ("URLs", of(&|rng, _| url(rng))),
        ("two tables", of(&two_tables)),
    ]
}

struct Measured {
    index: usize,
    charge: usize,
    used: IndexUse,
    blocks: u64,
    ns: u64,
    written_ns: u64,
}

/// Writes a table, and searches for its keys, each time in the same order.
fn measured(keys: &Keys, value: &[u8], options: WriteOptions, path: &Path) -> Result<Measured> {
    let env = Env::real();
    let id = thermocline_sst::Identity::new([7; 16], FileId(1));
    let begin = env.clock.now_ns();
    let mut writer = TableWriter::create(&*env.storage, path, id, CfId(0), options)?;
    for (n, key) in (1..).zip(keys) {
        let key = KeyRef::new(key, SeqNo(1_000_000 + n));
        writer.add(key, Kind::Put, Value::Inline(value))?;
    }
    let meta = writer.finish()?;
    let written_ns = env.clock.now_ns() - begin;
    let file = env.storage.open(path, OpenMode::Read)?;
    let table = open_table(&*file, id)?;
    let store = BlockCache::new(256 << 20).store();
    let source = store.source(file);
    let lower = lower_index_bytes(&table, &source)?;
    let footer = thermocline_sst::FOOTER_LEN as u64;
    let mut tail = vec![0; 80];
    let opened = env.storage.open(path, OpenMode::Read)?;
    opened.read_exact_at(&mut tail, meta.bytes - footer)?;
    let root = u32::from_le_bytes(tail[48..52].try_into().expect("four bytes"));
    let all: Vec<&Vec<u8>> = keys.iter().collect();
    let mut rng = Rng::new(2);
    let sought: Vec<&Vec<u8>> = (0..SEARCHES).map(|_| *rng.pick(&all)).collect();
    let mut cursor = SyncCursor::new(TablePart::whole(table.clone()), source);
    let mut best = u64::MAX;
    for _ in 0..5 {
        let begin = env.clock.now_ns();
        for key in &sought {
            let found = cursor.foresee(Move::Seek(KeyRef::new(key, SeqNo::MAX)))?;
            assert!(found.is_some());
        }
        best = best.min(env.clock.now_ns() - begin);
    }
    env.storage.remove(path)?;
    Ok(Measured {
        index: lower + usize::try_from(root).expect("a length"),
        charge: table.charge(),
        used: meta.properties.index,
        blocks: meta.properties.data_blocks,
        ns: best / SEARCHES as u64,
        written_ns,
    })
}

/// Counts lower index blocks on the way, each once.
fn lower_index_bytes(table: &std::sync::Arc<Table>, source: &impl BlockSource) -> Result<usize> {
    let mut seen = BTreeSet::new();
    let mut cursor = thermocline_sst::Cursor::new(TablePart::whole(table.clone()));
    let mut len = 0;
    let mut step = cursor.start(Move::First)?;
    loop {
        step = match step {
            thermocline_sst::Step::Need(handle) => {
                let BlockHandle { offset, kind, .. } = handle;
                if kind == BlockKind::Index && seen.insert(offset) {
                    len += usize::try_from(handle.len).expect("a length");
                }
                cursor.supply(source.block(table, handle)?)?
            }
            thermocline_sst::Step::Done(true) => cursor.start(Move::Next)?,
            thermocline_sst::Step::Done(false) => return Ok(len),
        };
    }
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("table");
    println!(
        "| keys | value | blocks | binary, bytes | learned | times smaller | search, ns: binary | one level | learned | written, ms: binary | learned |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for value_len in [16, 128, 1024, 16 << 10] {
        let count = ENTRIES_MAX.min(BYTES_MAX / value_len);
        for (name, keys) in kinds(count) {
            let value = random(&mut Rng::new(3), value_len);
            let options = |index, index_block_bytes| WriteOptions {
                index,
                index_block_bytes,
                ..WriteOptions::default()
            };
            let of = |options| measured(&keys, &value, options, &path);
            let binary = of(options(IndexKind::Binary, 4 << 10))?;
            let one_level = of(options(IndexKind::Binary, 1 << 20))?;
            let learned = of(options(IndexKind::Learned, 4 << 10))?;
            let fell_back = if learned.used == IndexUse::FellBack {
                " (fell back)"
            } else {
                ""
            };
            println!(
                "| {name} | {value_len} | {} | {} | {}{fell_back} | {:.1} | {} | {} | {} | {} | {} |",
                binary.blocks,
                binary.index,
                learned.index,
                binary.index as f64 / learned.index as f64,
                binary.ns,
                one_level.ns,
                learned.ns,
                binary.written_ns / 1_000_000,
                learned.written_ns / 1_000_000,
            );
            assert!(learned.charge > 0);
        }
    }
    Ok(())
}
