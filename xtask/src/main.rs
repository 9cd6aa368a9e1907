//! What continuous integration and people run.
//!
//! `cargo xtask test` formats, lints, tests and documents the whole workspace; `cargo xtask help` lists the rest.
//! Build output goes to one folder outside of the checkout, so that a second checkout builds nothing twice.

mod api;
mod book;
mod libtorch;
mod minimal;
mod openmpi;
mod wheels;

use std::env;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

const HELP: &str = "\
usage: cargo xtask <command>

  test     everything that has to hold: format, lints, tests, examples in the documentation, documentation, book
  lint     format and lints alone
  api      the public API against the lists of it in api/; with --update, the lists are written
  book     the book, by mdBook
  features every pair of features of each crate that is published, by cargo-hack
  minimal  what is committed, with the lowest version of each dependency that the manifests allow
  valgrind what hands memory to libtorch, under valgrind's memcheck
  package  the packages of all crates that are published, each built from its package
  libtorch the library that planfetch-tch links; the commands above begin with it
  openmpi  the mpirun that starts the ranks of a test; `test` begins with it too
  bench    the end-to-end measurements, in release
  help     this text

environment:
  PLANFETCH_TARGET_DIR   where build output goes [default: CARGO_TARGET_DIR, else planfetch/target in the
                         user's cache folder]
  PLANFETCH_LIBTORCH_DIR where libtorch stays [default: beside PLANFETCH_TARGET_DIR, else planfetch in the user's cache
                         folder]
  LIBTORCH, LIBTORCH_USE_PYTORCH
                         another libtorch, as torch-sys takes it; nothing is downloaded then
  PLANFETCH_MPIRUN       another mpirun for the test that starts ranks by one
";

/// What is checked beside the default features: each feature on its own, and none.
const FEATURES: &[(&str, &[&str])] = &[
    ("planfetch", &["--no-default-features"]),
    ("planfetch", &["--no-default-features", "--features", "aws"]),
    ("planfetch", &["--no-default-features", "--features", "image"]),
    ("planfetch", &["--all-features"]),
    ("planfetch-cache", &["--no-default-features"]),
    ("planfetch-cache", &["--all-features"]),
    ("planfetch-loader", &["--all-features"]),
    ("planfetch-index", &["--no-default-features"]),
    ("planfetch-index", &["--features", "arrow,object_store"]),
    ("planfetch-plan", &["--all-features"]),
    ("planfetch-tch", &["--features", "doc-only"]),
];

/// Tests of what is behind features that no default build has.
const FEATURE_TESTS: &[(&str, &str, &[&str])] = &[
    ("planfetch-plan", "serde", &["--lib", "--tests"]),
    ("planfetch-index", "arrow,object_store", &["--lib", "--tests"]),
    ("planfetch-cache", "http,mmap", &["--test", "features"]),
    ("planfetch-loader", "metrics,indicatif", &["--test", "export"]),
    ("planfetch", "config,listing,arrow", &["--lib", "--test", "integration"]),
];

fn main() -> ExitCode {
    if let Some(code) = api::as_rustdoc() {
        return code;
    }
    let command = env::args().nth(1);
    let done = match command.as_deref() {
        Some("test") => libtorch() && openmpi() && lint() && test() && document() && api::check(false) && book::build(),
        Some("lint") => libtorch() && lint(),
        Some("libtorch") => libtorch(),
        Some("openmpi") => openmpi(),
        Some("api") => libtorch() && api::check(env::args().any(|argument| argument == "--update")),
        Some("book") => book::build(),
        Some("features") => libtorch() && features(),
        Some("minimal") => libtorch() && minimal::check(),
        Some("valgrind") => libtorch() && valgrind(),
        Some("package") => libtorch() && package(),
        Some("bench") => bench(),
        None | Some("help" | "--help" | "-h") => {
            say(HELP);
            true
        }
        Some(other) => {
            say(&format!("unknown command {other:?}\n\n{HELP}"));
            false
        }
    };
    if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn libtorch() -> bool {
    libtorch::prepare(&root(), &third_party())
}

fn openmpi() -> bool {
    openmpi::prepare(&root(), &third_party())
}

/// Returns where stays what is downloaded.
fn third_party() -> PathBuf {
    let beside = || env::var_os("PLANFETCH_TARGET_DIR").and_then(|dir| Some(PathBuf::from(dir).parent()?.to_owned()));
    let dir = env::var_os("PLANFETCH_LIBTORCH_DIR").map(PathBuf::from).or_else(beside);
    let dir = dir.or_else(|| user_cache().map(|cache| cache.join("planfetch")));
    dir.unwrap_or_else(|| root().join("third_party"))
}

fn lint() -> bool {
    run("format", "cargo", &["fmt", "--all", "--check"], &[])
        && run("lints", "cargo", &["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"], &[])
        && FEATURES.iter().all(|(package, features)| {
            let arguments =
                [&["clippy", "--locked", "--package", package], *features, &["--", "-D", "warnings"]].concat();
            run(&format!("lints of {package} {}", features.join(" ")), "cargo", &arguments, &[])
        })
}

fn test() -> bool {
    let has_nextest =
        Command::new("cargo").args(["nextest", "--version"]).output().is_ok_and(|output| output.status.success());
    let tests = if has_nextest {
        run("tests", "cargo", &["nextest", "run", "--workspace", "--locked", "--no-fail-fast"], &[])
    } else {
        say("cargo-nextest is not installed; the same tests run by cargo test, which takes longer\n");
        // Nextest builds them by itself; some tests start them.
        run("examples", "cargo", &["build", "--workspace", "--locked", "--examples"], &[])
            && run(
                "tests",
                "cargo",
                &["test", "--workspace", "--locked", "--no-fail-fast", "--lib", "--bins", "--tests"],
                &[],
            )
    };
    let tests = tests
        && FEATURE_TESTS.iter().all(|(package, features, targets)| {
            let arguments = [&["test", "--locked", "--package", package, "--features", features], *targets].concat();
            run(&format!("tests of {package} with {features}"), "cargo", &arguments, &[])
        });
    // Not all features of all crates: those of the default build, which is what the documentation shows.
    tests && run("examples in the documentation", "cargo", &["test", "--workspace", "--locked", "--doc"], &[])
}

fn document() -> bool {
    let deny = [("RUSTDOCFLAGS", "-D warnings")];
    run("documentation", "cargo", &["doc", "--workspace", "--locked", "--no-deps"], &deny)
}

/// The crates that are published, in the order of imports.
const PUBLISHED: &[&str] = &[
    "planfetch-plan",
    "planfetch-index",
    "planfetch-cache",
    "planfetch-loader",
    "planfetch-image",
    "planfetch",
    "planfetch-burn",
    "planfetch-tch",
    "planfetch-cli",
];

fn published() -> Vec<&'static str> {
    PUBLISHED.iter().flat_map(|name| ["--package", name]).collect()
}

/// The set of all subsets of the facade's features has thousands; what goes wrong goes wrong with one or two.
fn features() -> bool {
    let hack = ["hack", "clippy", "--feature-powerset", "--depth", "2", "--group-features", "gcp,azure,http"];
    // One builds C, for which not every machine has the tools; the other is no feature by itself.
    let without = ["--exclude-features", "turbojpeg,_cloud", "--ignore-unknown-features", "--locked"];
    let deny = ["--", "-D", "warnings"];
    run("features", "cargo", &[&hack[..], &without, &published(), &deny].concat(), &[])
}

fn valgrind() -> bool {
    let runner = "target.'cfg(unix)'.runner = 'valgrind --fair-sched=yes --quiet --leak-check=full \
                  --show-leak-kinds=definite --errors-for-leak-kinds=definite --error-exitcode=9'";
    let test = ["--config", runner, "test", "--locked", "--package", "planfetch-tch"];
    // Memcheck does not know the newest vector instructions.
    let variables = [("ATEN_CPU_CAPABILITY", "default"), ("PROPTEST_CASES", "2")];
    [
        &["--lib", "--", "foreign", "ahead", "--test-threads=1"][..],
        &["--test", "loader", "--", "every_element", "no_tensor_changes", "--test-threads=1"],
    ]
    .iter()
    .all(|tests| run("memory", "cargo", &[&test[..], tests].concat(), &variables))
}

fn package() -> bool {
    let packages = published();
    run("packages", "cargo", &[&["package", "--locked"][..], &packages].concat(), &[])
}

fn bench() -> bool {
    let program = ["run", "--release", "--locked", "--package", "planfetch-benches", "--bin", "cold-epoch", "--"];
    ["0", "30"]
        .iter()
        .all(|latency| run("cold epoch", "cargo", &[&program[..], &["--latency-ms", latency]].concat(), &[]))
}

/// Runs a program in the workspace, and says what and how long.
fn run(what: &str, program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> bool {
    say(&format!("\n== {what}: {program} {}\n", arguments.join(" ")));
    let started = Instant::now();
    let mut command = Command::new(program);
    command.args(arguments).envs(variables.iter().copied()).current_dir(root());
    if let Some(dir) = target_dir() {
        command.env("CARGO_TARGET_DIR", dir);
    }
    let succeeded = match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            say(&format!("can't run {program}: {error}\n"));
            false
        }
    };
    let outcome = if succeeded { "done" } else { "FAILED" };
    say(&format!("== {what}: {outcome} in {:.0} s\n", started.elapsed().as_secs_f64()));
    succeeded
}

/// Returns the folder for build output, or `None` where nothing names one and cargo's own is as good.
fn target_dir() -> Option<PathBuf> {
    let by_variable = ["PLANFETCH_TARGET_DIR", "CARGO_TARGET_DIR"].iter().find_map(env::var_os);
    if let Some(dir) = by_variable {
        return Some(dir.into());
    }
    Some(user_cache()?.join("planfetch/target"))
}

fn user_cache() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    cache.or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
}

fn root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}

#[expect(clippy::print_stderr, reason = "it talks to people")]
fn say(text: &str) {
    eprint!("{text}");
}
