//! Rule about dependencies between crates: only those in the table of layers in `ARCHITECTURE.md`.

use std::collections::BTreeMap;

use gristmill_tidy::{edges, read};

/// Table of layers: each crate and the crates of the workspace that it may depend on.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("sync", &[]),
    ("wire", &[]),
    ("library", &[]),
    ("machine", &[]),
    ("shm", &["sync", "wire", "machine"]),
    ("core", &["wire"]),
    ("lead", &["sync"]),
    ("keeper", &["sync", "wire", "machine", "shm", "core"]),
    ("journal", &[]),
    ("store", &["wire", "shm"]),
    ("image", &["wire", "store"]),
    ("transport", &["sync", "wire"]),
    ("worker", &["sync", "wire", "shm", "core", "keeper"]),
    ("client", &["sync", "wire", "machine", "shm", "core", "keeper", "lead", "store", "transport"]),
    ("agent", &["sync", "wire", "store", "transport", "client"]),
    (
        "native",
        &[
            "sync",
            "wire",
            "machine",
            "shm",
            "core",
            "keeper",
            "library",
            "journal",
            "store",
            "image",
            "transport",
            "worker",
            "client",
            "agent",
            "replay",
        ],
    ),
    ("function-macros", &[]),
    ("function", &["function-macros"]),
    ("replay", &["wire", "core"]),
    ("sim", &["sync", "wire", "core", "transport", "client", "agent"]),
    (
        "fuzz-harness",
        &[
            "sync",
            "wire",
            "shm",
            "keeper",
            "library",
            "journal",
            "store",
            "image",
            "transport",
            "worker",
            "client",
            "sim",
        ],
    ),
    ("tidy", &[]),
];

/// Crates from outside that only these may depend on.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("pyo3", &["native"]),
    ("pyo3-build-config", &["native"]),
    ("libc", &["sync", "shm", "keeper", "client", "native"]),
    ("loom", &["sync", "shm", "lead"]),
    ("object", &["library"]),
    ("serde_json", &["tidy"]),
    ("syn", &["tidy", "function-macros"]),
    ("proc-macro2", &["tidy", "function-macros"]),
    ("quote", &["function-macros"]),
    ("base64ct", &["transport"]),
    ("blake3", &["store"]),
    ("rustix", &["transport", "fuzz-harness"]),
    ("rustls", &["transport"]),
    ("zeroize", &["transport"]),
    ("zstd", &["image"]),
];

/// Crates from outside that all may depend on.
const EVERYWHERE: &[&str] = &["thiserror", "proptest"];

#[test]
fn a_crate_knows_only_what_lies_below_it() {
    let table: BTreeMap<_, _> = MAY_KNOW.iter().copied().collect();
    for edge in edges().iter().filter(|edge| !edge.is_foreign && !edge.is_for_tests) {
        let allowed = table.get(edge.from.as_str());
        let allowed = allowed.unwrap_or_else(|| panic!("{} is in no layer", edge.from));
        assert!(allowed.contains(&edge.to.as_str()), "{} must not know {}", edge.from, edge.to);
    }
}

#[test]
fn a_crate_from_outside_has_its_place() {
    let places: BTreeMap<_, _> = ONLY_IN.iter().copied().collect();
    for edge in edges().iter().filter(|edge| edge.is_foreign) {
        let (from, to) = (edge.from.as_str(), edge.to.as_str());
        let is_known = EVERYWHERE.contains(&to) || places.contains_key(to);
        assert!(is_known, "{from} needs {to}: name it here, with the crates that may know it");
        let is_allowed = places.get(to).is_none_or(|crates| crates.contains(&from));
        assert!(is_allowed, "{from} must not know {to}");
    }
}

#[test]
fn the_page_names_every_crate() {
    let page = read("ARCHITECTURE.md");
    for (name, _) in MAY_KNOW {
        assert!(page.contains(&format!("| `{name}` |")), "ARCHITECTURE.md has no row for {name}");
    }
}
