//! Decides whether KVM is used. A device that opens proves nothing: on some machines the first SSE
//! instruction of a guest fails. So ACCEL=auto boots a guest of a few instructions and looks.

use crate::base::report::{Context, Result};
use crate::base::settings::Accel;
use crate::base::workspace::{self, Place};
use std::fmt;
use std::fs::OpenOptions;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Probes once and remembers the answer: until `target/run` is removed, the machine has booted
/// again or the user's access to KVM has changed. An answer that did not come in time may come the
/// next time, so it counts for this process only.
fn auto() -> Result<bool> {
    static LATE: AtomicBool = AtomicBool::new(false);
    if LATE.load(Ordering::Relaxed) {
        return Ok(false);
    }
    let record = workspace::make(Place::Run)?.join("kvm-works");
    let key = key();
    if let Some(works) = std::fs::read_to_string(&record)
        .ok()
        .and_then(|text| recorded(&text, &key))
    {
        return Ok(works);
    }
    let answer = probe("kvm", PROBE_LIMIT)?;
    let words = match &answer {
        Ok(()) => "works and is used".to_string(),
        Err(Trouble::Late) => format!("does not answer ({}): emulating", Trouble::Late),
        Err(Trouble::Ended(_)) => "does not work: emulating".to_string(),
    };
    eprintln!("    KVM {words}");
    let works = answer.is_ok();
    if let Err(Trouble::Late) = answer {
        LATE.store(true, Ordering::Relaxed);
    } else {
        std::fs::write(&record, line(&key, works))
            .context(|| format!("write {}", record.display()))?;
    }
    Ok(works)
}

/// What the answer depends on: this boot of the machine, and whether the device can be used.
fn key() -> String {
    // Without /proc, all boots are taken for the same one.
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let device = OpenOptions::new().read(true).write(true).open("/dev/kvm");
    let access = device.map_or("no-device", |_| "device");
    format!("{} {access}", boot.trim())
}

/// The text of a record.
fn line(key: &str, works: bool) -> String {
    format!("{key} {}", if works { "yes" } else { "no" })
}

/// The answer in a record, if it was given under the same conditions.
fn recorded(text: &str, key: &str) -> Option<bool> {
    [true, false]
        .into_iter()
        .find(|works| text.trim() == line(key, *works))
}

/// Why the tiny guest did not come to its end.
#[derive(Debug, PartialEq, Eq)]
enum Trouble {
    /// It did not end in time.
    Late,
    /// QEMU ended otherwise: how.
    Ended(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late => f.write_str("did not end in time"),
            Self::Ended(how) => write!(f, "ended QEMU with {how}"),
        }
    }
}

/// Whether the tiny guest comes to its end with this accelerator, in this time; else what happened.
fn probe(accelerator: &str, limit: Duration) -> Result<std::result::Result<(), Trouble>> {
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
                _ => Err(Trouble::Ended(format!("{status}{}", words(&mut child)))),
            };
        }
        if start.elapsed() > limit {
            let _ = child.kill();
            let _ = child.wait();
            break Err(Trouble::Late);
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

    #[test]
    fn an_answer_counts_only_under_its_conditions() {
        for works in [true, false] {
            let text = line("boot-1 device", works);
            assert_eq!(recorded(&text, "boot-1 device"), Some(works));
            assert_eq!(recorded(&text, "boot-2 device"), None);
            assert_eq!(recorded(&text, "boot-1 no-device"), None);
        }
        // As earlier versions wrote it.
        assert_eq!(recorded("no", &key()), None);
        assert_eq!(recorded(&line(&key(), true), &key()), Some(true));
    }

    /// The probe itself must work where a guest certainly does, or it would always say no.
    #[test]
    fn the_probe_comes_to_its_end_under_emulation() {
        // The machine that tests may be busy with other things, too.
        let limit = Duration::from_secs(60);
        if crate::base::packages::QEMU.present() {
            assert_eq!(probe("tcg", limit).unwrap(), Ok(()));
            let why = probe("no-such-accelerator", limit).unwrap().unwrap_err();
            assert!(why.to_string().contains("no-such-accelerator"), "{why}");
            // Nothing comes to its end in no time.
            assert_eq!(probe("tcg", Duration::ZERO).unwrap(), Err(Trouble::Late));
        }
    }
}
