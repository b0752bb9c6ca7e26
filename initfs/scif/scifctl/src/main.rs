//! `scifctl`: shows people and scripts what the SCIF daemons report about nodes, connections,
//! registered memory and limits, and changes limits and the state of cards.
//!
//! The tables are the daemons' own text files (docs/scheme.md). This program finds them, names the
//! programs behind process numbers, aligns the columns and picks single values.
#![cfg_attr(target_os = "redox", no_std, no_main)]

#[cfg(target_os = "redox")]
extern crate alloc;

#[cfg(target_os = "redox")]
mod program {
    use alloc::string::String;
    use alloc::vec::Vec;

    use runtime::fs::{self, File};
    use runtime::io::Read;
    use runtime::time::{Duration, Instant, sleep};
    use runtime::{env, eprintln, print, println};
    use scifctl::files::{Files, STATUS_USAGE, show, with_programs};
    use scifctl::holdings::{self, Sources};
    use scifctl::rates::rates;
    use scifctl::table::Table;
    use scifctl::trace;
    use syscall::error::{EACCES, EBUSY, EPERM};

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
       scifctl traffic              bytes that have passed between this node and each other
       scifctl programs [PID]       what each program holds: ports, connections, mappings, pins
       scifctl TABLE [--json] [COLUMN=VALUE...]   one of these tables, limits or stats: as JSON,
                                    or rows only whose column has the value; of NODE/PORT
                                    also NODE or /PORT
       scifctl watch [SECONDS [N]]  what connections move, every so many seconds (1), N times
       scifctl stats [NAME...]      all counters, or the values of the named ones
       scifctl limits               limits
       scifctl limits NAME VALUE    sets one (root)
       scifctl trace [COUNT]        the driver's latest events
       scifctl trace old [COUNT]    those of the driver that ran before it
       scifctl peers [watch]        nodes that are there; with watch also those that come and go
       scifctl wait NODE [SECONDS]  waits until a node is online (60 s; then status 1)
       scifctl version";

    const SCIF: Files = Files {
        program: "scifctl",
        directory: "/scheme/scif",
    };
    /// The values that the driver accepts for limits.
    const LIMITS: &str =
        "times are 1 to 86400000 ms, and silence_ms is at least twice heartbeat_ms";
    const TRACE: &str = "/scheme/log/trace/micd";

    /// The option that prints a table as JSON.
    const JSON: &str = "--json";

    /// How many seconds `wait` waits by default.
    const WAIT_SECONDS: &str = "60";
    /// Time between two checks whether a node is online.
    const WAIT_STEP: Duration = Duration::from_millis(50);

    fn main() -> i32 {
        let arguments: Vec<String> = env::args().skip(1).collect();
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let result = match words[..] {
            [] => overview(),
            [
                name @ ("nodes" | "cards" | "ports" | "connections" | "windows" | "mappings"
                | "pins" | "traffic" | "limits" | "programs" | "stats"),
                ref how @ ..,
            ] if how.iter().all(|word| *word == JSON || word.contains('=')) => table(name, how),
            [command @ ("boot" | "reset" | "shutdown"), card] => command_card(command, card),
            ["version"] => scif("version").map(|text| print!("{text}")),
            ["programs", pid] => match pid.parse() {
                Ok(pid) => programs(Some(pid)).map(show),
                Err(_) => {
                    eprintln!("scifctl: {pid} is no process number; `scifctl programs` lists them");
                    Err(STATUS_USAGE)
                }
            },
            ["stats", ref names @ ..] => SCIF.counters(names),
            ["watch"] => watch("1", None),
            ["watch", seconds] => watch(seconds, None),
            ["watch", seconds, count] => watch(seconds, Some(count)),
            ["limits", name, value] => SCIF.set_limit(name, value, LIMITS),
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
                Ok(())
            }
            ["--version"] => {
                println!("scifctl (Skiff) {}", env!("CARGO_PKG_VERSION"));
                Ok(())
            }
            _ => return SCIF.not_understood(&words, USAGE),
        };
        runtime::io::printed("scifctl", result.err().unwrap_or(0))
    }

    /// Reads a file of the scheme `scif`.
    fn scif(file: &str) -> Result<String, i32> {
        SCIF.read(file)
    }

    /// Prints a table: as JSON if `how` has that option, and only the rows that `how` selects.
    fn table(name: &str, how: &[&str]) -> Result<(), i32> {
        let table = match name {
            "programs" => programs(None)?,
            "limits" => Table::with_columns("limit value", &scif("limits")?),
            file => Table::parse(&scif(file)?),
        };
        let mut table = with_programs(table);
        for (column, value) in how.iter().filter_map(|word| word.split_once('=')) {
            table.keep(column, value).map_err(|columns| {
                eprintln!("scifctl: {name} has no column {column}; it has {columns}");
                STATUS_USAGE
            })?;
        }
        match how.contains(&JSON) {
            true => print!("{}", table.json()),
            false => print!("{}", table.text()),
        }
        Ok(())
    }

    /// Prints how much data connections move, again and again.
    fn watch(seconds: &str, count: Option<&str>) -> Result<(), i32> {
        let number = |word: &str| word.parse::<u64>().ok().filter(|number| *number > 0);
        let (Some(pause), Some(turns)) = (number(seconds), count.map_or(Some(u64::MAX), number))
        else {
            eprintln!("scifctl: watch: SECONDS and N are whole numbers above 0");
            return Err(STATUS_USAGE);
        };
        let (mut before, mut at) = (Table::parse(&scif("connections")?), Instant::now());
        for turn in 0..turns {
            sleep(Duration::from_secs(pause));
            let after = Table::parse(&scif("connections")?);
            let passed = at.elapsed();
            at = Instant::now();
            if turn > 0 {
                println!();
            }
            match after.is_empty() {
                true => println!("no connections"),
                false => show(rates(&before, &after, passed.as_secs_f64())),
            }
            if runtime::io::printing_has_failed() {
                break;
            }
            before = after;
        }
        Ok(())
    }

    /// The table of the objects that programs hold.
    fn programs(only: Option<u32>) -> Result<Table, i32> {
        let names = ["ports", "connections", "mappings", "pins"];
        let [ports, connections, mappings, pins] = names.map(scif);
        let (ports, connections, mappings, pins) = (ports?, connections?, mappings?, pins?);
        Ok(holdings::table(
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
        let bytes = fs::read(&path).map_err(|error| SCIF.failed(&path, error))?;
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

    /// Gives the driver a command for a card. The table of cards shows its effect.
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
        let path = SCIF.path("cards");
        let line = alloc::format!("{command} {card}\n");
        fs::write(&path, line).map_err(|error| match error.errno {
            EBUSY => {
                eprintln!(
                    "scifctl: {command} {card}: not while the card is {state}; wait for another \
                     state (`scifctl cards`), or reset it, which works in any"
                );
                1
            }
            EACCES | EPERM => SCIF.only_root(&alloc::format!("{command} {card}")),
            _ => SCIF.failed(&path, error),
        })
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

    /// Prints the nodes that are online, which the file gives first. To watch, continues with the
    /// nodes that come and go.
    fn peers(watch: bool) -> Result<(), i32> {
        let path = SCIF.path("peers");
        let mut file = File::open(&path).map_err(|error| SCIF.failed(&path, error))?;
        let mut buffer = [0; 4096];
        loop {
            let count = file
                .read(&mut buffer)
                .map_err(|error| SCIF.failed(&path, error))?;
            let lines = buffer.get(..count).unwrap_or(&[]);
            print!("{}", String::from_utf8_lossy(lines));
            if !watch || count == 0 || runtime::io::printing_has_failed() {
                return Ok(());
            }
        }
    }
}

/// The program runs on Redox only; elsewhere its library is tested.
#[cfg(not(target_os = "redox"))]
fn main() {}
