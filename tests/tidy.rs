//! Rules of the workspace that a compiler does not check.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_metadata::{DependencyKind, MetadataCommand};
use planfetch::prelude::*;

/// Who may import whom, within the workspace. What is not drawn here is not allowed; see the architecture chapter.
const EDGES: &[(&str, &[&str])] = &[
    ("planfetch-plan", &[]),
    ("planfetch-index", &[]),
    ("planfetch-cache", &[]),
    ("planfetch-loader", &["planfetch-plan", "planfetch-index", "planfetch-cache"]),
    ("planfetch-image", &["planfetch-loader", "planfetch-index", "planfetch-plan"]),
    ("planfetch", &["planfetch-plan", "planfetch-index", "planfetch-cache", "planfetch-loader", "planfetch-image"]),
    ("planfetch-burn", &["planfetch"]),
    ("planfetch-tch", &["planfetch"]),
    ("planfetch-cli", &["planfetch"]),
    ("planfetch-testkit", &[]),
    ("planfetch-benches", &["planfetch", "planfetch-testkit"]),
    ("planfetch-examples", &["planfetch", "planfetch-burn"]),
    ("planfetch-tests", &[]),
    ("xtask", &[]),
];

/// What a crate must not know, by the names of outside crates.
const FOREIGN: &[(&str, &[&str])] = &[
    ("planfetch-plan", &["tokio", "object_store", "rayon", "ndarray", "image"]),
    ("planfetch-index", &["tokio", "rayon", "ndarray", "image"]),
    ("planfetch-cache", &["rayon", "ndarray", "image", "burn", "tch"]),
    ("planfetch-loader", &["image", "burn", "tch", "object_store"]),
    ("planfetch-image", &["tokio", "object_store", "burn", "tch"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the workspace").to_path_buf()
}

/// The files that git knows of, or would if they were added.
fn files() -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output();
    let listed = listed.expect("git runs");
    assert!(listed.status.success(), "{listed:?}");
    let names = String::from_utf8(listed.stdout).expect("paths are UTF-8");
    names.lines().map(|name| root().join(name)).filter(|path| path.is_file()).collect()
}

fn sources() -> Vec<(PathBuf, String)> {
    let rust = files().into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "rs"));
    rust.map(|path| (path.clone(), std::fs::read_to_string(path).expect("sources are UTF-8"))).collect()
}

#[test]
fn crates_import_each_other_only_as_drawn() {
    let metadata = MetadataCommand::new().manifest_path(root().join("Cargo.toml")).no_deps().exec().unwrap();
    let allowed: BTreeMap<&str, &[&str]> = EDGES.iter().copied().collect();
    let foreign: BTreeMap<&str, &[&str]> = FOREIGN.iter().copied().collect();
    assert!(!metadata.packages.is_empty());
    for package in &metadata.packages {
        let name = package.name.as_str();
        let edges =
            allowed.get(name).unwrap_or_else(|| panic!("{name} is not drawn: add it to the architecture and here"));
        for dependency in &package.dependencies {
            let is_ours = dependency.path.is_some();
            let is_dev = dependency.kind == DependencyKind::Development;
            if is_ours && !is_dev {
                assert!(edges.contains(&dependency.name.as_str()), "{name} must not import {}", dependency.name);
            }
            if !is_dev && let Some(forbidden) = foreign.get(name) {
                assert!(!forbidden.contains(&dependency.name.as_str()), "{name} must not know {}", dependency.name);
            }
        }
    }
}

#[test]
fn a_default_build_needs_no_training_framework() {
    let metadata = MetadataCommand::new().manifest_path(root().join("Cargo.toml")).exec().unwrap();
    let resolve = metadata.resolve.as_ref().unwrap();
    let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let default_members = metadata.workspace_default_members.to_vec();
    let mut queue = default_members.clone();
    let mut seen: BTreeSet<_> = queue.iter().cloned().collect();
    while let Some(id) = queue.pop() {
        for dependency in &nodes[&id].dependencies {
            if seen.insert(dependency.clone()) {
                queue.push(dependency.clone());
            }
        }
    }
    let names: BTreeSet<&str> = metadata
        .packages
        .iter()
        .filter(|package| seen.contains(&package.id))
        .map(|package| package.name.as_str())
        .collect();
    assert!(names.contains("object_store"), "the walk found nothing");
    for framework in ["burn", "burn-core", "tch", "torch-sys"] {
        assert!(!names.contains(framework), "a default build pulls in {framework}");
    }
}

#[test]
fn every_source_file_says_what_it_is() {
    for (path, text) in sources() {
        assert!(text.starts_with("//!"), "{} does not begin with a module comment", path.display());
    }
}

#[test]
fn no_source_file_is_too_long_to_read() {
    for (path, text) in sources() {
        let lines = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().lines().count();
        assert!(lines <= 700, "{} has {lines} lines besides its tests: it holds more than one noun", path.display());
    }
}

#[test]
fn nothing_is_switched_off_or_left_to_be_done() {
    // Written apart, so that this file does not find itself.
    let forbidden =
        [concat!("#[ign", "ore"), concat!("to", "do!("), concat!("unimpl", "emented!("), concat!("d", "bg!(")];
    for (path, text) in sources() {
        for word in forbidden {
            assert!(!text.contains(word), "{} contains {word}", path.display());
        }
    }
}

#[test]
fn files_end_in_one_newline_and_lines_in_no_space() {
    let text_files = files().into_iter().filter(|path| {
        path.extension().and_then(|ext| ext.to_str()).is_some_and(|ext| matches!(ext, "rs" | "md" | "toml" | "yml"))
    });
    for path in text_files {
        let text = std::fs::read_to_string(&path).expect("text files are UTF-8");
        assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{} ends badly", path.display());
        let trailing = text.lines().position(|line| line.ends_with([' ', '\t']));
        assert_eq!(trailing, None, "{}: a line ends in a space (counted from 0)", path.display());
    }
}

/// The headings of a document, as the fragments of URLs that lead to them.
fn fragments(text: &str) -> BTreeSet<String> {
    let headings = outside_code(text).filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#'));
    headings
        .map(|heading| {
            let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

fn outside_code(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// What the links of a line lead to: `[text](target)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

#[test]
fn links_in_documents_lead_somewhere() {
    let documents = files().into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "md"));
    let mut broken = Vec::new();
    let mut checked = 0;
    for path in documents {
        let text = std::fs::read_to_string(&path).expect("documents are UTF-8");
        for target in outside_code(&text).flat_map(targets).filter(|target| !target.contains("://")) {
            let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { path.clone() } else { path.with_file_name("").join(file) };
            let found = std::fs::read_to_string(&file).ok();
            let is_heading = |text: String| fragment.is_empty() || fragments(&text).contains(fragment);
            let leads = found.map_or(fragment.is_empty() && file.is_dir(), is_heading);
            checked += 1;
            if !leads {
                broken.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(50 < checked, "only {checked} links were found");
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_chapter_stands_in_the_summary_once() {
    let src = root().join("book/src");
    let summary = std::fs::read_to_string(src.join("SUMMARY.md")).unwrap();
    let mut listed: Vec<PathBuf> = summary.lines().flat_map(targets).map(|target| src.join(target)).collect();
    listed.sort();
    let chapters =
        files().into_iter().filter(|path| path.starts_with(&src) && path.extension().is_some_and(|ext| ext == "md"));
    let mut chapters: Vec<PathBuf> = chapters.filter(|path| !path.ends_with("SUMMARY.md")).collect();
    chapters.sort();
    assert_eq!(listed, chapters);
}

#[test]
fn every_setting_stands_in_the_reference() {
    let page = include_str!("../book/src/reference/settings.md");
    let image = serde_json::to_value(ImageSettings::default()).unwrap();
    let decode = image["decode"].as_object().unwrap().keys().map(|field| format!("decode.{field}"));
    let all = [
        serde_json::to_value(CacheSettings::default()).unwrap(),
        serde_json::to_value(StoreSettings::default()).unwrap(),
        serde_json::to_value(LoaderSettings::default()).unwrap(),
        image.clone(),
    ];
    let fields = all.iter().flat_map(|settings| settings.as_object().unwrap().keys().cloned());
    let fields = fields.filter(|field| field != "decode").chain(decode);
    // In the first column of a table.
    let names: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next()).collect();
    let missing: Vec<String> =
        fields.filter(|field| !names.iter().any(|name| name.contains(&format!("`{field}`")))).collect();
    assert!(missing.is_empty(), "settings.md says nothing of {missing:?}");
}
