//! Dependencies of the crates, as cargo reports them.

use std::process::Command;

use serde_json::Value;

/// One dependency of a crate of the workspace, on another one or on a crate from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Crate that depends, without the prefix `gristmill-`.
    pub from: String,
    /// Crate that it depends on, without the prefix if it is part of the workspace.
    pub to: String,
    /// True if the crate is from outside.
    pub is_foreign: bool,
    /// True if only its tests depend on it.
    pub is_for_tests: bool,
}

/// Returns all dependencies of the workspace's crates.
///
/// # Panics
/// If `cargo metadata` fails, or its output is not as documented.
#[must_use]
pub fn edges() -> Vec<Edge> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let command = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = Command::new(cargo).args(command).current_dir(crate::root()).output();
    let output = output.expect("cargo can be run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("metadata is JSON");
    let mut edges = Vec::new();
    for package in members(&metadata["packages"]) {
        for dependency in members(&package["dependencies"]) {
            let (from, to) = (text(&package["name"]), text(&dependency["name"]));
            let own = to.strip_prefix("gristmill-");
            edges.push(Edge {
                from: from.strip_prefix("gristmill-").unwrap_or(from).to_owned(),
                to: own.unwrap_or(to).to_owned(),
                is_foreign: own.is_none(),
                is_for_tests: dependency["kind"] == "dev",
            });
        }
    }
    edges
}

fn members(value: &Value) -> &[Value] {
    value.as_array().expect("metadata lists packages and dependencies")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("metadata names packages")
}
