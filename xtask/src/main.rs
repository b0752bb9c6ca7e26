//! `cargo xtask <command> [KEY=VALUE ...]`: the one tool behind the Makefile.
//!
//! This file is the table of contents: one line per command, each in a module of its own. What the
//! commands share is below them: the toolchain, the image, the PCI fabric and the launcher.

mod behaviour;
#[path = "../../tests/bench/runner/src/lib.rs"]
mod bench;
mod build;
mod clean;
#[path = "../../tests/harness/src/command/conformance.rs"]
mod conformance;
#[path = "../../tests/harness/src/command/console.rs"]
mod console;
#[path = "../../tests/harness/src/command/demo.rs"]
mod demo;
mod doc;
#[path = "../../tests/harness/src/network/fabric.rs"]
mod fabric;
#[path = "../../tests/harness/src/network/faults.rs"]
mod faults;
mod fuzz;
mod image;
mod redox;
#[path = "../../tests/harness/src/command/run.rs"]
mod run;
mod sanitize;
mod sdk;
mod setup;
mod sim;
#[path = "../../tests/harness/src/command/soak.rs"]
mod soak;
mod test;
mod tidy;

#[path = "../../tests/harness/src/node/accel.rs"]
mod accel;
#[path = "../../tests/harness/src/node/page_table_audit.rs"]
mod audit;
mod columns;
mod config;
mod elf;
mod initfs;
#[path = "../../tests/harness/src/node/keyboard.rs"]
mod keyboard;
#[path = "../../tests/harness/src/node/launch.rs"]
mod launch;
#[path = "../../tests/harness/src/suite/console_protocol.rs"]
mod lines;
#[path = "../../tests/harness/src/node/logs.rs"]
mod logs;
#[path = "../../tests/harness/src/node/machine.rs"]
mod machine;
#[path = "../../tests/harness/src/node/monitor.rs"]
mod monitor;
#[path = "../../tests/harness/src/command/node_kills.rs"]
mod node_kills;
#[path = "../../tests/harness/src/base/packages.rs"]
mod packages;
#[path = "../../tests/harness/src/node/screen_text.rs"]
mod picture;
#[path = "../../tests/harness/src/base/report.rs"]
mod report;
#[path = "../../tests/harness/src/suite/suite_run.rs"]
mod script;
#[path = "../../tests/harness/src/command/serve.rs"]
mod serve;
#[path = "../../tests/harness/src/base/settings.rs"]
mod settings;
#[path = "../../tests/harness/src/network/shared_memory.rs"]
mod shared_memory;
#[path = "../../tests/harness/src/node/freeze.rs"]
mod standstill;
#[path = "../../tests/harness/src/command/terminal.rs"]
mod terminal;
mod toolchain;
#[path = "../../tests/harness/src/node/trace.rs"]
mod trace;
#[path = "../../tests/harness/src/base/workspace.rs"]
mod workspace;

use report::Result;
use settings::Settings;
use std::process::ExitCode;

/// A command of this tool: its name, what it does in one line, the settings it reads with a blank
/// between two, and its entry.
struct Command {
    name: &'static str,
    help: &'static str,
    settings: &'static str,
    run: fn(&Settings) -> Result<()>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "run",
        help: "boot host and card; shell, demo without a terminal, or scripts",
        settings: "SCRIPT SUITE NODES FILES MEM TIMEOUT BOOT BUILD ACCEL PIN",
        run: run::command,
    },
    Command {
        name: "demo",
        help: "boot two nodes, play the demo, power off",
        settings: "NODES FILES MEM TIMEOUT BOOT BUILD ACCEL PIN",
        run: demo::command,
    },
    Command {
        name: "console",
        help: "attach to a running node",
        settings: "NODE RUN",
        run: console::command,
    },
    Command {
        name: "test",
        help: "everything continuous integration runs",
        settings: "ONLY FILES MEM TIMEOUT BOOT BUILD ACCEL PIN",
        run: test::command,
    },
    Command {
        name: "bench",
        help: "measure ours beside limits and peers",
        settings: "ONLY REPS QUICK PIN",
        run: bench::command,
    },
    Command {
        name: "image",
        help: "make the bootable ISO image",
        settings: "FILES",
        run: image::command,
    },
    Command {
        name: "build",
        help: "build kernel and programs, pack initfs",
        settings: "FILES BUILD",
        run: build::command,
    },
    Command {
        name: "sdk",
        help: "headers, libraries and skiff-cc for C programs",
        settings: "",
        run: sdk::command,
    },
    Command {
        name: "doc",
        help: "documentation of the libraries as web pages",
        settings: "",
        run: doc::command,
    },
    Command {
        name: "setup",
        help: "install missing tools and toolchain",
        settings: "",
        run: setup::command,
    },
    Command {
        name: "tidy",
        help: "check the rules no compiler checks",
        settings: "",
        run: tidy::command,
    },
    Command {
        name: "check-redox",
        help: "check the programs and files for a Redox installation",
        settings: "",
        run: redox::command,
    },
    Command {
        name: "sim",
        help: "run the protocol simulator",
        settings: "SEED SEEDS",
        run: sim::command,
    },
    Command {
        name: "soak",
        help: "random load on three nodes while programs and nodes are killed",
        settings: "MINUTES SEED NODES FILES MEM TIMEOUT BOOT BUILD ACCEL PIN",
        run: soak::command,
    },
    Command {
        name: "fuzz",
        help: "run the fuzz targets",
        settings: "TARGET SECONDS INPUT",
        run: fuzz::command,
    },
    Command {
        name: "sanitize",
        help: "native tests under the sanitizers",
        settings: "KIND",
        run: sanitize::command,
    },
    Command {
        name: "node-kills",
        help: "cut a node's power again and again in mid-transfer",
        settings: "COUNT FILES MEM TIMEOUT BOOT BUILD ACCEL PIN",
        run: node_kills::command,
    },
    Command {
        name: "conformance",
        help: "run the conformance suite alone: sim, loopback, pair",
        settings: "ONLY FILES MEM TIMEOUT BOOT BUILD ACCEL PIN",
        run: conformance::command,
    },
    Command {
        name: "behaviour",
        help: "write docs/behaviour.md from the suite's data",
        settings: "",
        run: behaviour::command,
    },
    Command {
        name: "fabric",
        help: "run only the PCI fabric server",
        settings: "NODES",
        run: serve::command,
    },
    Command {
        name: "clean",
        help: "remove everything that was built: all of target/",
        settings: "",
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
    (command.run)(&Settings::parse(name, command.settings, rest)?)
}

fn print_help() {
    println!("usage: cargo xtask <command> [KEY=VALUE ...]\n\ncommands:");
    for command in COMMANDS {
        println!("  {:11} {}", command.name, command.help);
        if !command.settings.is_empty() {
            println!("  {:11}   reads {}", "", command.settings);
        }
    }
    println!(
        "\nsettings (what holds without them in brackets):\n{}",
        settings::help()
    );
}
