//! QEMU's monitor (QMP): pictures of a node's screen, and its keyboard.
//!
//! One JSON object a line. QEMU greets, then answers each command with `return` or `error`; events
//! may come in between.

use crate::base::report::{Context, Result};
use crate::node::screen_text::{self, Text};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long QEMU may take to answer, and to connect.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Between looks whether it has connected.
const POLL: Duration = Duration::from_millis(5);
/// Between two looks at a screen.
pub const SCREEN_POLL: Duration = Duration::from_millis(300);
/// How long a text may take to appear on one: only a guest that hangs takes so long.
const SCREEN_LIMIT: Duration = Duration::from_secs(60);

/// Between two looks for the echo of a key.
const ECHO_POLL: Duration = Duration::from_millis(30);
/// How long the echo of a key is waited for.
const ECHO_LIMIT: Duration = Duration::from_secs(10);

/// A connection with a QEMU that has been, or will be, started with the socket's name.
#[derive(Debug)]
pub struct Monitor {
    listener: UnixListener,
    stream: Option<BufReader<UnixStream>>,
    /// Where pictures are put.
    pictures: PathBuf,
}

impl Monitor {
    /// Waits for a QEMU on a socket; pictures go to `pictures`.
    pub fn listen(socket: &Path, pictures: PathBuf) -> Result<Self> {
        let listener = UnixListener::bind(socket)
            .context(|| format!("listen on the socket {}", socket.display()))?;
        listener
            .set_nonblocking(true)
            .context(|| "set up the monitor's socket".to_string())?;
        Ok(Self {
            listener,
            stream: None,
            pictures,
        })
    }

    /// The text on the screen.
    pub fn screen(&mut self) -> Result<Text> {
        let path = self.pictures.clone();
        self.call("screendump", json!({ "filename": path.to_string_lossy() }))?;
        let ppm = std::fs::read(&path).context(|| format!("read {}", path.display()))?;
        Ok(screen_text::read(&ppm)?)
    }

    /// Looks for a row that begins with a text until there is one, for a while.
    pub fn find(&mut self, text: &str) -> Result<()> {
        let deadline = Instant::now() + SCREEN_LIMIT;
        loop {
            let screen = self.screen()?;
            if screen.rows.iter().any(|row| row.starts_with(text)) {
                return Ok(());
            }
            if Instant::now() > deadline {
                println!("     the screen:\n{}", screen.rows.join("\n").trim_end());
                return Err(format!("'{text}' begins no row of the screen").into());
            }
            std::thread::sleep(SCREEN_POLL);
        }
    }

    /// Presses the keys that make a line of text, and enter. The program that reads the line shows
    /// it on the screen as it is typed.
    ///
    /// QEMU's keyboard keeps 16 bytes, about four keys, and drops what comes when it is full. So
    /// each key waits until the one before is on the screen: the guest may not get to run.
    pub fn type_line(&mut self, text: &str) -> Result<()> {
        let mut row = self.cursor_row()?;
        for c in text.chars() {
            self.press(c)?;
            // A space at the end of a row shows nothing.
            if c != ' ' {
                row = self.echo(c, &row)?;
            }
        }
        self.press('\n')
    }

    /// The row with the cursor.
    fn cursor_row(&mut self) -> Result<String> {
        let Text { mut rows, cursor } = self.screen()?;
        let row = cursor.filter(|row| *row < rows.len());
        Ok(row.map_or_else(String::new, |row| rows.swap_remove(row)))
    }

    /// Looks until the row with the cursor is another than before and ends with a letter; gives the
    /// row. When a message came behind the letter it is never seen there: after a while it is taken
    /// for typed. Who reads the line knows whether it was.
    fn echo(&mut self, letter: char, before: &str) -> Result<String> {
        let deadline = Instant::now() + ECHO_LIMIT;
        loop {
            let row = self.cursor_row()?;
            if (row != before && row.ends_with(letter)) || Instant::now() > deadline {
                return Ok(row);
            }
            std::thread::sleep(ECHO_POLL);
        }
    }

    /// Presses the keys that make a character.
    fn press(&mut self, c: char) -> Result<()> {
        let (key, shift) =
            key_of(c).ok_or_else(|| format!("'{c}' is on no key this launcher knows"))?;
        let names = if shift {
            vec!["shift", key.as_str()]
        } else {
            vec![key.as_str()]
        };
        let keys: Vec<Value> = names
            .iter()
            .map(|name| json!({ "type": "qcode", "data": name }))
            .collect();
        // QEMU holds the keys for so long, and only then looks at what comes next.
        self.call("send-key", json!({ "keys": keys, "hold-time": 40 }))
    }

    fn call(&mut self, command: &str, arguments: Value) -> Result<()> {
        if self.stream.is_none() {
            self.stream = Some(self.accept()?);
            self.exchange(&json!({ "execute": "qmp_capabilities" }))?;
        }
        self.exchange(&json!({ "execute": command, "arguments": arguments }))
    }

    fn accept(&self) -> Result<BufReader<UnixStream>> {
        let deadline = Instant::now() + ANSWER_LIMIT;
        let stream = loop {
            match self.listener.accept() {
                Ok((stream, _)) => break stream,
                Err(_) if Instant::now() < deadline => std::thread::sleep(POLL),
                Err(error) => {
                    return Err(format!(
                        "QEMU's monitor did not connect within {} s ({error}): see what QEMU says \
                         in node<i>-qemu.log beside {}",
                        ANSWER_LIMIT.as_secs(),
                        self.pictures.display()
                    )
                    .into());
                }
            }
        };
        let set = stream.set_nonblocking(false);
        set.and_then(|()| stream.set_read_timeout(Some(ANSWER_LIMIT)))
            .context(|| "set up the monitor's connection".to_string())?;
        Ok(BufReader::new(stream))
    }

    fn exchange(&mut self, request: &Value) -> Result<()> {
        let Some(stream) = &mut self.stream else {
            return Err("QEMU's monitor is not connected".into());
        };
        let asked = || format!("ask QEMU's monitor for {request}");
        stream
            .get_mut()
            .write_all(format!("{request}\n").as_bytes())
            .context(asked)?;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).context(asked)? == 0 {
                return Err(format!("QEMU ended when asked for {request}").into());
            }
            let answer: Value = serde_json::from_str(&line).context(asked)?;
            if let Some(error) = answer.get("error") {
                return Err(format!("QEMU's monitor refused {request}: {error}").into());
            }
            // The greeting and events are no answers.
            if answer.get("return").is_some() {
                return Ok(());
            }
        }
    }
}

/// QEMU's name of the key that makes a character on a US keyboard, and whether with shift.
fn key_of(c: char) -> Option<(String, bool)> {
    let named = |name: &str, shift| Some((name.to_string(), shift));
    match c {
        'a'..='z' | '0'..='9' => Some((c.to_string(), false)),
        'A'..='Z' => Some((c.to_ascii_lowercase().to_string(), true)),
        ' ' => named("spc", false),
        '\n' => named("ret", false),
        '-' => named("minus", false),
        '_' => named("minus", true),
        '.' => named("dot", false),
        ',' => named("comma", false),
        '/' => named("slash", false),
        '?' => named("slash", true),
        ':' => named("semicolon", true),
        ';' => named("semicolon", false),
        '!' => named("1", true),
        '$' => named("4", true),
        '|' => named("backslash", true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A QEMU that greets, sends an event in between, and obeys or refuses.
    fn play(socket: PathBuf, refuses: &'static str) -> std::thread::JoinHandle<Vec<String>> {
        std::thread::spawn(move || {
            let mut stream = UnixStream::connect(socket).unwrap();
            stream.write_all(b"{\"QMP\": {}}\n").unwrap();
            let mut asked = Vec::new();
            for line in BufReader::new(stream.try_clone().unwrap()).lines() {
                let line = line.unwrap();
                let answer = match line.contains(refuses) {
                    true => "{\"error\": {\"desc\": \"no\"}}\n",
                    false => "{\"event\": \"X\"}\n{\"return\": {}}\n",
                };
                stream.write_all(answer.as_bytes()).unwrap();
                asked.push(line);
            }
            asked
        })
    }

    #[test]
    fn keys_are_pressed_in_order_and_refusals_are_told() {
        let directory = crate::base::run_directory::RunDirectory::new().unwrap();
        let socket = directory.path().join("monitor");
        let mut monitor = Monitor::listen(&socket, directory.path().join("picture")).unwrap();
        let qemu = play(socket, "screendump");
        for c in ['a', 'B', '\n'] {
            monitor.press(c).unwrap();
        }
        let refusal = monitor.screen().unwrap_err().message;
        assert!(
            refusal.contains("screendump") && refusal.contains("no"),
            "{refusal}"
        );
        assert!(monitor.press('\u{1f980}').is_err());
        drop(monitor);
        let asked = qemu.join().unwrap();
        let has =
            |index: usize, words: &[&str]| words.iter().all(|word| asked[index].contains(word));
        assert!(has(0, &["qmp_capabilities"]));
        assert!(has(1, &["send-key", "\"a\""]) && !asked[1].contains("shift"));
        assert!(has(2, &["shift", "\"b\""]) && has(3, &["\"ret\""]));
    }
}
