//! Bytes that nobody can foresee.

/// From the kernel.
#[allow(clippy::expect_used, reason = "nothing here may go on with bytes that somebody could know")]
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Fails only where the kernel has no random numbers; a test must not begin with known ones.
    getrandom::fill(&mut bytes).expect("the kernel gives random numbers");
    bytes
}
