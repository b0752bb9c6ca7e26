//! Runs the rows of RDMA verbs in the place `sim`, a line for each row of the first seed and for
//! each row that fails with another one; the commands against a device in this process; and every
//! change of state against the rules. An argument is the number of seeds.

mod contexts;
mod device;

use std::process::ExitCode;

use conformance::verbs::changes::ByCommands;
use conformance::verbs::run::{Totals, count, run};
use conformance::verbs::{commands, transitions};
use contexts::Simulated;

/// Number of seeds. Each has its own order of stores, and its own buses without atomic operations.
const SEEDS: u64 = 12;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let seeds = words.iter().find_map(|word| word.parse().ok());
    let only: Vec<String> = words
        .into_iter()
        .filter(|word| word.parse::<u64>().is_err() && !word.starts_with('-'))
        .collect();
    let mut all = Totals::default();
    for seed in 0..seeds.unwrap_or(SEEDS) {
        let mut driver = Simulated::new(seed);
        let totals = run(&mut driver, seed % 3, &only, &mut |line| {
            if seed == 0 {
                println!("{line}");
            } else if line.contains(": FAIL ") {
                println!("seed {seed}: {line}");
            }
        });
        if totals.rows() != count() {
            println!("seed {seed}: {totals:?}");
            return ExitCode::from(4);
        }
        all.failed += totals.failed;
        all.passed += totals.passed;
    }
    let mut print = |line: &str| println!("{line}");
    if only.is_empty() {
        let changes = transitions::run("core", &mut device::Rules, &mut print);
        let mut local = device::Local::default();
        let by_command = transitions::run("device", &mut ByCommands::new(&mut local), &mut print);
        let commands = commands::run("device", &mut device::Local::default(), &mut print);
        if let Err(what) = device::numbers() {
            println!("numbers: {what}");
            all.failed += 1;
        }
        all.failed += changes.failed + by_command.failed + commands.failed;
    }
    ExitCode::from(u8::from(all.failed > 0 || all.passed == 0))
}
