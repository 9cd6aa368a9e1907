//! Rank and world size from what launchers set.

use planfetch_plan::{DetectedWorld, Launcher, World, WorldError};

#[track_caller]
fn lookup(variables: &[(&str, &str)]) -> Result<DetectedWorld, WorldError> {
    World::from_lookup(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
}

#[test]
fn each_launcher_is_known_by_its_variables() {
    for (launcher, rank, size) in [
        (Launcher::Explicit, "PLANFETCH_RANK", "PLANFETCH_WORLD_SIZE"),
        (Launcher::Torchrun, "RANK", "WORLD_SIZE"),
        (Launcher::Slurm, "SLURM_PROCID", "SLURM_NTASKS"),
        (Launcher::OpenMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        (Launcher::Pmi, "PMI_RANK", "PMI_SIZE"),
        (Launcher::Kubernetes, "JOB_COMPLETION_INDEX", "WORLD_SIZE"),
        (Launcher::Kubernetes, "JOB_COMPLETION_INDEX", "PLANFETCH_WORLD_SIZE"),
    ] {
        let found = lookup(&[(rank, "3"), (size, " 8 ")]).unwrap();
        assert_eq!((found.world, found.launcher), (World { rank: 3, world_size: 8 }, launcher));
        assert_eq!(found.variables, Some((rank, size)));
        assert!(found.to_string().contains(rank) && found.to_string().contains(size), "{found}");
        // Neither variable alone will do.
        for (set, missing, half) in [(rank, size, [(rank, "3")]), (size, rank, [(size, "8")])] {
            let error = lookup(&half).expect_err("half-set");
            assert!(error.to_string().starts_with(&format!("{set} is set but ")), "{error}");
            assert!(launcher == Launcher::Kubernetes || error == (WorldError::HalfSet { set, missing }));
        }
    }
}

#[test]
fn nothing_set_is_a_single_process() {
    let found = lookup(&[("HOME", "/root"), ("RANK", ""), ("WORLD_SIZE", " ")]).unwrap();
    assert_eq!((found.world, found.launcher), (World::SINGLE, Launcher::None));
    assert_eq!(found.to_string(), "rank 0 of 1, since no launcher has set rank and world size");
}

#[test]
fn what_a_person_set_goes_before_launchers_and_the_inner_launcher_before_the_outer() {
    let slurm = [("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2")];
    let torchrun = [("RANK", "5"), ("WORLD_SIZE", "16")];
    let explicit = [("PLANFETCH_RANK", "0"), ("PLANFETCH_WORLD_SIZE", "1")];
    let kubernetes = [("JOB_COMPLETION_INDEX", "9")];
    let open_mpi = [("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "4")];
    let pmi = [("PMI_RANK", "3"), ("PMI_SIZE", "4")];
    // mpirun in a job of SLURM: started from its script, where SLURM's variables are those of one process, or from a shell
    // that salloc gave, where they are half set.
    for (inner, launcher) in [(&open_mpi, Launcher::OpenMpi), (&pmi, Launcher::Pmi)] {
        for outer in [&slurm[..], &slurm[1..]] {
            let found = lookup(&[&inner[..], outer].concat()).unwrap();
            assert_eq!((found.launcher, found.world.rank), (launcher, 3));
        }
    }
    assert_eq!(lookup(&[&slurm[..], &torchrun].concat()).unwrap().launcher, Launcher::Torchrun);
    assert_eq!(lookup(&[&kubernetes[..], &torchrun].concat()).unwrap().launcher, Launcher::Torchrun);
    assert_eq!(lookup(&[&slurm[..], &torchrun, &explicit].concat()).unwrap().launcher, Launcher::Explicit);
    // A later launcher's half is no matter where an earlier one is whole.
    assert_eq!(lookup(&[&torchrun[..], &slurm[1..]].concat()).unwrap().launcher, Launcher::Torchrun);
    // An earlier one's half is.
    assert!(lookup(&[&torchrun[1..], &slurm].concat()).is_err());
}

#[test]
fn a_script_of_a_slurm_job_is_no_rank_of_its_tasks() {
    let script = [("SLURM_JOB_ID", "77"), ("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")];
    let error = lookup(&script).unwrap_err();
    assert_eq!(error, WorldError::NoStep { size: "8".into() });
    assert!(error.to_string().contains("srun"), "{error}");
    // Started by srun, of one task, or told what it is, it has a rank.
    let step = lookup(&[&script[..], &[("SLURM_STEP_NUM_TASKS", "8")]].concat()).unwrap();
    assert_eq!(step.world, World { rank: 0, world_size: 8 });
    let one = lookup(&[("SLURM_JOB_ID", "77"), ("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")]).unwrap();
    assert_eq!(one.world, World::SINGLE);
    let explicit = [("PLANFETCH_RANK", "2"), ("PLANFETCH_WORLD_SIZE", "8")];
    assert_eq!(lookup(&[&script[..], &explicit].concat()).unwrap().world, World { rank: 2, world_size: 8 });
}

#[test]
fn values_that_are_no_ranks_are_errors_that_name_the_variable() {
    for value in ["three", "-1", "3.0", "4294967296", "\u{fffd}"] {
        let error = lookup(&[("RANK", value), ("WORLD_SIZE", "8")]).expect_err("not a number");
        assert_eq!(error, WorldError::NotANumber { variable: "RANK", value: value.to_owned() });
    }
    for (rank, size) in [("8", "8"), ("0", "0")] {
        let error = lookup(&[("RANK", rank), ("WORLD_SIZE", size)]).expect_err("outside the world");
        assert_eq!(error.to_string(), format!("RANK is {rank}, but must lie in 0..WORLD_SIZE, which is {size}"));
    }
}
