# Runs on both nodes before micd (see ../init.d/20_bare); the results go to the console.

scif-bare --doorbells --json >/scheme/console
