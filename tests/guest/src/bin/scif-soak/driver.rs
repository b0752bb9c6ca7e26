//! A driver: keeps a node's servers and workers running, kills some, and looks in the end what
//! is left of them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use guest_tests::memory::{self, Frames};
use guest_tests::pattern::Random;
use guest_tests::{Suite, counter, settled, text};
use libredox::Fd;
use libredox::flag::O_CLOEXEC;
use runtime::process::{Child, Command};
use runtime::time::{Duration, Instant, sleep};
use runtime::{println, thread};

use crate::control::{Follower, Leader};
use crate::tally::Tally;
use crate::{FIRST_PORT, SERVERS, WORKERS};

/// Length of a turn.
const TURN: Duration = Duration::from_millis(100);
/// Turns between two kills at most.
const KILL_TURNS: u64 = 20;
/// Between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(10);
/// How long a node may take to be missed, and to be back.
const NODE_TIME_LIMIT: Duration = Duration::from_secs(120);
/// How much longer than asked for node 0 may go on until there was work of every kind, a kill and
/// a restart: on a slow machine little happens in a short run.
const WORK_TIME_LIMIT: Duration = Duration::from_secs(120);
/// The signal by which programs are killed.
const SIGKILL: i32 = 9;

/// The counters that must be in the end as in the beginning.
const COUNTERS: [&str; 10] = [
    "endpoints",
    "connections",
    "windows",
    "remote_windows",
    "pinned_pages",
    "mapped_pages",
    "jobs",
    "handles",
    "waiting",
    "memory_objects",
];

/// Frames that may be missing in the end: what is kept once it was needed, see docs/testing.md.
/// Half an hour costs 120 to 170.
const FRAMES: i64 = 512;

static TALLY: Tally = Tally::new();

/// The reports that node 0 got.
pub struct Plan {
    /// How long.
    pub seconds: u64,
    /// Decides everything random here.
    pub seed: u64,
    /// Seconds between two restarts of nodes; 0: none.
    pub restart_s: u64,
}

/// Conducts; the exit status.
pub fn run(plan: Option<Plan>) -> i32 {
    let mut suite = Suite::new("scif-soak");
    let result = conduct(&mut suite, plan);
    suite.check("driver", result);
    suite.finish()
}

fn conduct(suite: &mut Suite, plan: Option<Plan>) -> Result<(), String> {
    let own = scif::nodes().map_err(text("nodes"))?.own;
    let before = counters()?;
    let mut frames = Frames::at_rest();
    let start = Instant::now();
    let mut band = Band::new(plan.as_ref().map_or(0, |plan| plan.seed) ^ u64::from(own) << 32)?;
    let mut progress = Progress {
        start,
        shown: start,
    };
    match plan {
        Some(plan) => {
            let mut leader = Leader::new().map_err(text("listening"))?;
            let mut reaper = Reaper::new(&plan);
            let limit = Duration::from_secs(plan.seconds);
            loop {
                let has_time = start.elapsed() < limit;
                let lacks_work = !(TALLY.has_all() && reaper.has_restarted())
                    && start.elapsed() < limit + WORK_TIME_LIMIT;
                if !(has_time || lacks_work || reaper.is_busy()) {
                    break;
                }
                band.turn()?;
                leader.turn();
                reaper.turn(has_time || (lacks_work && !reaper.has_restarted()))?;
                progress.turn(own);
                sleep(TURN);
            }
            band.end();
            suite.holds("sessions of every kind, and a kill", TALLY.has_all());
            suite.holds("a node was restarted", reaper.has_restarted());
            let all_stopped = leader.stop(reaper.others);
            leader.dismiss();
            suite.holds("all other nodes stopped", all_stopped);
        }
        None => {
            let follower = Follower::new().map_err(text("joining node 0"))?;
            while !follower.must_stop() {
                band.turn()?;
                progress.turn(own);
                sleep(TURN);
            }
            band.end();
            follower.stopped();
        }
    }
    progress.show(own);
    suite.check("programs end only when killed", band.deserted());
    let after = settled(counters, &Ok(before))?;
    for ((name, before), after) in COUNTERS.iter().zip(before).zip(after) {
        suite.equal(name, after, before);
    }
    memory::check(suite, "frames", &mut frames, FRAMES);
    suite.equal("sessions that went wrong", TALLY.wrong(), 0);
    Ok(())
}

/// Prints the sums from time to time.
struct Progress {
    start: Instant,
    shown: Instant,
}

impl Progress {
    fn turn(&mut self, own: u16) {
        if self.shown.elapsed() >= PROGRESS {
            self.show(own);
        }
    }

    fn show(&mut self, own: u16) {
        self.shown = Instant::now();
        let seconds = self.start.elapsed().as_secs();
        println!("SOAK node={own} seconds={seconds} {TALLY}");
    }
}

/// The programs of this node.
struct Band {
    random: Random,
    /// Number of the next program, for its seed.
    next: u64,
    players: Vec<Player>,
    /// Where workers report; the other end is read by a thread of its own.
    reports: Fd,
    /// Turns until the next kill.
    until_kill: u64,
    /// What ended without having been killed.
    deserted: Option<String>,
}

/// The purpose of a program.
#[derive(Clone, Copy, Debug)]
enum Part {
    Server(u16),
    Worker,
}

struct Player {
    part: Part,
    child: Option<Child>,
}

impl Band {
    fn new(seed: u64) -> Result<Self, String> {
        let reader = Fd::open("/scheme/pipe", O_CLOEXEC, 0).map_err(text("a pipe"))?;
        let reports = libredox::call::dup(reader.raw(), b"write").map_err(text("a pipe"))?;
        thread::spawn(move || TALLY.collect(reader.raw())).map_err(text("a thread"))?;
        let servers = (FIRST_PORT..FIRST_PORT + SERVERS).map(Part::Server);
        let workers = (0..WORKERS).map(|_| Part::Worker);
        let player = |part| Player { part, child: None };
        let players = servers.chain(workers).map(player).collect();
        Ok(Self {
            random: Random::new(seed),
            next: seed.wrapping_mul(1000),
            players,
            reports: Fd::new(reports),
            until_kill: KILL_TURNS,
            deserted: None,
        })
    }

    /// Starts missing programs; kills one now and then.
    fn turn(&mut self) -> Result<(), String> {
        for player in &mut self.players {
            let ended = match &mut player.child {
                Some(child) => {
                    let status = child.try_wait().map_err(text("waiting"))?;
                    if let Some(status) = status.filter(|status| status.signal() != Some(SIGKILL)) {
                        self.deserted = Some(format!("{:?}: {status:?}", player.part));
                    }
                    status.is_some()
                }
                None => true,
            };
            if ended {
                self.next += 1;
                player.child = Some(start(player.part, self.next, &self.reports)?);
            }
        }
        self.until_kill -= 1;
        if self.until_kill == 0 {
            self.until_kill = self.random.up_to(KILL_TURNS);
            let pick = self.random.up_to(self.players.len() as u64) as usize - 1;
            if let Some(child) = self.players.get_mut(pick).and_then(|p| p.child.as_mut()) {
                child.kill().map_err(text("killing"))?;
                TALLY.killed();
            }
        }
        Ok(())
    }

    /// Says which program, if any, ended without having been killed.
    fn deserted(&self) -> Result<(), String> {
        self.deserted.clone().map_or(Ok(()), Err)
    }

    /// Ends all.
    fn end(&mut self) {
        for child in self
            .players
            .iter_mut()
            .filter_map(|player| player.child.as_mut())
        {
            // One that has just ended cannot be killed, nor need it be.
            let _ = child.kill();
            let _ = child.wait();
        }
        self.players.clear();
    }
}

fn start(part: Part, number: u64, reports: &Fd) -> Result<Child, String> {
    let words = match part {
        Part::Server(port) => ["serve".into(), format!("{port}")],
        Part::Worker => ["work".into(), format!("{number}")],
    };
    let mut command = Command::new("scif-soak");
    command.args(words).stdout(reports);
    command.spawn().map_err(text("starting a program"))
}

/// Has nodes killed and booted again, by node 0's launcher.
struct Reaper {
    /// Nodes besides this one.
    others: usize,
    random: Random,
    pause: Option<Duration>,
    restarts: u64,
    state: State,
    since: Instant,
}

#[derive(Clone, Copy)]
enum State {
    /// All nodes are there, as far as is known.
    Idle,
    /// This one has been killed.
    Killed(u16),
    /// And is booted.
    Booting(u16),
}

impl Reaper {
    fn new(plan: &Plan) -> Self {
        // The others may still be booting: every node that was ever seen counts.
        Self {
            others: 0,
            random: Random::new(plan.seed + 1),
            restarts: 0,
            pause: (plan.restart_s > 0).then(|| Duration::from_secs(plan.restart_s)),
            state: State::Idle,
            since: Instant::now(),
        }
    }

    /// Whether there was a restart, or is to be none.
    fn has_restarted(&self) -> bool {
        self.restarts > 0 || self.pause.is_none()
    }

    fn is_busy(&self) -> bool {
        !matches!(self.state, State::Idle)
    }

    fn go(&mut self, state: State) {
        (self.state, self.since) = (state, Instant::now());
    }

    fn turn(&mut self, may_kill: bool) -> Result<(), String> {
        let nodes = scif::nodes().map_err(text("nodes"))?.online;
        self.others = self.others.max(nodes.len() - 1);
        let waited = self.since.elapsed();
        match self.state {
            State::Idle => {
                let is_time = self.pause.is_some_and(|pause| waited >= pause) && may_kill;
                if is_time && self.others > 0 && nodes.len() > self.others {
                    let node = self.random.up_to(self.others as u64) as u16;
                    println!("LAUNCHER kill {node}");
                    self.go(State::Killed(node));
                }
            }
            State::Killed(node) if !nodes.contains(&node) => {
                // Its machine has a moment to end.
                sleep(Duration::from_millis(500));
                println!("LAUNCHER start {node}");
                self.go(State::Booting(node));
            }
            State::Booting(node) if nodes.contains(&node) => {
                self.restarts += 1;
                self.go(State::Idle);
            }
            State::Killed(node) if waited > NODE_TIME_LIMIT => {
                return Err(format!("node {node} was killed and is still online"));
            }
            State::Booting(node) if waited > NODE_TIME_LIMIT => {
                return Err(format!("node {node} was booted and is not online"));
            }
            _ => {}
        }
        Ok(())
    }
}

fn counters() -> Result<[u64; COUNTERS.len()], String> {
    let mut counters = [0; COUNTERS.len()];
    for (value, name) in counters.iter_mut().zip(COUNTERS) {
        *value = counter(name)?;
    }
    Ok(counters)
}
