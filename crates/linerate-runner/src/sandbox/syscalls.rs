//! seccomp: the system calls that tests need, and no others.
//!
//! What is not in the lists fails with `ENOSYS`, as on a kernel that does not have the call: libraries fall
//! back from that (the C library from clone3 to clone, say), and the server goes on.

use std::collections::BTreeMap;

use linerate_model::served::Restriction;
use nix::libc::{self, c_long};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use super::Beside;

/// Whom a filter restricts.
pub(super) enum Threads {
    /// Those of this process that run, and what they start.
    All,
    /// The calling one, and what it starts.
    #[cfg(test)]
    This,
}

/// Leaves no more than the calls of the lists below; to who starts programs, which need what nobody can list, all
/// but some.
pub(super) fn restrict(threads: Threads, beside: Beside) -> Restriction {
    let program = match beside {
        Beside::Nothing | Beside::Tests => program(),
        Beside::Programs => without_kernels_depths(),
    };
    let program = match program {
        Ok(program) => program,
        Err(e) => return Restriction::off(e.to_string()),
    };
    let applied = match threads {
        Threads::All => seccompiler::apply_filter_all_threads(&program),
        #[cfg(test)]
        Threads::This => seccompiler::apply_filter(&program),
    };
    match applied {
        Ok(()) if beside == Beside::Programs => {
            Restriction::in_part("programs of controllers need more than tests")
        }
        Ok(()) => Restriction::on(),
        Err(e) => Restriction::off(e.to_string()),
    }
}

fn program() -> Result<BpfProgram, BackendError> {
    let mut rules = BTreeMap::new();
    for call in [MEMORY, THREADS, FILES, EVENTS, SOCKETS, TIME, PROCESS, OLDER].concat() {
        rules.insert(call, vec![]);
    }
    rules.extend(conditional()?);
    let refused = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let target = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, refused, SeccompAction::Allow, target)?.try_into()
}

/// Takes what a program without rights seldom needs, and whoever wants the kernel's faults does.
fn without_kernels_depths() -> Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> =
        DEPTHS.iter().map(|call| (*call, vec![])).collect();
    let new = NAMESPACES.iter().map(|kind| one(flags(0, *kind, *kind)));
    rules.insert(libc::SYS_clone, new.collect::<Result<_, _>>()?);
    let refused = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let target = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, SeccompAction::Allow, refused, target)?.try_into()
}

/// Other processes' memory, keys, programs within the kernel, its queues of calls, namespaces. The C library falls
/// back from clone3, whose flags no filter sees, to clone.
const DEPTHS: &[c_long] = &[
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_clone3,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_keyctl,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

const NAMESPACES: &[i32] = &[
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

const MEMORY: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_memfd_create,
    libc::SYS_mremap,
    libc::SYS_munmap,
];

const THREADS: &[c_long] = &[
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_gettid,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sigaltstack,
];

/// Landlock says which files.
const FILES: &[c_long] = &[
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_faccessat,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_lseek,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    // A log that is rotated.
    libc::SYS_renameat2,
    libc::SYS_statx,
    libc::SYS_write,
    libc::SYS_writev,
];

const EVENTS: &[c_long] = &[
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
];

const SOCKETS: &[c_long] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_listen,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendfile,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
];

const TIME: &[c_long] = &[
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
];

const PROCESS: &[c_long] = &[
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_getuid,
    libc::SYS_sysinfo,
    libc::SYS_uname,
];

/// Names of before 2008, which C libraries go on to use where a kernel has them.
#[cfg(target_arch = "x86_64")]
const OLDER: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_stat,
    libc::SYS_time,
];
/// renameat, which C libraries rename by here and `libc` has no name for (asm-generic/unistd.h).
#[cfg(target_arch = "aarch64")]
const OLDER: &[c_long] = &[38];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const OLDER: &[c_long] = &[];

/// Calls that are needed with some arguments only.
fn conditional() -> Result<Vec<(c_long, Vec<SeccompRule>)>, BackendError> {
    let threads = flags(0, libc::CLONE_THREAD, libc::CLONE_THREAD);
    let not_executable = |argument| flags(argument, libc::PROT_EXEC, 0);
    let reads_limits = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0);
    let socket = |domain, kind| SeccompRule::new(vec![is(0, domain)?, flags(1, 0xf, kind)?]);
    // The C library asks for an interface's number by a datagram socket of this host. What listens on a
    // host for orders (D-Bus, Docker) has streams.
    let mut sockets = vec![one(is(0, libc::AF_NETLINK))?, socket(libc::AF_UNIX, libc::SOCK_DGRAM)?];
    for domain in [libc::AF_INET, libc::AF_INET6] {
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
            sockets.push(socket(domain, kind)?);
        }
    }
    let own = SeccompCondition::new(
        0,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::Eq,
        u64::from(std::process::id()),
    );
    let orders = IOCTLS.iter().map(|order| {
        let same = u64::from(*order);
        one(SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, same))
    });
    Ok(vec![
        (libc::SYS_clone, vec![one(threads)?]),
        // abort(3), and so the end by a panic within a panic; of no other process.
        (libc::SYS_tgkill, vec![one(own)?]),
        (libc::SYS_mmap, vec![one(not_executable(2))?]),
        (libc::SYS_mprotect, vec![one(not_executable(2))?]),
        (libc::SYS_prlimit64, vec![one(reads_limits)?]),
        (
            libc::SYS_prctl,
            vec![one(is(0, libc::PR_SET_NAME))?, one(is(0, libc::PR_SET_TIMERSLACK))?],
        ),
        (libc::SYS_ioctl, orders.collect::<Result<_, _>>()?),
        (libc::SYS_socket, sockets),
        (libc::SYS_socketpair, vec![one(is(0, libc::AF_UNIX))?]),
    ])
}

/// What is asked of sockets and outputs: whether calls wait, what waits, an interface's number and name, whether this
/// is a terminal and how wide.
const IOCTLS: &[u32] = &[
    libc::FIONBIO as u32,
    libc::FIONREAD as u32,
    libc::FIOCLEX as u32,
    libc::TIOCOUTQ as u32,
    libc::SIOCGIFINDEX as u32,
    libc::SIOCGIFNAME as u32,
    libc::TCGETS as u32,
    libc::TIOCGWINSZ as u32,
    // Of counters that were opened before: on and off, `PERF_EVENT_IOC_ENABLE` and `_DISABLE` of linux/perf_event.h.
    0x2400,
    0x2401,
];

fn one(condition: Result<SeccompCondition, BackendError>) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![condition?])
}

/// An argument that is this constant of the C library, none of which is negative.
fn is(argument: u8, value: i32) -> Result<SeccompCondition, BackendError> {
    let value = u64::from(value.unsigned_abs());
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

/// An argument whose bits under `mask` are these.
fn flags(argument: u8, mask: i32, value: i32) -> Result<SeccompCondition, BackendError> {
    let (mask, value) = (u64::from(mask.unsigned_abs()), u64::from(value.unsigned_abs()));
    let masked = SeccompCmpOp::MaskedEq(mask);
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, masked, value)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use nix::errno::Errno;
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use nix::sys::prctl::{set_pdeathsig, set_timerslack};
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::{Pid, chroot};

    use super::*;

    #[test]
    fn of_some_calls_the_arguments_decide() {
        let within = std::thread::spawn(|| {
            let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
            assert_eq!(restrict(Threads::This, Beside::Nothing), Restriction::on());
            // Left: to read a limit, to be exact with timers, sockets and memory of this process alone.
            assert_eq!(getrlimit(Resource::RLIMIT_NOFILE), Ok((soft, hard)));
            assert_eq!(set_timerslack(1), Ok(()));
            assert!(UnixStream::pair().is_ok() && UnixDatagram::unbound().is_ok());
            assert!(memfd_create(c"block", MFdFlags::empty()).is_ok());
            // Taken: to set one, to be told of other processes' ends, to end them, to see other files.
            let refused = [
                setrlimit(Resource::RLIMIT_NOFILE, soft, hard),
                set_pdeathsig(Signal::SIGKILL),
                kill(Pid::this(), None),
                // Not setuid(2), which the C library makes all threads call, or none.
                chroot("/"),
            ];
            assert_eq!(refused, [Err(Errno::ENOSYS); 4]);
            let modes = std::fs::metadata("/").unwrap().permissions();
            let refused = std::fs::set_permissions("/", modes).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::ENOSYS));
        });
        within.join().expect("it is refused things, and goes on");
        // Another thread of the process keeps all.
        assert_eq!(kill(Pid::this(), None), Ok(()));
    }
}
