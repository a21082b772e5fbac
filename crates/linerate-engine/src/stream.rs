//! Bytes over TCP.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use crate::system::{DROPS_UNREAD, drop_bytes, memory_file, send_file};

/// Writes blocks of the same bytes.
#[derive(Debug)]
pub enum BlockWriter {
    /// `write`: the kernel copies each block.
    Copy(Vec<u8>),
    /// The same, block after block: what the kernel left of one goes first, so that each begins where the last one
    /// ends.
    Whole {
        /// Its bytes.
        block: Vec<u8>,
        /// So many of them have gone.
        gone: usize,
    },
    /// `sendfile` from memory: the kernel refers to the same pages each time and copies nothing.
    Sendfile {
        /// Anonymous file that holds one block.
        file: OwnedFd,
        /// Its length.
        bytes: usize,
    },
}

impl BlockWriter {
    /// Blocks of the given bytes.
    ///
    /// # Errors
    /// When there is no memory file to be had (`zerocopy` only).
    pub fn new(block: Vec<u8>, zerocopy: bool) -> io::Result<Self> {
        if !zerocopy {
            return Ok(Self::Copy(block));
        }
        Ok(Self::Sendfile { file: memory_file(&block)?, bytes: block.len() })
    }

    /// Blocks that are sent whole, and may differ: see [`Self::fresh`].
    pub fn whole(block: Vec<u8>) -> Self {
        Self::Whole { block, gone: 0 }
    }

    /// The block that goes next, if it is sent whole and nothing of it has gone.
    #[inline]
    pub fn fresh(&mut self) -> Option<&mut [u8]> {
        match self {
            Self::Whole { block, gone: 0 } => Some(block),
            _ => None,
        }
    }

    /// One call with up to `most` bytes of a block; returns how many the kernel took.
    ///
    /// # Errors
    /// Those of write(2) and sendfile(2).
    pub fn write(&mut self, mut socket: &TcpStream, most: usize) -> io::Result<usize> {
        match self {
            Self::Copy(block) => {
                let end = block.len().min(most);
                socket.write(block.get(..end).unwrap_or_default())
            }
            Self::Whole { block, gone } => {
                let end = block.len().min(gone.saturating_add(most));
                let taken = socket.write(block.get(*gone..end).unwrap_or_default())?;
                *gone += taken;
                if *gone >= block.len() {
                    *gone = 0;
                }
                Ok(taken)
            }
            Self::Sendfile { file, bytes } => send_file(socket, file, (*bytes).min(most)),
        }
    }
}

/// Reads and forgets.
#[derive(Debug)]
pub enum BlockReader {
    /// `read` into the same buffer each time.
    Copy(Vec<u8>),
    /// `recv` with `MSG_TRUNC`: the kernel drops the bytes and copies nothing (tcp(7)).
    Discard {
        /// Most bytes a call.
        bytes: usize,
    },
}

impl BlockReader {
    /// Reads up to `bytes` a call; discards them where asked to and the system can.
    pub fn new(bytes: usize, discard: bool) -> Self {
        if discard && DROPS_UNREAD { Self::Discard { bytes } } else { Self::Copy(vec![0; bytes]) }
    }

    /// As in every record.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Copy(_) => "read",
            Self::Discard { .. } => "discard",
        }
    }

    /// What the last call read, `bytes` of it; nothing of what was dropped.
    pub fn last(&self, bytes: usize) -> &[u8] {
        match self {
            Self::Copy(buffer) => buffer.get(..bytes).unwrap_or_default(),
            Self::Discard { .. } => &[],
        }
    }

    /// One call; 0 is the end of the stream.
    ///
    /// # Errors
    /// Those of recv(2).
    pub fn read(&mut self, mut socket: &TcpStream) -> io::Result<usize> {
        match self {
            Self::Copy(buffer) => socket.read(buffer),
            Self::Discard { bytes } => drop_bytes(socket, *bytes, 0),
        }
    }
}

/// Drops what came and nobody has read, and says how many bytes that was; waits for nothing.
pub fn drop_unread(socket: &TcpStream) -> usize {
    /// More than the kernel keeps of one connection.
    const MOST: usize = 1 << 30;
    drop_bytes(socket, MOST, libc::MSG_DONTWAIT).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn blocks_that_are_whole_follow_each_other_however_much_a_call_takes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tx = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut rx, _) = listener.accept().unwrap();
        let mut writer = BlockWriter::whole((0..100).collect());
        let mut fresh = 0;
        for most in [30, 30, 1_000, 7, 1_000] {
            fresh += usize::from(writer.fresh().is_some());
            writer.write(&tx, most).unwrap();
        }
        drop(tx);
        let mut came = Vec::new();
        rx.read_to_end(&mut came).unwrap();
        assert_eq!(fresh, 2);
        assert!(came.iter().eq((0..100).chain(0..100).collect::<Vec<u8>>().iter()), "{came:?}");
    }

    #[test]
    fn all_pairs_carry_every_byte() {
        for zerocopy in [false, true] {
            for discard in [false, true] {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let tx = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                let (rx, _) = listener.accept().unwrap();
                let thread = std::thread::spawn(move || {
                    let mut writer = BlockWriter::new(vec![7; 10_000], zerocopy).unwrap();
                    let mut left = 1_234_567;
                    while left > 0 {
                        left -= writer.write(&tx, left).unwrap();
                    }
                });
                let mut reader = BlockReader::new(65_536, discard);
                let mut got = 0;
                loop {
                    match reader.read(&rx).unwrap() {
                        0 => break,
                        n => got += n,
                    }
                }
                thread.join().unwrap();
                assert_eq!(got, 1_234_567);
            }
        }
    }
}
