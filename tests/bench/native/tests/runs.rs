//! The program runs all its tests, and measures what the benchmark's table asks of it. Times do not
//! matter here: each test has a millisecond.

use std::collections::BTreeSet;
use std::process::Command;

/// Returns the names and sizes in the table's columns of tests that run without QEMU, as the
/// program prints them.
fn asked() -> BTreeSet<String> {
    let table = include_str!("../../runner/src/table.txt");
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    rows.flat_map(|row| row.split(" | ").skip(2).take(2))
        .flat_map(|column| column.split(", "))
        .filter_map(|value| {
            let words: Vec<&str> = value.split(' ').collect();
            let at = words.iter().position(|word| word.starts_with("native_"))?;
            let size = words[at + 1];
            let bytes = match size.strip_suffix('K') {
                Some(kibi) => kibi.parse::<u64>().unwrap() << 10,
                None => match size.strip_suffix('M') {
                    Some(mebi) => mebi.parse::<u64>().unwrap() << 20,
                    None => size.parse().unwrap(),
                },
            };
            Some(format!("{{\"test\":\"{}\",\"size\":{bytes},", words[at]))
        })
        .collect()
}

#[test]
fn all_groups_run_and_measure_what_the_table_asks_for() {
    let output = Command::new(env!("CARGO_BIN_EXE_bench-native"))
        .args(["--json", "--repetitions", "1", "--budget-ms", "1"])
        .args(["--test", "rtt,rma,stream,connect,base,st,alone"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    let measured = String::from_utf8(output.stdout).unwrap();
    let asked = asked();
    assert!(asked.len() > 20, "the table asks for {asked:?}");
    for start in asked {
        let mut lines = measured.lines();
        assert!(
            lines.any(|line| line.starts_with(&start)),
            "no line {start}"
        );
    }
}
