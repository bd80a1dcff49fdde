//! Packets with descriptors and credentials.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::{fs::File, io::Write};

use crate::descriptor::{check, interest, memory_file, wait};
use crate::message::{DESCRIPTOR_LIMIT, HEADER_SIZE, Header, INLINE_LIMIT, MessageError};

/// Size of the buffer for one control packet, bytes: a header and the largest inline body, and one byte more to detect
/// a packet that is too large.
pub(crate) const PACKET_LIMIT: usize = HEADER_SIZE + INLINE_LIMIT + 1;

/// Size of the control buffer in 64-bit words: [`DESCRIPTOR_LIMIT`] descriptors and one set of credentials with their
/// headers.
const CONTROL_WORDS: usize = 32;
const _: () = assert!(CONTROL_WORDS * 8 >= DESCRIPTOR_LIMIT * 4 + 16 + 32);

/// A received packet.
pub(crate) struct Packet {
    /// Bytes of the packet in the buffer. 0 means that the other end is closed (or an empty packet, which no peer
    /// sends).
    pub(crate) size: usize,
    /// True if bytes or descriptors were lost because a buffer was too small.
    pub(crate) cut: bool,
    /// The descriptors that came with the packet.
    pub(crate) descriptors: Vec<OwnedFd>,
    /// The process id of the sender, if the socket asks for credentials.
    pub(crate) sender: Option<i32>,
}

impl Packet {
    /// Returns a packet that stands for a closed other end.
    pub(crate) fn end() -> Self {
        Self { size: 0, cut: false, descriptors: Vec::new(), sender: None }
    }
}

/// Asks the kernel for the credentials of each packet's sender.
pub(crate) fn ask_for_credentials(socket: BorrowedFd<'_>) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: pointer and size describe the integer, which outlives the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PASSCRED,
            (&raw const on).cast(),
            size_of::<libc::c_int>().try_into().unwrap_or(4),
        )
    })?;
    Ok(())
}

/// Sends one packet made of `parts`, without waiting and without SIGPIPE.
///
/// # Errors
/// `WouldBlock` if the peer does not read; `BrokenPipe` if it is gone.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    parts: &[&[u8]],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut vectors: Vec<libc::iovec> = parts
        .iter()
        .map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() })
        .collect();
    let mut control = [0_u64; CONTROL_WORDS];
    // SAFETY: all zeros is a valid empty message header.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = vectors.as_mut_ptr();
    message.msg_iovlen = vectors.len();
    if !descriptors.is_empty() {
        if descriptors.len() > DESCRIPTOR_LIMIT {
            return Err(io::Error::from_raw_os_error(libc::ETOOMANYREFS));
        }
        let size = u32::try_from(size_of_val(descriptors)).unwrap_or(0);
        // SAFETY: the control buffer is aligned, zeroed and holds DESCRIPTOR_LIMIT descriptors (asserted above), so the
        // first header and its data lie inside it.
        unsafe {
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(size) as usize;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size) as usize;
            let data: *mut RawFd = libc::CMSG_DATA(header).cast();
            for (index, descriptor) in descriptors.iter().enumerate() {
                data.add(index).write_unaligned(descriptor.as_raw_fd());
            }
        }
    }
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the header points to vectors and control bytes that outlive the call; the kernel only reads them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, flags) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends one packet, and waits while the peer does not read.
///
/// # Errors
/// `BrokenPipe` if the peer is gone.
pub(crate) fn send_patiently(socket: BorrowedFd<'_>, packet: &[u8]) -> io::Result<()> {
    loop {
        match send(socket, &[packet], &[]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(&mut [interest(socket, libc::POLLOUT)], None)?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            sent => return sent,
        }
    }
}

/// Receives one packet, without waiting.
///
/// # Errors
/// `WouldBlock` if there is none.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Packet> {
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = [0_u64; CONTROL_WORDS];
    // SAFETY: all zeros is a valid empty message header.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the header points to a buffer and control bytes that outlive the call, with their true sizes.
    let size = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    let size = usize::try_from(size).map_err(|_| io::Error::last_os_error())?;
    let mut packet = Packet {
        size,
        cut: message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0,
        descriptors: Vec::new(),
        sender: None,
    };
    // SAFETY: the kernel filled `message` and `control`; the macros stay within msg_controllen.
    unsafe { take_control(&message, &mut packet) };
    Ok(packet)
}

/// Takes ownership of the descriptors and credentials of a packet.
///
/// # Safety
/// `message` was filled by a successful `recvmsg`, and its control buffer is still alive.
unsafe fn take_control(message: &libc::msghdr, packet: &mut Packet) {
    // SAFETY: promised by the caller; headers are followed only by the kernel's own macros.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            let data = libc::CMSG_DATA(header);
            let size = (*header).cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_RIGHTS) => {
                    for index in 0..size / size_of::<RawFd>() {
                        let descriptor = data.cast::<RawFd>().add(index).read_unaligned();
                        packet.descriptors.push(OwnedFd::from_raw_fd(descriptor));
                    }
                }
                (libc::SOL_SOCKET, libc::SCM_CREDENTIALS) if size >= size_of::<libc::ucred>() => {
                    packet.sender = Some(data.cast::<libc::ucred>().read_unaligned().pid);
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}

/// A message that is ready to be sent, possibly later and possibly again.
pub(crate) struct Outgoing {
    packet: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl Outgoing {
    /// Builds a message; a large body goes to a memory file.
    pub(crate) fn new((kind, body): (u16, Vec<u8>), descriptors: Vec<OwnedFd>) -> io::Result<Self> {
        let too_large = || io::Error::from_raw_os_error(libc::EMSGSIZE);
        if body.len() > crate::message::BODY_LIMIT {
            return Err(too_large());
        }
        let length = u32::try_from(body.len()).map_err(|_| too_large())?;
        let body_in_file = body.len() > INLINE_LIMIT;
        let mut packet = Header { kind, length, body_in_file }.encode().to_vec();
        let mut all = Vec::with_capacity(descriptors.len() + 1);
        if body_in_file {
            let mut file = memory_file(c"gristmill-message", false)?;
            file.write_all(&body)?;
            all.push(OwnedFd::from(file));
        } else {
            packet.extend_from_slice(&body);
        }
        all.extend(descriptors);
        Ok(Self { packet, descriptors: all })
    }

    /// Drops the message's descriptors. A body in a memory file is lost with them.
    pub(crate) fn drop_descriptors(&mut self) {
        self.descriptors.clear();
    }

    /// Sends the message without waiting; see [`send`].
    pub(crate) fn send(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let borrowed: Vec<_> = self.descriptors.iter().map(AsFd::as_fd).collect();
        send(socket, &[&self.packet], &borrowed)
    }
}

/// Splits a packet into the kind of its message, the body, and the message's descriptors. The caller checks whether any
/// descriptors were lost.
pub(crate) fn open_packet(
    bytes: &[u8],
    packet: Packet,
) -> Result<(u16, Vec<u8>, Vec<OwnedFd>), MessageError> {
    let mut descriptors = packet.descriptors;
    let (header, inline) = Header::decode(bytes)?;
    if !header.body_in_file {
        return Ok((header.kind, inline.to_vec(), descriptors));
    }
    if descriptors.is_empty() {
        return Err(MessageError::Descriptors { needed: 1, found: 0 });
    }
    let file = File::from(descriptors.remove(0));
    let needed = usize::try_from(header.length).unwrap_or(usize::MAX);
    let found = match file.metadata() {
        Ok(metadata) if metadata.is_file() => usize::try_from(metadata.len()).unwrap_or(0),
        _ => 0,
    };
    let mut body = vec![0; needed.min(found)];
    if found < needed || file.read_exact_at(&mut body, 0).is_err() {
        return Err(MessageError::Truncated { needed, found });
    }
    Ok((header.kind, body, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::{pipe, socket_pair};

    fn pass(message: &Outgoing) -> Result<(u16, Vec<u8>, Vec<OwnedFd>), MessageError> {
        let (left, right) = socket_pair().unwrap();
        message.send(left.as_fd()).unwrap();
        let mut buffer = [0; PACKET_LIMIT];
        let packet = receive(right.as_fd(), &mut buffer).unwrap();
        let size = packet.size;
        open_packet(&buffer[..size], packet)
    }

    #[test]
    fn small_and_large_bodies_arrive_with_their_descriptors() {
        for size in [0, 1, INLINE_LIMIT, INLINE_LIMIT + 1, 3 << 20] {
            let body: Vec<u8> = (0..=255).cycle().take(size).collect();
            let (reader, writer) = pipe().unwrap();
            let message = Outgoing::new((9, body.clone()), vec![writer]).unwrap();
            let (kind, found, mut descriptors) = pass(&message).unwrap();
            drop(message);
            assert_eq!((kind, found), (9, body));
            let mut writer = File::from(descriptors.pop().unwrap());
            assert!(descriptors.is_empty());
            writer.write_all(b"through").unwrap();
            let mut text = [0; 7];
            std::io::Read::read_exact(&mut File::from(reader), &mut text).unwrap();
            assert_eq!(&text, b"through");
        }
    }

    #[test]
    fn the_most_descriptors_fit_and_credentials_name_the_sender() {
        let (left, right) = socket_pair().unwrap();
        ask_for_credentials(right.as_fd()).unwrap();
        let (reader, _writer) = pipe().unwrap();
        let many = [reader.as_fd(); DESCRIPTOR_LIMIT];
        send(left.as_fd(), &[b"a", b"b"], &many).unwrap();
        let packet = receive(right.as_fd(), &mut [0; 8]).unwrap();
        assert!(!packet.cut);
        assert_eq!((packet.size, packet.descriptors.len()), (2, DESCRIPTOR_LIMIT));
        assert_eq!(packet.sender, Some(i32::try_from(std::process::id()).unwrap()));
    }

    #[test]
    fn a_body_file_that_is_too_short_or_no_file_is_refused() {
        let header = Header { kind: 2, length: 100, body_in_file: true }.encode();
        let short = memory_file(c"short", false).unwrap();
        let (reader, _writer) = pipe().unwrap();
        for descriptors in [vec![OwnedFd::from(short)], vec![reader], Vec::new()] {
            let message = Outgoing { packet: header.to_vec(), descriptors };
            assert!(pass(&message).is_err());
        }
    }
}
