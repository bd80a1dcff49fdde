//! Build script: compiles the keeper, whose executable the module carries, and passes on the interpreter's version.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let image = out.join("keeper");
    // A module that is only checked carries none.
    println!("cargo::rerun-if-env-changed=GRISTMILL_NO_KEEPER");
    let is_wanted = env::var_os("GRISTMILL_NO_KEEPER").is_none();
    if is_wanted && env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        build_keeper(&out.join("keeper-target"), &image);
    } else {
        fs::write(&image, []).expect("OUT_DIR can be written to");
    }
    println!("cargo::rustc-env=GRISTMILL_KEEPER_IMAGE={}", image.display());
    println!("cargo::rustc-env=GRISTMILL_PROFILE={}", env::var("PROFILE").unwrap_or_default());
}

/// Largest executable of the keeper, bytes: it must start where files may have 1 MiB at most.
const SIZE_MAX: u64 = 1 << 20;

/// Builds the keeper in a separate target folder, because cargo locks the one in use. Always makes a release build: the
/// keeper is small and runs for days.
fn build_keeper(target: &Path, image: &Path) {
    let manifest =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../keeper");
    for source in ["keeper/src", "keeper/Cargo.toml", "wire/src", "sync/src", "machine/src"] {
        println!("cargo::rerun-if-changed={}", manifest.join("..").join(source).display());
    }
    let triple = env::var("TARGET").expect("cargo sets TARGET");
    let status = Command::new(env::var_os("CARGO").expect("cargo sets CARGO"))
        .args(["build", "--release", "--locked", "--bin", "gristmill-keeper", "--target", &triple])
        // Every start writes the image to memory: without symbols it has a seventh of the size, and starts 5 ms faster.
        .args(["--config", "profile.release.strip=true"])
        // Not in the workspace's list of packages: an entry there would undo the line above.
        .args(["--config", "profile.release.opt-level='s'"])
        .arg("--manifest-path")
        .arg(manifest.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .status()
        .expect("cargo can be run");
    assert!(status.success(), "the keeper does not compile");
    let built = target.join(triple).join("release/gristmill-keeper");
    let size = fs::copy(&built, image).expect("the keeper was built and OUT_DIR can be written to");
    assert!(size < SIZE_MAX, "the keeper has {size} bytes: is it stripped?");
}
