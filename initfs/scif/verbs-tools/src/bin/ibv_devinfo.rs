//! `ibv_devinfo`: describes the RDMA device and its port, in the form of rdma-core's program of
//! that name.
#![cfg_attr(target_os = "redox", no_std, no_main)]

#[cfg(target_os = "redox")]
extern crate alloc;

#[cfg(target_os = "redox")]
mod program {
    use alloc::string::String;
    use alloc::vec::Vec;

    use runtime::{env, eprintln, print, println};
    use scifctl::files::{Files, STATUS_USAGE};
    use scifctl::table::Table;
    use verbs_tools::devinfo;

    runtime::main!(main);

    const USAGE: &str = "\
usage: ibv_devinfo [-v] [-d DEVICE]   the device and its port; -v says all
       ibv_devinfo -l                 names of devices";

    const FILES: Files = Files {
        program: "ibv_devinfo",
        directory: "/scheme/infiniband",
    };

    fn main() -> i32 {
        let arguments: Vec<String> = env::args().skip(1).collect();
        let mut words = arguments.iter().map(String::as_str);
        let (mut is_long, mut lists, mut wanted) = (false, false, None);
        while let Some(word) = words.next() {
            match word {
                "-v" | "--verbose" => is_long = true,
                "-l" | "--list" => lists = true,
                "-d" | "--ib-dev" => match words.next() {
                    Some(name) => wanted = Some(name),
                    None => return usage("-d: which DEVICE?"),
                },
                "-h" | "--help" => {
                    println!("{USAGE}");
                    return runtime::io::printed(FILES.program, 0);
                }
                other => return usage(other),
            }
        }
        let status = run(is_long, lists, wanted).err().unwrap_or(0);
        runtime::io::printed(FILES.program, status)
    }

    fn usage(word: &str) -> i32 {
        FILES.not_understood(&[word], USAGE);
        STATUS_USAGE
    }

    fn run(is_long: bool, lists: bool, wanted: Option<&str>) -> Result<(), i32> {
        let devices = Table::parse(&FILES.read("devices")?);
        let names: Vec<&str> = devices
            .pairs("device", "node")
            .map(|(name, _)| name)
            .collect();
        if lists {
            println!("{} HCA found:", names.len());
            names.iter().for_each(|name| println!("\t{name}"));
            return Ok(());
        }
        if let Some(name) = wanted.filter(|name| !names.contains(name)) {
            eprintln!("ibv_devinfo: no device is named {name}; `ibv_devinfo -l` lists them");
            return Err(1);
        }
        let text = FILES.read("devinfo")?;
        match is_long {
            true => print!("{text}"),
            false => print!("{}", devinfo::short(&text)),
        }
        Ok(())
    }
}

/// The program runs on Redox only; elsewhere its library is tested.
#[cfg(not(target_os = "redox"))]
fn main() {}
