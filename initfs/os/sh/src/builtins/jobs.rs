//! Builtins for background jobs and signals.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::shell::{Flow, Run, Shell};
use crate::system::{Pid, System};

impl<S: System> Shell<S> {
    pub(super) fn list_jobs(&mut self) -> Result<i32, String> {
        self.reap();
        let mut out = String::new();
        for job in &self.jobs {
            let pid = job.processes.last().map_or(0, |(pid, _)| *pid);
            let state = match job.status() {
                None => "running".into(),
                Some(0) => "done".into(),
                Some(status) => format!("status {status}"),
            };
            out.push_str(&format!("[{}] {pid} {state}  {}\n", job.number, job.text));
        }
        self.jobs.retain(|job| job.status().is_none());
        self.write(1, out.as_bytes()).map(|()| 0)
    }

    /// Prints which jobs have ended, for an interactive shell before its prompt.
    pub(crate) fn report_jobs(&mut self) {
        self.reap();
        let mut out = String::new();
        for job in &self.jobs {
            match job.status() {
                None => {}
                Some(0) => out.push_str(&format!("[{}] done  {}\n", job.number, job.text)),
                Some(status) => {
                    out.push_str(&format!("[{}] status {status}  {}\n", job.number, job.text));
                }
            }
        }
        self.jobs.retain(|job| job.status().is_none());
        // If the terminal has gone, the next read finds out.
        let _ = self.write(2, out.as_bytes());
    }

    /// The job a word names: `%number` or the id of one of its processes.
    pub(super) fn find_job(&self, word: &str) -> Result<Option<usize>, String> {
        if let Some(number) = word.strip_prefix('%') {
            let number: u32 = number
                .parse()
                .map_err(|_| format!("`{word}` is not a job number"))?;
            return match self.jobs.iter().position(|job| job.number == number) {
                Some(index) => Ok(Some(index)),
                None => Err(format!("{word}: there is no such job")),
            };
        }
        let pid: Pid = word
            .parse()
            .map_err(|_| format!("`{word}` is not a process id"))?;
        // An older job may have had a process of the same number.
        Ok(self
            .jobs
            .iter()
            .rposition(|job| job.processes.iter().any(|(id, _)| *id == pid)))
    }

    /// Waits for one job, by default the newest one, as for a command in the foreground.
    pub(super) fn bring_forward(&mut self, rest: &[String]) -> Run {
        self.reap();
        let found = match rest {
            [] => Ok(self.jobs.len().checked_sub(1)),
            [word] => self.find_job(word),
            _ => Err("one job is expected".into()),
        };
        let index = match found {
            Ok(Some(index)) => index,
            Ok(None) => {
                self.complain("fg: there is no such job");
                return Ok(1);
            }
            Err(message) => {
                self.complain(&format!("fg: {message}"));
                return Ok(1);
            }
        };
        let text = format!("{}\n", self.jobs[index].text);
        // If the terminal has gone, the next read finds out.
        let _ = self.write(2, text.as_bytes());
        let ended = self.wait_job(index);
        match ended.interrupted && self.interactive {
            true => Err(Flow::Interrupt),
            false => Ok(ended.status),
        }
    }

    pub(super) fn wait_builtin(&mut self, rest: &[String]) -> Result<i32, String> {
        let mut status = 0;
        if rest.is_empty() {
            while !self.jobs.is_empty() {
                self.wait_job(0);
            }
        }
        for word in rest {
            status = match self.find_job(word)? {
                Some(index) => self.wait_job(index).status,
                // The process is no child of this shell, or was waited for already.
                None => 127,
            };
        }
        Ok(status)
    }

    pub(super) fn kill(&mut self, rest: &[String]) -> Result<i32, String> {
        let mut number = 15;
        let mut words = rest;
        if let Some((flag, others)) = rest.split_first()
            && let Some(text) = flag.strip_prefix('-')
            && text != "-"
        {
            words = others;
            if text == "l" {
                let names: Vec<&str> = tools::signal::SIGNALS
                    .iter()
                    .map(|(name, _)| *name)
                    .collect();
                return self
                    .write(1, format!("{}\n", names.join(" ")).as_bytes())
                    .map(|()| 0);
            }
            let text = if text == "s" {
                let (name, others) = words.split_first().ok_or("-s needs a signal")?;
                words = others;
                name
            } else {
                text
            };
            number = tools::signal::number(text).ok_or(format!("unknown signal `{text}`"))?;
        }
        if words.first().is_some_and(|word| word == "--") {
            words = &words[1..];
        }
        if words.is_empty() {
            return Err("a process id or %job is missing".into());
        }
        for word in words {
            let targets: Vec<i64> = match word.parse() {
                Ok(target) => Vec::from([target]),
                Err(_) => match self.find_job(word)? {
                    Some(index) => {
                        let running = self.jobs[index].processes.iter();
                        running
                            .filter(|(_, status)| status.is_none())
                            .map(|(pid, _)| i64::from(*pid))
                            .collect()
                    }
                    None => Vec::new(),
                },
            };
            for target in targets {
                self.system
                    .kill(target, number)
                    .map_err(|error| format!("{target}: {}", self.system.describe(error)))?;
            }
        }
        Ok(0)
    }
}
