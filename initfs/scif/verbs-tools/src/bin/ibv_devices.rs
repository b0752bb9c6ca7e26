//! `ibv_devices`: lists the RDMA devices of this node, in the form of rdma-core's program of that
//! name.
#![cfg_attr(target_os = "redox", no_std, no_main)]

#[cfg(target_os = "redox")]
mod program {
    use runtime::{env, print};
    use scifctl::files::Files;
    use scifctl::table::Table;
    use verbs_tools::devinfo;

    runtime::main!(main);

    const FILES: Files = Files {
        program: "ibv_devices",
        directory: "/scheme/infiniband",
    };

    fn main() -> i32 {
        let purpose = "lists the RDMA devices of this node";
        if let Some(status) = env::answer_people("", purpose, 0) {
            return runtime::io::printed(FILES.program, status);
        }
        match FILES.read("devices") {
            Ok(text) => {
                let table = Table::parse(&text);
                print!("{}", devinfo::list(table.pairs("device", "guid")));
                runtime::io::printed(FILES.program, 0)
            }
            Err(status) => status,
        }
    }
}

/// The program runs on Redox only; elsewhere its library is tested.
#[cfg(not(target_os = "redox"))]
fn main() {}
