//! mappings
