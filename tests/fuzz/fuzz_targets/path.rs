//! Paths and addresses that programs name things by: the scheme's, the kernel's memory scheme's and
//! a function's on the PCI bus. What is accepted names one thing, and other spellings of it fail.
#![no_main]

use hal::pci::protocol::Address;
use kernel_core::memory_path::{MAX_PATH, MemoryPath};
use libfuzzer_sys::fuzz_target;
use scheme_scif::path::{NAME_MAX, PATH_MAX, Path, TextFile};

/// The canonical spelling of what a path names.
fn spell(path: Path) -> String {
    match path {
        Path::Root => String::new(),
        Path::Node(node) => node.to_string(),
        Path::Connect { node, port } => format!("{node}/{port}"),
        Path::ListenDirectory => "listen".into(),
        Path::Listen(port) => format!("listen/{port}"),
        Path::AcceptDirectory => "accept".into(),
        Path::Accept(port) => format!("accept/{port}"),
        Path::Endpoint => "endpoint".into(),
        Path::Memory => "memory".into(),
        Path::Peers => "peers".into(),
        Path::Text(file) => file.name().into(),
    }
}

fuzz_target!(|text: &str| {
    match Path::parse(text) {
        Ok(path) => {
            assert!(text.len() <= PATH_MAX);
            assert!(text.split('/').all(|word| word.len() <= NAME_MAX));
            if let Path::Connect { port, .. } | Path::Accept(port) = path {
                assert_ne!(port, 0, "nobody connects to port 0");
            }
            let canonical = spell(path);
            assert_eq!(Path::parse(&canonical), Ok(path));
            // Numbers may have leading zeros; nothing else is spelt in two ways.
            let trimmed = text.split('/').map(|word| {
                let number = word.bytes().all(|byte| byte.is_ascii_digit());
                let rest = word.trim_start_matches('0');
                match (number && !word.is_empty(), rest) {
                    (true, "") => "0",
                    (true, rest) => rest,
                    (false, _) => word,
                }
            });
            assert_eq!(trimmed.collect::<Vec<_>>().join("/"), canonical);
        }
        Err(error) => {
            assert!(TextFile::ALL.iter().all(|file| file.name() != text));
            assert!((1..=200).contains(&error.errno));
        }
    }
    if let Some(path) = MemoryPath::parse(text) {
        assert!(text.len() <= MAX_PATH);
        assert_eq!(MemoryPath::from_number(path.to_number()), Some(path));
        assert!(!path.is_unprivileged() || !text.contains("physical"));
    }
    if let Some(address) = Address::parse(text) {
        assert_eq!(address.to_string(), text.to_ascii_lowercase());
    }
    let mut number = 0;
    for byte in text.bytes().take(8) {
        number = number << 8 | usize::from(byte);
    }
    if let Some(path) = MemoryPath::from_number(number) {
        assert_eq!(path.to_number(), number);
    }
});
