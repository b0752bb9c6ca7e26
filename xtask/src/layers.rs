//! The layers of the project (`config/layers.toml`): which crates a crate may use, and which
//! folders a folder within a crate. Dependencies point downward.

use crate::modules::{Circle, Import, Sources};
use harness::base::report::{Context, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Path of the file in the project.
pub const FILE: &str = "config/layers.toml";
/// The page with the picture of the layers.
pub const PAGE: &str = "docs/architecture.md";
/// The lines before and after the picture.
const BEGIN: &str = "<!-- config/layers.toml -->\n```\n";
const END: &str = "```\n";

/// The contents of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layers {
    group: Vec<Group>,
    /// For each crate's directory its folders, lowest first. Folders in one string, separated by
    /// blanks, do not use each other.
    folders: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    crates: Vec<String>,
    uses: Vec<String>,
}

impl Layers {
    /// Parses the file's text.
    pub fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).context(|| format!("understand {FILE}"))
    }

    /// The group of a crate, and its index in there.
    fn place(&self, name: &str) -> Option<(&Group, usize)> {
        self.group.iter().find_map(|group| {
            let place = group.crates.iter().position(|known| known == name)?;
            Some((group, place))
        })
    }

    /// The faults of the groups themselves: each may use only groups before it.
    fn check_groups(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut known = BTreeSet::new();
        for group in &self.group {
            for used in group.uses.iter().filter(|used| !known.contains(used)) {
                let name = &group.name;
                wrong.push(format!(
                    "the group '{name}' uses '{used}', which is not before it"
                ));
            }
            known.insert(&group.name);
        }
        wrong
    }

    /// The complaints about a crate: each names a crate that it must not use. `uses` has all
    /// crates of the project that it uses.
    fn check_crate(&self, name: &str, uses: &BTreeSet<String>) -> Vec<String> {
        let Some((group, place)) = self.place(name) else {
            return vec![format!("the crate '{name}' is in no group of {FILE}")];
        };
        let is_allowed = |used: &&String| match self.place(used) {
            Some((other, before)) if other.name == group.name => before < place,
            Some((other, _)) => group.uses.contains(&other.name),
            // There is a complaint about that crate itself.
            None => true,
        };
        let upward = uses.iter().filter(|used| !is_allowed(used));
        upward
            .map(|used| format!("'{name}' must not use '{used}': see the groups in {FILE}"))
            .collect()
    }

    /// The imports in a crate's sources that point upward, each with path and line.
    pub fn check_sources(
        &self,
        directory: &str,
        sources: &Sources,
    ) -> Vec<(String, usize, String)> {
        let Some(order) = self.folders.get(directory) else {
            return Vec::new();
        };
        let mut wrong = Vec::new();
        let layer = |name: &str| {
            let has = |layer: &String| layer.split(' ').any(|known| known == name);
            order.iter().position(has)
        };
        for source in sources.imports() {
            let Some(own) = source.module.first().filter(|own| *own != "bin") else {
                continue;
            };
            let mut complain = |line, what| {
                wrong.push((format!("{directory}/src/{}", source.path), line, what));
            };
            let Some(place) = layer(own) else {
                complain(1, format!("the module '{own}' is in no layer of {FILE}"));
                continue;
            };
            for Import { line, path } in &source.imports {
                let Some(module) = path.first().filter(|module| *module != own) else {
                    continue;
                };
                let is_upward = layer(module).is_some_and(|other| other >= place);
                if is_upward {
                    let what = format!("'{own}' must not use '{module}', which is not below it");
                    complain(*line, format!("{what} ({FILE})"));
                }
            }
        }
        wrong
    }

    /// The picture: a line for each group, the highest group first.
    fn picture(&self) -> String {
        let mut lines = String::new();
        for group in self.group.iter().rev() {
            let mut rows = vec![String::new()];
            for name in &group.crates {
                let row = rows.last_mut().expect("never empty");
                if row.len() + name.len() > CRATES_WIDTH {
                    rows.push(name.clone());
                } else {
                    *row = format!("{row} {name}").trim_start().to_string();
                }
            }
            let uses = match group.uses.len() {
                0 => "nothing".to_string(),
                count if count + 1 == self.group.len() => "all".to_string(),
                _ => group.uses.join(" "),
            };
            for (index, row) in rows.iter().enumerate() {
                let (name, uses) = match index {
                    0 => (group.name.as_str(), format!("uses {uses}")),
                    _ => ("", String::new()),
                };
                let line = format!(" {name:9} {row:CRATES_WIDTH$}  {uses}");
                lines += line.trim_end();
                lines.push('\n');
            }
        }
        lines
    }

    /// Checks that the page has the picture. If not, returns what it should be.
    fn check_page(&self, page: &str) -> Option<String> {
        let picture = self.picture();
        let found = page
            .split_once(BEGIN)
            .and_then(|(_, rest)| rest.split_once(END));
        if found.is_some_and(|(found, _)| found == picture) {
            return None;
        }
        Some(format!(
            "the picture of the layers should be\n{BEGIN}{picture}{END}"
        ))
    }
}

/// Width of the crates in the picture, in characters.
const CRATES_WIDTH: usize = 56;

/// The crates of the project: directory, name, and the crates of the project that each uses.
pub fn crates(root: &Path) -> Result<Vec<(String, String, BTreeSet<String>)>> {
    let manifest = |directory: &str| -> Result<toml::Table> {
        let path = root.join(directory).join("Cargo.toml");
        let text = std::fs::read_to_string(&path).context(|| format!("read {}", path.display()))?;
        text.parse()
            .context(|| format!("understand {}", path.display()))
    };
    let workspace = manifest("")?;
    let members = workspace
        .get("workspace")
        .and_then(|table| table.get("members"));
    let members = members.and_then(|members| members.as_array());
    let mut crates = Vec::new();
    for directory in members
        .into_iter()
        .flatten()
        .filter_map(|member| member.as_str())
    {
        let manifest = manifest(directory)?;
        let name = manifest
            .get("package")
            .and_then(|package| package.get("name")?.as_str());
        let targets = manifest
            .get("target")
            .and_then(|targets| targets.as_table());
        let targets = targets.into_iter().flat_map(|targets| targets.values());
        let tables = targets
            .filter_map(|target| target.as_table())
            .chain([&manifest]);
        let lists = tables.filter_map(|table| table.get("dependencies")?.as_table());
        let uses: BTreeSet<String> = lists.flat_map(|list| list.keys().cloned()).collect();
        crates.push((
            directory.to_string(),
            name.unwrap_or_default().to_string(),
            uses,
        ));
    }
    let names: BTreeSet<String> = crates.iter().map(|(_, name, _)| name.clone()).collect();
    for (_, _, uses) in &mut crates {
        uses.retain(|used| names.contains(used));
    }
    Ok(crates)
}

/// Folders of `tests` whose crates are tools.
const TOOLS: &[&str] = &["tests/harness", "tests/bench/runner"];

/// Whether the crate in a directory is a test as a whole; the modules of tests need no order.
pub fn is_test_crate(directory: &str) -> bool {
    directory.starts_with("tests/") && !TOOLS.contains(&directory)
}

/// Number of modules at its root from which on a crate must have an order.
const MANY_MODULES: usize = 4;

/// Complains about a crate that has many modules and no order of them.
fn needs_order(directory: &str, sources: &Sources) -> Option<(String, usize, String)> {
    let sources = sources.imports();
    let modules = sources.iter().filter_map(|source| source.module.first());
    let modules: BTreeSet<&String> = modules.filter(|module| *module != "bin").collect();
    (modules.len() >= MANY_MODULES).then(|| {
        let what = format!("'{directory}' has {} modules, and no order", modules.len());
        (FILE.to_string(), 1, what)
    })
}

/// All complaints about the project in a directory: path, line and what to do.
pub fn complaints(root: &Path) -> Result<Vec<(String, usize, String)>> {
    let read =
        |name: &str| std::fs::read_to_string(root.join(name)).context(|| format!("read {name}"));
    let layers = Layers::parse(&read(FILE)?)?;
    let mut found = Vec::new();
    for what in layers.check_groups() {
        found.push((FILE.to_string(), 1, what));
    }
    if let Some(what) = layers.check_page(&read(PAGE)?) {
        found.push((PAGE.to_string(), 1, what));
    }
    for (directory, name, uses) in crates(root)? {
        for what in layers.check_crate(&name, &uses) {
            found.push((format!("{directory}/Cargo.toml"), 1, what));
        }
        let sources = Sources::read(&root.join(&directory))?;
        found.extend(layers.check_sources(&directory, &sources));
        if is_test_crate(&directory) {
            continue;
        }
        found.extend(circular(&directory, &sources.circles()));
        if !layers.folders.contains_key(&directory) {
            found.extend(needs_order(&directory, &sources));
        }
    }
    Ok(found)
}

/// The imports of a crate that belong to circles of its modules.
fn circular(directory: &str, circles: &[Circle]) -> Vec<(String, usize, String)> {
    let mut wrong = Vec::new();
    for circle in circles {
        let modules = circle.modules.join(" ");
        for (path, line, from, to) in &circle.arrows {
            let what = format!("'{from}' uses '{to}' within the circle {modules}");
            wrong.push((format!("{directory}/src/{path}"), *line, what));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYERS: &str = r#"
[[group]]
name = "low"
crates = ["abi", "ring"]
uses = []
[[group]]
name = "high"
crates = ["engine"]
uses = ["low"]
[folders]
"lib/engine" = ["base", "call window", "rma", "flow"]
"#;

    const ROOT: &str = "//! Root.\nmod base;\npub use flow::rma::{Rma, Marks as Fences};\n";

    const NONE: [usize; 0] = [];

    fn layers() -> Layers {
        Layers::parse(LAYERS).unwrap()
    }

    fn uses(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn crates_use_what_is_below_them() {
        let layers = layers();
        assert_eq!(layers.check_groups(), [""; 0]);
        assert_eq!(
            layers.check_crate("engine", &uses(&["abi", "ring"])),
            [""; 0]
        );
        assert_eq!(layers.check_crate("ring", &uses(&["abi"])), [""; 0]);
        assert_eq!(layers.check_crate("abi", &uses(&["ring"])).len(), 1);
        assert_eq!(
            layers.check_crate("ring", &uses(&["abi", "engine"])).len(),
            1
        );
        assert_eq!(layers.check_crate("other", &uses(&[])).len(), 1);
        let turned = LAYERS.replace("uses = []", "uses = [\"high\"]");
        assert_eq!(Layers::parse(&turned).unwrap().check_groups().len(), 1);
    }

    #[test]
    fn an_upward_import_is_found() {
        let layers = layers();
        let lines = |path: &str, text: &str| {
            let path = path.strip_prefix("lib/engine/src/").unwrap().to_string();
            let sources = [
                ("lib.rs".to_string(), ROOT.to_string()),
                (path, text.to_string()),
            ];
            let found = layers.check_sources("lib/engine", &Sources(sources.into()));
            found
                .into_iter()
                .map(|(_, line, _)| line)
                .collect::<Vec<_>>()
        };
        let rma = "lib/engine/src/rma/job.rs";
        assert_eq!(
            lines(rma, "use crate::base::Table;\nuse super::Job;\n"),
            NONE
        );
        assert_eq!(
            lines(rma, "use crate::window::Space;\nuse crate::rma::X;\n"),
            NONE
        );
        assert_eq!(lines(rma, "//! Job.\nuse crate::flow::connect;\n"), [2]);
        assert_eq!(
            lines(rma, "use crate::{\n    base::{A, B},\n    flow,\n};\n"),
            [1]
        );
        assert_eq!(lines(rma, "fn f() {\n    crate::flow::run();\n}\n"), [2]);
        assert_eq!(lines(rma, "use super::super::flow::X;\n"), [1]);
        assert_eq!(lines(rma, "// crate::flow is not used\n"), NONE);
        // An import by way of the root.
        assert_eq!(lines(rma, "use crate::{Fences, Engine};\n"), [1]);
        // Nor from a module at the same level.
        assert_eq!(
            lines("lib/engine/src/call.rs", "use crate::window::Space;\n"),
            [1]
        );
        assert_eq!(
            lines("lib/engine/src/call/mod.rs", "use super::rma::Job;\n"),
            [1]
        );
        assert_eq!(lines("lib/engine/src/new.rs", ""), [1]);
        // Roots and tests may import anything.
        assert_eq!(
            lines("lib/engine/src/lib.rs", "use crate::flow::X;\n"),
            NONE
        );
        let test = "fn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::flow::X;\n}\n";
        assert_eq!(lines(rma, test), NONE);
        assert_eq!(
            lines("lib/engine/src/rma/tests.rs", "use crate::flow::X;\n"),
            NONE
        );
    }

    #[test]
    fn a_circle_is_found() {
        let check = |files: &[(&str, &str)]| {
            let files = files
                .iter()
                .map(|(path, text)| (path.to_string(), text.to_string()));
            let found = circular("lib/engine", &Sources(files.collect()).circles());
            found
                .into_iter()
                .map(|(path, line, _)| format!("{path}:{line}"))
                .collect::<BTreeSet<_>>()
        };
        let one_way = [
            ("base.rs", "\n"),
            ("flow/mod.rs", "use crate::base::Table;\n"),
            ("rma/job.rs", "use super::mark::Mark;\n"),
            ("rma/mark.rs", "\n"),
        ];
        assert_eq!(check(&one_way), BTreeSet::new());
        let circles = [
            ("base.rs", "\nuse crate::flow;\n"),
            one_way[1],
            one_way[2],
            ("rma/mark.rs", "use super::job::Job;\n"),
        ];
        let found = [
            "lib/engine/src/base.rs:2",
            "lib/engine/src/flow/mod.rs:1",
            "lib/engine/src/rma/job.rs:1",
            "lib/engine/src/rma/mark.rs:1",
        ];
        assert_eq!(check(&circles), found.map(String::from).into());
    }

    #[test]
    fn a_crate_with_many_modules_needs_an_order() {
        let sources = |count: usize| {
            let files = (0..count).map(|number| (format!("m{number}.rs"), String::new()));
            Sources(
                files
                    .chain([("lib.rs".to_string(), String::new())])
                    .collect(),
            )
        };
        assert_eq!(needs_order("lib/a", &sources(MANY_MODULES - 1)), None);
        assert!(needs_order("lib/a", &sources(MANY_MODULES)).is_some());
    }

    #[test]
    fn the_picture_is_compared() {
        let layers = layers();
        let page = format!("# Page\n{BEGIN}{}{END}more\n", layers.picture());
        assert_eq!(layers.check_page(&page), None);
        assert!(
            layers
                .check_page(&page.replace("engine", "motor"))
                .is_some()
        );
        assert!(layers.check_page("# Page\n").is_some());
        let lines: Vec<_> = layers.picture().lines().map(str::to_string).collect();
        assert!(lines[0].starts_with(" high      engine") && lines[0].ends_with("uses all"));
        assert!(lines[1].ends_with("uses nothing"));
    }
}
