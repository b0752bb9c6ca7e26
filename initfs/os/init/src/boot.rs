//! The course of the boot: scripts, shell, the end.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use init::script::{self, Action};
use runtime::fs::File;
use runtime::io::Write;
use runtime::process::Command;
use runtime::time::{Duration, sleep};
use runtime::{Result, env, fs};
use syscall::flag::{O_RDONLY, O_WRONLY};
use tools::host;

use crate::service::{self, Daemon, Ready, Services};

/// Directory of the start scripts.
const SCRIPTS: &str = "/scheme/initfs/lib/init.d";
/// The process that starts everything.
const INIT: u32 = 1;
/// Exit status of a script whose shell could not be started, as shells use it.
const CANNOT_RUN: i32 = 127;

/// Runs process 1.
pub fn main() -> i32 {
    if runtime::process::id() != INIT {
        runtime::eprintln!("init: starts the services as process 1, and runs already");
        return 2;
    }
    let settings = fs::read_to_string("/scheme/sys/env").unwrap_or_default();
    for line in settings.lines() {
        if let Some((name @ "LOG", value)) = line.split_once('=') {
            env::set_var(name, value);
        }
    }
    let mut services = Services::new();
    let skipped = settings
        .lines()
        .find_map(|line| line.strip_prefix("SKIFF_SKIP="));
    run_scripts(&mut services, skipped);
    name_machine(&services);

    let script = settings
        .lines()
        .find_map(|line| line.strip_prefix("SKIFF_RUN="))
        .filter(|script| !script.is_empty());
    match script {
        Some(script) => {
            let status = run_shell(&mut services, Some(script));
            // Lines that were logged before must appear before the last line.
            services.show_log();
            runtime::println!("init: script exit status {status}");
            if settings.lines().any(|line| line == "SKIFF_STAY=1") {
                services.reap_for_ever();
            }
            power_off(&mut services)
        }
        None => loop {
            if run_shell(&mut services, None) == CANNOT_RUN {
                // Another attempt would fail, too; the services go on.
                services.reap_for_ever();
            }
        },
    }
}

/// Gives the machine the name of its node, unless its administrator has given it another one, and
/// the shell that name in its environment.
fn name_machine(services: &Services) {
    let Some(name) = host::name() else {
        return;
    };
    env::set_var("HOSTNAME", &name);
    if host::configured().is_none()
        && let Err(error) = fs::write(host::FILE, format!("{name}\n"))
    {
        services.say("ERROR", &format!("cannot write {}: {error}", host::FILE));
    }
}

/// Runs all scripts but the one that is to be skipped.
fn run_scripts(services: &mut Services, skipped: Option<&str>) {
    let mut names: Vec<String> = match fs::read_dir(SCRIPTS) {
        Ok(entries) => entries
            .flatten()
            .map(|entry| entry.file_name().into())
            .collect(),
        Err(error) => {
            services.say("ERROR", &format!("cannot list {SCRIPTS}: {error}"));
            return;
        }
    };
    names.sort();
    names.retain(|name| skipped != Some(name));
    for name in names {
        match fs::read_to_string(&format!("{SCRIPTS}/{name}")) {
            Ok(text) => run_script(services, &name, &text),
            Err(error) => {
                services.say("ERROR", &format!("cannot read {SCRIPTS}/{name}: {error}"));
            }
        }
    }
}

/// Runs one script. A line that fails is reported and the next one runs.
fn run_script(services: &mut Services, name: &str, text: &str) {
    for (index, line) in text.lines().enumerate() {
        let place = format!("{name} line {}", index + 1);
        match script::parse(line, env::var) {
            Ok(None) => {}
            Ok(Some(parsed)) => {
                if let Err(error) = run_line(services, name, &place, &parsed) {
                    let line = line.trim();
                    let reason = service::reason(error);
                    services.say("ERROR", &format!("{place}: {line}: {reason}"));
                }
            }
            Err(reason) => services.say("ERROR", &format!("{place}: {reason}")),
        }
    }
}

fn run_line(services: &mut Services, script: &str, place: &str, line: &script::Line) -> Result<()> {
    let variables = &line.variables;
    match &line.action {
        Action::Set => {
            for (name, value) in variables {
                env::set_var(name, value);
            }
        }
        Action::Echo(words) => runtime::println!("{}", words.join(" ")),
        Action::Scheme(name, command) => {
            let ready = Ready::Scheme(name.clone());
            services.start_daemon(Daemon::new(script, line, command, ready))?;
        }
        Action::Notify(command) => {
            services.start_daemon(Daemon::new(script, line, command, Ready::Byte))?;
        }
        Action::NoWait(command) => services.start(command, variables)?,
        Action::Run(command) => {
            let status = services.run(command, variables)?;
            if !status.success() {
                let program = &command[0];
                services.say("WARN", &format!("{place}: {program} ended: {status}"));
            }
        }
    }
    Ok(())
}

/// Runs a shell on the console to its end and returns its status.
fn run_shell(services: &mut Services, script: Option<&str>) -> i32 {
    let mut command = Command::new("sh");
    // What it kills, its group or all processes, is its own and not the services.
    command.args(script).own_session();
    let console = |flags| {
        let open = |path| File::options().custom_flags(flags).open(path);
        open("/scheme/console").or_else(|_| open("/scheme/debug"))
    };
    let streams = console(O_RDONLY).and_then(|input| Ok((input, console(O_WRONLY)?)));
    // Without a console the shell gets the streams of init.
    if let Ok((input, output)) = &streams {
        command.stdin(input).stdout(output).stderr(output);
    }
    let result = command.spawn().and_then(|child| services.wait_for(&child));
    match result {
        Ok(status) => status.shell_code(),
        Err(error) => {
            runtime::println!("init: cannot run the shell: {error}");
            CANNOT_RUN
        }
    }
}

/// Switches the machine off.
fn power_off(services: &mut Services) -> ! {
    let result = fs::OpenOptions::new()
        .write(true)
        .open("/scheme/sys/kstop")
        .and_then(|mut stop| stop.write_all(b"shutdown"));
    // Normally this point is not reached; give the machine a moment.
    sleep(Duration::from_secs(2));
    if let Err(error) = result {
        runtime::println!("init: cannot switch the machine off: {error}");
    }
    services.reap_for_ever()
}
