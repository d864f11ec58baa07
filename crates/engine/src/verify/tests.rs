//! What is damage, where somebody writes, and what is not.

use std::cell::Cell;

use thermocline_base::{CfId, WriteBatch};
use thermocline_env::hooks::{Hooked, Hooks};
use thermocline_env::sim::SimFs;
use thermocline_env::{File, Storage};

use super::*;
use crate::sync::Arc;
use crate::tests::Machine;
use crate::{Durability, Engine};

#[test]
fn a_fault_is_what_two_moments_have() {
    let mut moments = Moments::default();
    let mut check = |offsets: &[u64], region: Result<()>| {
        let fault = |offset: &u64| Fault {
            place: "region".into(),
            offset: *offset,
            what: "rot".into(),
        };
        let mut part = Report {
            faults: offsets.iter().map(fault).collect(),
            ..Report::default()
        };
        let so = is_so(&mut moments, &mut part, &region);
        let left: Vec<u64> = part.faults.iter().map(|fault| fault.offset).collect();
        so.then_some(left)
    };
    let cut = || Err(Error::Busy("what tells of chains is written".into()));
    assert_eq!(check(&[], Ok(())), Some(Vec::new()));
    // There is damage at 7. What else there is passes, whether it is told of before that or behind it.
    assert_eq!(check(&[3, 7], Ok(())), None);
    assert_eq!(check(&[7, 9], Ok(())), Some(vec![7]));
    // A check that was cut short has not seen all of it.
    assert_eq!(check(&[7], cut()), None);
    assert_eq!(check(&[7, 9], Ok(())), Some(vec![7]));
    assert_eq!(check(&[5], Ok(())), None);
    assert_eq!(check(&[6], cut()), None);
    assert_eq!(check(&[6], cut()), Some(vec![6]));
}

const DIR: &str = "/db";

/// Who has removed the blob files when a table is read, where all descriptors are needed for something else.
#[derive(Debug)]
struct Removed(SimFs);

impl Hooks for Removed {
    fn read_at(&self, file: &dyn File, buf: &mut [u8], offset: u64) -> Result<usize> {
        if file.path().extension().is_some_and(|ends| ends == "sst") {
            let dir = Path::new(DIR);
            let mut names = self.0.list(dir)?;
            names.retain(|name| name.ends_with(".blob"));
            for name in names {
                self.0.remove(&dir.join(name))?;
            }
            self.0.spares().close();
        }
        file.read_at(buf, offset)
    }
}

#[test]
fn that_a_blob_file_has_gone_is_found_out_once() {
    let machine = Machine::new(4 << 20);
    let mut options = Options {
        pm: 4 << 20,
        ..Options::default()
    };
    options.pm_region.part_bytes_first = 256 << 10;
    options.blob.inline_bytes_max = 100;
    options.set("level0.shape", "ssd").unwrap();
    let engine = Engine::open(machine.world(), Path::new(DIR), options).unwrap();
    let mut batch = WriteBatch::new();
    for n in 0..10u8 {
        batch.put(CfId::DEFAULT, &[n], &[n; 200]).unwrap();
    }
    engine.write(batch.iter(), Durability::Immediate).unwrap();
    engine.flush().unwrap();
    engine.close().unwrap();
    drop(engine);
    let removed = Arc::new(Removed(machine.fs.clone()));
    let storage: Arc<dyn Storage> = Hooked::new(Arc::new(machine.fs.clone()), removed);
    let (_, state) = Manifest::open(storage.clone(), Path::new(DIR), true).unwrap();
    let asked = Cell::new(0);
    let has_gone: HasGone<'_> = &|_| {
        asked.set(asked.get() + 1);
        Ok(true)
    };
    let mut observer = |_: Progress| {};
    let (mut course, mut report) = (Course::new(&mut observer), Report::default());
    let place = (&storage, Path::new(DIR), has_gone);
    let unread = check_files(place, &state, &References::new(), &mut course, &mut report);
    assert!(unread.is_empty(), "{unread:?}");
    assert_eq!(report.faults, []);
    // The values, and as many entries that refer to them.
    assert_eq!((report.records, asked.get()), (20, 1));
}
