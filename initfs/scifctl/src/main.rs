//! `scifctl`: what the `scif:` scheme knows of nodes, ports and connections, for people and
//! scripts.
//!
//! The tables are the scheme's own text files; this program finds them, puts titles on them and
//! picks single counters.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use runtime::{Result, env, eprintln, fs, print, println};

runtime::main!(main);

const USAGE: &str = "\
usage: scifctl                   node, nodes and connections at a glance
       scifctl nodes             nodes that are online
       scifctl ports             ports in use on this node
       scifctl connections       connections of this node
       scifctl stats [NAME...]   all counters, or the values of the named ones
       scifctl version";

/// Wrong arguments.
const STATUS_USAGE: i32 = 2;

fn main() -> i32 {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        [] => overview(),
        [file @ ("nodes" | "ports" | "connections" | "stats" | "version")] => show(file),
        ["stats", ref names @ ..] => return counters(names),
        _ => {
            eprintln!("{USAGE}");
            return STATUS_USAGE;
        }
    };
    match result {
        Ok(()) => 0,
        Err(status) => status,
    }
}

fn read(file: &str) -> Result<String, i32> {
    let path = alloc::format!("/scheme/scif/{file}");
    fs::read_to_string(&path).map_err(|error| {
        eprintln!("scifctl: {path}: {error}; is micd running?");
        1
    })
}

fn show(file: &str) -> Result<(), i32> {
    print!("{}", read(file)?);
    Ok(())
}

fn overview() -> Result<(), i32> {
    let nodes = read("nodes")?;
    let connections = read("connections")?;
    print!("{}\nnodes\n{}", read("version")?, indented(&nodes));
    if connections.lines().count() > 1 {
        print!("\nconnections\n{}", indented(&connections));
    } else {
        println!("\nno connections");
    }
    Ok(())
}

fn indented(text: &str) -> String {
    text.lines()
        .map(|line| alloc::format!("  {line}\n"))
        .collect()
}

/// Prints the values of the named counters, one a line: what a script compares.
fn counters(names: &[&str]) -> i32 {
    let text = match read("stats") {
        Ok(text) => text,
        Err(status) => return status,
    };
    let mut status = 0;
    for name in names {
        let value = text.lines().skip(1).find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some(*name)).then(|| words.next().unwrap_or("?"))
        });
        match value {
            Some(value) => println!("{value}"),
            None => {
                eprintln!("scifctl: no counter is named {name}; `scifctl stats` lists them");
                status = 1;
            }
        }
    }
    status
}
