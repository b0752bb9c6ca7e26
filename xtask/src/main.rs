//! `cargo xtask <command> [KEY=VALUE ...]`: the tool behind the Makefile.
//!
//! This file is the table of contents, with one line for each command. The code that builds things
//! is in the modules here; the code that runs nodes is in the crate `harness`, which gets the
//! image from here; the code that measures is in `bench-runner`.

mod app;
mod behaviour;
mod build;
mod clean;
mod counts;
mod doc;
mod fuzz;
mod image;
mod redox;
mod sanitize;
mod sdk;
mod setup;
mod sim;
mod test;
mod tidy;

mod columns;
mod config;
mod elf;
mod files;
mod initfs;
mod layers;
mod modules;
mod object;
mod pages;
mod plusplus;
mod progress;
mod toolchain;

use harness::base::report::Result;
use harness::base::settings::{self, Settings};
use harness::command::{conformance, console, demo, node_kills, run, serve, soak, start};
use image::ImageBuilder;
use std::process::ExitCode;

/// A command of this tool: its name, its description in one line, the settings that it reads,
/// separated by blanks, and its function.
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
        run: |settings| run::command(&ImageBuilder, settings),
    },
    Command {
        name: "demo",
        help: "boot two nodes, play the demo, power off",
        settings: "NODES FILES MEM TIMEOUT BOOT BUILD ACCEL PIN",
        run: |settings| demo::command(&ImageBuilder, settings),
    },
    Command {
        name: "console",
        help: "attach to a running node",
        settings: "NODE RUN",
        run: console::command,
    },
    Command {
        name: "start",
        help: "boot a node of a running machine that is off",
        settings: "NODE RUN",
        run: start::command,
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
        run: |settings| bench_runner::command(&ImageBuilder, settings),
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
        name: "app",
        help: "build a Rust program outside the project for the image",
        settings: "APP",
        run: app::command,
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
        name: "counts",
        help: "count lines, fields, and imports against the layers",
        settings: "DIR",
        run: counts::command,
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
        run: |settings| soak::command(&ImageBuilder, settings),
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
        run: |settings| node_kills::command(&ImageBuilder, settings),
    },
    Command {
        name: "conformance",
        help: "run the conformance suite alone: sim, loopback, pair",
        settings: "ONLY FILES MEM TIMEOUT BOOT BUILD ACCEL PIN",
        run: |settings| conformance::command(&ImageBuilder, settings),
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

#[cfg(test)]
mod tests {
    use super::*;
    use harness::base::workspace;
    use std::collections::BTreeSet;

    /// The targets of the Makefile are the commands here.
    #[test]
    fn the_makefile_has_all_commands() {
        let text = std::fs::read_to_string(workspace::root().join("Makefile")).unwrap();
        let targets = text
            .lines()
            .find_map(|line| line.strip_prefix("COMMANDS := "));
        let targets: BTreeSet<_> = targets.unwrap().split_whitespace().collect();
        assert_eq!(
            targets,
            COMMANDS.iter().map(|command| command.name).collect()
        );
    }

    /// Every setting that a command reads exists, and every setting is read by a command.
    #[test]
    fn commands_and_settings_agree() {
        let read: BTreeSet<_> = COMMANDS
            .iter()
            .flat_map(|command| command.settings.split_whitespace())
            .collect();
        assert_eq!(read, settings::keys().collect());
    }
}
