//! `run`: boots the nodes. With SCRIPT= it runs scripts; on a terminal it gives the host's console;
//! without a terminal it plays the demo.

use crate::base::config;
use crate::base::report::{Context, Result};
use crate::base::run_directory::RunDirectory;
use crate::base::settings::Settings;
use crate::command::demo;
use crate::command::terminal::{self, Raw};
use crate::node::image::{Additions, Builder, Contents, Image, prepare};
use crate::node::machine::{Event, Machine, Plan};
use crate::node::start_requests::{self, StartRequest};
use crate::suite::suite_run::{self, Printer, Run};
use crate::suite::suites::{self, Show};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// The name of interactive runs.
const NAME: &str = "run";
/// Hard limit for user's scripts unless TIMEOUT= says otherwise.
const SCRIPT_LIMIT: Duration = Duration::from_secs(600);
/// An interactive session has no limit; this is long enough to be none.
const NO_LIMIT: Duration = Duration::from_secs(365 * 86_400);

/// The command.
pub fn command(builder: &dyn Builder, settings: &Settings) -> Result<()> {
    if let Some(name) = settings.suite() {
        return suite(builder, settings, name);
    }
    if settings.scripts.is_empty() && !terminal::present() {
        return demo::command(builder, settings);
    }
    if settings.scripts.is_empty() {
        let contents = Contents::product(settings.purpose()?);
        return interactive(settings, &*prepare(builder, settings, &contents)?);
    }
    scripts(builder, settings)
}

fn scripts(builder: &dyn Builder, settings: &Settings) -> Result<()> {
    let mut run = Run::new("script", settings, SCRIPT_LIMIT)?;
    run.stay = true;
    let mut texts = Vec::new();
    for (node, path) in &settings.scripts {
        let text = std::fs::read(path).context(|| format!("read {}", path.display()))?;
        texts.push(String::from_utf8_lossy(&text).into_owned());
        run.scripts.insert(*node, text);
    }
    let texts = texts.iter().map(String::as_str);
    let contents = Contents::named_in(settings.purpose()?, texts);
    let image = prepare(builder, settings, &contents)?;
    let outcome = run.execute(&*image, &mut Printer)?;
    suite_run::conclude(&outcome)
}

/// Runs a suite of the tests, with all that its nodes print. It passes as it does in the tests.
fn suite(builder: &dyn Builder, settings: &Settings, name: &str) -> Result<()> {
    if !settings.scripts.is_empty() {
        return Err(format!("SUITE={name}: has scripts of its own, leave SCRIPT= out").into());
    }
    let suites = config::tests()?.suite;
    let Some(suite) = suites.iter().find(|suite| suite.name == name) else {
        let names: Vec<_> = suites.iter().map(|suite| suite.name.as_str()).collect();
        let names = names.join(" ");
        return Err(format!("SUITE={name}: there is none; the suites are {names}").into());
    };
    let scripts = suites::scripts([suite])?;
    let scripts = scripts.iter().map(String::as_str);
    let contents = Contents::named_in(settings.purpose()?, scripts);
    let image = prepare(builder, settings, &contents)?;
    suites::guest(settings, suite, &*image, Show::Lines)
}

fn interactive(settings: &Settings, image: &dyn Image) -> Result<()> {
    let run = Run::new(NAME, settings, NO_LIMIT)?;
    let directory = RunDirectory::new()?;
    let additions = Additions {
        overlay: run.overlay.as_deref(),
        ..Additions::default()
    };
    let lines = vec!["SKIFF_CONSOLE=1".to_string(); run.nodes];
    let boot = image.boot_files(run.boot, &additions, &lines, directory.path())?;
    let mut config = run.config;
    config.reboots = true;
    let plan = Plan {
        name: run.name,
        config,
        memory_mib: run.memory_mib,
        kvm: crate::node::accel::use_kvm(run.accel)?,
        pin: run.pin,
        boot,
        late: Vec::new(),
        relayed: false,
    };
    let machine = Machine::start(plan, directory)?;
    machine.offer_consoles()?;
    let requests = start_requests::listen(machine.directory())?;
    let logs = machine.logs();
    logs.announce(machine.directory())?;
    let which = match logs.name() {
        name if name == NAME => String::new(),
        name => format!(" RUN={name}"),
    };
    eprintln!("==> this is the console of node 0, the host; Ctrl-] ends all nodes");
    for node in 1..run.nodes {
        eprintln!(
            "    console of node {node}: make console NODE={node}{which} (in another terminal)"
        );
    }
    eprintln!("    try: scifctl nodes; cat /scheme/scif/accept/2050 on one, then");
    eprintln!("         echo hello > /scheme/scif/<node>/2050 on the other");
    converse(machine, &requests)
}

/// Connects the user's terminal with node 0 until the node is off or the escape key is pressed;
/// meanwhile boots nodes that are off as others ask for it.
fn converse(mut machine: Machine, requests: &Receiver<StartRequest>) -> Result<()> {
    let raw = Raw::enter()?;
    let keyboard = machine.keyboard(0);
    let sizes = keyboard.clone();
    terminal::follow_size(move |report| {
        sizes.send(report);
        true
    });
    let (leave, left) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        terminal::read_keys(|keys| {
            keyboard.send(keys);
            true
        });
        let _ = leave.send(());
    });
    loop {
        if left.try_recv().is_ok() {
            drop(raw);
            println!("\nall nodes are off");
            return Ok(());
        }
        for request in requests.try_iter() {
            let started = machine.start_node(request.node);
            request.answer(&started);
        }
        match machine.next(Instant::now() + Duration::from_millis(50)) {
            Some(Event::Output { node: 0, bytes }) => terminal::show(&bytes),
            Some(Event::Ended { node: 0, end }) => {
                drop(raw);
                println!("\nnode 0 is off ({end:?})");
                return Ok(());
            }
            Some(Event::Ended { node, .. }) => {
                terminal::show(
                    format!("\r\n[node {node} is off; make start NODE={node}]\r\n").as_bytes(),
                );
            }
            Some(Event::Output { .. }) | None => {}
        }
    }
}
