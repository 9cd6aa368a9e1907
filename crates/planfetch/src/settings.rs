//! All settings in one file.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use planfetch_cache::{CacheSettings, StoreSettings};
#[cfg(feature = "image")]
use planfetch_image::ImageSettings;
use planfetch_loader::LoaderSettings;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The settings of a training run, as a TOML file holds them. The planfetch program reads the same file, so that what it
/// measures is what the training program then does.
///
/// The tables are `[cache]`, `[store]`, `[loader]` and `[image]`, with the fields of [`CacheSettings`],
/// [`StoreSettings`], [`LoaderSettings`] and `ImageSettings`, and `cache_dir` stands before them. What is not in the file
/// is as by default. The tables `[index]`, `[plan]` and `[command]` are those of the program, and not looked at here.
///
/// # Example
///
/// ```
/// use planfetch::Settings;
///
/// let settings = Settings::from_toml(r#"
///     cache_dir = "/mnt/nvme/planfetch"
///
///     [cache]
///     download_concurrency = 128
///     limit = { total_size = 900_000_000_000 }
///
///     [loader]
///     batches_ahead = "auto"
///     num_workers = 16
///
///     [plan]
///     batch_size = 256
/// "#)?;
/// assert_eq!(settings.cache.download_concurrency, 128);
/// assert_eq!(settings.loader.num_workers, 16);
///
/// let error = Settings::from_toml("[loader]\nnum_wokers = 16").expect_err("a typo");
/// assert!(error.to_string().contains("line 2") && error.to_string().contains("unknown field `num_wokers`"));
/// # Ok::<(), planfetch::SettingsError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The directory of the cache. Default: none; the program then uses a temporary one.
    pub cache_dir: Option<PathBuf>,
    /// How the cache downloads, and what it keeps.
    pub cache: CacheSettings,
    /// How object stores are opened.
    pub store: StoreSettings,
    /// How the loader works ahead.
    pub loader: LoaderSettings,
    /// What becomes of an image. Feature `image`.
    #[cfg(feature = "image")]
    pub image: ImageSettings,
}

/// What stands in a file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    cache_dir: Option<PathBuf>,
    cache: CacheSettings,
    store: StoreSettings,
    loader: LoaderSettings,
    #[cfg(feature = "image")]
    image: ImageSettings,
    #[cfg(not(feature = "image"))]
    image: IgnoredAny,
    // The tables of the planfetch program: where the index lies, the order, and the options of its commands.
    index: IgnoredAny,
    plan: IgnoredAny,
    command: IgnoredAny,
}

/// Why [`Settings`] can't be read. Prints what is wrong, with the line.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The file can't be read.
    #[error("can't read the settings {}", path.display())]
    Read {
        /// The file as it was named.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// It is no TOML, or a value can't be used.
    #[error("{}{message}", Named(path))]
    Value {
        /// The file as it was named, where there is one.
        path: Option<PathBuf>,
        /// What is wrong, where, and what is allowed.
        message: String,
    },
}

/// The message and what caused it, since `main` prints the error that it returns by this.
impl fmt::Debug for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        self.source().map_or(Ok(()), |cause| write!(f, ": {cause}"))
    }
}

/// The file that an error is about.
struct Named<'a>(&'a Option<PathBuf>);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |path| write!(f, "{}: ", path.display()))
    }
}

impl Settings {
    /// Reads the file at `path`.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] when it can't be read, is no TOML, names a setting that does not exist, or holds a value of
    /// another kind. Whether numbers lie in their ranges is said when what they are for is built.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, SettingsError> {
        let path = path.as_ref();
        let text =
            std::fs::read_to_string(path).map_err(|source| SettingsError::Read { path: path.to_owned(), source })?;
        Self::from_toml(&text).map_err(|error| match error {
            SettingsError::Value { message, .. } => SettingsError::Value { path: Some(path.to_owned()), message },
            other => other,
        })
    }

    /// Reads settings from text in TOML.
    ///
    /// # Errors
    ///
    /// [`SettingsError::Value`], as for [`load`](Self::load).
    pub fn from_toml(text: &str) -> Result<Self, SettingsError> {
        let file: File =
            toml::from_str(text).map_err(|error| SettingsError::Value { path: None, message: error.to_string() })?;
        let File { cache_dir, cache, store, loader, image, index: _, plan: _, command: _ } = file;
        #[cfg(not(feature = "image"))]
        let _ = image;
        Ok(Self {
            cache_dir,
            cache,
            store,
            loader,
            #[cfg(feature = "image")]
            image,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use planfetch_cache::{CacheLimit, EvictionMode};
    use planfetch_loader::{BatchesAhead, OnError};

    use super::*;

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(Settings::from_toml("").unwrap(), Settings::default());
        assert_eq!(Settings::from_toml("[command.speedtest]\nepochs = 3").unwrap(), Settings::default());
    }

    #[test]
    fn every_kind_of_value_has_a_form() {
        let settings = Settings::from_toml(
            "[cache]\nlimit = { available_space = { min_ratio = 0.1 } }\neviction = \"clairvoyant\"\n\
             initial_backoff = { secs = 1, nanos = 0 }\n[loader]\non_error = { substitute = { max = 7 } }\n\
             batches_ahead = \"auto\"\ntimeout = { secs = 60, nanos = 0 }\n[store]\nanonymous = true\n",
        )
        .unwrap();
        assert_eq!(settings.cache.limit, CacheLimit::AvailableSpace { min_ratio: 0.1 });
        assert_eq!(settings.cache.eviction, EvictionMode::Clairvoyant);
        assert_eq!(settings.cache.initial_backoff, Duration::from_secs(1));
        assert_eq!(settings.loader.on_error, OnError::Substitute { max: 7 });
        assert_eq!(settings.loader.batches_ahead, BatchesAhead::Auto);
        assert_eq!(settings.loader.timeout, Some(Duration::from_secs(60)));
        assert!(settings.store.anonymous);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, expected) in [
            ("cache_dir = \"a\"\n[chache]\nlimit = 3\n", ["line 2", "unknown field `chache`"]),
            ("[loader]\n\nnum_workers = \"four\"\n", ["line 3", "invalid type: string \"four\""]),
            ("[cache]\nlimit = 3 GB\n", ["line 2", "TOML parse error"]),
        ] {
            let error = Settings::from_toml(text).unwrap_err().to_string();
            assert!(expected.iter().all(|part| error.contains(part)), "{error}");
        }
    }

    #[test]
    fn a_file_is_named() {
        let error = Settings::load("/nowhere/planfetch.toml").unwrap_err();
        assert_eq!(error.to_string(), "can't read the settings /nowhere/planfetch.toml");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("planfetch.toml");
        std::fs::write(&path, "[loader]\nbatches = 3\n").unwrap();
        let error = Settings::load(&path).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}: ", path.display())), "{error}");
    }
}
