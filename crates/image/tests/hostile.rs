//! Images with a correct hash that are made to do harm: nothing is written outside the folder.

mod crafted;
mod support;

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use crafted::{Raw, raw, write_image};
use gristmill_image::{ImageError, digest_of_file, unpack};
use proptest::prelude::*;
use support::Folder;

/// The kind that the frame header claims (0 folders, 1 files, 2 links), and the bytes of the frame.
type Frame = (u32, Vec<u8>);

/// Writes an image of these frames and unpacks it to `jail/out`.
fn try_frames(place: &Folder, frames: &[Frame]) -> Result<(), ImageError> {
    let image = place.path("image");
    write_image(&image, (1 << 20, 100), frames);
    let digest = digest_of_file(&image).expect("it was written");
    unpack(&image, &digest, &place.path("jail/out"), 2).map(drop)
}

fn blocks(entries: &[Raw]) -> Vec<u8> {
    entries.iter().flat_map(Raw::blocks).collect()
}

/// Makes a folder with other files beside the one that an image is unpacked to.
fn jail(place: &Folder) {
    let _ = fs::remove_dir_all(place.path("jail"));
    fs::create_dir_all(place.path("jail/other")).expect("a folder");
    fs::write(place.path("jail/secret"), b"untouched").expect("a file");
}

fn assert_untouched(place: &Folder) {
    let read = |path: &str| fs::read_dir(place.path(path)).expect("a folder").flatten();
    let mut names: Vec<_> = read("jail").map(|entry| entry.file_name()).collect();
    names.sort();
    names.retain(|name| name != "out");
    assert_eq!(names, ["other", "secret"]);
    assert_eq!(read("jail/other").count(), 0);
    assert_eq!(fs::read(place.path("jail/secret")).expect("it"), b"untouched");
}

/// Asserts that there is no device, no set-user-id file, and no link that leads out of the folder.
fn assert_harmless(folder: &Path, root: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let found = fs::symlink_metadata(&path).expect("it is there");
        let kind = found.file_type();
        assert!(!kind.is_block_device() && !kind.is_char_device() && !kind.is_fifo());
        if kind.is_symlink() {
            if let Ok(real) = path.canonicalize() {
                assert!(real.starts_with(root), "{} leads to {}", path.display(), real.display());
            }
            continue;
        }
        assert_eq!(found.mode() & 0o7022, 0, "{}", path.display());
        if kind.is_dir() {
            assert_harmless(&path, root);
        }
    }
}

#[test]
fn known_tricks_are_refused() {
    let place = Folder::new("tricks");
    let empty = (0, Vec::new());
    let end = (2, Vec::new());
    let file = |name: &str| raw(b'0', name, "", b"x");
    let tricks: Vec<(&str, Vec<Frame>)> = vec![
        ("up", vec![empty.clone(), (1, blocks(&[file("../secret")])), end.clone()]),
        ("absolute", vec![empty.clone(), (1, blocks(&[file("/tmp/secret")])), end.clone()]),
        ("up again", vec![empty.clone(), (1, blocks(&[file("a/../../secret")])), end.clone()]),
        ("folder outside", vec![(0, blocks(&[raw(b'5', "../new", "", b"")])), end.clone()]),
        ("link out", vec![empty.clone(), (2, blocks(&[raw(b'2', "a", "../secret", b"")]))]),
        ("link to /", vec![empty.clone(), (2, blocks(&[raw(b'2', "a", "/", b"")]))]),
        (
            "through a link",
            vec![
                empty.clone(),
                (2, blocks(&[raw(b'2', "a", "b", b""), raw(b'2', "a/c", "d", b"")])),
            ],
        ),
        (
            "link before files",
            vec![empty.clone(), (1, blocks(&[raw(b'2', "a", "b", b"")])), end.clone()],
        ),
        ("files among links", vec![empty.clone(), (2, blocks(&[file("a")]))]),
        (
            "hard link",
            vec![empty.clone(), (1, blocks(&[raw(b'1', "a", "/etc/passwd", b"")])), end.clone()],
        ),
        ("device", vec![empty.clone(), (1, blocks(&[raw(b'3', "a", "", b"")])), end.clone()]),
        ("block device", vec![empty.clone(), (1, blocks(&[raw(b'4', "a", "", b"")])), end.clone()]),
        ("pipe", vec![empty.clone(), (1, blocks(&[raw(b'6', "a", "", b"")])), end.clone()]),
        ("twice", vec![empty.clone(), (1, blocks(&[file("a"), file("a")])), end.clone()]),
        ("no folder", vec![empty.clone(), (1, blocks(&[file("a/b")])), end.clone()]),
        (
            "too much",
            vec![empty.clone(), (1, blocks(&[raw(b'0', "a", "", &vec![0; 2 << 20])])), end.clone()],
        ),
        ("too little", vec![empty.clone(), (1, blocks(&[file("a")])), end.clone()]),
        ("no end", vec![empty.clone(), (1, blocks(&[file("a")]))]),
        ("no folders", vec![(1, blocks(&[file("a")])), end.clone()]),
        ("folders again", vec![empty.clone(), empty.clone(), end.clone()]),
        (
            "long name",
            vec![empty.clone(), (1, blocks(&[raw(b'L', "x", "", &vec![b'a'; 9999])])), end],
        ),
    ];
    for (name, frames) in tricks {
        jail(&place);
        let error = try_frames(&place, &frames).expect_err(name);
        assert!(matches!(error, ImageError::Hostile { .. }), "{name}: {error}");
        assert_untouched(&place);
    }
}

#[test]
fn a_link_named_as_an_interpreter_leads_to_no_folder() {
    let place = Folder::new("folder-link");
    jail(&place);
    let target = place.path("jail/python3");
    let target = target.to_str().expect("it is text");
    let link = blocks(&[raw(b'2', "bin/python3", target, b"")]);
    let frames = [(0, blocks(&[raw(b'5', "bin", "", b"")])), (2, link)];
    let image = place.path("image");
    write_image(&image, (0, 2), &frames);
    let digest = digest_of_file(&image).expect("it was written");
    let unpack_to = |folder: &str| unpack(&image, &digest, &place.path(folder), 1).map(drop);

    fs::write(target, b"an interpreter").expect("a file");
    unpack_to("jail/file").expect("a link to an interpreter");
    fs::remove_file(target).expect("it was made");
    unpack_to("jail/none").expect("a node may lack the interpreter");
    fs::create_dir(target).expect("a folder");
    let error = unpack_to("jail/folder").expect_err("a link to a folder");
    assert!(matches!(error, ImageError::Hostile { .. }), "{error}");
}

/// Returns names and targets of parts that attacks use.
fn name() -> impl Strategy<Value = String> {
    let part =
        prop::sample::select(vec!["a", "b", "..", ".", "", "bin", "python3", "other", "secret"]);
    prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("/"))
}

fn entries() -> impl Strategy<Value = Vec<Raw>> {
    let kind =
        prop::sample::select(vec![b'0', b'0', b'2', b'2', b'5', b'5', b'1', b'3', b'L', b'K']);
    let one = (kind, name(), name(), prop::collection::vec(any::<u8>(), 0..600));
    let one = one.prop_map(|(kind, name, target, bytes)| {
        let has_bytes = matches!(kind, b'0' | b'L' | b'K');
        raw(kind, &name, &target, if has_bytes { &bytes } else { b"" })
    });
    prop::collection::vec(one, 0..8)
}

proptest! {
    #[test]
    fn whatever_an_image_says_nothing_is_written_outside(
        frames in prop::collection::vec((0_u32..3, entries()), 0..4),
        folders in entries(),
    ) {
        let place = Folder::new("outside");
        jail(&place);
        let mut all = vec![(0, blocks(&folders))];
        all.extend(frames.iter().map(|(kind, entries)| (*kind, blocks(entries))));
        let _ = try_frames(&place, &all);
        assert_untouched(&place);
        let out = place.path("jail/out");
        let root = place.path("jail").canonicalize().expect("it is there").join("out");
        assert_harmless(&out, &root);
    }

    #[test]
    fn any_bytes_behind_a_head_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0_u32..4) {
        let place = Folder::new("bytes");
        jail(&place);
        prop_assert!(try_frames(&place, &[(0, Vec::new()), (kind, bytes)]).is_err());
        assert_untouched(&place);
    }
}
