//! The directory on disk.
//!
//! ```text
//! <dir>/CACHEDIR.TAG            tells backup programs to leave the directory out (bford.info/cachedir)
//! <dir>/planfetch-cache         one line: the version of this format
//! <dir>/lock                    locked while processes use the directory; never deleted
//! <dir>/objects/<3 digits>/     1,024 folders
//!     <key>-<length>-<crc>      an object, its bytes and nothing else
//!     .tmp-<key>-<length>-…     a download under way; without its process, garbage
//! <dir>/leases/<2 digits>       bytes of these files are locked, where processes share the directory
//! <dir>/claims                  likewise
//! <dir>/usage                   bytes and files in the directory, where processes share it
//! ```
//!
//! Temporary files lie in the folder of their final place, since a rename within one folder takes fewer of the file
//! system's locks than one across folders.

mod marker;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::NamedTempFile;

use crate::error::{CacheError, CacheErrorKind};
use crate::key::{ObjectKey, Stamp, file_name, parse_file_name, parse_key};
use crate::settings::PruneBackend;

const OBJECTS: &str = "objects";
const TEMP_PREFIX: &str = ".tmp-";

/// A cache directory that this process has locked, or only looks at.
#[derive(Debug)]
pub(crate) struct CacheDir {
    root: PathBuf,
    /// Locked for as long as it is open; `None` where the directory is only looked at.
    _lock: Option<File>,
}

/// An object's file that was found in the directory.
pub(crate) type Found = (ObjectKey, Stamp);

/// What lies in the directory.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) objects: Vec<Found>,
    /// Downloads under way, and how long they will be.
    pub(crate) under_way: Vec<(ObjectKey, u64)>,
}

impl CacheDir {
    /// Opens or makes the directory, and locks it: for this process alone, or together with others that share it.
    pub(crate) fn open(root: &Path, backend: PruneBackend) -> Result<Self, CacheError> {
        let failed = |source: io::Error| {
            let message = format!("can't open the cache directory {}", root.display());
            CacheError::with_source(CacheErrorKind::Directory, message, source)
        };
        create_private(root).map_err(failed)?;
        // Later changes of the working directory must not move the cache.
        let root_path = root.canonicalize().map_err(failed)?;
        marker::check_owner(&root_path)?;
        let is_new = marker::check(&root_path)?;
        let lock = marker::lock(&root_path, backend)?;
        marker::make_private(&root_path).map_err(failed)?;
        if is_new {
            marker::write(&root_path).map_err(failed)?;
        }
        let objects = root_path.join(OBJECTS);
        create_private(&objects).map_err(failed)?;
        spread(&objects);
        Ok(Self { root: root_path, _lock: Some(lock) })
    }

    /// Finds a directory that is there, to look at it: nothing is locked, made or changed.
    pub(crate) fn look(root: &Path) -> Result<Self, CacheError> {
        let root_path = root.canonicalize().map_err(|source| {
            let message = format!("can't find the cache directory {}: {source}", root.display());
            CacheError::with_source(CacheErrorKind::Directory, message, source)
        })?;
        if !marker::is_marked(&root_path) {
            let message =
                format!("{} is no cache directory: it holds no file {:?}", root.display(), marker::FORMAT_FILE);
            return Err(CacheError::new(CacheErrorKind::Directory, message));
        }
        marker::check(&root_path)?;
        Ok(Self { root: root_path, _lock: None })
    }

    /// Returns the file that processes lock that use the directory.
    pub(crate) fn lock_file(&self) -> PathBuf {
        self.root.join(marker::LOCK_FILE)
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

    /// Opens an object's file for reading. What is no plain file, such as a link, is refused.
    pub(crate) fn open_file(&self, key: ObjectKey, stamp: Stamp) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true);
        #[cfg(target_os = "linux")]
        std::os::unix::fs::OpenOptionsExt::custom_flags(
            &mut options,
            rustix::fs::OFlags::NOFOLLOW.bits().cast_signed(),
        );
        options.open(self.path(key, stamp))
    }

    /// Makes a temporary file for `len` bytes in the folder of the object's final place. It is deleted when it is dropped.
    pub(crate) fn temp_file(&self, key: ObjectKey, len: u64) -> io::Result<NamedTempFile> {
        let folder = self.folder(key);
        let prefix = format!("{TEMP_PREFIX}{key}-{len:016x}-");
        let make = || tempfile::Builder::new().prefix(&prefix).tempfile_in(&folder);
        match make() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_private(&folder)?;
                make()
            }
            made => made,
        }
    }

    /// Looks for the object's file.
    pub(crate) fn find(&self, key: ObjectKey) -> io::Result<Option<Stamp>> {
        let entries = match fs::read_dir(self.folder(key)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            if let Some((found, stamp)) = entry.file_name().to_str().and_then(parse_file_name)
                && found == key
                && entry.file_type()?.is_file()
            {
                return Ok(Some(stamp));
            }
        }
        Ok(None)
    }

    /// Returns how far downloads of the object have come, as far as their temporary files tell: how long they are, and
    /// when they were written to last.
    pub(crate) fn progress(&self, key: ObjectKey) -> Vec<(u64, SystemTime)> {
        let prefix = format!("{TEMP_PREFIX}{key}-");
        let entries = fs::read_dir(self.folder(key)).into_iter().flatten().flatten();
        let temps = entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)));
        let mut found: Vec<_> = temps
            .filter_map(|entry| entry.metadata().ok())
            .map(|metadata| (metadata.len(), metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH)))
            .collect();
        found.sort_unstable();
        found
    }

    /// Lists the objects, and leaves alone whatever else is there but temporary files: those go, if `is_garbage` says
    /// so of their key.
    pub(crate) fn scan(&self, is_garbage: impl Fn(ObjectKey) -> bool) -> io::Result<Listing> {
        let mut found = Listing::default();
        for folder in fs::read_dir(self.root.join(OBJECTS))? {
            let folder = folder?;
            if !folder.file_type()?.is_dir() {
                continue;
            }
            for file in fs::read_dir(folder.path())? {
                let file = file?;
                let name = file.file_name();
                let Some(name) = name.to_str() else { continue };
                if let Some(object) = parse_file_name(name) {
                    // A link or a folder of such a name is not the cache's.
                    if file.file_type()?.is_file() {
                        found.objects.push(object);
                    }
                } else if let Some(temp) = name.strip_prefix(TEMP_PREFIX)
                    && let Some(key) = parse_key(temp)
                {
                    let len = temp.get(41..57).and_then(|digits| u64::from_str_radix(digits, 16).ok());
                    if is_garbage(key) {
                        remove(&file.path())?;
                    } else {
                        found.under_way.push((key, len.unwrap_or(0).min(1 << 50)));
                    }
                }
            }
        }
        Ok(found)
    }

    /// Of several files of one object, leaves none: it changed in the store, and a crash came before the old one was
    /// deleted. Which is which can't be told.
    pub(crate) fn without_twins(&self, mut found: Vec<Found>) -> io::Result<Vec<Found>> {
        found.sort_unstable_by_key(|(key, stamp)| (*key, stamp.len, stamp.crc));
        let mut kept = Vec::with_capacity(found.len());
        for same in found.chunk_by(|a, b| a.0 == b.0) {
            match same {
                [one] => kept.push(*one),
                several => several.iter().try_for_each(|(key, stamp)| remove(&self.path(*key, *stamp)))?,
            }
        }
        Ok(kept)
    }

    /// Returns when the object was last used, as far as the directory knows: when it came, or was looked up by a
    /// process that shares it.
    pub(crate) fn last_use(&self, (key, stamp): Found) -> SystemTime {
        let modified = fs::symlink_metadata(self.path(key, stamp)).and_then(|metadata| metadata.modified());
        modified.unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Takes note in the directory that the object is used now.
    #[expect(clippy::disallowed_methods, reason = "processes have no other clock in common than that of their files")]
    pub(crate) fn touch(&self, key: ObjectKey, stamp: Stamp) {
        // OK because the order in which files go is then a little wrong.
        let _ = self.open_file(key, stamp).and_then(|file| file.set_modified(SystemTime::now()));
    }

    /// Opens, or makes, a file of the directory that processes share.
    pub(crate) fn shared_file(&self, name: &str) -> io::Result<File> {
        let path = self.root.join(name);
        if let Some(parent) = path.parent() {
            create_private(parent)?;
        }
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(path)
    }

    fn folder(&self, key: ObjectKey) -> PathBuf {
        let mut path = self.root.join(OBJECTS);
        path.push(format!("{:03x}", key.fan_out()));
        path
    }
}

/// Deletes a file, unless it is gone.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes a directory that only its owner may enter, with its parents, unless it is there.
fn create_private(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
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
