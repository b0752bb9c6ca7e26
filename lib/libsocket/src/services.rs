//! Well-known services: names of the ports that programs most often ask for.

/// Names and their ports. SCIF's ports are separate; here the numbers have only their names.
const SERVICES: &[(&core::ffi::CStr, u16)] = &[
    (c"echo", 7),
    (c"discard", 9),
    (c"daytime", 13),
    (c"chargen", 19),
    (c"ftp", 21),
    (c"ssh", 22),
    (c"telnet", 23),
    (c"smtp", 25),
    (c"time", 37),
    (c"http", 80),
    (c"https", 443),
];

/// Finds a service by its name.
pub fn by_name(name: &str) -> Option<(&'static core::ffi::CStr, u16)> {
    let is_it = |known: &core::ffi::CStr| known.to_bytes() == name.as_bytes();
    SERVICES.iter().copied().find(|(known, _)| is_it(known))
}

/// Finds a service by its port.
pub fn by_port(port: u16) -> Option<(&'static core::ffi::CStr, u16)> {
    SERVICES.iter().copied().find(|(_, known)| *known == port)
}

/// Parses a port, given as a number or as the name of its service.
pub fn port_of(text: &str) -> Option<u16> {
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => text.parse().ok(),
        false => by_name(text).map(|(_, port)| port),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_have_numbers_and_some_have_names() {
        assert_eq!(port_of("2050"), Some(2050));
        assert_eq!(port_of("0"), Some(0));
        assert_eq!(port_of("http"), Some(80));
        assert_eq!(by_port(7).map(|(name, _)| name), Some(c"echo"));
        for text in ["", "65536", "-1", "+1", "gopher", "80x"] {
            assert_eq!(port_of(text), None, "{text}");
        }
        assert!(by_port(2050).is_none());
    }
}
