//! Who depends on whom, as cargo sees it.

use std::process::Command;

use serde_json::Value;

/// One dependency between crates of the workspace, or on a crate from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Who depends, without the prefix `gristmill-`.
    pub from: String,
    /// On whom; of the workspace without the prefix.
    pub to: String,
    /// The crate is from outside.
    pub is_foreign: bool,
    /// Only its tests do.
    pub is_for_tests: bool,
}

/// All dependencies of the workspace's crates.
///
/// # Panics
/// `cargo metadata` does not work here, or gives something else than it documents.
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
