//! An index of a folder in which each class is a folder.

#[cfg(feature = "object_store")]
mod bucket;
mod local;

#[cfg(feature = "object_store")]
pub use bucket::list_index;
pub use local::load_index_folder;

use crate::error::IndexError;
use crate::labels::{LabelKind, Labels};
use crate::sample_index::SampleIndex;
use crate::uri_list::UriList;

/// Which objects of a folder are samples.
///
/// # Example: photographs, however their names are written
///
/// ```
/// use planfetch_index::FolderSettings;
///
/// let settings = FolderSettings::with_extensions(["jpg", "jpeg"]);
/// assert!(settings.takes("cat/1.JPG"));
/// assert!(!settings.takes("cat/1.txt") && !settings.takes("cat/jpg"));
/// assert!(FolderSettings::default().takes("cat/1.txt"));
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FolderSettings {
    /// The extensions that a name may have, without the dot; upper and lower case are the same. Default: none, which
    /// takes everything, also what a file manager hides in a folder.
    pub extensions: Vec<String>,
}

impl FolderSettings {
    /// Returns the settings under which a sample is what has one of these [`extensions`](Self::extensions).
    pub fn with_extensions<S: Into<String>>(extensions: impl IntoIterator<Item = S>) -> Self {
        Self { extensions: extensions.into_iter().map(Into::into).collect() }
    }

    /// Returns whether what is called `name` is a sample by its extension.
    #[must_use]
    pub fn takes(&self, name: &str) -> bool {
        let mut extensions = self.extensions.iter();
        self.extensions.is_empty()
            || extensions.any(|extension| {
                name.len().checked_sub(extension.len()).is_some_and(|at| {
                    name.is_char_boundary(at) && name[at..].eq_ignore_ascii_case(extension) && name[..at].ends_with('.')
                })
            })
    }
}

/// The samples of a folder, as they are found.
struct Found {
    uris: UriList,
    labels: Labels,
    sizes: Vec<u64>,
    last: String,
    is_sorted: bool,
}

impl Found {
    fn new() -> Self {
        Self {
            uris: UriList::default(),
            labels: Labels::new(LabelKind::Name),
            sizes: Vec::new(),
            last: String::new(),
            is_sorted: true,
        }
    }

    fn push(&mut self, uri: &str, class: &str, size: u64, place: &str) -> Result<(), IndexError> {
        self.is_sorted &= *self.last <= *uri;
        uri.clone_into(&mut self.last);
        self.uris.push(uri);
        self.sizes.push(size);
        self.labels
            .push(class)
            .map_err(|problem| IndexError::Format { file: place.into(), problem: format!("{class:?} {problem}") })
    }

    /// Makes the index, in the order of the bytes of the URIs.
    fn finish(self, place: &str) -> Result<SampleIndex, IndexError> {
        if self.uris.is_empty() {
            let advice = "an index is made of <class>/<file> in it, with an extension that the settings take".into();
            return Err(IndexError::NoSamples { place: place.into(), advice });
        }
        let (labels, class_names) = self.labels.finish();
        let index = SampleIndex::new(self.uris, labels, class_names).with_parts(Some(self.sizes), None);
        if self.is_sorted {
            return Ok(index);
        }
        let mut rows: Vec<(String, usize)> = index.uris().iter().zip(0..).collect();
        rows.sort_unstable();
        Ok(index.select(rows.into_iter().map(|(_, row)| row)))
    }
}
