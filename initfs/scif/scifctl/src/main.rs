//! `scifctl`: what the SCIF daemons know of nodes, connections, registered memory and limits, for
//! people and scripts.
//!
//! The tables are the daemons' own text files; this program finds them, names the programs behind
//! process numbers, aligns the columns and picks single values.
#![cfg_attr(target_os = "redox", no_std, no_main)]

#[cfg(target_os = "redox")]
extern crate alloc;

#[cfg(target_os = "redox")]
mod program {
    use alloc::collections::BTreeMap;
    use alloc::string::String;
    use alloc::vec::Vec;

    use runtime::fs::{self, File};
    use runtime::io::Read;
    use runtime::time::{Duration, Instant, sleep};
    use runtime::{env, eprintln, print, println};
    use scifctl::holdings::{self, Sources};
    use scifctl::table::Table;
    use scifctl::trace;
    use syscall::error::{EACCES, EBUSY, EINVAL, EPERM};

    runtime::main!(main);

    const USAGE: &str = "\
usage: scifctl                      node, nodes and connections at a glance
       scifctl nodes                nodes that are online or lost
       scifctl cards                Xeon Phi cards of this host (other nodes boot by themselves)
       scifctl boot|reset|shutdown CARD   commands one, by its node's number (root)
       scifctl ports                ports in use on this node
       scifctl connections          connections of this node
       scifctl windows              registered memory, of this node and of its peers
       scifctl mappings             what programs have mapped of it
       scifctl pins                 memory pinned where it is
       scifctl programs [PID]       what each program holds: ports, connections, mappings, pins
       scifctl stats [NAME...]      all counters, or the values of the named ones
       scifctl limits               limits
       scifctl limits NAME VALUE    sets one (root)
       scifctl trace [COUNT]        the driver's latest events
       scifctl trace old [COUNT]    those of the driver that ran before it
       scifctl peers [watch]        nodes that are there; with watch also those that come and go
       scifctl wait NODE [SECONDS]  waits until a node is online (60 s; then status 1)
       scifctl version";

    const SCIF: &str = "/scheme/scif";
    const TRACE: &str = "/scheme/log/trace/micd";
    const PROCESSES: &str = "/scheme/proc/ps";

    /// How long `wait` waits by default.
    const WAIT_SECONDS: &str = "60";
    /// Time between two looks whether a node is online.
    const WAIT_STEP: Duration = Duration::from_millis(50);

    /// Wrong arguments.
    const STATUS_USAGE: i32 = 2;

    fn main() -> i32 {
        let arguments: Vec<String> = env::args().skip(1).collect();
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let result = match words[..] {
            [] => overview(),
            [
                file @ ("nodes" | "cards" | "ports" | "connections" | "windows" | "mappings"
                | "stats"),
            ] => scif(file).and_then(|text| show(Table::parse(&text))),
            [command @ ("boot" | "reset" | "shutdown"), card] => command_card(command, card),
            ["version"] => scif("version").map(|text| print!("{text}")),
            ["programs"] => programs(None),
            ["programs", pid] => match pid.parse() {
                Ok(pid) => programs(Some(pid)),
                Err(_) => {
                    eprintln!("scifctl: {pid} is no process number; `scifctl programs` lists them");
                    Err(STATUS_USAGE)
                }
            },
            ["pins"] => scif("pins").and_then(|text| show(Table::parse(&text))),
            ["stats", ref names @ ..] => return counters(names),
            ["limits"] => {
                scif("limits").and_then(|text| show(Table::with_columns("limit value", &text)))
            }
            ["limits", name, value] => set_limit(name, value),
            ["trace", ref rest @ ..] => trace(rest),
            ["peers"] => peers(false),
            ["peers", "watch"] => peers(true),
            ["wait", node] => wait(node, WAIT_SECONDS),
            ["wait", node, seconds] => wait(node, seconds),
            ["limits", name] => {
                eprintln!("scifctl: limits {name}: the new VALUE is missing");
                return STATUS_USAGE;
            }
            [command @ ("boot" | "reset" | "shutdown")] => {
                eprintln!("scifctl: {command}: which CARD? `scifctl cards` lists them");
                return STATUS_USAGE;
            }
            ["help" | "--help" | "-h"] => {
                println!("{USAGE}");
                return 0;
            }
            _ => return not_understood(&words),
        };
        match result {
            Ok(()) => 0,
            Err(status) => status,
        }
    }

    /// Says which words mean nothing here, and what would.
    fn not_understood(words: &[&str]) -> i32 {
        eprintln!("scifctl: `{}` is not understood", words.join(" "));
        eprintln!("{USAGE}");
        STATUS_USAGE
    }

    fn read(path: &str) -> Result<String, i32> {
        fs::read_to_string(path).map_err(|error| failed(path, error))
    }

    fn failed(path: &str, error: runtime::Error) -> i32 {
        eprintln!("scifctl: {path}: {error}");
        if error.errno == syscall::error::ENOENT || error.errno == syscall::error::ENODEV {
            eprintln!("scifctl: is its daemon running?");
        }
        1
    }

    /// A file of the `scif:` scheme.
    fn scif(file: &str) -> Result<String, i32> {
        read(&alloc::format!("{SCIF}/{file}"))
    }

    /// Prints a table, with the names of programs.
    fn show(mut table: Table) -> Result<(), i32> {
        // Without a list of processes their numbers must do.
        let processes = fs::read_to_string(PROCESSES).unwrap_or_default();
        let processes = Table::parse(&processes);
        let names: BTreeMap<&str, &str> = processes.pairs("pid", "name").collect();
        table.name_programs(&names);
        print!("{}", table.text());
        Ok(())
    }

    /// Prints what programs hold.
    fn programs(only: Option<u32>) -> Result<(), i32> {
        let names = ["ports", "connections", "mappings", "pins"];
        let [ports, connections, mappings, pins] = names.map(scif);
        let (ports, connections, mappings, pins) = (ports?, connections?, mappings?, pins?);
        show(holdings::table(
            Sources {
                ports: &ports,
                connections: &connections,
                mappings: &mappings,
                pins: &pins,
            },
            only,
        ))
    }

    fn overview() -> Result<(), i32> {
        let nodes = scif("nodes")?;
        let connections = Table::parse(&scif("connections")?);
        let windows = Table::parse(&scif("windows")?);
        let mappings = Table::parse(&scif("mappings")?);
        print!("{}\nnodes\n", scif("version")?);
        print!("{}", indented(&Table::parse(&nodes).text()));
        if connections.is_empty() {
            println!("\nno connections");
        } else {
            print!("\nconnections\n{}", indented(&connections.text()));
        }
        let (windows, mappings) = (windows.len(), mappings.len());
        if windows + mappings > 0 {
            println!("\n{windows} windows, {mappings} mappings");
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
        let table = match scif("stats") {
            Ok(text) => Table::parse(&text),
            Err(status) => return status,
        };
        let mut status = 0;
        for name in names {
            let mut counters = table.pairs("counter", "value");
            match counters.find(|(counter, _)| counter == name) {
                Some((_, value)) => println!("{value}"),
                None => {
                    eprintln!("scifctl: no counter is named {name}; `scifctl stats` lists them");
                    status = 1;
                }
            }
        }
        status
    }

    /// Prints the driver's latest events, oldest first.
    fn trace(all: &[&str]) -> Result<(), i32> {
        let (path, words) = match all {
            ["old", rest @ ..] => (alloc::format!("{TRACE}.old"), rest),
            rest => (TRACE.into(), rest),
        };
        let count = match words {
            [] => Some(usize::MAX),
            [count] => count.parse().ok(),
            _ => None,
        };
        let Some(count) = count else {
            let all = all.join(" ");
            eprintln!("scifctl: trace {all}: must be COUNT or old COUNT, a number of events");
            return Err(STATUS_USAGE);
        };
        let bytes = fs::read(&path).map_err(|error| failed(&path, error))?;
        match trace::lines(&bytes, count) {
            Some(lines) => {
                print!("{lines}");
                Ok(())
            }
            None => {
                eprintln!("scifctl: {path} is no trace of this version");
                Err(1)
            }
        }
    }

    /// Has the driver do something with a card; what comes of it is seen in the table.
    fn command_card(command: &str, card: &str) -> Result<(), i32> {
        let cards = Table::parse(&scif("cards")?);
        let Some((_, state)) = cards.pairs("node", "state").find(|(node, _)| *node == card) else {
            let nodes = Table::parse(&scif("nodes")?);
            let mut known = nodes.pairs("node", "state");
            match known.any(|(node, _)| node == card) {
                true => eprintln!(
                    "scifctl: node {card} is no Xeon Phi card: it boots by itself, and is \
                     commanded at its own console"
                ),
                false => {
                    eprintln!(
                        "scifctl: no Xeon Phi card is node {card}; `scifctl cards` lists them"
                    );
                }
            }
            return Err(1);
        };
        let path = alloc::format!("{SCIF}/cards");
        let line = alloc::format!("{command} {card}\n");
        fs::write(&path, line).map_err(|error| match error.errno {
            EBUSY => {
                eprintln!(
                    "scifctl: {command} {card}: not while the card is {state}; wait for another \
                     state (`scifctl cards`), or reset it, which works in any"
                );
                1
            }
            EACCES | EPERM => only_root(&alloc::format!("{command} {card}")),
            _ => failed(&path, error),
        })
    }

    fn set_limit(name: &str, value: &str) -> Result<(), i32> {
        if value.parse::<u64>().is_err() {
            eprintln!("scifctl: limits {name} {value}: the value must be a whole number");
            return Err(STATUS_USAGE);
        }
        let limits = Table::with_columns("limit value", &scif("limits")?);
        if !limits
            .pairs("limit", "value")
            .any(|(limit, _)| limit == name)
        {
            eprintln!("scifctl: no limit is named {name}; `scifctl limits` lists them");
            return Err(1);
        }
        let path = alloc::format!("{SCIF}/limits");
        let line = alloc::format!("{name} {value}\n");
        fs::write(&path, line).map_err(|error| match error.errno {
            EINVAL => {
                eprintln!(
                    "scifctl: limits {name} {value}: times are 1 to 86400000 ms, and silence_ms \
                     is at least twice heartbeat_ms"
                );
                1
            }
            EACCES | EPERM => only_root(&alloc::format!("limits {name}")),
            _ => failed(&path, error),
        })
    }

    /// Reports what the rights of the user do not suffice for.
    fn only_root(what: &str) -> i32 {
        eprintln!("scifctl: {what}: only root may do that");
        1
    }

    /// Waits until a node is online.
    fn wait(node: &str, seconds: &str) -> Result<(), i32> {
        let (Ok(number), Ok(limit)) = (node.parse::<u16>(), seconds.parse()) else {
            eprintln!("scifctl: wait {node} {seconds}: a node's number and seconds are expected");
            return Err(STATUS_USAGE);
        };
        let end = Instant::now() + Duration::from_secs(limit);
        loop {
            let nodes = Table::parse(&scif("nodes")?);
            if nodes.is_online(number) {
                return Ok(());
            }
            if Instant::now() >= end {
                eprintln!("scifctl: node {number} is not online after {limit} s (`scifctl nodes`)");
                return Err(1);
            }
            sleep(WAIT_STEP);
        }
    }

    /// Prints the nodes that are there, which the file tells first; then, to watch, the others as
    /// they come and go.
    fn peers(watch: bool) -> Result<(), i32> {
        let path = alloc::format!("{SCIF}/peers");
        let mut file = File::open(&path).map_err(|error| failed(&path, error))?;
        let mut buffer = [0; 4096];
        loop {
            let count = file
                .read(&mut buffer)
                .map_err(|error| failed(&path, error))?;
            let lines = buffer.get(..count).unwrap_or(&[]);
            print!("{}", String::from_utf8_lossy(lines));
            if !watch || count == 0 {
                return Ok(());
            }
        }
    }
}

/// The program runs on Redox only; elsewhere its library is tested.
#[cfg(not(target_os = "redox"))]
fn main() {}
