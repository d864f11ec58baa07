//! `verify` lists every fault, not the first of each kind.

use super::*;

#[test]
fn damage_of_one_part_does_not_hide_that_of_others() {
    let home = home();
    let dir = home.path().join("db");
    let mut small = options();
    small.set("level0.shape", "global-index").unwrap();
    let db = Db::open(&dir, small.clone()).unwrap();
    fill(&db);
    // So few that nothing is compacted.
    for n in 0..3u8 {
        db.put([n], vec![n; 2 << 20]).unwrap();
        db.put([n, n], [n; 500]).unwrap();
        db.flush().unwrap();
    }
    db.put("late", [1; 300]).unwrap();
    db.close().unwrap();
    let names = |end: &str| {
        let names = std::fs::read_dir(&dir).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(end)).collect();
        names.sort_unstable();
        names
    };
    let (tables, blobs) = (names(".sst"), names(".blob"));
    assert!(
        tables.len() >= 3 && blobs.len() >= 3,
        "{tables:?} {blobs:?}"
    );
    let flip = |name: &str, at: usize| {
        let mut bytes = std::fs::read(dir.join(name)).unwrap();
        bytes[at] ^= 1;
        std::fs::write(dir.join(name), bytes).unwrap();
    };
    std::fs::remove_file(dir.join(&tables[0])).unwrap();
    flip(&tables[1], 10);
    std::fs::write(dir.join(&tables[2]), b"").unwrap();
    std::fs::remove_file(dir.join(&blobs[0])).unwrap();
    std::fs::create_dir(dir.join(&blobs[0])).unwrap();
    flip(&blobs[1], 5000);
    std::fs::remove_file(dir.join(&blobs[2])).unwrap();
    // What tells that it is a region.
    let mut region = std::fs::read(dir.join("region.pm")).unwrap();
    region[..4096].fill(0x5a);
    std::fs::write(dir.join("region.pm"), region).unwrap();
    let report = Db::verify(&dir, small).unwrap();
    let faults: Vec<String> = report
        .faults
        .iter()
        .map(|fault| format!("{} {}", fault.place, fault.what))
        .collect();
    let damaged = tables[..3].iter().chain(&blobs[..3]).map(String::as_str);
    for name in damaged.chain(["region.pm"]) {
        assert!(
            faults.iter().any(|fault| fault.contains(name)),
            "{name} in {faults:#?}"
        );
    }
    for name in tables[3..].iter().chain(&blobs[3..]) {
        assert!(
            !faults.iter().any(|fault| fault.contains(name)),
            "{name} in {faults:#?}"
        );
    }
}
