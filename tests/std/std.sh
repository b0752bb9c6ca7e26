# Rust's standard library: the status is the number of steps that failed. It starts std-abort, too.

std-test
