//! `fabric`: only the PCI fabric server, for QEMUs started by hand.

use crate::base::config;
use crate::base::report::Result;
use crate::base::settings::Settings;
use crate::network::fabric::{Fabric, Options};

/// The command: only the server, for QEMUs started by hand.
pub fn command(settings: &Settings) -> Result<()> {
    let node = config::node()?;
    let directory = crate::base::run_directory::RunDirectory::new()?;
    let options = Options {
        directory: directory.path().to_path_buf(),
        nodes: settings.nodes(2)?,
        link_bytes: node.link_memory_kib * 1024,
        vectors: node.doorbell_vectors,
        relayed: false,
    };
    let fabric = Fabric::start(&options)?;
    for own in 0..options.nodes {
        for peer in (0..options.nodes).filter(|peer| *peer != own) {
            println!(
                "node {own}, link with node {peer}: {}",
                fabric.socket(own, peer).display()
            );
        }
    }
    println!(
        "serving in {}; end with Ctrl-C",
        options.directory.display()
    );
    loop {
        std::thread::park();
    }
}
