//! Makes the system refuse what old kernels and strict containers refuse.

use nix::libc;

/// Makes the system refuse a socket option of level `SOL_SOCKET` with EPERM to this thread and to those that it starts
/// from now on. This cannot be undone.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small constants of the kernel")]
pub(crate) fn refuse_socket_option(option: libc::c_int) {
    /// Offsets in `struct seccomp_data`: the number of the call, and its arguments of eight bytes each.
    const NUMBER: u32 = 0;
    const ARGUMENTS: u32 = 16;
    let low_half = if cfg!(target_endian = "big") { 4 } else { 0 };
    let argument = |index: u32| ARGUMENTS + index * 8 + low_half;
    let load = |at: u32| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at);
    // Continues if the value is equal, else skips this many instructions.
    let unless = |value: u32, over: u8| libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: 0,
        jf: over,
        k: value,
    };
    let answer = |value: u32| statement(libc::BPF_RET | libc::BPF_K, value);
    let mut program = [
        load(NUMBER),
        unless(libc::SYS_setsockopt as u32, 5),
        load(argument(1)),
        unless(libc::SOL_SOCKET as u32, 3),
        load(argument(2)),
        unless(option as u32, 1),
        answer(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        answer(libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the calls read `filter` and the program that it points to, both of which live until they return; the
    // lengths are those of the array. They change nothing but what this thread may do.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    };
    assert!(done, "no filter for system calls: {}", std::io::Error::last_os_error());
}

#[expect(clippy::cast_possible_truncation, reason = "small constants of the kernel")]
fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}
