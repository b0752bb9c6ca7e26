//! The simulator as a program: `sim <first seed> <seeds> [threads]`. Prints progress to standard
//! error; prints the broken rules, the faults by kind and one closing line to standard output. The
//! exit status is 1 when a rule was broken, and 2 when the arguments are invalid.

use std::process::ExitCode;

use sim::runner::{play_all, show_progress};

/// Parses the arguments: first seed, number of seeds, threads.
fn arguments() -> Option<(u64, u64, usize)> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).map(|word| word.parse::<u64>());
    let (first, seeds) = (number(0)?.ok()?, number(1)?.ok()?);
    let threads = match number(2) {
        Some(threads) => usize::try_from(threads.ok()?).ok()?,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    (words.len() <= 3).then_some((first, seeds, threads))
}

fn main() -> ExitCode {
    let Some((first, seeds, threads)) = arguments() else {
        eprintln!("usage: sim <first seed> <number of seeds> [threads]");
        return ExitCode::from(2);
    };
    // A panic is reported as a failure of its world, with the events before it, so the hook need
    // not print it. In a build whose panics abort the program, the hook must print it.
    if cfg!(panic = "unwind") {
        std::panic::set_hook(Box::new(|_| {}));
    }
    let begun = std::time::Instant::now();
    let total = play_all(
        first..first.saturating_add(seeds),
        threads,
        |total, elapsed| show_progress(seeds, total, elapsed),
        |failure| println!("{failure}\nrepeat it: make sim SEED={}", failure.seed),
    );
    show_progress(seeds, &total, begun.elapsed());
    print!("{}", total.faults);
    println!(
        "{:>12}  times a node was lost to others in all",
        total.faults.node_losses()
    );
    println!(
        "sim: {} steps, {} faults, {} violations",
        total.steps,
        total.faults.total(),
        total.violations
    );
    ExitCode::from(u8::from(total.violations > 0))
}
