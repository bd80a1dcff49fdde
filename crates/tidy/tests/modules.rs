//! Rules about modules and types: no circles of modules, and types that fit a reader's mind.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use gristmill_tidy::{Crate, Reference, StructSize, crates, cycles};

/// Maximum number of files with `impl` blocks of one type.
const IMPL_FILES_MAX: usize = 5;
/// Maximum number of fields of a struct.
const FIELDS_MAX: usize = 12;

/// References that still close a circle: the crate, the module with the path, the module that it leads to. A crate has no
/// circle without these. The list may only shrink.
#[rustfmt::skip]
const CLOSING: &[(&str, &str, &str)] = &[
    ("client", "blobs::inbound_results", "blobs::deferred"),
    ("client", "blobs::inbound_results", "blobs::parts"),
    ("client", "blobs::inbound_results", "blobs::work"),
    ("client", "blobs::inbound_results", "peers::home"),
    ("client", "blobs::inbound_results", "peers::intake"),
    ("client", "blobs::parts", "blobs::provider"),
    ("client", "blobs::work", "blobs::deferred"),
    ("client", "blobs::work", "blobs::retention"),
    ("client", "client_port", "contexts"),
    ("client", "inner", "tree"),
    ("client", "inner", "wait"),
    ("client", "nested", "inner"),
    ("client", "peers::home", "contexts"),
    ("client", "peers::home", "peers::inbound"),
    ("client", "peers::home", "peers::intake"),
    ("client", "peers::inbound_messages", "peers::intake"),
    ("client", "peers::intake", "inner"),
    ("client", "peers::links", "peers::link"),
    ("client", "peers::maintenance", "peers::intake"),
    ("client", "peers::sending", "peers::contexts"),
    ("core", "config", "options"),
    ("core", "contexts", "machine"),
    ("core", "machine", "demands"),
    ("core", "machine", "peers::table"),
    ("core", "machine", "priority"),
    ("core", "options", "batch"),
    ("core", "options", "demands::claims"),
    ("core", "outcome", "port"),
    ("core", "peers::place", "peers::balance"),
    ("core", "peers::table", "demands::peers"),
    ("core", "peers::table", "peers::health"),
    ("core", "peers::table", "peers::shares"),
    ("core", "port", "peers::place"),
    ("core", "stats", "machine"),
    ("core", "task", "stats"),
    ("native", "engine::options", "engine::context"),
    ("native", "engine::options", "engine::submit"),
    ("native", "future::app", "future::app_methods"),
    ("native", "future::app", "future::layout"),
    ("native", "future::app", "future::ledger"),
    ("native", "future::kind", "future::layout"),
    ("native", "future::layout", "engine"),
    ("native", "nested", "callee"),
];

/// Types with `impl` blocks in more files: the crate, the type, the number of files. The list may only shrink.
#[rustfmt::skip]
const SCATTERED: &[(&str, &str, usize)] = &[
    ("client", "client::Client", 14),
    ("client", "inner::Inner", 17),
    ("core", "machine::Core", 44),
    ("native", "engine::Engine", 9),
];

/// Structs that list values and have no behaviour that depends on several of them: configuration, and messages that other
/// processes read.
#[rustfmt::skip]
const LISTS_OF_VALUES: &[(&str, &str)] = &[
    ("agent", "AgentOptions"),
    ("core", "Config"),
    ("replay", "Costs"),
    ("sim", "ClusterPlan"),
    ("sim", "Plan"),
    ("wire", "LeaseRequest"),
];

/// Structs with more fields: the crate, the struct, the number of fields. The list may only shrink.
#[rustfmt::skip]
const LARGE_STRUCTS: &[(&str, &str, usize)] = &[
    ("client", "BlobReceiver", 14),
    ("client", "WorkerChannel", 13),
    ("client", "ClientPort", 24),
    ("client", "Inner", 22),
    ("client", "Link", 32),
    ("client", "PeerView", 15),
    ("client", "Links", 16),
    ("core", "Context", 17),
    ("core", "ContextTable", 20),
    ("core", "Core", 37),
    ("core", "Extra", 26),
    ("core", "Peer", 24),
    ("core", "Peers", 20),
    ("core", "Slot", 27),
    ("core", "Stats", 19),
    ("core", "Task", 20),
    ("sim", "SimPort", 19),
    ("sim", "SimWorker", 24),
    ("sim", "ProgramTask", 30),
    ("sim", "SimWorld", 19),
];

static CRATES: LazyLock<Vec<Crate>> = LazyLock::new(crates);

/// Returns true if the list has this reference.
fn is_listed(name: &str, reference: &Reference) -> bool {
    CLOSING.contains(&(name, &reference.from, &reference.to))
}

#[test]
fn modules_have_no_circles() {
    let mut text = String::new();
    for one in CRATES.iter() {
        let mut references = one.references();
        references.retain(|reference| !is_listed(&one.name, reference));
        for group in cycles(&references) {
            text += &format!("circle in {}:\n", one.name);
            let is_inside = |reference: &&Reference| {
                group.contains(&*reference.from) && group.contains(&*reference.to)
            };
            for Reference { from, to, place } in references.iter().filter(is_inside) {
                text += &format!("  {from} -> {to} ({place})\n");
            }
        }
    }
    assert!(text.is_empty(), "{text}Move a type to the module where it belongs.");
}

#[test]
fn listed_references_close_a_circle() {
    let mut text = String::new();
    let mut left: BTreeSet<_> = CLOSING.iter().copied().collect();
    for one in CRATES.iter() {
        let all = one.references();
        for (name, from, to) in CLOSING.iter().filter(|(name, ..)| one.name == *name) {
            let is_this = |reference: &Reference| reference.from == *from && reference.to == *to;
            let is_kept =
                |reference: &&Reference| is_this(reference) || !is_listed(name, reference);
            let references: Vec<_> = all.iter().filter(is_kept).cloned().collect();
            if cycles(&references).iter().any(|group| group.contains(from) && group.contains(to)) {
                left.remove(&(*name, *from, *to));
            }
        }
    }
    for (name, from, to) in left {
        text += &format!("  {name}: {from} -> {to}\n");
    }
    assert!(text.is_empty(), "these close no circle now, take them off the list:\n{text}");
}

#[test]
fn impl_blocks_of_a_type_are_in_few_files() {
    let mut text = String::new();
    let mut found = BTreeSet::new();
    for one in CRATES.iter() {
        for (own, files) in one.impl_files() {
            if files.len() > IMPL_FILES_MAX {
                if !SCATTERED.contains(&(&one.name, &own, files.len())) {
                    text += &format!("  {}: {own} in {} files: {files:?}\n", one.name, files.len());
                }
                found.insert((one.name.clone(), own, files.len()));
            }
        }
    }
    for (name, own, count) in SCATTERED {
        if !found.contains(&((*name).to_owned(), (*own).to_owned(), *count)) {
            text += &format!("  {name}: {own} is no longer in {count} files, correct the list\n");
        }
    }
    assert!(text.is_empty(), "more than {IMPL_FILES_MAX} files with impl blocks:\n{text}");
}

#[test]
fn structs_have_few_fields() {
    let mut text = String::new();
    let mut found = BTreeSet::new();
    for one in CRATES.iter() {
        for StructSize { name, place, fields } in one.structs() {
            if *fields <= FIELDS_MAX {
                continue;
            }
            let is_listed = LARGE_STRUCTS.contains(&(&*one.name, &**name, *fields));
            if !is_listed && !LISTS_OF_VALUES.contains(&(&*one.name, &**name)) {
                text += &format!("  {}: {name} ({place}) has {fields}\n", one.name);
            }
            found.insert((one.name.clone(), name.clone()));
        }
    }
    let large = LARGE_STRUCTS.iter().map(|(name, own, _)| (*name, *own));
    for (name, own) in large.chain(LISTS_OF_VALUES.iter().copied()) {
        if !found.contains(&(name.to_owned(), own.to_owned())) {
            text += &format!("  {name}: {own} is small now, take it off the list\n");
        }
    }
    assert!(text.is_empty(), "more than {FIELDS_MAX} fields:\n{text}");
}
