//! `image`: the ISO image that boots through GRUB, on hardware or in QEMU, and the files QEMU
//! boots directly.

use crate::build::{self, Contents, Parts};
use crate::launch::BootFiles;
use crate::packages;
use crate::report::{Context, Failure, Result, Step};
use crate::settings::{Boot, Settings};
use crate::workspace;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The command: an image for a machine with a screen-less console on its first serial port.
pub fn command(settings: &Settings) -> Result<()> {
    let parts = build::build(Contents::Product)?;
    let initfs = parts.pack(None, settings.files()?.as_deref(), &[])?;
    let directory = workspace::image_dir()?;
    let initfs_path = directory.join("initfs");
    std::fs::write(&initfs_path, &initfs).context(|| format!("write {}", initfs_path.display()))?;
    let iso = directory.join("skiff.iso");
    let step = Step::start("making the ISO image");
    make_iso(&iso, &parts.kernel, &initfs_path, "SKIFF_CONSOLE=1")?;
    step.done();
    let bytes = std::fs::metadata(&iso).map_or(0, |data| data.len());
    println!("{}  {bytes} bytes", workspace::display(&iso));
    Ok(())
}

/// Writes what nodes boot into a run's directory: one initfs for all, one command line for each.
pub fn boot_files(
    boot: Boot,
    parts: &Parts,
    initfs: &[u8],
    command_lines: &[String],
    directory: &Path,
) -> Result<Vec<BootFiles>> {
    let path = directory.join("initfs");
    std::fs::write(&path, initfs).context(|| format!("write {}", path.display()))?;
    let files = |(node, line): (usize, &String)| match boot {
        Boot::Direct => Ok(BootFiles::Direct {
            kernel: parts.kernel.clone(),
            initfs: path.clone(),
            command_line: line.clone(),
        }),
        Boot::Iso => {
            let iso = directory.join(format!("node-{node}.iso"));
            make_iso(&iso, &parts.kernel, &path, line)?;
            Ok(BootFiles::Iso(iso))
        }
    };
    command_lines.iter().enumerate().map(files).collect()
}

/// Makes an ISO image with GRUB, the kernel and the initfs as a multiboot2 module.
fn make_iso(iso: &Path, kernel: &Path, initfs: &Path, command_line: &str) -> Result<()> {
    packages::ensure(packages::ISO)?;
    let tree = iso.with_extension("tree");
    let grub = tree.join("boot/grub");
    std::fs::create_dir_all(&grub).context(|| format!("create {}", grub.display()))?;
    copy(kernel, &tree.join("boot/kernel"))?;
    copy(initfs, &tree.join("boot/initfs"))?;
    let menu = format!(
        "set timeout=0\nmenuentry skiff {{\n    multiboot2 /boot/kernel {command_line}\n    \
         module2 /boot/initfs\n}}\n"
    );
    std::fs::write(grub.join("grub.cfg"), menu)
        .context(|| format!("write the menu in {}", grub.display()))?;
    let output = Command::new("grub-mkrescue")
        .args([
            "--directory",
            "/usr/lib/grub/i386-pc",
            "--fonts=",
            "--locales=",
            "--themes=",
        ])
        .args([
            "--install-modules=multiboot2 normal iso9660 biosdisk part_msdos",
            "--compress=no",
        ])
        .arg("--output")
        .args([iso, &tree])
        .output()
        .context(|| "start grub-mkrescue".to_string())?;
    let _ = std::fs::remove_dir_all(&tree);
    if output.status.success() {
        return Ok(());
    }
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    Err(Failure::from(format!(
        "grub-mkrescue: {}; its own words are above",
        output.status
    )))
}

fn copy(from: &Path, to: &PathBuf) -> Result<()> {
    std::fs::copy(from, to)
        .map(|_| ())
        .context(|| format!("copy {} to {}", from.display(), to.display()))
}
