//! Details of the language and the builtins, by scripts as in `scripts.rs`.

mod shell;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

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
    (
        "sh -c 'exit 130'; echo $?; (exit 130) | cat; echo on",
        "130\non\n",
        0,
    ),
    (
        "sh -c 'exit 130' | cat; x=$(sh -c 'exit 130'); echo $?",
        "130\n",
        0,
    ),
    (
        "command exec 3>/dev/null; command exec -- 4>&3; exec --; { echo a >&4; } && echo b",
        "b\n",
        0,
    ),
    (
        "printf 'a\\0b\\n' | { read x; printf '%s' \"$x\" | wc -c; }",
        "2\n",
        0,
    ),
    ("exec -- echo a; echo b", "a\n", 0),
    (
        "printf -- '%s\n' x; export -- A=1; readonly -- B=2; echo $A$B; unset -- A; unset -v -- A; \
         echo ${A-none}; eval -- echo c; command -v -- cd; (exit -- 3); echo $?",
        "x\n12\nnone\nc\ncd\n3\n",
        0,
    ),
    (
        "echo -- a; set -- -- b; echo $1 $2; [ -- = -- ]; echo $?",
        "-- a\n-- b\n0\n",
        0,
    ),
    ("kill -- -99999999; kill -0 -- $$; echo $?", "0\n", 0),
    (
        "f() { x=1; (local x=2); x=3; }; f; echo $x; g() { local y=1; echo $(local y=2; echo $y); \
         echo $y; }; y=0; g; echo $y",
        "3\n2\n1\n0\n",
        0,
    ),
    (
        "true & p=$!; while test -d /proc/$p && ! grep -q '^State:.Z' /proc/$p/status; do sleep \
         0.01; done; sleep 0 & q=$!; test -d /proc/$p || echo reaped; wait $p; echo $?; wait $q; \
         echo $?",
        "reaped\n0\n0\n",
        0,
    ),
];

#[test]
fn scripts_give_the_output_and_status_expected() {
    shell::check(SCRIPTS);
}

#[test]
fn a_broken_pipe_gives_no_message() {
    let result = shell(&["-c", "while :; do echo y; done | true; echo end"], "");
    assert_eq!(String::from_utf8_lossy(&result.stdout), "end\n");
    assert_eq!(String::from_utf8_lossy(&result.stderr), "");
}

#[test]
fn an_interrupted_program_ends_the_script_by_the_same_signal() {
    // This test may have been started with the signal ignored, as background jobs of scripts are.
    let script = "sh -c 'kill -INT $$'; echo after";
    let result = Command::new("env")
        .args([
            "--default-signal=INT",
            env!("CARGO_BIN_EXE_sh"),
            "-c",
            script,
        ])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&result.stdout), "");
    assert_eq!(result.status.signal(), Some(2));
}

#[test]
fn parameters_may_come_with_a_script_from_standard_input() {
    let result = shell(&["-s", "a", "b"], "echo $# $1 $2\n");
    assert_eq!(String::from_utf8_lossy(&result.stdout), "2 a b\n");
}

#[test]
fn kill_takes_a_group_behind_dashes() {
    let result = shell(&["-c", "kill -- -99999999"], "");
    let errors = String::from_utf8_lossy(&result.stderr);
    assert!(errors.contains("kill: -99999999: "), "{errors}");
}

#[test]
fn a_file_without_permission_hides_no_program() {
    let directory = std::env::temp_dir().join(format!("sh-path-{}", std::process::id()));
    for (name, mode) in [("first", 0o644), ("second", 0o755)] {
        std::fs::create_dir_all(directory.join(name)).unwrap();
        let file = directory.join(name).join("program");
        std::fs::write(&file, format!("echo {name}")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let at = directory.display();
    let script = format!("PATH={at}/first:{at}/second; program; PATH={at}/first; program");
    let result = shell(&["-c", &script], "");
    assert_eq!(String::from_utf8_lossy(&result.stdout), "second\nfirst\n");
    std::fs::remove_dir_all(&directory).unwrap();
}
