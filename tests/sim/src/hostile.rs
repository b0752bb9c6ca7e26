//! A peer that says anything.
