//! `madctl`: shows people the InfiniBand fabric by means of management datagrams: its links as a
//! table or a drawing, the answers of a port, the counters of a port.
#![cfg_attr(target_os = "redox", no_std, no_main)]

#[cfg(target_os = "redox")]
extern crate alloc;

#[cfg(target_os = "redox")]
mod program {
    use alloc::string::String;
    use alloc::vec::Vec;

    use madctl::{Counters, Fabric, Peer, SwitchPort};
    use runtime::time::{Duration, Instant, sleep};
    use runtime::{env, eprintln, print, println};
    use syscall::error::{EACCES, Error};
    use umad::mad_core::attributes::attribute;
    use umad::mad_core::mad::{Mad, PERMISSIVE_LID, class};
    use umad::{Agent, Port, RetryPolicy, client, directed, general, get, node_info, subnet};

    runtime::main!(main);

    const USAGE: &str = "\
usage: madctl                        links of the fabric, with states, rates and counters (root)
       madctl svg                    the same as a drawing
       madctl ping LID [COUNT]       asks a port what it is and measures the time (4 times)
       madctl counters LID [SECONDS] what a port has counted; with SECONDS again and again
       madctl version";

    /// Exit status for wrong arguments.
    const STATUS_USAGE: i32 = 2;
    /// How often `ping` asks by default.
    const PINGS: u32 = 4;
    /// How long `ping` waits for each answer; it does not ask again.
    const PING: RetryPolicy = RetryPolicy {
        timeout_ms: 1000,
        retries: 0,
    };
    /// The waiting time for ports whose link may go down meanwhile.
    const SHORT: RetryPolicy = RetryPolicy {
        timeout_ms: 300,
        retries: 2,
    };
    /// The state of a port that is linked to a node.
    const ACTIVE: u8 = 4;
    /// Offset of the attribute in a datagram of performance management.
    const DATA: usize = 64;

    fn main() -> i32 {
        let words: Vec<String> = env::args().skip(1).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let done = match words[..] {
            [] => fabric(madctl::table),
            ["svg"] => fabric(madctl::drawing),
            ["ping", lid] => with_lid(lid, |lid| ping(lid, PINGS)),
            ["ping", lid, count] => match madctl::parse_count(count) {
                Some(count) => with_lid(lid, |lid| ping(lid, count)),
                None => no_count("COUNT", count),
            },
            ["counters", lid] => with_lid(lid, |lid| counters(lid, None)),
            ["counters", lid, seconds] => match madctl::parse_count(seconds) {
                Some(seconds) => with_lid(lid, |lid| counters(lid, Some(seconds))),
                None => no_count("SECONDS", seconds),
            },
            ["version" | "--version"] => {
                println!("madctl (Skiff) {}", env!("CARGO_PKG_VERSION"));
                Ok(0)
            }
            ["help" | "--help"] => {
                println!("{USAGE}");
                Ok(0)
            }
            _ => usage(&words),
        };
        let status = done.unwrap_or_else(|error| {
            let hint = match error.errno {
                EACCES => " (only root looks at the fabric)",
                _ => "",
            };
            eprintln!("madctl: {error}{hint}");
            1
        });
        runtime::io::printed("madctl", status)
    }

    type Done = Result<i32, Error>;

    fn usage(words: &[&str]) -> Done {
        eprintln!("madctl: `{}` is not understood\n{USAGE}", words.join(" "));
        Ok(STATUS_USAGE)
    }

    fn no_count(what: &str, word: &str) -> Done {
        eprintln!("madctl: {word}: {what} is a whole number above 0");
        Ok(STATUS_USAGE)
    }

    fn with_lid(text: &str, action: impl FnOnce(u16) -> Done) -> Done {
        match madctl::parse_lid(text) {
            Some(lid) => action(lid),
            None => {
                eprintln!(
                    "madctl: {text} is no local identifier (LID), for example 2 or 0x100; \
                     `madctl` lists them"
                );
                Ok(STATUS_USAGE)
            }
        }
    }

    /// The port with the agents by which this program asks.
    struct Asker {
        port: Port,
        subnet: Agent,
        directed: Agent,
        performance: Agent,
        last: u32,
    }

    impl Asker {
        fn open() -> Result<Asker, Error> {
            let port = Port::open()?;
            Ok(Asker {
                subnet: port.register(&client(class::SUBNET_LID, 1))?,
                directed: port.register(&client(class::SUBNET_DIRECTED, 1))?,
                performance: port.register(&client(class::PERFORMANCE, 1))?,
                port,
                last: 0,
            })
        }

        fn number(&mut self) -> u32 {
            self.last += 1;
            self.last
        }

        /// Asks for an attribute of subnet management by a directed route; `None` if there is no
        /// answer, or a refusal.
        fn directed(
            &mut self,
            number: u16,
            modifier: u32,
            path: &[u8],
        ) -> Result<Option<[u8; 64]>, Error> {
            let mad = directed(number, modifier, path, self.number());
            let to = subnet(PERMISSIVE_LID);
            let answer = self.port.ask(self.directed, &to, mad.bytes(), SHORT)?;
            let smp = answer.map(|answer| answer.mad().smp());
            let good = smp.filter(|smp| smp.header.status.get() & 0x7fff == 0);
            Ok(good.map(|smp| smp.data))
        }

        /// Asks for the counters of a port; `None` if there is no answer, or a refusal.
        fn counters(&mut self, lid: u16) -> Result<Option<Counters>, Error> {
            let number = attribute::PORT_COUNTERS_EXTENDED;
            let mut mad = get(class::PERFORMANCE, 1, number, 0, self.number());
            mad.bytes_mut()[DATA + 1] = 1;
            let to = general(lid);
            let answer = self.port.ask(self.performance, &to, mad.bytes(), SHORT)?;
            let answer = answer.map(|answer| answer.mad());
            let good = answer.filter(|mad| mad.header.status.get() == 0);
            Ok(good.map(|mad: Mad| Counters::read(&mad.bytes()[DATA..])))
        }

        fn link(&mut self, port: u8) -> Result<Option<SwitchPort>, Error> {
            let info = self.directed(attribute::PORT_INFO, port.into(), &[1])?;
            let Some(info) = info else {
                return Ok(None);
            };
            let mut link = madctl::link(port, &info);
            let path = [1, port];
            if link.state == ACTIVE
                && let Some(node) = self.directed(attribute::NODE_INFO, 0, &path)?
                && let Some(text) = self.directed(attribute::NODE_DESCRIPTION, 0, &path)?
                && let Some(port) = self.directed(attribute::PORT_INFO, 0, &path)?
            {
                let lid = madctl::lid(&port);
                link.peer = Some(Peer {
                    name: madctl::description(&text),
                    guid: madctl::node_guid(&node),
                    lid,
                    counters: self.counters(lid)?,
                });
            }
            Ok(Some(link))
        }
    }

    /// Asks the switch and its ports for their description, and prints the fabric.
    fn fabric(show: fn(&Fabric) -> String) -> Done {
        let mut asker = Asker::open()?;
        let switch = asker.directed(attribute::NODE_INFO, 0, &[1])?;
        let text = asker.directed(attribute::NODE_DESCRIPTION, 0, &[1])?;
        let port = asker.directed(attribute::PORT_INFO, 0, &[1])?;
        let (Some(switch), Some(text), Some(port)) = (switch, text, port) else {
            eprintln!("madctl: the switch does not answer: the node that has it is not there");
            return Ok(1);
        };
        let mut links = Vec::new();
        let mut status = 0;
        for port in 1..=madctl::ports(&switch) {
            links.push(asker.link(port)?.unwrap_or_else(|| {
                eprintln!("madctl: the switch does not answer for its port {port}");
                status = 1;
                madctl::silent(port)
            }));
        }
        let fabric = Fabric {
            name: madctl::description(&text),
            lid: madctl::lid(&port),
            links,
        };
        print!("{}", show(&fabric));
        Ok(status)
    }

    fn ping(lid: u16, count: u32) -> Done {
        let mut asker = Asker::open()?;
        let mut times = Vec::new();
        for number in 1..=count {
            let mad = node_info(asker.number());
            let start = Instant::now();
            let answer = asker
                .port
                .ask(asker.subnet, &subnet(lid), mad.bytes(), PING)?;
            let time = Instant::now().as_nanos() - start.as_nanos();
            match answer {
                Some(_) => {
                    println!("{number}: LID {lid:#x} answers after {} µs", time / 1000);
                    times.push(time);
                }
                None => println!("{number}: no answer"),
            }
            if runtime::io::printing_has_failed() {
                break;
            }
        }
        let count = count as usize;
        println!("{}", madctl::summary(count, &times));
        Ok(if times.len() == count { 0 } else { 1 })
    }

    fn counters(lid: u16, seconds: Option<u32>) -> Done {
        let mut asker = Asker::open()?;
        let mut earlier = None;
        loop {
            let Some(counters) = asker.counters(lid)? else {
                eprintln!("madctl: LID {lid:#x} has no counters, or does not answer");
                return Ok(1);
            };
            match &earlier {
                None => println!("{}", counters.line()),
                Some(earlier) => match counters.since(earlier) {
                    Some(since) => println!("since then {}", since.line()),
                    None => println!("since they were reset {}", counters.line()),
                },
            }
            let Some(seconds) = seconds else {
                return Ok(0);
            };
            if runtime::io::printing_has_failed() {
                return Ok(0);
            }
            earlier = Some(counters);
            sleep(Duration::from_secs(seconds.into()));
        }
    }
}

/// The program runs on Redox only; elsewhere its library is tested.
#[cfg(not(target_os = "redox"))]
fn main() {}
