//! Waiting a little without sleeping.

/// Gives the processor to other programs for this round. With nobody else ready it returns at once.
pub fn yield_now() {
    #[cfg(all(target_os = "redox", target_arch = "x86_64"))]
    {
        // SAFETY: the call takes no arguments, touches no memory and changes no other registers.
        unsafe {
            core::arch::asm!(
                "syscall",
                inout("rax") syscall::SYS_YIELD => _,
                out("rcx") _,
                out("r11") _,
                options(nostack)
            );
        }
    }
    #[cfg(not(all(target_os = "redox", target_arch = "x86_64")))]
    core::hint::spin_loop();
}
