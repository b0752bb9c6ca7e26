//! The real binary on the development machine.

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs the shell with these arguments and this input.
pub fn shell(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sh"))
        .args(arguments)
        .env("LANG", "C")
        .env_remove("IFS")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the shell starts");
    let _ = child
        .stdin
        .take()
        .map(|mut pipe| pipe.write_all(input.as_bytes()));
    child.wait_with_output().expect("the shell ends")
}
