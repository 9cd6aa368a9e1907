//! Builds the file in C++ that lends memory to libtorch, and has programs of this package find libtorch where it lies.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=src/foreign.cpp");
    println!("cargo::rerun-if-env-changed=LIBTORCH_INCLUDE");
    println!("cargo::rerun-if-env-changed=LIBTORCH_CXX11_ABI");
    if env::var_os("CARGO_FEATURE_DOC_ONLY").is_some() {
        return;
    }
    // torch-sys says it.
    let Some(lib) = env::var_os("DEP_TCH_LIBTORCH_LIB").map(PathBuf::from) else { return };
    let root = env::var_os("LIBTORCH_INCLUDE").map(PathBuf::from);
    let root = root.unwrap_or_else(|| lib.parent().map(PathBuf::from).unwrap_or_default());
    let abi = env::var("LIBTORCH_CXX11_ABI").unwrap_or_else(|_| "1".into());
    cc::Build::new()
        .cpp(true)
        .warnings(false)
        .include(root.join("include"))
        .flag("-std=c++17")
        .define("_GLIBCXX_USE_CXX11_ABI", abi.as_str())
        .file("src/foreign.cpp")
        .compile("planfetch_tch_foreign");
    // Of this package's own tests and examples. A program of another package needs a build script with this line.
    println!("cargo::rustc-link-arg=-Wl,-rpath,{}", lib.display());
    if lib.join("libtorch_cuda.so").exists() {
        // Nothing names a symbol of it, so the linker would leave it out.
        println!("cargo::rustc-link-arg=-Wl,--no-as-needed,-ltorch_cuda,--as-needed");
    }
    println!("cargo::metadata=libtorch_lib={}", lib.display());
}
