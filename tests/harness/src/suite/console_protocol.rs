//! Splits console output into lines, and recognises the lines that are addressed to the launcher.

use crate::network::faults::Faults;

/// Longest line that is kept together; a console without line ends must not eat the memory.
const MAX_LINE_BYTES: usize = 16 * 1024;

/// Collects bytes until a line is complete.
#[derive(Debug, Default)]
pub struct Splitter {
    partial: Vec<u8>,
}

impl Splitter {
    /// Adds output and gives the lines it completed, without their ends.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' => lines.push(self.take()),
                b'\r' => {}
                _ => {
                    self.partial.push(*byte);
                    if self.partial.len() >= MAX_LINE_BYTES {
                        lines.push(self.take());
                    }
                }
            }
        }
        lines
    }

    /// The rest of a line, when the console ends.
    pub fn finish(&mut self) -> Option<String> {
        if self.partial.is_empty() {
            None
        } else {
            Some(self.take())
        }
    }

    fn take(&mut self) -> String {
        let bytes = std::mem::take(&mut self.partial);
        // Control characters would let a guest repaint the user's terminal.
        let text = String::from_utf8_lossy(&bytes);
        text.chars()
            .map(|c| {
                if c.is_control() && c != '\t' {
                    '\u{fffd}'
                } else {
                    c
                }
            })
            .collect()
    }
}

/// A line with a meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// `KERNEL PANIC: …`
    KernelPanic,
    /// `PANIC <program>: …`
    ProgramPanic,
    /// `EXCEPTION <name> …`
    Exception,
    /// `init: script exit status <n>`, or `abi: <n> passed, <m> failed` of the ABI test
    ScriptStatus(i32),
    /// `STEP <name>: ok` or `STEP <name>: FAIL <detail>`
    Step {
        /// Name of the step.
        name: String,
        /// The failure, if there was one.
        failure: Option<String>,
    },
    /// A line that begins with `STEP` and has another form.
    BadStep,
    /// `VALUE <name>: <value>`: must be the same on every node that prints it.
    Value {
        /// Name of the value.
        name: String,
        /// The value.
        value: String,
    },
    /// `LAUNCHER …`: the script asks for something.
    Order(Order),
    /// A line that begins with `LAUNCHER` and asks for nothing there is: what is wrong with it.
    BadOrder(String),
}

/// A request of a script to the launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// `start <node>`: boot a late node, or one that was killed.
    Start(usize),
    /// `kill <node>`: cut the node's power.
    Kill(usize),
    /// `audit <node>`: walk all page tables of the node.
    Audit(usize),
    /// `freeze <node>`: stop its machine, with all it does.
    Freeze(usize),
    /// `thaw <node>`: let it go on.
    Thaw(usize),
    /// `cut <node> <node>`: cut the link between two nodes.
    Cut([usize; 2]),
    /// `heal <node> <node>`: mend it.
    Heal([usize; 2]),
    /// `doorbells <node> <node> [lose=<n>/<m>] [double=<n>/<m>] [late_ms=<n>]`: what becomes of
    /// the doorbells between two nodes from now on.
    Doorbells([usize; 2], Faults),
    /// `type <node> <words>`: press the keys of these words, and enter.
    Type(usize, String),
    /// `screen <node> <words>`: a row of the node's screen must begin with these words.
    Screen(usize, String),
}

/// The meaning of a line, if it has one.
pub fn meaning(line: &str) -> Option<Meaning> {
    // A report may follow text that had no line end, so both are searched for everywhere.
    if line.contains("KERNEL PANIC: ") {
        return Some(Meaning::KernelPanic);
    }
    if reports_program_panic(line) {
        return Some(Meaning::ProgramPanic);
    }
    if line.starts_with("EXCEPTION ") {
        return Some(Meaning::Exception);
    }
    if let Some(rest) = line.strip_prefix("init: script exit status ") {
        return rest.trim().parse().ok().map(Meaning::ScriptStatus);
    }
    if let Some(failed) = line.strip_prefix("abi: ").and_then(failures) {
        return Some(Meaning::ScriptStatus(i32::from(failed > 0)));
    }
    if let Some(rest) = line.strip_prefix("STEP ") {
        return Some(step(rest).unwrap_or(Meaning::BadStep));
    }
    if let Some((name, value)) = line
        .strip_prefix("VALUE ")
        .and_then(|rest| rest.split_once(": "))
    {
        return Some(Meaning::Value {
            name: name.to_string(),
            value: value.trim().to_string(),
        });
    }
    let words: Vec<&str> = line.strip_prefix("LAUNCHER ")?.split_whitespace().collect();
    Some(match order(&words) {
        Ok(order) => Meaning::Order(order),
        Err(wrong) => Meaning::BadOrder(wrong),
    })
}

/// A step: `<name>: ok` or `<name>: FAIL <detail>`.
fn step(text: &str) -> Option<Meaning> {
    let (name, rest) = text.split_once(": ")?;
    let failure = match rest.trim() {
        "ok" => None,
        other => Some(other.strip_prefix("FAIL")?.trim().to_string()),
    };
    let name = name.to_string();
    Some(Meaning::Step { name, failure })
}

/// Whether a line has the report of a program: `PANIC <program>: …`.
fn reports_program_panic(line: &str) -> bool {
    const WORD: &str = "PANIC ";
    let mut reports = line
        .match_indices(WORD)
        .map(|(at, _)| &line[at + WORD.len()..]);
    let is_one = |report: &str| {
        let name = report.split_once(": ").map(|(name, _)| name);
        name.is_some_and(|name| !name.is_empty() && !name.contains(char::is_whitespace))
    };
    line.starts_with(WORD) || reports.any(is_one)
}

fn order(words: &[&str]) -> Result<Order, String> {
    let node = |word: &str| {
        let number = word.parse::<usize>();
        number.map_err(|_| format!("'{word}' is no node number"))
    };
    let pair = |first, second| match [node(first)?, node(second)?] {
        [first, second] if first == second => Err(format!("node {first} has no link with itself")),
        nodes => Ok(nodes),
    };
    match *words {
        ["start", one] => node(one).map(Order::Start),
        ["kill", one] => node(one).map(Order::Kill),
        ["freeze", one] => node(one).map(Order::Freeze),
        ["thaw", one] => node(one).map(Order::Thaw),
        ["audit", one] => node(one).map(Order::Audit),
        ["cut", first, second] => pair(first, second).map(Order::Cut),
        ["heal", first, second] => pair(first, second).map(Order::Heal),
        ["type", one, ref words @ ..] => Ok(Order::Type(node(one)?, words.join(" "))),
        ["screen", one, ref words @ ..] => Ok(Order::Screen(node(one)?, words.join(" "))),
        ["doorbells", first, second, ref faults @ ..] => Ok(Order::Doorbells(
            pair(first, second)?,
            Faults::parse(faults)?,
        )),
        _ => Err(format!("no such order: {}", words.join(" "))),
    }
}

/// Where a line shows an address of the kernel: in its map of physical memory, of a stack, of its
/// image. Only an attacker would need one.
pub fn kernel_address(line: &str) -> Option<&str> {
    const DIGITS: usize = 16;
    let shows = |word: &&str| {
        let low = word.to_ascii_lowercase();
        let prefixes = ["ffff80", "ffffff0", "ffffffff8"];
        word.len() == DIGITS && prefixes.iter().any(|prefix| low.starts_with(prefix))
    };
    line.split(|c: char| !c.is_ascii_hexdigit()).find(shows)
}

/// The M of "N passed, M failed".
fn failures(text: &str) -> Option<u32> {
    let (passed, rest) = text.split_once(" passed, ")?;
    passed.parse::<u32>().ok()?;
    rest.trim().strip_suffix(" failed")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_survive_any_cutting() {
        let text = b"one\r\ntwo\n\nthree";
        for cut in 0..text.len() {
            let mut splitter = Splitter::default();
            let mut lines = splitter.push(&text[..cut]);
            lines.extend(splitter.push(&text[cut..]));
            lines.extend(splitter.finish());
            assert_eq!(lines, ["one", "two", "", "three"]);
        }
    }

    #[test]
    fn a_step_of_another_form_is_noticed() {
        for line in [
            "STEP x",
            "STEP x:ok",
            "STEP x: yes",
            "STEP a: b: ok",
            "STEP ",
        ] {
            assert_eq!(meaning(line), Some(Meaning::BadStep), "{line}");
        }
    }

    #[test]
    fn endless_lines_are_cut_and_control_characters_replaced() {
        let mut splitter = Splitter::default();
        assert_eq!(splitter.push(&vec![b'x'; MAX_LINE_BYTES + 1]).len(), 1);
        assert_eq!(splitter.push(b"\x1b[2J\n"), ["x\u{fffd}[2J"]);
    }

    #[test]
    fn addresses_of_the_kernel_are_seen() {
        for (line, found) in [
            ("  rip ffffffff80123456  rsp 0", Some("ffffffff80123456")),
            ("at 0xFFFF800000100000: x", Some("FFFF800000100000")),
            ("stack 0xffffff0000009000", Some("ffffff0000009000")),
            ("  rax ffffffffffffffff  rbx fffffffffffffff2", None),
            ("rsp 00007fffefffff80", None),
            ("checksum 12ffff800000100000", None),
            ("kernel+801a2b3c", None),
            (
                "\u{fffd}\u{fffd} ffff800000100000",
                Some("ffff800000100000"),
            ),
        ] {
            assert_eq!(kernel_address(line), found, "{line}");
        }
    }

    #[test]
    fn meanings() {
        let step = |name: &str, failure: Option<&str>| {
            Some(Meaning::Step {
                name: name.into(),
                failure: failure.map(str::to_string),
            })
        };
        assert_eq!(
            meaning("garbage KERNEL PANIC: at x"),
            Some(Meaning::KernelPanic)
        );
        for line in [
            "PANIC cat: index",
            "fooPANIC micd: index",
            "host# PANIC micd: index",
            "PANIC of PANIC micd: index",
        ] {
            assert_eq!(meaning(line), Some(Meaning::ProgramPanic), "{line}");
        }
        assert_eq!(meaning("EXCEPTION page fault"), Some(Meaning::Exception));
        assert_eq!(
            meaning("init: script exit status 3"),
            Some(Meaning::ScriptStatus(3))
        );
        assert_eq!(
            meaning("abi: 12 passed, 0 failed"),
            Some(Meaning::ScriptStatus(0))
        );
        assert_eq!(
            meaning("abi: 12 passed, 3 failed"),
            Some(Meaning::ScriptStatus(1))
        );
        assert_eq!(meaning("abi: the test of 3 failed"), None);
        assert_eq!(meaning("STEP greeting: ok"), step("greeting", None));
        assert_eq!(
            meaning("STEP greeting: FAIL got x"),
            step("greeting", Some("got x"))
        );
        let order = |text| match meaning(text) {
            Some(Meaning::Order(order)) => order,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(order("LAUNCHER kill 1"), Order::Kill(1));
        assert_eq!(order("LAUNCHER freeze 2"), Order::Freeze(2));
        assert_eq!(order("LAUNCHER heal 1 0"), Order::Heal([1, 0]));
        let faults = Faults {
            lose: (1, 4),
            double: (0, 1),
            late_ms: 20,
        };
        let line = "LAUNCHER doorbells 0 1 lose=1/4 late_ms=20";
        assert_eq!(order(line), Order::Doorbells([0, 1], faults));
        let typed = order("LAUNCHER type 1 a b");
        assert_eq!(typed, Order::Type(1, "a b".to_string()));
        let seen = order("LAUNCHER screen 0 x: 1");
        assert_eq!(seen, Order::Screen(0, "x: 1".to_string()));
        let line = "LAUNCHER doorbells 0 1";
        assert_eq!(order(line), Order::Doorbells([0, 1], Faults::default()));
        for bad in [
            "start x",
            "cut 1",
            "type x y",
            "screen",
            "cut 1 1",
            "doorbells 0 1 lose=4",
            "doorbells 0 1 lose=5/4",
            "doorbells 0 1 lose=1/0",
            "doorbells 0 1 late=3",
            "explode",
        ] {
            let found = meaning(&format!("LAUNCHER {bad}"));
            assert!(
                matches!(found, Some(Meaning::BadOrder(_))),
                "{bad}: {found:?}"
            );
        }
        for line in [
            "hello PANIC",
            "a PANIC : none",
            "a PANIC of two words: none",
        ] {
            assert_eq!(meaning(line), None, "{line}");
        }
        let value = Meaning::Value {
            name: "sum".into(),
            value: "ab".into(),
        };
        assert_eq!(meaning("VALUE sum: ab"), Some(value));
    }
}
