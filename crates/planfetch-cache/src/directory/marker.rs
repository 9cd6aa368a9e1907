//! Whose directory it is: the files that mark it, and the lock.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::Path;

use crate::error::{CacheError, CacheErrorKind};
use crate::settings::PruneBackend;

const TAG_FILE: &str = "CACHEDIR.TAG";
const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n# This directory holds objects that planfetch downloaded. It can be deleted when no program uses it.\n";
pub(super) const FORMAT_FILE: &str = "planfetch-cache";
const FORMAT: &str = "planfetch cache format 2\n";
pub(super) const LOCK_FILE: &str = "lock";
const TEMP_PREFIX: &str = ".tmp-mark-";
/// What else lies in a cache directory.
const OURS: [&str; 5] = ["objects", "leases", "claims", "usage", "lock-probe"];

fn refuse(problem: String) -> CacheError {
    CacheError::new(CacheErrorKind::Directory, problem)
}

/// Refuses a directory that belongs to somebody else, or that others may write to: what lies in it could be theirs.
pub(super) fn check_owner(root: &Path) -> Result<(), CacheError> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let failed = |source: io::Error| {
            CacheError::with_source(CacheErrorKind::Directory, format!("can't examine {}", root.display()), source)
        };
        let metadata = fs::symlink_metadata(root).map_err(failed)?;
        if !metadata.is_dir() {
            return Err(refuse(format!("{} is no directory; name a directory", root.display())));
        }
        #[cfg(target_os = "linux")]
        {
            let (owner, me) = (metadata.uid(), rustix::process::geteuid().as_raw());
            if owner != me {
                return Err(refuse(format!(
                    "the cache directory {} belongs to user {owner}, and this process runs as user {me}; use a \
                     directory of your own",
                    root.display()
                )));
            }
        }
        if metadata.mode() & 0o022 != 0 {
            let is_empty = fs::read_dir(root).map_err(failed)?.next().is_none();
            if !is_empty {
                return Err(refuse(format!(
                    "others may write to the cache directory {} (mode {:o}), and so could have put anything there; \
                     delete it, or take the permission away with chmod 700 if you trust what it holds",
                    root.display(),
                    metadata.mode() & 0o7777,
                )));
            }
        }
    }
    #[cfg(not(unix))]
    let _ = root;
    Ok(())
}

/// Takes the directory away from all others.
pub(super) fn make_private(root: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if fs::symlink_metadata(root)?.permissions().mode() & 0o077 != 0 {
            fs::set_permissions(root, fs::Permissions::from_mode(0o700))?;
        }
    }
    #[cfg(not(unix))]
    let _ = root;
    Ok(())
}

/// Returns whether something says that the directory is a cache, of whatever format.
pub(super) fn is_marked(root: &Path) -> bool {
    root.join(FORMAT_FILE).is_file()
}

/// Returns whether the directory is a new one; a directory with foreign files, or of another format, is refused.
pub(super) fn check(root: &Path) -> Result<bool, CacheError> {
    let failed = |source: io::Error| {
        CacheError::with_source(
            CacheErrorKind::Directory,
            format!("can't read the directory {}", root.display()),
            source,
        )
    };
    let is_torn = match fs::read(root.join(FORMAT_FILE)) {
        Ok(format) if format == FORMAT.as_bytes() => return Ok(false),
        Ok(format) if is_torn(&format) => true,
        Ok(format) => {
            return Err(refuse(format!(
                "the cache directory {} is of another format ({:?}, not {:?}); use another directory, or delete this \
                 one",
                root.display(),
                String::from_utf8_lossy(&format).trim_end(),
                FORMAT.trim_end(),
            )));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(source) => return Err(failed(source)),
    };
    // What is there before the format file: a lock of a process that opens it at the same time, or that died between
    // two steps. Behind a torn one, all that a cache makes may be there.
    let is_ours = |name: &OsStr| {
        let is_half_written = name.to_str().is_some_and(|name| name.starts_with(TEMP_PREFIX));
        let is_of_a_cache = name == FORMAT_FILE || OURS.iter().any(|ours| name == *ours);
        name == LOCK_FILE || name == TAG_FILE || is_half_written || (is_torn && is_of_a_cache)
    };
    for entry in fs::read_dir(root).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if !is_ours(&name) {
            // Another process may have made it a cache directory meanwhile.
            if fs::read(root.join(FORMAT_FILE)).is_ok_and(|format| format == FORMAT.as_bytes()) {
                return Ok(false);
            }
            return Err(refuse(format!(
                "{} is no cache directory and holds other files ({}); name an empty or a new directory",
                root.display(),
                Path::new(&name).display(),
            )));
        }
    }
    Ok(true)
}

/// Returns whether a format file was not written to its end when the machine went down: what is missing is cut off, or
/// zeros.
fn is_torn(format: &[u8]) -> bool {
    let written = format.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    FORMAT.as_bytes().starts_with(&format[..written])
}

/// Marks the directory as a cache. The file that says so comes last, and at once: its bytes are on the disk before its
/// name is, or the machine could go down between the two.
pub(super) fn write(root: &Path) -> io::Result<()> {
    for (name, content) in [(TAG_FILE, TAG), (FORMAT_FILE, FORMAT)] {
        let mut file = tempfile::Builder::new().prefix(TEMP_PREFIX).tempfile_in(root)?;
        file.write_all(content.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(root.join(name)).map_err(|error| error.error)?;
    }
    Ok(())
}

/// Locks the directory, for this process alone or together with others.
pub(super) fn lock(root: &Path, backend: PruneBackend) -> Result<File, CacheError> {
    let path = root.join(LOCK_FILE);
    let error = |source: io::Error| {
        CacheError::with_source(CacheErrorKind::Directory, format!("can't lock {}", path.display()), source)
    };
    let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).map_err(error)?;
    let locked = match backend {
        PruneBackend::Meta => file.try_lock(),
        PruneBackend::Scan => file.try_lock_shared(),
    };
    match locked {
        Ok(()) if backend == PruneBackend::Meta => {
            // Who holds it, for people; nothing reads it.
            let _ = file.set_len(0).and_then(|()| writeln!(file, "locked by process {}", std::process::id()));
            Ok(file)
        }
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(refuse(format!(
            "the cache directory {} is in use, by another process, or by another cache of this one or a guard that it \
             handed out; clone the cache to share it within a process, set the prune backend to scan in all processes \
             that share it, or use another directory",
            root.display()
        ))),
        Err(TryLockError::Error(source)) => Err(error(source)),
    }
}
