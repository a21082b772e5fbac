//! The arrays that `sendmmsg` and `recvmmsg` read and write, made once and used for every call.
//!
//! ```text
//! headers[i] ──► iovecs[i] ──► buffer[i x stride ..][.. stride]
//!           └──► control[i]    (time stamp, drop counter, segment size)
//! ```

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::ptr;

use libc::{c_uint, c_void, iovec, sockaddr_in6};
use socket2::Socket;

use super::{Arrivals, Slot};
use crate::system::{self, mmsghdr};

/// Most messages in one `sendmmsg` or `recvmmsg`.
pub(super) const MAX_MESSAGES: usize = 64;

/// Bytes for control messages: SCM_TIMESTAMPNS takes 32 (16 of header, 16 of timespec),
/// SO_RXQ_OVFL and UDP_GRO 24 each. A multiple of 8 keeps each array entry aligned for `cmsghdr`.
const CONTROL_BYTES: usize = 128;
/// Bytes of receive buffers in all: half a usual second-level cache, and small enough for a
/// hundred tests in a server.
const BUFFER_BYTES: usize = 256 * 1024;

fn empty_header() -> mmsghdr {
    // SAFETY: `mmsghdr` is integers and pointers; all zero means "none" for each of them.
    unsafe { std::mem::zeroed() }
}

/// What `sendmmsg` reads.
pub(super) struct SendArrays {
    headers: [mmsghdr; MAX_MESSAGES],
    iovecs: [iovec; MAX_MESSAGES],
}

impl std::fmt::Debug for SendArrays {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SendArrays").finish_non_exhaustive()
    }
}

impl Default for SendArrays {
    fn default() -> Self {
        let none = iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        Self { headers: [empty_header(); MAX_MESSAGES], iovecs: [none; MAX_MESSAGES] }
    }
}

impl SendArrays {
    /// One `sendmmsg` of `bytes` cut every `cut` bytes; returns how many pieces the kernel took.
    pub(super) fn send(&mut self, socket: &Socket, bytes: &[u8], cut: usize) -> io::Result<usize> {
        let mut count = 0usize;
        for ((header, iov), piece) in
            self.headers.iter_mut().zip(self.iovecs.iter_mut()).zip(bytes.chunks(cut.max(1)))
        {
            iov.iov_base = piece.as_ptr().cast_mut().cast::<c_void>();
            iov.iov_len = piece.len();
            header.msg_hdr.msg_iov = iov;
            header.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        if count == 0 {
            return Ok(0);
        }
        // SAFETY: the descriptor is open for the borrow's life. The first `count` headers each point
        // to one iovec of `self`, which points into `bytes`; both live across the call, and nothing
        // moves in between. The kernel reads the bytes (the cast to mutable is only the C type's)
        // and writes `msg_len` of each header. Names and control are null with length 0, and so is all else that a
        // header was made of.
        let sent = unsafe {
            system::sendmmsg(socket.as_raw_fd(), self.headers.as_mut_ptr(), count as _, 0)
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(sent as usize)
    }
}

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_BYTES]);

/// Buffers for received messages, and what `recvmmsg` reads and writes.
pub(super) struct RecvArrays {
    buffer: Vec<u8>,
    stride: usize,
    slots: Vec<Slot>,
    headers: Vec<mmsghdr>,
    iovecs: Vec<iovec>,
    controls: Vec<Control>,
    filled: usize,
    contents: bool,
    /// Senders of the messages, while some may be of others than the peer; then there are none.
    names: Vec<sockaddr_in6>,
    /// Who the peer is, and how many messages may be of others.
    unsure: Option<(SocketAddr, usize)>,
}

impl std::fmt::Debug for RecvArrays {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecvArrays")
            .field("stride", &self.stride)
            .field("messages", &self.slots.len())
            .finish_non_exhaustive()
    }
}

impl RecvArrays {
    /// Room for up to `most` messages of up to `bytes` each, as many as half a second-level cache holds
    /// and at least one, at most 64. Without `contents` the kernel copies none of their bytes, and says how many
    /// there were: all are shown in the same room, of zeroes.
    pub(super) fn new(bytes: usize, most: usize, contents: bool) -> Self {
        let stride = bytes.clamp(64, 65_536).next_multiple_of(64);
        let fit = if contents { BUFFER_BYTES / stride } else { MAX_MESSAGES };
        let count = fit.min(most).clamp(1, MAX_MESSAGES);
        // Zeroed memory straight from the kernel: pages are only touched when messages fill them.
        let mut batch = Self {
            buffer: vec![0; if contents { stride * count } else { stride }],
            stride,
            slots: vec![Slot::default(); count],
            headers: vec![empty_header(); count],
            iovecs: Vec::with_capacity(count),
            controls: vec![Control([0; CONTROL_BYTES]); count],
            filled: 0,
            contents,
            names: Vec::new(),
            unsure: None,
        };
        if !contents {
            // Nothing is written there.
            let iov_base = batch.buffer.as_mut_ptr().cast::<c_void>();
            batch.iovecs.resize(count, iovec { iov_base, iov_len: 0 });
        }
        for slot in batch.buffer.chunks_exact_mut(stride).take(if contents { count } else { 0 }) {
            batch
                .iovecs
                .push(iovec { iov_base: slot.as_mut_ptr().cast::<c_void>(), iov_len: stride });
        }
        for ((header, iov), control) in
            batch.headers.iter_mut().zip(&mut batch.iovecs).zip(&mut batch.controls)
        {
            header.msg_hdr.msg_iov = iov;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.0.as_mut_ptr().cast::<c_void>();
            header.msg_hdr.msg_controllen = CONTROL_BYTES as _;
        }
        batch
    }

    /// Of the next `queued` messages those that another than `peer` sent, before the socket was connected, are left out.
    pub(super) fn only_from(mut self, peer: SocketAddr, queued: usize) -> Self {
        let nobody = sockaddr_in6 {
            #[cfg(not(target_os = "linux"))]
            sin6_len: 0,
            sin6_family: 0,
            sin6_port: 0,
            sin6_flowinfo: 0,
            sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
            sin6_scope_id: 0,
        };
        if queued > 0 {
            self.unsure = Some((peer, queued));
            self.names = vec![nobody; self.headers.len()];
        }
        self
    }

    /// Whether a message may be another's than the peer's.
    pub(super) fn is_unsure(&self) -> bool {
        self.unsure.is_some()
    }

    /// Leaves out what others sent; returns how many messages are left.
    #[cold]
    fn leave_out_others(&mut self) -> usize {
        let Some((peer, queued)) = self.unsure else { return self.filled };
        let (mut left, filled) = (0, self.filled.min(self.slots.len()));
        for (index, name) in self.names.iter().enumerate().take(filled) {
            if is_of(name, peer) {
                self.slots.swap(left, index);
                left += 1;
            }
        }
        self.unsure = queued.checked_sub(filled).filter(|more| *more > 0).map(|more| (peer, more));
        if self.unsure.is_none() {
            for header in &mut self.headers {
                header.msg_hdr.msg_name = ptr::null_mut();
                header.msg_hdr.msg_namelen = 0;
            }
            // Nothing points to them any more.
            self.names = Vec::new();
        }
        left
    }

    /// One `recv` for one message of which nothing else is asked: a tenth of a microsecond less than
    /// [`RecvArrays::receive`] takes.
    pub(super) fn receive_one(&mut self, socket: &Socket) -> io::Result<Arrivals<'_>> {
        let room = self.buffer.get_mut(..self.stride).unwrap_or_default();
        let length = (&mut &*socket).read(room)?;
        // What fills the room is longer than any awaited datagram, and may be longer still.
        let slot = Slot { length, truncated: length == self.stride, ..Slot::default() };
        let slots = self.slots.get_mut(..1).unwrap_or_default();
        slots.fill(slot);
        Ok(Arrivals::new(&self.buffer, slots, true))
    }

    /// One `recvmmsg`.
    pub(super) fn receive(&mut self, socket: &Socket) -> io::Result<Arrivals<'_>> {
        let count = self.headers.len();
        // The kernel overwrote these the last time, for as many messages as it delivered and no others
        // (net/socket.c, `____sys_recvmsg`, writes them last).
        for header in self.headers.iter_mut().take(self.filled) {
            header.msg_hdr.msg_controllen = CONTROL_BYTES as _;
            header.msg_hdr.msg_flags = 0;
        }
        self.filled = 0;
        for (header, name) in self.headers.iter_mut().zip(&mut self.names) {
            header.msg_hdr.msg_name = ptr::from_mut(name).cast::<c_void>();
            header.msg_hdr.msg_namelen = size_of::<sockaddr_in6>() as _;
        }
        // With MSG_TRUNC the length of a message is its own, whatever was copied of it (recv(2)).
        let flags = system::MSG_WAITFORONE | if self.contents { 0 } else { libc::MSG_TRUNC };
        // SAFETY: the descriptor is open for the borrow's life. Each header points to one iovec and
        // one control buffer in vectors of `self` that are never resized after `new`, to no name or to its own of
        // `names`, which stays for as long, and each iovec to its own `stride` bytes of `buffer`, or to none of them;
        // moving `self` does not move what vectors point to. Lengths are those of the buffers. A null time-out is
        // allowed.
        let received = unsafe {
            system::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                // Of other widths and signs with musl and on other systems.
                count as _,
                flags as _,
                ptr::null_mut(),
            )
        };
        if received < 0 {
            return Err(io::Error::last_os_error());
        }
        self.filled = (received as usize).min(count);
        let slots = self.slots.get_mut(..self.filled).unwrap_or_default();
        for (index, (header, slot)) in self.headers.iter().zip(slots).enumerate() {
            let place = if self.contents { index * self.stride } else { 0 };
            *slot = read_control(header, place, self.stride);
            // Who wants no contents misses none.
            slot.truncated &= self.contents || header.msg_len as usize > self.stride;
        }
        let left = if self.is_unsure() { self.leave_out_others() } else { self.filled };
        let slots = self.slots.get(..left).unwrap_or_default();
        Ok(Arrivals::new(&self.buffer, slots, self.filled == count))
    }
}

/// Whether that is the peer's name. Of IPv4 the kernel writes a `sockaddr_in`, whose address is where IPv6 has its flow.
fn is_of(name: &sockaddr_in6, peer: SocketAddr) -> bool {
    let ip = match i32::from(name.sin6_family) {
        libc::AF_INET => IpAddr::from(name.sin6_flowinfo.to_ne_bytes()),
        _ => IpAddr::from(name.sin6_addr.s6_addr).to_canonical(),
    };
    (ip, u16::from_be(name.sin6_port)) == (peer.ip(), peer.port())
}

/// What a header says of the message at `offset`, which has `stride` bytes of room.
fn read_control(header: &mmsghdr, offset: usize, stride: usize) -> Slot {
    let mut slot = Slot {
        offset,
        length: (header.msg_len as usize).min(stride),
        truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        ..Slot::default()
    };
    // SAFETY: `msg_hdr` was filled by a `recvmmsg` that succeeded; its control pointer and length
    // describe a live, 8-aligned buffer that the kernel wrote well-formed messages to, and these two
    // macros stay within that length.
    let mut cmsg = unsafe { libc::CMSG_FIRSTHDR(&raw const header.msg_hdr) };
    while !cmsg.is_null() {
        // SAFETY: not null, so it points to a whole header inside the control buffer.
        let (level, kind, length) =
            unsafe { ((*cmsg).cmsg_level, (*cmsg).cmsg_type, (*cmsg).cmsg_len as usize) };
        // SAFETY: as above; only a pointer is made here.
        let data = unsafe { libc::CMSG_DATA(cmsg) };
        let holds = |bytes: usize| {
            // SAFETY: CMSG_LEN only computes.
            length >= unsafe { libc::CMSG_LEN(bytes as c_uint) } as usize
        };
        match (level, kind) {
            (libc::SOL_SOCKET, system::SCM_STAMP) if holds(size_of::<libc::timespec>()) => {
                // SAFETY: the length says that a timespec is there; the read needs no alignment.
                let time = unsafe { data.cast::<libc::timespec>().read_unaligned() };
                let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
                let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
                slot.stamp_ns = Some(seconds.saturating_mul(1_000_000_000).saturating_add(rest));
            }
            (libc::SOL_SOCKET, system::SCM_DROPS) if holds(size_of::<u32>()) => {
                // SAFETY: the length says that a u32 is there; the read needs no alignment.
                slot.drops = Some(unsafe { data.cast::<u32>().read_unaligned() });
            }
            (libc::IPPROTO_UDP, system::SCM_SEGMENT) if holds(size_of::<libc::c_int>()) => {
                // SAFETY: the length says that an int is there; the read needs no alignment.
                let segment = unsafe { data.cast::<libc::c_int>().read_unaligned() };
                slot.segment = usize::try_from(segment).ok().filter(|s| *s > 0);
            }
            _ => {}
        }
        // SAFETY: `cmsg` is a header inside the buffer that `msg_hdr` describes.
        cmsg = unsafe { libc::CMSG_NXTHDR(&raw const header.msg_hdr, cmsg) };
    }
    slot
}
