//! The public API of each crate, as a list in `api/` that a change has to touch too, and the crates that it names.
//!
//! The lists are made from rustdoc's JSON, whose format changes with the compiler: they are checked with the one version
//! whose format [`public_api`] reads here, and left alone with any other.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::{root, run, say, target_dir};

/// In the environment of this program, where cargo starts it in place of rustdoc.
const AS_RUSTDOC: &str = "PLANFETCH_XTASK_AS_RUSTDOC";
/// The compiler whose rustdoc writes what `public_api` reads.
const COMPILER: &str = "rustc 1.95.";

/// A crate, the features that its documentation shows, and the other crates whose types it may name.
struct Api {
    package: &'static str,
    features: &'static [&'static str],
    external: &'static [&'static str],
}

const APIS: &[Api] = &[
    Api { package: "planfetch-plan", features: &["--all-features"], external: &["serde_core"] },
    Api {
        package: "planfetch-index",
        features: &["--features", "arrow,object_store"],
        external: &["arrow_array", "object_store"],
    },
    Api {
        package: "planfetch-cache",
        features: &["--all-features"],
        external: &["bytes", "memmap2", "object_store", "tokio"],
    },
    Api {
        package: "planfetch-loader",
        features: &["--all-features"],
        external: &["indicatif", "ndarray", "rand_chacha", "serde_core"],
    },
    Api { package: "planfetch-image", features: &[], external: &["half", "ndarray", "rand_chacha"] },
    Api { package: "planfetch", features: &["--all-features"], external: &[] },
    Api {
        package: "planfetch-burn",
        features: &["--features", "train"],
        // The crates behind burn's names.
        external: &["burn_core", "burn_dataset", "burn_std", "burn_tensor", "burn_train"],
    },
    Api { package: "planfetch-tch", features: &["--features", "doc-only"], external: &["half", "ndarray", "tch"] },
];

/// Every crate may name these; types that the language has are segments of paths too.
const STANDARD: &[&str] = &["alloc", "core", "std", "f32", "u8"];

/// Compares the lists with the code, or writes them.
pub(crate) fn check(update: bool) -> bool {
    let compiler = Command::new("rustc").arg("--version").output();
    let compiler = compiler.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    if !compiler.starts_with(COMPILER) {
        say(&format!("\n== public API: not checked with {compiler:?}, since the lists are made with {COMPILER}*\n"));
        return true;
    }
    APIS.iter().all(|api| api.check(update))
}

impl Api {
    fn check(&self, update: bool) -> bool {
        let Some(found) = self.list() else { return false };
        let path = root().join("api").join(format!("{}.txt", self.package));
        if update {
            return fs::write(&path, found).map_err(|error| say(&format!("{}: {error}\n", path.display()))).is_ok();
        }
        let listed = fs::read_to_string(&path).unwrap_or_default();
        let (old, new): (BTreeSet<_>, BTreeSet<_>) = (listed.lines().collect(), found.lines().collect());
        for (sign, lines) in [("-", old.difference(&new)), ("+", new.difference(&old))] {
            for line in lines {
                say(&format!("{sign} {line}\n"));
            }
        }
        let named = external_crates(&found, &self.package.replace('-', "_"));
        let surprises: Vec<_> = named.iter().filter(|&&name| !self.external.contains(&name)).collect();
        if !surprises.is_empty() {
            say(&format!(
                "{} names types of {surprises:?}, which are not on its list in xtask/src/api.rs\n",
                self.package
            ));
        }
        if old != new {
            say("the public API differs from its list; where that is meant, `cargo xtask api --update` writes it\n");
        }
        old == new && surprises.is_empty()
    }

    fn list(&self) -> Option<String> {
        let this = env::current_exe().ok()?;
        let arguments = [&["doc", "--locked", "--no-deps", "--lib", "--package", self.package], self.features].concat();
        let variables = [
            ("RUSTDOC", this.to_str()?),
            (AS_RUSTDOC, "1"),
            ("RUSTDOCFLAGS", "-Z unstable-options --output-format json"),
        ];
        if !run(&format!("public API of {}", self.package), "cargo", &arguments, &variables) {
            return None;
        }
        let target = target_dir().unwrap_or_else(|| root().join("target"));
        let json = target.join("doc").join(format!("{}.json", self.package.replace('-', "_")));
        render(&json).map_err(|error| say(&format!("{}: {error}\n", json.display()))).ok()
    }
}

fn render(json: &Path) -> Result<String, public_api::Error> {
    let api = public_api::Builder::from_rustdoc_json(json)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .sorted(true)
        .build()?;
    Ok(api.items().map(|item| format!("{item}\n")).collect())
}

/// Returns the first segment of each path that is neither of the standard library nor of this project.
fn external_crates<'a>(list: &'a str, package: &str) -> BTreeSet<&'a str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts = list.match_indices("::").filter_map(|(end, _)| {
        let name = &list[list[..end].rfind(|c| !is_name(c)).map_or(0, |i| i + 1)..end];
        let before = &list[..end - name.len()];
        // A segment in the middle has a colon before it; types and their parameters begin with a capital.
        let is_first = !before.ends_with(':') && name.starts_with(|c: char| c.is_ascii_lowercase());
        is_first.then_some(name)
    });
    starts.filter(|name| !STANDARD.contains(name) && *name != package && !name.starts_with("planfetch")).collect()
}

/// Takes rustdoc's place where cargo is told so: the JSON is behind an option that a stable rustdoc takes only in this way.
pub(crate) fn as_rustdoc() -> Option<ExitCode> {
    env::var_os(AS_RUSTDOC)?;
    let status = Command::new("rustdoc").args(env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").status();
    Some(if status.is_ok_and(|status| status.success()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
