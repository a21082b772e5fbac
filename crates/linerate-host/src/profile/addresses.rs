//! What the kernel says of one stack.

/// Task and addresses of a stack, the innermost first, as the kernel gives them: marks between them say whose they are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Raw {
    /// Process, and thread; both 0 are the idle task.
    pub pid: u32,
    pub tid: u32,
    pub chain: Box<[u64]>,
}

/// Whose the addresses after a mark are: `enum perf_callchain_context`, include/uapi/linux/perf_event.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Kernel,
    User,
    /// A guest's, or a hypervisor's: nothing is known of it.
    Elsewhere,
}

/// The least of the numbers that are marks and no addresses (`PERF_CONTEXT_MAX`).
const LEAST_MARK: u64 = 0u64.wrapping_sub(4_095);
const KERNEL: u64 = 0u64.wrapping_sub(128);
const USER: u64 = 0u64.wrapping_sub(512);

impl Raw {
    /// Each address with its mode, the innermost first.
    pub fn addresses(&self) -> impl Iterator<Item = (Mode, u64)> + '_ {
        let mut mode = Mode::Kernel;
        self.chain.iter().filter_map(move |&address| {
            if address < LEAST_MARK {
                return Some((mode, address));
            }
            mode = match address {
                KERNEL => Mode::Kernel,
                USER => Mode::User,
                _ => Mode::Elsewhere,
            };
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_say_whose_an_address_is() {
        let chain = [KERNEL, 0xffff_ffff_8100_0010, USER, 0x5555, 0x6666, u64::MAX - 2_047, 7];
        let raw = Raw { pid: 1, tid: 2, chain: chain.into() };
        let read: Vec<_> = raw.addresses().collect();
        let (kernel, user) = (Mode::Kernel, Mode::User);
        assert_eq!(
            read,
            [(kernel, 0xffff_ffff_8100_0010), (user, 0x5555), (user, 0x6666), (Mode::Elsewhere, 7)]
        );
        let nothing = Raw { pid: 0, tid: 0, chain: Box::new([]) };
        assert_eq!(nothing.addresses().count(), 0);
    }
}
