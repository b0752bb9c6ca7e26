# Rust's standard library: the status is the number of steps that failed.

std-test
