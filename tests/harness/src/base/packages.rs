//! Programs this tool calls that come from Debian packages, and how to get the missing ones.

use crate::base::report::{Context, Failure, Result, TimedStep};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A Debian package and the sign that it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Package {
    name: &'static str,
    /// A program to be found in PATH, or an absolute path.
    sign: &'static str,
    why: &'static str,
}

/// Runs the nodes.
pub const QEMU: Package = Package {
    name: "qemu-system-x86",
    sign: "qemu-system-x86_64",
    why: "runs the nodes",
};
/// The programs that every run of nodes calls.
pub const NODES: &[Package] = &[
    QEMU,
    Package {
        name: "util-linux",
        sign: "taskset",
        why: "binds each node to a processor core",
    },
    Package {
        name: "util-linux",
        sign: "setpriv",
        why: "ends the nodes when their launcher ends",
    },
];
/// Links kernel and programs.
pub const LINKER: Package = Package {
    name: "lld",
    sign: "ld.lld",
    why: "links the kernel and the programs of the image",
};
/// Makes the C libraries of the SDK.
pub const ARCHIVER: Package = Package {
    name: "binutils",
    sign: "ar",
    why: "puts the C libraries of the SDK together",
};
/// Compiles the library of C++ in the SDK, the engine of the fuzz targets, and programs of the
/// tests.
pub const CXX_COMPILER: Package = Package {
    name: "g++",
    sign: "g++",
    why: "compiles the library of C++, the C++ programs of the tests and libFuzzer",
};
/// Compiles the C programs of the tests.
pub const C_COMPILER: Package = Package {
    name: "gcc",
    sign: "gcc",
    why: "compiles the C programs of the tests",
};
/// Compiles the C and C++ programs of the tests once more.
pub const CLANG: Package = Package {
    name: "clang",
    sign: "clang",
    why: "compiles the C and C++ programs of the tests once more",
};
/// The UEFI firmware of nodes that boot the ISO image with it.
pub const UEFI: Package = Package {
    name: "ovmf",
    sign: UEFI_FIRMWARE,
    why: "the UEFI firmware that boots the ISO image in QEMU",
};
/// Where the package `UEFI` puts the firmware, in one piece.
pub const UEFI_FIRMWARE: &str = "/usr/share/ovmf/OVMF.fd";
/// The programs that the ISO image needs.
pub const ISO: &[Package] = &[
    Package {
        name: "grub-common",
        sign: "grub-mkrescue",
        why: "makes the bootable ISO image",
    },
    Package {
        name: "grub-pc-bin",
        sign: "/usr/lib/grub/i386-pc/multiboot2.mod",
        why: "the boot loader in the ISO image (BIOS)",
    },
    Package {
        name: "grub-efi-amd64-bin",
        sign: "/usr/lib/grub/x86_64-efi/multiboot2.mod",
        why: "the boot loader in the ISO image (UEFI)",
    },
    Package {
        name: "xorriso",
        sign: "xorriso",
        why: "writes the ISO file system",
    },
    Package {
        name: "mtools",
        sign: "mformat",
        why: "writes the boot partition of the ISO image",
    },
];
/// The toolchain with library source that Debian packages.
pub const TOOLCHAIN: &[Package] = &[
    Package {
        name: "rustc-web",
        sign: "/usr/bin/rustc",
        why: "compiles for the image's targets",
    },
    Package {
        name: "cargo-web",
        sign: "/usr/bin/cargo",
        why: "builds for the image's targets",
    },
    Package {
        name: "rust-web-src",
        sign: "/usr/lib/rustlib/src/rust/library/core/src/lib.rs",
        why: "the library source those targets are built from",
    },
];
/// The linter that belongs to `TOOLCHAIN`.
pub const LINTER: Package = Package {
    name: "rust-web-clippy",
    sign: "/usr/bin/cargo-clippy",
    why: "lints the kernel and the programs of the image",
};
/// The formatter, for a cargo that did not come from rustup.
pub const FORMATTER: Package = Package {
    name: "rustfmt-web",
    sign: "/usr/bin/cargo-fmt",
    why: "checks the format of the sources",
};

/// The programs that building, running and testing call; a toolchain has its own search
/// (`toolchain`), and cargo's components theirs (`test::ensure_components`).
pub fn all() -> Vec<Package> {
    let mut all = vec![UEFI, LINKER, ARCHIVER];
    all.extend([C_COMPILER, CXX_COMPILER, CLANG]);
    all.extend(NODES);
    all.extend(ISO);
    all
}

impl Package {
    /// Whether it is installed.
    pub fn present(&self) -> bool {
        if self.sign.starts_with('/') {
            Path::new(self.sign).exists()
        } else {
            self.path().is_some()
        }
    }

    /// Where its program lies.
    fn path(&self) -> Option<PathBuf> {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .map(|dir| dir.join(self.sign))
            .find(|file| file.is_file())
    }
}

/// Installs those packages that are missing, saying what and why. Without the right to do so it
/// fails with the command that does it.
pub fn ensure(packages: &[Package]) -> Result<()> {
    let missing: Vec<_> = packages
        .iter()
        .filter(|package| !package.present())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    for package in &missing {
        eprintln!("    missing: {:16} {}", package.name, package.why);
    }
    let mut names: Vec<_> = missing.iter().map(|package| package.name).collect();
    names.dedup();
    let install = "apt-get install --yes --no-install-recommends";
    if !is_root() {
        return Err(format!(
            "packages are missing and only root may install them; run this, then try again:\n\n    \
             sudo apt-get update && sudo {install} {}\n",
            names.join(" ")
        )
        .into());
    }
    let step = TimedStep::start(format!("installing {}", names.join(" ")));
    apt(&["update"])?;
    let mut words: Vec<_> = install.split(' ').skip(1).collect();
    words.extend(&names);
    apt(&words)?;
    for package in missing {
        if !package.present() {
            return Err(format!(
                "the package {} is installed but has no {}: this release of the distribution \
                 differs from Debian 12; install an equivalent by hand",
                package.name, package.sign
            )
            .into());
        }
    }
    step.done();
    Ok(())
}

/// The package whose name begins so among those that another one depends on.
pub fn dependency(package: &str, prefix: &str) -> Result<String> {
    let find = || -> Result<Option<String>> {
        let output = Command::new("apt-cache")
            .args(["depends", "--important", package])
            .output()
            .context(|| "start apt-cache: this needs Debian's packages".to_string())?;
        Ok(first_dependency(
            &String::from_utf8_lossy(&output.stdout),
            prefix,
        ))
    };
    if let Some(found) = find()? {
        return Ok(found);
    }
    // The list of packages may be missing or old.
    if is_root() {
        apt(&["update"])?;
    }
    find()?.ok_or_else(|| {
        format!("no package {package} is known here: run `sudo apt-get update`, then try again")
            .into()
    })
}

/// The name in the first line `Depends: <name>` that begins with the prefix.
fn first_dependency(text: &str, prefix: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|name| name.starts_with(prefix))
        .map(str::to_string)
}

/// Whether packages can be downloaded here: only on Debian and its kin.
pub fn can_download() -> bool {
    let tool = Package {
        name: "apt",
        sign: "apt-get",
        why: "downloads packages",
    };
    tool.present()
}

/// Downloads a package into a directory without installing it; gives its file. Anybody may.
pub fn download(package: &str, directory: &Path) -> Result<PathBuf> {
    let get = || {
        Command::new("apt-get")
            .args(["--quiet", "--quiet", "download", package])
            .current_dir(directory)
            .stdin(Stdio::null())
            .output()
            .context(|| "start apt-get: this needs Debian's packages".to_string())
    };
    let mut output = get()?;
    // A list of packages that is older than the archive names files that are gone.
    if !output.status.success() && is_root() {
        apt(&["update"])?;
        output = get()?;
    }
    if !output.status.success() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        return Err(format!(
            "'apt-get download {package}' failed; its own words are above. Run \
             `sudo apt-get update`, then try again"
        )
        .into());
    }
    let start = format!("{package}_");
    let items = std::fs::read_dir(directory).context(|| format!("read {}", directory.display()))?;
    let file = items.flatten().map(|item| item.path()).find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&start) && name.ends_with(".deb")
    });
    file.ok_or_else(|| format!("apt-get downloaded {package}, but its file is not there").into())
}

/// Unpacks a package's files into a directory.
pub fn unpack(file: &Path, directory: &Path) -> Result<()> {
    let status = Command::new("dpkg-deb")
        .arg("--extract")
        .args([file, directory])
        .status()
        .context(|| "start dpkg-deb".to_string())?;
    if status.success() {
        return Ok(());
    }
    Err(format!(
        "dpkg-deb cannot unpack {}: remove it, then try again",
        file.display()
    )
    .into())
}

/// Unpacks some directories of a package, named as in the package, into a directory.
pub fn unpack_part(file: &Path, parts: &[String], directory: &Path) -> Result<()> {
    let mut archive = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(file)
        .stdout(Stdio::piped())
        .spawn()
        .context(|| "start dpkg-deb".to_string())?;
    let tar = Command::new("tar")
        .args(["--extract", "--directory"])
        .arg(directory)
        .args(parts)
        .stdin(archive.stdout.take().map_or_else(Stdio::null, Stdio::from))
        .status();
    let status = archive.wait().context(|| "wait for dpkg-deb".to_string())?;
    if status.success() && tar.context(|| "start tar".to_string())?.success() {
        return Ok(());
    }
    Err(format!(
        "cannot take {} out of {}: remove it, then try again",
        parts.join(" "),
        file.display()
    )
    .into())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn apt(words: &[&str]) -> Result<()> {
    let output = Command::new("apt-get")
        .args(["--quiet", "--quiet"])
        .args(words)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .context(|| "start apt-get: install the packages above by hand".to_string())?;
    if output.status.success() {
        return Ok(());
    }
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    Err(Failure::from(format!(
        "'apt-get {}' failed: {}; its own words are above",
        words.join(" "),
        output.status
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_found_by_the_start_of_their_name() {
        let text = "kernel\n  Depends: base\n  Depends: linux-image-6.1-cloud\n";
        let found = first_dependency(text, "linux-image-");
        assert_eq!(found.as_deref(), Some("linux-image-6.1-cloud"));
        assert_eq!(first_dependency(text, "linux-headers-"), None);
    }

    /// The script has a list of its own, as it runs where nothing can be compiled yet.
    #[test]
    fn who_lacks_everything_is_told_once() {
        let script = crate::base::workspace::root().join("xtask/prepare.sh");
        let script = std::fs::read_to_string(script).unwrap();
        let words: Vec<_> = script
            .split(|letter: char| letter.is_whitespace() || "\";".contains(letter))
            .collect();
        let needed = all().into_iter().chain(TOOLCHAIN.iter().copied());
        for package in needed.chain([LINTER, FORMATTER]) {
            // Part of every Debian.
            if package.name != "util-linux" {
                assert!(words.contains(&package.name), "{}", package.name);
            }
        }
    }

    #[test]
    fn signs_are_looked_up_in_path_or_absolutely() {
        let shell = Package {
            name: "dash",
            sign: "sh",
            why: "",
        };
        let none = Package {
            name: "none",
            sign: "no-such-program-here",
            why: "",
        };
        let file = Package {
            name: "base",
            sign: "/etc/passwd",
            why: "",
        };
        assert!(shell.present() && file.present() && !none.present());
    }
}
