//! A folder of this computer.

use std::fs;
use std::path::{Path, PathBuf};

use super::{FolderSettings, Found};
use crate::error::IndexError;
use crate::sample_index::SampleIndex;

/// Makes an index of the files `<class>/…/<file>` in the folder at `root`.
///
/// The classes are the folders in `root`, numbered in the order of the bytes of their names; files may lie deeper in
/// them. Rows are in the order of the bytes of their URIs, which are `file://` and the absolute path, and have sizes.
/// What lies in `root` itself is no sample, and a folder without one no class. Symbolic links are followed.
///
/// # Errors
///
/// [`IndexError::Read`] when something can't be read, [`IndexError::Format`] when a name is no UTF-8 or a link leads
/// back to a folder that it lies in, and [`IndexError::NoSamples`].
///
/// # Example: a folder for each class
///
/// ```
/// use planfetch_index::{FolderSettings, load_index_folder};
///
/// # let folder = tempfile::tempdir()?;
/// # let root = folder.path();
/// for file in ["dog/1.jpg", "cat/a/2.jpg", "cat/3.txt", "readme.jpg"] {
///     let path = root.join(file);
///     std::fs::create_dir_all(path.parent().expect("a folder"))?;
///     std::fs::write(path, "not really a photograph")?;
/// }
/// let index = load_index_folder(root, &FolderSettings { extensions: vec!["jpg".into()] })?;
/// assert_eq!(index.class_names(), ["cat", "dog"]);
/// assert_eq!(index.labels(), [0, 1]);
/// assert_eq!(index.uri(0), Some(format!("file://{}/cat/a/2.jpg", root.display())));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn load_index_folder(root: impl AsRef<Path>, settings: &FolderSettings) -> Result<SampleIndex, IndexError> {
    let place = root.as_ref().display().to_string();
    let root = std::path::absolute(root).map_err(|source| IndexError::Read { file: place.clone(), source })?;
    let mut found = Found::new();
    for entry in entries(&root)? {
        if entry.is_folder {
            let mut above = vec![real_path(&root)?];
            walk(&entry.path, &entry.name, &mut above, settings, &mut found)?;
        }
    }
    found.finish(&place)
}

/// Something in a folder.
struct Entry {
    path: PathBuf,
    name: String,
    is_folder: bool,
}

/// Takes the files in and below `folder`; `above` are the real paths of the folders around it.
fn walk(
    folder: &Path,
    class: &str,
    above: &mut Vec<PathBuf>,
    settings: &FolderSettings,
    found: &mut Found,
) -> Result<(), IndexError> {
    let real = real_path(folder)?;
    if above.contains(&real) {
        let problem = "is a link to a folder that it lies in; remove the link".into();
        return Err(IndexError::Format { file: folder.display().to_string(), problem });
    }
    above.push(real);
    for entry in entries(folder)? {
        if entry.is_folder {
            walk(&entry.path, class, above, settings, found)?;
        } else if settings.takes(&entry.name) {
            let read = fs::metadata(&entry.path);
            let size = read.map_err(|source| read_error(&entry.path, source))?.len();
            let path = entry.path.to_str().ok_or_else(|| no_utf8(&entry.path))?;
            found.push(&format!("file://{path}"), class, size, path)?;
        }
    }
    above.pop();
    Ok(())
}

/// Returns what is in a folder, in the order that the bytes of whole paths have.
fn entries(folder: &Path) -> Result<Vec<Entry>, IndexError> {
    let error = |source| read_error(folder, source);
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(error)? {
        let path = entry.map_err(error)?.path();
        let is_folder = fs::metadata(&path).map_err(|source| read_error(&path, source))?.is_dir();
        let name = path.file_name().unwrap_or_default().to_str().ok_or_else(|| no_utf8(&path))?.to_owned();
        entries.push(Entry { path, name, is_folder });
    }
    // The slash after a folder's name takes part: `a/b` comes after `a-c`.
    entries.sort_by(|a, b| {
        let key = |entry: &Entry| format!("{}{}", entry.name, if entry.is_folder { "/" } else { "" });
        key(a).cmp(&key(b))
    });
    Ok(entries)
}

fn real_path(folder: &Path) -> Result<PathBuf, IndexError> {
    fs::canonicalize(folder).map_err(|source| read_error(folder, source))
}

fn read_error(path: &Path, source: std::io::Error) -> IndexError {
    IndexError::Read { file: path.display().to_string(), source }
}

fn no_utf8(path: &Path) -> IndexError {
    let problem = "is a name that is no UTF-8, which no URI can hold; rename it".into();
    IndexError::Format { file: path.display().to_string(), problem }
}
