//! Opening files and folders.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use thermocline_base::{Error, Result};

use crate::file::OpenMode;
use crate::real::syscalls::retry;
use crate::sys;

#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that opens files"
)]
fn open_with(options: &fs::OpenOptions, path: &Path) -> io::Result<fs::File> {
    options.open(path)
}

pub(super) fn open_in(mode: OpenMode, path: &Path) -> Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    let (op, options) = match mode {
        OpenMode::Read | OpenMode::ReadInput => ("open", options.read(true)),
        OpenMode::ReadWrite => ("open", options.read(true).write(true)),
        OpenMode::CreateNew => (
            "create",
            options.read(true).write(true).create_new(true).mode(0o600),
        ),
    };
    open_file(options, path, mode == OpenMode::ReadInput).map_err(|e| Error::io(op, path, e))
}

/// Opens an ordinary file and nothing else (promise 5 of the crate). What was opened is looked at, so
/// nothing can be put in its place in between.
pub(super) fn open_file(
    options: &mut fs::OpenOptions,
    path: &Path,
    follow: bool,
) -> io::Result<fs::File> {
    let links = if follow { 0 } else { libc::O_NOFOLLOW };
    // Without this flag a FIFO would wait for whoever opens its other end.
    let options = options.custom_flags(links | libc::O_NONBLOCK);
    let file = match retry(|| open_with(options, path)) {
        Err(e)
            if matches!(
                e.raw_os_error(),
                Some(libc::ELOOP | libc::EISDIR | libc::ENXIO)
            ) =>
        {
            // For the message alone.
            let kind = path.symlink_metadata().map(|about| about.file_type());
            return Err(kind.ok().and_then(not_ordinary).unwrap_or(e));
        }
        opened => opened?,
    };
    if let Some(refusal) = not_ordinary(file.metadata()?.file_type()) {
        return Err(refusal);
    }
    // Whoever hands reads to the kernel in bulk would be told to come again.
    sys::set_blocking(&file)?;
    Ok(file)
}

/// Why what is of this kind is not opened; `None` for an ordinary file.
fn not_ordinary(kind: fs::FileType) -> Option<io::Error> {
    let what = match kind {
        _ if kind.is_file() => return None,
        _ if kind.is_symlink() => "a symbolic link",
        _ if kind.is_dir() => "a folder",
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    };
    let text = format!("it is {what}, and only an ordinary file is opened here; move it away");
    Some(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// The folder's path for the kernel: the empty one, which is that of the parent of a name alone, is the current folder.
pub(super) fn folder(dir: &Path) -> &Path {
    match dir.as_os_str().is_empty() {
        true => Path::new("."),
        false => dir,
    }
}

/// Opens a [`folder`], which may be a link to one.
pub(super) fn open_folder(dir: &Path) -> io::Result<fs::File> {
    let dir = folder(dir);
    let mut options = fs::OpenOptions::new();
    let options = options.read(true).custom_flags(libc::O_DIRECTORY);
    retry(|| open_with(options, dir))
}

/// The folder whose names include `path`.
pub(super) fn folder_of(path: &Path) -> &Path {
    path.parent().map_or(path, folder)
}
