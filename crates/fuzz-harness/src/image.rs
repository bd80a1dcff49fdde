//! An image of arbitrary frames and entries whose hash matches: it unpacks into its folder, or not at all.

use std::fs;

use crate::input::Input;
use gristmill_image::{digest_of_file, unpack};

/// Names and targets that path attacks are made of, so that the fuzzer need not guess them.
const PARTS: [&str; 8] = ["a", "b", "..", ".", "", "bin", "python3", "secret"];

fn name(input: &mut Input) -> String {
    let count = usize::from(input.byte() % 4) + 1;
    let parts: Vec<_> = (0..count).map(|_| PARTS[usize::from(input.byte() % 8)]).collect();
    parts.join("/")
}

/// Returns one entry of an archive: its header block with a checksum, and the bytes behind it.
fn entry(input: &mut Input) -> Vec<u8> {
    let mut block = vec![0; 512];
    let (name, target) = (name(input), name(input));
    let kind = b"0025LK13"[usize::from(input.byte() % 8)];
    let size = usize::from(input.byte());
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[100..107].copy_from_slice(b"0004755");
    block[124..135].copy_from_slice(format!("{size:011o}").as_bytes());
    block[156] = kind;
    block[157..157 + target.len()].copy_from_slice(target.as_bytes());
    block[148..156].copy_from_slice(b"        ");
    // Now and then the header has an arbitrary byte.
    if input.byte().is_multiple_of(8) {
        block[usize::from(input.byte())] = input.byte();
    }
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block.extend_from_slice(input.bytes(size));
    block.resize(block.len().next_multiple_of(512), 0);
    block
}

/// Returns a frame of zstd that holds the bytes uncompressed.
fn stored(bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x58];
    let head = u32::try_from(bytes.len() << 3 | 1).expect("a few entries");
    frame.extend_from_slice(&head.to_le_bytes()[..3]);
    frame.extend_from_slice(bytes);
    frame
}

/// Runs the target on one input.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let place = std::env::temp_dir().join(format!("gristmill-fuzz-image-{}", std::process::id()));
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(place.join("jail")).expect("a folder");
    fs::write(place.join("jail/secret"), b"untouched").expect("there is room");
    let mut image = Vec::new();
    for number in [0x184D_2A5E_u32, 40] {
        image.extend_from_slice(&number.to_le_bytes());
    }
    image.extend_from_slice(b"gristmill-image\0");
    for number in [1_u64, 2000, u64::from(input.byte() % 16)] {
        image.extend_from_slice(&number.to_le_bytes());
    }
    for frame in 0..input.byte() % 5 {
        let kind = if input.byte().is_multiple_of(8) { 3 } else { u32::from(frame).min(2) };
        let count = input.byte() % 4;
        let blocks: Vec<u8> = (0..count).flat_map(|_| entry(&mut input)).collect();
        let held = if input.byte().is_multiple_of(8) { blocks } else { stored(&blocks) };
        for number in [0x184D_2A5D_u32, 16, kind, 0] {
            image.extend_from_slice(&number.to_le_bytes());
        }
        image.extend_from_slice(&(held.len() as u64).to_le_bytes());
        image.extend_from_slice(&held);
    }
    image.extend_from_slice(input.0);
    fs::write(place.join("image"), image).expect("there is room");
    let digest = digest_of_file(&place.join("image")).expect("it was written");
    let _ = unpack(&place.join("image"), &digest, &place.join("jail/out"), 1);
    let mut names: Vec<_> = fs::read_dir(place.join("jail"))
        .expect("a folder")
        .flatten()
        .map(|one| one.file_name())
        .collect();
    names.retain(|name| name != "out");
    assert_eq!(names, ["secret"]);
    assert_eq!(fs::read(place.join("jail/secret")).expect("it"), b"untouched");
    let _ = fs::remove_dir_all(&place);
}
