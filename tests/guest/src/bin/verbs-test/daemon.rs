//! Tests of the device's daemon: its view of a context, its limits, and its death.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use guest_tests::{Suite, settled, text};
use runtime::fs;
use runtime::process::Command;
use runtime::time::{Duration, sleep};
use scif::Memory;
use verbs::{Context, EventType, QpType, Segment, WcStatus};

use super::end::{self, Checked, End, settings, wait};

const FILES: &str = "/scheme/infiniband";
/// `EIO`.
const EIO: i32 = 5;

/// All checks; the exit status.
pub fn check() -> i32 {
    let mut suite = Suite::new("verbs-daemon");
    let before = rows();
    suite.check("tables tell of objects, states and traffic", tables());
    suite.check("a limit of locked pages", limit());
    suite.equal("what is left of both", settled(rows, &before), before);
    suite.check("death and return of the daemon", death());
    let driver = driver_death();
    suite.check(
        "death of the driver, just before a program stops polling",
        driver,
    );
    suite.finish()
}

fn read(file: &str) -> Checked<String> {
    fs::read_to_string(&format!("{FILES}/{file}")).map_err(text(file))
}

/// Rows of the tables.
fn rows() -> Vec<usize> {
    let files = ["contexts", "qps", "cqs", "srqs", "mrs"];
    let count = |file| read(file).map_or(0, |text| text.lines().count());
    files.map(count).to_vec()
}

/// A cell of the row of a table in which `key` stands in its column.
fn cell(file: &str, key: (&str, &str), column: &str) -> Checked<String> {
    let text = read(file)?;
    let mut lines = text.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let names = lines.next().unwrap_or_default();
    let of = |name: &str| names.iter().position(|known| *known == name);
    let (Some(at), Some(wanted)) = (of(key.0), of(column)) else {
        return Err(format!("{file} has no column {} or {column}", key.0));
    };
    let row = lines.find(|row| row.get(at) == Some(&key.1));
    let found = row.and_then(|row| row.get(wanted).map(|cell| String::from(*cell)));
    found.ok_or_else(|| format!("{file} has no {} {}: {text}", key.0, key.1))
}

fn connected(context: &Context) -> Checked<End> {
    let end = End::new(context, QpType::Rc, Some(0))?;
    let settings = settings(end::all());
    end.pair.init(&settings).map_err(text("init"))?;
    let address = end.pair.address();
    let connected = end.pair.connect_to(address, &settings);
    connected.map_err(text("connect"))?;
    Ok(end)
}

fn message(end: &End) -> Checked {
    end.receive(1, 8192, 3000)?;
    let segment = end.segment(0, 3000)?;
    end.pair.send(1, &[segment]).map_err(text("send"))?;
    for queue in [&end.sends, &end.receives] {
        let found = wait(queue, 1)?.remove(0);
        if found.status != WcStatus::Success {
            return Err(format!("{found:?}"));
        }
    }
    Ok(())
}

fn tables() -> Checked {
    let context = end::open()?;
    let end = connected(&context)?;
    let number = format!("{}", end.pair.number());
    let of_pair = |column: &str| cell("qps", ("qpn", &number), column);
    let key = format!("{:#x}", end.region.key());
    let pages = cell("mrs", ("key", &key), "pages")?;
    if (of_pair("state")?, of_pair("type")?, pages) != ("RTS".into(), "RC".into(), "1024".into()) {
        return Err(read("qps")? + &read("mrs")?);
    }
    for _ in 0..10 {
        message(&end)?;
    }
    // The library tells of that once in a while.
    let columns = [
        "sends",
        "sent_bytes",
        "receives",
        "received_bytes",
        "errors",
    ];
    let expected = ["10", "30000", "10", "30000", "0"].map(String::from);
    let traffic = || columns.map(|column| of_pair(column).unwrap_or_default());
    let found = settled(traffic, &expected);
    if found != expected {
        return Err(format!("traffic {found:?}"));
    }
    end.receive(3, 0, 100)?;
    let context_of = of_pair("context")?;
    let queued = || cell("srqs", ("context", &context_of), "queued").unwrap_or_default();
    if settled(queued, &"3".into()) != "3" {
        return Err(read("srqs")?);
    }
    // An error that a queue pair comes to by itself is seen.
    let nowhere = Segment {
        address: 1 << 40,
        length: 8,
        key: 0xffff_ff00,
    };
    end.pair.send(9, &[nowhere]).map_err(text("send"))?;
    let failed = wait(&end.sends, 1)?.remove(0);
    if failed.status != WcStatus::LocProtErr {
        return Err(format!("{failed:?}"));
    }
    let state = settled(|| of_pair("state").unwrap_or_default(), &"ERR".into());
    match state.as_str() {
        "ERR" => Ok(()),
        _ => read("qps").and_then(Err),
    }
}

fn set_limit(pages: u64) -> Checked {
    let line = format!("locked_pages_per_user {pages}\n");
    fs::write(&format!("{FILES}/limits"), line).map_err(text("limits"))
}

fn limit() -> Checked {
    let context = end::open()?;
    let domain = context.protection_domain().map_err(text("domain"))?;
    let register = || {
        let memory = Memory::ordinary(16 * 4096).map_err(text("memory"))?;
        Ok::<_, String>(domain.register(memory, end::all()))
    };
    set_limit(20)?;
    let first = register()?;
    let second = register()?.map(drop);
    set_limit(65536)?;
    let kept = first.map_err(text("the first"))?;
    if second != Err(verbs::Error::NoMemory) {
        return Err(format!("{second:?} beyond the limit"));
    }
    // Refused commands have left nothing.
    let locked = read("stats")?;
    let locked = locked
        .lines()
        .find(|line| line.starts_with("locked_pages "));
    if locked != Some("locked_pages 16") {
        return Err(format!("{locked:?}"));
    }
    drop(kept);
    register()?.map(drop).map_err(text("the third"))
}

/// The process of a daemon.
fn process(name: &str) -> Checked<String> {
    let processes = fs::read_to_string("/scheme/proc/ps").map_err(text("ps"))?;
    let mut rows = processes.lines().map(str::split_whitespace);
    let row = rows.find(|row| row.clone().last() == Some(name));
    let process = row.and_then(|mut row| row.next());
    Ok(process.ok_or_else(|| format!("there is no {name}"))?.into())
}

/// Kills a process; `meanwhile` is called until it is dead.
fn kill(process: &str, mut meanwhile: impl FnMut() -> Checked) -> Checked {
    let killed = Command::new("/scheme/initfs/bin/kill")
        .args(["-9", process])
        .spawn();
    let mut child = killed.map_err(text("kill"))?;
    while child.try_wait().map_err(text("kill"))?.is_none() {
        meanwhile()?;
    }
    Ok(())
}

/// Waits until another process is the daemon of this name, and the driver and the device answer: a
/// new process has no scheme before it has begun.
fn another(name: &str, former: &str) -> Checked {
    let answers = || scif::nodes().is_ok() && verbs::devices().is_ok();
    let is_back = || process(name).is_ok_and(|now| now != former) && answers();
    match settled(is_back, &true) {
        true => Ok(()),
        false => Err(format!("no other {name} has come")),
    }
}

fn death() -> Checked {
    let context = end::open()?;
    let end = connected(&context)?;
    message(&end)?;
    let former = process("ibd")?;
    kill(&former, || Ok(()))?;
    let event = context.next_event().map_err(text("event"))?;
    if (event.kind, event.subject) != (EventType::DeviceFatal, None) {
        return Err(format!("{event:?}"));
    }
    // Connected queue pairs stay connected.
    message(&end)?;
    let refused = context.protection_domain().map(drop);
    let number = refused.map_err(verbs::Error::errno);
    if number != Err(EIO) {
        return Err(format!("{number:?} without a daemon"));
    }
    // Ends of objects need no daemon.
    drop((end, context));
    another("ibd", &former)?;
    let context = end::open()?;
    message(&connected(&context)?)
}

/// While a program polls, the progress thread has no lane in its event queue. It takes them in
/// again when the program stops, which an event queue refuses for files of a dead driver.
fn driver_death() -> Checked {
    let contexts = [end::open()?, end::open()?];
    let ends = [
        End::new(&contexts[0], QpType::Rc, None)?,
        End::new(&contexts[1], QpType::Rc, None)?,
    ];
    let settings = settings(end::all());
    for end in &ends {
        end.pair.init(&settings).map_err(text("init"))?;
        end.receive(1, 0, 64)?;
    }
    let [one, other] = &ends;
    for (end, peer) in [(one, other), (other, one)] {
        let connected = end.pair.connect_to(peer.pair.address(), &settings);
        connected.map_err(text("connect"))?;
    }
    // The lane is there when a message has arrived.
    let segment = one.segment(64, 64)?;
    one.pair.send(1, &[segment]).map_err(text("send"))?;
    wait(&one.sends, 1)?;
    wait(&other.receives, 1)?;
    let former = process("micd")?;
    let mut found = Vec::new();
    kill(&former, || {
        let polled = one.receives.poll(1, &mut found).map_err(text("poll"));
        polled.map(drop)
    })?;
    // The thread may have asked the driver just before.
    if found.is_empty() {
        sleep(Duration::from_millis(100));
        found = wait(&one.receives, 1)?;
    }
    if found.iter().any(|wc| wc.status != WcStatus::WrFlushErr) {
        return Err(format!("{found:?}"));
    }
    loop {
        match contexts[0].next_event().map_err(text("event"))?.kind {
            EventType::QpFatal => break,
            EventType::PortErr | EventType::PortActive => {}
            kind => return Err(format!("{kind:?}")),
        }
    }
    another("micd", &former)?;
    // The driver gives its ports again, whose numbers the queue pairs that have failed still have.
    for (context, failed) in contexts.iter().zip(&ends) {
        let end = End::new(context, QpType::Rc, None)?;
        if end.pair.number() == failed.pair.number() {
            return Err("two queue pairs of a context have one number".into());
        }
    }
    drop((ends, contexts));
    Ok(())
}
