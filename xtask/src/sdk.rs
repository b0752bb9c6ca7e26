//! `sdk`: writes headers, libraries and compilers for C, C++ and Rust programs to `target/sdk`.
//!
//! The libraries are one static library of Rust's, taken apart. libscif.a has the objects of the
//! crates behind `scif.h`, libsocket.a those behind `sys/socket.h` and its kin, libst.a those
//! behind `st.h`, libibverbs.a those behind `infiniband/verbs.h` and `rdma/rdma_cma.h`, libc.a all
//! others, start-up code included. All names that they define are weak, so that a program may
//! define any of their functions itself, `scif_send` as well as `malloc`: an object of Rust's
//! holds many functions, and would otherwise clash with the program's as soon as one of the others
//! is needed. Names that Rust has made get a prefix that a Rust program does not have, as its own
//! standard library would otherwise take their place. No file in the directory contains a path of
//! this machine, so it can be moved and given away.

use crate::config;
use crate::files::{add_tree, archive, copy_tree, entries, make_dir, parallel, read, remove, run};
use crate::object;
use crate::plusplus;
use crate::toolchain::{self, Target, Toolchain};
use harness::base::cargo;
use harness::base::packages::{self, Package};
use harness::base::report::{Context, Result, TimedStep};
use harness::base::settings::{Purpose, Settings};
use harness::base::workspace::{self, Place};
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package of the static library, and the file that cargo makes of it.
pub const PACKAGE: &str = "sdk";
const LIBRARY: &str = "libsdk.a";
/// The libraries made of it, each with the crates whose objects it has; the last one has all
/// others.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("libscif.a", &["libscif", "scif"]),
    ("libsocket.a", &["libsocket"]),
    ("libst.a", &["libst", "st", "st_core"]),
    ("libibverbs.a", &["libibverbs", "verbs", "verbs_core"]),
    ("libibumad.a", &["libibumad"]),
    ("libc.a", &[]),
];
/// The crate of the C library, and that of the functions that compilers call.
const C_LIBRARY: &str = "skiff_libc";
const BUILTINS: &str = "compiler_builtins";
/// Libraries that programs name although all their functions are in libc.a or in those of C++.
const EMPTY: &[&str] = &[
    "libm.a",
    "libpthread.a",
    "librt.a",
    "libdl.a",
    "libnsl.a",
    "libresolv.a",
    "libstdc++.a",
    "libgcc_s.a",
    "librdmacm.a",
];
/// Directories of the headers, in the project.
const HEADERS: &[&str] = &[
    "lib/os/libc/include",
    "lib/libscif/include",
    "lib/libsocket/include",
    "lib/libst/include",
    "lib/libibverbs/include",
    "lib/libibumad/include",
];
/// The scripts that build programs, in the project.
const BUILDERS: &[&str] = &["lib/libscif/skiff-cc", "lib/sdk/skiff-cargo"];

/// Runs the command.
pub fn command(_settings: &Settings) -> Result<()> {
    let mut wanted = toolchain::packages();
    wanted.extend([packages::ARCHIVER, packages::CXX_COMPILER]);
    packages::ensure(&wanted)?;
    let toolchain = toolchain::find()?;
    let step = TimedStep::start(format!("building the C libraries with {}", toolchain.name));
    let mut cargo = toolchain.cargo("build", Target::Program, Purpose::Release);
    cargo.args(["--quiet", "--package", PACKAGE]);
    run(cargo.args(config::image()?.common_features()))?;
    step.done();
    let sdk = Place::Sdk.path();
    let with_plusplus = plusplus::can_be_made();
    if !with_plusplus {
        eprintln!("    no apt-get here: the SDK is made without the library of C++");
    }
    lay_out(&sdk, with_plusplus)?;
    println!("{}", workspace::display(&sdk));
    println!(
        "compile with: {} -o program program.c",
        workspace::display(&sdk.join("bin/skiff-cc"))
    );
    Ok(())
}

/// Lays out the SDK in a directory, from the library that cargo has built last. With
/// `with_plusplus` it also has the library of C++.
fn lay_out(sdk: &Path, with_plusplus: bool) -> Result<()> {
    let library = Target::Program.place().path();
    let library = library
        .join(Target::Program.triple())
        .join("release")
        .join(LIBRARY);
    let fresh = sdk.with_extension("new");
    remove(&fresh)?;
    for part in ["include", "lib", "bin"] {
        make_dir(&fresh.join(part))?;
    }
    for headers in HEADERS {
        copy_tree(&workspace::root().join(headers), &fresh.join("include"))?;
    }
    split(&library, &fresh.join("lib"))?;
    for builder in BUILDERS {
        let from = workspace::root().join(builder);
        let to = fresh.join("bin").join(from.file_name().unwrap_or_default());
        // The copy remains executable.
        std::fs::copy(from, &to).context(|| format!("write {}", to.display()))?;
    }
    // Both names are one script, which looks at the name it is called by.
    let other = fresh.join("bin/skiff-c++");
    std::os::unix::fs::symlink("skiff-cc", &other)
        .context(|| format!("write {}", other.display()))?;
    if with_plusplus {
        plusplus::add(&fresh)?;
    }
    let problem = find_path(&fresh)?;
    if let Some(problem) = problem {
        return Err(format!("the SDK would hold a path of this machine: {problem}").into());
    }
    seal(&fresh)?;
    // A program that is compiled meanwhile sees the old SDK or the new one, or for a moment none,
    // but never a part of one.
    let old = sdk.with_extension("old");
    remove(&old)?;
    if sdk.exists() {
        std::fs::rename(sdk, &old).context(|| format!("put {} aside", sdk.display()))?;
    }
    std::fs::rename(&fresh, sdk).context(|| format!("put {} in place", sdk.display()))?;
    remove(&old)
}

/// The beginning of the name of the wrapper in the SDK's `lib`; a sum of the SDK's files follows.
const WRAPPER: &str = "rustc-";
const WRAPPER_TEXT: &str = "#!/bin/sh
# Calls the compiler, which is the first word. Cargo does not know that programs are made of the
# libraries of this SDK, but it builds the packages of a workspace again when the path of the
# wrapper of their compiler changes. So this file's name has a sum of all other files of the SDK.
exec \"$@\"
";

/// Adds the wrapper by which cargo notices that programs must be linked with another SDK.
fn seal(sdk: &Path) -> Result<()> {
    let mut hasher = DefaultHasher::new();
    add_tree(&mut hasher, sdk)?;
    let name = format!("{WRAPPER}{:016x}", hasher.finish());
    let file = sdk.join("lib").join(name);
    let doing = || format!("write {}", file.display());
    std::fs::write(&file, WRAPPER_TEXT).context(doing)?;
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).context(doing)
}

/// The directory of the SDK that [`for_tests`] lays out.
pub fn place_for_tests() -> PathBuf {
    Place::Patterns.path().join("sdk")
}

/// Lays out an SDK for the tests' programs, from the library that cargo has built last, and
/// returns its directory. Programs in C++ need the library of C++; those with Rust's standard
/// library use it if it can be made, as with a user's SDK.
pub fn for_tests(programs: &[Program], with_std: bool) -> Result<PathBuf> {
    make_dir(&Place::Patterns.path())?;
    let sdk = place_for_tests();
    let plusplus = programs.iter().find(|program| program.is_plusplus());
    if let (Some(program), false) = (plusplus, plusplus::can_be_made()) {
        let name = &program.name;
        return Err(format!("{name} is in C++, whose library is made with apt-get alone").into());
    }
    let wanted = plusplus.is_some() || with_std;
    lay_out(&sdk, wanted && plusplus::can_be_made())?;
    Ok(sdk)
}

/// Compiles programs in C and C++ with an SDK, in parallel. Returns their files.
pub fn compile_all(sdk: &Path, programs: &[Program]) -> Result<Vec<PathBuf>> {
    parallel(programs, |program| {
        let file = Place::Patterns.path().join(&program.name);
        compile(sdk, program, &file)?;
        Ok(file)
    })
}

/// The names of the programs of a package that uses Rust's standard library.
pub fn std_programs(package: &Path) -> Result<Vec<String>> {
    let sources = entries(&package.join("src/bin"))?;
    let stem = |source: &PathBuf| source.file_stem().map(|stem| stem.to_string_lossy().into());
    Ok(sources.iter().filter_map(stem).collect())
}

/// The suffix in the names of programs whose panics abort, and the profile that builds them.
const ABORTS: &str = "-abort";
const ABORTING: &str = "aborting";

/// Builds programs of such a package with `skiff-cargo`, as a user does. Returns their files.
pub fn build_std(
    sdk: &Path,
    toolchain: &Toolchain,
    package: &Path,
    programs: &[String],
) -> Result<Vec<PathBuf>> {
    let place = Place::Std.path();
    let mut built = Vec::new();
    for profile in ["release", ABORTING] {
        let is_of = |program: &&String| program.ends_with(ABORTS) == (profile == ABORTING);
        let chosen: Vec<&String> = programs.iter().filter(is_of).collect();
        if chosen.is_empty() {
            continue;
        }
        let mut cargo = cargo::clean(Command::new(sdk.join("bin/skiff-cargo")));
        cargo
            .current_dir(package)
            .env("SKIFF_TOOLCHAIN", toolchain.directory())
            .env("CARGO_TARGET_DIR", &place)
            .args(["build", "--profile", profile, "--locked"]);
        if profile == ABORTING {
            // Only the library itself is compiled a second time for it.
            cargo.arg("--no-default-features");
        }
        let directory = place.join(Target::Program.triple()).join(profile);
        for program in chosen {
            cargo.args(["--bin", program]);
            built.push(directory.join(program));
        }
        run(&mut cargo)?;
    }
    Ok(built)
}

/// A program of C or C++.
pub struct Program {
    /// Its name in the image.
    pub name: String,
    source: PathBuf,
    language: Language,
    compiler: &'static str,
}

impl Program {
    fn is_plusplus(&self) -> bool {
        self.language == Language::CPlusPlus
    }

    /// The Debian package with its compiler.
    fn package(&self) -> Package {
        match (self.compiler, self.language) {
            (CLANG, _) => packages::CLANG,
            (_, Language::C) => packages::C_COMPILER,
            (_, Language::CPlusPlus) => packages::CXX_COMPILER,
        }
    }
}

/// The Debian packages that compiling programs needs, besides the toolchain.
pub fn packages_for(programs: &[Program]) -> Vec<Package> {
    let mut wanted = Vec::new();
    for package in programs.iter().map(Program::package) {
        if !wanted.contains(&package) {
            wanted.push(package);
        }
    }
    // This compiler builds the library of C++, whichever one compiles the programs.
    if programs.iter().any(Program::is_plusplus) {
        wanted.push(packages::CXX_COMPILER);
    }
    if !programs.is_empty() {
        wanted.push(packages::ARCHIVER);
    }
    wanted
}

/// The programs of a directory: each source with each compiler.
pub fn programs(directory: &Path) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for source in entries(directory)? {
        let Some(language) = source.extension().and_then(Language::of) else {
            continue;
        };
        for (compiler, suffix) in COMPILERS {
            let stem = source.file_stem().unwrap_or_default().to_string_lossy();
            programs.push(Program {
                name: format!("{stem}{suffix}"),
                source: source.clone(),
                language,
                compiler,
            });
        }
    }
    Ok(programs)
}

/// The compilers of the tests, and the suffixes in the names of their programs.
const COMPILERS: [(&str, &str); 2] = [("gcc", ""), (CLANG, "-clang")];
const CLANG: &str = "clang";

/// The language of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    C,
    CPlusPlus,
}

impl Language {
    /// The language of a file's extension.
    fn of(extension: &std::ffi::OsStr) -> Option<Language> {
        match extension.to_str() {
            Some("c") => Some(Self::C),
            Some("cc") => Some(Self::CPlusPlus),
            _ => None,
        }
    }

    /// The script in the SDK that compiles the language.
    fn builder(self) -> &'static str {
        match self {
            Self::C => "bin/skiff-cc",
            Self::CPlusPlus => "bin/skiff-c++",
        }
    }

    fn standard(self) -> &'static str {
        match self {
            Self::C => "-std=gnu11",
            Self::CPlusPlus => "-std=gnu++17",
        }
    }

    /// Options that turn off warnings: gcc also guesses about functions of the C++ library's
    /// headers.
    fn quiet(self, compiler: &str) -> &'static [&'static str] {
        match (self, compiler) {
            (Self::CPlusPlus, "gcc") => {
                &["-Wno-maybe-uninitialized", "-Wno-alloc-size-larger-than"]
            }
            _ => &[],
        }
    }
}

/// Compiles one program. Any message of the compiler, warnings included, is an error.
fn compile(sdk: &Path, program: &Program, file: &Path) -> Result<()> {
    let mut command = Command::new(sdk.join(program.language.builder()));
    command
        .env("SKIFF_CC", program.compiler)
        .arg(program.language.standard())
        .args(["-O2", "-Wall", "-Wextra", "-Werror"])
        .args(program.language.quiet(program.compiler))
        .args(["-s", "-o"])
        .arg(file)
        .arg(&program.source);
    run(&mut command)
}

/// Takes the static library apart into the SDK's libraries.
fn split(library: &Path, to: &Path) -> Result<()> {
    let objects = to.join("objects");
    make_dir(&objects)?;
    run(Command::new("ar")
        .arg("x")
        .arg(library)
        .current_dir(&objects))?;
    let members = entries(&objects)?;
    let listed = Command::new("ar").arg("t").arg(library).output();
    let listed = listed.context(|| "start ar".to_string())?.stdout;
    let listed = listed
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    if members.is_empty() || members.len() != listed.count() {
        return Err("two objects of the static library have the same name".into());
    }
    hide_doubles(&members)?;
    for object in &members {
        prepare(object)?;
    }
    let mut rest = members;
    for (name, crates) in LIBRARIES {
        let is_others = crates.is_empty();
        let belongs = |path: &PathBuf| is_others || crates.contains(&crate_of(path).as_str());
        let (objects, others) = rest.into_iter().partition(belongs);
        let objects: Vec<PathBuf> = objects;
        archive(&to.join(name), &objects)?;
        rest = others;
    }
    for name in EMPTY {
        archive(&to.join(name), &[])?;
    }
    remove(&objects)
}

/// Hides the functions of the compiler's own library that the C library defines, too. The other
/// `sqrt` does not set `errno`, and the order of the objects would decide which one a program
/// gets.
fn hide_doubles(objects: &[PathBuf]) -> Result<()> {
    let (ours, others): (Vec<_>, Vec<_>) = objects
        .iter()
        .partition(|object| crate_of(object) == C_LIBRARY);
    let mut names = String::new();
    for path in ours {
        for name in object::defined(&read(path)?)? {
            names += &name;
            names += "\n";
        }
    }
    for object in others {
        if crate_of(object) == BUILTINS {
            localize(object, &names)?;
        }
    }
    Ok(())
}

/// Makes names of an object, which are given one a line, invisible to other objects.
fn localize(object: &Path, names: &str) -> Result<()> {
    let list = object.with_extension("names");
    std::fs::write(&list, names).context(|| format!("write {}", list.display()))?;
    let mut option = std::ffi::OsString::from("--localize-symbols=");
    option.push(&list);
    run(Command::new("objcopy").arg(option).arg(object))
}

/// Makes the names that an object defines weak, and renames Rust's own.
fn prepare(path: &Path) -> Result<()> {
    let mut object = read(path)?;
    object::weaken(&mut object)?;
    object::set_apart(&mut object)?;
    std::fs::write(path, object).context(|| format!("write {}", path.display()))
}

/// The crate of an object: `scif-0123.scif.4567-cgu.0.rcgu.o` is of `scif`.
fn crate_of(object: &Path) -> String {
    let name = object.file_name().unwrap_or_default().to_string_lossy();
    let end = name.find(['-', '.']).unwrap_or(name.len());
    name[..end].to_string()
}

/// Searches the SDK for paths of this machine. Returns a message that names the file, if there is
/// one.
fn find_path(directory: &Path) -> Result<Option<String>> {
    for path in entries(directory)? {
        if path.is_dir() {
            if let Some(problem) = find_path(&path)? {
                return Ok(Some(problem));
            }
            continue;
        }
        let bytes = std::fs::read(&path).context(|| format!("read {}", path.display()))?;
        if let Some(place) = workspace::place_in(&bytes) {
            return Ok(Some(format!("{place} in {}", workspace::display(&path))));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::base::run_directory::RunDirectory;

    #[test]
    fn objects_are_told_apart_by_their_crate() {
        let of = |name: &str| crate_of(Path::new(name));
        assert_eq!(of("scif-8f3a.scif.1b-cgu.0.rcgu.o"), "scif");
        assert_eq!(of("scif_abi-8f3a.scif_abi.1b-cgu.0.rcgu.o"), "scif_abi");
        assert_eq!(of("libscif.1b-cgu.0.rcgu.o"), "libscif");
    }

    #[test]
    fn sources_are_told_apart_by_the_end_of_their_name() {
        let of = |name: &str| Path::new(name).extension().and_then(Language::of);
        assert_eq!(of("a.c"), Some(Language::C));
        assert_eq!(of("a.cc"), Some(Language::CPlusPlus));
        assert_eq!((of("a.h"), of("a.sh"), of("c")), (None, None, None));
    }

    /// An SDK of empty files in a temporary directory, and, in its `compilers`, compilers that
    /// print their arguments.
    struct Builders(PathBuf);

    impl Builders {
        fn new(name: &str) -> Self {
            let place = format!("skiff-builders-{}-{name}", std::process::id());
            let place = std::env::temp_dir().join(place);
            let write = |file: &str, text: &str| {
                let file = place.join(file);
                make_dir(file.parent().unwrap()).unwrap();
                std::fs::write(&file, text).unwrap();
                file
            };
            for file in ["scif.h", "stddef.h", "c++/v1/vector"] {
                write(&format!("include/{file}"), "");
            }
            for (library, _) in LIBRARIES {
                write(&format!("lib/{library}"), "");
            }
            let compiler = format!(
                "#!/bin/sh\ncase $1 in\n--version) echo \"${{0##*/}}\";;\n\
                 -dumpmachine) echo x86_64-linux-gnu;;\n\
                 -print-file-name=include) echo {}/include;;\n\
                 *) echo \"${{0##*/}} $*\";;\nesac\n",
                place.display()
            );
            let script = std::fs::read_to_string(workspace::root().join(BUILDERS[0])).unwrap();
            let mut executables = vec![write("bin/skiff-cc", &script)];
            executables.push(write("bin/skiff-c++", &script));
            for name in ["gcc", "g++", "clang", "clang++", "clang-19", "clang++-19"] {
                executables.push(write(&format!("compilers/{name}"), &compiler));
            }
            for executable in executables {
                std::fs::set_permissions(executable, PermissionsExt::from_mode(0o755)).unwrap();
            }
            Self(place)
        }

        /// Calls a script with words, and with `SKIFF_CC` unless that is empty. Returns the
        /// arguments that the compiler got, or the script's message.
        fn call(&self, script: &str, compiler: &str, words: &[&str]) -> Result<String> {
            let mut command = Command::new("sh");
            let others = std::env::var("PATH").unwrap();
            let path = format!("{}/compilers:{others}", self.0.display());
            command.env("PATH", path).env_remove("SKIFF_CC");
            if !compiler.is_empty() {
                command.env("SKIFF_CC", compiler);
            }
            command.arg(self.0.join("bin").join(script)).args(words);
            let output = command.output().unwrap();
            let text = |bytes| String::from_utf8(bytes).unwrap();
            match output.status.success() {
                true => Ok(text(output.stdout)),
                false => Err(text(output.stderr).into()),
            }
        }
    }

    impl Drop for Builders {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_script_of_cplusplus_calls_a_compiler_of_cplusplus() {
        let builders = Builders::new("plusplus");
        for (asked, called) in [
            ("", "g++ "),
            ("gcc", "g++ "),
            ("g++", "g++ "),
            ("clang", "clang++ "),
            ("clang-19", "clang++-19 "),
        ] {
            // The C++ compiler takes a C source as C++, too.
            let line = builders.call("skiff-c++", asked, &["-c", "a.c"]).unwrap();
            assert!(line.starts_with(called), "{asked}: {line}");
            assert!(line.contains("/include/c++/v1 "), "{asked}: {line}");
            let line = builders.call("skiff-cc", "", &["-c", "a.c"]).unwrap();
            assert!(line.starts_with("gcc ") && !line.contains("c++"), "{line}");
        }
    }

    #[test]
    fn the_compiler_script_knows_the_language_and_the_inputs() {
        let builders = Builders::new("inputs");
        let call = |words: &[&str]| builders.call("skiff-cc", "", words);
        for words in [
            ["-x", "c++", "a"],
            ["-xc++", "-c", "a"],
            ["-o", "a", "a.cc"],
        ] {
            let line = call(&words).unwrap();
            assert!(line.contains("/include/c++/v1 "), "{words:?}: {line}");
        }
        for words in [
            ["-x", "c", "-"],
            ["-o", "a.cc", "a.c"],
            ["-MF", "a.C", "a.c"],
        ] {
            let line = call(&words).unwrap();
            assert!(!line.contains("c++/v1"), "{words:?}: {line}");
            assert!(line.contains(" -nostdlib "), "{words:?}: {line}");
        }
        // A query goes to the compiler unchanged, unless there is something to compile.
        assert_eq!(call(&["-v"]).unwrap(), "gcc -v\n");
        assert!(call(&["-v", "a.c"]).unwrap().contains(" -nostdlib "));
        for words in [&["-O2"][..], &["-xc"], &["-o", "a"], &[]] {
            assert!(call(words).unwrap_err().message.contains("no input files"));
        }
        let shared = call(&["-shared", "-o", "a.so", "a.c"]).unwrap_err().message;
        assert!(shared.contains("no shared libraries"), "{shared}");
    }

    /// The only file in `lib` whose name begins with that of the wrapper.
    fn wrapper(sdk: &Path) -> PathBuf {
        let is_wrapper = |path: &PathBuf| path.to_string_lossy().contains("/lib/rustc-");
        let found: Vec<_> = entries(&sdk.join("lib")).unwrap();
        let mut found: Vec<_> = found.into_iter().filter(is_wrapper).collect();
        assert_eq!(found.len(), 1);
        found.remove(0)
    }

    /// A directory with an SDK of few files and a toolchain that only says what it was told.
    fn sdk_for_cargo(library: &str) -> (RunDirectory, PathBuf) {
        let directory = RunDirectory::new().unwrap();
        let place = directory.path();
        let write = |file: &str, text: &str| {
            let file = place.join(file);
            make_dir(file.parent().unwrap()).unwrap();
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
        };
        let script = std::fs::read_to_string(workspace::root().join(BUILDERS[1])).unwrap();
        write("sdk/bin/skiff-cargo", &script);
        write("sdk/bin/skiff-cc", "");
        write("sdk/lib/libc.a", library);
        write("toolchain/lib/rustlib/src/rust/library/Cargo.lock", "");
        write("toolchain/bin/rustc", "#!/bin/sh\necho \"${0%/bin/*}\"\n");
        let says = "#!/bin/sh\necho \"$RUSTC_WORKSPACE_WRAPPER\"\n";
        write("toolchain/bin/cargo", says);
        let sdk = place.join("sdk");
        seal(&sdk).unwrap();
        (directory, sdk)
    }

    #[test]
    fn cargo_sees_by_the_wrapper_that_the_sdk_is_another_one() {
        let name =
            |(_, sdk): &(RunDirectory, PathBuf)| wrapper(sdk).file_name().unwrap().to_os_string();
        let (old, same) = (sdk_for_cargo("old"), sdk_for_cargo("old"));
        assert_eq!(name(&old), name(&same), "wherever it is");
        assert_ne!(name(&old), name(&sdk_for_cargo("new")));

        let (directory, sdk) = old;
        let mut command = Command::new(sdk.join("bin/skiff-cargo"));
        command
            .env("SKIFF_TOOLCHAIN", directory.path().join("toolchain"))
            .env_remove("RUSTC_WORKSPACE_WRAPPER")
            .arg("build");
        let output = command.output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        assert_eq!(Path::new(told.trim()), wrapper(&sdk));
        let words = Command::new(wrapper(&sdk)).args(["echo", "a  b"]).output();
        assert_eq!(words.unwrap().stdout, b"a  b\n");
        std::fs::remove_file(wrapper(&sdk)).unwrap();
        assert!(!command.output().unwrap().status.success());
    }

    /// What the wrapper is for: cargo builds again when its path changes, and only then.
    #[test]
    fn cargo_builds_again_with_another_wrapper() {
        let directory = RunDirectory::new().unwrap();
        let package = directory.path().join("package");
        make_dir(&package.join("src")).unwrap();
        let manifest = "[package]\nname = \"one\"\nedition = \"2024\"\n[workspace]\n";
        std::fs::write(package.join("Cargo.toml"), manifest).unwrap();
        std::fs::write(package.join("src/main.rs"), "fn main() {}\n").unwrap();
        let build = |sdk: &Path| {
            let mut cargo = cargo::clean(Command::new("cargo"));
            cargo
                .current_dir(&package)
                .args(["build", "--quiet", "--offline"])
                .env("RUSTC_WORKSPACE_WRAPPER", wrapper(sdk))
                .env("CARGO_TARGET_DIR", package.join("target"));
            run(&mut cargo).unwrap();
            let file = std::fs::metadata(package.join("target/debug/one")).unwrap();
            std::os::unix::fs::MetadataExt::ino(&file)
        };
        let (_old, old) = sdk_for_cargo("old");
        let (_new, new) = sdk_for_cargo("new");
        let first = build(&old);
        assert_eq!(build(&old), first);
        assert_ne!(build(&new), first);
    }

    #[test]
    fn the_compiler_script_names_no_place() {
        let script = std::fs::read_to_string(workspace::root().join(BUILDERS[0])).unwrap();
        let code = script
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'));
        for line in code {
            // No absolute paths but the null device; `$sdk/…` and patterns are not absolute.
            let words = line.replace("/dev/null", "");
            let absolute = |word: &str| word.starts_with('/') && word.len() > 3;
            assert!(!words.split_whitespace().any(absolute), "{line}");
        }
    }
}
