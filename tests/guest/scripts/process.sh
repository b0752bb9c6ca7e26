# Processes, threads, credentials and names on one node.
process-test
