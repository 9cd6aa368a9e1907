//! Files that are there when they are complete, and not before.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::failure::Failure;
use crate::interrupt::{Interrupt, TempFolder};

/// Has `write` write a file, and gives it the name `path` when it is complete: what was there until then stays whole,
/// whatever fails, and Ctrl-C leaves nothing beside it.
///
/// What is no file of a disk, such as `/dev/stdout` or a named pipe, is written into.
pub(crate) fn replace(
    path: &Path,
    interrupt: &Interrupt,
    write: impl FnOnce(&Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if fs::metadata(path).is_ok_and(|is| !is.is_file()) {
        return write(path);
    }
    let unwritable = |error: io::Error| format!("can't write {}: {error}", path.display());
    // A link stays, and what it leads to is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = TempFolder::beside(&target, interrupt).map_err(unwritable)?;
    let temporary = folder.path().join(target.file_name().unwrap_or_default());
    write(&temporary)?;
    fs::rename(&temporary, &target).map_err(unwritable)?;
    Ok(())
}

/// Writes a file, and sees that what it holds has reached the disk: buffers that are dropped, and disks that are full,
/// are silent.
pub(crate) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut io::BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = io::BufWriter::new(File::create(path)?);
    write(&mut file)?;
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    match file.sync_all() {
        // A pipe or a terminal has no disk.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn entries(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_was_there_stays_until_the_new_one_is_complete() {
        let tmp = tempfile::tempdir().unwrap();
        let (path, interrupt) = (tmp.path().join("a.plan"), Interrupt::default());
        fs::write(&path, "old").unwrap();
        let fail = replace(&path, &interrupt, |temporary| {
            fs::write(temporary, "half")?;
            assert_eq!(fs::read_to_string(&path)?, "old");
            Err("no more".to_owned().into())
        });
        assert!(fail.is_err());
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), entries(tmp.path())), ("old", vec!["a.plan".into()]));
        replace(&path, &interrupt, |temporary| Ok(fs::write(temporary, "new")?)).unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), entries(tmp.path())), ("new", vec!["a.plan".into()]));
    }

    #[test]
    fn an_interrupt_leaves_nothing_beside_the_file() {
        let tmp = tempfile::tempdir().unwrap();
        let (path, interrupt) = (tmp.path().join("train.index"), Interrupt::default());
        let fail = replace(&path, &interrupt, |temporary| {
            fs::write(temporary, "half")?;
            // Files that the libraries put beside theirs are in the same folder.
            fs::write(temporary.with_extension("tmp-7-0"), "half")?;
            assert_eq!(entries(tmp.path()).len(), 1);
            interrupt.remove_folders();
            assert_eq!(entries(tmp.path()), [""; 0]);
            Ok(())
        });
        assert!(fail.is_err(), "there is nothing to rename");
        assert_eq!(entries(tmp.path()), [""; 0]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_one() {
        let tmp = tempfile::tempdir().unwrap();
        let (link, target) = (tmp.path().join("link"), tmp.path().join("target"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        replace(&link, &Interrupt::default(), |temporary| Ok(fs::write(temporary, "new")?)).unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_device_is_written_into_and_a_full_disk_is_an_error() {
        let full = Path::new("/dev/full");
        let written = replace(full, &Interrupt::default(), |path| {
            assert_eq!(path, full);
            // Less than a buffer holds.
            let error = write_whole(path, |file| file.write_all(b"few")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            write_whole(Path::new("/dev/null"), |file| file.write_all(b"few"))?;
            Ok(())
        });
        written.unwrap();
    }
}
