//! The standard library of C++ in the SDK: LLVM's libc++, libc++abi and libunwind, compiled for
//! the C library of the SDK.
//!
//! Debian packages these libraries for its own C library only, which has other numbers and
//! structures. The sources, unchanged but for a few lines, are in the package of the compiler
//! Emscripten, which compiles them, too. They are downloaded once, and again if what is taken or
//! replaced changes. They are compiled again if the headers of the C library, the compiler, the
//! script that calls it, or what is compiled here and how changes.

use crate::files::{add_tree, archive, copy_tree, entries, make_dir, parallel, read, remove, run};
use harness::base::packages;
use harness::base::report::{Context, Result, TimedStep};
use harness::base::workspace::{self, Place};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package, and the directory of the libraries in it.
const PACKAGE: &str = "emscripten";
const INSIDE: &str = "./usr/share/emscripten/system/lib";
/// The directory in which the sources are kept.
const SOURCES: &str = "sources";
const PARTS: [&str; 3] = ["libcxx", "libcxxabi", "libunwind"];
/// A file, the beginning of a line in it that is right only for Emscripten, and its replacement,
/// since LLVM has no such line: the tables of exceptions here are not WebAssembly's.
const MENDED: (&str, &str, &str) = (
    "libcxxabi/src/cxa_personality.cpp",
    "#define __USING_SJLJ_OR_WASM_EXCEPTIONS__",
    "#define UNUSED_SJLJ_OR_WASM_EXCEPTIONS",
);
/// The configuration of libc++ for the C library, in the project.
const CONFIG: &str = "lib/sdk/libc++.config";
/// The options for each source. Warnings about code of other projects are off.
const OPTIONS: &[&str] = &[
    "-O2",
    "-w",
    "-c",
    "-DNDEBUG",
    "-fexceptions",
    "-D_LIBCPP_BUILDING_LIBRARY",
    "-DLIBCXX_BUILDING_LIBCXXABI",
    "-D_LIBCXXABI_BUILDING_LIBRARY",
    "-D_LIBUNWIND_IS_NATIVE_ONLY",
];
/// Further options for sources in C++.
const PLUSPLUS_OPTIONS: &[&str] = &["-std=gnu++20"];
/// The directories in the sources in which headers are looked for.
const INCLUDES: [&str; 3] = ["libcxx", "libcxx/src", "libunwind/include"];
/// The compiler of the libraries, in the SDK.
const COMPILER: &str = "bin/skiff-c++";
/// The C library's headers, in the project, on which the compiled libraries depend.
const C_HEADERS: &str = "lib/os/libc/include";

/// A library: its archive, the directories of its sources, and which of the sources belong to it.
struct Library {
    archive: &'static str,
    sources: &'static [&'static str],
    takes: fn(&str) -> bool,
}

const LIBRARIES: [Library; 3] = [
    Library {
        archive: "libc++.a",
        sources: &["libcxx/src", "libcxx/src/filesystem"],
        takes: |name| name.ends_with(".cpp"),
    },
    Library {
        archive: "libc++abi.a",
        sources: &["libcxxabi/src"],
        // `new` and `delete` are in libc++, too, and the other source is for programs without
        // exceptions.
        takes: |name| {
            let others = ["stdlib_new_delete.cpp", "cxa_noexception.cpp"];
            name.ends_with(".cpp") && !others.contains(&name)
        },
    },
    Library {
        archive: "libunwind.a",
        sources: &["libunwind/src"],
        takes: |name| {
            let wanted = [
                "libunwind.cpp",
                "UnwindLevel1.c",
                "UnwindLevel1-gcc-ext.c",
                "UnwindRegistersRestore.S",
                "UnwindRegistersSave.S",
            ];
            wanted.contains(&name)
        },
    },
];

/// The library by which Rust's standard library unwinds; that of C++ takes its place here.
const OF_GCC: &str = "libgcc_eh.a";

/// Whether the libraries can be made: the sources exist, or can be downloaded.
pub fn can_be_made() -> bool {
    are_there(&Place::PlusPlus.path().join(SOURCES)) || packages::can_download()
}

/// A text of what is taken from the package and replaced in it, kept beside the sources.
fn recipe() -> String {
    format!("{PACKAGE} {INSIDE} {PARTS:?} {MENDED:?}")
}

/// The file with that text, in the directory of the sources.
const RECIPE: &str = "recipe";

/// Whether the sources are there as they are to be taken and replaced now.
fn are_there(sources: &Path) -> bool {
    std::fs::read_to_string(sources.join(RECIPE)).is_ok_and(|text| text == recipe())
}

/// Adds headers and libraries to an SDK that is complete otherwise.
pub fn add(sdk: &Path) -> Result<()> {
    let place = workspace::make(Place::PlusPlus)?;
    let sources = place.join(SOURCES);
    if !are_there(&sources) {
        fetch(&place, &sources)?;
    }
    let headers = sdk.join("include/c++/v1");
    make_dir(&headers)?;
    for part in ["libcxx/include", "libcxxabi/include"] {
        copy_tree(&sources.join(part), &headers)?;
    }
    let config = workspace::root().join(CONFIG);
    let to = headers.join("__config_site");
    std::fs::copy(config, &to).context(|| format!("write {}", to.display()))?;
    let libraries = place.join("lib");
    let key = key(sdk, &sources)?;
    let known = std::fs::read_to_string(libraries.join("key"));
    if known.ok().as_ref() != Some(&key) {
        let step = TimedStep::start("compiling the standard library of C++".to_string());
        remove(&libraries)?;
        make_dir(&libraries)?;
        for library in &LIBRARIES {
            library.compile(sdk, &sources, &libraries)?;
        }
        std::fs::write(libraries.join("key"), key).context(|| "write the key".to_string())?;
        step.done();
    }
    for library in &LIBRARIES {
        let to = sdk.join("lib").join(library.archive);
        std::fs::copy(libraries.join(library.archive), &to)
            .context(|| format!("write {}", to.display()))?;
    }
    archive(&sdk.join("lib").join(OF_GCC), &[])
}

/// Downloads the package and extracts the sources from it.
fn fetch(place: &Path, sources: &Path) -> Result<()> {
    let step = TimedStep::start("fetching the sources of the standard library of C++".to_string());
    let file = packages::download(PACKAGE, place)?;
    let fresh = place.join("fresh");
    remove(&fresh)?;
    make_dir(&fresh)?;
    let inside: Vec<String> = PARTS
        .iter()
        .map(|part| format!("{INSIDE}/{part}"))
        .collect();
    packages::unpack_part(&file, &inside, &fresh)?;
    mend(&fresh.join(INSIDE))?;
    let text = fresh.join(INSIDE).join(RECIPE);
    std::fs::write(&text, recipe()).context(|| format!("write {}", text.display()))?;
    remove(sources)?;
    std::fs::rename(fresh.join(INSIDE), sources)
        .context(|| format!("put {} in place", sources.display()))?;
    remove(&fresh)?;
    // The file has a hundred megabytes, of which three were needed.
    std::fs::remove_file(&file).context(|| format!("remove {}", file.display()))?;
    step.done();
    Ok(())
}

/// Replaces the line of the sources that is right only for Emscripten.
fn mend(sources: &Path) -> Result<()> {
    let (file, theirs, ours) = MENDED;
    let path = sources.join(file);
    let text = String::from_utf8_lossy(&read(&path)?).into_owned();
    if text.matches(theirs).count() != 1 {
        return Err(format!("{PACKAGE} is another version: {file} has no line {theirs}").into());
    }
    let text = text.replace(theirs, ours);
    std::fs::write(&path, text).context(|| format!("write {}", path.display()))
}

/// The key of a build of the libraries, computed from everything that they are made of. If it
/// changes, they are compiled again.
fn key(sdk: &Path, sources: &Path) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    for tree in [workspace::root().join(C_HEADERS), sources.to_path_buf()] {
        add_tree(&mut hasher, &tree)?;
    }
    (OPTIONS, PLUSPLUS_OPTIONS, INCLUDES).hash(&mut hasher);
    for library in &LIBRARIES {
        let files = library.files(sources)?;
        let names: Vec<_> = files.iter().filter_map(|file| file.file_name()).collect();
        (library.archive, library.sources, names).hash(&mut hasher);
    }
    for path in [workspace::root().join(CONFIG), sdk.join(COMPILER)] {
        hasher.write(&read(&path)?);
    }
    let version = Command::new(sdk.join(COMPILER)).arg("--version").output();
    hasher.write(&version.context(|| format!("start {COMPILER}"))?.stdout);
    Ok(format!("{:016x}", hasher.finish()))
}

impl Library {
    /// The files of its sources.
    fn files(&self, sources: &Path) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for directory in self.sources {
            files.extend(
                entries(&sources.join(directory))?
                    .into_iter()
                    .filter(|file| {
                        let name = file.file_name().unwrap_or_default().to_string_lossy();
                        (self.takes)(&name)
                    }),
            );
        }
        Ok(files)
    }

    /// Compiles the library's sources and puts the objects into its archive.
    fn compile(&self, sdk: &Path, sources: &Path, to: &Path) -> Result<()> {
        let files = self.files(sources)?;
        let objects = to.join("objects");
        remove(&objects)?;
        make_dir(&objects)?;
        let compiled = parallel(&files, |file| compile(sdk, sources, file, &objects))?;
        archive(&to.join(self.archive), &compiled)?;
        remove(&objects)
    }
}

/// Compiles one source and returns its object.
fn compile(sdk: &Path, sources: &Path, file: &Path, objects: &Path) -> Result<PathBuf> {
    let mut name = file.file_name().unwrap_or_default().to_os_string();
    name.push(".o");
    let object = objects.join(name);
    let is_plusplus = file.extension().is_some_and(|extension| extension == "cpp");
    let mut command = Command::new(sdk.join(if is_plusplus {
        COMPILER
    } else {
        "bin/skiff-cc"
    }));
    if is_plusplus {
        command.args(PLUSPLUS_OPTIONS);
    }
    command
        .args(OPTIONS)
        // The paths of the sources are of no use to users either.
        .arg(format!("-ffile-prefix-map={}=", sources.display()));
    for headers in INCLUDES {
        command.arg("-I").arg(sources.join(headers));
    }
    run(command.arg("-o").arg(&object).arg(file))?;
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::base::run_directory::RunDirectory;

    #[test]
    fn sources_count_only_with_the_recipe_they_were_taken_by() {
        let directory = RunDirectory::new().unwrap();
        assert!(!are_there(directory.path()));
        std::fs::write(directory.path().join(RECIPE), recipe()).unwrap();
        assert!(are_there(directory.path()));
        std::fs::write(directory.path().join(RECIPE), "another").unwrap();
        assert!(!are_there(directory.path()));
    }
}
