//! Whether the versions that the manifests ask for are enough.

use std::fs;
use std::path::Path;

use crate::{root, run, say, target_dir};

/// Builds what is committed with the lowest version of each direct dependency.
///
/// It happens in a clone, since another lock file takes the place of the project's.
pub(crate) fn check() -> bool {
    let target = target_dir().unwrap_or_else(|| root().join("target"));
    let clone = target.join("minimal");
    if clone.exists() && fs::remove_dir_all(&clone).is_err() {
        say(&format!("can't remove {}\n", clone.display()));
        return false;
    }
    let (root, target) = (root(), target.join("minimal-target"));
    let (Some(root), Some(clone_text), Some(target)) = (root.to_str(), clone.to_str(), target.to_str()) else {
        say("the path of the checkout or of the build output is not UTF-8\n");
        return false;
    };
    let manifest = format!("{clone_text}/Cargo.toml");
    // The option is for nightly compilers; the variable makes any take it.
    let unstable = [("RUSTC_BOOTSTRAP", "1")];
    let lowest = ["generate-lockfile", "-Z", "direct-minimal-versions", "--manifest-path", &manifest];
    let features =
        ["planfetch/arrow", "planfetch/config", "planfetch/indicatif", "planfetch/listing", "planfetch/mmap"];
    let features =
        [&features[..], &["planfetch/azure", "planfetch/gcp", "planfetch/http", "planfetch/metrics"]].concat();
    let features = features.join(",");
    let check = ["check", "--workspace", "--exclude", "xtask", "--lib", "--bins", "--locked", "--features", &features];
    run("clone", "git", &["clone", "--quiet", root, clone_text], &[])
        && keep_tch(&clone)
        && run("lowest versions", "cargo", &lowest, &unstable)
        && run(
            "build with the lowest versions",
            "cargo",
            &[&check[..], &["--manifest-path", &manifest, "--target-dir", target]].concat(),
            &[],
        )
}

/// Pins tch to the version that is locked: each version is for one libtorch, so the lowest is for another than is here.
fn keep_tch(clone: &Path) -> bool {
    let (manifest, lock) = (clone.join("Cargo.toml"), clone.join("Cargo.lock"));
    let pin = || -> std::io::Result<()> {
        let locked = fs::read_to_string(&lock)?;
        let lines = fs::read_to_string(&manifest)?;
        let pinned = lines.lines().map(|line| {
            let Some(name) = ["tch", "torch-sys"].into_iter().find(|name| line.starts_with(&format!("{name} = ")))
            else {
                return format!("{line}\n");
            };
            let after = locked.split_once(&format!("name = \"{name}\"\nversion = \"")).map_or("", |(_, after)| after);
            format!("{name} = \"={}\"\n", after.split('"').next().unwrap_or_default())
        });
        fs::write(&manifest, pinned.collect::<String>())?;
        fs::remove_file(&lock)
    };
    pin().map_err(|error| say(&format!("{}: {error}\n", manifest.display()))).is_ok()
}
