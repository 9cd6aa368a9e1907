//! What is laid down from wheels of Python packages: they are checked by their hashes, and stay in a cache.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::Command;

/// Makes what `is_there` looks for, unless it is there: `make` is given an empty folder, which goes when it is done.
pub(crate) fn lay_down(
    cache: &Path,
    name: &str,
    is_there: impl Fn() -> bool,
    make: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    if is_there() {
        return Ok(());
    }
    fs::create_dir_all(cache)?;
    // Of several processes one downloads. The lock ends with its process, however that ends.
    let lock = File::create(cache.join(format!("{name}.lock")))?;
    lock.lock()?;
    if is_there() {
        return Ok(());
    }
    // What a process that was killed has left lies here, and goes now.
    let unfinished = cache.join(format!("{name}.unfinished"));
    remove(&unfinished)?;
    fs::create_dir_all(&unfinished)?;
    make(&unfinished)?;
    remove(&unfinished)
}

/// Downloads the wheels of pip's `requirements`, with their hashes, into a folder: those for x86_64 Linux, whichever
/// Python runs pip, from the index that the user's pip is configured for.
pub(crate) fn download(requirements: &str, wheels: &Path) -> io::Result<()> {
    fs::create_dir_all(wheels)?;
    let list = wheels.join("requirements.txt");
    fs::write(&list, requirements)?;
    let platform = ["--python-version", "3.11", "--implementation", "cp", "--abi", "cp311", "--abi", "none"];
    let download = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir"];
    run(Command::new("python3")
        .args(download)
        .args(platform)
        .args(["--platform", "manylinux_2_28_x86_64", "--platform", "manylinux2014_x86_64", "--require-hashes"])
        .arg("--requirement")
        .arg(&list)
        .arg("--dest")
        .arg(wheels))
}

/// Points `link` to `folder`, at once for whoever looks.
pub(crate) fn set_link(link: &Path, folder: &Path) -> io::Result<()> {
    let folder = folder.canonicalize()?;
    if fs::read_link(link).is_ok_and(|target| target == folder) {
        return Ok(());
    }
    if link.is_dir() && !link.is_symlink() {
        let problem = format!("{} is a folder, and no link that was made here; move it away", link.display());
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, problem));
    }
    let parent = link.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent)?;
    let name = link.file_name().unwrap_or_default().to_string_lossy();
    let beside = parent.join(format!("{name}.{}", std::process::id()));
    remove_file(&beside)?;
    symlink(&folder, &beside)?;
    fs::rename(&beside, link)
}

#[cfg(unix)]
fn symlink(folder: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(folder, link)
}

#[cfg(not(unix))]
fn symlink(_folder: &Path, _link: &Path) -> io::Result<()> {
    Err(io::Error::other("links are made on Unix alone"))
}

pub(crate) fn run(command: &mut Command) -> io::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status =
        command.status().map_err(|error| io::Error::new(error.kind(), format!("can't run {program}: {error}")))?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{program} failed: {status}"))) }
}

pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    absent(fs::remove_dir_all(folder))
}

fn remove_file(file: &Path) -> io::Result<()> {
    absent(fs::remove_file(file))
}

fn absent(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
