//! What can go wrong on the way to a batch.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use planfetch_plan::{PlanError, RestoreError, SampleId};

/// Any error, for what users' own code returns.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Why a batch can't be had.
///
/// Its message names the sample and its URI, says what happened, and what to do where that is known.
#[non_exhaustive]
pub enum LoaderError {
    /// A sample can't be loaded: its object can't be had, or can't be decoded, or user code refused it.
    Sample(Box<FailedSample>),
    /// The collate panicked where no single sample was at work: while it made room for a batch or finished one.
    Collate {
        /// The epoch of the batch.
        epoch: u64,
        /// The step of the batch.
        step: usize,
        /// What it said.
        cause: BoxError,
    },
    /// No batch came within [`LoaderSettings::timeout`](crate::LoaderSettings::timeout).
    ///
    /// Nothing is lost by it: the next call waits for the same batch.
    Timeout {
        /// The epoch of the batch that was waited for.
        epoch: u64,
        /// The step of the batch that was waited for.
        step: usize,
        /// How long was waited.
        waited: Duration,
        /// What the batch lacks.
        lacks: String,
    },
    /// A plan can't be made.
    Plan(PlanError),
    /// The loader can't go on from a state: it belongs to another order, or another version wrote it.
    Restore(Box<RestoreError>),
    /// A setting is out of its range.
    Setting {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is allowed, as a clause such as "must lie in 1..=4096", and where it helps, what to do.
        allowed: String,
    },
    /// The parts that were given do not fit together.
    Mismatch {
        /// What does not fit, and what to do.
        problem: String,
    },
    /// The threads of the loader can't be started.
    Threads(BoxError),
}

/// As `Display`, since `main` prints the error that it returns by this.
impl fmt::Debug for LoaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A sample that can't be loaded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FailedSample {
    /// The sample: its row in the index.
    pub id: SampleId,
    /// Its object, where it has one.
    pub uri: Option<String>,
    /// The epoch in which it was wanted.
    pub epoch: u64,
    /// The step in which it was wanted.
    pub step: usize,
    /// The slot of this rank's batch that the plan means for it.
    pub slot: usize,
    /// Its place in the epoch's order, over all ranks.
    pub position: u64,
    /// The sample that took its place, under [`OnError::Substitute`](crate::OnError::Substitute).
    pub substitute: Option<SampleId>,
    /// What happened.
    pub cause: Arc<dyn Error + Send + Sync>,
}

impl fmt::Display for FailedSample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, uri, epoch, step, slot, cause, .. } = self;
        write!(f, "can't load sample {id} (epoch {epoch}, step {step}, slot {slot}): ")?;
        let cause = cause.to_string();
        match uri {
            // The cache's errors begin with the URI already.
            Some(uri) if !cause.contains(uri.as_str()) => write!(f, "{uri}: {cause}"),
            _ => f.write_str(&cause),
        }
    }
}

impl fmt::Display for LoaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sample(sample) => sample.fmt(f),
            Self::Collate { epoch, step, cause } => {
                write!(f, "can't collate the batch of epoch {epoch}, step {step}: {cause}")
            }
            Self::Timeout { epoch, step, waited, lacks } => write!(
                f,
                "no batch came within {:.1} s (epoch {epoch}, step {step}): {lacks}; the next call waits on, or raise \
                 timeout",
                waited.as_secs_f64()
            ),
            Self::Restore(error) => write!(f, "can't go on from this state: {error}"),
            Self::Plan(error) => error.fmt(f),
            Self::Setting { name, value, allowed } => write!(f, "{name} is {value}, but {allowed}"),
            Self::Mismatch { problem } => f.write_str(problem),
            Self::Threads(error) => write!(f, "can't start the loader's threads: {error}"),
        }
    }
}

impl Error for LoaderError {
    /// Returns the cause behind the one that the message tells of already.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Sample(sample) => sample.cause.source(),
            Self::Plan(error) => error.source(),
            Self::Restore(error) => error.source(),
            Self::Collate { cause: error, .. } | Self::Threads(error) => error.source(),
            Self::Setting { .. } | Self::Mismatch { .. } | Self::Timeout { .. } => None,
        }
    }
}

impl From<PlanError> for LoaderError {
    fn from(error: PlanError) -> Self {
        Self::Plan(error)
    }
}

impl From<RestoreError> for LoaderError {
    fn from(error: RestoreError) -> Self {
        Self::Restore(Box::new(error))
    }
}

/// What user code said when it panicked.
#[derive(Debug)]
pub(crate) struct Panicked(String);

impl Panicked {
    pub(crate) fn new(payload: &(dyn std::any::Any + Send)) -> Self {
        let message = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let message = message.or_else(|| payload.downcast_ref::<String>().cloned());
        Self(message.unwrap_or_else(|| "a value that is no text".into()))
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "user code panicked: {}", self.0)
    }
}

impl Error for Panicked {}
