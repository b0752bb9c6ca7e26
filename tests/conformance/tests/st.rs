//! Runs the rows of Scheduled Transfers in the place `sim`, a line for each row of the first seed
//! and for each row that fails with another one. An argument is the number of seeds.

mod transfers;

use std::process::ExitCode;

use conformance::st::run::run;
use transfers::Simulated;

/// Number of seeds. Each has its own order of stores, and its own kind of memory between the ends.
const SEEDS: u64 = 12;

fn main() -> ExitCode {
    let seeds = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let mut failed = 0;
    for seed in 0..seeds.unwrap_or(SEEDS) {
        let mut driver = Simulated::new(seed);
        let totals = run(&mut driver, &[], &mut |line| {
            if seed == 0 {
                println!("{line}");
            } else if line.contains(": FAIL ") {
                println!("seed {seed}: {line}");
            }
        });
        failed += totals.failed;
        if totals.rows() != 90 || totals.passed == 0 {
            println!("seed {seed}: {totals:?}");
            return ExitCode::from(4);
        }
    }
    ExitCode::from(u8::from(failed > 0))
}
