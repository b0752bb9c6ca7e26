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

/// Runs scripts, each with the output and the status that it has to give.
pub fn check(scripts: &[(&str, &str, i32)]) {
    let mut failed = 0;
    for (script, output, status) in scripts {
        let result = shell(&["-c", script], "");
        let text = String::from_utf8_lossy(&result.stdout);
        if text != *output || result.status.code() != Some(*status) {
            failed += 1;
            eprintln!(
                "script:   {script}\nexpected: {output:?} {status}\ngot:      {text:?} {:?}\n\
                 errors:   {}",
                result.status.code(),
                String::from_utf8_lossy(&result.stderr)
            );
        }
    }
    assert_eq!(failed, 0, "scripts failed; see above");
}
