//! `sh`: the shell of the image. See the library for how it works; `help` lists its commands.
#![cfg_attr(target_os = "redox", no_std, no_main)]

#[cfg(target_os = "redox")]
extern crate alloc;

#[cfg(not(target_os = "redox"))]
mod host;
#[cfg(target_os = "redox")]
mod redox;

#[cfg(target_os = "redox")]
runtime::main!(main);

#[cfg(target_os = "redox")]
fn main() -> i32 {
    runtime::path::keep_colons();
    let arguments: alloc::vec::Vec<_> = runtime::env::args().collect();
    let inside = arguments.get(1).is_some_and(|word| word == "--inside");
    sh::cli::run(redox::Redox::new(inside), runtime::env::vars(), &arguments)
}

/// Runs the shell on the development machine, for tests of scripts.
#[cfg(not(target_os = "redox"))]
fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let status = sh::cli::run(
        host::Host::default(),
        std::env::vars().collect(),
        &arguments,
    );
    std::process::exit(status);
}
