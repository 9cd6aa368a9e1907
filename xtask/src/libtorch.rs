//! Lays down libtorch, which the crate for tch links.
//!
//! No registry has a libtorch without CUDA for Linux by itself, but the wheel of PyTorch holds one: of its 900 MB, two
//! libraries are taken, and two small ones that they need from wheels of their own.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::say;
use crate::wheels::{self, remove, run, set_link};

/// What tch 0.22 wants.
const VERSION: &str = "2.9.0+cpu";

/// The wheels, as pip's requirements. pip refuses another file.
const REQUIREMENTS: &str = "\
torch==2.9.0 --hash=sha256:51de31219c97c51cf4bf2be94d622e3deb5dcc526c6dc00e97c17eaec0fc1d67
nvidia-cuda-runtime-cu12==12.8.90 --hash=sha256:adade8dcbd0edf427b7204d480d6066d33902cab2a4707dcfc48a2d0fd44ab90
nvidia-cuda-cupti-cu12==12.8.90 --hash=sha256:ea0cb07ebda26bb9b29ba82cda34849e73c166c18162d3913575b0c9db9a6182
";

/// Takes from the wheels in the first folder, into the second, what a program links and what its build includes.
const EXTRACT: &str = r#"
import glob, os, shutil, sys, zipfile
wheels, out = sys.argv[1:]
wanted = {"torch/lib/libtorch_cpu.so", "torch/lib/libc10.so", "torch/lib/libgomp.so.1",
          "nvidia/cuda_runtime/lib/libcudart.so.12", "nvidia/cuda_cupti/lib/libcupti.so.12"}
found = set()
for wheel in glob.glob(os.path.join(wheels, "*.whl")):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name in wanted:
                found.add(name)
                path = os.path.join(out, "lib", os.path.basename(name))
            elif name.startswith("torch/include/") and not name.endswith("/"):
                path = os.path.join(out, name[len("torch/"):])
            else:
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with archive.open(name) as source, open(path, "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
sys.exit(f"the wheels lack {wanted - found}" if wanted - found else 0)
"#;

const OTHERWISE: &str = "\
libtorch 2.9.0 is laid down by itself for x86_64 Linux alone. Elsewhere, and for a GPU, take one of these:
  a build for CUDA    unpack libtorch 2.9.0 for your CUDA (the C++ download of pytorch.org), and set LIBTORCH to its
                      folder
  macOS, and others   python3 -m pip install torch==2.9.0, and set LIBTORCH_USE_PYTORCH=1
";

/// Makes sure that there is a libtorch for the workspace at `root`; `cache` is where those that are laid down stay.
pub(crate) fn prepare(root: &Path, cache: &Path) -> bool {
    let link = root.join("third_party/libtorch");
    if env::var_os("LIBTORCH_USE_PYTORCH").is_some() {
        say("libtorch: that of the Python environment, as LIBTORCH_USE_PYTORCH says\n");
        return true;
    }
    // Cargo's configuration sets it too, to the link.
    if let Some(folder) = env::var_os("LIBTORCH").map(PathBuf::from).filter(|folder| *folder != link) {
        say(&format!("libtorch: {}, as LIBTORCH says\n", folder.display()));
        return true;
    }
    // One that somebody has put there, and no link of ours.
    if fs::symlink_metadata(&link).is_ok_and(|metadata| !metadata.is_symlink()) {
        say(&format!("libtorch: {}, which is no link of this command and stays\n", link.display()));
        return true;
    }
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        say(OTHERWISE);
        return false;
    }
    let folder = cache.join(format!("libtorch-{VERSION}"));
    match lay_down(cache, &folder).and_then(|()| set_link(&link, &folder)) {
        Ok(()) => true,
        Err(error) => {
            say(&format!("libtorch: {error}\n\n{OTHERWISE}"));
            false
        }
    }
}

fn is_whole(folder: &Path) -> bool {
    fs::read_to_string(folder.join("build-version")).is_ok_and(|version| version.trim() == VERSION)
}

fn lay_down(cache: &Path, folder: &Path) -> io::Result<()> {
    wheels::lay_down(cache, "libtorch", || is_whole(folder), |unfinished| make(unfinished, folder))
}

fn make(unfinished: &Path, folder: &Path) -> io::Result<()> {
    say(&format!("libtorch: downloading 0.9 GB, of which 0.4 GB stay in {}\n", folder.display()));
    let (wheels, made) = (unfinished.join("wheels"), unfinished.join("libtorch"));
    wheels::download(REQUIREMENTS, &wheels)?;
    run(Command::new("python3").args(["-c", EXTRACT]).args([&wheels, &made]))?;
    remove(&wheels)?;
    let lib = made.join("lib");
    // The wheel's own needs libtorch_cuda.so, of 1 GB.
    run(Command::new("cc")
        .args(["-shared", "-Wl,-soname,libtorch.so", "-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined"])
        .args(["-Wl,-rpath,$ORIGIN", "-o"])
        .arg(lib.join("libtorch.so"))
        .arg("-L")
        .arg(&lib)
        .args(["-ltorch_cpu", "-lc10"]))?;
    // It saves 90 MB; without binutils it stays as it is.
    let _ = Command::new("strip").arg("--strip-unneeded").arg(lib.join("libtorch_cpu.so")).status();
    fs::write(made.join("build-version"), format!("{VERSION}\n"))?;
    remove(folder)?;
    fs::rename(&made, folder)?;
    say("libtorch: done\n");
    Ok(())
}
