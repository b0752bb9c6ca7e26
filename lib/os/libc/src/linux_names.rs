//! Files that programs know by their Linux names, and the files here that replace them.

use alloc::borrow::Cow;
use alloc::format;

/// Linux's names of files, and the names here.
const FILES: [(&str, &str); 8] = [
    ("/dev/scif", "/scheme/scif/endpoint"),
    ("/dev/mic/scif", "/scheme/scif/endpoint"),
    ("/dev/null", "/scheme/null"),
    ("/dev/zero", "/scheme/zero"),
    ("/dev/random", "/scheme/rand"),
    ("/dev/urandom", "/scheme/rand"),
    ("/dev/tty", "/scheme/console"),
    ("/proc/stat", "/scheme/sys/stat"),
];

/// Linux's names of directories, and the names here.
const DIRECTORIES: [(&str, &str); 6] = [
    ("/bin", "/scheme/initfs/bin"),
    ("/usr/bin", "/scheme/initfs/bin"),
    ("/dev/infiniband", "/scheme/infiniband"),
    (
        "/sys/class/infiniband",
        "/scheme/infiniband/class/infiniband",
    ),
    (
        "/sys/class/infiniband_mad",
        "/scheme/infiniband/class/infiniband_mad",
    ),
    (
        "/sys/class/infiniband_verbs",
        "/scheme/infiniband/class/infiniband_verbs",
    ),
];

/// Replaces a Linux name of a file by the path here; other paths stay unchanged.
pub fn here(path: &str) -> Cow<'_, str> {
    if let Some((_, here)) = FILES.iter().find(|(there, _)| *there == path) {
        return Cow::Borrowed(here);
    }
    for (there, here) in DIRECTORIES {
        match path.strip_prefix(there) {
            Some("") => return Cow::Borrowed(here),
            Some(rest) if rest.starts_with('/') => return Cow::Owned(format!("{here}{rest}")),
            _ => {}
        }
    }
    Cow::Borrowed(path)
}

/// The text of `/proc/cpuinfo` for so many processors with this model name and this rate of their
/// time stamp counters in megahertz. It has only the lines that programs look for.
pub fn cpuinfo(count: usize, model: &str, megahertz: f64) -> alloc::string::String {
    let lines = |number| {
        format!("processor\t: {number}\nmodel name\t: {model}\ncpu MHz\t\t: {megahertz:.3}\n\n")
    };
    (0..count).map(lines).collect()
}

/// The processor's name for itself.
#[cfg(target_os = "redox")]
fn model() -> alloc::string::String {
    use core::arch::x86_64::__cpuid;

    /// The first extended leaf, which returns the number of the last one; then the three leaves
    /// with the name.
    const HIGHEST_EXTENDED: u32 = 0x8000_0000;
    const NAME: core::ops::RangeInclusive<u32> = 0x8000_0002..=0x8000_0004;
    if __cpuid(HIGHEST_EXTENDED).eax < *NAME.end() {
        return "unknown".into();
    }
    let leaves = NAME.map(__cpuid);
    let words = leaves.flat_map(|leaf| [leaf.eax, leaf.ebx, leaf.ecx, leaf.edx]);
    let bytes = words.flat_map(u32::to_le_bytes);
    let name: alloc::string::String = bytes
        .filter(|byte| byte.is_ascii_graphic() || *byte == b' ')
        .map(char::from)
        .collect();
    name.trim().into()
}

/// Opens a file whose text this library makes; `None` for other files. `processors` counts those of
/// the machine.
#[cfg(target_os = "redox")]
pub fn open_own(path: &str, processors: impl Fn() -> usize) -> Option<runtime::Result<usize>> {
    match path {
        "/proc/cpuinfo" => Some(open_text(&own_cpuinfo(processors()))),
        // For Rust's standard library. The kernel itself knows only the program's name, not its
        // path.
        "/scheme/sys/exe" => runtime::state::program().map(|path| open_text(&path)),
        _ => None,
    }
}

/// The text of `/proc/cpuinfo` on this machine.
#[cfg(target_os = "redox")]
fn own_cpuinfo(processors: usize) -> alloc::string::String {
    use hal::clock::Rate;
    use runtime::time::Instant;

    let rate = Rate::measure(|| Instant::now().as_nanos());
    // The ticks of a second; a million of them are a megahertz.
    let megahertz = rate.map_or(0.0, |rate| rate.ticks(1_000_000_000) as f64 / 1e6);
    cpuinfo(processors, &model(), megahertz)
}

/// Opens a pipe that contains a text.
#[cfg(target_os = "redox")]
fn open_text(text: &str) -> runtime::Result<usize> {
    use runtime::{fd, path};

    let reader = path::open("/scheme/pipe", 0)?;
    let written = fd::dup(reader, b"write").and_then(|writer| {
        let written = fd::write(writer, text.as_bytes());
        fd::close(writer).and(written)
    });
    match written {
        Ok(_) => Ok(reader),
        Err(error) => {
            // The reader is of no use alone.
            let _ = fd::close(reader);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{cpuinfo, here};

    #[test]
    fn names_of_linux_have_places_here() {
        for (there, expected) in [
            ("/dev/scif", "/scheme/scif/endpoint"),
            ("/dev/mic/scif", "/scheme/scif/endpoint"),
            ("/dev/urandom", "/scheme/rand"),
            ("/proc/stat", "/scheme/sys/stat"),
            ("/bin/sh", "/scheme/initfs/bin/sh"),
            ("/usr/bin/env", "/scheme/initfs/bin/env"),
            ("/dev/infiniband", "/scheme/infiniband"),
            ("/dev/infiniband/uverbs0", "/scheme/infiniband/uverbs0"),
            (
                "/sys/class/infiniband_verbs/uverbs0/ibdev",
                "/scheme/infiniband/class/infiniband_verbs/uverbs0/ibdev",
            ),
            (
                "/sys/class/infiniband_mad/umad0/port",
                "/scheme/infiniband/class/infiniband_mad/umad0/port",
            ),
            ("/dev/infiniband/umad0", "/scheme/infiniband/umad0"),
            (
                "/sys/class/infiniband/scif0/ports/1/lid",
                "/scheme/infiniband/class/infiniband/scif0/ports/1/lid",
            ),
        ] {
            assert_eq!(here(there), expected);
        }
        for same in [
            "/binary",
            "/usr/binary",
            "/dev/infiniband0",
            "/sys/class/infiniband_madam",
            "/dev/scif0",
            "",
            "file",
        ] {
            assert_eq!(here(same), same);
        }
    }

    #[test]
    fn measuring_programs_find_their_line() {
        let text = cpuinfo(2, "A processor", 2399.99951);
        assert_eq!(text.matches("\nmodel name\t: A processor\n").count(), 2);
        assert!(text.starts_with("processor\t: 0\n") && text.contains("\n\nprocessor\t: 1\n"));
        let line = text.lines().find(|line| line.starts_with("cpu MHz"));
        let number = line
            .and_then(|line| line.split_once(": "))
            .map(|(_, number)| number);
        assert_eq!(number, Some("2400.000"));
    }
}
