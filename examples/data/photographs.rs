//! Where the trainers of photographs have them from, and what happens to the pixels.

use std::path::{Path, PathBuf};

use clap::Args;
use planfetch::cache::{CacheLimit, EvictionMode};
use planfetch::prelude::*;

/// Which photographs, and what they become
#[derive(Debug, Args)]
pub(crate) struct Photographs {
    /// What to train on: a folder with a folder for each class, or an index: a CSV file, or the URI of one
    #[arg(long)]
    train: String,
    /// What to validate with, in the same forms [default: a tenth of what to train on, held out]
    #[arg(long)]
    valid: Option<String>,
    /// The column of an index that says the class, by its name or its number; where the two indexes have not the same
    /// classes, take the one with names
    #[arg(long, default_value = "label")]
    class_col: String,
    /// The URL of an S3 server; credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY
    #[arg(long)]
    endpoint: Option<String>,
    /// The most bytes of validation images that are kept on disk
    #[arg(long, default_value_t = 20_000_000_000)]
    valid_cache_bytes: u64,
    /// The height and width of images
    #[arg(long, default_value_t = 224)]
    size: usize,
}

/// What to train on or to validate with.
pub(crate) struct Part {
    pub(crate) index: SampleIndex,
    pub(crate) cache: DiskCache,
    pub(crate) images: ImageSettings,
}

impl Photographs {
    /// Opens what to train on, which comes through a cache that holds the window, and what to validate with, which stays
    /// in a second cache as long as there is room. The caches lie in `cache_dir`.
    #[expect(clippy::print_stdout, reason = "the trainer reports on standard output")]
    pub(crate) fn open(&self, cache_dir: &Path, seed: u64) -> Result<(Part, Part), BoxError> {
        let valid_settings = CacheSettings {
            eviction: EvictionMode::Pressure,
            limit: CacheLimit::TotalSize(self.valid_cache_bytes),
            ..CacheSettings::default()
        };
        let train_cache = self.cache(cache_dir.join("train"), CacheSettings::default())?;
        let valid_cache = self.cache(cache_dir.join("valid"), valid_settings)?;
        let index = self.index(&self.train, &train_cache)?;
        let (train, valid) = match &self.valid {
            // By name, since each folder numbers the classes that it has.
            Some(location) => {
                let valid = self.index(location, &valid_cache)?.with_classes_of(&index)?;
                (index, valid)
            }
            None => {
                let split = index.split(0.9, 0.1, SplitBy::ExactPerClass, seed)?;
                (split.train, split.val)
            }
        };
        let (n, num_classes) = (train.len(), train.num_classes());
        println!("{n} images of {num_classes} classes to train on, {} to validate with", valid.len());
        let size = [self.size, self.size];
        let augmentation = Compose::new([
            RandomResizedCrop { size, ..RandomResizedCrop::default() }.into(),
            RandomHorizontalFlip::default().into(),
        ]);
        let centre = Compose::new([
            // As torchvision's models do: 256 for 224.
            Resize { size: Size::ShorterSide(self.size * 8 / 7), ..Resize::default() }.into(),
            CenterCrop { size }.into(),
        ]);
        Ok((
            Part { index: train, cache: train_cache, images: self.images(augmentation) },
            Part { index: valid, cache: valid_cache, images: self.images(centre) },
        ))
    }

    fn cache(&self, dir: PathBuf, settings: CacheSettings) -> Result<DiskCache, BoxError> {
        let stores = StoreSettings { endpoint: self.endpoint.clone(), ..StoreSettings::default() };
        Ok(DiskCache::builder(dir).with_settings(settings).with_store_settings(stores).build()?)
    }

    /// Reads a folder of classes or an index.
    fn index(&self, location: &str, cache: &DiskCache) -> Result<SampleIndex, BoxError> {
        if Path::new(location).is_dir() {
            return Ok(load_index_folder(location, &FolderSettings::with_extensions(IMAGE_EXTENSIONS))?);
        }
        let columns = CsvSettings { label_col: self.class_col.clone(), ..CsvSettings::default() };
        Ok(load_index(location, &columns, cache)?)
    }

    fn images(&self, transforms: Compose) -> ImageSettings {
        ImageSettings { height: self.size, width: self.size, transforms, ..ImageSettings::default() }
    }
}

/// Returns how a training of days loads: a file that is damaged does not end it.
pub(crate) fn settings(epochs: u64) -> LoaderSettings {
    LoaderSettings { num_epochs: Some(epochs), on_error: OnError::Substitute { max: 100 }, ..LoaderSettings::default() }
}
