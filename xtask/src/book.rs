//! The book: built by mdBook, which is installed beside the build output, once for each version.

use std::path::{Path, PathBuf};

use crate::{root, run, say, target_dir};

const VERSION: &str = "0.5.4";

/// Builds the book into the folder for build output.
pub(crate) fn build() -> bool {
    let target = target_dir().unwrap_or_else(|| root().join("target"));
    let Some(mdbook) = install(&target.join(format!("tools/mdbook-{VERSION}"))) else { return false };
    let book = target.join("book");
    let (program, book) = (mdbook.display().to_string(), book.display().to_string());
    let built = run("book", &program, &["build", "book", "--dest-dir", &book], &[]);
    if built {
        say(&format!("{book}/index.html\n"));
    }
    built
}

/// Returns the program, and installs it where it is not there.
fn install(folder: &Path) -> Option<PathBuf> {
    let program = folder.join("bin").join(format!("mdbook{}", std::env::consts::EXE_SUFFIX));
    let folder = folder.display().to_string();
    // Searching is a part of the book; serving and watching it is not.
    let arguments =
        ["install", "mdbook", "--version", VERSION, "--locked", "--no-default-features", "--features", "search"];
    let is_there =
        program.exists() || run("installing mdBook", "cargo", &[&arguments[..], &["--root", &folder]].concat(), &[]);
    is_there.then_some(program)
}
