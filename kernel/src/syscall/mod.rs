//! System calls. (Placeholder: the entry the lower half calls.)

/// Handles one system call; `a` is the number, the result goes to rax.
pub fn dispatch(a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, g: usize) -> usize {
    let _ = (a, b, c, d, e, f, g);
    (-38isize) as usize
}
