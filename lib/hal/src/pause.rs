//! Short waits without sleeping.

/// Yields the processor to other programs for one turn. Returns at once when no other is ready.
pub fn yield_now() {
    #[cfg(all(target_os = "redox", target_arch = "x86_64"))]
    {
        // SAFETY: the call takes no arguments and touches no memory; the registers are those that
        // a call may destroy (rcx and r11 go by the processor, r9 and xmm by the kernel's leave).
        unsafe {
            core::arch::asm!(
                "syscall",
                inout("rax") syscall::SYS_YIELD => _,
                out("rcx") _,
                out("r9") _,
                out("r11") _,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack)
            );
        }
    }
    #[cfg(not(all(target_os = "redox", target_arch = "x86_64")))]
    core::hint::spin_loop();
}
