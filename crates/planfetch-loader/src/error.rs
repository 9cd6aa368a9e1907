//! What can go wrong on the way to a batch.

use std::error::Error;
use std::fmt;

use planfetch_plan::{PlanError, SampleId};

/// Any error, for what users' own code returns.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Why a batch can't be had.
///
/// Its message names the sample and its URI, says what happened, and what to do where that is known.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoaderError {
    /// A sample can't be loaded: its object can't be had, or can't be decoded, or user code refused it.
    Sample(Box<FailedSample>),
    /// A plan can't be made.
    Plan(PlanError),
    /// A setting is out of its range.
    Setting {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        range: String,
    },
    /// The parts that were given do not fit together.
    Mismatch {
        /// What does not fit, and what to do.
        problem: String,
    },
    /// The threads of the loader can't be started.
    Threads(BoxError),
}

/// A sample that can't be loaded.
#[derive(Debug)]
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
    /// Its place in the batch.
    pub slot: usize,
    /// What happened.
    pub cause: BoxError,
}

impl fmt::Display for LoaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sample(sample) => {
                let FailedSample { id, uri, epoch, step, slot, cause } = &**sample;
                write!(f, "can't load sample {id} (epoch {epoch}, step {step}, slot {slot}): ")?;
                let cause = cause.to_string();
                match uri {
                    // The cache's errors begin with the URI already.
                    Some(uri) if !cause.contains(uri.as_str()) => write!(f, "{uri}: {cause}"),
                    _ => f.write_str(&cause),
                }
            }
            Self::Plan(error) => error.fmt(f),
            Self::Setting { name, value, range } => write!(f, "{name} is {value}, but must lie in {range}"),
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
            Self::Threads(error) => error.source(),
            Self::Setting { .. } | Self::Mismatch { .. } => None,
        }
    }
}

impl From<PlanError> for LoaderError {
    fn from(error: PlanError) -> Self {
        Self::Plan(error)
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
