//! Tests of round trips, and of bytes that are not messages.

use super::*;
use crate::status::{ExitStatus, Usage};
use crate::token::TreeToken;

fn program() -> Program {
    Program {
        arguments: vec![b"/usr/bin/python3".to_vec(), b"-c".to_vec(), Vec::new()],
        environment: vec![b"HOME=/root".to_vec(), b"ODD=\xff\n".to_vec()],
        directory: b"/tmp".to_vec(),
        umask: 0o022,
        stdout: Output::Discard,
        stderr: Output::Forward,
    }
}

fn commands() -> Vec<Command> {
    let worker = WorkerKey::new(7, 0xdead_beef);
    vec![
        Command::Begin { token: TreeToken::parse(&[b'a'; 32]).unwrap() },
        Command::StartZygote { zygote: 3, program: program() },
        Command::Spawn { zygote: 3, worker },
        Command::SpawnFresh { worker, program: program() },
        Command::Kill { worker, signal: 9 },
        Command::EndStarted { worker, by: Stopped { sequence: 1, began_ns: 2, ended_ns: 3 } },
        Command::Signal { worker, signal: 10 },
        Command::StopZygote { zygote: 3 },
        Command::Shutdown { grace_ms: 500 },
    ]
}

fn events() -> Vec<KeeperEvent> {
    let worker = WorkerKey::new(7, 1);
    let status = ExitStatus::Signal { signal: 11, core: true };
    let usage = Usage { user_ms: 1, sys_ms: 2, max_rss_kib: 3 };
    let stderr_tail = b"last words\n".to_vec();
    vec![
        KeeperEvent::Up { pid: 5 },
        KeeperEvent::ZygoteReady { zygote: 1, pid: 6 },
        KeeperEvent::ZygoteLost {
            zygote: 1,
            end: ZygoteEnd::NotStarted { errno: 2 },
            stderr_tail: stderr_tail.clone(),
        },
        KeeperEvent::ZygoteLost {
            zygote: 1,
            end: ZygoteEnd::Exited(ExitStatus::Code(1)),
            stderr_tail: stderr_tail.clone(),
        },
        KeeperEvent::Started(WorkerStart { worker, pid: 8, pidfd: None }),
        KeeperEvent::SpawnFailed { worker, text: b"no more processes".to_vec() },
        KeeperEvent::Exited(Exit { worker, pid: 8, status, oom: true, usage, stderr_tail }),
        KeeperEvent::Refused { text: b"what?".to_vec() },
    ]
}

#[test]
fn every_command_survives_the_wire() {
    for command in commands() {
        let (kind, body) = command.encode();
        assert_eq!(Command::decode(kind, &body), Ok(command));
    }
}

#[test]
fn every_event_survives_the_wire() {
    for event in events() {
        let (kind, body) = event.encode();
        let decoded = KeeperEvent::decode(kind, &body, Vec::new()).unwrap();
        assert_eq!(format!("{decoded:?}"), format!("{event:?}"));
    }
}

#[test]
fn every_shortened_or_lengthened_body_is_refused() {
    let commands = commands().into_iter().map(|command| command.encode());
    let events = events().into_iter().map(|event| event.encode());
    for (kind, body) in commands {
        for cut in 0..body.len() {
            assert!(Command::decode(kind, &body[..cut]).is_err(), "command {kind} cut at {cut}");
        }
        let longer = [body.as_slice(), b"x"].concat();
        assert_eq!(Command::decode(kind, &longer), Err(MessageError::Trailing(1)));
    }
    for (kind, body) in events {
        for cut in 0..body.len() {
            assert!(KeeperEvent::decode(kind, &body[..cut], Vec::new()).is_err());
        }
    }
}

#[test]
fn altered_bytes_never_panic_nor_allocate_beyond_the_body() {
    for (kind, body) in commands().into_iter().map(|command| command.encode()) {
        for position in 0..body.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut altered = body.clone();
                altered[position] = value;
                let _ = Command::decode(kind, &altered);
                let _ = KeeperEvent::decode(kind, &altered, Vec::new());
            }
        }
    }
}

#[test]
fn values_that_no_field_can_have_are_refused() {
    let worker = WorkerKey::new(0, 0);
    let refuses = |command: Command| {
        let (kind, body) = command.encode();
        Command::decode(kind, &body).unwrap_err()
    };
    assert!(matches!(refuses(Command::Kill { worker, signal: 0 }), MessageError::BadField { .. }));
    assert!(matches!(
        refuses(Command::Signal { worker, signal: 65 }),
        MessageError::BadField { .. }
    ));
    let wide = Program { umask: 0o1000, ..program() };
    assert!(matches!(
        refuses(Command::SpawnFresh { worker, program: wide }),
        MessageError::BadField { .. }
    ));
    let zero = Program { directory: b"/\0".to_vec(), ..program() };
    assert!(matches!(
        refuses(Command::SpawnFresh { worker, program: zero }),
        MessageError::ZeroByte { .. }
    ));
    let nothing = Program { arguments: Vec::new(), ..program() };
    assert!(matches!(
        refuses(Command::SpawnFresh { worker, program: nothing }),
        MessageError::BadField { .. }
    ));
    assert_eq!(Command::decode(99, &[]), Err(MessageError::UnknownKind(99)));
}

#[test]
fn headers_are_pinned_to_the_byte_and_checked() {
    let header = Header { kind: 3, length: 2, body_in_file: false };
    let packet = [header.encode().as_slice(), b"xy"].concat();
    assert_eq!(packet, b"GKPR\x01\0\x03\0\x02\0\0\0\0\0\0\0xy");
    assert_eq!(Header::decode(&packet), Ok((header, b"xy".as_slice())));
    assert!(matches!(Header::decode(&packet[..17]), Err(MessageError::Truncated { .. })));
    assert!(matches!(Header::decode(&packet[..9]), Err(MessageError::Truncated { .. })));
    assert!(matches!(Header::decode(b"garbage of 16 by"), Err(MessageError::BadMagic(_))));
    let mut other = packet.clone();
    other[4] = 2;
    assert_eq!(Header::decode(&other), Err(MessageError::BadVersion { found: 2 }));
    let large = Header { kind: 3, length: u32::MAX, body_in_file: true }.encode();
    assert!(matches!(Header::decode(&large), Err(MessageError::TooLarge { .. })));
}
