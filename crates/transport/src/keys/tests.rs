//! Tests of keys as text and in files.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

use super::*;

/// Returns a key: the private key is the bytes 0 to 31, and the public key of the other side is the bytes 32 to 63.
fn known() -> NodeKey {
    let mut bytes = 0_u8..;
    let mut next = || std::array::from_fn(|_| bytes.next().unwrap());
    NodeKey(KeyPair { own: Zeroizing::new(next()), other: next() })
}

const KNOWN_TEXT: &str = "gristmill-node-1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0-P_3quazz";

/// The path of a file that does not exist; a file made there is removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("gristmill-key-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn the_text_of_a_key_is_pinned_to_the_character() {
    assert_eq!(*known().to_text(), KNOWN_TEXT);
    let back: NodeKey = KNOWN_TEXT.parse().unwrap();
    assert_eq!(back.0.own, known().0.own);
    assert_eq!(back.0.other, known().0.other);
}

#[test]
fn the_two_halves_are_not_mistaken_for_each_other() {
    let fleet = FleetKeys::generate().unwrap();
    let back = ClientKey::parse(&fleet.client.to_text()).unwrap();
    assert_eq!(back.0.own, fleet.client.0.own);
    let error = NodeKey::parse(&fleet.client.to_text()).unwrap_err();
    assert!(error.to_string().contains("gristmill-node-"), "{error}");
}

#[test]
fn each_fleet_has_keys_of_its_own_that_fit_each_other() {
    let (one, other) = (FleetKeys::generate().unwrap(), FleetKeys::generate().unwrap());
    assert_ne!(one.node.0.own, other.node.0.own);
    assert_ne!(one.node.0.own, one.client.0.own);
    assert_eq!(public_of(&one.node.0.own), one.client.0.other);
    assert_eq!(public_of(&one.client.0.own), one.node.0.other);
}

#[test]
fn a_public_key_is_the_one_that_the_standard_says() {
    // RFC 8032, section 7.1, test 1.
    let private = *b"\x9d\x61\xb1\x9d\xef\xfd\x5a\x60\xba\x84\x4a\xf4\x92\xec\x2c\xc4\x44\x49\xc5\x69\x7b\x32\x69\x19\x70\x3b\xac\x03\x1c\xae\x7f\x60";
    let public = *b"\xd7\x5a\x98\x01\x82\xb1\x0a\xb7\xd5\x4b\xfe\xd3\xc9\x64\x07\x3a\x0e\xe1\x72\xf3\xda\xa6\x23\x25\xaf\x02\x1a\x68\xf7\x07\x51\x1a";
    assert_eq!(public_of(&private), public);
    assert_eq!(public_document(&public), *signing_key(&private).public_key().unwrap());
}

#[test]
fn what_is_no_key_is_refused_and_the_error_says_why() {
    let code = |text: &str| NodeKey::parse(text).unwrap_err().code();
    assert_eq!(code(""), "key_prefix");
    assert_eq!(code("ssh-ed25519 AAAA"), "key_prefix");
    assert_eq!(code("gristmill-node-2:AAAA"), "key_unknown_version");
    assert_eq!(code("gristmill-node-1:"), "key_length");
    assert_eq!(code(&KNOWN_TEXT[..KNOWN_TEXT.len() - 1]), "key_length");
    assert_eq!(code(&format!("{KNOWN_TEXT}\n")), "key_length");
    assert_eq!(code(&KNOWN_TEXT.replace("AAEC", "AAEE")), "key_checksum");
    let error = NodeKey::parse(&KNOWN_TEXT.replace("AAEC", "AA+C")).unwrap_err();
    assert!(matches!(error, KeyError::Character { position: 20 }), "{error:?}");
}

#[test]
fn any_changed_character_is_noticed() {
    for place in 0..KNOWN_TEXT.len() {
        let mut text = KNOWN_TEXT.as_bytes().to_vec();
        text[place] = if text[place] == b'Q' { b'R' } else { b'Q' };
        let text = String::from_utf8(text).unwrap();
        assert!(NodeKey::parse(&text).is_err(), "character {place} may be changed");
    }
}

#[test]
fn neither_debug_output_nor_an_error_shows_a_secret() {
    let fleet = FleetKeys::generate().unwrap();
    let text = fleet.node.to_text();
    assert_eq!(format!("{:?}", fleet.node), "NodeKey(secret)");
    assert_eq!(format!("{:?}", fleet.client), "ClientKey(secret)");
    assert_eq!(format!("{:?}", fleet.node.0), "KeyPair(secret)");
    let error = NodeKey::parse(&text[..60]).unwrap_err();
    assert!(!format!("{error} {error:?}").contains(&text[17..25]));
}

#[test]
fn a_key_survives_its_file_which_is_for_its_owner_alone() {
    let file = Scratch::new("file");
    known().write(&file.0).unwrap();
    assert_eq!(std::fs::metadata(&file.0).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(NodeKey::read(&file.0).unwrap().0.own, known().0.own);
    assert_eq!(known().write(&file.0).unwrap_err().code(), "key_system");
}

#[test]
fn a_file_that_others_may_read_or_write_is_refused() {
    let file = Scratch::new("exposed");
    known().write(&file.0).unwrap();
    for mode in [0o640, 0o604, 0o620, 0o602, 0o601] {
        std::fs::set_permissions(&file.0, PermissionsExt::from_mode(mode)).unwrap();
        let error = NodeKey::read(&file.0).unwrap_err();
        assert!(matches!(error, KeyError::Exposed { mode: found, .. } if found == mode), "{error}");
    }
    std::fs::set_permissions(&file.0, PermissionsExt::from_mode(0o400)).unwrap();
    assert!(NodeKey::read(&file.0).is_ok());
}

#[test]
fn what_is_no_key_file_is_refused() {
    let file = Scratch::new("other");
    assert_eq!(NodeKey::read(&file.0).unwrap_err().code(), "key_system");
    assert_eq!(NodeKey::read(&std::env::temp_dir()).unwrap_err().code(), "key_no_file");
    let mut open = OpenOptions::new();
    let mut made = open.write(true).create_new(true).mode(0o600).open(&file.0).unwrap();
    made.write_all(&[0xff; 5000]).unwrap();
    assert_eq!(NodeKey::read(&file.0).unwrap_err().code(), "key_prefix");
}
