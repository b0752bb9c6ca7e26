//! `check-redox`: checks everything about a Redox installation that can be checked without one.
//! The programs for it type-check with the standard library for its target, the files in
//! `config/redox` are of the form that its build system reads, and `docs/redox.md` names all parts
//! of the kernel that they use.

mod surface;

use crate::toolchain::{self, Target};
use harness::base::report::{Context, Failure, Result};
use harness::base::settings::Settings;
use harness::base::workspace;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Directory of the files for the build system of Redox.
const FILES: &str = "config/redox";
/// Packages that are checked with `std` and not installed: programs that every Redox has in a form
/// of its own, and the examples.
const CHECKED_ONLY: &[&str] = &["tools", "scif-examples", "st-examples"];
/// Directory of the drivers of a Redox installation.
const DRIVERS: &str = "/usr/lib/drivers/";

/// Runs the command.
pub fn command(_settings: &Settings) -> Result<()> {
    surface::check()?;
    let installed = check_files()?;
    type_check(&installed)
}

/// A recipe of the Redox build system, with the fields that ours uses.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recipe {
    build: Build,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Build {
    template: String,
    script: String,
}

/// A file of `pcid.d`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Drivers {
    drivers: Vec<Driver>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Driver {
    name: String,
    ids: BTreeMap<String, Vec<u16>>,
    command: Vec<String>,
}

/// A unit of Redox's init.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnitFile {
    unit: Unit,
    service: Service,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unit {
    description: String,
    requires_weak: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Service {
    cmd: String,
    #[serde(rename = "type")]
    kind: ServiceType,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ServiceType {
    Scheme(String),
}

/// Checks the files for the build system. Returns the packages that the recipe installs.
fn check_files() -> Result<Vec<String>> {
    let recipe: Recipe = read("recipe.toml")?;
    let packages = recipe_packages(&recipe)?;
    let programs: BTreeSet<&str> = packages.iter().map(String::as_str).collect();
    let image: toml::Table = read("image.toml")?;
    let schemes = login_schemes(&image)?;
    for name in names("pcid.d")? {
        let file: Drivers = read(&name)?;
        for driver in &file.drivers {
            check_driver(driver, &programs)
                .map_err(|f| format!("{FILES}/{name}: {}", f.message))?;
        }
    }
    let units = names("init.d")?;
    for name in &units {
        let file: UnitFile = read(name)?;
        check_unit(&file, &programs, &schemes, &units)
            .map_err(|f| format!("{FILES}/{name}: {}", f.message))?;
    }
    Ok(packages)
}

/// The packages in the recipe's loop, if the recipe has the form that is understood here.
fn recipe_packages(recipe: &Recipe) -> Result<Vec<String>> {
    let Recipe { build } = recipe;
    if build.template != "custom" {
        return Err(format!("{FILES}/recipe.toml: not a custom recipe").into());
    }
    let list = build
        .script
        .lines()
        .find_map(|line| line.strip_prefix("for program in ")?.strip_suffix("; do"));
    let packages: Vec<String> = list
        .unwrap_or_default()
        .split_whitespace()
        .map(str::to_string)
        .collect();
    match packages.is_empty() {
        true => Err(format!("{FILES}/recipe.toml: no line `for program in …; do`").into()),
        false => Ok(packages),
    }
}

/// The schemes that ordinary users may open, from the file of the image configuration.
fn login_schemes(image: &toml::Table) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    struct File {
        user_schemes: BTreeMap<String, Schemes>,
    }
    #[derive(Deserialize)]
    struct Schemes {
        schemes: Vec<String>,
    }
    let missing = || Failure::from(format!("{FILES}/image.toml: no /etc/login_schemes.toml"));
    let files = image.get("files").and_then(|files| files.as_array());
    let is_it = |file: &&toml::Value| {
        let path = file.get("path").and_then(|path| path.as_str());
        path == Some("/etc/login_schemes.toml")
    };
    let file = files.and_then(|files| files.iter().find(is_it));
    let data = file.and_then(|file| file.get("data")?.as_str());
    let file: File = toml::from_str(data.ok_or_else(missing)?)
        .context(|| format!("understand the login schemes in {FILES}/image.toml"))?;
    let user = file.user_schemes.get("user").ok_or_else(missing)?;
    Ok(user.schemes.clone())
}

fn check_driver(driver: &Driver, programs: &BTreeSet<&str>) -> Result<()> {
    let Driver { name, ids, command } = driver;
    for vendor in ids.keys() {
        let digits = vendor.strip_prefix("0x").unwrap_or(vendor);
        if u16::from_str_radix(digits, 16).is_err() {
            return Err(format!("{name}: the vendor '{vendor}' is no hexadecimal number").into());
        }
    }
    if ids.values().all(Vec::is_empty) {
        return Err(format!("{name}: matches no device").into());
    }
    match command.first() {
        Some(program) if programs.contains(program.as_str()) => Ok(()),
        _ => Err(format!("{name}: {command:?} is no program that the recipe installs").into()),
    }
}

fn check_unit(
    file: &UnitFile,
    programs: &BTreeSet<&str>,
    login_schemes: &[String],
    units: &[String],
) -> Result<()> {
    let Service { cmd, kind } = &file.service;
    let ServiceType::Scheme(scheme) = kind;
    let program = cmd.strip_prefix(DRIVERS).unwrap_or(cmd);
    if !programs.contains(program) {
        return Err(format!("'{cmd}' is no program that the recipe installs").into());
    }
    if !login_schemes.contains(scheme) {
        return Err(format!("users do not see the scheme '{scheme}' (login_schemes.toml)").into());
    }
    if file.unit.description.is_empty() {
        return Err("no description".into());
    }
    // This project's units are numbered from 30 on; those before belong to the system.
    let ours = |unit: &&String| unit.as_str() >= "30";
    for unit in file.unit.requires_weak.iter().filter(ours) {
        if !units.contains(&format!("init.d/{unit}")) {
            return Err(format!("waits for the unit '{unit}', which is not there").into());
        }
    }
    Ok(())
}

fn read<T: for<'de> Deserialize<'de>>(name: &str) -> Result<T> {
    let path = workspace::root().join(FILES).join(name);
    let text = std::fs::read_to_string(&path).context(|| format!("read {FILES}/{name}"))?;
    toml::from_str(&text).context(|| format!("understand {FILES}/{name}"))
}

/// The files in a directory of [`FILES`], as paths below it.
fn names(directory: &str) -> Result<Vec<String>> {
    let path = workspace::root().join(FILES).join(directory);
    let list = |path: &Path| -> std::io::Result<Vec<String>> {
        std::fs::read_dir(path)?
            .map(|item| {
                Ok(format!(
                    "{directory}/{}",
                    item?.file_name().to_string_lossy()
                ))
            })
            .collect()
    };
    let mut names = list(&path).context(|| format!("read {}", path.display()))?;
    names.sort();
    Ok(names)
}

/// Type-checks the packages with their feature `std` for a Redox installation.
fn type_check(installed: &[String]) -> Result<()> {
    let toolchain = toolchain::find()?;
    let mut command = toolchain.cargo_with_std("check", Target::Program);
    command.arg("--quiet");
    let packages = installed.iter().map(String::as_str);
    for package in packages.chain(CHECKED_ONLY.iter().copied()) {
        command.args(["--package", package]);
        command.args(["--features", &format!("{package}/std")]);
    }
    let status = command.status().context(|| "start cargo".to_string())?;
    if status.success() {
        return Ok(());
    }
    Err("the programs do not type-check with `std` for Redox".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(cmd: &str, scheme: &str, after: &str) -> UnitFile {
        let text = format!(
            "[unit]\ndescription = \"x\"\nrequires_weak = [\"{after}\"]\n\
             [service]\ncmd = \"{cmd}\"\ntype = {{ scheme = \"{scheme}\" }}\n"
        );
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn units_name_programs_schemes_and_units_that_exist() {
        let programs = BTreeSet::from(["micd"]);
        let schemes = ["scif".to_string()];
        let units = ["init.d/30_micd.service".to_string()];
        let check = |file: &UnitFile| check_unit(file, &programs, &schemes, &units);
        let cmd = "/usr/lib/drivers/micd";
        assert!(check(&unit(cmd, "scif", "00_base.target")).is_ok());
        assert!(check(&unit("micd", "scif", "30_micd.service")).is_ok());
        let message = |file| check(&file).unwrap_err().message;
        assert!(message(unit("scifd", "scif", "00_base.target")).contains("'scifd' is no program"));
        assert!(message(unit(cmd, "pci", "00_base.target")).contains("do not see"));
        assert!(message(unit(cmd, "scif", "31_micd.service")).contains("is not there"));
    }

    #[test]
    fn drivers_match_devices_and_start_programs_of_the_recipe() {
        let driver = |ids: &str, command: &str| -> Driver {
            let text = format!("name = \"x\"\nids = {{ {ids} }}\ncommand = [\"{command}\"]");
            toml::from_str(&text).unwrap()
        };
        let programs = BTreeSet::from(["micd"]);
        let check = |driver: &Driver| check_driver(driver, &programs);
        assert!(check(&driver("0x8086 = [0x2250]", "micd")).is_ok());
        assert!(check(&driver("0x8086 = []", "micd")).is_err());
        assert!(check(&driver("intel = [0x2250]", "micd")).is_err());
        assert!(check(&driver("0x8086 = [0x2250]", "x100d")).is_err());
    }

    #[test]
    fn the_recipe_tells_its_packages() {
        let recipe = |script: &str| Recipe {
            build: Build {
                template: "custom".to_string(),
                script: script.to_string(),
            },
        };
        let found = recipe_packages(&recipe("for program in a b; do\ndone")).unwrap();
        assert_eq!(found, ["a", "b"]);
        assert!(recipe_packages(&recipe("cookbook_cargo")).is_err());
    }
}
