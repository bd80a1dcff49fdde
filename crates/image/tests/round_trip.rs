//! Images unpack to the entries that were packed, are the same in every run, and unpack only if every byte is right.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use gristmill_image::{
    Content, ImageEntry, ImageError, PackOptions, copy, digest_of_file, head_of, pack, unpack,
    write_tar,
};
use proptest::prelude::*;
use support::Folder;

fn made(name: &str, bytes: &[u8], is_executable: bool) -> ImageEntry {
    ImageEntry {
        name: name.into(),
        content: Content::Made { bytes: bytes.to_vec(), is_executable },
    }
}

fn folder(name: &str) -> ImageEntry {
    ImageEntry { name: name.into(), content: Content::Folder }
}

fn link(name: &str, target: &str) -> ImageEntry {
    ImageEntry { name: name.into(), content: Content::Link(target.into()) }
}

const ONE: PackOptions = PackOptions { level: 1, thread_count: 1 };
const MANY: PackOptions = PackOptions { level: 1, thread_count: 4 };

/// Returns entries that fill several frames: large files, long names, links.
fn environment() -> Vec<ImageEntry> {
    let large: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let long = format!("lib/{}.py", "long".repeat(60));
    vec![
        link("lib64", "lib"),
        link("lib/deep/up", &format!("../../{long}")),
        made("lib/deep/module.py", b"answer = 42\n", false),
        folder("lib/deep"),
        folder("bin"),
        made("bin/tool", b"#!/bin/sh\n", true),
        folder("lib"),
        made("lib/large.so", &large, false),
        made("lib/empty", b"", false),
        made(&long, b"pass\n", false),
    ]
}

#[test]
fn what_goes_in_comes_out() {
    let place = Folder::new("comes-out");
    let (image, out) = (place.path("image"), place.path("out"));
    let packed = pack(&environment(), &image, MANY).expect("an image");
    assert_eq!(digest_of_file(&image).expect("it is there"), packed.digest);
    assert_eq!(head_of(&image).expect("it is one").content_size, packed.content_size);
    let unpacked = unpack(&image, &packed.digest, &out, 4).expect("it unpacks");
    assert_eq!((unpacked.entry_count, unpacked.content_size), (10, packed.content_size));
    assert_eq!(fs::read(out.join("lib64/deep/module.py")).expect("it is there"), b"answer = 42\n");
    assert_eq!(fs::read(out.join("lib/deep/up")).expect("it is there"), b"pass\n");
    assert_eq!(fs::read(out.join("lib/large.so")).expect("it is there").len(), 12_000_000);
    let mode = |name: &str| fs::metadata(out.join(name)).expect("it is there").permissions().mode();
    assert_eq!((mode("bin/tool") & 0o777, mode("lib/empty") & 0o777), (0o555, 0o444));
}

#[test]
fn the_same_entries_give_the_same_image_whatever_their_order_and_the_number_of_threads() {
    let place = Folder::new("the-same");
    let mut entries = environment();
    let one = pack(&entries, &place.path("one"), ONE).expect("an image");
    entries.reverse();
    let other = pack(&entries, &place.path("other"), MANY).expect("an image");
    assert_eq!(one.digest, other.digest);
    assert_eq!(
        fs::read(place.path("one")).expect("it"),
        fs::read(place.path("other")).expect("it")
    );
}

#[test]
fn a_file_that_grows_or_shrinks_while_it_is_packed_is_named() {
    let place = Folder::new("changes");
    let path = place.path("file");
    fs::write(&path, b"four").expect("a file");
    for size in [3, 5] {
        let content =
            Content::Piece { path: path.clone(), offset: None, size, is_executable: false };
        let entries = [ImageEntry { name: "file".into(), content }];
        let error =
            pack(&entries, &place.path(&format!("image-{size}")), ONE).expect_err("changed");
        assert!(matches!(&error, ImageError::Changed { path: named } if *named == path), "{error}");
    }
}

#[test]
fn names_that_lead_elsewhere_are_not_packed() {
    let place = Folder::new("not-packed");
    let twice = [made("a", b"", false), folder("a")];
    for entries in [&twice[..], &[made("../a", b"", false)], &[link("a", "/etc/passwd")]] {
        let error = pack(entries, &place.path("image"), ONE).expect_err("it cannot be packed");
        assert!(matches!(error, ImageError::Name { .. }), "{error}");
    }
}

#[test]
fn an_image_that_is_cut_or_altered_is_not_used() {
    let place = Folder::new("altered");
    let path = place.path("image");
    let packed = pack(&environment()[2..7], &path, ONE).expect("an image");
    let whole = fs::read(&path).expect("it");
    let hurt = place.path("hurt");
    for at in 0..whole.len() {
        let mut altered = whole.clone();
        altered[at] ^= 1;
        for (number, bytes) in [&whole[..at], &altered[..]].into_iter().enumerate() {
            fs::write(&hurt, bytes).expect("it can be written");
            let out = place.path(&format!("out-{at}-{number}"));
            let error = unpack(&hurt, &packed.digest, &out, 1).expect_err("it is not that image");
            assert!(matches!(error, ImageError::Altered { .. }), "{at}: {error}");
            let copied = place.path(&format!("copy-{at}-{number}"));
            let error = copy(&hurt, &packed.digest, &copied).expect_err("it is not that image");
            assert!(matches!(error, ImageError::Altered { .. }), "{at}: {error}");
        }
    }
    copy(&path, &packed.digest, &place.path("copy")).expect("it is that image");
    assert_eq!(fs::read(place.path("copy")).expect("it"), whole);
}

#[test]
fn an_image_that_was_altered_before_its_digest_was_read_is_not_used() {
    let place = Folder::new("altered-before");
    let (path, hurt) = (place.path("image"), place.path("hurt"));
    let packed = pack(&[made("module.py", b"answer = 42\n", false)], &path, ONE).expect("one");
    let mut bytes = fs::read(&path).expect("it");
    unpack(&path, &packed.digest, &place.path("whole"), 1).expect("it unpacks");
    for at in 0..bytes.len() {
        bytes[at] ^= 1;
        fs::write(&hurt, &bytes).expect("it can be written");
        bytes[at] ^= 1;
        let (out, digest) =
            (place.path(&format!("out-{at}")), digest_of_file(&hurt).expect("its own"));
        if unpack(&hurt, &digest, &out, 1).is_ok() {
            let text = fs::read(out.join("module.py")).expect("nothing of it was altered");
            assert_eq!(text, b"answer = 42\n", "{at}");
        }
    }
}

#[test]
fn tar_reads_the_plain_archive() {
    let place = Folder::new("tar");
    let mut bytes = Vec::new();
    write_tar(&environment(), Path::new("archive"), &mut bytes).expect("an archive");
    fs::write(place.path("archive"), &bytes).expect("it can be written");
    let run = std::process::Command::new("tar").arg("-tf").arg(place.path("archive")).output();
    let Ok(run) = run else { return eprintln!("skipped: there is no tar here") };
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let listed = String::from_utf8_lossy(&run.stdout).into_owned();
    assert_eq!(listed.lines().count(), 10);
    assert!(listed.contains(&"long".repeat(60)));
}

/// Returns a tree: folders with files by short names, whose depths and sizes vary.
fn tree() -> impl Strategy<Value = BTreeMap<String, Vec<u8>>> {
    let name = prop::collection::vec("[a-c]{1,60}", 1..4).prop_map(|parts| parts.join("/") + ".x");
    prop::collection::btree_map(name, prop::collection::vec(any::<u8>(), 0..2000), 0..20)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_comes_back(files in tree()) {
        let place = Folder::new("any-tree");
        let parents = files.keys().flat_map(|name| Path::new(name).ancestors().skip(1));
        let folders: std::collections::BTreeSet<_> =
            parents.filter(|name| *name != Path::new("")).collect();
        let mut entries: Vec<_> = files.iter().map(|(name, bytes)| made(name, bytes, false)).collect();
        entries.extend(folders.iter().map(|name| folder(name.to_str().expect("letters"))));
        let packed = pack(&entries, &place.path("image"), MANY).expect("an image");
        unpack(&place.path("image"), &packed.digest, &place.path("out"), 3).expect("it unpacks");
        for (name, bytes) in files {
            prop_assert_eq!(fs::read(place.path("out").join(name)).expect("it came"), bytes);
        }
    }
}

/// A file on a disk that is full when the last bytes come.
struct FullDisk;

impl std::io::Write for FullDisk {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_archive_whose_last_bytes_cannot_be_written_is_an_error() {
    let mut out = std::io::BufWriter::with_capacity(1 << 20, FullDisk);
    let written = write_tar(&environment(), Path::new("archive"), &mut out);
    assert!(written.is_err(), "a buffered writer loses the error if it is dropped");
    drop(out.into_parts());
}
