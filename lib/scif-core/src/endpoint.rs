//! Endpoints.

/// Names an endpoint of one engine. Never reused: an id of a closed endpoint is invalid for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId(pub(crate) u64);
