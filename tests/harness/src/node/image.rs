//! The image that nodes boot, as the harness asks for it. A [`Builder`] makes images; `cargo xtask`
//! has the only one and passes it to the commands.

use crate::base::packages::{self, Package};
use crate::base::report::{Context, Result};
use crate::base::settings::{Boot, Purpose, Settings};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The image that a node is started from.
#[derive(Debug, Clone)]
pub enum BootFiles {
    /// QEMU loads these itself.
    Direct {
        /// The kernel's ELF file with a PVH entry.
        kernel: PathBuf,
        /// The packed initfs.
        initfs: PathBuf,
        /// Words KEY=VALUE for the kernel's environment.
        command_line: String,
    },
    /// The image for hardware, with boot loaders; the command line is inside.
    Iso {
        /// The ISO image.
        image: PathBuf,
        /// Whether UEFI firmware boots it, or a BIOS.
        uefi: bool,
    },
}

impl BootFiles {
    /// The bytes of everything that the node is started from.
    ///
    /// # Errors
    /// A file cannot be looked at.
    pub fn bytes(&self) -> Result<u64> {
        let paths = match self {
            Self::Direct { kernel, initfs, .. } => vec![kernel, initfs],
            Self::Iso { image, .. } => vec![image],
        };
        let mut all = 0;
        for path in paths {
            let metadata = std::fs::metadata(path);
            let metadata = metadata.context(|| format!("look at {}", path.display()))?;
            all += metadata.len();
        }
        Ok(all)
    }
}

/// Which programs go into the image, and how they are compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// How they are compiled.
    pub purpose: Purpose,
    /// Which programs of the tests are among them.
    pub tests: TestPrograms,
}

/// The test programs in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestPrograms {
    /// All of them.
    All,
    /// Of each package one of whose programs scripts name, all; and so of those in C.
    Named {
        /// The words of the scripts.
        words: BTreeSet<String>,
        /// Beginnings that stand for all words with that beginning: a script has a variable behind
        /// them, as in `pattern-$name`.
        beginnings: BTreeSet<String>,
    },
}

impl TestPrograms {
    /// Whether programs, which come together, are wanted.
    pub fn want(&self, programs: &[String]) -> bool {
        match self {
            Self::All => true,
            Self::Named { words, beginnings } => {
                let begins = |program: &String| {
                    let mut beginnings = beginnings.iter();
                    beginnings.any(|beginning| program.starts_with(beginning))
                };
                let is_named = |program: &String| words.contains(program) || begins(program);
                programs.iter().any(is_named)
            }
        }
    }
}

impl Contents {
    /// The image that a user gets: no test programs.
    pub fn product(purpose: Purpose) -> Self {
        Self::named_in(purpose, [])
    }

    /// The same and all test programs.
    pub fn tests(purpose: Purpose) -> Self {
        Self {
            purpose,
            tests: TestPrograms::All,
        }
    }

    /// What a user gets, and the test programs whose names are words of these scripts.
    pub fn named_in<'a>(purpose: Purpose, scripts: impl IntoIterator<Item = &'a str>) -> Self {
        let in_name = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        let (mut words, mut beginnings) = (BTreeSet::new(), BTreeSet::new());
        for script in scripts {
            for piece in script.split_inclusive(|letter| !in_name(letter)) {
                let word = piece.trim_end_matches(|letter| !in_name(letter));
                let goes_on = piece.ends_with('$') || word.ends_with('-');
                match word {
                    "" => {}
                    word if goes_on && !word.starts_with('-') => {
                        beginnings.insert(word.to_string());
                    }
                    word => {
                        words.insert(word.to_string());
                    }
                }
            }
        }
        Self {
            purpose,
            tests: TestPrograms::Named { words, beginnings },
        }
    }
}

/// Files that a run adds to an image.
#[derive(Clone, Copy, Debug, Default)]
pub struct Additions<'a> {
    /// The program that the kernel starts, if not the bootstrap.
    pub first: Option<&'a str>,
    /// A directory of the user's to lay over the files.
    pub overlay: Option<&'a Path>,
    /// Files to lay over those, by their paths inside.
    pub files: &'a [(String, Vec<u8>)],
    /// Spoil the image so that the kernel finds no program to start.
    pub spoiled: bool,
}

/// A kernel and files, ready to be booted.
pub trait Image {
    /// Writes what nodes boot into a run's directory: the same files for all, one command line for
    /// each.
    ///
    /// # Errors
    /// A file cannot be written, or the boot loader's tools fail.
    fn boot_files(
        &self,
        boot: Boot,
        additions: &Additions<'_>,
        command_lines: &[String],
        directory: &Path,
    ) -> Result<Vec<BootFiles>>;
}

/// Builds images.
pub trait Builder {
    /// The Debian packages that building these contents takes.
    ///
    /// # Errors
    /// A description in `config/` cannot be read.
    fn packages(&self, contents: &Contents) -> Result<Vec<Package>>;

    /// Builds what is out of date.
    ///
    /// # Errors
    /// The compiler's, or something is missing.
    fn build(&self, contents: &Contents) -> Result<Box<dyn Image>>;
}

/// Makes sure that nodes can be started, and builds what they boot.
///
/// # Errors
/// A package is missing, or the build fails.
pub fn prepare(
    builder: &dyn Builder,
    settings: &Settings,
    contents: &Contents,
) -> Result<Box<dyn Image>> {
    // All at once, not one after the other.
    let mut wanted = packages_for(settings.boot()?);
    wanted.extend(packages::NODES);
    wanted.extend(builder.packages(contents)?);
    packages::ensure(&wanted)?;
    builder.build(contents)
}

/// The programs needed to boot nodes so, beside QEMU.
pub fn packages_for(boot: Boot) -> Vec<Package> {
    let mut wanted = Vec::new();
    if boot != Boot::Direct {
        wanted.extend(packages::ISO);
    }
    if boot == Boot::Uefi {
        wanted.push(packages::UEFI);
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_chosen_by_the_words_of_scripts() {
        let script = "# comment\nscif-kills 40 7 1 || exit 1\npattern-windows serve &\n";
        let chosen = Contents::named_in(Purpose::Edit, [script]).tests;
        let wants = |program: &str| chosen.want(&[program.to_string()]);
        assert!(wants("scif-kills") && wants("pattern-windows"));
        assert!(!wants("scif-kill") && !wants("pattern"));
        let begun = "pattern-$name call - $other --flag-";
        let begun = Contents::named_in(Purpose::Edit, [begun]).tests;
        assert!(begun.want(&["pattern-windows".to_string()]));
        assert!(!begun.want(&["pat".to_string(), "--flag-x".to_string()]));
        let by = Contents::named_in(Purpose::Edit, ["interpose$compiler; other \"$x\""]).tests;
        assert!(by.want(&["interpose-clang".to_string()]));
        assert!(!by.want(&["others".to_string()]));
        let product = Contents::product(Purpose::Release).tests;
        assert!(!product.want(&["scif-kills".to_string()]));
        assert!(TestPrograms::All.want(&[]));
    }
}
