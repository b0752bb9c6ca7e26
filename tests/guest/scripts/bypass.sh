# One node: data that moves without the daemon, both ends here.

scif-bypass
