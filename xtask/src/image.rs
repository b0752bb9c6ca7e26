//! `image`: the ISO image that boots through GRUB, on hardware or in QEMU, and the files that QEMU
//! boots directly.
//!
//! One file serves BIOS and UEFI, on a disc or a stick: it holds GRUB twice, a boot sector of
//! either kind and a partition table ([hardware.md](../../docs/hardware.md)).

use crate::build::{self, Parts};
use harness::base::packages::{self, Package};
use harness::base::report::{Context, Failure, Result, TimedStep};
use harness::base::settings::{Boot, Purpose, Settings};
use harness::base::workspace::{self, Place};
use harness::node::image::{Additions, BootFiles, Builder, Contents, Image, packages_for};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An entry of the boot loader's menu: its title and the kernel's command line.
#[derive(Debug, Clone, Copy)]
struct Entry<'a> {
    title: &'a str,
    command_line: &'a str,
}

/// The menu of the image for hardware. The first entry boots by default.
const MENU: &[Entry<'_>] = &[
    Entry {
        title: "Skiff",
        command_line: "SKIFF_CONSOLE=1",
    },
    Entry {
        title: "Skiff, self-check: says on the screen what works",
        command_line: "SKIFF_RUN=/scheme/initfs/lib/self-check.sh SKIFF_STAY=1",
    },
];
/// Seconds for which the menu of the image for hardware waits.
const MENU_SECONDS: u32 = 3;
/// Seconds for which the menu of a node's image waits by default.
const NODE_MENU_SECONDS: u32 = 1;

/// Runs the command: makes an image for hardware.
pub fn command(settings: &Settings) -> Result<()> {
    // Missing packages are reported before minutes of building.
    let contents = Contents::product(Purpose::Release);
    packages::ensure(&[packages::ISO, &build::packages(&contents)?].concat())?;
    let parts = build::build(&contents)?;
    let overlay = settings.files()?;
    let initfs = parts.pack(&Additions {
        overlay: overlay.as_deref(),
        ..Additions::default()
    })?;
    let directory = workspace::make(Place::Image)?;
    let initfs_path = directory.join("initfs");
    std::fs::write(&initfs_path, &initfs).context(|| format!("write {}", initfs_path.display()))?;
    let iso = directory.join("skiff.iso");
    let step = TimedStep::start("making the ISO image");
    let kernel = parts.write_kernel(&directory)?;
    make_iso(&iso, &kernel, &initfs_path, MENU_SECONDS, MENU)?;
    step.done();
    let bytes = std::fs::metadata(&iso).map_or(0, |data| data.len());
    println!("{}  {bytes} bytes", workspace::display(&iso));
    Ok(())
}

/// Builds the images that nodes boot.
#[derive(Debug)]
pub struct ImageBuilder;

impl Builder for ImageBuilder {
    fn packages(&self, contents: &Contents) -> Result<Vec<Package>> {
        build::packages(contents)
    }

    fn build(&self, contents: &Contents) -> Result<Box<dyn Image>> {
        Ok(Box::new(build::build(contents)?))
    }
}

impl Image for Parts {
    fn boot_files(
        &self,
        boot: Boot,
        additions: &Additions<'_>,
        command_lines: &[String],
        directory: &Path,
    ) -> Result<Vec<BootFiles>> {
        packages::ensure(&packages_for(boot))?;
        let path = directory.join("initfs");
        let initfs = self.pack(additions)?;
        std::fs::write(&path, initfs).context(|| format!("write {}", path.display()))?;
        let kernel = self.write_kernel(directory)?;
        let files = |(node, line): (usize, &String)| match boot {
            Boot::Direct => Ok(BootFiles::Direct {
                kernel: kernel.clone(),
                initfs: path.clone(),
                command_line: line.clone(),
            }),
            Boot::Bios | Boot::Uefi => {
                let iso = directory.join(format!("node-{node}.iso"));
                // The menu for hardware, with the first entry's command line replaced.
                let mut menu = MENU.to_vec();
                menu[0].command_line = line;
                make_iso(&iso, &kernel, &path, NODE_MENU_SECONDS, &menu)?;
                Ok(BootFiles::Iso {
                    image: iso,
                    uefi: boot == Boot::Uefi,
                })
            }
        };
        command_lines.iter().enumerate().map(files).collect()
    }
}

/// GRUB's driver of the screen, which the kernel's header asks for: the one that uses the
/// firmware, as on PCs. GRUB has other drivers: for QEMU's card, with which tests would not
/// exercise what PCs do, and for VGA, whose 16 colours the kernel cannot draw with. Without VBE
/// there is text.
const SCREEN_DRIVER: &str = "if [ \"$grub_platform\" = efi ]; then\n    insmod efi_gop\nelse\n    \
                             insmod vbe\nfi\n";

/// The configuration of GRUB: shows the menu for `seconds`, then boots the first entry.
fn grub_script(seconds: u32, menu: &[Entry<'_>]) -> String {
    let mut script = format!("set timeout={seconds}\nset default=0\n{SCREEN_DRIVER}");
    for Entry {
        title,
        command_line,
    } in menu
    {
        script += &format!(
            "menuentry \"{title}\" {{\n    multiboot2 /boot/kernel {command_line}\n    \
             module2 /boot/initfs\n}}\n"
        );
    }
    script
}

/// Makes an ISO image with GRUB for both kinds of firmware, the kernel, and the initfs as a
/// multiboot2 module.
fn make_iso(
    iso: &Path,
    kernel: &Path,
    initfs: &Path,
    seconds: u32,
    menu: &[Entry<'_>],
) -> Result<()> {
    let tree = iso.with_extension("tree");
    let grub = tree.join("boot/grub");
    std::fs::create_dir_all(&grub).context(|| format!("create {}", grub.display()))?;
    copy(kernel, &tree.join("boot/kernel"))?;
    copy(initfs, &tree.join("boot/initfs"))?;
    std::fs::write(grub.join("grub.cfg"), grub_script(seconds, menu))
        .context(|| format!("write the menu in {}", grub.display()))?;
    let output = Command::new("grub-mkrescue")
        .args(["--fonts=", "--locales=", "--themes=", "--compress=no"])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_menu_has_its_entries_in_order() {
        let script = grub_script(MENU_SECONDS, MENU);
        let place = |words: &str| script.find(words).unwrap_or_else(|| panic!("{words}"));
        assert!(script.contains(&format!("timeout={MENU_SECONDS}\n")));
        assert!(place("SKIFF_CONSOLE=1\n") < place("SKIFF_RUN=/scheme/initfs/lib/self-check.sh"));
        assert_eq!(
            script.matches("module2 /boot/initfs\n}").count(),
            MENU.len()
        );
        // No title has characters that would end it, or the entry.
        assert!(
            MENU.iter()
                .all(|entry| !entry.title.contains(['"', '{', '}']))
        );
        let file = harness::base::workspace::root().join("initfs/lib/self-check.sh");
        assert!(file.is_file());
    }
}
