//! Port input and output.
