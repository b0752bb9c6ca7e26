//! The owner of an endpoint.

/// The process and user that opened an endpoint, for the text files and the quotas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Process id.
    pub process: u32,
    /// User id at the time of opening; 0 may bind privileged ports.
    pub user: u32,
}

impl Owner {
    /// Whether this owner may bind ports below 1024.
    pub fn is_privileged(self) -> bool {
        self.user == 0
    }
}
