//! Running the built program in a temporary folder.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use thermocline::Options;

/// A temporary folder in which `DB` stands for a database.
pub struct Store {
    folder: TempDir,
}

/// What a run of the program gave.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Store {
    pub fn new() -> Store {
        Store {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// Where `DB` lies.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("db")
    }

    /// Options for opening `DB` in this process.
    pub fn options(&self) -> Options {
        Options {
            pm: 64 << 20,
            ..Options::default()
        }
    }

    /// Writes an input file.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let mut file = std::fs::File::options();
        #[expect(clippy::disallowed_methods, reason = "a test's own input file")]
        let file = file
            .write(true)
            .create(true)
            .truncate(true)
            .open(self.folder.path().join(name));
        file.unwrap().write_all(text.as_ref()).unwrap();
    }

    /// Flips a bit of the only place where `text` lies in a file; returns its offset.
    pub fn flip(&self, name: &str, text: &[u8]) -> u64 {
        let path = self.folder.path().join(name);
        #[expect(
            clippy::disallowed_methods,
            reason = "a test damages a file on purpose"
        )]
        let mut bytes = std::fs::read(&path).unwrap();
        let places: Vec<usize> = (0..bytes.len())
            .filter(|&at| bytes[at..].starts_with(text))
            .collect();
        assert_eq!(places.len(), 1, "{places:?}");
        bytes[places[0]] ^= 1;
        self.write(name, bytes);
        places[0] as u64
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thermocline"));
        command
            .current_dir(self.folder.path())
            .env("TMPDIR", self.folder.path())
            .args(arguments.iter().map(|a| if *a == "DB" { "db" } else { a }))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts the program, with its standard input at hand.
    pub fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).spawn().unwrap()
    }

    /// Runs the program to its end.
    pub fn run(&self, arguments: &[&str]) -> Run {
        ended(self.command(arguments).spawn().unwrap())
    }

    /// Runs the program and closes its standard output after the first bytes.
    pub fn run_and_close_early(&self, arguments: &[&str]) -> Run {
        let mut child = self.command(arguments).spawn().unwrap();
        let mut first = [0; 16];
        let mut out = child.stdout.take().unwrap();
        out.read_exact(&mut first).unwrap();
        drop(out);
        ended(child)
    }

    /// Runs the program with a standard output that nobody reads from the beginning.
    pub fn run_unread(&self, arguments: &[&str]) -> Run {
        let mut child = self.command(arguments).spawn().unwrap();
        drop(child.stdout.take());
        ended(child)
    }

    /// Runs the program with a standard output that has no room.
    pub fn run_full(&self, arguments: &[&str]) -> Run {
        #[expect(clippy::disallowed_methods, reason = "a device that is always full")]
        let full = std::fs::File::options().write(true).open("/dev/full");
        let mut command = self.command(arguments);
        ended(command.stdout(full.unwrap()).spawn().unwrap())
    }

    /// Runs the program with a standard error that nobody reads from the beginning.
    pub fn run_unheard(&self, arguments: &[&str]) -> Run {
        let mut child = self.command(arguments).spawn().unwrap();
        drop(child.stderr.take());
        ended(child)
    }

    /// The names in the folder.
    pub fn names(&self) -> Vec<String> {
        names(self.folder.path())
    }
}

/// Waits for the end of a run, and gives what can still be read of it.
fn ended(child: Child) -> Run {
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The names in `folder`, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

impl Run {
    /// The one JSON document on standard output.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|e| panic!("{e} in {:?}; stderr: {}", self.out, self.err))
    }

    /// Whether standard error holds one line that names `what` and no panic.
    pub fn is_one_sentence_naming(&self, what: &str) -> bool {
        let line = self.err.trim_end();
        !line.is_empty()
            && !line.contains('\n')
            && !line.contains("panicked")
            && line.contains(what)
    }
}
