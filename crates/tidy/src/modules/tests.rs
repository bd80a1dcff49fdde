//! Tests of the module graph, on small sources.

use super::{Crate, cycles};
use crate::SourceFile;

fn tree(files: &[(&str, &str)]) -> Crate {
    let file = |(path, text): &(&str, &str)| SourceFile {
        path: format!("crates/x/src/{path}"),
        text: (*text).to_owned(),
    };
    Crate::new(&files.iter().map(file).collect::<Vec<_>>(), "crates/x/src/lib.rs")
}

/// Returns the edges of a crate, each as `from -> to:line`.
fn edges(files: &[(&str, &str)]) -> Vec<String> {
    let tree = tree(files);
    let references = tree.references().into_iter();
    let line = |place: &str| place.rsplit_once(':').expect("a place has a line").1.to_owned();
    references.map(|one| format!("{} -> {}:{}", one.from, one.to, line(&one.place))).collect()
}

#[test]
fn use_declarations_and_inline_paths_are_edges() {
    let found = edges(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n"),
        ("a.rs", "use crate::b::{self, One};\nfn f() { super::c::g(vec![crate::d::H]) }\n"),
        ("b.rs", "pub struct One;\n"),
        ("c.rs", "pub fn g() {}\n"),
        ("d.rs", "pub const H: u8 = 1;\n"),
    ]);
    assert_eq!(found, ["a -> b:1", "a -> c:2", "a -> d:2"]);
}

#[test]
fn a_path_through_an_imported_module_leads_to_the_definition() {
    let found = edges(&[
        ("lib.rs", "mod a;\nmod b;\n"),
        ("a.rs", "use crate::b;\nfn f() -> b::One { b::inner::two() }\n"),
        ("b/mod.rs", "pub mod inner;\npub use inner::One;\n"),
        ("b/inner.rs", "pub struct One;\npub fn two() {}\n"),
    ]);
    assert_eq!(found, ["a -> b:1", "a -> b::inner:2"]);
}

#[test]
fn a_re_export_of_the_parent_counts_to_the_module_that_defines_the_name() {
    let found = edges(&[
        ("lib.rs", "mod a;\nmod b;\npub use a::One;\nuse b::Two as Three;\n"),
        ("a.rs", "use super::Three;\npub struct One;\n"),
        ("b.rs", "use crate::One;\npub struct Two;\n"),
    ]);
    assert_eq!(found, ["a -> b:1", "b -> a:1"]);
}

#[test]
fn parents_children_and_other_crates_are_no_edges() {
    let found = edges(&[
        ("lib.rs", "mod a;\nfn f() { a::b::g() }\n"),
        ("a/mod.rs", "pub mod b;\nuse other::b::Thing;\nuse b::h;\nuse std::mem as a;\n"),
        ("a/b.rs", "use super::Thing;\nuse crate::f;\npub(in crate::a) fn g() { Thing::new() }\n"),
    ]);
    assert_eq!(found, [""; 0]);
}

#[test]
fn test_code_is_left_out() {
    let found = edges(&[
        (
            "lib.rs",
            "mod a;\nmod b;\n#[cfg(all(test, unix))]\nmod tests;\n#[cfg(any(test, fuzzing))]\nmod c;\n",
        ),
        (
            "a.rs",
            "#[cfg(test)]\nmod tests { use crate::b::One; }\n#[test]\nfn f() { crate::b::g() }\n",
        ),
        ("b.rs", "pub struct One;\n"),
        ("c.rs", "use crate::b::One;\n"),
    ]);
    assert_eq!(found, ["c -> b:1"]);
}

#[test]
fn modules_that_reach_one_another_are_a_circle() {
    let tree = tree(&[
        ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n"),
        ("a.rs", "use crate::b::B;\n"),
        ("b.rs", "use crate::c::C;\n"),
        ("c.rs", "use crate::a::A;\nuse crate::d::D;\n"),
        ("d.rs", ""),
    ]);
    let references = tree.references();
    let found = cycles(&references);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].iter().copied().collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[test]
fn impl_blocks_count_to_the_type_and_once_a_file() {
    let tree = tree(&[
        ("lib.rs", "mod a;\nmod b;\npub use a::One;\n"),
        ("a.rs", "pub struct One { x: u8, y: u8 }\nimpl One {}\nimpl Clone for One {}\n"),
        ("b.rs", "use crate::One;\nimpl From<u8> for &One {}\nimpl<T: Copy> Into<T> for T {}\n"),
    ]);
    let files = tree.impl_files();
    assert_eq!(files.len(), 1);
    let found: Vec<&str> = files["a::One"].iter().copied().collect();
    assert_eq!(found, ["crates/x/src/a.rs", "crates/x/src/b.rs"]);
    let structs: Vec<_> = tree.structs().map(|one| (&*one.name, &*one.place, one.fields)).collect();
    assert_eq!(structs, [("One", "crates/x/src/a.rs:1", 2)]);
}
