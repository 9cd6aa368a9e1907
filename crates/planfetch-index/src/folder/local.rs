//! A folder of this computer.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{FolderSettings, Found};
use crate::error::IndexError;
use crate::sample_index::SampleIndex;

/// Makes an index of the files `<class>/…/<file>` in the folder at `root`.
///
/// The classes are the folders in `root`, numbered in the order of the bytes of their names; files may lie deeper in
/// them. Rows are in the order of the bytes of their URIs, which are `file://` and the absolute path, and have sizes.
/// What lies in `root` itself is no sample, and a folder without one no class. What `settings` do not take is not
/// looked at.
///
/// Symbolic links are followed. One that leads nowhere is an error where a sample or a folder may be missing: where
/// `settings` take its name, or it has no extension, as folders have none. Any other is passed over.
///
/// # Errors
///
/// [`IndexError::Read`] when something can't be read, [`IndexError::Format`] when the name of a sample or folder is no
/// UTF-8, or a link leads nowhere or back to a folder that it lies in, and [`IndexError::NoSamples`].
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
/// let index = load_index_folder(root, &FolderSettings::with_extensions(["jpg"]))?;
/// assert_eq!(index.class_names(), ["cat", "dog"]);
/// assert_eq!(index.labels(), [0, 1]);
/// assert_eq!(index.uri(0), Some(format!("file://{}/cat/a/2.jpg", root.display())));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn load_index_folder(root: impl AsRef<Path>, settings: &FolderSettings) -> Result<SampleIndex, IndexError> {
    let place = root.as_ref().display().to_string();
    let absolute = if root.as_ref().components().any(|part| part == Component::ParentDir) {
        // No URI has `..` in it, and only the file system knows where a link leads.
        fs::canonicalize(root)
    } else {
        std::path::absolute(root)
    };
    let root = absolute.map_err(|source| IndexError::Read { file: place.clone(), source })?;
    let mut found = Found::new();
    for entry in entries(&root, settings)? {
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
    for entry in entries(folder, settings)? {
        if entry.is_folder {
            walk(&entry.path, class, above, settings, found)?;
        } else {
            let read = fs::metadata(&entry.path);
            let size = read.map_err(|source| read_error(&entry.path, source))?.len();
            let path = entry.path.to_str().ok_or_else(|| no_utf8(&entry.path))?;
            found.push(&format!("file://{path}"), class, size, path)?;
        }
    }
    above.pop();
    Ok(())
}

/// Returns the folders in a folder, and the files that may be samples, in the order that the bytes of whole paths have.
fn entries(folder: &Path, settings: &FolderSettings) -> Result<Vec<Entry>, IndexError> {
    let error = |source| read_error(folder, source);
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(error)? {
        let entry = entry.map_err(error)?;
        let path = entry.path();
        let name = entry.file_name();
        let is_taken = settings.takes(&name.to_string_lossy());
        let kind = entry.file_type().map_err(|source| read_error(&path, source))?;
        let is_folder = if kind.is_symlink() {
            match fs::metadata(&path) {
                Ok(target) => target.is_dir(),
                Err(_) if !is_taken && path.extension().is_some() => false,
                Err(source) => return Err(dangling(&path, &source)),
            }
        } else {
            kind.is_dir()
        };
        if is_folder || is_taken {
            let name = name.into_string().map_err(|_| no_utf8(&path))?;
            entries.push(Entry { path, name, is_folder });
        }
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

fn dangling(link: &Path, source: &std::io::Error) -> IndexError {
    let target = fs::read_link(link).unwrap_or_default();
    let problem = format!(
        "is a link to {}, which can't be followed ({source}); bring back what it leads to, or remove the link",
        target.display()
    );
    IndexError::Format { file: link.display().to_string(), problem }
}

fn no_utf8(path: &Path) -> IndexError {
    let problem = "is a name that is no UTF-8, which no URI can hold; rename it".into();
    IndexError::Format { file: path.display().to_string(), problem }
}
