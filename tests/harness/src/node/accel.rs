//! Decides whether KVM is used. A device that opens proves nothing: on some machines the first SSE
//! instruction of a guest fails. So ACCEL=auto boots a guest of a few instructions and looks.

use crate::base::report::{Context, Result};
use crate::base::settings::Accel;
use crate::base::workspace::{self, Place};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A boot sector: enables SSE, executes one SSE2 instruction, then ends QEMU with status 33.
const PROBE: &[u8] = &[
    0xfa, // cli
    0x0f, 0x20, 0xc0, // mov eax, cr0
    0x66, 0x83, 0xe0, 0xfb, // and eax, ~4 (no emulation of the FPU)
    0x66, 0x83, 0xc8, 0x02, // or eax, 2 (monitor coprocessor)
    0x0f, 0x22, 0xc0, // mov cr0, eax
    0x0f, 0x20, 0xe0, // mov eax, cr4
    0x66, 0x0d, 0x00, 0x06, 0x00, 0x00, // or eax, OSFXSR | OSXMMEXCPT
    0x0f, 0x22, 0xe0, // mov cr4, eax
    0x66, 0x0f, 0xef, 0xc0, // pxor xmm0, xmm0
    0xb0, 0x10, // mov al, 0x10
    0xe6, 0xf4, // out 0xf4, al
    0xf4, // hlt
    0xeb, 0xfd, // jmp back to hlt
];
const PROBE_STATUS: i32 = 0x10 << 1 | 1;
/// How long a user waits for an answer: where KVM does not work, the guest may never end.
const PROBE_LIMIT: Duration = Duration::from_secs(10);

/// Whether nodes run under KVM with this setting.
pub fn use_kvm(accel: Accel) -> Result<bool> {
    match accel {
        Accel::Tcg => Ok(false),
        Accel::Kvm => match probe("kvm", PROBE_LIMIT)? {
            Ok(()) => Ok(true),
            // Nodes would not get far either, and nobody would say why.
            Err(why) => Err(format!(
                "ACCEL=kvm: KVM does not work on this machine: a guest of a few instructions \
                 {why}; use ACCEL=tcg, or auto"
            )
            .into()),
        },
        Accel::Auto => auto(),
    }
}

/// Probes once and remembers the answer until `target/run` is removed.
fn auto() -> Result<bool> {
    let record = workspace::make(Place::Run)?.join("kvm-works");
    if let Ok(answer) = std::fs::read_to_string(&record) {
        return Ok(answer.trim() == "yes");
    }
    let works = probe("kvm", PROBE_LIMIT)?.is_ok();
    let answer = if works { "yes" } else { "no" };
    eprintln!(
        "    KVM {}",
        if works {
            "works and is used"
        } else {
            "does not work: emulating"
        }
    );
    std::fs::write(&record, answer).context(|| format!("write {}", record.display()))?;
    Ok(works)
}

/// Whether the tiny guest comes to its end with this accelerator, in this time; else what happened.
fn probe(accelerator: &str, limit: Duration) -> Result<std::result::Result<(), String>> {
    let mut sector = PROBE.to_vec();
    sector.resize(510, 0);
    sector.extend_from_slice(&[0x55, 0xaa]);
    let path = workspace::make(Place::Run)?.join(format!("probe-{}", std::process::id()));
    std::fs::write(&path, sector).context(|| format!("write {}", path.display()))?;
    let mut child = Command::new("qemu-system-x86_64")
        .args([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-accel",
            accelerator,
        ])
        .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=1", "-drive"])
        .arg(format!(
            "if=ide,format=raw,snapshot=on,file={}",
            path.display()
        ))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context(|| "start qemu-system-x86_64".to_string())?;
    let start = Instant::now();
    let result = loop {
        if let Some(status) = child
            .try_wait()
            .context(|| "wait for the probe".to_string())?
        {
            break match status.code() {
                Some(PROBE_STATUS) => Ok(()),
                _ => Err(format!("ended QEMU with {status}{}", words(&mut child))),
            };
        }
        if start.elapsed() > limit {
            let _ = child.kill();
            let _ = child.wait();
            break Err(format!("did not end within {} s", limit.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let _ = std::fs::remove_file(&path);
    Ok(result)
}

/// The output of a QEMU that has ended, with a colon in front, if there is any.
fn words(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(mut output) = child.stderr.take() {
        // An output that cannot be read says nothing.
        let _ = output.read_to_string(&mut text);
    }
    match text.trim() {
        "" => String::new(),
        text => format!(": {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The probe itself must work where a guest certainly does, or it would always say no.
    #[test]
    fn the_probe_comes_to_its_end_under_emulation() {
        // The machine that tests may be busy with other things, too.
        let limit = Duration::from_secs(60);
        if crate::base::packages::QEMU.present() {
            assert_eq!(probe("tcg", limit).unwrap(), Ok(()));
            let why = probe("no-such-accelerator", limit).unwrap().unwrap_err();
            assert!(why.contains("no-such-accelerator"), "{why}");
            // Nothing comes to its end in no time.
            let why = probe("tcg", Duration::ZERO).unwrap().unwrap_err();
            assert!(why.contains("did not end"), "{why}");
        }
    }
}
