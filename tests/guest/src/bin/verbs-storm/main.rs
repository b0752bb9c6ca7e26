//! Programs of RDMA verbs that are killed at random moments.
//!
//! `verbs-storm KILLS SEED NODE` runs two servers and two clients of NODE's servers, and kills one
//! of the four again and again, in whatever it may be doing. The others must see the documented
//! completions and events: what had arrived is delivered in order and whole, every request
//! completes once, the oldest that did not succeed with RETRY_EXC_ERR, all behind it flushed, with
//! QP_FATAL once. In the end those that are left must still get on. A second one runs on the other
//! node; both end together.
//!
//! `verbs-storm until-told SEED NODE` kills until there is a file, and `verbs-storm until-loss SEED
//! NODE` until the other node is lost.
//!
//! The programs are `verbs-storm server SEED PORT` and `verbs-storm client SEED NODE PORT`, which
//! go on until they are killed; `verbs-storm once SEED NODE PORT` is a client with one session that
//! must succeed. `verbs-storm idle`: whether the device has nothing any more.
#![no_std]
#![no_main]

extern crate alloc;

mod client;
mod end;
mod server;

use alloc::string::String;
use alloc::vec::Vec;

use guest_tests::pattern::Random;
use guest_tests::{Suite, peer, settled, text, uverbs};
use runtime::process::{Child, Command};
use runtime::thread::{self, JoinHandle};
use runtime::time::{Duration, Instant, sleep};
use runtime::{fs, println};
use scif::{Endpoint, Listener, NodeId, PortId, RecvFlags, SendFlags};

runtime::main!(main);

/// Ports of the servers, and where both storms meet.
const PORTS: [u16; 2] = [5410, 5411];
const MEETING: u16 = 5412;
/// A file that is there once the programs run: scripts that kill drivers wait for it.
const BEGUN: &str = "/tmp/verbs-storm-begun";
/// The file that ends `until-told`: no driver is killed any more.
const ENOUGH: &str = "/tmp/verbs-storm-enough";
/// Longest life of a program between two kills.
const LONGEST_LIFE_MS: u64 = 150;
/// Kills after which programs live twice as long, if nothing has happened to their sessions, and
/// how often that goes on.
const KILLS_PER_LENGTH: u64 = 20;
const MOST_DOUBLED: u64 = 7;
/// A file that is there once sessions have ended and others were lost: a script waits for it before
/// a node goes.
const BOTH: &str = "/tmp/verbs-storm-both";
/// How long a session that must succeed may take.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// How long the other storm may take to come as far: it may rage on until sessions have ended and
/// others were lost.
const MEETING_LIMIT: Duration = Duration::from_secs(240);
/// Pause between two tries to meet.
const PAUSE: Duration = Duration::from_millis(50);

/// How a session of a program did not go on.
pub enum Trouble {
    /// Somebody is not there, or not any more: try again.
    Gone,
    /// Something is wrong.
    Wrong(String),
}

/// The result of a step of a session.
pub type Step<T = ()> = Result<T, Trouble>;

/// Tells what is wrong.
pub fn wrong<T>(what: impl Into<String>) -> Step<T> {
    Err(Trouble::Wrong(what.into()))
}

fn main() -> i32 {
    let arguments = peer::arguments();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse::<u64>().unwrap_or_default();
    match words[..] {
        ["idle"] => idle(),
        ["server", seed, port] => report(server::run(number(seed), number(port) as u16)),
        [role @ ("client" | "once"), seed, node, port] => {
            let to = PortId::new(number(node) as NodeId, number(port) as u16);
            report(client::run(number(seed), to, role == "once"))
        }
        [until, seed, node] => {
            let until = match until {
                "until-loss" => Until::Loss,
                "until-told" => Until::Told,
                kills => Until::Kills(number(kills)),
            };
            storm(until, number(seed), number(node) as NodeId)
        }
        _ => 2,
    }
}

fn report(result: Result<(), String>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(what) => {
            println!("verbs-storm: {what}");
            1
        }
    }
}

fn idle() -> i32 {
    let mut suite = Suite::new("verbs-storm");
    // The file that is read is open.
    let look = || uverbs::present().map(|counts| is_idle(&counts));
    let result = match settled(look, &Ok(true)) {
        Ok(true) => Ok(()),
        _ => Err(alloc::format!("{:?}", uverbs::present())),
    };
    suite.check("idle device", result);
    suite.finish()
}

/// Whether nothing is left but the file that is read, which is open; a file without counters does
/// not say so.
fn is_idle(counts: &[(String, u64)]) -> bool {
    let has_gone = |(name, count): &(String, u64)| *count == 0 || name == "files";
    !counts.is_empty() && counts.iter().all(has_gone)
}

// ---- The storm ----

/// One of the four programs.
struct Program {
    words: Vec<String>,
    child: Child,
}

/// Seeds of all programs that were started.
struct Seeds(Vec<u64>);

fn start(role: &[String], random: &mut Random, seeds: &mut Seeds) -> Result<Program, String> {
    let seed = random.up_to(1 << 30);
    seeds.0.push(seed);
    let mut words = role.to_vec();
    words.insert(1, alloc::format!("{seed}"));
    let mut command = Command::new("verbs-storm");
    command.args(words.iter().map(String::as_str));
    let child = command.spawn().map_err(text("starting"))?;
    let words = role.to_vec();
    Ok(Program { words, child })
}

fn end(program: &mut Program) -> Result<(), String> {
    let named = |error: String| alloc::format!("{:?}: {error}", program.words);
    program
        .child
        .kill()
        .map_err(text("killing"))
        .map_err(named)?;
    let status = program.child.wait().map_err(text("waiting"))?;
    match status.signal() {
        Some(9) => Ok(()),
        _ => Err(named(alloc::format!("it ended by itself, {status}"))),
    }
}

/// The other storm.
struct Other {
    endpoint: Endpoint,
}

impl Other {
    /// Meets it. The SCIF driver may be away for a moment, as a script kills it.
    fn meet(node: NodeId) -> Result<Other, String> {
        let begun = Instant::now();
        loop {
            match Other::try_to_meet(node) {
                Err(_) if begun.elapsed() < MEETING_LIMIT => sleep(PAUSE),
                result => return result,
            }
        }
    }

    fn try_to_meet(node: NodeId) -> Result<Other, String> {
        let own = scif::nodes().map_err(text("nodes"))?.own;
        let endpoint = match own < node {
            true => {
                let listener = Listener::bind(MEETING).map_err(text("listen"))?;
                listener.accept().map_err(text("accept"))?.0
            }
            false => {
                let to = PortId::new(node, MEETING);
                scif::connect(to).map_err(text("connect"))?
            }
        };
        Ok(Other { endpoint })
    }

    /// Waits until the other one has come as far. The connection may have gone with a driver.
    fn wait(self, node: NodeId) -> Result<Other, String> {
        let sent = self.endpoint.send(&[1], SendFlags::BLOCK);
        let heard = sent.and_then(|_| self.endpoint.recv(&mut [0], RecvFlags::BLOCK));
        match heard {
            Ok(_) => Ok(self),
            Err(_) => Other::meet(node),
        }
    }

    fn is_lost(&self) -> bool {
        self.endpoint.recv(&mut [0], RecvFlags::empty()).is_err()
    }
}

/// The longest time before kill number `kill`: longer where the loss of a node is to find sessions
/// that go on. As long as no session has ended or none was lost, it doubles again and again, as the
/// machine may be slow.
fn longest_life_ms(until: Until, kill: u64, has_both: bool) -> u64 {
    let usual = match until {
        Until::Kills(_) | Until::Told => LONGEST_LIFE_MS,
        Until::Loss => 6 * LONGEST_LIFE_MS,
    };
    match has_both {
        true => usual,
        false => usual << (kill / KILLS_PER_LENGTH).min(MOST_DOUBLED),
    }
}

/// When a storm is over.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Until {
    /// After this number of kills.
    Kills(u64),
    /// When [`ENOUGH`] is there.
    Told,
    /// When the other node is lost.
    Loss,
}

fn storm(until: Until, seed: u64, node: NodeId) -> i32 {
    let mut suite = Suite::new("verbs-storm");
    let mut seeds = Seeds(Vec::new());
    let mut programs = Vec::new();
    let mut random = Random::new(seed);
    let raged = rage(
        &mut suite,
        until,
        node,
        &mut random,
        &mut programs,
        &mut seeds,
    );
    // After a failure, too: what they hold would fail the checks that follow.
    let ended = programs.iter_mut().map(end).fold(Ok(()), Result::and);
    suite.check(
        "the storm",
        raged.and(ended).and_then(|()| happened(&seeds)),
    );
    suite.finish()
}

/// Whether what the storm is for has happened.
fn happened(seeds: &Seeds) -> Result<(), String> {
    let (ended, lost) = tally(seeds);
    println!("verbs-storm: sessions that ended: {ended}, that were lost: {lost}");
    match ended > 0 && lost > 0 {
        true => Ok(()),
        false => Err("nothing happened".into()),
    }
}

/// Runs the programs and kills them until the storm is over; those that are left run on.
fn rage(
    suite: &mut Suite,
    until: Until,
    node: NodeId,
    random: &mut Random,
    programs: &mut Vec<Program>,
    seeds: &mut Seeds,
) -> Result<(), String> {
    let own = scif::nodes().map_err(text("nodes"))?.own;
    // Within a node nobody else is met.
    let mut other = match own == node {
        true => None,
        false => Some(Other::meet(node)?),
    };
    for port in PORTS {
        let (to, port) = (alloc::format!("{node}"), alloc::format!("{port}"));
        let server = [String::from("server"), port.clone()];
        programs.push(start(&server, random, seeds)?);
        let client = [String::from("client"), to, port];
        programs.push(start(&client, random, seeds)?);
    }
    fs::write(BEGUN, b"").map_err(text(BEGUN))?;
    let (mut done, mut has_both) = (0, false);
    let mut meeting: Option<JoinHandle<Result<Other, String>>> = None;
    loop {
        // Whoever waits for the other storm lets programs live longer and longer, too.
        let is_content = has_both && meeting.is_none();
        let longest = longest_life_ms(until, done, is_content);
        sleep(Duration::from_millis(random.up_to(longest)));
        if !has_both {
            let (ended, lost) = tally(seeds);
            has_both = ended > 0 && lost > 0;
            if has_both {
                fs::write(BOTH, b"").map_err(text(BOTH))?;
            }
        }
        // What the storm is for must have happened before it ends, however slow the machine is.
        let is_over = match until {
            Until::Kills(kills) => done >= kills && has_both,
            Until::Told => fs::metadata(ENOUGH).is_ok() && has_both,
            Until::Loss => other.as_ref().is_some_and(Other::is_lost),
        };
        if is_over {
            // The sessions of the other storm's programs are lost by deaths here, so these go on
            // until it has seen enough as well.
            match (meeting.take(), other.take()) {
                (Some(wait), _) if wait.is_finished() => {
                    other = Some(wait.join().map_err(text("join"))??);
                    break;
                }
                (Some(wait), _) => meeting = Some(wait),
                (None, Some(met)) if until != Until::Loss => {
                    let wait = thread::spawn(move || met.wait(node));
                    meeting = Some(wait.map_err(text("a thread"))?);
                }
                (None, _) => break,
            }
        }
        let victim = random.up_to(4) as usize % programs.len();
        let result = end(&mut programs[victim]);
        done += 1;
        if let Err(error) = result {
            suite.check(&alloc::format!("kill {done}"), Err(error));
        }
        let words = programs[victim].words.clone();
        programs[victim] = start(&words, random, seeds)?;
    }
    if until != Until::Loss {
        for port in PORTS {
            let (to, at) = (alloc::format!("{node}"), alloc::format!("{port}"));
            let mut command = Command::new("verbs-storm");
            command.args(["once", "1", &to, &at]);
            let mut child = command.spawn().map_err(text("the last client"))?;
            let last = child.wait().map_err(text("waiting"))?;
            let result = match last.success() {
                true => Ok(()),
                false => Err(alloc::format!("{last}")),
            };
            suite.check(&alloc::format!("the server at {port} serves"), result);
        }
        if let Some(met) = other {
            met.wait(node)?;
        }
    } else {
        // Those that are left are told of the loss before they die.
        sleep(Duration::from_millis(20 * LONGEST_LIFE_MS));
    }
    println!("verbs-storm: {done} kills");
    Ok(())
}

// ---- What the programs have seen ----

/// Where a program says what its sessions came to.
fn notes(seed: u64) -> String {
    alloc::format!("/tmp/verbs-storm-{seed}")
}

/// Sessions of a program.
#[derive(Default)]
pub struct Tally {
    seed: u64,
    ended: u64,
    lost: u64,
}

impl Tally {
    /// None yet.
    pub fn new(seed: u64) -> Tally {
        Tally {
            seed,
            ..Tally::default()
        }
    }

    /// One more, which was lost or ended in order.
    pub fn add(&mut self, was_lost: bool) {
        match was_lost {
            true => self.lost += 1,
            false => self.ended += 1,
        }
        let text = alloc::format!("{} {}", self.ended, self.lost);
        if let Err(error) = fs::write(&notes(self.seed), text.as_bytes()) {
            println!("verbs-storm: notes: {error}");
        }
    }
}

fn tally(seeds: &Seeds) -> (u64, u64) {
    let mut sum = (0, 0);
    for seed in &seeds.0 {
        // A program that was killed before its first session's end has none.
        let Ok(text) = fs::read_to_string(&notes(*seed)) else {
            continue;
        };
        let mut numbers = text.split(' ').filter_map(|word| word.parse::<u64>().ok());
        sum.0 += numbers.next().unwrap_or_default();
        sum.1 += numbers.next().unwrap_or_default();
    }
    sum
}

/// A time after which what does not come is wrong.
pub struct Deadline(Instant);

impl Deadline {
    /// `TIME_LIMIT` from now on.
    pub fn from_now() -> Deadline {
        Deadline(Instant::now())
    }

    /// Whether the time has passed.
    pub fn has_passed(&self) -> bool {
        self.0.elapsed() > TIME_LIMIT
    }
}
