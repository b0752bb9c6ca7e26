syscall-fuzz 1 20
