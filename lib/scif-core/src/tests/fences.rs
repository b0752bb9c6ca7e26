//! fences
