//! The names that a training program uses.
//!
//! ```
//! use planfetch::prelude::*;
//!
//! let plan = SequentialPlanProvider::new(10, 4)?.plan(0)?;
//! assert_eq!(plan.num_batches(), 3);
//! # Ok::<(), PlanError>(())
//! ```

pub use crate::build::build_prefetching_loader;
pub use crate::load_index::load_index;

pub use planfetch_cache::{
    CacheError, CacheLimit, CacheSettings, DiskCache, EvictionMode, LocalFile, PruneBackend, StoreSettings,
};
#[cfg(feature = "image")]
pub use planfetch_image::{
    BatchTransform, CenterCrop, ColorJitter, ColorMode, Compose, DecodeSettings, IMAGE_EXTENSIONS, IMAGENET_MEAN,
    IMAGENET_STD, ImageBatch, ImageCollate, ImageDataset, ImageSettings, Layout, RandAugment, RandomCrop,
    RandomErasing, RandomGrayscale, RandomHorizontalFlip, RandomResizedCrop, RandomRotation, RandomVerticalFlip,
    Resize, Size, TrivialAugmentWide,
};
pub use planfetch_index::{
    CsvSettings, FolderSettings, IndexBuilder, IndexError, LabelKind, SampleIndex, SplitBy, load_index_csv,
    load_index_folder,
};
pub use planfetch_loader::{
    Batch, BatchesAhead, BoxError, Checkpoint, CheckpointRecorder, Collate, Dataset, FailedSample, LoaderBuilder,
    LoaderError, LoaderReport, LoaderSettings, LoaderState, ObjectPathDataset, ObjectUris, OnError, PadCollate,
    PrefetchController, PrefetchCoordinator, PrefetchingLoader, SampleContext, StackCollate, VecCollate, collate_fn,
};
pub use planfetch_plan::{
    BalancedSubsamplingPlanProvider, BucketPlanProvider, ConcatPlanProvider, CurriculumPlanProvider, Cursor,
    Fingerprint, MixturePlanProvider, PlanBatchSampler, PlanError, PlanProvider, PlanView, RemainderPolicy,
    RepeatPlanProvider, SampleId, SequentialPlanProvider, ShuffleOncePerEpochPlanProvider,
    StreamingStratifiedBatchPlanProvider, SubsetPlanProvider, WeightedPlanProvider, World,
};
