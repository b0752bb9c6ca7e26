//! Calls of cargo and other tools of Rust.

use crate::base::workspace;
use std::process::Command;

/// A call of the cargo that the user has, without what the cargo that runs this tool put into the
/// environment; in the project's root.
pub fn in_project() -> Command {
    let mut command = clean(Command::new("cargo"));
    command.current_dir(workspace::root());
    command
}

/// Removes what the cargo that runs this tool put into the environment for its own children.
pub fn clean(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let ours = text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_");
        let flags = text.starts_with("CARGO_TARGET_") && text != "CARGO_TARGET_DIR";
        let named = [
            "CARGO",
            "RUSTC",
            "RUSTFLAGS",
            "CARGO_ENCODED_RUSTFLAGS",
            "RUSTUP_TOOLCHAIN",
        ];
        if ours || flags || text == "LD_LIBRARY_PATH" || named.contains(&text.as_ref()) {
            command.env_remove(&name);
        }
    }
    command
}
