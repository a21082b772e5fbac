//! Messages of one length: 164 words of 32 bits, big-endian, of which two are the header.

/// Bytes of every message since 2.6.0; it was 256 up to 2.5.0.
pub const FRAME_BYTES: usize = 656;
/// Of the header: the kind, and a word that is the core of a request or the error of an answer.
const HEADER_BYTES: usize = 8;

/// What a message is. Of answers it is what was sent: see [`Kind::is_answer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind(pub u32);

impl Kind {
    /// Asks for more words in the server's log.
    pub const DEBUG_ON: Self = Self(1);
    /// Asks for fewer.
    pub const DEBUG_OFF: Self = Self(2);
    /// Answers both.
    pub const DEBUG_OK: Self = Self(3);
    /// Asks how fast the CPU is, and answers that.
    pub const CALIBRATE: Self = Self(5);
    /// A word that some servers want to hear first; it has no answer.
    pub const PASSPHRASE: Self = Self(6);
    /// Asks for a test.
    pub const OMNI: Self = Self(97);
    /// Answers with a port.
    pub const OMNI_RESPONSE: Self = Self(98);
    /// Answers again, with figures.
    pub const OMNI_RESULTS: Self = Self(99);

    /// Whether a server may say this of an answer to [`Kind::OMNI`]. A little-endian netserver turns
    /// the word of its results round once too often, and marks them as the response.
    pub fn is_answer(self) -> bool {
        [self, Self(self.0.swap_bytes())]
            .iter()
            .any(|kind| matches!(*kind, Self::OMNI_RESPONSE | Self::OMNI_RESULTS))
    }
}

/// One message.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame([u8; FRAME_BYTES]);

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Frame({}, {}, …)", self.kind().0, self.head())
    }
}

impl Frame {
    /// With the header's two words, and nothing else.
    pub fn new(kind: Kind, head: u32) -> Self {
        let mut frame = Self([0; FRAME_BYTES]);
        frame.write(0, &kind.0.to_be_bytes());
        frame.write(4, &head.to_be_bytes());
        frame
    }

    /// The first message of `bytes`; `None` while it is not whole.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk::<FRAME_BYTES>().map(|bytes| Self(*bytes))
    }

    /// As it goes over the wire.
    pub fn bytes(&self) -> &[u8; FRAME_BYTES] {
        &self.0
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        Kind(self.word_at(0))
    }

    /// Of a request the core that the server shall run on, of an answer the server's error, or 0.
    pub fn head(&self) -> u32 {
        self.word_at(4)
    }

    /// Data word `n`.
    pub(super) fn word(&self, n: usize) -> u32 {
        self.word_at(HEADER_BYTES + 4 * n)
    }

    /// The same, where less than 1 means that nothing is said.
    pub(super) fn positive(&self, n: usize) -> Option<u32> {
        Some(self.word(n)).filter(|word| (1..=i32::MAX.cast_unsigned()).contains(word))
    }

    /// The same as a number of single precision, where it is one.
    pub(super) fn real(&self, n: usize) -> Option<f32> {
        Some(f32::from_bits(self.word(n))).filter(|value| value.is_finite())
    }

    /// Text from byte `at` on that `most` bytes hold with its NUL, cut where there is none; `None` where it is empty or
    /// no plain name.
    pub(super) fn name(&self, at: usize, most: usize) -> Option<String> {
        let field = self.0.get(at..at.checked_add(most)?.saturating_sub(1))?;
        let name = field.split(|byte| *byte == 0).next().filter(|name| !name.is_empty())?;
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        let name = Some(name).filter(|name| name.iter().all(plain))?;
        std::str::from_utf8(name).ok().map(str::to_owned)
    }

    pub(super) fn set(&mut self, n: usize, word: u32) {
        self.write(HEADER_BYTES + 4 * n, &word.to_be_bytes());
    }

    /// Nothing is said.
    pub(super) fn set_or_default(&mut self, n: usize, word: Option<u32>) {
        self.set(n, word.unwrap_or(u32::MAX));
    }

    pub(super) fn set_real(&mut self, n: usize, value: f32) {
        self.set(n, value.to_bits());
    }

    /// A number of double precision, in two words.
    pub(super) fn set_wide_real(&mut self, n: usize, value: f64) {
        let bits = value.to_bits();
        self.set(n, (bits >> 32) as u32);
        self.set(n + 1, bits as u32);
    }

    /// Text at byte `at`, cut so that `most` bytes hold it and its NUL.
    pub(super) fn set_name(&mut self, at: usize, most: usize, name: &str) {
        let name = name.as_bytes();
        self.write(at, name.get(..most.saturating_sub(1)).unwrap_or(name));
    }

    fn word_at(&self, at: usize) -> u32 {
        let word = self.0.get(at..).and_then(<[u8]>::first_chunk::<4>);
        word.map_or(0, |word| u32::from_be_bytes(*word))
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        if let Some(room) = self.0.get_mut(at..at.saturating_add(bytes.len())) {
            room.copy_from_slice(bytes);
        }
    }
}

#[cfg(test)]
impl Frame {
    /// Words in hexadecimal, the header's first; the rest is 0.
    pub(super) fn of_words(words: &str) -> Self {
        let mut frame = Self([0; FRAME_BYTES]);
        for (n, word) in words.split_whitespace().enumerate() {
            let word = u32::from_str_radix(word, 16).expect("a word in hexadecimal");
            frame.write(4 * n, &word.to_be_bytes());
        }
        frame
    }
}
