//! The command line of `sh`, and the loop of an interactive shell.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::arith::Variables;
use crate::expand;
use crate::parser::{Awaited, Parser, SyntaxError};
use crate::shell::{Flow, Handle, Shell};
use crate::system::System;

const USAGE: &str = "usage: sh [-aefinux] [script [argument…]]\n       \
                     sh [-aefinux] -c commands [name [argument…]]\n       \
                     sh [-aefinux] -s [argument…]\n";

/// Runs the shell with these arguments (the first is the program's name) and returns its status.
pub fn run<S: System>(system: S, environment: Vec<(String, String)>, arguments: &[String]) -> i32 {
    let mut shell = Shell::new(system, environment, "sh");
    let mut words = arguments.get(1..).unwrap_or_default();
    if let Some((first, rest)) = words.split_first()
        && first == "--inside"
    {
        return shell.run_inside(rest).unwrap_or_else(|| usage(&mut shell));
    }
    let mut commands = false;
    let mut interactive = false;
    let mut from_standard_input = false;
    while let Some((first, rest)) = words.split_first() {
        let Some(letters) = first
            .strip_prefix('-')
            .filter(|letters| !letters.is_empty())
        else {
            break;
        };
        words = rest;
        if letters == "-" {
            break;
        }
        for letter in letters.chars() {
            match letter {
                'c' => commands = true,
                'i' => interactive = true,
                's' => from_standard_input = true,
                // A login shell: nothing to do here.
                'l' => {}
                'P' | 'B' => return usage(&mut shell),
                letter => {
                    if !shell.options.set(letter, true) {
                        return usage(&mut shell);
                    }
                }
            }
        }
    }
    match words.split_first() {
        Some((text, rest)) if commands => {
            if let Some((name, parameters)) = rest.split_first() {
                shell.name = name.clone();
                shell.parameters = parameters.into();
            }
            shell.look_for_lone_command(text);
            shell.run_script(text, 1)
        }
        None if commands => usage(&mut shell),
        Some((path, parameters)) if !from_standard_input => {
            shell.parameters = parameters.into();
            match shell.load(path) {
                Ok(text) => {
                    shell.name = path.clone();
                    shell.run_script(&text, 1)
                }
                Err(message) => {
                    shell.complain(&message);
                    127
                }
            }
        }
        _ => {
            shell.parameters = words.into();
            let terminal = match &shell.descriptors[0] {
                Some(Handle::File(file)) => shell.system.is_terminal(file),
                _ => false,
            };
            shell.interactive = interactive || terminal;
            from_input(&mut shell)
        }
    }
}

fn usage<S: System>(shell: &mut Shell<S>) -> i32 {
    // An error of this write cannot be reported.
    let _ = shell.write(2, USAGE.as_bytes());
    2
}

/// A prompt variable with its parameters expanded.
fn prompt<S: System>(shell: &mut Shell<S>, name: &str, default: &str) -> String {
    let text = shell.get(name).unwrap_or_else(|| default.into());
    // As the text of a here-document: parameters count, quotes do not.
    let source = format!(": <<\u{1}\n{text}\n\u{1}\n");
    let list = match Parser::new(&source, 1).line() {
        Ok(Some(list)) => list,
        _ => return text,
    };
    let redirect = list
        .items
        .first()
        .and_then(|item| item.body.first.commands.first())
        .and_then(|command| command.redirects.first());
    match redirect.map(|redirect| &redirect.target) {
        Some(crate::ast::Target::HereString(word)) => expand::text(word, shell).unwrap_or(text),
        _ => text,
    }
}

/// Runs commands from standard input, with prompts when a person types them.
fn from_input<S: System>(shell: &mut Shell<S>) -> i32 {
    let mut pending = String::new();
    // What the commands in `pending` wait for.
    let mut awaited = Awaited::Any;
    let mut line_number = 1;
    let mut lines = 0;
    loop {
        if shell.interactive {
            let text = if pending.is_empty() {
                shell.report_jobs();
                prompt(shell, "PS1", "${HOSTNAME:+$HOSTNAME:}$PWD # ")
            } else {
                prompt(shell, "PS2", "> ")
            };
            // When this fails the read below fails as well.
            let _ = shell.write(2, text.as_bytes());
        }
        let line = match shell.read_typed_line() {
            Ok(line) => line,
            Err(message) => {
                shell.complain(&format!("standard input: {message}"));
                return shell.finish(Err(Flow::Exit(1)));
            }
        };
        let end = line.is_none();
        if shell.interactive
            && let Some(line) = &line
        {
            shell.remember(&String::from_utf8_lossy(line));
        }
        if let Some(line) = &line {
            let line = String::from_utf8_lossy(line);
            // The last line goes on in this one, and a word may, too.
            let joined = pending.ends_with("\\\n");
            pending.push_str(&line);
            pending.push('\n');
            lines += 1;
            // Parsing begins at the first line again, so it waits for a line that may be the last:
            // else its time would grow with the square of the lines. A person who types learns of
            // an error at once, except in a here-document, where there is none.
            let waits = matches!(awaited, Awaited::Line(..)) || !(shell.interactive || joined);
            if waits && !awaited.may_be_in(&line) {
                continue;
            }
        }
        awaited = Awaited::Any;
        let text = core::mem::take(&mut pending);
        let mut parser = Parser::new(&text, line_number);
        let run = loop {
            match parser.line() {
                Ok(None) => break Ok(shell.status),
                Ok(Some(list)) => {
                    if let Err(flow) = shell.list(&list) {
                        break Err(flow);
                    }
                }
                Err(SyntaxError {
                    awaits: Some(more), ..
                }) if !end => {
                    awaited = more;
                    break Err(Flow::Continue(0));
                }
                Err(error) => {
                    shell.line = error.line;
                    shell.complain(&format!("syntax error: {}", error.message));
                    shell.status = 2;
                    break if shell.interactive {
                        Ok(2)
                    } else {
                        Err(Flow::Exit(2))
                    };
                }
            }
        };
        match run {
            // More lines are needed. A line that ran already is never followed by one that does
            // not parse: only whole lines are pending.
            Err(Flow::Continue(0)) => {
                pending = text;
                continue;
            }
            Err(Flow::Interrupt) if shell.interactive => {
                shell.status = crate::shell::INTERRUPTED;
            }
            Err(flow @ (Flow::Exit(_) | Flow::Interrupt)) => return shell.finish(Err(flow)),
            Ok(_) | Err(_) => {}
        }
        line_number += core::mem::take(&mut lines);
        if end {
            if shell.interactive {
                let _ = shell.write(2, b"exit\n");
            }
            let status = shell.status;
            return shell.finish(Ok(status));
        }
    }
}
