//! Details of the language and the builtins, by scripts as in `scripts.rs`.

mod shell;

use shell::shell;

/// The script, its output and its status.
const SCRIPTS: &[(&str, &str, i32)] = &[
    (
        "while :; do echo y; done | head -n 1; x=$(yes | { while :; do echo y; done | head -n 1; \
         }); echo $x",
        "y\ny\n",
        0,
    ),
    (
        "set -o pipefail; { while :; do command -v echo; done; echo no >&2; } | head -n 1; echo $?",
        "echo\n141\n",
        0,
    ),
];

#[test]
fn scripts_give_the_output_and_status_expected() {
    let mut failed = 0;
    for (script, output, status) in SCRIPTS {
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

#[test]
fn a_broken_pipe_gives_no_message() {
    let result = shell(&["-c", "while :; do echo y; done | true; echo end"], "");
    assert_eq!(String::from_utf8_lossy(&result.stdout), "end\n");
    assert_eq!(String::from_utf8_lossy(&result.stderr), "");
}
