//! `ibctl`: shows people and scripts what the daemon of the RDMA device reports about contexts,
//! queue pairs, completion queues and memory regions, as `scifctl` does for SCIF.
#![cfg_attr(target_os = "redox", no_std, no_main)]

#[cfg(target_os = "redox")]
extern crate alloc;

#[cfg(target_os = "redox")]
mod program {
    use alloc::string::String;
    use alloc::vec::Vec;

    use runtime::time::{Duration, Instant, sleep};
    use runtime::{env, eprintln, println};
    use scifctl::files::{Files, STATUS_USAGE, show};
    use scifctl::table::Table;
    use verbs_tools::traffic::{self, Sources};

    runtime::main!(main);

    const USAGE: &str = "\
usage: ibctl                      the device and what uses it at a glance
       ibctl devices              the device and its port
       ibctl contexts             programs that have opened it
       ibctl qps | cqs | srqs     queue pairs, completion queues, shared receive queues
       ibctl mrs                  memory regions
       ibctl agents               agents of management datagrams, of all programs for root
       ibctl fabric               links of the fabric's switch (madctl asks all ports)
       ibctl programs [PID]       what each program holds
       ibctl watch [SECONDS [N]]  what queue pairs do, every so many seconds (1), N times
       ibctl stats [NAME...]      all counters, or the values of the named ones
       ibctl limits               limits
       ibctl limits NAME VALUE    sets one (root)
       ibctl version";

    const FILES: Files = Files {
        program: "ibctl",
        directory: "/scheme/infiniband",
    };

    fn main() -> i32 {
        let arguments: Vec<String> = env::args().skip(1).collect();
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let result = match words[..] {
            [] => overview(),
            [
                file @ ("devices" | "contexts" | "qps" | "cqs" | "srqs" | "mrs" | "agents"
                | "fabric"),
            ] => FILES.read(file).map(|text| show(Table::parse(&text))),
            ["programs"] => programs(None),
            ["programs", pid] => match pid.parse() {
                Ok(pid) => programs(Some(pid)),
                Err(_) => {
                    eprintln!("ibctl: {pid} is no process number; `ibctl programs` lists them");
                    Err(STATUS_USAGE)
                }
            },
            ["watch"] => watch(1, None),
            ["watch", seconds, ref count @ ..] if count.len() < 2 => {
                match (number(seconds), count.first().map(|count| number(count))) {
                    (Some(seconds), None) => watch(seconds, None),
                    (Some(seconds), Some(Some(count))) => watch(seconds, Some(count)),
                    _ => {
                        eprintln!("ibctl: watch: SECONDS and N are whole numbers above 0");
                        Err(STATUS_USAGE)
                    }
                }
            }
            ["stats", ref names @ ..] => FILES.counters(names),
            ["limits"] => FILES.limits(),
            ["limits", name, value] => FILES.set_limit(name, value, "it must be a whole number"),
            ["limits", name] => {
                eprintln!("ibctl: limits {name}: the new VALUE is missing");
                return STATUS_USAGE;
            }
            ["help" | "--help" | "-h"] => {
                println!("{USAGE}");
                Ok(())
            }
            ["version" | "--version"] => {
                println!("ibctl (Skiff) {}", env!("CARGO_PKG_VERSION"));
                Ok(())
            }
            _ => return FILES.not_understood(&words, USAGE),
        };
        runtime::io::printed(FILES.program, result.err().unwrap_or(0))
    }

    fn number(word: &str) -> Option<u64> {
        word.parse().ok().filter(|number| *number > 0)
    }

    fn overview() -> Result<(), i32> {
        show(Table::parse(&FILES.read("devices")?));
        println!();
        let qps = Table::parse(&FILES.read("qps")?);
        match qps.is_empty() {
            true => println!("no queue pairs"),
            false => show(qps),
        }
        let [contexts, cqs, mrs] = ["contexts", "cqs", "mrs"].map(|file| FILES.read(file));
        let count = |text: String| Table::parse(&text).len();
        let (contexts, cqs, mrs) = (count(contexts?), count(cqs?), count(mrs?));
        println!("\n{contexts} contexts, {cqs} completion queues, {mrs} memory regions");
        Ok(())
    }

    /// Prints the objects that programs hold.
    fn programs(only: Option<u32>) -> Result<(), i32> {
        let [qps, cqs, srqs, mrs] = ["qps", "cqs", "srqs", "mrs"].map(|file| FILES.read(file));
        let (qps, cqs, srqs, mrs) = (qps?, cqs?, srqs?, mrs?);
        let sources = Sources {
            qps: &qps,
            cqs: &cqs,
            srqs: &srqs,
            mrs: &mrs,
        };
        show(traffic::holdings(sources, only));
        Ok(())
    }

    /// Prints the rates of queue pairs, again and again.
    fn watch(seconds: u64, count: Option<u64>) -> Result<(), i32> {
        let (mut before, mut at) = (Table::parse(&FILES.read("qps")?), Instant::now());
        let mut turn = 0;
        while count.is_none_or(|count| turn < count) {
            sleep(Duration::from_secs(seconds));
            let after = Table::parse(&FILES.read("qps")?);
            let passed = at.elapsed();
            at = Instant::now();
            if turn > 0 {
                println!();
            }
            match after.is_empty() {
                true => println!("no queue pairs"),
                false => show(traffic::rates(&before, &after, passed.as_secs_f64())),
            }
            if runtime::io::printing_has_failed() {
                break;
            }
            before = after;
            turn += 1;
        }
        Ok(())
    }
}

/// The program runs on Redox only; elsewhere its library is tested.
#[cfg(not(target_os = "redox"))]
fn main() {}
