//! Rank and world size from the environment variables of launchers.

use std::fmt;

use crate::world::World;

/// Where a [`World`] was found. Made by [`World::from_env`]; prints as one sentence for the log.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct DetectedWorld {
    /// The rank and the number of ranks.
    pub world: World,
    /// The launcher whose variables said so.
    pub launcher: Launcher,
    /// The names of the variables for rank and world size, or `None` where nothing was set.
    pub variables: Option<(&'static str, &'static str)>,
}

/// What starts the processes of a training run.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Launcher {
    /// `PLANFETCH_RANK` and `PLANFETCH_WORLD_SIZE`, set by hand.
    Explicit,
    /// torchrun, and what follows its convention: `RANK` and `WORLD_SIZE`.
    Torchrun,
    /// `srun`: `SLURM_PROCID` and `SLURM_NTASKS`.
    Slurm,
    /// Open MPI's `mpirun`: `OMPI_COMM_WORLD_RANK` and `OMPI_COMM_WORLD_SIZE`.
    OpenMpi,
    /// MPICH, Intel MPI and others with a process manager: `PMI_RANK` and `PMI_SIZE`.
    Pmi,
    /// An indexed job of Kubernetes: `JOB_COMPLETION_INDEX`. Kubernetes does not tell how many completions there are,
    /// so `PLANFETCH_WORLD_SIZE` or `WORLD_SIZE` must.
    Kubernetes,
    /// Nothing was set: one process.
    None,
}

/// Why the environment names no world.
#[derive(Clone, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// One variable of a pair is set and the other isn't.
    #[error(
        "{set} is set but {missing} is not; start the process with its launcher, \
         or set PLANFETCH_RANK and PLANFETCH_WORLD_SIZE (0 and 1 for a single process)"
    )]
    HalfSet {
        /// The variable that is set.
        set: &'static str,
        /// The one that is missing.
        missing: &'static str,
    },
    /// The process was started by the script of a SLURM job, and not by `srun`.
    #[error(
        "SLURM_NTASKS is {size}, but SLURM_STEP_NUM_TASKS is not set, as in a script that runs the program once; start \
         the program with srun, or set PLANFETCH_RANK and PLANFETCH_WORLD_SIZE (0 and 1 for a single process)"
    )]
    NoStep {
        /// What SLURM_NTASKS holds.
        size: String,
    },
    /// A variable holds no number.
    #[error("{variable} is {value:?}, but must be a whole number below 2^32")]
    NotANumber {
        /// The variable.
        variable: &'static str,
        /// What it holds.
        value: String,
    },
    /// The rank lies outside the world.
    #[error("{rank_variable} is {rank}, but must lie in 0..{size_variable}, which is {world_size}")]
    Range {
        /// The variable with the rank.
        rank_variable: &'static str,
        /// The rank.
        rank: u32,
        /// The variable with the world size.
        size_variable: &'static str,
        /// The world size.
        world_size: u32,
    },
}

/// As `Display`, since `main` prints the error that it returns by this.
impl fmt::Debug for WorldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

const EXPLICIT_SIZE: &str = "PLANFETCH_WORLD_SIZE";
const TORCHRUN_SIZE: &str = "WORLD_SIZE";
const KUBERNETES_RANK: &str = "JOB_COMPLETION_INDEX";

/// In a step of SLURM, which `srun` starts, and not in the script that `sbatch` starts, which is one process alone.
const SLURM_STEP_SIZE: &str = "SLURM_STEP_NUM_TASKS";

/// The pairs in the order in which they are tried: what a person set goes before any launcher, and the launcher that
/// runs inside another (torchrun in a SLURM step, or mpirun in a SLURM job, say) before the outer one.
const PAIRS: [(Launcher, &str, &str); 5] = [
    (Launcher::Explicit, "PLANFETCH_RANK", EXPLICIT_SIZE),
    (Launcher::Torchrun, "RANK", TORCHRUN_SIZE),
    (Launcher::OpenMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    (Launcher::Pmi, "PMI_RANK", "PMI_SIZE"),
    (Launcher::Slurm, "SLURM_PROCID", "SLURM_NTASKS"),
];

impl World {
    /// Finds out from the environment which rank this process is.
    ///
    /// Tried in this order, and the first pair that is set decides: `PLANFETCH_RANK` and `PLANFETCH_WORLD_SIZE`;
    /// torchrun; Open MPI; PMI; SLURM; an indexed job of Kubernetes. Where nothing is set, the process is alone.
    /// A variable that is set to nothing counts as not set.
    ///
    /// This is the only place of the crate that looks at its surroundings; [`from_lookup`](Self::from_lookup) is the
    /// same without.
    ///
    /// # Errors
    ///
    /// A [`WorldError`] when of a pair only one is set, since guessing would train every rank on everything, when a
    /// value is no number, when the rank lies outside the world, and in the script of a SLURM job of several tasks, which
    /// would train alone on its share of the data.
    pub fn from_env() -> Result<DetectedWorld, WorldError> {
        // A value that is not Unicode is passed on damaged, so that it is refused as no number rather than ignored.
        Self::from_lookup(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// Finds out from `lookup`, which returns the value of an environment variable, which rank this process is.
    ///
    /// # Errors
    ///
    /// As [`from_env`](Self::from_env).
    ///
    /// # Example
    ///
    /// ```
    /// use planfetch_plan::{Launcher, World};
    ///
    /// let found = World::from_lookup(|name| match name {
    ///     "SLURM_PROCID" => Some("3".to_owned()),
    ///     "SLURM_NTASKS" => Some("8".to_owned()),
    ///     _ => None,
    /// })?;
    /// assert_eq!(found.world, World { rank: 3, world_size: 8 });
    /// assert_eq!(found.launcher, Launcher::Slurm);
    /// assert_eq!(found.to_string(), "rank 3 of 8, from SLURM (SLURM_PROCID, SLURM_NTASKS)");
    /// # Ok::<(), planfetch_plan::WorldError>(())
    /// ```
    pub fn from_lookup(lookup: impl Fn(&'static str) -> Option<String>) -> Result<DetectedWorld, WorldError> {
        let get = |name| lookup(name).filter(|value| !value.trim().is_empty());
        let in_kubernetes = get(KUBERNETES_RANK).is_some();
        for (launcher, rank_variable, size_variable) in PAIRS {
            match (get(rank_variable), get(size_variable)) {
                (Some(_), Some(size))
                    if launcher == Launcher::Slurm
                        && size.trim() != "1"
                        && get("SLURM_JOB_ID").is_some()
                        && get(SLURM_STEP_SIZE).is_none() =>
                {
                    return Err(WorldError::NoStep { size });
                }
                (Some(rank), Some(size)) => return detected(launcher, (rank_variable, &rank), (size_variable, &size)),
                (Some(_), None) => return Err(WorldError::HalfSet { set: rank_variable, missing: size_variable }),
                // An indexed job has its rank elsewhere and needs one of these.
                (None, Some(_)) if in_kubernetes && [EXPLICIT_SIZE, TORCHRUN_SIZE].contains(&size_variable) => {}
                (None, Some(_)) => return Err(WorldError::HalfSet { set: size_variable, missing: rank_variable }),
                (None, None) => {}
            }
        }
        if let Some(rank) = get(KUBERNETES_RANK) {
            let size = [EXPLICIT_SIZE, TORCHRUN_SIZE].into_iter().find_map(|name| Some((name, get(name)?)));
            let (name, size) = size.ok_or(WorldError::HalfSet { set: KUBERNETES_RANK, missing: EXPLICIT_SIZE })?;
            return detected(Launcher::Kubernetes, (KUBERNETES_RANK, &rank), (name, &size));
        }
        Ok(DetectedWorld { world: Self::SINGLE, launcher: Launcher::None, variables: None })
    }
}

fn detected(
    launcher: Launcher,
    (rank_variable, rank): (&'static str, &str),
    (size_variable, size): (&'static str, &str),
) -> Result<DetectedWorld, WorldError> {
    let number = |variable, value: &str| {
        value.trim().parse().map_err(|_| WorldError::NotANumber { variable, value: value.to_owned() })
    };
    let world = World { rank: number(rank_variable, rank)?, world_size: number(size_variable, size)? };
    world.check().map_err(|_| WorldError::Range {
        rank_variable,
        rank: world.rank,
        size_variable,
        world_size: world.world_size,
    })?;
    Ok(DetectedWorld { world, launcher, variables: Some((rank_variable, size_variable)) })
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Explicit => "explicit settings",
            Self::Torchrun => "torchrun",
            Self::Slurm => "SLURM",
            Self::OpenMpi => "Open MPI",
            Self::Pmi => "PMI",
            Self::Kubernetes => "a Kubernetes indexed job",
            Self::None => "no launcher",
        })
    }
}

impl fmt::Display for DetectedWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.variables {
            Some((rank, size)) => write!(f, "{}, from {} ({rank}, {size})", self.world, self.launcher),
            None => write!(f, "{}, since no launcher has set rank and world size", self.world),
        }
    }
}
