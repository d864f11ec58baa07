//! How fast tables are built and read: `cargo run --release -p thermocline-sst --features examples --example rates`.
//!
//! A million entries with 16-byte keys and 100-byte values, half of each value compressible, in a
//! temporary folder; reads go through the page cache and through a cache of blocks that holds all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use thermocline_base::{CfId, FileId, Kind, Result, SeqNo};
use thermocline_env::{Env, OpenMode};
use thermocline_sst::{
    Block, BlockHandle, BlockSource, Compression, FileSource, Identity, KeyRef, SyncCursor, Table,
    TablePart, TableWriter, Value, WriteOptions, get, open_table,
};
use thermocline_testkit::Rng;

const ENTRIES: u64 = 1_000_000;
const LOOKUPS: u64 = 200_000;

/// Keeps every block.
struct Keeps {
    file: FileSource,
    blocks: Mutex<HashMap<u64, Arc<Block>>>,
}

impl BlockSource for Keeps {
    fn block(&self, table: &Table, handle: BlockHandle) -> Result<Arc<Block>> {
        let mut blocks = self.blocks.lock().expect("nobody panicked");
        if let Some(block) = blocks.get(&handle.offset) {
            return Ok(Arc::clone(block));
        }
        let block = self.file.block(table, handle)?;
        blocks.insert(handle.offset, Arc::clone(&block));
        Ok(block)
    }
}

fn key(n: u64) -> [u8; 16] {
    let mut key = [b'0'; 16];
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

fn main() -> Result<()> {
    let env = Env::real();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let timed = |what: &str, count: u64, work: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        let begin = env.clock.now_ns();
        work()?;
        let ns = (env.clock.now_ns() - begin).max(1);
        println!("  {what:32} {:9.0} /s", count as f64 * 1e9 / ns as f64);
        Ok(())
    };
    for (n, compression) in [Compression::None, Compression::Lz4, Compression::Zstd(3)]
        .into_iter()
        .enumerate()
    {
        println!("{compression:?}");
        let id = Identity::new([7; 16], FileId(n as u64));
        let path = dir.path().join(thermocline_sst::table_name(id.file));
        let options = WriteOptions {
            compression,
            ..WriteOptions::default()
        };
        timed("entries written", ENTRIES, &mut || {
            let mut rng = Rng::new(1);
            let mut value = [b'v'; 100];
            let mut writer = TableWriter::create(&*env.storage, &path, id, CfId(0), options)?;
            for n in 0..ENTRIES {
                for chunk in value[..48].chunks_mut(8) {
                    chunk.copy_from_slice(&rng.next_u64().to_le_bytes());
                }
                let key = key(n * 2);
                writer.add(
                    KeyRef::new(&key, SeqNo(n)),
                    Kind::Put,
                    Value::Inline(&value),
                )?;
            }
            let meta = writer.finish()?;
            let bytes = meta.bytes / ENTRIES;
            println!(
                "  {bytes} bytes per entry in {} blocks",
                meta.properties.data_blocks
            );
            Ok(())
        })?;
        let file = env.storage.open(&path, OpenMode::Read)?;
        let part = TablePart::whole(open_table(&*file, id)?);
        println!("  {} bytes of memory while open", part.table().charge());
        let source = FileSource(file);
        let cached = Keeps {
            file: source.clone(),
            blocks: Mutex::default(),
        };
        let look_up = |source: &dyn BlockSource, odd: u64| {
            let mut rng = Rng::new(2);
            for _ in 0..LOOKUPS {
                let n = rng.next_u64() % ENTRIES * 2 + odd;
                let found = get(&part, &key(n), SeqNo::MAX, source)?;
                assert_eq!(found.is_some(), odd == 0);
            }
            Ok(())
        };
        timed("lookups, from the file", LOOKUPS, &mut || {
            look_up(&source, 0)
        })?;
        look_up(&cached, 0)?;
        timed("lookups, from a cache", LOOKUPS, &mut || {
            look_up(&cached, 0)
        })?;
        timed("lookups of what is not there", LOOKUPS, &mut || {
            look_up(&source, 1)
        })?;
        let mut cursor = SyncCursor::new(part.clone(), &source);
        timed("entries forward, from the file", ENTRIES, &mut || {
            let mut more = cursor.first()?;
            while more {
                more = cursor.next()?;
            }
            Ok(())
        })?;
        timed("entries back, from the file", ENTRIES, &mut || {
            let mut more = cursor.last()?;
            while more {
                more = cursor.prev()?;
            }
            Ok(())
        })?;
    }
    Ok(())
}
