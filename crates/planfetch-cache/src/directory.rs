//! The directory on disk.
//!
//! ```text
//! <dir>/CACHEDIR.TAG            tells backup programs to leave the directory out (bford.info/cachedir)
//! <dir>/planfetch-cache         one line: the version of this format
//! <dir>/lock                    locked while a process uses the directory; never deleted
//! <dir>/objects/<2 digits>/     256 folders
//!     <key>-<length>-<crc>      an object, its bytes and nothing else
//!     .tmp-…                    a download under way; without its process, garbage
//! ```
//!
//! Temporary files lie in the folder of their final place, since a rename within one folder takes fewer of the file
//! system's locks than one across folders.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::error::{CacheError, CacheErrorKind};
use crate::key::{ObjectKey, Stamp, file_name, parse_file_name};

const TAG_FILE: &str = "CACHEDIR.TAG";
const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n# This directory holds objects that planfetch downloaded. It can be deleted when no program uses it.\n";
const FORMAT_FILE: &str = "planfetch-cache";
const FORMAT: &str = "planfetch cache format 1\n";
const LOCK_FILE: &str = "lock";
const OBJECTS: &str = "objects";
const TEMP_PREFIX: &str = ".tmp-";

/// A cache directory that this process has locked.
#[derive(Debug)]
pub(crate) struct CacheDir {
    root: PathBuf,
    /// Locked for as long as it is open.
    _lock: File,
}

/// An object's file that was found when the directory was opened.
pub(crate) type Found = (ObjectKey, Stamp);

impl CacheDir {
    /// Opens or makes the directory, removes what crashed processes left behind, and lists the objects in it.
    pub(crate) fn open(root: &Path) -> Result<(Self, Vec<Found>), CacheError> {
        let io_error = |what: &str| {
            let message = format!("can't {what} the cache directory {}", root.display());
            move |source: io::Error| CacheError::with_source(CacheErrorKind::Directory, message, source)
        };
        create_private(root).map_err(io_error("create"))?;
        // Later changes of the working directory must not move the cache.
        let root_path = root.canonicalize().map_err(io_error("open"))?;
        let is_new = check_marker(&root_path)?;
        let lock = lock(&root_path)?;
        if is_new {
            fs::write(root_path.join(TAG_FILE), TAG).map_err(io_error("write to"))?;
            fs::write(root_path.join(FORMAT_FILE), FORMAT).map_err(io_error("write to"))?;
        }
        create_private(&root_path.join(OBJECTS)).map_err(io_error("write to"))?;
        spread(&root_path.join(OBJECTS));
        let found = scan(&root_path.join(OBJECTS)).map_err(io_error("list"))?;
        Ok((Self { root: root_path, _lock: lock }, found))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns where the object's file lies.
    pub(crate) fn path(&self, key: ObjectKey, stamp: Stamp) -> PathBuf {
        let mut path = self.folder(key);
        path.push(file_name(key, stamp));
        path
    }

    /// Makes a temporary file in the folder of the object's final place. It is deleted when it is dropped.
    pub(crate) fn temp_file(&self, key: ObjectKey) -> io::Result<NamedTempFile> {
        let folder = self.folder(key);
        let make = || tempfile::Builder::new().prefix(TEMP_PREFIX).tempfile_in(&folder);
        match make() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_private(&folder)?;
                make()
            }
            made => made,
        }
    }

    fn folder(&self, key: ObjectKey) -> PathBuf {
        let mut path = self.root.join(OBJECTS);
        path.push(format!("{:02x}", key.fan_out()));
        path
    }
}

/// Makes a directory that only its owner may enter, with its parents, unless it is there.
fn create_private(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Asks the file system to lay the folders in `path` far from each other, where it can be asked.
///
/// ext4 gives a new file an inode of its folder's block group, and passes over those that were freed in the last five
/// seconds one by one. A cache that deletes as fast as it downloads would pass over thousands for each file, if all its
/// folders lay in one group: a file cost 0.7 ms so, and costs 0.1 ms with the folders spread.
/// Measured on 2026-11-29 with `cold-epoch` under `perf record`.
fn spread(path: &Path) {
    // The attribute `T` of chattr: the top of a hierarchy, whose folders have nothing to do with each other.
    #[cfg(target_os = "linux")]
    if let Ok(folder) = File::open(path) {
        use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
        const TOP_OF_HIERARCHY: IFlags = IFlags::from_bits_retain(0x0002_0000);
        // OK because other file systems know no such thing, and need none.
        let _ = ioctl_getflags(&folder).and_then(|flags| ioctl_setflags(&folder, flags | TOP_OF_HIERARCHY));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = path;
}

/// Returns whether the directory is a new one; a directory with foreign files, or of another format, is refused.
fn check_marker(root: &Path) -> Result<bool, CacheError> {
    let refuse = |problem: String| CacheError::new(CacheErrorKind::Directory, problem);
    match fs::read_to_string(root.join(FORMAT_FILE)) {
        Ok(format) if format == FORMAT => Ok(false),
        Ok(format) => Err(refuse(format!(
            "the cache directory {} is of another format ({:?}, not {:?}); use another directory, or delete this one",
            root.display(),
            format.trim_end(),
            FORMAT.trim_end(),
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // What is there before the format file: a lock of a process that opens it at the same time, or that died
            // between two steps.
            let is_ours = |name: &OsStr| name == LOCK_FILE || name == TAG_FILE;
            let foreign = fs::read_dir(root)
                .and_then(|mut entries| {
                    entries
                        .find_map(|entry| match entry {
                            Ok(entry) if is_ours(&entry.file_name()) => None,
                            Ok(entry) => Some(Ok(entry.file_name())),
                            Err(error) => Some(Err(error)),
                        })
                        .transpose()
                })
                .map_err(|source| {
                    CacheError::with_source(
                        CacheErrorKind::Directory,
                        format!("can't list the cache directory {}", root.display()),
                        source,
                    )
                })?;
            match foreign {
                None => Ok(true),
                Some(name) => Err(refuse(format!(
                    "{} is no cache directory and holds other files ({}); name an empty or a new directory",
                    root.display(),
                    Path::new(&name).display(),
                ))),
            }
        }
        Err(source) => Err(CacheError::with_source(
            CacheErrorKind::Directory,
            format!("can't read {}", root.join(FORMAT_FILE).display()),
            source,
        )),
    }
}

fn lock(root: &Path) -> Result<File, CacheError> {
    let path = root.join(LOCK_FILE);
    let error = |source: io::Error| {
        CacheError::with_source(CacheErrorKind::Directory, format!("can't lock {}", path.display()), source)
    };
    let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).map_err(error)?;
    match file.try_lock() {
        Ok(()) => {
            // Who holds it, for people; nothing reads it.
            let _ = file.set_len(0).and_then(|()| writeln!(file, "locked by process {}", std::process::id()));
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => Err(CacheError::new(
            CacheErrorKind::Directory,
            format!(
                "the cache directory {} is in use, by another process, or by another cache of this one or a guard that it \
                 handed out; clone the cache to share it within a process, or use another directory",
                root.display()
            ),
        )),
        Err(TryLockError::Error(source)) => Err(error(source)),
    }
}

/// Lists the objects, deletes temporary files (the lock says that their processes are gone), and leaves alone whatever
/// else is there.
fn scan(objects: &Path) -> io::Result<Vec<Found>> {
    let mut found = Vec::<Found>::new();
    for folder in fs::read_dir(objects)? {
        let folder = folder?;
        if !folder.file_type()?.is_dir() {
            continue;
        }
        for file in fs::read_dir(folder.path())? {
            let file = file?;
            let name = file.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.starts_with(TEMP_PREFIX) {
                fs::remove_file(file.path())?;
            } else if let Some(object) = parse_file_name(name) {
                found.push(object);
            }
        }
    }
    // Two files of one object: it changed in the store, and a crash came before the old one was deleted. Which is which
    // can't be told, so both go.
    found.sort_unstable_by_key(|(key, stamp)| (*key, stamp.len, stamp.crc));
    let mut kept = Vec::with_capacity(found.len());
    for same in found.chunk_by(|a, b| a.0 == b.0) {
        match same {
            [one] => kept.push(*one),
            several => {
                for (key, stamp) in several {
                    let path = objects.join(format!("{:02x}", key.fan_out())).join(file_name(*key, *stamp));
                    fs::remove_file(path)?;
                }
            }
        }
    }
    Ok(kept)
}
