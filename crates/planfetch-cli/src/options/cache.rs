//! What is kept on the local disk.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use planfetch::cache::{CacheLimit, EvictionMode, PruneBackend};
use planfetch::prelude::*;

use crate::context::Context;
use crate::failure::Failure;
use crate::interrupt::TempFolder;
use crate::units::MaxBytes;

#[derive(Args, Debug)]
#[command(next_help_heading = "Cache")]
pub(crate) struct CacheOptions {
    /// The directory of the cache [default: a temporary one, removed at the end]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// The most that the cache may take of the disk: a size, unlimited, or free:10% to leave a tenth of the disk free
    #[arg(long, value_name = "SIZE", default_value = "10GB")]
    max_bytes: MaxBytes,
    /// Objects that are asked for at once
    #[arg(long, value_name = "N", default_value_t = 64)]
    download_threads: usize,
    /// Which files go
    #[arg(long, value_enum, value_name = "MODE", default_value_t = PruneMode::Window)]
    prune_mode: PruneMode,
    /// Who keeps the books of the directory
    #[arg(long, value_enum, value_name = "BACKEND", default_value_t = Backend::Meta)]
    prune_backend: Backend,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum PruneMode {
    /// Those that have left the window around the reader
    Window,
    /// Those that were not used for the longest time, when the limit is reached
    Pressure,
    /// Those that are used last in the plan, when the limit is reached
    Clairvoyant,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Backend {
    /// This process, which has the directory for itself
    Meta,
    /// The directory itself, which any number of processes then share
    Scan,
}

/// A cache, and what has to outlive it.
#[derive(Debug)]
pub(crate) struct OpenCache {
    // Dropped before the folder that it lies in.
    pub(crate) cache: DiskCache,
    pub(crate) temporary: Option<TempFolder>,
}

impl OpenCache {
    /// Opens a cache in a temporary folder, for what is read once, such as an index.
    pub(crate) fn temporary(stores: &StoreSettings, context: &Context) -> Result<Self, Failure> {
        Self::open(None, context.settings.cache.clone(), stores, context)
    }

    /// Opens a cache, in a temporary folder where no directory is named.
    fn open(
        dir: Option<&Path>,
        settings: CacheSettings,
        stores: &StoreSettings,
        context: &Context,
    ) -> Result<Self, Failure> {
        let (dir, temporary) = match dir {
            Some(dir) => (dir.to_owned(), None),
            None => {
                let folder = TempFolder::new(&context.interrupt)?;
                (folder.path().join("cache"), Some(folder))
            }
        };
        let cache = DiskCache::builder(dir).with_settings(settings).with_store_settings(stores.clone()).build()?;
        Ok(Self { cache, temporary })
    }
}

impl CacheOptions {
    /// Returns the settings of the file with what the options say.
    fn settings(&self, context: &Context) -> Result<CacheSettings, Failure> {
        if self.prune_mode == PruneMode::Clairvoyant && self.prune_backend == Backend::Scan {
            return Err(Failure::usage(
                "--prune-mode clairvoyant can't go with --prune-backend scan: no process knows what the others use next",
                "use --prune-mode window or pressure, or --prune-backend meta",
            ));
        }
        if self.prune_backend == Backend::Scan && matches!(self.max_bytes.0, CacheLimit::AvailableSpace { .. }) {
            return Err(Failure::usage(
                format!("--max-bytes {} can't go with --prune-backend scan, which needs a size", self.max_bytes),
                "give the same size to all processes that share the directory, such as --max-bytes 100GB",
            ));
        }
        Ok(CacheSettings {
            eviction: match self.prune_mode {
                PruneMode::Window => EvictionMode::Window,
                PruneMode::Pressure => EvictionMode::Pressure,
                PruneMode::Clairvoyant => EvictionMode::Clairvoyant,
            },
            prune_backend: match self.prune_backend {
                Backend::Meta => PruneBackend::Meta,
                Backend::Scan => PruneBackend::Scan,
            },
            limit: self.max_bytes.0,
            download_concurrency: self.download_threads,
            ..context.settings.cache.clone()
        })
    }

    /// Opens the cache.
    pub(crate) fn open(&self, stores: &StoreSettings, context: &Context) -> Result<OpenCache, Failure> {
        OpenCache::open(self.cache_dir.as_deref(), self.settings(context)?, stores, context)
    }
}
