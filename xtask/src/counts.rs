//! `counts`: measures the size and structure of the project, or of another commit in a directory
//! of its own.

use crate::layers::{self, Layers};
use crate::modules::{self, Sources, code};
use harness::base::report::{Context, Result};
use harness::base::settings::Settings;
use std::path::Path;

/// Number of types and files that are shown.
const SHOWN: usize = 6;
/// The engine's crate, and the places where its main type may have methods.
const ENGINE: &str = "lib/scif-core";
const ENGINE_HOMES: &[&str] = &["engine.rs", "run.rs", "flow/", "view/"];
/// Runs the command.
pub fn command(settings: &Settings) -> Result<()> {
    let own = harness::base::workspace::root();
    let root = settings.directory().unwrap_or(&own);
    let file = own.join(layers::FILE);
    let shown = || format!("read {}", file.display());
    let layers = Layers::parse(&std::fs::read_to_string(&file).context(shown)?)?;
    print!("{}", report(root, &layers)?);
    Ok(())
}

fn report(root: &Path, layers: &Layers) -> Result<String> {
    let (mut lines, mut upward) = (0, 0);
    let (mut crates, mut files, mut types) = (Vec::new(), Vec::new(), Vec::new());
    let mut circles = Vec::new();
    let (mut engine, mut strangers) = (0, 0);
    for (directory, name, _) in layers::crates(root)? {
        let sources = Sources::read(&root.join(&directory))?;
        if layers::is_test_crate(&directory) {
            continue;
        }
        let mut own = 0;
        for (path, text) in &sources.0 {
            if modules::is_test(path) {
                continue;
            }
            let code = code(text);
            let count = code.lines().count();
            lines += count;
            own += count;
            files.push((count, format!("{directory}/src/{path}")));
            types.extend(fields(&code).map(|(count, kind)| (count, format!("{name}::{kind}"))));
            if directory == ENGINE && has_methods(&code, "Engine") {
                engine += 1;
                strangers += usize::from(!ENGINE_HOMES.iter().any(|home| path.starts_with(home)));
            }
        }
        crates.push((own, directory.clone()));
        upward += layers.check_sources(&directory, &sources).len();
        for circle in sources.circles() {
            let folder = format!("{directory}/src/{}", circle.folder);
            let folder = folder.trim_end_matches('/');
            circles.push(format!("{folder}: {}", circle.modules.join(" ")));
        }
    }
    let longest = files.iter().map(|(count, _)| *count).max().unwrap_or(0);
    let mut text = format!("lines outside tests      {lines}\n{}", all(crates));
    text += &format!("longest file             {longest}\n{}", largest(files));
    text += &format!("fields of a type\n{}", largest(types));
    text += &format!("files with impl Engine   {engine}, {strangers} of them elsewhere than in ");
    text += &format!("{}\n", ENGINE_HOMES.join(" "));
    text += &format!("upward imports           {upward}\n");
    text += &format!("circles of modules       {}\n", circles.len());
    for circle in circles {
        text += &format!("    {circle}\n");
    }
    Ok(text)
}

/// The items with the largest counts, one a line.
fn largest(mut counted: Vec<(usize, String)>) -> String {
    counted.sort_by(|one, other| other.cmp(one));
    counted.truncate(SHOWN);
    all(counted)
}

/// All items, those with the largest counts first, one a line.
fn all(mut counted: Vec<(usize, String)>) -> String {
    counted.sort_by(|one, other| other.cmp(one));
    let lines = counted.iter();
    lines
        .map(|(count, name)| format!("    {count:5} {name}\n"))
        .collect()
}

/// The structures in a source, each with its number of fields.
fn fields(code: &str) -> impl Iterator<Item = (usize, String)> {
    let structures = code.split("struct ").skip(1);
    structures.filter_map(|text| {
        let (head, rest) = text.split_once(" {\n")?;
        let name: String = head.chars().take_while(|c| c.is_alphanumeric()).collect();
        if head.contains(';') || name.is_empty() {
            return None;
        }
        // Fields are the lines that are indented as little as any.
        let depth = |line: &str| line.len() - line.trim_start().len();
        let lines = rest.lines().take_while(|line| line.trim() != "}");
        let lines = lines.filter(|line| !line.trim().is_empty());
        let own = lines.clone().map(depth).min().unwrap_or(0);
        let is_field = |line: &&str| {
            let field = line.split_once(": ").map_or("", |(field, _)| field);
            let name = field.rsplit(' ').next().unwrap_or_default();
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
        };
        let fields = lines.filter(|line| depth(line) == own).filter(is_field);
        Some((fields.count(), name))
    })
}

/// Whether a source has an `impl` block of a type.
fn has_methods(code: &str, name: &str) -> bool {
    let own = |line: &str| {
        let rest = line
            .strip_prefix("impl ")
            .and_then(|rest| rest.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with([' ', '<']) && !rest.contains(" for "))
    };
    code.lines().any(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted() {
        let code = "pub struct A {\n    one: u8,\n    pub two: B<C::D>,\n    \
             pub(crate) three: u8,\n}\n\
             struct Unit;\nstruct Pair(u8, u8);\nfn f() {\n    let one: u8 = 1;\n}\n\
             mod m {\n    struct Inner<T: X> {\n        one: T,\n    }\n}\n";
        let found: Vec<_> = fields(code).collect();
        assert_eq!(found, [(3, "A".to_string()), (1, "Inner".to_string())]);
    }

    #[test]
    fn methods_are_found() {
        assert!(has_methods("impl Engine {\n", "Engine"));
        assert!(has_methods("impl Engine<T> {\n", "Engine"));
        assert!(!has_methods("impl Engines {\n", "Engine"));
        assert!(!has_methods("impl Drop for Engine {\n", "Engine"));
    }
}
