//! A database is its owner's, wherever its parts lie.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn folders_0700_and_files_0600() {
    let home = home();
    let pm = home.path().join("pm");
    std::fs::create_dir(&pm).unwrap();
    let places = [None, Some(pm), Some(home.path().join("region.of.mine"))];
    for (n, pm_path) in places.into_iter().enumerate() {
        let dir = home.path().join(format!("a{n}/b/db"));
        let mut options = Options {
            pm_path: pm_path.clone(),
            ..options()
        };
        options.manifest.bytes_max = 512;
        let db = Db::open(&dir, options.clone()).unwrap();
        fill(&db);
        let region = db.metrics().region_path;
        drop(db);
        for made in [
            dir.as_path(),
            dir.parent().unwrap(),
            dir.parent().unwrap().parent().unwrap(),
        ] {
            assert_eq!(mode(made), 0o700, "{}", made.display());
        }
        let mut files = 0;
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path), 0o600, "{}", path.display());
            files += 1;
        }
        assert_eq!(files, if n == 0 { 4 } else { 3 });
        assert_eq!(mode(&region), 0o600);
        match &pm_path {
            None => assert_eq!(region, dir.join("region.pm")),
            Some(path) if path.is_dir() => assert_eq!(region.parent().unwrap(), path),
            Some(path) => assert_eq!(region, *path),
        }
        assert_filled(&Db::open(&dir, options).unwrap());
    }
}

/// Several databases share one folder for their regions.
#[test]
fn regions_in_one_folder() {
    let home = home();
    let pm = home.path().join("pm");
    std::fs::create_dir(&pm).unwrap();
    std::fs::write(pm.join("stranger"), "precious").unwrap();
    let dirs = ["a", "b", "c"].map(|name| home.path().join(name));
    let open = dirs
        .clone()
        .map(|dir| Db::open(dir, with_pm_path(&pm)).unwrap());
    open.iter().for_each(fill);
    drop(open);
    for dir in &dirs {
        assert_filled(&Db::open(dir, with_pm_path(&pm)).unwrap());
    }
    assert_eq!(std::fs::read_dir(&pm).unwrap().count(), 4);
    // The folder for the region must exist; a path that does not is a file to be.
    let missing = home.path().join("missing/region");
    let error = Db::open(home.path().join("d"), with_pm_path(&missing));
    refused(error, ErrorKind::Io, &[&text(&missing)]);
    // That did not spoil the folder.
    filled(&home.path().join("d"), with_pm_path(&pm));
}
