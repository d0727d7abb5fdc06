//! The signal, the timer and the system calls of the sampler.

use std::fs::File;
use std::io;
use std::time::Duration;

pub(super) use implementation::{
    IS_SUPPORTED, anonymous_file, copy_stack, install_handler, set_timer, thread_id,
};

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod implementation {
    use std::{mem, ptr};

    use super::{Duration, File, io};
    use crate::cpu_sampler::{Registers, STACK_BYTES_MAX, STORE};

    /// Whether this machine is supported.
    pub(in crate::cpu_sampler) const IS_SUPPORTED: bool = true;

    /// Creates a file in memory that has no name.
    pub(in crate::cpu_sampler) fn anonymous_file() -> io::Result<File> {
        let file = rustix::fs::memfd_create(c"stacks", rustix::fs::MemfdFlags::CLOEXEC)?;
        Ok(file.into())
    }

    /// Installs the signal handler. It is never removed: the default action of a signal that is
    /// still pending would end the process.
    ///
    /// The handler runs on the alternate stack that the standard library gives its threads, so that
    /// a signal does not overflow a nearly full stack.
    pub(in crate::cpu_sampler) fn install_handler() -> io::Result<()> {
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
            on_signal;
        // SAFETY: all fields of the struct are integers, for which zero is valid.
        #[expect(unsafe_code, reason = "a C struct with private fields")]
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        // SAFETY: `action` is valid and its handler is async-signal-safe, see `on_signal`; the old
        // action is not requested. No other part of the process uses SIGPROF.
        #[expect(unsafe_code, reason = "a libc call")]
        let answer = unsafe { libc::sigaction(libc::SIGPROF, &raw const action, ptr::null_mut()) };
        check(answer)
    }

    /// Starts the timer that sends SIGPROF, or stops it if `period` is zero.
    pub(in crate::cpu_sampler) fn set_timer(period: Duration) -> io::Result<()> {
        let interval = libc::timeval {
            tv_sec: libc::time_t::try_from(period.as_secs()).map_err(io::Error::other)?,
            tv_usec: libc::suseconds_t::from(
                i32::try_from(period.subsec_micros()).map_err(io::Error::other)?,
            ),
        };
        let timer = libc::itimerval { it_interval: interval, it_value: interval };
        // SAFETY: the call only reads `timer`; the old value is not requested.
        #[expect(unsafe_code, reason = "a libc call")]
        let answer =
            unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, ptr::null_mut()) };
        check(answer)
    }

    fn check(answer: libc::c_int) -> io::Result<()> {
        if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Handles SIGPROF: records a sample of the interrupted thread.
    ///
    /// It is async-signal-safe: it uses atomics and system calls alone, takes no lock, allocates
    /// nothing, cannot panic, and restores `errno`.
    extern "C" fn on_signal(
        _signal: libc::c_int,
        _info: *mut libc::siginfo_t,
        context: *mut libc::c_void,
    ) {
        // SAFETY: the location of `errno` is valid in every thread.
        #[expect(unsafe_code, reason = "errno is a C variable")]
        let errno = unsafe { *libc::__errno_location() };
        // SAFETY: with SA_SIGINFO, the kernel passes the context of the interrupted thread, which
        // stays valid until the handler returns.
        #[expect(unsafe_code, reason = "the context is a C struct")]
        let registers = unsafe { registers(&*context.cast::<libc::ucontext_t>()) };
        STORE.record(registers);
        // SAFETY: as above.
        #[expect(unsafe_code, reason = "errno is a C variable")]
        unsafe {
            *libc::__errno_location() = errno;
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn registers(context: &libc::ucontext_t) -> Registers {
        let [pc, sp, fp] = [libc::REG_RIP, libc::REG_RSP, libc::REG_RBP].map(|register| {
            // The numbers are constants within the array.
            usize::try_from(register)
                .ok()
                .and_then(|register| context.uc_mcontext.gregs.get(register))
                .map_or(0, |value| value.cast_unsigned())
        });
        Registers { pc, sp, fp, lr: 0 }
    }

    #[cfg(target_arch = "aarch64")]
    fn registers(context: &libc::ucontext_t) -> Registers {
        let machine = &context.uc_mcontext;
        Registers { pc: machine.pc, sp: machine.sp, fp: machine.regs[29], lr: machine.regs[30] }
    }

    /// Copies the stack from `sp` on to a file, and returns the number of bytes. The kernel stops
    /// at the first page that cannot be read. Called by the signal handler.
    pub(in crate::cpu_sampler) fn copy_stack(file: i32, sp: u64, offset: u64) -> u64 {
        let (Ok(sp), Ok(offset)) = (usize::try_from(sp), libc::off_t::try_from(offset)) else {
            return 0;
        };
        let stack = ptr::with_exposed_provenance::<libc::c_void>(sp);
        // SAFETY: the kernel reads the memory, and checks each page: an address that is not
        // readable shortens the copy or is an error. Nothing in this process is written. The
        // descriptor is never closed, so that it is that of the anonymous file.
        #[expect(unsafe_code, reason = "a libc call with an address that the kernel checks")]
        let copied = unsafe { libc::pwrite(file, stack, STACK_BYTES_MAX, offset) };
        u64::try_from(copied).unwrap_or(0)
    }

    /// Returns the id of the current thread in the kernel. Called by the signal handler.
    pub(in crate::cpu_sampler) fn thread_id() -> u64 {
        // SAFETY: the call has no arguments and always succeeds.
        #[expect(unsafe_code, reason = "a libc call")]
        let id = unsafe { libc::syscall(libc::SYS_gettid) };
        u64::try_from(id).unwrap_or(0)
    }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod implementation {
    use super::{Duration, File, io};

    pub(in crate::cpu_sampler) const IS_SUPPORTED: bool = false;

    pub(in crate::cpu_sampler) fn anonymous_file() -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(in crate::cpu_sampler) fn install_handler() -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(in crate::cpu_sampler) fn set_timer(_period: Duration) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(in crate::cpu_sampler) fn copy_stack(_file: i32, _sp: u64, _offset: u64) -> u64 {
        0
    }

    pub(in crate::cpu_sampler) fn thread_id() -> u64 {
        0
    }
}
