//! Manifests that are missing, cut short, garbage or too new.

use super::*;

/// The files of a database that was filled and closed; and of one that was killed.
fn both(home: &Path) -> [PathBuf; 2] {
    let dir = home.join("db");
    let db = Db::open(&dir, options()).unwrap();
    fill(&db);
    let killed = home.join("killed");
    copy(&dir, &killed);
    db.close().unwrap();
    [dir, killed]
}

fn manifest(dir: &Path) -> PathBuf {
    let name = std::fs::read_to_string(dir.join("CURRENT")).unwrap();
    dir.join(name.lines().next().unwrap())
}

/// Wherever the region lies: nothing else shows that there was data if it is elsewhere.
#[test]
fn no_current() {
    let home = home();
    let pm = home.path().join("pm");
    std::fs::create_dir(&pm).unwrap();
    let apart = home.path().join("apart");
    filled(&apart, with_pm_path(&pm));
    let mut all = both(home.path()).map(|dir| (dir, options())).to_vec();
    all.push((apart, with_pm_path(&pm)));
    for (dir, options) in all {
        let current = std::fs::read(dir.join("CURRENT")).unwrap();
        std::fs::remove_file(dir.join("CURRENT")).unwrap();
        let before = snapshot(home.path());
        let says = [&text(&dir)[..], "MANIFEST-", "CURRENT"];
        for _ in 0..2 {
            refused(
                Db::open(&dir, options.clone()),
                ErrorKind::Corruption,
                &says,
            );
            assert_unchanged(home.path(), &before);
        }
        let read_only = Options {
            read_only: true,
            ..options.clone()
        };
        refused(Db::open(&dir, read_only), ErrorKind::Corruption, &says);
        refused(
            Db::verify(&dir, options.clone()),
            ErrorKind::Corruption,
            &says,
        );
        refused(
            Db::destroy(&dir, options.clone()),
            ErrorKind::Corruption,
            &says,
        );
        assert_unchanged(home.path(), &before);
        std::fs::write(dir.join("CURRENT"), current).unwrap();
        assert_filled(&Db::open(&dir, options).unwrap());
    }
}

/// The files that the manifest names are no stranger's.
#[test]
fn no_current_beside_a_blob_file() {
    let home = home();
    let dir = home.path().join("db");
    let db = Db::open(&dir, options()).unwrap();
    db.put("in a blob file", vec![7u8; 2 << 20]).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let mut entries = std::fs::read_dir(&dir).unwrap();
    assert!(entries.any(|entry| entry.unwrap().path().extension() == Some("blob".as_ref())));
    std::fs::remove_file(dir.join("CURRENT")).unwrap();
    let says = [&text(&dir)[..], "MANIFEST-", "CURRENT"];
    refused(Db::open(&dir, options()), ErrorKind::Corruption, &says);
}

/// Nor any manifest: the region is not taken for a leftover.
#[test]
fn no_manifest_at_all() {
    let home = home();
    let [dir, _] = both(home.path());
    let name = manifest(&dir);
    for path in [&name, &dir.join("CURRENT")] {
        std::fs::remove_file(path).unwrap();
    }
    let before = snapshot(&dir);
    let says = ["region.pm", "manifest", "move it away"];
    for _ in 0..2 {
        refused(Db::open(&dir, options()), ErrorKind::InvalidArgument, &says);
        assert_same(&dir, &before);
    }
}

#[test]
fn current_cut_short_or_garbage() {
    let home = home();
    let [dir, _] = both(home.path());
    let path = dir.join("CURRENT");
    let current = std::fs::read(&path).unwrap();
    let mut bad: Vec<Vec<u8>> = (0..current.len()).map(|n| current[..n].to_vec()).collect();
    bad.extend((0..current.len()).map(|n| {
        let mut flipped = current.clone();
        flipped[n] ^= 0x10;
        flipped
    }));
    bad.push([current.clone(), b"more".to_vec()].concat());
    bad.push(vec![0; 1 << 20]);
    bad.push(b"../../etc/passwd\n".to_vec());
    for bytes in bad {
        std::fs::write(&path, &bytes).unwrap();
        let before = snapshot(&dir);
        refused(
            Db::open(&dir, options()),
            ErrorKind::Corruption,
            &[&text(&path)],
        );
        assert_ne!(Db::verify(&dir, options()).unwrap().faults, []);
        refused(
            Db::stored_options(&dir),
            ErrorKind::Corruption,
            &[&text(&path)],
        );
        assert_same(&dir, &before);
    }
    std::fs::write(&path, &current).unwrap();
    assert_filled(&Db::open(&dir, options()).unwrap());
}

/// That somebody has the database open for writing is not why it cannot be read, and to wait for him is no remedy.
#[test]
fn current_garbage_below_a_writer() {
    let home = home();
    let dir = home.path().join("db");
    let db = Db::open(&dir, options()).unwrap();
    fill(&db);
    let path = dir.join("CURRENT");
    let current = std::fs::read(&path).unwrap();
    std::fs::write(&path, b"hello").unwrap();
    refused(
        Db::stored_options(&dir),
        ErrorKind::Corruption,
        &[&text(&path)],
    );
    std::fs::write(&path, &current).unwrap();
    assert!(Db::stored_options(&dir).unwrap().is_some());
    db.close().unwrap();
    assert_filled(&Db::open(&dir, options()).unwrap());
}

#[test]
fn a_manifest_missing_or_garbage() {
    let home = home();
    for dir in both(home.path()) {
        let path = manifest(&dir);
        let whole = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let before = snapshot(&dir);
        let name = path.file_name().unwrap().to_str().unwrap();
        refused(
            Db::open(&dir, options()),
            ErrorKind::Corruption,
            &[name, "missing"],
        );
        assert_same(&dir, &before);
        for bytes in [
            vec![],
            vec![0; whole.len()],
            vec![0xff; whole.len()],
            b"hello".to_vec(),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let before = snapshot(&dir);
            refused(
                Db::open(&dir, options()),
                ErrorKind::Corruption,
                &[&text(&path)],
            );
            assert_ne!(Db::verify(&dir, options()).unwrap().faults, []);
            assert_same(&dir, &before);
        }
        std::fs::write(&path, &whole).unwrap();
        assert_filled(&Db::open(&dir, options()).unwrap());
    }
}

/// A cut takes the last edits away. It may be taken for a torn append where all data is found
/// nevertheless, and is an error otherwise: never a database with less in it.
#[test]
fn a_manifest_cut_short() {
    let home = home();
    let mut opened = 0;
    for dir in both(home.path()) {
        let name = manifest(&dir).file_name().unwrap().to_owned();
        let whole = std::fs::read(manifest(&dir)).unwrap();
        for len in (0..whole.len()).rev() {
            // Every length of the last records and of the beginning, and some between.
            if len > 70 && len + 150 < whole.len() && len % 8 > 1 {
                continue;
            }
            let path = home.path().join("cut");
            copy(&dir, &path);
            std::fs::write(path.join(&name), &whole[..len]).unwrap();
            match Db::open(&path, options()) {
                Ok(db) => {
                    assert_filled(&db);
                    opened += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{len}: {error}");
                }
            }
            std::fs::remove_dir_all(&path).unwrap();
        }
    }
    assert!(opened > 0);
}

#[test]
fn a_newer_manifest() {
    let home = home();
    for dir in both(home.path()) {
        let path = manifest(&dir);
        let whole = std::fs::read(&path).unwrap();
        let mut newer = whole.clone();
        bytes::set_manifest_version(&mut newer, 9);
        std::fs::write(&path, &newer).unwrap();
        let before = snapshot(&dir);
        let says = [&text(&path)[..], "version 9", "up to version 1"];
        refused(Db::open(&dir, options()), ErrorKind::Unsupported, &says);
        refused(Db::verify(&dir, options()), ErrorKind::Unsupported, &says);
        refused(Db::stored_options(&dir), ErrorKind::Unsupported, &says);
        assert_same(&dir, &before);
        std::fs::write(&path, &whole).unwrap();
        assert_filled(&Db::open(&dir, options()).unwrap());
    }
}
