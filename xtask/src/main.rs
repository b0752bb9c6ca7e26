//! `cargo xtask <command> [KEY=VALUE ...]`: the one tool behind the Makefile.
//!
//! This file is the table of contents: one line per command, each in a module of its own. What the
//! commands share is below them: the toolchain, the image, the PCI fabric and the launcher.

mod behaviour;
mod bench;
mod build;
mod clean;
mod conformance;
mod console;
mod demo;
mod fabric;
mod faults;
mod fuzz;
mod image;
mod redox;
mod run;
mod sanitize;
mod sdk;
mod setup;
mod sim;
mod soak;
mod test;
mod tidy;

mod accel;
mod audit;
mod config;
mod elf;
mod initfs;
mod launch;
mod lines;
mod machine;
mod monitor;
mod node_kills;
mod packages;
mod picture;
mod report;
mod script;
mod serve;
mod settings;
mod terminal;
mod toolchain;
mod trace;
mod workspace;

use report::Result;
use settings::Settings;
use std::process::ExitCode;

/// A command of this tool: its name, what it does in one line, and its entry.
struct Command {
    name: &'static str,
    help: &'static str,
    run: fn(&Settings) -> Result<()>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "run",
        help: "boot host and card; shell, demo or SCRIPT=",
        run: run::command,
    },
    Command {
        name: "demo",
        help: "boot two nodes, play the demo, power off",
        run: demo::command,
    },
    Command {
        name: "console",
        help: "attach to a running node: NODE=1",
        run: console::command,
    },
    Command {
        name: "test",
        help: "everything continuous integration runs",
        run: test::command,
    },
    Command {
        name: "bench",
        help: "measure ours beside limits and peers: REPS= QUICK=1 ONLY=",
        run: bench::command,
    },
    Command {
        name: "image",
        help: "make the bootable ISO image",
        run: image::command,
    },
    Command {
        name: "build",
        help: "build kernel and programs, pack initfs",
        run: build::command,
    },
    Command {
        name: "sdk",
        help: "headers, libraries and skiff-cc for C programs",
        run: sdk::command,
    },
    Command {
        name: "setup",
        help: "install missing tools and toolchain",
        run: setup::command,
    },
    Command {
        name: "tidy",
        help: "check the rules no compiler checks",
        run: tidy::command,
    },
    Command {
        name: "check-redox",
        help: "check the programs and files for a Redox installation",
        run: redox::command,
    },
    Command {
        name: "sim",
        help: "run the protocol simulator: SEEDS= SEED=",
        run: sim::command,
    },
    Command {
        name: "soak",
        help: "random load on three nodes while programs and nodes are killed: MINUTES= SEED=",
        run: soak::command,
    },
    Command {
        name: "fuzz",
        help: "run the fuzz targets: TARGET= SECONDS= INPUT=",
        run: fuzz::command,
    },
    Command {
        name: "sanitize",
        help: "native tests under the sanitizers: KIND=address|thread",
        run: sanitize::command,
    },
    Command {
        name: "node-kills",
        help: "cut a node's power again and again in mid-transfer: COUNT=",
        run: node_kills::command,
    },
    Command {
        name: "conformance",
        help: "run the conformance suite alone: ONLY=sim|loopback|pair",
        run: conformance::command,
    },
    Command {
        name: "behaviour",
        help: "write docs/behaviour.md from the suite's data",
        run: behaviour::command,
    },
    Command {
        name: "fabric",
        help: "run only the PCI fabric server: NODES=2",
        run: serve::command,
    },
    Command {
        name: "clean",
        help: "remove everything that was built",
        run: clean::command,
    },
];

fn main() -> ExitCode {
    match dispatch(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.message.is_empty() {
                eprintln!("error: {}", failure.message);
            }
            ExitCode::from(failure.status)
        }
    }
}

fn dispatch(words: Vec<String>) -> Result<()> {
    let Some((name, rest)) = words.split_first() else {
        print_help();
        return Ok(());
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print_help();
        return Ok(());
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        print_help();
        return Err(format!("unknown command '{name}': use one of those above").into());
    };
    if rest
        .iter()
        .any(|word| matches!(word.as_str(), "help" | "--help" | "-h"))
    {
        print_help();
        return Ok(());
    }
    (command.run)(&Settings::parse(rest)?)
}

fn print_help() {
    println!("usage: cargo xtask <command> [KEY=VALUE ...]\n\ncommands:");
    for command in COMMANDS {
        println!("  {:11} {}", command.name, command.help);
    }
    println!("\nsettings:\n{}", settings::HELP);
}
